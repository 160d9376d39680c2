"""The ConfigMaps ``topology-NODE`` of fake-gpu-operator, kept as the fleet is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from fakedev.kube.operator_objects import config_map_name, topology_config_map
from fakedev.net.fleet.operator_topology import OperatorTopology
from fakedev.net.kube.api_client import ApiClient
from fakedev.net.kube.api_error import ApiError
from fakedev.net.kube.paths import Target
from fakedev.sim.fleet import Fleet

#: Nodes that are compared in one tick, and ConfigMaps that are written at a time.
_NODES_AT_ONCE: Final = 20
_MOST_WRITING: Final = 8
#: What the server refused is tried again after this time.
_AGAIN_SECONDS: Final = 30.0

Item = Mapping[str, Any]


class ConfigMapWriter:
    """Writes a ConfigMap for each node, whenever its labels have changed: pods that come and go change them.

    :param uid_of: the UID of a node, which then owns its ConfigMap: it is deleted with the node also while fakedev is
        away. Empty: the cluster does not have that node.
    """

    log = Logger()

    def __init__(
        self, client: ApiClient, topology: OperatorTopology, fleet: Fleet, uid_of: Callable[[str], str]
    ) -> None:
        self._client = client
        self._topology = topology
        self._fleet = fleet
        self._uid_of = uid_of
        #: The versions of the topology and of each node's labels that were compared last, and the node's UID then.
        self._compared: dict[str, tuple[int, int, str]] = {}
        #: What is in the cluster, as far as known; and what is to be there, None: nothing.
        self._present: dict[str, Item] = {}
        self._wanted: dict[str, Item | None] = {}
        self._writing: set[str] = set()
        self._later: dict[str, IDelayedCall] = {}
        self._is_stopped = False

    def stop(self) -> None:
        """Write nothing more."""
        self._is_stopped = True
        for call in self._later.values():
            call.cancel()
        self._later.clear()

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
            if name not in self._writing and name not in self._later:
                self._writing.add(name)
                Deferred.fromCoroutine(self._change(name, self._wanted.pop(name))).addErrback(self._failed)

    def _failed(self, failure: Any) -> None:
        if failure.check(CancelledError) is None:
            self.log.failure("writing ConfigMaps failed by an internal error", failure=failure)

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
            if not self._is_stopped:
                self._later[name] = self._client.clock.callLater(_AGAIN_SECONDS, self._later.pop, name)
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
