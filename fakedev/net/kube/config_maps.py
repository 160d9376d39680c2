"""The ConfigMaps ``topology-NODE`` of fake-gpu-operator, kept as the fleet is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
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


class ConfigMapWriter:
    """Writes a ConfigMap for each node, whenever its labels have changed: pods that come and go change them."""

    log = Logger()

    def __init__(self, client: ApiClient, topology: OperatorTopology, fleet: Fleet) -> None:
        self._client = client
        self._topology = topology
        self._fleet = fleet
        #: What is in the cluster, as far as known: the version of the node's labels, and the data.
        self._versions: dict[str, int] = {}
        self._written: dict[str, Mapping[str, Any]] = {}
        self._writing: set[str] = set()
        self._is_stopped = False

    def stop(self) -> None:
        """Write nothing more."""
        self._is_stopped = True

    def ticked(self) -> None:
        """Compare some nodes whose labels have changed, and write what is new."""
        shown = {node.name: node for node in self._fleet.roster.shown}
        for name in [name for name in self._versions if name not in shown]:
            del self._versions[name]
            if self._written.pop(name, None) is not None:
                self._run(name, None)
        compared = 0
        for name, node in shown.items():
            version = self._fleet.labels_version(node, is_shared=True)
            if self._versions.get(name) == version or name in self._writing:
                continue
            compared += 1
            if compared > _NODES_AT_ONCE or len(self._writing) >= _MOST_WRITING:
                return
            item = topology_config_map(name, self._topology.node(node), self._client.server.namespace)
            self._versions[name] = version
            if self._written.get(name) != item["data"]:
                self._run(name, item)

    def _run(self, name: str, item: Mapping[str, Any] | None) -> None:
        if not self._is_stopped:
            self._writing.add(name)
            Deferred.fromCoroutine(self._write(name, item)).addErrback(self._failed)

    def _failed(self, failure: Any) -> None:
        if failure.check(CancelledError) is None:
            self.log.failure("writing ConfigMaps failed by an internal error", failure=failure)

    async def _write(self, name: str, item: Mapping[str, Any] | None) -> None:
        target = Target("", "v1", "configmaps", self._client.server.namespace, config_map_name(name))
        try:
            if item is None:
                await self._client.request("DELETE", target.path, flow="configmaps")
                return
            changed = {"metadata": {"labels": item["metadata"].get("labels", {})}, "data": item["data"]}
            try:
                await self._client.merge_patch(target.path, changed, flow="configmaps")
            except ApiError as error:
                if error.code != 404:
                    raise
                path = Target("", "v1", "configmaps", target.namespace).path
                await self._client.request("POST", path, body=item, flow="configmaps")
            self._written[name] = item["data"]
        except CancelledError:
            self._versions.pop(name, None)  # to be compared again
            raise
        except ApiError as error:
            self._versions.pop(name, None)  # to be compared again
            if error.code != 404 or item is not None:
                self.log.error("the ConfigMap of {node} is not written: {reason}", node=name, reason=str(error))
        finally:
            self._writing.discard(name)
