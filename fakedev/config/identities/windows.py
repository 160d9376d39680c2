"""What exporters count over windows of time: from the names that identities' files use to those of tallies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fakedev.config.configuration import WebEndpoint
from fakedev.config.models import Making
from fakedev.config.schema.nodes import Place, Report
from fakedev.config.schema.schema import did_you_mean
from fakedev.exposition.identity import FamilySpec, Identity, LabelSpec, RowSpec
from fakedev.spec.tallies import CLOCK_SAMPLES, MAX_SAMPLES, XIDS, Tally, is_sampled, is_tally, tallies_of

#: In the value of a label of a row: its window in milliseconds.
_WINDOW = "{window_ms}"


def with_windows(identity: Identity, making: Making, place: Place, report: Report) -> Identity:
    """An identity whose rows name the tallies that they show, with their windows and intervals."""
    rows = [row for family in identity.families for row in family.rows]
    if not any(row.within or any(map(is_tally, row.named)) for row in rows):
        return identity
    sampled = {row.within for row in rows if not CLOCK_SAMPLES.keys().isdisjoint(row.named)}
    for name, seconds in making.windows.items():
        if name in sampled and seconds > making.sample_seconds * MAX_SAMPLES:
            report.problem(place, f"windows: {name} has more than {MAX_SAMPLES} samples: make sample-every longer")
    return replace(identity, families=tuple(_family(each, making, place, report) for each in identity.families))


def tallies_shown(identities: Iterable[Identity], web: Iterable[WebEndpoint]) -> tuple[Tally, ...]:
    """All tallies that pools, addresses and pages show."""
    every = [*identities]
    for endpoint in web:
        shown = [endpoint.identity, *(page.identity for page in endpoint.pages)]
        every += [identity for identity in shown if identity is not None]
    return tallies_of(
        name for identity in every for family in identity.families for row in family.rows for name in row.named
    )


def _family(family: FamilySpec, making: Making, place: Place, report: Report) -> FamilySpec:
    rows = []
    for row in family.rows:
        problem = _problem(row, making.windows)
        if problem:
            report.problem(place, f"{family.name}: {problem}")
        rows.append(row if problem else _row(row, making))
    return replace(family, rows=tuple(rows))


def _problem(row: RowSpec, windows: Mapping[str, float]) -> str:
    """What is wrong with the window of a row; empty for nothing."""
    counted = [name for name in row.named if name == XIDS or name in CLOCK_SAMPLES]
    if row.within and not counted:
        return f"within: nothing in this row is counted over a window; {XIDS} and clock_..._samples can be"
    if row.within and row.within not in windows:
        hint = did_you_mean(row.within, windows) or f"there is {', '.join(windows) or 'none'}"
        return f"within: no window {row.within!r} in windows; {hint}"
    if not row.within and any(name in CLOCK_SAMPLES for name in counted):
        return "clock_..._samples are counted over a window: give within: the name of one of windows"
    return ""


def _row(row: RowSpec, making: Making) -> RowSpec:
    seconds = making.windows[row.within] if row.within else 0.0

    def named(name: str) -> str:
        if not is_tally(name):
            return name
        within = seconds if name == XIDS or name in CLOCK_SAMPLES else 0.0
        return Tally(name, within, making.sample_seconds if is_sampled(name) else 0.0).name

    def label(spec: LabelSpec) -> LabelSpec:
        return replace(spec, value=spec.value.replace(_WINDOW, f"{seconds * 1000:.0f}"))

    single: dict[str, Any] = {field: named(getattr(row, field)) for field in ("quantity", "requires", "per")}
    lists: dict[str, Any] = {field: tuple(map(named, getattr(row, field))) for field in ("plus", "where", "unless")}
    return replace(row, **single, **lists, labels=tuple(map(label, row.labels)))
