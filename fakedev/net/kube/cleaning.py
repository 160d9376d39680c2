"""Removes from a cluster all that fakedev wrote to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from fakedev.kube.cluster_node import slim_node
from fakedev.kube.dra_slices import MADE_BY
from fakedev.kube.node_status import NodePatches, clean_patches
from fakedev.net.kube.api_client import ApiClient
from fakedev.net.kube.api_error import NO_ANSWER, ApiError
from fakedev.net.kube.listing import list_all
from fakedev.net.kube.paths import Target, node_path
from fakedev.net.kube.slice_writer import SLICES_PATH

#: How often a node is read again that somebody else changes meanwhile.
_MOST_CONFLICTS: Final = 3
_LEASE: Final = re.compile(r"fakedev-\d+-of-\d+")
_OURS: Final = ",".join(f"{name}={value}" for name, value in MADE_BY.items())


class Cleaning:
    """One cleaning of a cluster.

    :param tell: called with a line for each object that is changed or deleted.
    :param is_dry: nothing is changed, only told.
    :ivar count: the objects that were changed or deleted.
    :ivar problems: what the server refused, a line each; all else is done.
    """

    def __init__(self, client: ApiClient, tell: Callable[[str], None], *, is_dry: bool) -> None:
        self._client = client
        self._tell = tell
        self._is_dry = is_dry
        self.count = 0
        self.problems: list[str] = []

    async def clean(self) -> None:
        """Clean nodes, ResourceSlices, ConfigMaps and Leases.

        :raises ApiError: when the API server cannot be reached.
        """
        namespace = self._client.server.namespace
        await self._attempt("the nodes", self._clean_nodes())
        for path, kind, labels, chosen in (
            (SLICES_PATH, "ResourceSlice", _OURS, _every),
            (Target("", "v1", "configmaps", namespace).path, "ConfigMap", _OURS, _every),
            (Target("coordination.k8s.io", "v1", "leases", namespace).path, "Lease", "", _is_lease),
        ):
            await self._attempt(f"{kind}s", self._delete_all(path, kind, labels, chosen))
        self.problems += self._client.troubles.texts

    async def _attempt(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        """Do a part of the work; what the server refuses of it is noted, so that the others are done."""
        try:
            await work
        except ApiError as error:
            if error.code == NO_ANSWER:
                raise
            if error.code != 403:  # else the client knows which rule of a Role is missing
                self.problems.append(f"{what}: {error.message}")

    async def _clean_nodes(self) -> None:
        nodes, _ = await list_all(self._client, "/api/v1/nodes", read=_written_node, attempts=1)
        for item in nodes:
            await self._attempt(f"node {item['metadata']['name']}", self._clean_node(item))

    async def _clean_node(self, item: Mapping[str, Any]) -> None:
        name = item["metadata"]["name"]
        for attempt in range(_MOST_CONFLICTS + 1):
            patches = clean_patches(item)
            if not patches:
                return
            try:
                await self._patch(name, patches)
            except ApiError as error:
                if error.code == 404:
                    return
                if error.code != 409 or attempt == _MOST_CONFLICTS:
                    raise
                item = await self._client.request("GET", node_path(name), attempts=1)
            else:
                return

    async def _patch(self, name: str, patches: NodePatches) -> None:
        if not self._is_dry:
            if patches.spec is not None:
                await self._client.merge_patch(node_path(name), patches.spec)
            if patches.status is not None:
                await self._client.merge_patch(node_path(name, "status"), patches.status)
        self._done(f"node {name}: {'would be ' if self._is_dry else ''}cleaned")

    async def _delete_all(self, path: str, kind: str, labels: str, chosen: Callable[[str], bool]) -> None:
        try:
            names, _ = await list_all(self._client, path, label_selector=labels, read=_name, attempts=1)
        except ApiError as error:
            if error.code == 404:
                return  # the cluster does not know the kind
            raise
        for name in filter(chosen, names):
            await self._attempt(f"{kind} {name}", self._delete(f"{path}/{name}", f"{kind} {name}"))

    async def _delete(self, path: str, shown: str) -> None:
        if not self._is_dry:
            try:
                await self._client.request("DELETE", path)
            except ApiError as error:
                if error.code != 404:
                    raise
        self._done(f"{shown}: {'would be ' if self._is_dry else ''}deleted")

    def _done(self, text: str) -> None:
        self.count += 1
        self._tell(text)


def _written_node(item: Mapping[str, Any]) -> dict[str, Any] | None:
    node = slim_node(item)
    return node if clean_patches(node) else None


def _every(_: str) -> bool:
    return True


def _is_lease(name: str) -> bool:
    return _LEASE.fullmatch(name) is not None


def _name(item: Mapping[str, Any]) -> str:
    return str(item["metadata"]["name"])
