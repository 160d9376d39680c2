"""What a calibration found: as a table, and as a picture of measured against simulated values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from fakedev.calibration.fit import Calibration, Finding
from fakedev.calibration.runs import CLOCK, HEAT, MEMORY_HEAT, POWER
from fakedev.tester.report_html import page
from fakedev.tester.svg_plots import Series, line_plot

_MEASURED, _SIMULATED = "#3b7dd8", "#e0902f"
_UNITS: Final = {POWER: "W", CLOCK: "MHz", HEAT: "C", MEMORY_HEAT: "C"}
#: A plot with more points than pixels is no clearer.
_MOST_POINTS: Final = 1200


def rows(calibration: Calibration) -> list[dict[str, str]]:
    """What became of each coefficient, a row each."""
    return [_row(each) for each in calibration.findings]


def difference_lines(calibration: Calibration) -> list[str]:
    """How far measured and simulated values are apart, a line for each quantity."""
    return [
        f"{each.quantity}: measured less simulated {each.rms:.3g} {_UNITS[each.quantity]} (root of the mean square), "
        f"at most {each.largest:.3g} {_UNITS[each.quantity]}"
        for each in calibration.differences()
    ]


def picture(calibration: Calibration, source: str) -> str:
    """A page with a plot of each quantity, which loads nothing else.

    :param source: what the run was read from.
    """
    run = calibration.run
    every = slice(None, None, -(-len(run.seconds) // _MOST_POINTS))
    seconds = run.seconds[every].tolist()
    body = [f"<p>{escape(source)}: {len(run.seconds)} samples in {run.seconds[-1]:g} s</p>"]
    for name, values in calibration.simulated.items():
        lines = {"measured": (_MEASURED, run.numbers[name]), "simulated": (_SIMULATED, values)}
        plotted = [
            Series(title, colour, list(zip(seconds, numbers[every].tolist(), strict=True)))
            for title, (colour, numbers) in lines.items()
        ]
        body.append(line_plot(f"{name} ({_UNITS[name]})", plotted))
    body += [f"<p>{escape(line)}</p>" for line in difference_lines(calibration)]
    body.append(_html_table(rows(calibration)))
    return page(f"{calibration.board.name}: calibrated", body)


def _row(finding: Finding) -> dict[str, str]:
    unit = finding.coefficient.unit
    error = "" if finding.uncertainty is None else f"{finding.uncertainty:.1%}"
    return {
        "coefficient": finding.coefficient.title,
        "catalog": _text(finding.before, unit),
        "fitted": _text(finding.value, unit),
        "error": error,
        "remark": "" if finding.value is not None else f"{finding.why}; it needs {finding.coefficient.needs}",
    }


def _text(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:g} {unit}".strip()


def _html_table(table: Sequence[Mapping[str, str]]) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title in table[0])
    lines = ("".join(f"<td>{escape(text)}</td>" for text in row.values()) for row in table)
    return f"<table><tr>{head}</tr>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"
