"""The texts of the files of a clone: remarks, then a document."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any, Final

import yaml

#: The first line of each file, by which a clone knows its own files again.
FIRST_LINE: Final = "# Made by fakedev clone.\n"
_WIDTH: Final = 118


def file_text(document: Mapping[str, Any]) -> str:
    """A document below the first line."""
    body = yaml.dump(
        dict(document), Dumper=_dumper(), sort_keys=False, default_flow_style=None, width=1000, allow_unicode=True
    )
    return FIRST_LINE + body


def with_remarks(text: str, remarks: Iterable[str]) -> str:
    """A file's text with remarks below its first line."""
    lines = [
        line
        for remark in remarks
        for line in textwrap.wrap(
            _printable(remark), _WIDTH, initial_indent="# - ", subsequent_indent="#   ", break_on_hyphens=False
        )
    ]
    return FIRST_LINE + "".join(f"{line}\n" for line in lines) + text.removeprefix(FIRST_LINE)


def _dumper() -> Any:
    """PyYAML's dumper in C where it was built with it: it is five times as fast."""
    return getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
