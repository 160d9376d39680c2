"""A scenario in virtual time: the fleet, its timeline, its scrapes and its truth, without sockets and clocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from zope.interface import implementer

from fakedev.exporters.identity import Identity
from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.events import ChangeClock, Reload, Stamped
from fakedev.fleet.fleet import Fleet, discard_record
from fakedev.fleet.journal import JournalEntry
from fakedev.fleet.spec.fleet_spec import FleetSpec
from fakedev.fleet.spec.limits import RecordHead
from fakedev.scenario.entries import Scenario
from fakedev.scenario.samples.scrapes import Instant, Scrapes, Target
from fakedev.scenario.timeline import IRunControl, Played, Player
from fakedev.scenario.truth import Truth, TruthFinder


class Setup(NamedTuple):
    """A configuration that a scenario uses: at its start, or from a reload on.

    :ivar identities: of the pools, by their names.
    :ivar source: what it was read from.
    """

    fleet: FleetSpec
    identities: Mapping[str, Identity]
    source: RecordHead


@implementer(IRunControl)
class Run:
    """A run of a scenario in virtual time.

    :param setups: the configuration at the start, then the reloads', by their numbers; all of one epoch.
    :param record: receives every event, in order.
    :param tell: receives the entries of the journal, in order.
    :param on_played: called with each occurrence of the timeline.
    """

    def __init__(
        self,
        scenario: Scenario,
        setups: Sequence[Setup],
        record: Callable[[Stamped], None] = discard_record,
        tell: Callable[[Sequence[JournalEntry]], None] = lambda entries: None,
        on_played: Callable[[Played], None] = lambda played: None,
    ) -> None:
        self.scenario = scenario
        self._setups = setups
        self._finder = TruthFinder()

        def note(entries: Sequence[JournalEntry]) -> None:
            self._finder.note(entries)
            tell(entries)

        spec = setups[0].fleet
        self.fleet = Fleet(spec, record, spec.tick_seconds, note)
        self._finder.watch(self.fleet)
        self._scrapes = Scrapes(self.fleet, scenario.scraping)
        self._player = Player(self.fleet, scenario.occurrences, self, on_played)
        self._used = setups[0].source
        self._scrapes.use(setups[0].identities)
        self.ticks = math.ceil(round(scenario.span_seconds / spec.tick_seconds, 9))

    @property
    def targets(self) -> Sequence[Target]:
        """The targets that there are and were; a reload may add some."""
        return self._scrapes.targets

    @property
    def identities(self) -> Sequence[Identity]:
        """The identities of all pools, each once."""
        every = [identity for setup in self._setups for identity in setup.identities.values()]
        return list(dict.fromkeys(every))

    @property
    def pool_identities(self) -> Mapping[str, Identity]:
        """The identities of the pools as they are now, by their names."""
        return next(setup.identities for setup in self._setups if setup.source is self._used)

    @property
    def truth(self) -> Truth:
        return self._finder.truth(self._player.names)

    @property
    def share_done(self) -> float:
        """How much of it is done, 0 to 1."""
        return self.fleet.state.tick / self.ticks

    def instants(self) -> Iterator[Instant | None]:
        """The scrapes of each instant from the start on; None for a tick without a scrape. The end is exclusive.

        :raises Refused: if the identity of a page does not fit its devices.
        """
        spec = self.fleet.spec
        every = max(1, math.ceil(round(self.scenario.scraping.interval_seconds / spec.tick_seconds, 9)))
        self.fleet.apply(ChangeClock(spec.epoch_seconds, spec.tick_seconds, "start"))
        while self.fleet.state.tick < self.ticks:
            state = self.fleet.state
            is_due = state.tick % every == 0
            yield self._scrapes.scrape(state.seconds, round(state.wall_seconds, 3)) if is_due else None
            self._player.apply_due()
            self.fleet.advance()
            source = self.fleet.source
            if source is not None and source is not self._used:
                self._used = source
                self._scrapes.use(self.pool_identities)
            self._scrapes.keep()

    def reconfigure(self, number: int) -> None:
        setup = self._setups[number]
        self.fleet.apply(Reload(CompiledFleet(setup.fleet), setup.source))

    def set_speed(self, speed: float) -> None:
        """Note the new speed: in virtual time a simulated second is a second of the history."""
        seconds = self.fleet.state.wall_seconds
        self.fleet.apply(ChangeClock(seconds, self.fleet.spec.tick_seconds, f"speed {speed:g}"))
