"""Runs commands, each in its own process group: when a run has ended, no process of its group is left.

:class:`SleepRun` is the built-in command, which needs no process.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessDone, ProcessTerminated
from twisted.internet.interfaces import IDelayedCall, IProcessTransport, IReactorTime
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import Attribute, Interface, implementer

from fakedev.base.errors import plain_reason
from fakedev.queues.job import Report
from fakedev.queues.run_reports import SLEEP, command_report, limit_report, stopped_report
from fakedev.runtime.clock import PatientCall
from fakedev.runtime.processes import GroupWatchdog, ProcessGroups
from fakedev.runtime.reactor import IReactor

#: How often a run checks whether the other processes of its group have ended.
LOOK_AGAIN_SECONDS: Final = 0.02
_PARTICULAR_REASONS: Final = {errno.EAGAIN: "the limit of processes is reached (ulimit -u)"}
#: How long a run waits after SIGKILL: only a process that hangs in the kernel is left then.
AFTER_KILL_SECONDS: Final = 1.0


class CannotRun(Exception):
    """No request can be run at all; the text says why."""


class IRun(Interface):
    """One run of a request, whatever runs it."""

    ended: Deferred[Report] = Attribute("Fires when the run has ended and nothing of it is left; never fails.")

    def stop() -> None:
        """Stop the run; it may have a grace period."""

    def kill() -> None:
        """Stop the run now."""


@implementer(IRun)
@dataclass(eq=False)
class CommandRun(ProcessProtocol):
    """One run of a command.

    Its group gets SIGTERM at the time limit, when :meth:`stop` is called, and when the command has ended and left
    processes behind; SIGKILL follows after a grace period.

    :param limit_seconds: 0 for none.
    :ivar ended: fires with the Report when no process of the group is left.
    """

    log = Logger()

    _command: str
    _limit_seconds: float
    _kill_after_seconds: float
    _clock: IReactorTime
    _groups: ProcessGroups
    ended: Deferred[Report] = field(default_factory=Deferred, init=False)
    _leader: int = 0
    _began_seconds: float = 0.0
    _calls: list[IDelayedCall | PatientCall] = field(default_factory=list)
    _is_stopping: bool = False
    _is_killed: bool = False
    _hit_limit: bool = False
    _report: Report | None = None

    def stop(self) -> None:
        """Send SIGTERM to the group, and SIGKILL when it has not ended after the grace period."""
        if self._is_stopping or self.ended.called:
            return
        self._is_stopping = True
        self._signal(signal.SIGTERM)
        self._later(self._kill_after_seconds, self.kill)

    def kill(self) -> None:
        """Send SIGKILL to the group."""
        if self._is_killed or self.ended.called:
            return
        self._is_stopping = self._is_killed = True
        self._signal(signal.SIGKILL)
        if self._report is not None:
            self._later(AFTER_KILL_SECONDS, self._give_up)

    def connectionMade(self) -> None:
        self._leader = cast(IProcessTransport, self.transport).pid
        self._began_seconds = self._clock.seconds()
        if self._limit_seconds:
            # A command that ended during a pause of this process is noticed before its limit is checked.
            self._calls.append(PatientCall(self._clock, self._limit_seconds, self._reach_limit))

    def processEnded(self, reason: Failure) -> None:
        """The command has ended; other processes of its group may still run."""
        run_seconds = self._clock.seconds() - self._began_seconds
        status = cast(ProcessDone | ProcessTerminated, reason.value)
        if self._hit_limit:
            self._report = limit_report(self._command, self._limit_seconds, run_seconds)
        elif self._is_stopping:
            self._report = stopped_report(self._command, run_seconds)
        else:
            self._report = command_report(self._command, status.exitCode or 0, status.signal or 0, run_seconds)
        if self._is_killed:
            self._later(AFTER_KILL_SECONDS, self._give_up)
        self._look_for_rest()

    def _reach_limit(self) -> None:
        if self._report is None and not self._is_stopping:
            self._hit_limit = True
            self.stop()

    def _look_for_rest(self) -> None:
        if self._groups.is_gone(self._leader):
            self._finish()
            return
        if not self._is_stopping:
            self.log.debug("{command} has ended and left processes behind: they are stopped too", command=self._command)
            self.stop()
        if self._is_killed:
            self._signal(signal.SIGKILL)  # for processes that were just being started
        self._later(LOOK_AGAIN_SECONDS, self._look_for_rest)

    def _give_up(self) -> None:
        self.log.warn("{command} left processes behind that do not end after SIGKILL", command=self._command)
        self._finish()

    def _finish(self) -> None:
        for call in self._calls:
            if call.active():
                call.cancel()
        report = self._report
        assert report is not None
        self.ended.callback(report)

    def _signal(self, number: int) -> None:
        if self._report is None:
            self._groups.signal(self._leader, number)
        else:
            self._groups.signal_rest(self._leader, number)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        self._calls = [call for call in self._calls if call.active()]
        self._calls.append(self._clock.callLater(seconds, action))


class ProcessRunner:
    """Starts commands, all in the same working directory.

    A command inherits this program's environment, and its input and output or /dev/null instead. Its group ends with
    this program, whatever ends that.

    :param folder: working directory; empty for this program's.
    :param kill_after_seconds: between SIGTERM and SIGKILL.
    :param setsid: path of the program that makes the group; empty: it is searched in PATH.
    :raises CannotRun: when it is not found.
    """

    log = Logger()

    def __init__(
        self,
        reactor: IReactor,
        *,
        folder: str = "",
        null_in: bool = False,
        null_out: bool = False,
        kill_after_seconds: float,
        groups: ProcessGroups | None = None,
        setsid: str = "",
        watchdog: GroupWatchdog | None = None,
    ) -> None:
        self._reactor = reactor
        self._folder = folder
        self._kill_after_seconds = kill_after_seconds
        self._groups = groups or ProcessGroups()
        self._setsid = setsid or _setsid()
        self._watchdog = watchdog or GroupWatchdog(reactor, self._setsid)
        nothing = os.open(os.devnull, os.O_RDWR)
        nulls = {0: null_in, 1: null_out, 2: null_out}
        self._descriptors = {number: nothing if null else _own(number, nothing) for number, null in nulls.items()}

    def start(self, words: Sequence[str], limit_seconds: float) -> CommandRun:
        """Start a command.

        :param words: the absolute path of the program and its arguments.
        :param limit_seconds: 0 for none.
        :raises CannotRun: when the program or the working directory is missing or not usable, or no process can be
            started.
        """
        path = words[0]
        self.check(path)
        run = CommandRun(path, limit_seconds, self._kill_after_seconds, self._reactor, self._groups)
        self._watchdog.start()
        # setsid makes a new group and then becomes the command, with the same process id.
        arguments = [self._setsid, *words]
        try:
            process = self._reactor.spawnProcess(
                run, self._setsid, arguments, env=None, path=self._folder or None, childFDs=self._descriptors
            )
        except OSError as error:
            raise CannotRun(f"cannot start {path}: {plain_reason(error, _PARTICULAR_REASONS)}") from None
        self._watchdog.add(process.pid)
        self.log.debug("{command} runs as process {pid}", command=path, pid=process.pid)
        run.ended.addCallback(self._forget, process.pid)
        return run

    def check(self, path: str) -> None:
        """Check that a program can be started.

        :raises CannotRun: with what prevents it.
        """
        if self._folder and not os.path.isdir(self._folder):
            raise CannotRun(f"the working directory {self._folder} is not there")
        if not os.path.isfile(path):
            raise CannotRun(f"the command {path} is not there")
        if not os.access(path, os.X_OK):
            raise CannotRun(f"the command {path} is not executable for this user")

    def _forget(self, report: Report, leader: int) -> Report:
        self._watchdog.remove(leader)
        return report


def _setsid() -> str:
    path = shutil.which("setsid")
    if path is None:
        raise CannotRun("the program setsid (of util-linux) is not installed, and process groups need it")
    return path


def _own(number: int, nothing: int) -> int:
    """This program's descriptor, or /dev/null's when it was started without."""
    try:
        os.fstat(number)
    except OSError:
        return nothing
    return number


@implementer(IRun)
class SleepRun:
    """A run that only waits; it ends as a command that sleeps would.

    :param limit_seconds: 0 for none.
    :ivar ended: fires with the Report.
    """

    def __init__(self, seconds: float, limit_seconds: float, clock: IReactorTime) -> None:
        self.ended: Deferred[Report] = Deferred()
        self._clock = clock
        self._began_seconds = clock.seconds()
        self._limit_seconds = limit_seconds if 0 < limit_seconds < seconds else 0.0
        self._call = clock.callLater(self._limit_seconds or seconds, self._over)

    def stop(self) -> None:
        if self._call.active():
            self._call.cancel()
            self.ended.callback(stopped_report(SLEEP, self._run_seconds()))

    kill = stop

    def _over(self) -> None:
        if self._limit_seconds:
            self.ended.callback(limit_report(SLEEP, self._limit_seconds, self._run_seconds()))
        else:
            self.ended.callback(command_report(SLEEP, 0, 0, self._run_seconds()))

    def _run_seconds(self) -> float:
        return self._clock.seconds() - self._began_seconds
