"""Writes the draft of a release of dcgm-exporter: from DCGM's dcgm_fields.h, or from the exporter's counters file.

A contributor gives either file and what it is compared with, and copies what is printed into
``fakedev/catalog/fields/dcgm-VERSION.yaml`` or into ``releases`` of ``fakedev/catalog/identities/dcgm.yaml``::

    PYTHONPATH=. python -m tests.support.source.release_draft dcgm_fields.h --since dcgm-4.6
    PYTHONPATH=. python -m tests.support.source.release_draft default-counters.csv --since dcgm@4.8.4 --fields dcgm-4.7

Lines that end in ``# guessed`` follow from names only.
"""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from fakedev.exporters.settings.catalog import Catalog
from fakedev.exporters.settings.counters import Counter, FieldTable, read_counters
from fakedev.schema.files import Files
from fakedev.schema.places import ConfigurationError, Place, Report
from fakedev.schema.sections import Values
from tests.support.identities import loaded

_DEFINE: Final = re.compile(r"^#define[ \t]++(DCGM_FI_\w++)[ \t]++(-?\d++|DCGM_FI_\w++)", re.MULTILINE)
#: Names of ranges and counts, which are no fields.
_NO_FIELD: Final = re.compile(r"DCGM_FI_(?:MAX|FIRST|LAST|INTERNAL)_|_(?:FIRST|LAST)_|_(?:BASE|MAX)_FIELD|_UNKNOWN$")
#: What names of DCGM 4.6 and 4.7 say of units, with the unit of the draft where it is not the quantity's own.
_UNITS: Final = {"HERTZ": "Hz", "BYTES": "", "RATIO": "", "CELSIUS": "", "WATTS": "", "JOULES_TOTAL": "", "TOTAL": ""}
_UNIT: Final = re.compile(rf"_(?:{'|'.join(_UNITS)})$")


def table(name: str) -> FieldTable:
    """A table of fields of the catalog.

    :raises ConfigurationError: when there is none of the name.
    """
    report = Report()
    found = Catalog(Files(environ={}), report).field_table(name, Place("--fields"))
    report.raise_if_any()
    assert found is not None
    return found


def fields_draft(header: str, since: str) -> Iterator[str]:
    """The lines of a table of fields: what a header has otherwise than the table of a name.

    :raises ConfigurationError: when there is none of the name.
    """
    base = table(since)
    defined = {name: value for name, value in _DEFINE.findall(header) if not _NO_FIELD.search(name)}
    numbers = {name: int(value) for name, value in defined.items() if not value.startswith("DCGM")}
    by_number = {number: name for name, number in numbers.items()}
    renamed, gone = {}, []
    known = sorted(name for name in {*base.fields, *base.others} if name.startswith("DCGM_FI_"))
    for old in known:
        if old in numbers:
            continue
        number = base.fields[old]["number"] if old in base.fields else None
        new = defined.get(old) or (by_number.get(number) if number is not None else None)
        if new is None:
            gone.append(old)
        elif new not in known:
            renamed[old] = new
    added = [name for name in numbers if name not in {*known, *renamed.values()}]
    guesses = {name: _guess(name, numbers[name], base) for name in added}
    yield f"based-on: {since}"
    yield "renamed:"
    yield from (f"  {old}: {new}" for old, new in renamed.items())
    yield "fields:"
    yield from (f"  {name}: {{{guess}}} # guessed" for name, guess in guesses.items() if guess)
    yield "not-simulated:"
    yield from (f"  - {name}" for name, guess in guesses.items() if not guess)
    yield from (f"# not in the header: {name}" for name in gone)


def _guess(name: str, number: int, base: FieldTable) -> str:
    """What a field shows: as a known one whose name is the same but for the unit; empty if there is none."""
    like = next((known for known in base.fields if known != name and _stem(known) == _stem(name)), None)
    if like is None or not base.fields[like]["quantity"]:
        return ""
    suffix = _UNIT.search(name)
    unit = _UNITS[suffix[0][1:]] if suffix else base.fields[like]["unit"]
    shown = {"number": number, "quantity": base.fields[like]["quantity"], "format": "int", "unit": unit}
    return ", ".join(f"{key}: {value}" for key, value in shown.items() if value)


def _stem(name: str) -> str:
    return _UNIT.sub("", name).replace("MEMORY", "MEM")


def counters_draft(text: str, since: str, fields: str) -> Iterator[str]:
    """The item of a release: what a counters file has otherwise than the release of a name.

    :param fields: the name of the table that the rows are of.
    :raises ConfigurationError: for a file that the exporter does not take.
    """
    report, known = Report(), table(fields)
    rows = {row.name: row for row in read_counters(text, Place("counters", 1), known, report, skips_unknown=True)}
    report.raise_if_any()
    identity = loaded(since)
    families = {family.name: family for family in identity.families}
    old = [*families, *(label.name for label in identity.labels if label.name in known.fields)]
    renamed: dict[str, str] = {}
    for name in (name for name in rows if name not in old):
        like = (each for each in old if each not in rows and each in known.fields and each not in renamed)
        same = next((each for each in like if _shown(known.fields[each]) == _shown(rows[name].shows) != _NOTHING), None)
        renamed |= {same: name} if same else {}
    changed = [
        row for name, row in rows.items()
        if name not in {*old, *renamed.values()}
        or (name in families and (families[name].kind, families[name].help) != (row.kind, row.help))
    ]  # fmt: skip
    gone = [name for name in old if name not in rows and name not in renamed]
    yield '  - release: "VERSION"'
    yield "    pairs: [DCGM-VERSION]"
    yield f"    fields: {fields}"
    if renamed:
        yield "    renamed-counters:"
        yield from (f"      {before}: {_row(rows[after])}" for before, after in renamed.items())
    if changed:
        yield "    counters: |"
        yield from (f"      {_row(row)}" for row in changed)
    if gone:
        yield f"    without: [{', '.join(gone)}] # not in the file"
    yield from (f"    # {note}" for note in report.notes)


#: What a field shows whose name alone is known.
_NOTHING: Final = ("", (), "")


def _shown(field: Values) -> tuple[str, tuple[str, ...], str]:
    """What a field shows, by which two names of it are known as one: quantities of its first row, or its label."""
    row = field["rows"][0] if field["rows"] else field
    return row["quantity"], tuple(row["plus"]), field["label"]


def _row(row: Counter) -> str:
    text = f'"{row.help.replace(chr(34), chr(34) * 2)}"' if {",", '"'} & set(row.help) else f" {row.help}"
    return f"{row.name}, {row.kind},{text}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the draft of a file."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, help="dcgm_fields.h, or a counters file")
    parser.add_argument("--since", required=True, help="the table of fields, or the release, before it")
    parser.add_argument("--fields", help="of a counters file: the table of its fields")
    given = parser.parse_args(arguments)
    try:
        text = given.file.read_text(encoding="utf-8")
    except OSError as error:
        parser.error(str(error))
    is_header = "#define" in text
    if not is_header and not given.fields:
        parser.error("a counters file needs --fields, the table of its fields: dcgm-4.7")
    draft = fields_draft(text, given.since) if is_header else counters_draft(text, given.since, given.fields)
    try:
        sys.stdout.writelines([f"{line}\n" for line in draft])
    except ConfigurationError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
