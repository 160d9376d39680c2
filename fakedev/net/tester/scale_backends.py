"""Backends whose number can be chosen: started by a command for each, or by one command for all."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any, Protocol

from twisted.internet.defer import Deferred, DeferredList

from fakedev.net.system.commands import ProcessRunner
from fakedev.net.system.runs import CannotRun, Run


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
