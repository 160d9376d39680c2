"""Follows a cluster: its nodes become the fleet's nodes, its pods the fleet's work, faults its unhealthy devices.

Workloads start and stop as pods do. The nodes of the fleet change one change at a time, by events of the fleet. A
file with the health of devices is kept with the state of the fleet, for the next service.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from operator import is_
from typing import Any, Final

import numpy as np
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from fakedev.base.errors import Refused, first_names
from fakedev.base.groups import grouped
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.events import ChangeNodes, Where, nodes_of_clusters, prepare
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.hub import WorkloadHub
from fakedev.fleet.state_folder import CLUSTER_HEALTH, CannotGoOn, StateFolder
from fakedev.fleet.workloads.workload import Verdict
from fakedev.kubernetes.cluster import Cluster
from fakedev.kubernetes.devices.health import (
    HealthWatch,
    KnownHealth,
    NoHealth,
    health_record,
    read_devices,
    read_faults,
    read_health,
)
from fakedev.kubernetes.devices.node_ledger import ContainerIds
from fakedev.kubernetes.domains.domain_objects import DomainObjects
from fakedev.kubernetes.faults.fault_objects import FaultObjects, KeptFaults
from fakedev.kubernetes.nodes.node_port import ClusterNodes
from fakedev.kubernetes.owned_objects import ConfigMapWriter, SliceWriter, TopologyWriter
from fakedev.kubernetes.workloads.pod_record import PodKey, WorkKey
from fakedev.kubernetes.workloads.pod_records import WorkChange
from fakedev.kubernetes.writer import ClusterWriter, Retries
from fakedev.runtime.reactor import IReactor
from fakedev.runtime.threads import call_in_thread

#: Why work of a pod is stopped, for its verdict and the journal: the pod is over, or does something else.
_IS_OVER: Final = "its pod has ended"
_CHANGES: Final = "its pod does something else now"


class PodWorkloads:
    """The workloads of all containers with devices.

    :param ended: called when the work of a container has ended by itself, with its code and the reason.
    """

    def __init__(self, hub: WorkloadHub, ended: Callable[[WorkKey, int, str], None]) -> None:
        self._hub = hub
        self._ended = ended
        self._ids: dict[WorkKey, str] = {}

    def change(self, changes: Sequence[WorkChange]) -> list[tuple[WorkKey, str]]:
        """Stop and start what the changes say, each as an event of the fleet.

        :returns: what the fleet refused, with the reason.
        """
        goes_on = {change.key for change in changes if change.spec is not None}
        for has_new_work, reason in ((True, _CHANGES), (False, _IS_OVER)):
            stopped = [
                self._ids.pop(change.key)
                for change in changes
                if change.spec is None and change.key in self._ids and (change.key in goes_on) == has_new_work
            ]
            if stopped:
                self._hub.end(stopped, reason)
        refused = []
        for each in changes:
            if each.spec is not None:
                try:
                    self._ids[each.key] = self._hub.start(each.spec, partial(self._has_ended, each.key))
                except Refused as reason:
                    refused.append((each.key, reason.text))
        return refused

    def _has_ended(self, key: WorkKey, verdict: Verdict) -> None:
        if self._ids.get(key) == verdict.workload_id:
            del self._ids[key]
            self._ended(key, verdict.code, verdict.text)


#: A change of a fleet with fewer devices is prepared at once: it takes some milliseconds.
_MANY_DEVICES: Final = 1000
#: Nodes that one line of the log names.
_MAX_NAMED: Final = 8


class FleetNodes:
    """Brings the nodes of the fleet's pools to those that are wanted.

    :ivar problem: why the last change was refused; empty when it was not.
    """

    log = Logger()

    def __init__(self, fleet: Fleet, reactor: IReactor) -> None:
        self._fleet = fleet
        self._reactor = reactor
        self._wanted: Mapping[str, Where] | None = None
        self._preparing: Deferred[None] | None = None
        #: The wanted nodes and the fleet that were compared last: to compare all nodes takes some milliseconds.
        self._compared: tuple[object, object] = None, None
        #: The fleet that a change will be seen in: the next change waits for it.
        self._awaited: object = None
        self._is_stopped = False
        self.problem = ""

    def want(self, nodes: Mapping[str, Where]) -> None:
        """From now on these are the cluster's nodes.

        :param nodes: the name of the pool of each, and how its boards are divided; the pools exist and have the nodes
            of the cluster. The same object as last time is not compared again.
        """
        self._wanted = nodes
        self._change()

    def stop(self) -> None:
        self._is_stopped = True

    def ticked(self) -> None:
        """A tick has ended: a change may have been applied in it, and others may follow."""
        if self._awaited is not None and self._fleet.compiled is not self._awaited:
            self._awaited = None
        self._change()

    def _change(self) -> None:
        """Begin the next change, if one is needed and none is under way."""
        if self._wanted is None or self._preparing is not None or self._awaited is not None or self._is_stopped:
            return
        compared = self._wanted, self._fleet.compiled
        if all(map(is_, compared, self._compared)):
            return
        self._compared = compared
        present = nodes_of_clusters(self._fleet.spec)
        left = tuple(sorted(name for name, where in present.items() if self._wanted.get(name) != where))
        joined = sorted(name for name, where in self._wanted.items() if present.get(name) != where)
        if not joined and not left:
            return
        layouts = grouped((self._wanted[name][1], name) for name in joined)
        layouts.pop((), None)
        change = ChangeNodes(
            tuple((name, self._wanted[name][0]) for name in joined),
            left,
            layouts=tuple((layout, tuple(names)) for layout, names in layouts.items()),
        )
        base = self._fleet.compiled
        if max(base.roster.device_count, 8 * len(self._wanted)) < _MANY_DEVICES:
            self._apply(change)
            return
        prepared = call_in_thread(self._reactor, lambda: prepare(base, change))
        self._preparing = prepared.addCallbacks(
            lambda done: self._apply(replace(change, prepared=done)), lambda failure: self._failed(failure.value)
        )

    def _apply(self, change: ChangeNodes) -> None:
        self._preparing = None
        if self._is_stopped:
            return
        try:
            base = self._fleet.compiled
            self._fleet.apply(change)
        except Refused as refused:
            self._failed(refused)
            return
        self._awaited, self.problem = base, ""
        joined, left = {name for name, _ in change.joined}, {*change.left}
        for found, what in ((joined - left, "joined"), (left - joined, "left"), (joined & left, "changed in")):
            if names := sorted(found):
                self.log.info("nodes {what} the fleet: {names}", what=what, names=first_names(names, _MAX_NAMED))

    def _failed(self, reason: BaseException) -> None:
        self._preparing = None
        if not isinstance(reason, Refused):
            raise reason
        if reason.text != self.problem:
            self.log.error("the fleet cannot have the nodes of the cluster: {reason}", reason=reason.text)
        self.problem = reason.text
        self._wanted = None  # until the cluster's nodes change, it would be refused again


class HealthFile:
    """The file in the folder of the state."""

    def __init__(self, state: StateFolder) -> None:
        self._state = state
        self._written: tuple[KnownHealth, Mapping[str, ContainerIds], KeptFaults] | None = None

    def read(self, roster: Roster) -> tuple[KnownHealth, Mapping[str, ContainerIds], KeptFaults] | None:
        """What the service before has left: health of the units of a roster, devices of pods, faults of objects.

        :raises CannotGoOn: when it cannot be used.
        """
        text = self._state.kept(CLUSTER_HEALTH)
        try:
            return None if text is None else (read_health(text, roster), read_devices(text), read_faults(text))
        except NoHealth as reason:
            text = f"{self._state.path_of(CLUSTER_HEALTH)}: {reason}: move its folder away to begin anew"
            raise CannotGoOn(text) from None

    def write(self, known: KnownHealth, devices: Mapping[str, ContainerIds], faults: KeptFaults) -> None:
        """Keep what is known after a tick or the start of a plugin. It is written only when it is something else.

        :param devices: of pods, by UID, that the cluster does not have yet.
        :param faults: of objects DeviceFault.
        """
        if self._written is None or not _is_same(self._written[0], known) or self._written[1:] != (devices, faults):
            self._written = known, devices, faults
            self._state.keep(CLUSTER_HEALTH, health_record(known, devices, faults))


def _is_same(before: KnownHealth, now: KnownHealth) -> bool:
    """Whether the same is known, perhaps of another tick."""
    return before.roster is now.roster and before.nodes == now.nodes and all(
        np.array_equal(was, is_now) for was, is_now in zip(before[2:5], now[2:5], strict=True)
    )  # fmt: skip


#: Nodes or pods of a list that are taken in one turn of the reactor: a new node costs 0.3 ms, a pod 0.1 ms.
STEPS_AT_ONCE: Final = 20


class Inbox:
    """What watches report: lists and changes, in the order of their arrival; a long list is taken in pieces."""

    def __init__(self) -> None:
        self._waiting: deque[Iterator[None]] = deque()

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._waiting)

    def put_list(self, steps: Iterator[None]) -> None:
        """Add a list, of which each step takes one object; a short list is taken at once."""
        is_first = not self._waiting
        self._waiting.append(steps)
        if is_first:
            self.take()

    def put(self, call: Callable[..., object], *arguments: Any) -> None:
        """Add a change, which this call passes on: at once, unless a list waits."""
        if self._waiting:
            self._waiting.append(_once(call, *arguments))
        else:
            call(*arguments)

    def take(self, most: int = STEPS_AT_ONCE) -> None:
        """Take at most this number of waiting steps."""
        left = most
        while self._waiting and left:
            taken = sum(1 for _ in islice(self._waiting[0], left))
            if taken == left:
                return  # there may be more of it
            left -= taken
            self._waiting.popleft()

    def clear(self) -> None:
        """Forget what waits."""
        self._waiting.clear()


def _once(call: Callable[..., object], *arguments: Any) -> Iterator[None]:
    call(*arguments)
    yield


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
    :ivar inbox: takes what watches report.
    :ivar writer, work, nodes, service: see :meth:`connect`.
    """

    log = Logger()

    def __init__(
        self, cluster: Cluster, fleet: Fleet, health: HealthWatch, clock: IReactorTime, file: HealthFile | None = None
    ) -> None:
        self.cluster = cluster
        cluster.pods.await_lists()
        self.inbox = Inbox()
        self._fleet = fleet
        self._health = health
        self._file = file
        # What the service before this one has reported of nodes.
        self._reported = dict(health.ill)
        self._clock = clock
        self._turn: IDelayedCall | None = None
        self._has_nodes = False
        self._source = fleet.source
        self._retries = Retries(clock)
        self._problems: Mapping[str, str] = {}
        self._room = _PODS_IN_A_TICK
        self._is_stopped = False
        self._is_paused = True

    def connect(
        self,
        writer: ClusterWriter,
        work: PodWorkloads,
        nodes: FleetNodes,
        service: ClusterNodes,
        slices: SliceWriter | None = None,
        config_maps: ConfigMapWriter | None = None,
        faults: FaultObjects | None = None,
        domains: DomainObjects | None = None,
        topologies: TopologyWriter | None = None,
    ) -> None:
        """Connect it with its parts, which call it; to be done once.

        :param service: the nodes for their fakedev-node.
        :param slices: None: devices are not offered by ResourceSlices.
        :param config_maps: None: the ConfigMaps of fake-gpu-operator are not wanted.
        :param faults: None: objects DeviceFault are not followed.
        :param domains: None: objects ComputeDomain are not followed.
        :param topologies: None: objects NodeResourceTopology are not wanted.
        """
        self.writer, self.work, self.nodes, self.service = writer, work, nodes, service
        self._slices = slices
        self._config_maps = config_maps
        self._faults = faults
        self._domains = domains
        self._topologies = topologies
        if faults is not None:
            writer.events.taken = faults.event_taken

    # -- what comes -------------------------------------------------------------------------------

    def list_nodes(self, items: list[Mapping[str, Any]]) -> Iterator[None]:
        """These are all nodes of the cluster, one in each step; from now on the fleet follows them."""
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
        if self._has_nodes and not self._is_paused and not self.inbox:
            for objects in (self._faults, self._domains, self._topologies):
                if objects is not None:
                    objects.ticked()
        self._keep_health()
        gone = [name for name in self.cluster.nodes.replaced if self._fleet.roster.node(name) is None]
        if gone:
            self.cluster.nodes.join_again(gone)
            for name in gone:  # it may have been looked at while the fleet had the old one
                self.cluster.health_changed(name, self._health.of(name))
            self.changed()
        self.nodes.ticked()
        if self.cluster.nodes.dividing and not self._is_paused and not self.inbox:
            self.inbox.put_list(self.cluster.divide_boards(self._is_there))
            self.changed()
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
            faults = self._faults.kept() if self._faults is not None else {}
            self._file.write(self._health.known(), self.cluster.pods.only_here, faults)

    def work_ended(self, key: WorkKey, code: int, text: str) -> None:
        again_seconds = self.cluster.pods.ended(key, code, text)
        if again_seconds:
            self._try_later(key[:2], again_seconds)
        self.changed()

    def changed(self) -> None:
        """Something is new: pass it on in the next turn of the reactor."""
        if self._turn is None and not self._is_stopped:
            self._turn = self._clock.callLater(0, self._take_turn)

    def slices_again(self, node: str) -> None:
        """The ResourceSlices of a node are needed once more."""
        self.cluster.nodes.sliced[node] = None
        self.changed()

    def pause(self) -> None:
        """Write nothing to the cluster until :meth:`resume`: another fakedev may do so now."""
        self._is_paused = True
        self.cluster.pods.await_lists()
        self.writer.events.pause()
        self.inbox.clear()  # there will be new lists

    def resume(self) -> None:
        self._is_paused = False
        self.writer.events.resume()
        self.changed()

    def stop(self) -> None:
        self._is_stopped = True
        self.nodes.stop()
        self.writer.stop()
        for writer in (self._slices, self._config_maps, self._faults, self._domains, self._topologies):
            if writer is not None:
                writer.stop()
        self._retries.stop()
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None

    # -- what follows -----------------------------------------------------------------------------

    def _take_turn(self) -> None:
        self._turn = None
        if self._fleet.is_paused:
            self.changed()
            return
        # What is long is done first, in turns of its own: what follows from it is done once.
        if self.inbox:
            self.inbox.take()
            self.changed()
            return
        if self._has_nodes:
            self.nodes.want(self.cluster.nodes.pools_of_nodes)
        self._log_problems()
        for name in self.cluster.take_joined(_NODES_AT_ONCE):
            reported = self._reported.pop(name, None)
            if reported is not None and reported is self._health.of(name):  # else the node had left
                self.cluster.health_changed(name, reported, is_reported=True)
            self._health.refresh(name)
            self.cluster.health_changed(name, self._health.of(name))
        if self.cluster.nodes.renewed:
            self.changed()
            return
        if self._room > 0:
            changes = self.cluster.pods.take_work(self._is_there, min(_PODS_AT_ONCE, self._room))
            self._room -= len({change.key[:2] for change in changes})
            if changes:
                self._keep_health()  # before pages show the devices of pods
            for key, reason in self.work.change(changes):
                self.cluster.pods.refused(key, reason)
                self._try_later(key[:2], _AGAIN_SECONDS)
            if self.cluster.pods.has_more_work:
                self.changed()
        if not self._is_paused:
            self.writer.write()
            self._write_slices(self._slices)
        self.service.notify_changes(self.cluster.take_views())

    def _write_slices(self, writer: SliceWriter | None) -> None:
        if writer is not None:
            for name, slices in self.cluster.take_slices(writer.room):
                if slices is None:
                    writer.leave(name)
                else:
                    writer.want(name, slices)
            if self.cluster.nodes.sliced and writer.room:
                self.changed()

    def _is_there(self, node: str, where: Where) -> bool:
        found = self._fleet.roster.node(node)
        return found is not None and (found.pool.name, found.pool.layout) == where

    def _try_later(self, pod: PodKey, seconds: float) -> None:
        self._retries.later(pod, seconds, self._try_again, pod)

    def _try_again(self, pod: PodKey) -> None:
        self.cluster.pods.again(*pod)
        self.changed()

    def _log_problems(self) -> None:
        """Log each node that is not simulated although it has the label, once."""
        problems = self.cluster.nodes.problems
        if problems == self._problems:
            return
        for name, text in problems.items():
            if self._problems.get(name) != text:
                self.log.error("node {name} is not simulated: {text}", name=name, text=text)
        self._problems = dict(problems)
