"""The documents say of quantities and of the series of workloads what the program has."""

from __future__ import annotations

from pathlib import Path

from fakedev.exposition.workload_series import WORKLOAD_SERIES
from tests.config_documents import HOW, IDENTITIES, current_identities

DOCUMENTS = Path(__file__).resolve().parent.parent / "doc"
COMMON = {label.name for label in WORKLOAD_SERIES.labels}


def table(document: str, head: str) -> list[str]:
    """The rows of a table that begins with a certain line."""
    lines = iter((DOCUMENTS / document).read_text(encoding="utf-8").splitlines())
    assert head in lines, head
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append(line)
    return rows


def test_quantities() -> None:
    """All that identities may show, in the words of the program."""
    assert len(table("identities.md", "| quantity | what |")) > 50
    assert IDENTITIES.read_text(encoding="utf-8") == current_identities(), f"{IDENTITIES} {HOW}"


def test_series_of_workloads() -> None:
    """Each family with its labels beside the common ones, and its help text."""
    expected = []
    for family in WORKLOAD_SERIES.families:
        labels = dict.fromkeys(label.name for row in family.rows for label in row.labels)
        said = ", ".join(f"`{name}`" for name in labels) or "-"
        expected.append(f"| `{family.name.removeprefix('fakedev_workload_')}` | {said} | {family.help} |")
    assert table("workload-series.md", "| `fakedev_workload_...` | more labels | what |") == expected


def test_common_labels() -> None:
    """The document names them."""
    text = (DOCUMENTS / "workload-series.md").read_text(encoding="utf-8").partition("| `fakedev_workload_...` |")[0]
    assert all(f"`{name}`" in text for name in COMMON)
