"""Scores of ``fakedev conform`` on captures that were set aside, in doc/identities.md.

``tests/data/held-out.csv`` has their sources, hashes and scores; the texts are not part of the project. Mistakes were
mended by the first half, in the order of their hashes, and in the end by all.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.support.documents.sections import with_section
from tests.support.paths import DATA, DOCUMENTS, FACTS

DOCUMENT: Final = DOCUMENTS / "identities.md"
TEXTS: Final = FACTS / "held-out"
#: What captures are to reach, in percent.
_GOAL: Final = 97
_HEAD: Final = "## Captures that were set aside\n"


class HeldOut(NamedTuple):
    """A capture.

    :ivar kind: ``capture`` of an exporter, or ``written``: a text that somebody made for a test.
    :ivar half: ``first`` or ``second``; ``before``, ``after``: its scores, in percent.
    :ivar is_fragment: compared with ``--fragment``.
    """

    file: str
    kind: str
    half: str
    source: str
    identity: str
    device: str
    is_fragment: bool
    before: float
    after: float
    differences: str
    sha256: str


def captures() -> Sequence[HeldOut]:
    """All captures, in the order of their hashes."""
    with (DATA / "held-out.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines))[1:]
    return [
        HeldOut(file, kind, half, source, identity, device, fragment == "yes", float(before), float(after), why, sha256)
        for file, kind, half, source, identity, device, fragment, before, after, why, sha256 in rows
    ]


def section() -> str:
    """The section of the document."""
    found = captures()
    real = [each for each in found if each.kind == "capture"]
    means = [sum(each.after for each in half) / len(half) for half in (
        [each for each in real if each.half == name] for name in ("first", "second")
    )]  # fmt: skip
    fewer = [each for each in real if each.after < _GOAL]
    lines = [
        _HEAD,
        f"{len(found)} public captures that no identity was built from, set aside by hash "
        "(`tests/data/held-out.csv`) and compared by `fakedev conform`;",
        "then mistakes were mended, first by the first half, later by all. Mean scores: "
        f"{means[0]:.1f} % of the first half, {means[1]:.1f} % of the second; "
        f"{len(real) - len(fewer)} of {len(real)} have {_GOAL} % or more.",
        f"{len(found) - len(real)} are left out of these: somebody wrote them for a test, with numbers and names that "
        "no exporter has (*written*). Most are fragments.",
        "",
        "| half | capture | identity | before | after | differences |",
        "|---|---|---|---|---|---|",
        *(
            f"| {each.half if each.kind == 'capture' else each.kind} | {each.source} | {each.identity} | "
            f"{each.before:.1f} % | {each.after:.1f} % | "
            f"{each.differences or 'none'} |"
            for each in found
        ),
    ]
    return "\n".join(lines) + "\n"


def with_own_section(document: str) -> str:
    """A document with the section in its place."""
    return with_section(document, _HEAD, section())


if __name__ == "__main__":
    DOCUMENT.write_text(with_own_section(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
