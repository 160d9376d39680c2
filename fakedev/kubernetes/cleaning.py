"""Removes from a cluster all that fakedev wrote to it; and prints what its objects DeviceFault have done."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from fakedev.base.console import write_text
from fakedev.fleet.spec.offers import KubernetesSettings
from fakedev.kubernetes.client.api_client import ApiClient
from fakedev.kubernetes.client.api_paths import Target, node_path, pod_path
from fakedev.kubernetes.client.watch import list_all
from fakedev.kubernetes.devices.resource_slices import MADE_BY
from fakedev.kubernetes.faults.device_fault import FAULTS_PATH, proof_rows, table
from fakedev.kubernetes.nodes.node_status import NodePatches, clean_patches, slim_node
from fakedev.kubernetes.nodes.node_topology import TOPOLOGIES_PATH
from fakedev.kubernetes.owned_objects import SLICES_PATH
from fakedev.kubernetes.part import make_client
from fakedev.kubernetes.pods import DEVICES, Pod, read_pod
from fakedev.runtime.http_client import NO_ANSWER, ApiError
from fakedev.runtime.listening import CannotStart
from fakedev.runtime.reactor import program_reactor
from fakedev.runtime.signals import stop_reactor

#: How often a node is read again that somebody else changes meanwhile.
_MOST_CONFLICTS: Final = 3
_LEASE: Final = re.compile(r"fakedev-\d+-of-\d+")
_OURS: Final = {"labelSelector": ",".join(f"{name}={value}" for name, value in MADE_BY.items())}


class Cleaning:
    """One cleaning of a cluster.

    :param show: called with a line for each object that is changed or deleted.
    :param is_dry: nothing is changed, only shown.
    :param selector: of the nodes, as kubectl takes it; their slices and pods count. Empty: all nodes, and fakedev's
        ConfigMaps and Leases.
    :ivar count: the objects that were changed or deleted.
    :ivar problems: what the server refused, a line each; all else is done.
    """

    def __init__(self, client: ApiClient, show: Callable[[str], None], *, is_dry: bool, selector: str = "") -> None:
        self._client = client
        self._show = show
        self._is_dry = is_dry
        self._selector = selector
        self._nodes: set[str] = set()
        self.count = 0
        self.problems: list[str] = []

    async def clean(self) -> None:
        """Clean nodes, pods, ResourceSlices, objects NodeResourceTopology, ConfigMaps and Leases.

        :raises ApiError: when the API server cannot be reached.
        """
        namespace = self._client.server.namespace
        await self._attempt("the nodes", self._clean_nodes())
        await self._attempt("the pods", self._clean_pods())
        slices = self._delete_all(SLICES_PATH, "ResourceSlice", _OURS, self._name_of_slice)
        await self._attempt("ResourceSlices", slices)
        topologies = self._delete_all(TOPOLOGIES_PATH, "NodeResourceTopology", _OURS, self._name_of_topology)
        await self._attempt("objects NodeResourceTopology", topologies)
        for path, kind, selector, chosen in () if self._selector else (
            (Target("", "v1", "configmaps", namespace).path, "ConfigMap", _OURS, _name),
            (Target("coordination.k8s.io", "v1", "leases", namespace).path, "Lease", {}, _name_of_lease),
        ):
            await self._attempt(f"{kind}s", self._delete_all(path, kind, selector, chosen))
        self.problems += self._client.open_problems.texts

    async def _attempt(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        """Do a part of the work; what the server refuses of it is noted, so that the others are done."""
        try:
            await work
        except ApiError as error:
            if error.code == NO_ANSWER:
                raise
            if error.code != 403:  # else the client has logged which rule of a Role is missing
                self.problems.append(f"{what}: {error.message}")

    async def _clean_nodes(self) -> None:
        query = {"labelSelector": self._selector} if self._selector else {}
        nodes, _ = await list_all(self._client, "/api/v1/nodes", query=query, read=slim_node, attempts=1)
        self._nodes = {item["metadata"]["name"] for item in nodes}
        for item in filter(clean_patches, nodes):
            await self._attempt(f"node {item['metadata']['name']}", self._clean_node(item))

    async def _clean_pods(self) -> None:
        """Remove the annotation with the devices of a pod."""
        query = {"fieldSelector": "spec.nodeName!="}
        pods, _ = await list_all(self._client, "/api/v1/pods", query=query, read=read_pod, attempts=1)
        for pod in pods:
            if pod.devices and pod.node in self._nodes:
                shown = f"pod {pod.namespace}/{pod.name}"
                await self._attempt(shown, self._clean_pod(pod, shown))

    async def _clean_pod(self, pod: Pod, shown: str) -> None:
        if not self._is_dry:
            patch = {"metadata": {"annotations": {DEVICES: None}}}
            try:
                await self._client.merge_patch(pod_path(pod.namespace, pod.name, "status"), patch)
            except ApiError as error:
                if error.code != 404:
                    raise
        self._done(f"{shown}: {'would be ' if self._is_dry else ''}cleaned")

    def _name_of_slice(self, item: Mapping[str, Any]) -> str | None:
        """The name of a slice of a node that is cleaned; of all where all are."""
        is_chosen = not self._selector or item["spec"].get("nodeName") in self._nodes
        return _name(item) if is_chosen else None

    def _name_of_topology(self, item: Mapping[str, Any]) -> str | None:
        return _name(item) if not self._selector or _name(item) in self._nodes else None

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

    async def _delete_all(
        self, path: str, kind: str, selector: Mapping[str, str], chosen: Callable[[Mapping[str, Any]], str | None]
    ) -> None:
        """Delete the objects of a kind whose names are given by ``chosen``."""
        try:
            names, _ = await list_all(self._client, path, query=selector, read=chosen, attempts=1)
        except ApiError as error:
            if error.code == 404:
                return  # the cluster does not have the kind
            raise
        for name in names:
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
        self._show(text)


def _name(item: Mapping[str, Any]) -> str:
    return str(item["metadata"]["name"])


def _name_of_lease(item: Mapping[str, Any]) -> str | None:
    return _name(item) if _LEASE.fullmatch(_name(item)) else None


_INTERRUPTED = 130
#: How often the proof looks again.
_LOOK_SECONDS: Final = 0.5


def clean_cluster(
    settings: KubernetesSettings, show: Callable[[str], None], *, is_dry: bool, selector: str = ""
) -> int:
    """Remove all that fakedev wrote to a cluster, or to the nodes of a selector.

    :returns: 0; 1 after a line for each reason; 2 after the same, when the API server cannot be used; 130 after Ctrl-C.
    """

    async def clean(client: ApiClient) -> int:
        cleaning = Cleaning(client, show, is_dry=is_dry, selector=selector)
        await cleaning.clean()
        for text in cleaning.problems:
            write_text(sys.stderr, f"fakedev kube clean: {text}\n")
        show(f"{cleaning.count} objects {'would be ' if is_dry else ''}cleaned")
        return 1 if cleaning.problems else 0

    return run_with_client(settings, "clean", clean)


def prove_faults(settings: KubernetesSettings, show: Callable[[str], None], *, wait_seconds: float) -> int:
    """Print where the faults of a cluster's objects DeviceFault are seen.

    :param wait_seconds: how long to wait until all are.
    :returns: as :func:`run_with_client`.
    """
    return run_with_client(settings, "proof", partial(proof, show=show, wait_seconds=wait_seconds))


async def proof(client: ApiClient, show: Callable[[str], None], wait_seconds: float) -> int:
    """The same with a client; 1 when there is no object, or one has not landed.

    :raises ApiError: when the server does not list them.
    """
    end = client.clock.seconds() + wait_seconds
    while True:
        items, _ = await list_all(client, FAULTS_PATH, attempts=1)
        rows = list(proof_rows(items))
        has_landed = bool(rows) and all(landed for landed, _ in rows)
        if has_landed or client.clock.seconds() >= end:
            break
        await deferLater(client.clock, _LOOK_SECONDS)
    for line in table([cells for _, cells in rows]) if rows else ["there is no DeviceFault"]:
        show(line)
    return 0 if has_landed else 1


def run_with_client(
    settings: KubernetesSettings, name: str, work: Callable[[ApiClient], Coroutine[Any, Any, int]]
) -> int:
    """Run a subcommand of ``fakedev kube`` with a client of the API server.

    :returns: what the work returns; 1 after a line with the reason when the server refuses it, 2 when the server cannot
        be used, 130 after Ctrl-C.
    """
    reactor = program_reactor()
    try:
        client = make_client(settings, reactor)
    except CannotStart as reason:
        write_text(sys.stderr, f"{reason}\n")
        return reason.code
    codes: list[int] = []

    async def run() -> int:
        try:
            return await work(client)
        except ApiError as error:
            write_text(sys.stderr, f"fakedev kube {name}: {error.message}\n")
            return 1

    def internal(failure: Failure) -> int:
        write_text(sys.stderr, f"fakedev kube {name}: an internal error: {failure.getTraceback()}")
        return 1

    def begin() -> None:
        running = Deferred.fromCoroutine(run()).addErrback(internal).addCallback(codes.append)
        running.addBoth(lambda _: client.stop()).addBoth(lambda _: stop_reactor(reactor))

    reactor.callWhenRunning(begin)
    reactor.run()
    return codes[0] if codes else _INTERRUPTED
