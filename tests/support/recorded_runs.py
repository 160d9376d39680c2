"""Runs that a simulated board records: the plan of ``fakedev calibrate``, as nvidia-smi would print it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fakedev.calibrate.model import EVERY, Coefficient
from fakedev.calibrate.report import PHASES, Phase, locked_mhz
from fakedev.calibrate.runs import CLOCK
from fakedev.exporters.settings.catalog import Catalog
from fakedev.fleet.boards.arrays import Air
from fakedev.fleet.boards.conditions import Conditions
from fakedev.fleet.boards.tick import Boards, Moment
from fakedev.fleet.spec.device_types import DeviceType
from fakedev.schema.files import Files
from fakedev.schema.places import Place, Report

_SHOWN = (
    "power_watts", "core_frequency_mhz", "temperature_celsius", "memory_temperature_celsius", "power_limit_watts",
)  # fmt: skip
_HEAD = (
    "timestamp, utilization.gpu [%], power.draw [W], clocks.current.sm [MHz], temperature.gpu, temperature.memory, "
    "power.limit [W], work"
)


def catalog_type(name: str, **dynamics: float) -> DeviceType:
    """A type of the catalog: one board of it, in steady air; noise stays."""
    loaded = Catalog(Files(environ={}), Report()).device(name, Place("test"))
    assert loaded is not None and loaded.type.dynamics is not None
    plain = {"spread": 0.0, "inlet_spread_celsius": 0.0, "inlet_drift_celsius": 0.0, **dynamics}
    return replace(loaded.type, dynamics=replace(loaded.type.dynamics, **plain))  # type: ignore[arg-type]


def recorded(board: DeviceType, phases: Sequence[Phase] = PHASES, *, seed: int = 1, with_limit: bool = True) -> str:
    """The CSV of one board that does the phases, a sample a second.

    Whole percents, MHz and degrees, hundredths of a watt; thermometers are off by up to half a degree.
    """
    boards = Boards([board], np.zeros(1, np.int64), Air.usual(1), seed, np.array([7], np.uint64))
    highest, step = board.ranges["core_frequency_mhz"].high, board.dynamics.clock_step_mhz  # type: ignore[union-attr]
    lines, before, second = [_HEAD], None, 0
    chance = np.random.default_rng(seed)
    for phase in phases:
        locked = locked_mhz(phase, highest, step) if phase.clock_share < 1 else np.nan
        boards.set_conditions(Conditions(highest_mhz=np.array([locked])))
        load = np.array([(phase.load_percent or 0) / 100])
        for _ in range(phase.seconds):
            work = boards.work({phase.kind: load}, {phase.kind: load}, {}, np.array([phase.load_percent is not None]))
            before = boards.step(work, before, Moment(second, float(second)), 1.0)
            watts, clock, core, memory, limit = (before[name][0] if name in before else np.nan for name in _SHOWN)
            core, memory = (
                "[N/A]" if np.isnan(each) else round(each + chance.uniform(-0.5, 0.5)) for each in (core, memory)
            )
            cap = f"{limit:.2f} W" if with_limit else "[N/A]"
            time = f"2026/01/31 {12 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.000"
            usage = before["usage_ratio"][0] * 100
            lines.append(
                f"{time}, {usage:.0f} %, {watts:.2f} W, {clock:.0f} MHz, {core}, {memory}, {cap}, {phase.kind}"
            )
            second += 1
    return "\n".join(lines) + "\n"


def changed(board: DeviceType, *only: Coefficient) -> DeviceType:
    """The type with coefficients that are off by 15 to 20 %; its clocks stay.

    :param only: which of them; empty for all.
    """
    for place, each in enumerate(only or EVERY):
        value = each.of(board)
        if value is not None and each.name != CLOCK:
            board = each.put(board, value * (1.2 if place % 2 else 0.85))
    return board
