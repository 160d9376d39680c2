"""Counters files, as dcgm-exporter's: which fields of a vendor's library an exporter shows, a row each.

A row is ``FIELD, type, help``; blank lines and those that begin with ``#`` are skipped. A field of the type ``label``
becomes a label of every line.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from fakedev.config.identities.keys import COUNTER_FIELDS
from fakedev.config.schema.nodes import Node, Place, Report
from fakedev.config.schema.schema import INVALID, Values, did_you_mean

#: Why some fields cannot be shown.
NOT_SIMULATED: Final = "the simulated state has nothing that this field shows"
_KINDS: Final = ("gauge", "counter", "label")
#: How much of a file's text a problem shows.
_SHOWN: Final = 80


@dataclass(frozen=True)
class FieldTable:
    """The fields that counters may name.

    :param fields: what each shows, by its name and its other name.
    :param others: names of fields that there are, and that cannot be shown.
    :param level: of the entities that have a row, for fields that give none.
    """

    fields: Mapping[str, Values]
    others: frozenset[str]
    level: str = "device"

    @classmethod
    def read(cls, node: Node, report: Report) -> FieldTable | None:
        """The table of a file of the catalog; None when it is wrong, which was reported."""
        values = COUNTER_FIELDS.read(node, "", report)
        if values is INVALID:
            return None
        fields = dict(values["fields"])
        for row in values["fields"].values():
            if row["alias"]:
                fields[row["alias"]] = row
        return cls(fields, frozenset(values["not-simulated"]), values["level"])


@dataclass(frozen=True)
class Counter:
    """A row of a counters file: a metric, or a label when ``kind`` is ``label``.

    :param shows: what its field shows.
    """

    name: str
    kind: str
    help: str
    shows: Values
    place: Place


def read_counters(
    text: str, first: Place, table: FieldTable, report: Report, *, skips_unknown: bool = False
) -> list[Counter]:
    """The counters of a file's text; problems are reported with their line.

    :param first: the place of the text's first line.
    :param skips_unknown: rows of fields that cannot be shown are left out, each with a note.
    """
    found: dict[str, Counter] = {}
    for place, row in _rows(text, first, report):
        if skips_unknown and len(row) >= 3 and row[0] not in table.fields:
            why = NOT_SIMULATED if row[0] in table.others else _unknown(row[0], table)
            report.note(place, f"left out: {row[0][:_SHOWN]}: {why}")
            continue
        counter = _counter(place, row, table, report)
        if counter is None:
            continue
        if counter.name in found:
            line = found[counter.name].place.line
            report.note(place, f"{counter.name} is on line {line} already: that row counts")
            continue
        found[counter.name] = counter
    return list(found.values())


def _rows(text: str, first: Place, report: Report) -> Iterator[tuple[Place, list[str]]]:
    for number, line in enumerate(text.splitlines()):
        if line.strip() and not line.lstrip().startswith("#"):
            place = Place(first.file, first.line + number)
            try:
                cells = next(csv.reader([line]))
            except csv.Error as error:
                report.problem(place, f"is not CSV: {error}")
                continue
            yield place, [*(cell.strip() for cell in cells[:2]), *filter(None, [",".join(cells[2:]).strip()])]


def _counter(place: Place, row: list[str], table: FieldTable, report: Report) -> Counter | None:
    if len(row) < 3:
        report.problem(place, f"a counter is FIELD, type, help: {','.join(row)[:_SHOWN]!r} has {len(row)} of the three")
        return None
    name, kind, text = row[0], row[1].lower(), row[2]
    shown = table.fields.get(name)
    if shown is None:
        report.problem(place, _unknown(name, table))
        return None
    if kind not in _KINDS:
        report.problem(place, f"{name}: the type {kind[:_SHOWN]!r} is none of {', '.join(_KINDS)}")
        return None
    # Also a fact that is a number can be a label.
    if not (shown["label"] or shown["fact"]) if kind == "label" else shown["label"]:
        right = "a label" if shown["label"] else "a gauge or a counter"
        report.problem(place, f"{name}: can only be {right}, not {kind}")
        return None
    return Counter(name, kind, text, shown, place)


def _unknown(name: str, table: FieldTable) -> str:
    if name in table.others:
        return f"{name}: {NOT_SIMULATED}: take the row out, or begin it with #, or give unknown: skip"
    return f"no field {name[:_SHOWN]!r}" + did_you_mean(name, {*table.fields, *table.others}, "; ")
