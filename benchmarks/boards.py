"""How long a tick of a large fleet takes, by bare array operations of the same size."""

from __future__ import annotations

import json
import subprocess
import sys
from statistics import median
from time import thread_time

import numpy as np
from fleets import dcgm
from results import Section, Target, ms

_DEVICES = 10_000
_ROUNDS = 51
_MULTIPLICATIONS = 100


def boards() -> Section:
    """A tick of boards with every kind of work."""
    section = Section(
        "A tick of boards",
        f"""
The fleet alone, in a separate process: H100s, each with its part of the configuration's one workload and one
workload of its own, both fluctuating, the latter of all kinds of work in turn; engines, traffic, clocks, power,
heat, throttling, memory and counters. The reference, measured alternately, is {_MULTIPLICATIONS} bare NumPy
multiplications of arrays of the same size into an existing array. Processor time, which reduces the effect of
other processes on the machine. Medians of {_ROUNDS} rounds; *ratio* is the median of the ratios of the rounds.
""",
        ["tick", f"{_MULTIPLICATIONS} multiplications", "ratio", "for each device"],
    )
    for count in (_DEVICES // 10, _DEVICES):
        run = subprocess.run([sys.executable, __file__, str(count)], check=True, stdout=subprocess.PIPE)
        found: dict[str, float] = json.loads(run.stdout)
        section.add(
            f"{count:,} devices, as many workloads", ms(found["tick"]), ms(found["bare"]), f"{found['ratio']:.1f}",
            f"{found['tick'] / count * 1e9:.0f} ns",
            judged=found["tick"] * 1000 if count == _DEVICES else None, target=Target(10, unit=" ms"),
        )  # fmt: skip
    return section


def _measure(count: int) -> dict[str, float]:
    # Only the process that measures needs these.
    from fakedev.config.load import load  # noqa: PLC0415
    from fakedev.config.schema.files import Files  # noqa: PLC0415
    from fakedev.sim.events import StartWorkload  # noqa: PLC0415
    from fakedev.sim.fleet import Fleet  # noqa: PLC0415
    from fakedev.spec.device_types import WORK_KINDS  # noqa: PLC0415
    from fakedev.spec.workload_fields import workload_from_fields  # noqa: PLC0415

    configuration = load(None, Files(environ={}), text=dcgm(count).replace("{folder}", "/nowhere"))
    fleet = Fleet(configuration.fleet)
    kinds = list(WORK_KINDS)
    for n in range(count):
        fields = {
            "name": f"bench-{n}", "devices": [f"dgx-{n // 8}/{n % 8}"], "kind": kinds[n % len(kinds)],
            "profile": [[60, 10, 120], [20, 5, 60]], "repeat": 0,
        }  # fmt: skip
        fleet.apply(StartWorkload(workload_from_fields(fields)))
    for _ in range(3):
        fleet.advance()
    one, other, product = fleet.power_watts, fleet.temperature_celsius, np.empty(count)
    ticks, bare = [], []
    for _ in range(_ROUNDS):
        began = thread_time()
        fleet.advance()
        ticks.append(thread_time() - began)
        began = thread_time()
        for _ in range(_MULTIPLICATIONS):
            np.multiply(one, other, out=product)
        bare.append(thread_time() - began)
    ratio = median(tick / each for tick, each in zip(ticks, bare, strict=True))
    return {"tick": median(ticks), "bare": median(bare), "ratio": ratio}


if __name__ == "__main__":
    print(json.dumps(_measure(int(sys.argv[1]))))
