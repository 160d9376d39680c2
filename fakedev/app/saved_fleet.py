"""The fleet of a service that keeps its state: a new one, or that of the service before, which goes on."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from twisted.logger import Logger

from fakedev.app.run import Run, compiled_source, make_fleet
from fakedev.config.configuration import Configuration
from fakedev.config.schema.nodes import ConfigurationError
from fakedev.net.fleet.journal import JournalFile
from fakedev.net.fleet.state_files import CannotGoOn, Saved
from fakedev.net.fleet.state_folder import StateFolder
from fakedev.sim.compiled import CompiledFleet
from fakedev.sim.events import Reload, StopWorkloads
from fakedev.sim.fleet import Fleet
from fakedev.sim.record import Replay, read_events
from fakedev.sim.snapshot import CannotRead, fleet_from_bytes
from fakedev.spec.errors import Refused
from fakedev.spec.os_errors import CannotWrite

#: What ended the workloads of connections.
RESTARTED = "the service was restarted"
_log = Logger()


def saved_fleet(
    path: str, configuration: Configuration, run: Run, journal: JournalFile | None, reactor: Any
) -> tuple[StateFolder, Fleet, Run]:
    """The fleet of a service whose state is in a folder, and the run with the epoch that the fleet has.

    :param path: of the folder.
    :raises SystemExit: 1, with a line of explanation, when the folder or its content cannot be used.
    """
    state = None
    try:
        state = StateFolder(path, reactor)
        saved = state.read()
        if saved is None:
            fleet = make_fleet(configuration, run.head, state, journal)
            state.begin(fleet, run.head)
            return state, fleet, run
        fleet = _gone_on(saved, state)
        head = replace(run.head, epoch_seconds=fleet.spec.epoch_seconds)
        following = _following(configuration, fleet, saved)
        state.begin(fleet, saved.head, saved.connected)
        if journal is not None:
            fleet.journal.tell = journal.write
        _end_connected(fleet, saved)
        if following is not None:
            fleet.apply(Reload(following, head))
            # As after a reload: all that is made now is of this configuration.
            fleet.advance()
            state.ticked(())
    except (CannotWrite, CannotGoOn) as reason:
        if state is not None:
            state.stopService()
        sys.stderr.write(f"fakedev: the state cannot be used: {reason}\n")
        raise SystemExit(1) from None
    _log.info("the fleet goes on from tick {tick}, which {path} has", tick=fleet.state.tick, path=path)
    return state, fleet, replace(run, head=head)


def _gone_on(saved: Saved, state: StateFolder) -> Fleet:
    """The fleet at the last tick of the service before.

    :raises CannotGoOn: when the folder has something else.
    """
    try:
        fleet = fleet_from_bytes(saved.content, state.record)
        replay = Replay(read_events(saved.lines, 1, compiled_source))
        while fleet.state.tick < saved.tick:
            replay.advance(fleet)
        replay.apply_due(fleet)
        if fleet.is_reloading:
            fleet.advance()
    except (CannotRead, Refused, ConfigurationError) as reason:
        raise saved.damaged(reason) from None
    return fleet


def _end_connected(fleet: Fleet, saved: Saved) -> None:
    """Stop the workloads whose connections are gone."""
    found = fleet.intake.not_ending([each for each in fleet.workloads.by_id if each in saved.connected])
    if found:
        fleet.apply(StopWorkloads(tuple(found), RESTARTED))


def _following(configuration: Configuration, fleet: Fleet, saved: Saved) -> CompiledFleet | None:
    """What the fleet is to be reloaded with; None: it has this configuration.

    :raises CannotGoOn: when it cannot be reloaded with it.
    """
    spec = configuration.fleet
    if configuration.epoch_is_start:
        spec = replace(spec, epoch_seconds=fleet.spec.epoch_seconds)
    if spec == fleet.spec:
        return None
    following = CompiledFleet(spec)
    try:
        fleet.check_can_reload(following)
    except Refused as refusal:
        text = f"{saved.path}: its fleet cannot go on with this configuration: {refusal.text}: "
        raise CannotGoOn(f"{text}restore that, or move the folder away to begin anew") from None
    return following
