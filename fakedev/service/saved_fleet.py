"""The fleet of a service that keeps its state: a new one, or the previous service's, continued."""

from __future__ import annotations

from dataclasses import replace

from twisted.logger import Logger

from fakedev.base.errors import CannotWrite, Refused
from fakedev.config.configuration import Configuration
from fakedev.config.start import compiled_source, make_fleet
from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.events import Reload, StopWorkloads, with_nodes_of
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.journal_files import CannotContinue, HistoryKeeper, JournalFile, Recorder, continued_record
from fakedev.fleet.record import Replay, read_events
from fakedev.fleet.snapshot import CannotRead, fleet_from_bytes
from fakedev.fleet.spec.limits import RecordHead
from fakedev.fleet.state_folder import CLUSTER_HEALTH, CannotGoOn, Saved, StateFolder
from fakedev.runtime.listening import CannotStart
from fakedev.runtime.reactor import IReactor
from fakedev.schema.places import ConfigurationError
from fakedev.service.program_run import Run

#: What ended the workloads of connections.
RESTARTED = "the service was restarted"
_log = Logger()


def saved_fleet(
    path: str, configuration: Configuration, run: Run, recorder: Recorder | None, journal: JournalFile | None,
    reactor: IReactor,
) -> tuple[StateFolder, Fleet, Run]:  # fmt: skip
    """The fleet of a service whose state is in a folder, and the run with the epoch that the fleet has.

    :param path: of the folder.
    :param recorder: of the run; its record goes on with the fleet.
    :raises CannotStart: when the folder or its content cannot be used, or the record.
    """
    state = None
    record = "" if recorder is None else recorder.path
    try:
        state = StateFolder(path, reactor)
        keeper = HistoryKeeper(state)
        saved = state.read()
        if saved is None or configuration.kubernetes is None:
            state.forget(CLUSTER_HEALTH)  # it is not of this fleet, or would be too old for a later cluster
        if saved is None:
            keeper.recorder = recorder
            fleet = make_fleet(configuration, run.head, keeper, journal)
            state.begin(fleet, run.head, record=record)
            return state, fleet, run
        fleet = _gone_on(saved, keeper)
        head = replace(run.head, epoch_seconds=fleet.spec.epoch_seconds)
        following = _following(configuration, fleet, saved, head if recorder is not None else None)
        if recorder is not None:
            recorder.go_on(continued_record(record, saved, fleet.spec.epoch_seconds))
            keeper.recorder = recorder
        state.begin(fleet, saved.head, saved.connected, saved.last_event.followed_by(saved.lines), record)
        if journal is not None:
            fleet.journal.tell = journal.write
        # The connections of these workloads ended with the old process.
        disconnected = fleet.intake.not_ending([each for each in fleet.workloads.by_id if each in saved.connected])
        if disconnected:
            fleet.apply(StopWorkloads(tuple(disconnected), RESTARTED))
        if following is not None:
            fleet.apply(Reload(following, head))
            # As after a reload: all that is made now is of this configuration.
            fleet.advance()
            state.ticked(())
    except (CannotWrite, CannotGoOn, CannotContinue) as reason:
        if state is not None:
            state.stopService()
        what = "record cannot go on" if isinstance(reason, CannotContinue) else "state cannot be used"
        raise CannotStart(f"fakedev: the {what}: {reason}") from None
    for damage in saved.damages:
        _log.warn("the state: {damage}", damage=damage)
    _log.info("the fleet goes on from tick {tick}, which {path} has", tick=fleet.state.tick, path=path)
    return state, fleet, replace(run, head=head)


def _gone_on(saved: Saved, keeper: HistoryKeeper) -> Fleet:
    """The fleet at the last tick of the service before.

    :raises CannotGoOn: when the folder has something else.
    """
    try:
        fleet = fleet_from_bytes(saved.content, keeper.record)
        replay = Replay(read_events(saved.lines, 1, compiled_source))
        while fleet.state.tick < saved.tick:
            replay.advance(fleet)
        replay.apply_due(fleet)
        if fleet.is_reloading:
            fleet.advance()
    except (CannotRead, Refused, ConfigurationError) as reason:
        raise saved.damaged(reason) from None
    return fleet


def _following(
    configuration: Configuration, fleet: Fleet, saved: Saved, recorded: RecordHead | None
) -> CompiledFleet | None:
    """The configuration to reload the fleet with; None: it has this configuration already.

    :param recorded: what the configuration was read from, if that gets into a record, in which all that pages show of
        it must be; None: only the fleet counts.
    :raises CannotGoOn: when it cannot be reloaded with it.
    """
    spec = configuration.fleet
    if configuration.epoch_is_start:
        spec = replace(spec, epoch_seconds=fleet.spec.epoch_seconds)
    # The nodes of a cluster stay until it says what has become of them.
    spec = with_nodes_of(spec, fleet.spec)
    is_same_source = recorded is None or _source(recorded) == _source(fleet.source or saved.head)
    if spec == fleet.spec and is_same_source:
        configuration.compiled.clear()  # the saved fleet has its own
        return None
    following = CompiledFleet.taken(spec, configuration.compiled)
    try:
        fleet.check_can_reload(following)
    except Refused as refusal:
        text = f"{saved.path}: its fleet cannot go on with this configuration: {refusal.text}: "
        raise CannotGoOn(f"{text}restore that, or move the folder away to begin anew") from None
    return following


def _source(head: RecordHead) -> RecordHead:
    """What a configuration was read from, without when and by which version."""
    return replace(head, version="", epoch_seconds=0.0)
