"""Follows a cluster: its nodes become those of the fleet, its pods the fleet's work, faults its unhealthy devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from fakedev.kube.cluster import Cluster
from fakedev.kube.health import HealthWatch
from fakedev.kube.pod_record import PodKey, WorkKey
from fakedev.net.kube.config_maps import ConfigMapWriter
from fakedev.net.kube.fleet_nodes import FleetNodes
from fakedev.net.kube.health_file import HealthFile
from fakedev.net.kube.inbox import Inbox
from fakedev.net.kube.node_service import ClusterNodes
from fakedev.net.kube.pod_work import PodWork
from fakedev.net.kube.slice_writer import SliceWriter
from fakedev.net.kube.writer import ClusterWriter
from fakedev.sim.fleet import Fleet

#: Pods whose work is changed in one turn of the reactor: 0.2 ms each.
_PODS_AT_ONCE: Final = 30
#: Pods whose work is changed between two ticks: the tick that starts them takes some ten milliseconds.
_PODS_IN_A_TICK: Final = 1000
#: New nodes whose pods are given their devices in one turn.
_NODES_AT_ONCE: Final = 10
#: Work that the fleet refused is tried again after this time: there may be room by then.
_AGAIN_SECONDS: Final = 10.0


class Controller:
    """Passes what is new between a cluster, the fleet and the API, in turns that leave the reactor free.

    :param file: keeps the health of devices for the next service; None: nothing is kept.
    :ivar inbox: takes what watches tell.
    :ivar writer, work, nodes, service: see :meth:`connect`.
    """

    log = Logger()

    def __init__(
        self, cluster: Cluster, fleet: Fleet, health: HealthWatch, clock: IReactorTime, file: HealthFile | None = None
    ) -> None:
        self.cluster = cluster
        self.inbox = Inbox()
        self._fleet = fleet
        self._health = health
        self._file = file
        # What the service before this one has told of nodes.
        self._told = dict(health.ill)
        self._clock = clock
        self._turn: IDelayedCall | None = None
        self._has_nodes = False
        self._source = fleet.source
        self._later: dict[PodKey, IDelayedCall] = {}
        self._problems: Mapping[str, str] = {}
        self._room = _PODS_IN_A_TICK
        self._is_stopped = False
        self._is_paused = True

    def connect(
        self,
        writer: ClusterWriter,
        work: PodWork,
        nodes: FleetNodes,
        service: ClusterNodes,
        slices: SliceWriter | None = None,
        config_maps: ConfigMapWriter | None = None,
    ) -> None:
        """Connect it with its parts, which call it; to be done once.

        :param service: the nodes for their fakedev-node.
        :param slices: None: devices are not offered by ResourceSlices.
        :param config_maps: None: the ConfigMaps of fake-gpu-operator are not wanted.
        """
        self.writer, self.work, self.nodes, self.service = writer, work, nodes, service
        self._slices = slices
        self._config_maps = config_maps

    # -- what comes -------------------------------------------------------------------------------

    def nodes_listed(self, items: list[Mapping[str, Any]]) -> None:
        """These are all nodes of the cluster; from now on the fleet follows them."""
        self.inbox.put_list(self._list_nodes(items))
        self.changed()

    def _list_nodes(self, items: list[Mapping[str, Any]]) -> Iterator[None]:
        yield from self.cluster.list_nodes(items)
        self._has_nodes = True

    def ticked(self) -> None:
        """A tick has ended: devices may have become unhealthy, nodes may have joined, further work may start."""
        self._room = _PODS_IN_A_TICK
        if self._fleet.source is not self._source:
            self._source = self._fleet.source
            self.cluster.use(self._fleet.spec)
        for name, health in self._health.observe(self._fleet).items():
            self.cluster.health_changed(name, health)
        self._keep_health()
        self.nodes.ticked()
        self.writer.ticked()
        if self._config_maps is not None and not self._is_paused:
            self._config_maps.ticked()
        if self.cluster.is_changed:
            self.changed()

    def plugin_restarted(self, node: str) -> None:
        """The device plugin of a node was started: with the vendor's recovery its devices are healthy again."""
        health = self._health.restart_plugin(node)
        self._keep_health()
        if health is not None:
            self.cluster.health_changed(node, health)

    def _keep_health(self) -> None:
        if self._file is not None:
            self._file.write(self._health.known())

    def work_ended(self, key: WorkKey, code: int, text: str) -> None:
        """The work of a container has ended by itself."""
        again_seconds = self.cluster.ended(key, code, text)
        if again_seconds:
            self._try_later(key[:2], again_seconds)
        self.changed()

    def changed(self) -> None:
        """Something is new: pass it on in the next turn of the reactor."""
        if self._turn is None and not self._is_stopped:
            self._turn = self._clock.callLater(0, self._take_turn)

    def pause(self) -> None:
        """Write nothing to the cluster until :meth:`resume`: another fakedev may do so now."""
        self._is_paused = True
        self.writer.pause()
        self.inbox.clear()  # there will be new lists

    def resume(self) -> None:
        """Write to the cluster (again)."""
        self._is_paused = False
        self.writer.resume()
        self.changed()

    def stop(self) -> None:
        """Pass nothing on any more. The fleet keeps its nodes and its work, and the cluster what was written."""
        self._is_stopped = True
        self.nodes.stop()
        self.writer.stop()
        for writer in (self._slices, self._config_maps):
            if writer is not None:
                writer.stop()
        for call in (self._turn, *self._later.values()):
            if call is not None and call.active():
                call.cancel()

    @property
    def has_nodes(self) -> bool:
        """Whether the cluster's nodes are known."""
        return self._has_nodes

    # -- what follows -----------------------------------------------------------------------------

    def _take_turn(self) -> None:
        self._turn = None
        # What is long is done first, in turns of its own: what follows from it is done once.
        if self.inbox:
            self.inbox.take()
            self.changed()
            return
        if self._has_nodes:
            self.nodes.want(self.cluster.fleet_nodes())
        self._note_problems()
        for name in self.cluster.take_joined(_NODES_AT_ONCE):
            told = self._told.pop(name, None)
            if told is not None and told is self._health.of(name):  # else the node had left
                self.cluster.health_changed(name, told, is_told=True)
            self._health.refresh(name)
            self.cluster.health_changed(name, self._health.of(name))
        if self.cluster.has_joined:
            self.changed()
            return
        if self._room > 0:
            changes = self.cluster.take_work(self._is_there, min(_PODS_AT_ONCE, self._room))
            self._room -= len({change.key[:2] for change in changes})
            for key, reason in self.work.change(changes):
                self._refuse(key, reason)
            if self.cluster.has_more_work:
                self.changed()
        if not self._is_paused:
            self.writer.write()
            if self._slices is not None:
                for name, slices in self.cluster.take_slices():
                    self._slices.want(name, slices)
        self.service.tell_changes(self.cluster.take_views())

    def _is_there(self, node: str, pool: str) -> bool:
        found = self._fleet.roster.node(node)
        return found is not None and found.pool.name == pool

    def _refuse(self, key: WorkKey, reason: str) -> None:
        self.cluster.refused(key, reason)
        self._try_later(key[:2], _AGAIN_SECONDS)

    def _try_later(self, pod: PodKey, seconds: float) -> None:
        if pod not in self._later and not self._is_stopped:
            self._later[pod] = self._clock.callLater(seconds, self._try_again, pod)

    def _try_again(self, pod: PodKey) -> None:
        del self._later[pod]
        self.cluster.again_pod(*pod)
        self.changed()

    def _note_problems(self) -> None:
        """Log each node that is not simulated although it has the label, once."""
        problems = self.cluster.problems
        if problems == self._problems:
            return
        for name, text in problems.items():
            if self._problems.get(name) != text:
                self.log.error("node {name} is not simulated: {text}", name=name, text=text)
        self._problems = dict(problems)
