"""Stand-ins for what a backend deals with: processes, frontends, runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone, ProcessDone, ProcessTerminated
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure

from fakedev.queues.backend import TakenJob
from fakedev.queues.job import Report


@dataclass
class Spawned:
    """A process that was started, as its protocol sees it."""

    protocol: Any
    arguments: Sequence[str]
    environment: Mapping[str, str] | None
    folder: str | None
    descriptors: Mapping[int, int]
    pid: int

    def end(self, code: int = 0, signal: int | None = None) -> None:
        """The leader of the group ends."""
        status = ProcessTerminated(code, signal) if code or signal else ProcessDone(0)
        if signal:
            status.exitCode = None
        self.protocol.processEnded(Failure(status))


class SpawningClock(Clock):  # type: ignore[misc]
    """A clock that starts processes in name only.

    :ivar refusal: what starting one raises.
    """

    def __init__(self) -> None:
        super().__init__()
        self.spawned: list[Spawned] = []
        self.refusal: OSError | None = None

    def spawnProcess(
        self,
        protocol: Any,
        executable: str,
        args: Sequence[str],
        env: Mapping[str, str] | None = None,
        path: str | None = None,
        childFDs: Mapping[int, int] | None = None,
    ) -> Spawned:
        """Start nothing, and tell the protocol that it runs."""
        if self.refusal is not None:
            raise self.refusal
        assert executable == args[0]
        process = Spawned(protocol, list(args), env, path, dict(childFDs or {}), 1000 + len(self.spawned))
        self.spawned.append(process)
        protocol.makeConnection(process)
        return process


@dataclass
class RecordedGroups:
    """Groups to which signals are sent in name only.

    :ivar rest: groups that their leader leaves something behind in.
    :ivar deaf: to which signals that rest does not listen.
    """

    sent: list[tuple[str, int, int]] = field(default_factory=list)
    rest: set[int] = field(default_factory=set)
    deaf: tuple[int, ...] = ()

    def signal(self, leader: int, number: int) -> None:
        """Note a signal to a whole group."""
        self.sent.append(("all", leader, number))

    def signal_rest(self, leader: int, number: int) -> None:
        """Note a signal to the rest of a group, which ends it unless it is deaf."""
        self.sent.append(("rest", leader, number))
        if number not in self.deaf:
            self.rest.discard(leader)

    def is_gone(self, leader: int) -> bool:
        """Whether nothing is left."""
        return leader not in self.rest


@dataclass
class RecordedWatchdog:
    """A watchdog that only knows which groups run."""

    leaders: set[int] = field(default_factory=set)

    def start(self) -> None:
        """Nothing has to run for that."""

    def add(self, leader: int) -> None:
        """Note a group that runs."""
        self.leaders.add(leader)

    def remove(self, leader: int) -> None:
        """Note a group that has ended."""
        self.leaders.remove(leader)


class RecordedRun:
    """A run that does what the test says."""

    def __init__(self, words: Sequence[str], limit_seconds: float) -> None:
        self.words = list(words)
        self.limit_seconds = limit_seconds
        self.ended: Deferred[Report] = Deferred()
        self.told: list[str] = []

    def stop(self) -> None:
        """Note it, and end as a command does that was stopped."""
        self.told.append("stop")
        if not self.ended.called:
            self.ended.callback(Report(1, "stopped", run_seconds=1.0))

    def kill(self) -> None:
        """Note it."""
        self.told.append("kill")


class ScriptedSource:
    """A JobSource that gives what the test puts into ``script``: a job's arguments, None for empty, or an exception.

    At the end of the script it waits.
    """

    def __init__(self, *script: Any, waits_for_work: bool = False, takes_back: bool = False) -> None:
        self.script = list(script)
        self.waits_for_work = waits_for_work
        self.takes_back = takes_back
        self.said: list[Any] = []
        self.jobs: list[TakenJob] = []
        self.pending: Deferred[Any] | None = None
        self.failure: Exception | None = None

    async def take(self, idle_seconds: float) -> TakenJob | None:
        """The next of the script."""
        self.said.append(("take", idle_seconds))
        if not self.script:
            self.pending = Deferred()
            return self._given(await self.pending)
        return self._given(self.script.pop(0))

    async def finish(self, job: TakenJob, report: Report) -> None:
        """Note the result."""
        self.said.append(("finish", report))
        if self.failure is not None:
            raise self.failure

    async def give_back(self, job: TakenJob, reason: str, run_seconds: float = 0.0) -> None:
        """Note it."""
        self.said.append(("give back", reason, run_seconds))

    def leave(self) -> None:
        """Note it, and end a wait, as a source does after a moment."""
        self.said.append("leave")

    def cut(self) -> None:
        """Note it."""
        self.said.append("cut")

    def _given(self, entry: Any) -> TakenJob | None:
        if isinstance(entry, Exception):
            raise entry
        if entry is None:
            return None
        job = TakenJob(tuple(entry), 0.0)
        self.jobs.append(job)
        return job


class FrontendWire(StringTransport):  # type: ignore[misc]
    """A connection that a backend made: what it sends is kept, in its pieces, and closing it takes effect at once."""

    def __init__(self, protocol: Any) -> None:
        super().__init__()
        self.protocol = protocol
        self.writes: list[bytes] = []
        self.lost = False

    def write(self, data: bytes) -> None:
        """Keep it."""
        assert not self.lost, "a write after the end"
        self.writes.append(data)

    def loseConnection(self) -> None:
        """Close."""
        self.end()

    def abortConnection(self) -> None:
        """Close."""
        self.aborting = True
        self.end()

    def end(self, reason: Exception | None = None) -> None:
        """The connection ends, from whichever side."""
        if not self.lost:
            self.lost = True
            self.protocol.connectionLost(Failure(reason or ConnectionDone()))

    def say(self, *pieces: bytes) -> None:
        """The frontend says something."""
        for piece in pieces:
            if not self.lost:
                self.protocol.dataReceived(piece)


class FrontendReactor(MemoryReactorClock):  # type: ignore[misc]
    """Connects in name only: each connection waits until the test accepts or refuses it."""

    def accept(self) -> FrontendWire:
        """Take the connection that was asked for last."""
        _host, _port, factory, _, _ = self.tcpClients.pop()
        protocol = factory.buildProtocol(None)
        wire = FrontendWire(protocol)
        protocol.makeConnection(wire)
        return wire

    def refuse(self, error: Exception) -> None:
        """Refuse it."""
        _, _, factory, _, _ = self.tcpClients.pop()
        factory.clientConnectionFailed(None, Failure(error))


def starter(runs: list[RecordedRun]) -> Callable[[Sequence[str], float], RecordedRun]:
    """What a worker starts runs with; they are kept in a list."""

    def start(words: Sequence[str], limit_seconds: float) -> RecordedRun:
        run = RecordedRun(words, limit_seconds)
        runs.append(run)
        return run

    return start
