"""What the pages of a run have and can have: the metrics and labels that alert rules may ask for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from fakedev.exporters.identity import Identity, RowSpec
from fakedev.fleet.entities.state import State
from fakedev.scenario.rules.alert_rules import Needs, RuleGroup
from fakedev.scenario.samples.series import Series

#: Made by the server that evaluates rules.
_ALERTS: Final = ("ALERTS", "ALERTS_FOR_STATE")

#: Levels whose entities come and go, or that only pages have.
_AT_TIMES: Final = ("xid", "process", "page", "node", "peer")


class Coverage:
    """The metrics and labels that were seen, or that an identity can show on devices of the fleet."""

    def __init__(self) -> None:
        self._metrics: set[str] = set(_ALERTS)
        self._families: set[str] = set()
        self._labels: set[str] = {"alertname", "alertstate"}
        self._seen: dict[int, Sequence[Series]] = {}

    def see(self, place: int, series: Sequence[Series]) -> None:
        """Note the series of a scrape; the same object again costs nothing.

        :param place: of the target among those of its instant.
        """
        if self._seen.get(place) is not series:
            self._seen[place] = series
            for row in series:
                self._metrics.add(row.name)
                self._labels.update(name for name, _ in row.labels)

    def add(self, identities: Iterable[Identity], state: State) -> None:
        """Note what identities can show: also rows that only a fault brings."""
        there = {name for level in state.levels.values() for name in level.arrays if level.mask(name).any()}
        for identity in identities:
            self._labels.update(label.name for label in identity.labels)
            for _, labels in identity.labels_of_levels:
                self._labels.update(label.name for label in labels)
            for family in identity.families:
                rows = [row for row in family.rows if _can_be(row, there)]
                self._labels.update(label.name for row in rows for label in row.labels)
                if rows:
                    self._families.add(family.name)

    def add_rules(self, groups: Iterable[RuleGroup]) -> None:
        """Note the labels that rules give to what they find."""
        for group in groups:
            for rule in group.rules:
                self._labels.update(rule.own_labels)

    def needs(self, recorded: Mapping[str, str]) -> Needs:
        """What rules can have with these pages.

        :param recorded: the expressions of recorded series, by their name.
        """
        return Needs(self._has_metric, self._has_label, recorded)

    def _has_metric(self, name: str) -> bool:
        if name in self._metrics:
            return True
        # Counters and histograms add to the names of their families.
        parts = name.split("_")
        return any("_".join(parts[:count]) in self._families for count in (len(parts), len(parts) - 1))

    def _has_label(self, name: str) -> bool:
        return name in self._labels or name.removeprefix("exported_") in self._labels


def _can_be(row: RowSpec, there: set[str]) -> bool:
    """Whether a row's quantities are there; unknown for levels that the fleet's state only sometimes has."""
    return row.state_level in _AT_TIMES or there.issuperset(row.needed)

