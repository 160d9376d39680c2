"""The fleet of a program, new or with the state of the one before: its clock, its workloads, and what records it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from twisted.internet.defer import maybeDeferred

from fakedev import __version__
from fakedev.base.errors import CannotWrite
from fakedev.config.configuration import Configuration
from fakedev.config.start import make_fleet
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.hub import WorkloadHub
from fakedev.fleet.ticker import Ticker
from fakedev.runtime.clock import no_op
from fakedev.runtime.listening import CannotStart, Listeners
from fakedev.runtime.memory import give_back_freed_memory
from fakedev.runtime.part import IPart, Part, parts_of
from fakedev.runtime.reactor import IReactor
from fakedev.runtime.turns import FairShare
from fakedev.service.program_run import Run

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from fakedev.fleet.entities.reindex import FleetReindex
    from fakedev.fleet.journal_files import JournalFile, Recorder
    from fakedev.fleet.state_folder import StateFolder
    from fakedev.web.metrics import Group


class FleetPart(Part):
    """The simulated fleet with its clock; its record, its journal and its state, which are files.

    :ivar configuration: the one in use.
    :ivar run: with the epoch of the fleet.
    :ivar state: the folder of its state; None for none.
    :raises CannotStart: when a file or the saved state cannot be used.
    """

    def __init__(
        self, configuration: Configuration, run: Run, listeners: Listeners, fair_share: FairShare, reactor: IReactor
    ) -> None:
        self.configuration = configuration
        self._listeners = listeners
        self._others: Sequence[IPart] = ()
        self._recorder: Recorder | None = None
        self._journal: JournalFile | None = None
        self.state: StateFolder | None = None
        self._moves: FleetReindex | None = None
        self._keeps_freed = False
        if run.record:
            from fakedev.fleet.journal_files import Recorder  # noqa: PLC0415 - most runs are not recorded

            self._recorder = Recorder(run.record, run.head)
        if configuration.journal is not None:
            from fakedev.fleet.journal_files import JournalFile  # noqa: PLC0415 - few have one

            file = configuration.journal
            try:
                self._journal = JournalFile(file.file, file.max_bytes, file.keep, reactor)
            except CannotWrite as reason:
                raise CannotStart(f"fakedev: the journal cannot be written: {reason}") from None
        try:
            self.fleet, self.run = self._fleet_of(configuration, run, reactor)
        except CannotStart:
            if self._journal is not None:
                self._journal.stopService()
            raise
        self.hub = WorkloadHub(
            self.fleet, fair_share, "the scenario" if run.scenario else "",
            self.state.note_connected if self.state else no_op,
        )  # fmt: skip
        self.ticker = Ticker(
            self.fleet, configuration.speed, reactor, self.hub.notify_listeners, self._tick_ended,
            lambda: self.hub.is_notifying, lambda: bool(reactor.getWriters()), self._tick_begins,
            fair_share.hold,
        )  # fmt: skip
        super().__init__("fleet", [self.ticker, self._journal, self.state])

    def _fleet_of(self, configuration: Configuration, run: Run, reactor: IReactor) -> tuple[Fleet, Run]:
        if configuration.state is None:
            return make_fleet(configuration, run.head, self._recorder, self._journal), run
        # Only with such a folder.
        from fakedev.service.saved_fleet import saved_fleet  # noqa: PLC0415

        if run.scenario is not None:
            text = "a scenario begins with its fleet, which state: lets go on: leave one of the two out"
            raise CannotStart(f"fakedev: {text}", 2)
        self.state, fleet, run = saved_fleet(
            configuration.state, configuration, run, self._recorder, self._journal, reactor
        )
        return fleet, run

    def startService(self) -> None:
        """Begin the record, then the clock.

        :raises CannotStart: when the record cannot be written.
        """
        if self._recorder is not None:
            # All addresses are ours now: another fakedev with the same record would have been found there.
            try:
                self._recorder.open()
            except CannotWrite as reason:
                self._listeners.give_up(f"the record cannot be written: {reason}")
        self._others = parts_of(self.parent)
        super().startService()

    def stopService(self) -> Deferred[None]:
        """Stop the clock; then the record is complete."""
        end_record = self._recorder.close if self._recorder is not None else no_op
        return maybeDeferred(super().stopService).addCallback(lambda _: end_record())

    def summary(self) -> list[str]:
        """What is simulated, in a line, and the remarks on the configuration in use, for the announcement."""
        titles = ", ".join(dict.fromkeys(identity.title for identity in self.configuration.identities.values()))
        summary = f"fakedev {__version__}: {self.fleet.roster.summary}, simulated, shown as {titles}"
        return [summary, *(f"note: {note}" for note in self.configuration.notes)]

    def metrics(self) -> Mapping[str, Group]:
        from fakedev.fleet.metrics import fleet_groups  # noqa: PLC0415 - the exporter has none

        return fleet_groups(self.fleet, self.ticker, self.state, self._journal, self.parent.problems)

    def problems(self) -> Mapping[str, str]:
        files = {"record": self._recorder, "journal": self._journal, "state": self.state}
        return {name: file.problem for name, file in files.items() if file is not None}

    def unready_reason(self) -> str | None:
        return self.ticker.unready_reason()

    def drain(self) -> None:
        """End an advance, whose peer is still connected."""
        self.ticker.stop_advance()

    def _tick_begins(self) -> None:
        for part in self._others:
            part.before_tick()

    def _tick_ended(self) -> None:
        if self.state is not None:  # first of all its state is kept
            self.state.ticked(self.hub.connected())
        for file in (self._recorder, self._journal):
            if file is not None:
                file.write_waiting()
        for part in self._others:
            part.ticked()
        if self.fleet.moves is not self._moves:
            self._moves, self._keeps_freed = self.fleet.moves, True
        elif self._keeps_freed:  # the first tick after a change of the fleet, or after many, that has none
            self._keeps_freed = False
            if self._moves is not None:
                self._moves.before.links.forget()
            give_back_freed_memory()
