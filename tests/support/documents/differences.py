"""What fakedev does as the four originals do, and what differs: the rows of ``differences.yaml``.

Run as a script it writes the section of doc/switching.md again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from tests.support.documents.sections import with_section
from tests.support.paths import DOCUMENTS

DOCUMENT: Final = DOCUMENTS / "switching.md"
_HEAD: Final = "## What is equal and what differs, row by row\n"


@dataclass(frozen=True)
class Row:
    """One thing that users of an original rely on.

    :param there: what the original does; empty where both do the same.
    :param here: what fakedev does.
    :param why: the reason of the difference.
    :param test: the test that shows it.
    :param lines: command lines that show it, with a part of what they print.
    """

    what: str
    there: str = ""
    here: str = ""
    why: str = ""
    test: str = ""
    lines: dict[str, str] = field(default_factory=dict)


ROWS: Final = {
    original: tuple(Row(**row) for row in rows)
    for original, rows in yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")).items()
}


def section() -> str:
    """The section of the document."""
    text = (
        f"{_HEAD}\nMost differences are bugs of the originals, or what they announce and do not do; others are not "
        "known. A test shows each row (`tests/support/documents/differences.yaml`). [The image]"
        "(kubernetes.md#containers), [the chart](kubernetes.md#the-helm-chart).\n"
    )
    for original, rows in ROWS.items():
        equal = "; ".join(row.what for row in rows if not row.there)
        text += f"\n### {original}\n\nEqual: {equal}.\n\n| what | the original | fakedev | why |\n|---|---|---|---|\n"
        for row in rows:
            if row.there:
                text += f"| {row.what} | {row.there} | {row.here} | {row.why} |\n"
    return text


def written() -> str:
    """The document with the section as it should be."""
    return with_section(DOCUMENT.read_text(encoding="utf-8"), _HEAD, section())


if __name__ == "__main__":
    DOCUMENT.write_text(written(), encoding="utf-8")
