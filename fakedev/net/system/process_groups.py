"""Process groups: a command and the processes that it started, as long as they stay in its group."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from typing import Final

_PROCESSES: Final = "/proc"


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
