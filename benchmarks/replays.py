"""How long replays of traces take, made up in the size and shape of real ones: read, placed, replayed, and live."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, sleep
from typing import Final, NamedTuple

from make_trace import make
from programs import Program
from results import Section, Target, ms
from took import Took, run_fakedev

_OPENB: Final = ("--map", "G2=h100,G3=a100,P100=p100", "--usage", "60:20", "--tick", "60s")
_PHILLY: Final = ("--map", "12GB=p100,24GB=a10", "--tick", "60s", "--for", "1d")
_SERVICE: Final = "from fakedev.commands.main import main; raise SystemExit(main())"
_SPEED: Final = 3600.0
_LIVE_SECONDS: Final = 20.0


class _Live(NamedTuple):
    """What a service showed: its ticks a second, the latest of them, and its share of a core."""

    ticks_per_second: float
    missed: float
    lag_seconds: float
    share: float
    megabytes: float


def replays() -> Section:
    """Replays of traces."""
    section = Section(
        "Replays of traces",
        "`fakedev replay` of the traces of `benchmarks/make_trace.py`, of the size and shape of real ones: openb of "
        "1,181 nodes with 6,204 GPUs and 7,064 jobs, 100,000 jobs on 1,213 nodes of eight, GenTD26 of 114 pods with "
        "164,274 values, and a day of Philly: 2,490 GPUs, 3.6 million values. A replay in virtual time has ticks of a "
        f"minute, and ends with the report. The service has openb with `--scale 60` at speed {_SPEED:,.0f}, 60 ticks a "
        f"second, for {_LIVE_SECONDS:.0f} s: late is the largest of a hundred readings of `fakedev_tick_lag_seconds`, "
        "and a tick is late that begins after the next one is due. Targets of seconds are for the processor time: a "
        "replay has one thread, and takes no longer on a core of its own.",
        ("wall clock", "CPU", "memory"),
    )
    with tempfile.TemporaryDirectory() as name:
        folders = {each: Path(name) / each for each in ("openb", "jobs", "gentd26", "philly")}
        for each, folder in folders.items():
            make(each, folder)
        openb, jobs, gentd26, philly = (str(folder) for folder in folders.values())
        report = ("--report", str(Path(name) / "report.html"))
        _add(section, "openb, read and placed", run_fakedev("replay", "openb", openb, *_OPENB, "--check"), 10.0)
        month = run_fakedev("replay", "openb", openb, *_OPENB, "--from", "117d", *report)
        _add(section, "openb, its 32 busy days", month, 180.0, 300.0)
        placed = run_fakedev("replay", "jobs", jobs, "--device", "h100", "--usage", "60", "--check")
        _add(section, "100,000 jobs, read and placed", placed, 60.0)
        series = run_fakedev("replay", "gentd26", gentd26, "--device", "l40s", "--tick", "60s", *report)
        _add(section, "GenTD26", series)
        _add(section, "Philly, a day", run_fakedev("replay", "philly", philly, *_PHILLY, *report), 60.0, 1000.0)
        live = _live(Path(name), ["openb", openb, *_OPENB, "--from", "120d", "--for", "2d", "--scale", "60"])
    speed = f"{live.ticks_per_second:.1f} ticks/s, {live.missed:.0f} dropped, {ms(live.lag_seconds)} late"
    section.add(
        "openb live", speed, f"{live.share:.0%} of a core", f"{live.megabytes:.0f} MB",
        judged=live.lag_seconds * 1000.0, target=Target(round(1000.0 / 60.0, 1), unit=" ms"),
    )  # fmt: skip
    return section


def _add(
    section: Section, name: str, took: Took, most_seconds: float | None = None, most_megabytes: float | None = None
) -> None:
    """A row, and one for the memory where that has a target, too."""
    figures = (f"{took.seconds:.1f} s", f"{took.cpu_seconds:.1f} s", f"{took.megabytes:.0f} MB")
    target = None if most_seconds is None else Target(most_seconds, unit=" s")
    section.add(name, *figures, judged=took.cpu_seconds, target=target)
    if most_megabytes is not None:
        memory = Target(most_megabytes, unit=" MB")
        section.add(f"{name}: memory", "", "", figures[-1], judged=took.megabytes, target=memory)


def _live(folder: Path, arguments: Sequence[str]) -> _Live:
    options = ["--speed", f"{_SPEED:g}", "--port", "0", "--ready-file", str(folder / "ready.json")]
    program = Program(["-c", _SERVICE, "replay", *arguments, *options], folder)
    try:
        sleep(2.0)
        began, used, ticks = perf_counter(), program.cpu_seconds(), _value(program, "fakedev_ticks_total")
        lags = []
        while perf_counter() - began < _LIVE_SECONDS:
            sleep(_LIVE_SECONDS / 100)
            lags.append(_value(program, "fakedev_tick_lag_seconds"))
        seconds = perf_counter() - began
        return _Live(
            (_value(program, "fakedev_ticks_total") - ticks) / seconds, _value(program, "fakedev_ticks_missed_total"),
            max(lags), (program.cpu_seconds() - used) / seconds, program.resident_bytes() / 1e6,
        )  # fmt: skip
    finally:
        program.end()


def _value(program: Program, metric: str) -> float:
    lines = program.get("/-/metrics").decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{metric} "))
