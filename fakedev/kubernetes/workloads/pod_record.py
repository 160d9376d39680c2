"""A pod with devices: what it does, what the fleet runs for it, which reports were made of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from fakedev.fleet.spec.fleet_spec import PoolSpec
from fakedev.fleet.spec.workload_spec import Activities, Activity, WorkloadSpec
from fakedev.kubernetes.devices.dra import ClaimedDevices, with_labels
from fakedev.kubernetes.devices.offered_devices import Slot
from fakedev.kubernetes.devices.sharing import WHOLE
from fakedev.kubernetes.nodes.node_status import ReportedMessages
from fakedev.kubernetes.nodes.simulated_node import ClusterNode
from fakedev.kubernetes.pods import Pod
from fakedev.kubernetes.workloads.work import PodWork, within, workloads_of

#: Namespace and name of a pod or of a claim.
PodKey = tuple[str, str]
#: Namespace and name of a pod, and the name of its container, or of a piece of its work.
WorkKey = tuple[str, str, str]
#: A container that fails is started again after this time, twice as long after each further failure, at most the
#: second one (kubernetes/kubernetes, pkg/kubelet: MaxContainerBackOff).
_FIRST_SECONDS: Final = 10.0
_LONGEST_SECONDS: Final = 300.0
#: Failures of a piece of work after which it does not even idle.
_MOST_FAILURES: Final = 2
_IDLE: Final = Activities((Activity(0.0),))


class PodRecord:
    """A pod with devices, or one that wants some.

    :ivar work: what its annotations say; None: it is on no simulated node yet.
    :ivar worked_for: the pool that the work was read for.
    :ivar claimed: what it has by resource claims; None: it has no claims.
    :ivar running: what the fleet runs for it: a piece of work for each container, and for each claimed device.
    :ivar struck: pieces of work that have failed, with how often: they idle until their devices are healthy; after a
        second failure only on those that are, and after a third one on none.
    :ivar done: pieces of work that are over; they idle.
    :ivar recorded: the text of the annotation with its devices that the API server has taken; empty: none yet.
    :ivar is_gone: it was deleted; the record stays until its work is taken away.
    """

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.work: PodWork | None = None
        self.worked_for: PoolSpec | None = None
        self.claimed: ClaimedDevices | None = None
        self.running: dict[str, WorkloadSpec] = {}
        self.struck: dict[str, int] = {}
        self.done: set[str] = set()
        self.recorded = ""
        self.is_gone = False
        self.reported = ReportedMessages()
        self._failures = 0
        #: The ids of the devices of each piece of work.
        self._runs_on: dict[str, list[str]] = {}

    @property
    def key(self) -> PodKey:
        return self.pod.namespace, self.pod.name

    @property
    def is_there(self) -> bool:
        """Whether it is in the cluster, and stays."""
        return not (self.is_gone or self.pod.is_leaving)

    def update(self, pod: Pod) -> bool:
        """The pod has changed; whether that matters here."""
        if pod == self.pod:
            return False
        if (pod.annotations, pod.labels) != (self.pod.annotations, self.pod.labels):
            self.work = None
            self.done.clear()
            self.work_again()
        self.pod = pod
        return True

    def ended(self, name: str, code: int) -> float:
        """A piece of work has ended by itself.

        :param code: 0: it was done; else it failed.
        :returns: after how many seconds it may be tried again; 0: never.
        """
        self.running.pop(name, None)
        if not code:
            self.done.add(name)
            return 0.0
        self.struck[name] = self.struck.get(name, 0) + 1
        self._failures += 1
        return min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** min(self._failures - 1, 10))

    def work_again(self) -> None:
        """What made work fail is over."""
        self.struck.clear()
        self._failures = 0

    def work_on(self, node: ClusterNode) -> dict[str, WorkloadSpec]:
        """What the fleet is to run for the pod on its node, by the names of the pieces of work."""
        if self.is_gone or self.work is None:
            return {}
        slots, claimed = self.slots_on(node), self.claimed or ClaimedDevices()
        unhealthy = node.unhealthy_words if self.struck else frozenset()
        ids = {slot.word(node.name): slot.device_id for some in slots.values() for slot in some}
        found: dict[str, WorkloadSpec] = {}
        runs_on: dict[str, list[str]] = {}
        for whole in workloads_of(self.pod, node.name, slots, self.work):
            pieces = with_labels(whole, node.name, claimed.labels.get(whole.container, {}))
            shared = {slot.word(node.name): each for slot, each in claimed.sharing.get(whole.container, {}).items()}
            pieces = tuple(within(piece, shared.get(piece.devices[0], WHOLE)) for piece in pieces)
            for piece in pieces:
                name = whole.container if len(pieces) == 1 else f"{whole.container} on {','.join(piece.devices)}"
                allowed = self.allowed(name, piece, unhealthy)
                if allowed is not None:
                    runs_on[name] = [ids[word] for word in allowed.devices]
                    found[name] = self._as_it_runs(name, allowed, runs_on[name])
        self._runs_on = runs_on
        return found

    def _as_it_runs(self, name: str, wanted: WorkloadSpec, device_ids: Sequence[str]) -> WorkloadSpec:
        """A piece of work as it runs, where only the numbers of its instances have changed: others came or went."""
        runs = self.running.get(name)
        is_same = runs is not None and self._runs_on.get(name) == device_ids
        return runs if runs is not None and is_same and replace(runs, devices=wanted.devices) == wanted else wanted

    def slots_on(self, node: ClusterNode) -> dict[str, tuple[Slot, ...]]:
        """The devices of each container: those that the node gave it, and those of its claims."""
        slots = dict(node.ledger.slots_of(self.pod.uid))
        for container, claimed in (self.claimed.slots if self.claimed is not None else {}).items():
            slots[container] = tuple(dict.fromkeys((*slots.get(container, ()), *claimed)))
        return slots

    def has_any(self, node: ClusterNode, device_ids: Collection[str]) -> bool:
        """Whether the pod has any of some devices."""
        return any(node.concerns(slot, device_ids) for slots in self.slots_on(node).values() for slot in slots)

    def allowed(self, name: str, spec: WorkloadSpec, unhealthy: Collection[str]) -> WorkloadSpec | None:
        """A piece of work, or idleness where it has ended; None: nothing, where idleness has ended too.

        A lost device ends all that begins on it: what idles there would begin and end in each tick.

        :param unhealthy: the device words of the node that are.
        """
        failures = self.struck.get(name, 0)
        if not failures and name not in self.done:
            return spec
        devices = spec.devices if failures <= 1 else tuple(word for word in spec.devices if word not in unhealthy)
        if not devices or failures > _MOST_FAILURES:
            return None
        return replace(spec, devices=devices, activities=_IDLE, repeat=0, uses=(), faults=(), is_work=False)
