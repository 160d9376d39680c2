"""What ``promtool check metrics`` remarks on the page of each identity, and what causes it.

Run as a script it writes the section of doc/identities.md again. promtool comes with Prometheus.
"""

from __future__ import annotations

import subprocess
from typing import Final

from fakedev.config.sample_page import sample_page
from tests.support.documents.sections import with_section
from tests.support.identities import TITLES, loaded
from tests.support.paths import DOCUMENTS

DOCUMENT: Final = DOCUMENTS / "identities.md"
_HEAD: Final = "## What promtool says of them\n"
#: What is remarked, in a few words, and why it is so.
WHY: Final = {
    'counter metrics should have "_total" suffix': (
        "counters without `_total`",
        "the exporter names metrics after DCGM's fields, and its list calls some of them counters",
    ),
    "label names should be written in 'snake_case' not 'camelCase'": (
        "`modelName`", "the exporter's own label",
    ),
    "metric name should not include type 'counter'": (
        "`DCGM_FI_DEV_PCIE_REPLAY_COUNTER`", "the field's name",
    ),
    'non-counter metrics should not have "_total" suffix': (
        "gauges in `_total`", "totals, for example of memory, or counters that the exporter declares as gauges",
    ),
    'non-histogram and non-summary metrics should not have "_count" suffix': (
        "gauges in `_count`", "the exporter's name for a number of things",
    ),
    'non-histogram and non-summary metrics should not have "_sum" suffix': (
        "gauges in `_sum`", "what the exporter adds up over the cores or devices of a node",
    ),
    "metric names should be written in 'snake_case' not 'camelCase'": (
        "names in `mW`", "the exporter writes the unit so",
    ),
    "metric name should not include type 'histogram'": (
        "`remapped_rows_histogram`", "the exporter names metrics after nvidia-smi's columns",
    ),
    "no help text": ("no help", "the exporter gives none, or none is known"),
}  # fmt: skip


def remarks(page: bytes) -> dict[str, int]:
    """On how many metrics promtool makes each remark.

    :raises ValueError: when it cannot read the page.
    """
    checked = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, check=False)
    if checked.returncode not in (0, 3):
        raise ValueError(checked.stderr.decode())
    found: dict[str, int] = {}
    for line in (checked.stdout + checked.stderr).decode().splitlines():
        remark = line.partition(" ")[2]
        found[remark] = found.get(remark, 0) + 1
    return found


def section() -> str:
    """The section of the document."""
    lines = [
        _HEAD,
        "`promtool check metrics` reads every page without an error. What it remarks on the style is the vendors' own:",
        "",
        "| identity | remarks |",
        "|---|---|",
    ]
    remarked: dict[str, list[str]] = {}
    for title in TITLES:
        found = remarks(sample_page(title, loaded(title).board)[1].encode())
        words = "; ".join(f"{WHY[remark][0]} ({count})" for remark, count in sorted(found.items()))
        remarked.setdefault(words or "none", []).append(title)
    lines += [f"| {', '.join(titles)} | {words} |" for words, titles in remarked.items()]
    lines += ["", *(f"- {what}: {why}." for what, why in WHY.values())]
    return "\n".join(lines) + "\n"


def with_own_section(document: str) -> str:
    """A document with the section in its place."""
    return with_section(document, _HEAD, section())


if __name__ == "__main__":
    DOCUMENT.write_text(with_own_section(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
