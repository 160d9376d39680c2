"""The scrapes of a Prometheus that watches a fleet: one target for each node, all at the same instants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fakedev.exporters.identity import Identity
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.sources import DeviceSource, HeldStates
from fakedev.fleet.entities.roster import RosterNode
from fakedev.fleet.fleet import Fleet
from fakedev.scenario.entries import Scraping


class Target(NamedTuple):
    """A target: the exporter of a node.

    :ivar labels: job, instance, and further ones.
    """

    node: str
    labels: Mapping[str, str]


class Scrape(NamedTuple):
    """A scrape of a target.

    :ivar target: its place among the targets.
    :ivar page: None: the scrape failed.
    :ivar took_seconds: how long the answer took, as far as a fault delays it.
    """

    target: int
    page: bytes | None
    took_seconds: float = 0.0


class Instant(NamedTuple):
    """All scrapes of an instant.

    :ivar seconds: simulated, since the start.
    :ivar wall_seconds: their timestamp, since 1970.
    :ivar scrapes: of the targets that there are; one that is gone is in none, and its series have ended.
    """

    seconds: float
    wall_seconds: float
    scrapes: Sequence[Scrape]


class Scrapes:
    """Scrapes the nodes of a fleet as Prometheus would.

    :ivar targets: present and past ones; a reload adds its targets.
    """

    def __init__(self, fleet: Fleet, scraping: Scraping) -> None:
        self._fleet = fleet
        self._scraping = scraping
        self._held = HeldStates(lambda: fleet.shown)
        self._places: dict[str, int] = {}
        self._pages: list[tuple[int, RosterNode, Page[RosterNode], float]] = []
        self.targets: list[Target] = []

    def use(self, identities: Mapping[str, Identity]) -> None:
        """Use the fleet as it is now: at the start, and after a reload.

        :param identities: of the pools, by their names.
        """
        fleet = self._fleet
        self._held.renew()
        sources = {name: DeviceSource.of(fleet, identity) for name, identity in identities.items()}
        self._pages = []
        for node in fleet.roster.shown:
            identity = identities[node.pool.name]
            page = Page(LabelCache(identity, sources[node.pool.name]), [node])
            self._held.every(identity.hold_seconds)
            self._pages.append((self._place(node.name), node, page, identity.hold_seconds))

    def keep(self) -> None:
        """Keep what exporters hold for some time; after each tick."""
        self._held.keep()

    def scrape(self, seconds: float, wall_seconds: float) -> Instant:
        """Scrape all nodes that service discovery names."""
        hidden = self._fleet.page_faults.hidden()
        shown = [page for page in self._pages if page[1].name not in hidden]
        return Instant(seconds, wall_seconds, [self._scrape(*target) for target in shown])

    def _place(self, node: str) -> int:
        if node not in self._places:
            self._places[node] = len(self.targets)
            instance = self._scraping.instance.replace("{node}", node)
            labels = {"job": self._scraping.job, "instance": instance, **self._scraping.labels}
            self.targets.append(Target(node, labels))
        return self._places[node]

    def _scrape(self, place: int, node: RosterNode, page: Page[RosterNode], hold_seconds: float) -> Scrape:
        page_faults = self._fleet.page_faults.of(frozenset([node.name]))
        timeout_seconds = self._scraping.timeout_seconds
        late_seconds = 0.0 if page_faults is None else min(page_faults.late_seconds, timeout_seconds)
        if page_faults is not None and page_faults.fails_scrape(timeout_seconds):
            return Scrape(place, None, late_seconds)
        return Scrape(place, page.render(self._held.every(hold_seconds)()), late_seconds)
