"""How well clones of the reference texts conform to them, with each difference.

Run as a script it writes the section of doc/clone.md again. The texts are in a folder beside the project on the
developers' machines.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fakedev.clone.cloning import Clone, Cloning, Wanted
from fakedev.clone.scraped import SourcePage, grouped
from fakedev.exporters.samples import read_page
from tests.support.paths import GOLDEN, ROOT

DOCUMENT: Final = ROOT / "doc" / "clone.md"
_HEAD: Final = "## Scores\n"
#: The exporter's own test text, of no metric of its.
_NO_PAGE: Final = "dcgm-exporter-4.8.2-test-render.prom"


@dataclass(frozen=True)
class CloneCase:
    """A reference text whose clone differs.

    :param differs: families that differ.
    :param why: the reason.
    """

    file: str
    differs: frozenset[str]
    why: str


#: The texts whose clones do not conform fully.
DIFFERENT: Final = (
    CloneCase(
        "dcgm-exporter-3.0-a100-mig-active-1g5gb.prom",
        frozenset(("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",)),
        "its work uses no tensor pipes (0.0001); that of the clone does (0.02)",
    ),
    CloneCase(
        "dcgm-exporter-4.8.3.DERIVED-default-2xH100.prom",
        frozenset((
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES",
        )),
        "Go writes an exponent from a million on, and the text, put together by hand, has none",
    ),
)  # fmt: skip


def texts() -> list[Path]:
    """The reference texts."""
    return sorted(path for path in GOLDEN.glob("*.prom") if path.name != _NO_PAGE)


def clone_of(path: Path) -> Clone:
    """The clone of a text."""
    page = SourcePage(path.stem, read_page(path.read_text(encoding="utf-8")))
    wanted = Wanted(ROOT / "fleet.yaml", ROOT / "fleet-identity.yaml")
    return Cloning(wanted, lambda share: None).run(grouped([page]))


def section() -> str:
    """The section of the document."""
    lines = [
        _HEAD,
        "Clones of the reference texts (they are beside the project on the developers' machines; a test keeps this "
        'section as it is). An identity "with changes" is one of its own.',
        "",
        "| text | identity | score | differences |",
        "|---|---|---|---|",
    ]
    reasons = {case.file: f"{len(case.differs)}: {case.why}" for case in DIFFERENT}
    for path in texts():
        ((title, score),) = clone_of(path).scores
        lines.append(f"| {path.stem} | {title} | {score.percent:.1f} % | {reasons.get(path.name, 'none')} |")
    return "\n".join(lines) + "\n"


def with_own_section(document: str) -> str:
    """A document with the section, its last one, in its place."""
    return document[: document.index(_HEAD)] + section()


if __name__ == "__main__":
    DOCUMENT.write_text(with_own_section(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
