"""The report of a calibration (table and picture), the plan of a run, and the YAML of the calibrated type.

The picture shows measured against simulated values. The plan says what to run on a real board so that its run
determines every coefficient: ten minutes, in phases. The YAML is the catalog's file with the fitted values, and what
they were fitted to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import yaml

from fakedev.base.html import Series, line_plot, page, table
from fakedev.calibrate.fit import Calibration, Finding
from fakedev.calibrate.runs import CLOCK, HEAT, MEMORY_HEAT, POWER
from fakedev.fleet.spec.device_types import DeviceType
from fakedev.fleet.spec.quantities import quantity_in_file

_MEASURED, _SIMULATED = "#3b7dd8", "#e0902f"
_UNITS: Final = {POWER: "W", CLOCK: "MHz", HEAT: "C", MEMORY_HEAT: "C"}
#: A plot with more points than pixels is no clearer.
_MOST_POINTS: Final = 1200


def rows(calibration: Calibration) -> list[dict[str, str]]:
    """What became of each coefficient, a row each."""
    return [_row(finding) for finding in calibration.findings]


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
    coefficients = rows(calibration)
    body += table(list(coefficients[0]), (list(row.values()) for row in coefficients))
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


@dataclass(frozen=True)
class Phase:
    """A part of the plan.

    :param kind: of work.
    :param load_percent: 0 to 100; None: no process uses the board.
    :param clock_share: the clock is locked at this share of the highest; 1: it is not locked.
    :param how: what to start.
    :param tells: what it tells.
    """

    seconds: int
    kind: str
    load_percent: int | None
    how: str
    tells: str
    clock_share: float = 1.0


_FP32: Final = "dcgmproftester12 --no-dcgm-validation -t 1007 -d"
PHASES: Final = (
    Phase(75, "compute", None, "no process on the board", "idle power, clock and temperature"),
    Phase(45, "compute", 0, "a process that opens a context and sleeps", "power of raised clocks"),
    Phase(150, "compute", 100, f"{_FP32} 150", "full power, heating"),
    Phase(45, "compute", 50, "the same, stopped for half of each second", "power by activity"),
    Phase(60, "compute", 100, f"nvidia-smi -lgc MHZ; {_FP32} 60; nvidia-smi -rgc", "power by clock", 0.6),
    Phase(75, "tensor", 100, "dcgmproftester12 --no-dcgm-validation -t 1004 -d 75", "the clock under the power limit"),
    Phase(45, "memory", 100, "dcgmproftester12 --no-dcgm-validation -t 1005 -d 45", "power of memory-bound work"),
    Phase(105, "compute", None, "no process on the board", "cooling"),
)


def plan_text(name: str, highest_mhz: float, step_mhz: float) -> str:
    """The plan for a board, as text.

    :param name: of the device type.
    :param highest_mhz: its highest clock.
    :param step_mhz: its clocks are multiples of this.
    """
    total = sum(phase.seconds for phase in PHASES)
    lines = [
        f"Plan for {name}: {total} seconds. Record the whole time, in another terminal:",
        "",
        "    nvidia-smi -i 0 -lms 1000 --format=csv --query-gpu="
        "timestamp,utilization.gpu,power.draw,clocks.sm,temperature.gpu,temperature.memory,power.limit > run.csv",
        "",
        "from  seconds  work",
    ]
    begin, works, kind = 0, [], "compute"
    for phase in PHASES:
        how = phase.how.replace("MHZ", f"{locked_mhz(phase, highest_mhz, step_mhz):g}")
        load = "idle" if phase.load_percent is None else f"{phase.kind} {phase.load_percent} %"
        lines += [f"{begin:4}  {phase.seconds:7}  {load}: {how}", f"{'':15}tells: {phase.tells}"]
        if phase.kind != kind:
            works.append(f"--work {begin}={phase.kind}")
            kind = phase.kind
        begin += phase.seconds
    command = f"fakedev calibrate --device {name} --from run.csv {' '.join(works)} > my-board.yaml"
    lines += ["", "Then:", "", f"    {command}"]
    return "\n".join(lines) + "\n"


def locked_mhz(phase: Phase, highest_mhz: float, step_mhz: float) -> float:
    """The clock that a phase locks, a whole number of steps."""
    return round(phase.clock_share * highest_mhz / step_mhz) * step_mhz


#: Wide enough that no value is broken over two lines.
_WIDTH = 1000


def device_yaml(base: str, name: str, calibration: Calibration, source: str) -> tuple[str, tuple[str, ...]]:
    """The text of the file, and what had to change besides the fitted values.

    :param base: the text of the file of the type that was calibrated, in YAML.
    :param name: of the new type.
    :param source: what the run was read from.
    """
    tree: dict[str, Any] = yaml.safe_load(base)
    tree["name"] = name
    tree.pop("aliases", None)
    run, sources = calibration.run, tree.get("sources")
    if not isinstance(sources, dict):
        sources = {} if sources is None else {"before": sources}
    tree["sources"] = sources
    fitted = f"fitted to {source}: {len(run.seconds)} samples in {run.seconds[-1]:g} s"
    for finding in calibration.findings:
        coefficient, value = finding.coefficient, finding.value
        if value is None:
            continue
        error = "" if finding.uncertainty is None else f", standard error {finding.uncertainty:.1%}"
        if coefficient.end:
            index = ("low", "high").index(coefficient.end)
            tree["ranges"][_written(coefficient.name, tree["ranges"])][index] = value
            sources[coefficient.name] = fitted
        else:
            tree["dynamics"][coefficient.title] = value
            sources[coefficient.title] = fitted + error
    notes = _made_consistent(tree, calibration.board)
    head = [f"# Calibrated by fakedev calibrate from {source}; what was not fitted is from {calibration.board.name}."]
    head += [f"# {line}" for line in difference_lines(calibration)]
    kept = [finding for finding in calibration.findings if finding.value is None]
    head += [f"# kept: {finding.coefficient.title}: {finding.why}" for finding in kept]
    text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return "\n".join(head) + "\n" + text, notes


def _written(quantity: str, ranges: Iterable[str]) -> str:
    """How a file writes the name of a quantity."""
    return next(name for name in ranges if quantity_in_file(name) == quantity)


def _made_consistent(tree: dict[str, Any], board: DeviceType) -> tuple[str, ...]:
    """Change what the catalog has and what cannot be with the fitted values; what was changed, in words."""
    notes = []
    ranges = {quantity_in_file(name): pair for name, pair in tree["ranges"].items()}
    dynamics = tree["dynamics"]
    lows = [ranges[each][0] for each in ("temperature_celsius", "memory_temperature_celsius") if each in ranges]
    inlet = dynamics.get("inlet-celsius")
    if inlet is not None and inlet > min(lows):
        dynamics["inlet-celsius"] = min(lows)
        notes.append(f"inlet-celsius {inlet:g} is over a temperature of the idle board: it is {min(lows):g} now")
    memory = ranges.get("memory_power_watts")
    if memory is not None:
        power = ranges["power_watts"]
        changed = [min(part, whole) for part, whole in zip(memory, power, strict=True)]
        if changed != memory:
            tree["ranges"][_written("memory_power_watts", tree["ranges"])] = changed
            notes.append(f"memory_power_watts of {board.name} is over the power of the board: it is {changed} now")
    return tuple(notes)
