"""The objects in a cluster that belong to fakedev: ResourceSlices, and the ConfigMaps of fake-gpu-operator.

Their writers bring the objects in the API to the wanted ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from twisted.internet.defer import CancelledError
from zope.interface import implementer

from fakedev.fleet.fleet import Fleet
from fakedev.kubernetes.client.api_client import ApiClient
from fakedev.kubernetes.client.api_paths import Target, slice_path
from fakedev.kubernetes.client.watch import IWatchHandler
from fakedev.kubernetes.devices.resource_slices import SliceChanges, changes, is_ours, is_slim, slim_slice
from fakedev.kubernetes.runai.operator import config_map_name, topology_config_map
from fakedev.kubernetes.runai.operator_port import OperatorTopology
from fakedev.kubernetes.writer import AGAIN_SECONDS, MOST_CONFLICTS, Writer
from fakedev.runtime.clock import no_op
from fakedev.runtime.http_client import ApiError

SLICES_PATH: Final = slice_path()
CLAIMS_PATH: Final = "/apis/resource.k8s.io/v1/resourceclaims"
Item = Mapping[str, Any]


def our_slice(item: Item) -> Item | None:
    """What is kept of a slice's object; None when another driver made it."""
    return slim_slice(item) if is_ours(item) else None


@implementer(IWatchHandler)
class SliceWriter(Writer):
    """Brings our ResourceSlices to the wanted ones: one request after the other for each node.

    It is the handler of the watch of slices. Of slices that are as wanted only digests are kept.

    :param ask: called with a node whose wanted slices are needed once more.
    :param changed: called when there is room for further nodes.
    """

    activity = "writing ResourceSlices"

    def __init__(self, client: ApiClient, ask: Callable[[str], None], changed: Callable[[], None]) -> None:
        super().__init__(client)
        self._ask, self._changed = ask, changed
        self._present: dict[str, dict[str, Item]] = {}
        self._wanted: dict[str, Sequence[Item]] = {}
        self._busy: set[str] = set()
        self._is_listed = False

    @property
    def room(self) -> int:
        """How many more nodes can be taken now: the slices of a node need much memory until they are written."""
        return max(_MOST_AT_ONCE - len(self._busy), 0)

    def want(self, node: str, slices: Sequence[Item]) -> None:
        self._wanted[node] = slices
        self._write(node)

    def leave(self, node: str) -> None:
        """Neither make nor delete slices of a node until others are wanted."""
        self._wanted.pop(node, None)

    # -- the watch --------------------------------------------------------------------------------

    def listed(self, items: list[Item]) -> None:
        self._present = {}
        for item in items:
            self._note(item)
        self._is_listed = True
        for node in list(self._wanted):
            self._write(node)

    def changed(self, item: Item) -> None:
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
        self._present.setdefault(node, {})[name] = slim_slice(item)

    # -- writing ----------------------------------------------------------------------------------

    def _write(self, node: str) -> None:
        if self._is_stopped or not self._is_listed or node in self._busy or node not in self._wanted:
            return
        wanted, present = self._wanted[node], list(self._present.get(node, {}).values())
        if not wanted and not present:
            del self._wanted[node]  # a node that is no longer simulated
            return
        if needed := self._needed(node):
            self._busy.add(node)
            self._run(self._change(node, needed))

    def _needed(self, node: str) -> SliceChanges:
        """What must be sent of a node now."""
        wanted = self._wanted[node]
        found = changes(wanted, list(self._present.get(node, {}).values()))
        if not found:
            self._wanted[node] = [slim_slice(each) for each in wanted]
        elif any(map(is_slim, wanted)):
            self._ask(node)
            return SliceChanges()
        return found

    async def _change(self, node: str, needed: SliceChanges) -> None:
        try:
            for _ in range(MOST_CONFLICTS):
                try:
                    await self._send(node, needed)
                except ApiError as error:
                    if error.code not in (404, 409):
                        raise
                    await self._read_again(node)
                if node not in self._wanted or not (needed := self._needed(node)):
                    return
            self.log.error(_NOT_KEPT, node=node)
        except ApiError as error:
            self.log.error("the ResourceSlices of {node}: {reason}", node=node, reason=str(error))
        finally:
            self._busy.discard(node)
            self._changed()
        self.retries.later(node, AGAIN_SECONDS, self._write, node)

    async def _send(self, node: str, needed: SliceChanges) -> None:
        for item in needed.create:
            self._note(await self._client.request("POST", SLICES_PATH, body=item, flow="slices"))
        for item in needed.replace:
            path = slice_path(item["metadata"]["name"])
            self._note(await self._client.request("PUT", path, body=item, flow="slices"))
        for name in needed.delete:
            await self._client.request("DELETE", slice_path(name), flow="slices")
            self._present.get(node, {}).pop(name, None)

    async def _read_again(self, node: str) -> None:
        """Another writer was faster, or a slice is gone: look at each that is known or wanted.

        :raises ApiError: what is known stays as it was.
        """
        names = {*self._present.get(node, ()), *(each["metadata"]["name"] for each in self._wanted.get(node, ()))}
        found = {}
        for name in sorted(names):
            try:
                item = await self._client.request("GET", slice_path(name), flow="slices")
            except ApiError as error:
                if error.code != 404:
                    raise
                continue
            if is_ours(item):
                found[name] = slim_slice(item)
        self._present[node] = found


_NOT_KEPT: Final = (
    "the API server does not keep the ResourceSlices of {node} as they were sent: does it have the features that they "
    "need, as Kubernetes 1.36 has?"
)
#: Nodes whose slices are written at a time.
_MOST_AT_ONCE: Final = 16
#: Nodes that are compared in one tick, and ConfigMaps that are written at a time.
_NODES_AT_ONCE: Final = 20
_MOST_WRITING: Final = 8

class ConfigMapWriter(Writer):
    """Writes a ConfigMap for each node, whenever its labels have changed: pods that come and go change them.

    :param uid_of: the UID of a node, which then owns its ConfigMap: it is deleted with the node also while fakedev is
        away. Empty: the cluster does not have that node.
    """

    activity = "writing ConfigMaps"

    def __init__(
        self, client: ApiClient, topology: OperatorTopology, fleet: Fleet, uid_of: Callable[[str], str]
    ) -> None:
        super().__init__(client)
        self._topology = topology
        self._fleet = fleet
        self._uid_of = uid_of
        #: The versions of the topology and of each node's labels that were compared last, and the node's UID then.
        self._compared: dict[str, tuple[int, int, str]] = {}
        #: What is in the cluster, as far as known; and what should be there, None: nothing.
        self._present: dict[str, Item] = {}
        self._wanted: dict[str, Item | None] = {}
        self._writing: set[str] = set()

    def ticked(self) -> None:
        """Compare some nodes whose labels have changed, and write what is new."""
        shown = {node.name: node for node in self._fleet.roster.shown}
        for name in [name for name in self._compared if name not in shown]:
            del self._compared[name]
            self._wanted[name] = None
        compared = 0
        for name, node in shown.items():
            uid = self._uid_of(name)
            state = self._topology.version, self._fleet.labels_version(node, is_shared=True), uid
            if self._compared.get(name) == state:
                continue
            compared += 1
            if compared > _NODES_AT_ONCE or len(self._wanted) > _NODES_AT_ONCE:
                break
            self._compared[name] = state
            item = topology_config_map(name, self._topology.node(node), self._client.server.namespace, uid)
            if self._present.get(name) != item or name in self._writing:
                self._wanted[name] = item
        self._write()

    def _write(self) -> None:
        for name in list(self._wanted):
            if self._is_stopped or len(self._writing) >= _MOST_WRITING:
                return
            if name not in self._writing and name not in self.retries:
                self._writing.add(name)
                self._run(self._change(name, self._wanted.pop(name)))

    async def _change(self, name: str, item: Item | None) -> None:
        try:
            if item is not None:
                await self._put(name, item)
                self._present[name] = item
            elif self._present.pop(name, None) is not None:
                await self._delete(name)
        except ApiError as error:
            self.log.error("the ConfigMap of {node} is not written: {reason}", node=name, reason=str(error))
            self._put_back(name, item)
            self.retries.later(name, AGAIN_SECONDS, no_op)
        except CancelledError:
            self._put_back(name, item)  # the lease was lost: it is written when it is there again
            raise
        finally:
            self._writing.discard(name)
        self._write()

    async def _put(self, name: str, item: Item) -> None:
        target = self._target(name)
        changed = {"metadata": {**item["metadata"]}, "data": item["data"]}
        try:
            await self._client.merge_patch(target.path, changed, flow="configmaps")
        except ApiError as error:
            if error.code != 404:
                raise
            path = Target("", "v1", "configmaps", target.namespace).path
            await self._client.request("POST", path, body=item, flow="configmaps")

    async def _delete(self, name: str) -> None:
        try:
            await self._client.request("DELETE", self._target(name).path, flow="configmaps")
        except ApiError as error:
            if error.code != 404:
                raise

    def _target(self, name: str) -> Target:
        return Target("", "v1", "configmaps", self._client.server.namespace, config_map_name(name))

    def _put_back(self, name: str, item: Item | None) -> None:
        """Want what was not written, with a later tick, unless something else is wanted by now."""
        if item is None:
            self._present.setdefault(name, {})
        self._wanted.setdefault(name, item)
