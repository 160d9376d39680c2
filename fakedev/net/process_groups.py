"""Groups of processes: a command and all that it started, as far as these stay in its group."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final, Protocol

_PROCESSES: Final = "/proc"


class ProcessGroups(Protocol):
    """What is done with a group; it is known by the process id of its leader."""

    def signal(self, leader: int, number: int) -> None:
        """Send a signal to all processes of a group whose leader has not been waited for."""

    def signal_rest(self, leader: int, number: int) -> None:
        """Send a signal to what is left of a group whose leader has been waited for."""

    def is_gone(self, leader: int) -> bool:
        """Whether nothing that lives is left of a group whose leader has been waited for."""


class SystemGroups:
    """The groups of this machine. Processes that have gone, or run as another user, are passed over."""

    def signal(self, leader: int, number: int) -> None:
        """Send a signal to the group; to the leader alone while it has not made its group yet."""
        try:
            os.killpg(leader, number)
        except ProcessLookupError:
            # spawnProcess returns before the leader has made its group. The leader is there, dead or alive.
            os.kill(leader, number)
        except PermissionError:
            return

    def signal_rest(self, leader: int, number: int) -> None:
        """Send a signal to what is left of the group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, number)

    def is_gone(self, leader: int) -> bool:
        """Whether nothing that lives is left of the group."""
        # Orphans come to process 1, which this program is in a container; nobody else would wait for them there.
        with suppress(ChildProcessError):
            while os.waitpid(-leader, os.WNOHANG)[0]:
                pass
        try:
            os.killpg(leader, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return _are_dead(leader)


def _are_dead(leader: int) -> bool:
    """Whether all of a group have ended, and whoever adopted them is only late in waiting for them."""
    try:
        names = os.listdir(_PROCESSES)
    except OSError:
        return False
    return not any(_is_alive(int(name)) for name in names if name.isdecimal() and _group_of(int(name)) == leader)


def _group_of(process: int) -> int:
    try:
        return os.getpgid(process)
    except OSError:
        return 0


def _is_alive(process: int) -> bool:
    try:
        with open(f"{_PROCESSES}/{process}/stat", "rb") as file:
            # The state follows the name, which stands in parentheses and may hold some.
            state = file.read().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in (b"Z", b"X")
