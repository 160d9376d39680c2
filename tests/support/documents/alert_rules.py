"""The tables of doc/alert-rules.md: which fault makes which rule of etc/alert-rules fire, found by promtool.

Run it at the root of the project to bring them up to date, which takes some minutes:
``PYTHONPATH=. python -m tests.support.documents.alert_rules``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fakedev.base.units import format_duration
from fakedev.commands.alert_rules import Answer, answer
from fakedev.scenario.rules.rule_files import read_rules
from tests.support.paths import DOCUMENTS, ROOT

PAGE: Final = DOCUMENTS / "alert-rules.md"
FOLDER: Final = ROOT / "etc" / "alert-rules"
#: Rule file to the identity of its pages, and their boards.
PAGES: Final = {
    "dcgm.yml": (str(FOLDER / "dcgm-identity.yaml"), "h100"),
    "dcgm-before-ampere.yml": (str(FOLDER / "dcgm-identity.yaml"), "v100"),
    "nvidia-gpu-exporter.yml": ("nvidia-gpu-exporter", "h100"),
    "nvidia-gpu-exporter-before-ampere.yml": ("nvidia-gpu-exporter", "v100"),
    "amd-device-metrics.yml": ("amd-device-metrics", "mi300x"),
    "xpumanager.yml": ("xpumanager", "max-1550"),
    "xpumd.yml": ("xpumd", "max-1550"),
}
#: What stays although the fault is over and the board was reset: the board stores it.
STAYS: Final = frozenset((
    "DoubleBitErrorsEver", "UncorrectedErrors", "RowRemapFailed", "Unhealthy", "LinkRecoveries", "PagesRetired",
    "PagesRetiredMany",
))  # fmt: skip


class Row(NamedTuple):
    """A row of a table: an alert, and the fault that makes it fire, empty for none."""

    alert: str
    fault: str


def answers(file: str) -> list[Answer]:
    """What makes the rules of a file fire."""
    rules = read_rules((FOLDER / file).read_text(encoding="utf-8"), file)
    return answer(rules, *PAGES[file], {}, lambda share: None)


def table(file: str) -> str:
    """The table of a file."""
    lines = ["| alert | expression | for | fault | fires after | clears |", "|---|---|---|---|---|---|"]
    for rule, fires, reason in answers(file):
        waits = format_duration(rule.for_seconds) if rule.for_seconds else "-"
        expression = f"`{rule.expression}`".replace("|", "\\|")
        if fires:
            fault, seconds = f"`{fires[0][0].trial.words}`", f"{fires[0][1]:.0f} s"
            clears = "never: the board stores it" if rule.name in STAYS else "yes"
            fault += f"; {reason}" if reason else ""
        else:
            fault, seconds, clears = reason.replace(str(ROOT) + "/", ""), "-", "-"
        lines.append(f"| {rule.name} | {expression} | {waits} | {fault} | {seconds} | {clears} |")
    return "\n".join(lines) + "\n"


def rows(file: str) -> list[Row]:
    """The rows of a file's table, as the document has them."""
    page = PAGE.read_text(encoding="utf-8")
    text = page.partition(f"<!-- {file}: begin -->\n")[2].partition("<!--")[0]
    cells = [line.replace("\\|", "").split("|") for line in text.splitlines()[2:]]
    faults = [cell[-4].partition(";")[0].strip().strip("`") if cell[-3].strip() != "-" else "" for cell in cells]
    return [Row(cell[1].strip(), fault) for cell, fault in zip(cells, faults, strict=True)]


def with_tables(page: str) -> str:
    """The page with the tables as they are now."""
    for file in PAGES:
        begin, end = f"<!-- {file}: begin -->\n", f"<!-- {file}: end -->"
        before, _, rest = page.partition(begin)
        _, found, after = rest.partition(end)
        assert found, f"no place for the table of {file}"
        page = before + begin + table(file) + end + after
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
