"""The YAML of a calibrated type: the catalog's file with the fitted values, and what they were fitted to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from fakedev.calibration.fit import Calibration
from fakedev.calibration.report import difference_lines
from fakedev.spec.device_types import DeviceType
from fakedev.spec.quantities import quantity_in_file

#: Wide enough that no value is broken over two lines.
_WIDTH = 1000


def device_yaml(base: str, name: str, calibration: Calibration, source: str) -> tuple[str, tuple[str, ...]]:
    """The text of the file, and what had to change beside the fitted values.

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
