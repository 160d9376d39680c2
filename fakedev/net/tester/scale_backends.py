"""Backends whose number can be chosen: started by a command for each, or by one command for all.

Waits until the frontend knows of as many backends as there should be.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from twisted.internet import protocol
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.defer import TimeoutError as AnswerTimeout
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from fakedev.net.backend.sources import FrontendLost
from fakedev.net.lines.client import FrontendConnector
from fakedev.net.system.commands import CannotRun, ProcessRunner, Run


class CannotScale(Exception):
    """The backends cannot be had; the text says why."""


class Backends(Protocol):
    """What serves the queue."""

    async def become(self, count: int) -> None:
        """Make it so many.

        :raises CannotScale: when that cannot be done.
        """

    def check(self) -> None:
        """See whether all are still there, as far as that is known here.

        :raises CannotScale: when one has ended that should not have.
        """

    async def end(self) -> None:
        """End those that were started here."""


class StartedBackends:
    """Backends that are started here, one by one, by the same command.

    :param words: program and arguments.
    """

    def __init__(self, runner: ProcessRunner, words: Sequence[str]) -> None:
        self._runner = runner
        self._words = [command_path(words[0]), *words[1:]]
        self._runs: list[Run] = []
        self._ending = False
        self._ended_early: list[str] = []

    async def become(self, count: int) -> None:
        """See Backends."""
        while len(self._runs) < count:
            try:
                run = self._runner.start(self._words, 0.0)
            except CannotRun as reason:
                raise CannotScale(str(reason)) from None
            run.ended.addCallback(lambda report: self._ended(report.exit_code) or report)
            self._runs.append(run)
        self.check()

    def check(self) -> None:
        """See Backends."""
        if self._ended_early:
            raise CannotScale(f"a backend has ended: {self._ended_early[0]}")

    async def end(self) -> None:
        """See Backends."""
        self._ending = True
        for run in self._runs:
            run.stop()
        await DeferredList([run.ended for run in self._runs])

    def _ended(self, exit_code: int) -> None:
        if not self._ending:
            self._ended_early.append(f"{' '.join(self._words)}: exit code {exit_code}")


class CommandedBackends:
    """Backends whose number another command sets, such as kubectl.

    :param words: program and arguments, with {n} where the number belongs.
    """

    def __init__(self, runner: ProcessRunner, words: Sequence[str]) -> None:
        self._runner = runner
        self._words = [command_path(words[0]), *words[1:]]
        self._run: Run | None = None

    async def become(self, count: int) -> None:
        """See Backends."""
        words = [word.replace("{n}", str(count)) for word in self._words]
        try:
            self._run = run = self._runner.start(words, 0.0)
        except CannotRun as reason:
            raise CannotScale(str(reason)) from None
        waiter: Deferred[Any] = Deferred()
        run.ended.addCallback(lambda report: waiter.callback(report) or report)
        report = await waiter
        if report.exit_code:
            raise CannotScale(f"{' '.join(words)}: exit code {report.exit_code}")

    def check(self) -> None:
        """What the command's backends do is not known here."""

    async def end(self) -> None:
        """See Backends; what the command has set is left as it is."""
        if self._run is not None and not self._run.ended.called:
            self._run.kill()


def command_path(name: str) -> str:
    """The absolute path of a program.

    :raises CannotScale: when there is none.
    """
    path = shutil.which(name)
    if path is None:
        raise CannotScale(f"there is no program {name}")
    return path

#: Between two looks at how many backends there are.
_LOOK_AGAIN_SECONDS: Final = 0.5
#: How long the frontend may take to say so.
_PATIENCE_SECONDS: Final = 10.0
_MAX_ANSWER_BYTES: Final = 65536


class CountedBackends:
    """Backends that the frontend is asked about: waits until it knows of so many.

    :param starter: makes them so many; None when somebody else does.
    :param wait_seconds: how long at most.
    :param tell: is told what is waited for.
    """

    def __init__(
        self,
        connector: FrontendConnector,
        queue: str,
        starter: Backends | None,
        reactor: Any,
        wait_seconds: float,
        tell: Callable[[str], None],
    ) -> None:
        self._starter = starter
        self._connector = connector
        self._queue = queue
        self._reactor = reactor
        self._wait_seconds = wait_seconds
        self._tell = tell

    async def become(self, count: int) -> None:
        """See Backends."""
        if self._starter is not None:
            await self._starter.become(count)
        until = self._reactor.seconds() + self._wait_seconds
        told = -1
        while (found := await self._count()) != count:
            self.check()
            if found != told:
                self._tell(f"waiting until there are backends: {found} of {count}")
                told = found
            if self._reactor.seconds() > until:
                raise CannotScale(f"after {self._wait_seconds:g} s the frontend knows of {found} backends, not {count}")
            await deferLater(self._reactor, _LOOK_AGAIN_SECONDS)

    def check(self) -> None:
        """See Backends."""
        if self._starter is not None:
            self._starter.check()

    async def end(self) -> None:
        """See Backends."""
        if self._starter is not None:
            await self._starter.end()

    async def _count(self) -> int:
        try:
            asking = await self._connector.connect(lambda: _QueueQuestion(self._queue))
            fields = json.loads(await asking.answered.addTimeout(_PATIENCE_SECONDS, self._reactor))
        except AnswerTimeout:
            raise CannotScale(f"the frontend has not answered for {_PATIENCE_SECONDS:g} s") from None
        except (FrontendLost, ValueError) as error:
            raise CannotScale(f"the frontend does not tell how many backends there are: {error}") from None
        if not isinstance(fields, dict) or not fields.get("ok"):
            raise CannotScale(f"the frontend does not tell of the queue {self._queue}: {str(fields)[:200]}")
        try:
            (queue,) = fields["queues"]
            return int(queue["workers-idle"]) + int(queue["workers-busy"])
        except (KeyError, TypeError, ValueError):
            raise CannotScale("the frontend does not tell how many backends there are") from None


class _QueueQuestion(protocol.Protocol):
    """Asks the frontend for the state of a queue.

    :ivar answered: fires with the line that is answered; fails with FrontendLost.
    """

    def __init__(self, queue: str) -> None:
        self.answered: Deferred[bytes] = Deferred(lambda _: self.transport.abortConnection())
        self._queue = queue
        self._line = b""

    def connectionMade(self) -> None:
        """Ask."""
        self.transport.write(json.dumps({"op": "stats", "queue": self._queue}).encode() + b"\n")

    def dataReceived(self, data: bytes) -> None:
        """Take a piece of the answer."""
        self._line += data
        if b"\n" in self._line or len(self._line) > _MAX_ANSWER_BYTES:
            self.transport.loseConnection()
            self._end(self._line.partition(b"\n")[0])

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        """There will be no answer."""
        self._end(Failure(FrontendLost("it closed the connection")))

    def _end(self, answer: bytes | Failure) -> None:
        if not self.answered.called:
            self.answered.callback(answer)  # a Failure goes on as one
