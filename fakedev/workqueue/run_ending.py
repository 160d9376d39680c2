"""How the run of a command ended, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: The exit code of a run that its time limit ended, whatever the command made of the signal; as timeout(1) has it.
TIME_LIMIT_CODE: Final = 124
#: What a shell adds to the number of a signal to make an exit code.
SIGNAL_CODE_BASE: Final = 128
#: The exit code of a run that came to no end of its own, as it was stopped or never begun.
NO_RUN_CODE: Final = 1


@dataclass(frozen=True)
class Ending:
    """How a run ended.

    :param exit_code: of the command, 128 + N when signal N ended it, 124 when its time limit did.
    :param error: why it is no success; empty when it is one.
    :param limit_seconds: the time limit that ended it; 0 when none did.
    """

    exit_code: int
    error: str
    run_seconds: float
    limit_seconds: float = 0.0


def command_ending(command: str, exit_code: int, signal_number: int, run_seconds: float) -> Ending:
    """The ending of a command that ended by itself, or by a signal that somebody else sent.

    :param signal_number: 0 when it ended by itself.
    """
    if signal_number:
        error = f"{command} was ended by signal {signal_number}"
        return Ending(SIGNAL_CODE_BASE + signal_number, error, run_seconds)
    error = f"{command} ended with exit code {exit_code}" if exit_code else ""
    return Ending(exit_code, error, run_seconds)


def limit_ending(command: str, limit_seconds: float, run_seconds: float) -> Ending:
    """The ending of a command that its time limit ended."""
    error = f"{command} was stopped at its time limit of {limit_seconds:g} s"
    return Ending(TIME_LIMIT_CODE, error, run_seconds, limit_seconds)


def stopped_ending(command: str, run_seconds: float) -> Ending:
    """The ending of a command that the backend stopped before its end and before its limit."""
    return Ending(NO_RUN_CODE, f"{command} was stopped, as its backend ends", run_seconds)


def refused_ending(reason: str) -> Ending:
    """The ending of a run that could not begin."""
    return Ending(NO_RUN_CODE, reason, 0.0)
