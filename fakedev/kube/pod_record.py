"""What is kept of one pod: what it does, what the fleet runs for it, and what was said of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fakedev.kube.pods import Pod
from fakedev.kube.work import PodWork
from fakedev.spec.fleet import Activities, Activity, PoolSpec, WorkloadSpec

#: Namespace and name.
PodKey = tuple[str, str]
#: Namespace and name of a pod, and the name of its container.
WorkKey = tuple[str, str, str]
#: Different messages about one pod that are remembered.
_MAX_TOLD: Final = 100
_IDLE: Final = Activities((Activity(0.0),))


class Told:
    """The messages about a pod that were reported: each is reported once."""

    def __init__(self) -> None:
        self._messages: dict[tuple[str, str], None] = {}

    def add_new(self, reason: str, message: str) -> bool:
        """Remember a message; whether it is new."""
        if (reason, message) in self._messages:
            return False
        if len(self._messages) >= _MAX_TOLD:
            self._messages.clear()
        self._messages[reason, message] = None
        return True


class PodRecord:
    """A pod with devices, or one that wants some.

    :ivar work: what its annotations say; None: it is on no simulated node yet.
    :ivar worked_for: the pool that the work was read for.
    :ivar running: container to what the fleet runs for it.
    :ivar struck: containers whose work a fault has ended; they idle until their devices are healthy.
    :ivar done: containers whose work is over; they idle.
    :ivar is_gone: it was deleted; the record stays until its work is taken away.
    """

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.work: PodWork | None = None
        self.worked_for: PoolSpec | None = None
        self.running: dict[str, WorkloadSpec] = {}
        self.struck: set[str] = set()
        self.done: set[str] = set()
        self.is_gone = False
        self.told = Told()

    def update(self, pod: Pod) -> bool:
        """The pod has changed; whether that matters here."""
        if pod == self.pod:
            return False
        if (pod.annotations, pod.labels) != (self.pod.annotations, self.pod.labels):
            self.work = None
            self.done.clear()
        self.pod = pod
        return True

    def successor(self, pod: Pod) -> PodRecord:
        """The record of another pod of the same name: what the fleet runs for this one is then of that one."""
        record = PodRecord(pod)
        record.running = self.running
        return record

    def allowed(self, spec: WorkloadSpec) -> WorkloadSpec:
        """The work of a container, or idleness where its work has ended."""
        if spec.container not in self.struck | self.done:
            return spec
        return replace(spec, activities=_IDLE, repeat=0, uses=(), faults=(), is_work=False)
