"""The fleet of a service, new or with the state of the one before, and what writes about it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fakedev.app.run import Run, make_fleet
from fakedev.config.configuration import Configuration, Journal
from fakedev.net.fleet.journal import JournalFile
from fakedev.net.fleet.recorder import Recorder
from fakedev.net.fleet.workloads import WorkloadHub
from fakedev.net.lines.fair_share import FairShare
from fakedev.net.system.timing import no_op
from fakedev.sim.fleet import Fleet
from fakedev.spec.os_errors import CannotWrite

if TYPE_CHECKING:
    from fakedev.net.fleet.state_folder import StateFolder


def fleet_of(
    configuration: Configuration, run: Run, recorder: Recorder | None, journal: JournalFile | None, reactor: Any
) -> tuple[StateFolder | None, Fleet, Run]:
    """The fleet, what keeps its state, and the run with the epoch of the fleet.

    :raises SystemExit: 1, with a line of explanation, when its state cannot be used.
    """
    if configuration.state is None:
        return None, make_fleet(configuration, run.head, recorder, journal), run
    # Only with such a folder.
    from fakedev.app.saved_fleet import saved_fleet  # noqa: PLC0415

    if run.scenario is not None:
        text = "a scenario begins with its fleet, which state: lets go on: leave one of the two out"
        sys.stderr.write(f"fakedev: {text}\n")
        raise SystemExit(2)
    return saved_fleet(configuration.state, configuration, run, recorder, journal, reactor)


def hub_of(fleet: Fleet, fair_share: FairShare, run: Run, state: StateFolder | None) -> WorkloadHub:
    """The workloads of the fleet."""
    master = "the scenario" if run.scenario else ""
    return WorkloadHub(fleet, fair_share, master, state.note_connected if state else no_op)


def kept_after(state: StateFolder | None, hub: WorkloadHub, ticked: Callable[[], None]) -> Callable[[], None]:
    """What follows a tick: first of all its state is kept."""
    if state is None:
        return ticked

    def kept() -> None:
        state.ticked(hub.connected())
        ticked()

    return kept


def journal_file(journal: Journal, reactor: Any) -> JournalFile:
    """The file of the journal.

    :raises SystemExit: 1, with a line of explanation, when it cannot be written.
    """
    try:
        return JournalFile(journal.file, journal.max_bytes, journal.keep, reactor)
    except CannotWrite as reason:
        sys.stderr.write(f"fakedev: the journal cannot be written: {reason}\n")
        raise SystemExit(1) from None
