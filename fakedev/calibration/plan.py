"""What to run on a real board so that its run tells every coefficient: ten minutes, in phases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


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
