"""The objects in a cluster that belong to fakedev: ResourceSlices, ConfigMaps of fake-gpu-operator, NUMA topologies.

Their writers bring the objects in the API to the wanted ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from twisted.internet.defer import CancelledError
from zope.interface import implementer

from fakedev.fleet.fleet import Fleet
from fakedev.kubernetes.client.api_client import ApiClient
from fakedev.kubernetes.client.api_paths import Target, slice_path
from fakedev.kubernetes.client.watch import IWatchHandler
from fakedev.kubernetes.cluster import Cluster
from fakedev.kubernetes.devices.resource_slices import SliceChanges, changes, is_ours, is_slim, slim_slice
from fakedev.kubernetes.nodes.node_topology import GROUP, VERSION, node_topology, topology_state
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
#: In place of a node's name: all of them wait.
_ALL: Final = ""


class NodeObjects(Writer, ABC):
    """Keeps an object for each node. It is written whenever what it depends on has changed.

    :param kind: of the objects, for the log.
    :param flow: of the requests.
    :cvar remedy: what helps where the server does not have the kind.
    """

    remedy = ""

    def __init__(self, client: ApiClient, kind: str, flow: str) -> None:
        super().__init__(client)
        self.activity = f"writing a {kind}"
        self._kind, self._flow = kind, flow
        #: What each node's object depends on, as it was compared last.
        self._compared: dict[str, object] = {}
        #: What is in the cluster, as far as known; and what should be there, None: nothing.
        self._present: dict[str, Item] = {}
        self._wanted: dict[str, Item | None] = {}
        self._writing: set[str] = set()

    @abstractmethod
    def _states(self) -> Mapping[str, object]:
        """What the object of each node depends on, by the node's name."""

    @abstractmethod
    def _item(self, name: str) -> Item | None:
        """The object of a node; None: it has none."""

    @abstractmethod
    def _target(self, name: str = "") -> Target:
        """The path of a node's object; of all without a name."""

    def ticked(self) -> None:
        """Compare some nodes with what has changed, and write what is new."""
        states = self._states()
        for name in [name for name in self._compared if name not in states]:
            del self._compared[name]
            self._wanted[name] = None
        compared = 0
        for name, state in states.items():
            if self._compared.get(name) == state:
                continue
            compared += 1
            if compared > _NODES_AT_ONCE or len(self._wanted) > _NODES_AT_ONCE:
                break
            self._compared[name] = state
            item = self._item(name)
            if self._present.get(name) != item or name in self._writing:
                self._wanted[name] = item
        self._write()

    def _write(self) -> None:
        for name in list(self._wanted):
            if self._is_stopped or _ALL in self.retries or len(self._writing) >= _MOST_WRITING:
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
            is_unknown = error.code == 404  # the kind, or the namespace: it is so for all nodes
            if not is_unknown or _ALL not in self.retries:
                text = "the {kind} of {node} is not written: {reason}{remedy}"
                remedy = self.remedy if is_unknown else ""
                self.log.error(text, kind=self._kind, node=name, reason=str(error), remedy=remedy)
            self._put_back(name, item)
            self.retries.later(_ALL if is_unknown else name, AGAIN_SECONDS, no_op)
        except CancelledError:
            self._put_back(name, item)  # the lease was lost: it is written when it is there again
            raise
        finally:
            self._writing.discard(name)
        self._write()

    async def _put(self, name: str, item: Item) -> None:
        changed = {key: value for key, value in item.items() if key not in ("apiVersion", "kind")}
        try:
            await self._client.merge_patch(self._target(name).path, changed, flow=self._flow)
        except ApiError as error:
            if error.code != 404:
                raise
            await self._client.request("POST", self._target().path, body=item, flow=self._flow)

    async def _delete(self, name: str) -> None:
        try:
            await self._client.request("DELETE", self._target(name).path, flow=self._flow)
        except ApiError as error:
            if error.code != 404:
                raise

    def _put_back(self, name: str, item: Item | None) -> None:
        """Want what was not written, with a later tick, unless something else is wanted by now."""
        if item is None:
            self._present.setdefault(name, {})
        self._wanted.setdefault(name, item)


class ConfigMapWriter(NodeObjects):
    """The ConfigMap of each node, as fake-gpu-operator keeps it: pods that come and go change it.

    :param uid_of: the UID of a node, which then owns its ConfigMap: it is deleted with the node also while fakedev is
        away. Empty: the cluster does not have that node.
    """

    def __init__(
        self, client: ApiClient, topology: OperatorTopology, fleet: Fleet, uid_of: Callable[[str], str]
    ) -> None:
        super().__init__(client, "ConfigMap", "configmaps")
        self._topology = topology
        self._fleet = fleet
        self._uid_of = uid_of

    def _states(self) -> Mapping[str, object]:
        version, labels_version = self._topology.version, self._fleet.labels.version
        return {
            node.name: (version, labels_version(node, is_shared=True), self._uid_of(node.name))
            for node in self._fleet.roster.shown
        }

    def _item(self, name: str) -> Item | None:
        node, namespace = self._fleet.roster.node(name), self._client.server.namespace
        assert node is not None
        return topology_config_map(name, self._topology.node(node), namespace, self._uid_of(name))

    def _target(self, name: str = "") -> Target:
        return Target("", "v1", "configmaps", self._client.server.namespace, name and config_map_name(name))


class TopologyWriter(NodeObjects):
    """The object NodeResourceTopology of each node: devices that are given or fail change it."""

    remedy = ": apply etc/kubernetes/components/node-topologies, or leave node-topologies: out"

    def __init__(self, client: ApiClient, topology: OperatorTopology, cluster: Cluster) -> None:
        super().__init__(client, "NodeResourceTopology", "topologies")
        self._topology, self._cluster = topology, cluster

    def ticked(self) -> None:
        if not self._cluster.pods.is_waiting:  # else nobody knows what pods have
            super().ticked()

    def _states(self) -> Mapping[str, object]:
        version = self._topology.version
        return {node.name: (version, node.uid, *topology_state(node)) for node in self._cluster.nodes}

    def _item(self, name: str) -> Item | None:
        node = self._cluster.nodes.get(name)
        layout = self._topology.numa_layout(node.pool.name) if node is not None else None
        return node_topology(node, layout) if node is not None and layout is not None else None

    def _target(self, name: str = "") -> Target:
        return Target(GROUP, VERSION, "noderesourcetopologies", "", name)
