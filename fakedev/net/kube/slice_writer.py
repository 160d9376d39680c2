"""The ResourceSlices of nodes in the API, brought to those that are wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from fakedev.kube.dra_slices import SliceChanges, changes, is_ours
from fakedev.net.kube.api_client import ApiClient
from fakedev.net.kube.api_error import ApiError
from fakedev.net.kube.paths import Target

_GROUP: Final = "resource.k8s.io"
SLICES_PATH: Final = f"/apis/{_GROUP}/v1/resourceslices"
CLAIMS_PATH: Final = f"/apis/{_GROUP}/v1/resourceclaims"
#: What could not be written is compared again after this time.
_AGAIN_SECONDS: Final = 30.0
#: Conflicts of one node in a row; then it waits, too.
_MOST_CONFLICTS: Final = 3

Item = Mapping[str, Any]


def our_slice(item: Item) -> Item | None:
    """What is kept of a slice's object; None when another driver made it."""
    return item if is_ours(item) else None


class SliceWriter:
    """Knows the slices of ours that there are, and changes them; one request after the other for each node.

    It is the handler of the watch of slices.
    """

    log = Logger()

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._present: dict[str, dict[str, Item]] = {}
        self._wanted: dict[str, Sequence[Item]] = {}
        self._busy: set[str] = set()
        self._later: dict[str, IDelayedCall] = {}
        self._is_listed = self._is_stopped = False

    def want(self, node: str, slices: Sequence[Item]) -> None:
        """From now on these are the slices of a node."""
        self._wanted[node] = slices
        self._write(node)

    def stop(self) -> None:
        """Write nothing more."""
        self._is_stopped = True
        for call in self._later.values():
            call.cancel()
        self._later.clear()

    # -- the watch --------------------------------------------------------------------------------

    def listed(self, items: list[Item]) -> None:
        """See WatchHandler."""
        self._present = {}
        for item in items:
            self._note(item)
        self._is_listed = True
        for node in list(self._wanted):
            self._write(node)

    def changed(self, item: Item) -> None:
        """See WatchHandler."""
        self._note(item)
        self._write(item["spec"].get("nodeName", ""))

    def deleted(self, item: Item) -> None:
        """A slice is gone: its kubelet deletes those of a driver that is away; it is made again."""
        node = item["spec"].get("nodeName", "")
        self._present.get(node, {}).pop(item["metadata"]["name"], None)
        self._write(node)

    def lost(self, reason: str) -> None:
        """Nothing is written until there is a new list."""
        self._is_listed = False

    def _note(self, item: Item) -> None:
        node, name = item["spec"].get("nodeName", ""), item["metadata"]["name"]
        self._present.setdefault(node, {})[name] = item

    # -- writing ----------------------------------------------------------------------------------

    def _write(self, node: str) -> None:
        if self._is_stopped or not self._is_listed or node in self._busy or node not in self._wanted:
            return
        wanted, present = self._wanted[node], list(self._present.get(node, {}).values())
        if not wanted and not present:
            del self._wanted[node]  # a node that is no longer simulated
            return
        if changes(wanted, present):
            self._busy.add(node)
            Deferred.fromCoroutine(self._change(node)).addErrback(self._failed)

    def _failed(self, failure: Any) -> None:
        if failure.check(CancelledError) is None:
            self.log.failure("writing ResourceSlices failed by an internal error", failure=failure)

    async def _change(self, node: str) -> None:
        conflicts = 0
        try:
            while conflicts < _MOST_CONFLICTS and node in self._wanted:
                needed = changes(self._wanted[node], list(self._present.get(node, {}).values()))
                if not needed:
                    return
                try:
                    await self._send(node, needed)
                except ApiError as error:
                    if error.code not in (404, 409):
                        raise
                    conflicts += 1
                    await self._read_again(node)
        except ApiError as error:
            self.log.error("the ResourceSlices of {node}: {reason}", node=node, reason=str(error))
        finally:
            self._busy.discard(node)
        self._again_later(node)

    async def _send(self, node: str, needed: SliceChanges) -> None:
        for item in needed.create:
            self._note(await self._client.request("POST", SLICES_PATH, body=item, flow="slices"))
        for item in needed.replace:
            path = _path(item["metadata"]["name"])
            self._note(await self._client.request("PUT", path, body=item, flow="slices"))
        for name in needed.delete:
            await self._client.request("DELETE", _path(name), flow="slices")
            self._present.get(node, {}).pop(name, None)

    async def _read_again(self, node: str) -> None:
        """Another writer was faster, or a slice is gone: look at each that is known or wanted.

        :raises ApiError: what is known stays as it was.
        """
        names = {*self._present.get(node, ()), *(each["metadata"]["name"] for each in self._wanted.get(node, ()))}
        found = {}
        for name in sorted(names):
            try:
                item = await self._client.request("GET", _path(name), flow="slices")
            except ApiError as error:
                if error.code != 404:
                    raise
                continue
            if is_ours(item):
                found[name] = item
        self._present[node] = found

    def _again_later(self, node: str) -> None:
        if node not in self._later and not self._is_stopped:
            self._later[node] = self._client.clock.callLater(_AGAIN_SECONDS, self._again, node)

    def _again(self, node: str) -> None:
        del self._later[node]
        self._write(node)


def _path(name: str) -> str:
    return Target(_GROUP, "v1", "resourceslices", "", name).path
