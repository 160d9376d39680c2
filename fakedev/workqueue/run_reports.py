"""What a backend reports of a run, by how it ended."""

from __future__ import annotations

from typing import Final

from fakedev.workqueue.outcome import Report

#: The exit code of a run that its time limit ended, whatever the command made of the signal; as timeout(1) has it.
TIME_LIMIT_CODE: Final = 124
#: What a shell adds to the number of a signal to make an exit code.
SIGNAL_CODE_BASE: Final = 128
#: The exit code of a run that came to no end of its own, or had no beginning.
NO_RUN_CODE: Final = 1


def command_report(command: str, exit_code: int, signal_number: int, run_seconds: float) -> Report:
    """A command ended by itself, or by a signal that somebody else sent.

    :param signal_number: 0 when it ended by itself.
    """
    if signal_number:
        error = f"{command} was ended by signal {signal_number}"
        return Report(SIGNAL_CODE_BASE + signal_number, error, run_seconds=run_seconds)
    error = f"{command} ended with exit code {exit_code}" if exit_code else ""
    return Report(exit_code, error, run_seconds=run_seconds)


def limit_report(command: str, limit_seconds: float, run_seconds: float) -> Report:
    """A command was ended at its time limit."""
    error = f"{command} was stopped at its time limit of {limit_seconds:g} s"
    return Report(TIME_LIMIT_CODE, error, limit_seconds, run_seconds)


def stopped_report(command: str, run_seconds: float) -> Report:
    """A command was stopped before its end and its limit."""
    return Report(NO_RUN_CODE, f"{command} was stopped before its end", run_seconds=run_seconds)


def unfinished_report(reason: str, run_seconds: float) -> Report:
    """Somebody other than the command, its limit or its client brought a run to no end."""
    return Report(NO_RUN_CODE, reason, run_seconds=run_seconds)


def no_run_report(reason: str) -> Report:
    """A run could not begin."""
    return unfinished_report(reason, 0.0)
