"""A living cluster: what arrives, starts, changes its phase, fails and ends between two ticks.

A pure function of the configuration, the seed, the events and the tick: nothing here is an event. Each node of a job
has a workload of its own, with a pod; they share the key of their draws, so that they take their steps together.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from fakedev.base.errors import Refused
from fakedev.base.steps import Steps
from fakedev.fleet.cluster.jobs import CAUSES, SLOT_SECONDS, WATCHDOG_SECONDS, Arrivals, ClusterJob
from fakedev.fleet.cluster.scheduler import DEPTH, Nodes, Pass
from fakedev.fleet.cluster.serving import SYNC_SECONDS, Replica, Serving
from fakedev.fleet.entities.naming import generated_name
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.entities.state import Mask
from fakedev.fleet.faults.faults import Faults
from fakedev.fleet.spec.cluster_spec import ClusterSpec, JobKind, ServiceKind
from fakedev.fleet.spec.fleet_spec import FaultSpec, FleetSpec
from fakedev.fleet.spec.limits import entity_key
from fakedev.fleet.workloads.intake import Intake
from fakedev.fleet.workloads.running import Workloads
from fakedev.fleet.workloads.workload import CLUSTER_PREFIX, Workload

#: The most jobs that wait; more that arrive are turned away.
MAX_WAITING: Final = 10_000
#: The scheduler looks at its queue when a job comes or ends, and this often.
_PASS_SECONDS: Final = 30.0
#: The workloads that are accepted in one step: each takes a tenth of a millisecond.
_AT_ONCE: Final = 50
#: The replicas that a cluster begins with have been at work for this time.
_FIRST_SECONDS: Final = 60.0
#: A job that comes back does so after this time.
_COMES_BACK_SECONDS: Final = 120.0
_ROUNDING_SECONDS: Final = 1e-6


class Around(NamedTuple):
    """What a cluster acts on.

    :ivar lost: which units cannot be used, shape (units,).
    """

    intake: Intake
    faults: Faults
    workloads: Workloads
    lost: Mask
    tick: int
    now_seconds: float


class SimulatedCluster:
    """The jobs of a cluster.

    :ivar ends: how many jobs have ended, by how: ``finished``, ``failed``, ``stopped``, ``refused``.
    """

    def __init__(self, spec: FleetSpec, roster: Roster) -> None:
        self.ends = Counter(dict.fromkeys(("finished", "failed", "stopped", "refused"), 0))
        self._jobs: dict[str, ClusterJob] = {}
        self._waiting: dict[str, ClusterJob] = {}
        self._of: dict[str, str] = {}
        self._due: list[tuple[float, int, str]] = []
        self._coming: list[tuple[float, int, ClusterJob]] = []
        self._order = 0
        self._struck: set[str] = set()
        self._slot = 0
        self._next_pass = self._next_sync = 0.0
        self._replica_count = 0
        self.serving = Serving(spec.seed)
        self.use(spec, roster)

    def use(self, spec: FleetSpec, roster: Roster) -> None:
        """Go on with a configuration, and its nodes."""
        assert spec.cluster is not None
        self._spec: ClusterSpec = spec.cluster
        self._epoch_seconds, self._seed = spec.epoch_seconds, spec.seed
        self._nodes = Nodes(roster)
        self._services = {kind.workload.name: kind for kind in spec.cluster.services}
        self._kinds: dict[str, JobKind | ServiceKind] = {
            **{kind.workload.name: kind for kind in spec.cluster.jobs}, **self._services
        }
        self._tick_seconds = spec.tick_seconds
        self._arrivals = Arrivals(spec.seed, spec.cluster, self._nodes.boards, self._nodes.largest)
        self._next_pass = 0.0
        self._has_changed = True

    @property
    def workload_ids(self) -> Collection[str]:
        return self._of.keys()

    def waiting(self) -> tuple[int, int]:
        """The number of jobs that wait, and of the boards that they ask for."""
        return len(self._waiting), sum(job.size for job in self._waiting.values())

    @property
    def running_count(self) -> int:
        """The number of jobs and replicas that have boards."""
        return sum(1 for job in self._jobs.values() if job.workload_ids)

    def serving_replicas(self) -> list[tuple[Replica, ServiceKind]]:
        """The replicas that have boards, the oldest first, with what they are replicas of."""
        replicas = self.serving.replicas.values()
        return [(replica, self._services[replica.service]) for replica in replicas if replica.service in self._services]

    def note_ends(self, workload_ids: Iterable[str], workloads: Workloads) -> None:
        """Note workloads that the fleet has ended, for a lost board: their jobs come back."""
        struck = [workload_id for workload_id in workload_ids if workload_id in self._of]
        self._struck.update(struck)
        for workload_id in struck:
            self._falls_behind(self._jobs[self._of[workload_id]], workloads)

    def _falls_behind(self, job: ClusterJob, workloads: Workloads) -> bool:
        """Whether slow boards have cost a job time that is not noted yet: it goes on for longer by that."""
        lag = workloads.lag_seconds(job.workload_ids[0]) if job.phase == "running" else 0.0
        more = max(lag - job.lag_seconds, 0.0)
        job.lag_seconds, job.until_seconds = job.lag_seconds + more, job.until_seconds + more
        return more > _ROUNDING_SECONDS

    def begin(self, around: Around) -> Steps[None]:
        """Start the jobs that are at work already; the others arrive from now on."""
        self._slot = math.ceil(around.now_seconds / SLOT_SECONDS)
        for name, kind in self._services.items():
            wall = self._epoch_seconds + around.now_seconds
            many = self.serving.at_beginning(kind, self._spec.busiest, wall)
            self._add_replicas(name, kind, many, around.now_seconds)
        for job in self._arrivals.at_work(around.now_seconds):
            self._admit(job)
        yield from self._start(around, MAX_WAITING)
        for job in self._waiting.values():
            job.is_settled = False
        for replica in self.serving.replicas.values():
            replica.ready_seconds = around.now_seconds
        yield from around.intake.changes(around.tick, around.now_seconds)
        self._serve(around, _FIRST_SECONDS)

    def advance(self, around: Around) -> Steps[list[Workload]]:
        """All that happens before a tick; returns the workloads that start."""
        now = around.now_seconds + _ROUNDING_SECONDS
        changed = self._note_gone(around)
        if self._has_changed:
            self._end_unknown(around)
        started: list[Workload] = []
        while self._due and self._due[0][0] <= now:
            until, _, name = heapq.heappop(self._due)
            job = self._jobs.get(name)
            if job is not None and job.until_seconds == until and job.workload_ids:
                if self._falls_behind(job, around.workloads):
                    self._order += 1
                    heapq.heappush(self._due, (job.until_seconds, self._order, name))
                    continue
                started += yield from self._end_phase(job, around)
                changed = True
        while self._slot * SLOT_SECONDS <= now:
            for job in self._arrivals.in_slot(self._slot, self._epoch_seconds):
                self._come(job)
            self._slot += 1
        while self._coming and self._coming[0][0] <= now:
            self._admit(heapq.heappop(self._coming)[2])
            changed = True
        if self._services and now >= self._next_sync:
            self._next_sync = around.now_seconds + SYNC_SECONDS
            changed |= self._scale(around)
        if self._waiting and (changed or now >= self._next_pass):
            self._next_pass = around.now_seconds + _PASS_SECONDS
            if changed:
                yield from around.intake.changes(around.tick, around.now_seconds)
            started += yield from self._start(around)
        yield from around.intake.changes(around.tick, around.now_seconds)
        self._serve(around, self._tick_seconds)
        return started

    def _serve(self, around: Around, seconds: float) -> None:
        """Let the replicas do their work, and drive their boards."""
        if self.serving.replicas:
            self.serving.advance(
                self._services, self._spec.busiest, self._epoch_seconds + around.now_seconds, around.now_seconds,
                seconds, around.tick + 1,
            )
            replicas = self.serving.replicas.values()
            around.workloads.drive({replica.workload_id: (replica.busy, replica.effort) for replica in replicas})

    def _scale(self, around: Around) -> bool:
        """Start and end replicas as the autoscalers want; whether any have changed."""
        changed = False
        for name, kind in self._services.items():
            jobs = [job for job in self._jobs.values() if job.kind == name]
            wished = self.serving.wished(name, kind, len(jobs), around.now_seconds)
            for job in jobs[wished:]:
                self._end(job, around, 0, "scaled down")
                self._waiting.pop(job.name, None)
                self._forget(job, "finished")
            self._add_replicas(name, kind, wished - len(jobs), around.now_seconds)
            changed |= wished != len(jobs)
        return changed

    def _add_replicas(self, name: str, kind: ServiceKind, many: int, now_seconds: float) -> None:
        replica_set = generated_name(entity_key("replica set", str(self._seed), name), 10)
        for _ in range(many):
            self._replica_count += 1
            key = entity_key("replica", name, str(self._replica_count))
            pod = f"{name}-{replica_set}-{generated_name(key, 5)}"
            self._admit(ClusterJob(name, pod, key, kind.boards, now_seconds, math.inf))

    def _come(self, job: ClusterJob) -> None:
        """A job will be in the queue at its time."""
        self._order += 1
        heapq.heappush(self._coming, (job.arrived_seconds, self._order, job))

    def _admit(self, job: ClusterJob) -> None:
        if (job.name in self._jobs) != bool(job.attempt):
            return  # another job has this name; or what would come back has been stopped
        if len(self._waiting) >= MAX_WAITING:
            self.ends["refused"] += 1
            self._jobs.pop(job.name, None)
            return
        job.phase = "waiting"
        self._jobs[job.name] = self._waiting[job.name] = job

    def _note_gone(self, around: Around) -> bool:
        """Follow what has ended workloads of jobs: lost boards and users."""
        gone = self._of.keys() - around.workloads.by_id.keys()
        for name in sorted({self._of[workload_id] for workload_id in gone}):
            job = self._jobs[name]
            is_struck = not self._struck.isdisjoint(job.workload_ids)
            self._end(job, around, 1 if is_struck else 0, "another node of the job has ended")
            if is_struck:
                self._come_back(job, around.now_seconds)
            else:
                self._forget(job, "stopped")
        self._struck.clear()
        return bool(gone)

    def _end_unknown(self, around: Around) -> None:
        """End the jobs and replicas that a configuration does not have any more."""
        self._has_changed = False
        for job in [candidate for candidate in self._jobs.values() if candidate.kind not in self._kinds]:
            self._end(job, around, 0, "no longer in the configuration")
            self._waiting.pop(job.name, None)
            self._forget(job, "stopped")

    def _end_phase(self, job: ClusterJob, around: Around) -> Steps[list[Workload]]:
        """The phase of a job is over: the next begins, or the job ends."""
        kind, cause = self._kinds[job.kind], job.cause
        if cause is None:
            if job.phase == "running" and isinstance(kind, JobKind) and kind.ending_seconds:
                return (yield from self._change_phase(job, kind, "ending", kind.ending_seconds, around))
            self._end(job, around, 0, "OK")
            self._forget(job, "finished")
        else:
            if cause.hangs and job.phase == "running" and isinstance(kind, JobKind):
                return (yield from self._change_phase(job, kind, "hanging", WATCHDOG_SECONDS, around))
            if cause.fault:
                self._strike(job, around)
            self._end(job, around, 1, cause.text)
            self.ends["failed"] += 1
            if cause in CAUSES:
                self._come_back(job, around.now_seconds)
            else:
                self._forget(job)
        return []

    def _strike(self, job: ClusterJob, around: Around) -> None:
        """What ends a job also breaks one of its boards, or its node."""
        cause = job.cause
        assert cause is not None
        word = job.words[self._arrivals.rank_of_failure(job)][0].replace("/*", "/0")
        node, _, index = word.partition("/")
        is_down = cause.fault == "node-down"
        if (place := self._nodes.positions.get(node)) is not None:
            # The fault strikes in the tick to come: what would start there now would end with it.
            first, width = int(self._nodes.firsts[place]), int(self._nodes.widths[place])
            around.lost[slice(first, first + width) if is_down else first + int(index)] = True
        is_away = cause.fault in ("lost", "node-down")
        spec = FaultSpec(
            cause.fault, (f"{node}/*",) if is_down else (word,),
            duration_seconds=self._arrivals.repair_seconds(job) if is_away else 1.0,
            values={"code": cause.code} if cause.code else {},
        )
        key = f"{job.name}-{job.attempt}"
        with suppress(Refused):  # there are as many faults as may be: the job ends all the same
            around.faults.start(f"{CLUSTER_PREFIX}{key}", spec, key)

    def _end(self, job: ClusterJob, around: Around, code: int, text: str) -> None:
        """End the workloads of a job that are left."""
        by_id, intake = around.workloads.by_id, around.intake
        left = [each for each in job.workload_ids if each in by_id and not intake.is_ending(each)]
        intake.end_with_verdicts([by_id[workload_id].verdict(code, text) for workload_id in left])
        self._release(job)

    def _release(self, job: ClusterJob) -> None:
        for workload_id in job.workload_ids:
            del self._of[workload_id]
        job.workload_ids = ()
        self.serving.replicas.pop(job.name, None)

    def _forget(self, job: ClusterJob, how: str = "") -> None:
        del self._jobs[job.name]
        if how:
            self.ends[how] += 1

    def _come_back(self, job: ClusterJob, now_seconds: float) -> None:
        """Wait again, with the work since the last checkpoint still to do."""
        kind = self._kinds.get(job.kind)
        passed = now_seconds - job.began_seconds - job.lag_seconds
        interval = kind.checkpoint_seconds if isinstance(kind, JobKind) else 0.0
        if interval:
            job.left_seconds = max(job.left_seconds - passed // interval * interval, interval)
        job.attempt, job.is_settled, job.until_seconds = job.attempt + 1, False, math.inf
        job.phase, job.arrived_seconds = "waiting", now_seconds + _COMES_BACK_SECONDS
        self._come(job)

    def _change_phase(
        self, job: ClusterJob, kind: JobKind, phase: str, seconds: float, around: Around
    ) -> Steps[list[Workload]]:
        """The same pods go on with other work."""
        left = [workload_id for workload_id in job.workload_ids if not around.intake.is_ending(workload_id)]
        around.intake.drop(left)
        self._release(job)
        job.phase, job.until_seconds = phase, around.now_seconds + seconds
        return (yield from self._run(job, kind, around))

    def _start(self, around: Around, depth: int = DEPTH) -> Steps[list[Workload]]:
        """Start the jobs that have a place now."""
        free = ~around.lost
        free[around.workloads.table.device] = False
        look = Pass(self._nodes, free, self._free_at(), around.now_seconds)
        started = []
        for job, places in look.placed(self._queue(), depth):
            kind = self._kinds[job.kind]
            if not self._has_room(around, len(places)):
                continue
            del self._waiting[job.name]
            job.words = tuple(map(self._nodes.words, places))
            self._arrivals.settle_end(job, kind, around.now_seconds)
            started += yield from self._run(job, kind, around)
        return started

    def _queue(self) -> list[ClusterJob]:
        """Those that wait: replicas first, then jobs that come back, which have been there before."""
        return sorted(
            self._waiting.values(),
            key=lambda job: (job.kind not in self._services, not job.attempt, job.arrived_seconds),
        )

    def _has_room(self, around: Around, many: int) -> bool:
        try:
            around.intake.check_room(many)
        except Refused:
            return False
        return True

    def _free_at(self) -> dict[int, float]:
        """When the nodes with jobs will be free of them."""
        found: dict[int, float] = {}
        for job in self._jobs.values():
            if job.workload_ids:
                until = job.began_seconds + job.left_seconds
                for words in job.words:
                    node = self._nodes.positions.get(words[0].partition("/")[0])
                    if node is not None:
                        found[node] = max(found.get(node, 0.0), until)
        return found

    def _run(self, job: ClusterJob, kind: JobKind | ServiceKind, around: Around) -> Steps[list[Workload]]:
        """Start the workloads of a job's phase, one for each of its nodes."""
        base = self._arrivals.workload(job, kind)
        started = []
        for rank, words in enumerate(job.words):
            pod = f"{job.name}-worker-{rank}"
            if job.kind in self._services:
                pod = job.name
            elif len(job.words) == 1:
                pod = f"{job.name}-{generated_name(entity_key(job.name, str(job.attempt)), 5)}"
            name = job.kind if job.kind in self._services else job.name
            spec = replace(base, name=name, devices=words, pod=pod)
            workload_id = f"{CLUSTER_PREFIX}{job.name}-{job.attempt}{job.phase[0]}-{rank}"
            started.append(around.intake.accept(workload_id, spec, job.name, peer=None))
            self._of[workload_id] = job.name
            if rank % _AT_ONCE == _AT_ONCE - 1:
                yield
        job.workload_ids = tuple(workload.workload_id for workload in started)
        if isinstance(kind, ServiceKind):
            ready = around.now_seconds + kind.loading_seconds
            self.serving.replicas[job.name] = Replica(job.name, job.kind, job.key, ready, job.workload_ids[0])
        self._order += 1
        heapq.heappush(self._due, (job.until_seconds, self._order, job.name))
        return started
