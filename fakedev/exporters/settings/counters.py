"""Counters files, as dcgm-exporter's: which fields of a vendor's library an exporter shows, a row each.

A row is ``FIELD, type, help``; empty lines and those that begin with ``#`` are skipped. A field of the type ``label``
becomes a label of every line. A file is read by the rules of Go's encoding/csv and by the exporter's own checks
(``internal/pkg/counters`` of dcgm-exporter 4.8.2): what the exporter does not start with is a problem here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from fakedev.exporters.identity import RowSpec
from fakedev.exporters.settings.keys import COUNTER_FIELDS
from fakedev.schema.places import Node, Place, Report
from fakedev.schema.sections import INVALID, Values, did_you_mean

#: Why some fields cannot be shown.
NOT_SIMULATED: Final = "the simulated state has nothing that this field shows"
#: The types that dcgm-exporter takes (promMetricType). All but labels are the word of a TYPE line; rows stay the same.
_KINDS: Final = ("gauge", "counter", "histogram", "summary", "label")
#: How the exporter's own fields begin, whose types it does not check.
_OF_EXPORTER: Final = "DCGM_EXP_"
#: How much of a file's text a problem shows.
_SHOWN: Final = 80
_NO_QUOTE: Final = 'extraneous or missing " in quoted-field'
_QUOTES: Final = 'put a text with commas in quotes that directly follow the comma: FIELD, gauge,"A, B"'


@dataclass(frozen=True)
class FieldTable:
    """The fields that counters may name.

    :param fields: what each shows, by its name and its other name.
    :param others: names of fields that there are, and that cannot be shown.
    :param level: of the entities that have a row, for fields that give none.
    :param inferred: names that follow from others, and that no source has.
    :param capabilities: facts of boards, which lack the fields of these numbers where the fact is 0.
    """

    fields: Mapping[str, Values]
    others: frozenset[str]
    level: str = "device"
    capabilities: Mapping[str, Sequence[int]] = field(default_factory=dict)
    inferred: frozenset[str] = frozenset()

    def with_capability(self, row: RowSpec, counter: Counter) -> RowSpec:
        """A row of a counter, which only boards with the capability for its field have."""
        number = counter.shows["number"]
        for fact, (first, last) in self.capabilities.items():
            if first <= number <= last:
                return replace(row, excepted=(fact, "0"))
        return row

    @classmethod
    def read(
        cls, node: Node, report: Report, table_of: Callable[[str, Place], FieldTable | None]
    ) -> FieldTable | None:
        """The table of a file of the catalog; None when it is wrong, which was reported.

        :param table_of: the table of a name, on which this one is based.
        """
        values = COUNTER_FIELDS.read(node, "", report)
        if values is INVALID:
            return None
        base: FieldTable | None = cls({}, frozenset(), values["level"], values["capabilities"])
        if values["based-on"]:
            base = table_of(values["based-on"], values.place_of("based-on"))
        if base is None:
            return None
        renamed = values["renamed"].items()
        fields = {
            **base.fields,
            **{new: base.fields[old] for old, new in renamed if old in base.fields},
            **values["fields"],
            **{row["alias"]: row for row in values["fields"].values() if row["alias"]},
        }
        others = {new for old, new in renamed if old in base.others}
        return replace(
            base, fields=fields, others=base.others.union(others, values["not-simulated"]),
            inferred=base.inferred.union(values["inferred"]),
        )  # fmt: skip


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


class _Record(NamedTuple):
    """A record of a CSV file.

    :ivar line: of its first line, from 1.
    :ivar error: why it cannot be read, in the words of encoding/csv; empty for none.
    """

    line: int
    fields: list[str]
    error: str = ""


def read_counters(
    text: str, first: Place, table: FieldTable, report: Report, *, skips_unknown: bool = False
) -> list[Counter]:
    """The counters of a file's text; problems are reported with their line.

    :param first: the place of the text's first line.
    :param skips_unknown: rows of fields that cannot be shown are left out, each with a note.
    """
    found: dict[str, Counter] = {}
    usual_count = 0
    for number, record in enumerate(_CsvReader(text).records()):
        place = Place(first.file, first.line + record.line - 1)
        row = [field.strip(" ") for field in record.fields]
        usual_count = usual_count or len(row)
        if record.error:
            report.problem(place, f"dcgm-exporter cannot read this: {record.error}: {_QUOTES}")
            continue
        if len(row) != 3:
            report.problem(place, _wrong_count(row, number, record.line, usual_count))
            continue
        if skips_unknown and row[0] not in table.fields:
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


class _BadCsv(Exception):
    """``str`` of it is what encoding/csv says."""


class _CsvReader:
    """Reads a CSV file as Go's encoding/csv does, with ``#`` for comments.

    A quote may only begin a field: one after a space is an error. A quoted field may have several lines.
    """

    def __init__(self, text: str) -> None:
        self._lines = [line.removesuffix("\r") for line in text.split("\n")]
        self._ends_with_newline = not self._lines[-1]
        if self._ends_with_newline:
            del self._lines[-1]
        self._first = self._number = 0

    def records(self) -> Iterator[_Record]:
        """All records. After an error the next line is a record again, so that all errors are reported at once."""
        while self._number < len(self._lines):
            self._first = self._number
            fields, error = list[str](), ""
            line = self._lines[self._first]
            if line and not line.startswith("#"):
                try:
                    fields = [*self._fields()]
                except _BadCsv as problem:
                    error = str(problem)
                yield _Record(self._first + 1, fields, error)
            self._number += 1

    def _fields(self) -> Iterator[str]:
        field, end = self._field(0)
        yield field
        while end < len(self._lines[self._number]):
            field, end = self._field(end + 1)
            yield field

    def _field(self, at: int) -> tuple[str, int]:
        """The field that begins at an index of the line, and the index of the comma or the line's end after it."""
        line = self._lines[self._number]
        if line.startswith('"', at):
            return self._quoted(at + 1)
        comma, quote = line.find(",", at), line.find('"', at)
        end = len(line) if comma < 0 else comma
        if 0 <= quote < end:
            raise self._error(quote, 'bare " in non-quoted field')
        return line[at:end], end

    def _quoted(self, at: int) -> tuple[str, int]:
        parts = []
        while True:
            line = self._lines[self._number]
            quote = line.find('"', at)
            if quote < 0 and self._number + 1 == len(self._lines):
                error = self._error(len(line) + self._ends_with_newline, _NO_QUOTE)
                self._number = self._first
                raise error
            if quote < 0:
                parts.append(line[at:] + "\n")
                self._number, at = self._number + 1, 0
            elif line.startswith('""', quote):
                parts.append(line[at : quote + 1])
                at = quote + 2
            else:
                parts.append(line[at:quote])
                if not line.startswith(",", quote + 1) and quote + 1 < len(line):
                    raise self._error(quote, _NO_QUOTE)
                return "".join(parts), quote + 1

    def _error(self, index: int, what: str) -> _BadCsv:
        """An error at an index of the present line; its columns count bytes from 1."""
        line, number = self._lines[self._number], self._number + 1
        column = len(line[:index].encode()) + max(0, index - len(line)) + 1
        begin = f"record on line {self._first + 1}; " if number > self._first + 1 else ""
        return _BadCsv(f"{begin}parse error on line {number}, column {column}: {what}")


def _wrong_count(row: list[str], number: int, line: int, usual_count: int) -> str:
    """The problem of a row that does not have three fields, with what dcgm-exporter says of it.

    :param number: of the record, from 0.
    :param usual_count: how many fields the first record has.
    """
    text = ",".join(row)[:_SHOWN]
    if row[0].startswith("#"):
        remedy = "a comment begins with # in the first column"
    elif len(row) < 3:
        remedy = "a help text may be empty, but needs its comma"
    else:
        remedy = _QUOTES
    says = f"record on line {line}: wrong number of fields"
    if len(row) == usual_count:
        says = f"failed to parse line {number}, expected 3 fields"
    fields = "1 field" if len(row) == 1 else f"{len(row)} fields"
    return f"a counter is FIELD, type, help: {text!r} has {fields}: {remedy} (dcgm-exporter: {says})"


def _counter(place: Place, row: list[str], table: FieldTable, report: Report) -> Counter | None:
    name, kind, text = row
    shown = table.fields.get(name)
    if shown is None:
        says = f" (dcgm-exporter: could not find DCGM field; err: unknown ExporterCounter field {name[:_SHOWN]!r})"
        report.problem(place, _unknown(name, table) + (says if name not in table.others else ""))
        return None
    if kind not in _KINDS:
        hint = did_you_mean(kind, _KINDS, "; ")
        says = f"(dcgm-exporter: could not find Prometheus metric type {kind[:_SHOWN]!r})"
        if name.startswith(_OF_EXPORTER):
            says = "(dcgm-exporter prints it, and Prometheus refuses the page)"
        report.problem(place, f"{name}: the type {kind[:_SHOWN]!r} is none of {', '.join(_KINDS)}{hint} {says}")
        return None
    # Also a fact that is a number can be a label.
    if not (shown["label"] or shown["fact"]) if kind == "label" else shown["label"]:
        right = "a label" if shown["label"] else "a gauge or a counter"
        report.problem(place, f"{name}: can only be {right}, not {kind}")
        return None
    return Counter(name, kind, text, shown, place)


def _unknown(name: str, table: FieldTable) -> str:
    if name in table.others:
        remedy = "take the row out, or begin it with #, or give counters: {file: FILE, unknown: skip} in the identity"
        return f"{name}: {NOT_SIMULATED}: {remedy}"
    return f"no field {name[:_SHOWN]!r}" + did_you_mean(name, {*table.fields, *table.others}, "; ")
