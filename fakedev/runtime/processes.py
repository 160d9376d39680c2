"""Process groups of commands, and work in a forked copy of this process.

A group has a command and the processes that it started, as long as they stay in the group. A copy has all memory as
it was when the copy was made, so the reactor does not wait for the work.
"""

from __future__ import annotations

import gc
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from typing import Any, Final

from twisted.internet.error import ProcessExitedAlready
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from fakedev.base.errors import CannotWrite, plain_reason
from fakedev.runtime.reactor import IReactor

_PROCESSES: Final = "/proc"
#: Reads ``+ LEADER`` and ``- LEADER``; at the end of its input it kills the groups that still run, or the leader alone
#: when it has not made its group yet.
_WATCHDOG: Final = """
groups=
while read -r change group; do
    others=
    for each in $groups; do
        [ "$each" = "$group" ] || others="$others $each"
    done
    [ "$change" = - ] || others="$others $group"
    groups=$others
done
for group in $groups; do
    kill -s KILL -- "-$group" || kill -s KILL "$group"
done
"""


class ProcessGroups:
    """The process groups of this machine, each named by the process id of its leader.

    Processes that have ended, or run as another user, are skipped.
    """

    def __init__(self) -> None:
        # A process of each group that was alive at the last check: the next check tries it before all others.
        self._seen: dict[int, int] = {}

    def signal(self, leader: int, number: int) -> None:
        """Send a signal to all processes of a group whose leader has not been waited for.

        Only the leader gets it while it has not made its group yet.
        """
        try:
            os.killpg(leader, number)
        except ProcessLookupError:
            # spawnProcess returns before the leader has made its group. The leader exists, dead or alive.
            os.kill(leader, number)
        except PermissionError:
            return

    def signal_rest(self, leader: int, number: int) -> None:
        """Send a signal to the remaining processes of a group whose leader has been waited for."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, number)

    def is_gone(self, leader: int) -> bool:
        """Whether no process is alive in a group whose leader has been waited for."""
        # In a container this program may be process 1, which adopts orphans and must wait for them.
        with suppress(ChildProcessError):
            while os.waitpid(-leader, os.WNOHANG)[0]:
                pass
        try:
            os.killpg(leader, 0)
        except ProcessLookupError:
            self._seen.pop(leader, None)
            return True
        except PermissionError:
            return False
        return not self._lives(leader)

    def _lives(self, leader: int) -> bool:
        """Whether a process of a group is alive; dead ones stay in it until their parent has waited for them."""
        seen = self._seen.pop(leader, None)
        try:
            candidates = chain([] if seen is None else [seen], _processes())
            living = next((each for each in candidates if _group_of(each) == leader and _is_alive(each)), None)
        except OSError:
            return True
        if living is not None:
            self._seen[leader] = living
        return living is not None


class _Ended(ProcessProtocol):
    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended

    def processEnded(self, reason: Failure) -> None:
        self._ended()


class GroupWatchdog:
    """Kills process groups when this program has ended without ending them itself: by SIGKILL, or by a crash.

    A small process reads from a pipe which groups run; the end of the pipe is the end of this program. It has a session
    of its own, so that no signal to this program's group reaches it. A program that is killed in the few microseconds
    between the start of a group and :meth:`add` leaves that group behind.
    """

    log = Logger()

    def __init__(self, reactor: IReactor, setsid: str) -> None:
        self._reactor = reactor
        self._setsid = setsid
        self._pipe = -1
        self._process: Any = None
        self._leaders: set[int] = set()

    def start(self) -> None:
        """Start the process if it does not run; call this before a group is started."""
        if self._pipe < 0:
            self._start()

    def add(self, leader: int) -> None:
        """This group runs."""
        self._leaders.add(leader)
        self._tell(f"+ {leader}\n")

    def remove(self, leader: int) -> None:
        """This group has ended: another one may get its number."""
        self._leaders.discard(leader)
        self._tell(f"- {leader}\n")

    def _start(self) -> None:
        reading, self._pipe = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._pipe, False)
        nothing = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        words = [self._setsid, "/bin/sh", "-c", _WATCHDOG, "fakedev-watchdog"]
        pipe = self._pipe
        protocol = _Ended(lambda: self._give_up(pipe))
        try:
            descriptors = {0: reading, 1: nothing, 2: nothing}
            self._process = self._reactor.spawnProcess(protocol, words[0], words, env={}, childFDs=descriptors)
        except OSError as error:
            self.log.warn("commands will not end with this program: {error}", error=plain_reason(error))
            self._give_up(pipe)
        finally:
            os.close(reading)
            os.close(nothing)
        for leader in self._leaders:
            self._tell(f"+ {leader}\n")

    def _tell(self, line: str) -> None:
        if self._pipe < 0:
            return
        try:
            os.write(self._pipe, line.encode())  # short enough to be written as a whole
        except OSError:
            # It has ended, or does not read: then it must not go on with old numbers. Its end is noticed.
            with suppress(ProcessExitedAlready):
                self._process.signalProcess("KILL")

    def _give_up(self, pipe: int) -> None:
        """The next :meth:`start` starts a new process."""
        if self._pipe == pipe:
            os.close(pipe)
            self._pipe = -1


def _processes() -> Iterator[int]:
    """The ids of all processes of this machine; lists them when the first is needed."""
    for name in os.listdir(_PROCESSES):
        if name.isdecimal():
            yield int(name)


def _group_of(process: int) -> int:
    try:
        return os.getpgid(process)
    except OSError:
        return 0


def _is_alive(process: int) -> bool:
    try:
        with open(f"{_PROCESSES}/{process}/stat", "rb") as file:
            # The state follows the name, which is in parentheses and may contain some.
            state = file.read().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in (b"Z", b"X")


#: The standard streams stay open in a copy: it prints there what is wrong.
_STANDARD_ERROR: Final = 2
_FIRST_DESCRIPTOR: Final = 3
_ANY_DESCRIPTOR: Final = 2**31 - 1

#: Asks how work goes: None while it runs, then whether it has succeeded.
Outcome = Callable[[], bool | None]


def run_in_copy(work: Callable[[], None]) -> Outcome:
    """Begin work in a copy of this process. It may read memory and write files; it has no socket, thread or reactor.

    An exception of the work is printed: a file that cannot be written as one line.

    :raises OSError: when there can be no copy.
    """
    number = os.fork()
    if number:
        return _Copy(number)
    code = 1
    try:
        # It must not receive its parent's signals, nor hold the parent's ports after the parent was killed.
        signal.set_wakeup_fd(-1)
        for signal_number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(signal_number, signal.SIG_DFL)
        os.closerange(_FIRST_DESCRIPTOR, _ANY_DESCRIPTOR)
        gc.disable()
        work()
        code = 0
    except BaseException as error:
        text = f"{error}\n" if isinstance(error, CannotWrite) else traceback.format_exc(limit=-3)
        with suppress(Exception):
            os.write(_STANDARD_ERROR, text.encode())
    finally:
        os._exit(code)


class _Copy:
    """A copy of the process that works."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._outcome: bool | None = None

    def __call__(self) -> bool | None:
        if self._outcome is None:
            try:
                number, status = os.waitpid(self._number, os.WNOHANG)
            except ChildProcessError:  # somebody else has waited for it
                number, status = self._number, 1
            if number:
                self._outcome = status == 0
        return self._outcome
