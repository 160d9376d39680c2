"""How long a tick takes, by the bare physics of as many boards."""

from __future__ import annotations

import json
import subprocess
import sys
from time import thread_time

import numpy as np
from fleets import dcgm
from results import Section, Target, ms

_DEVICES = 10_000
#: Devices, rounds, the work (none: idle; a kind, every kind in turn, or a profile by name), and the most that the ratio
#: should be.
_SIZES = (
    (8, 1001, "", None),
    (8, 1001, "compute", Target(5)),
    (8, 1001, "every", None),
    (8, 1001, "training", Target(6)),
    (8, 1001, "inference", Target(6)),
    (8, 1001, "notebook", Target(6)),
    (_DEVICES, 51, "", None),
    (_DEVICES, 51, "compute", Target(6.5)),
    (_DEVICES, 51, "every", None),
    (_DEVICES, 51, "training", Target(5)),
    (_DEVICES, 51, "cluster", Target(5)),
)
_PROFILES = ("training", "inference", "notebook", "cluster")


def boards() -> Section:
    """A tick of boards with every kind of work."""
    section = Section(
        "A tick of boards",
        """
The fleet alone, each in a separate process: H100s, idle, or each with a pod and a fluctuating workload of its own,
plain work (compute) or every kind of work in turn, or with a profile by name (training, inference, notebook; cluster
mixes them), whose activities and requests of memory and traffic have drawn lengths; engines, traffic, clocks, power,
heat, throttling, memory and counters. The *bare physics*, measured alternately, is the least that such boards need,
in plain NumPy: a load, a clock that meets the power limit, power, two temperatures, memory, and the rates and
counters of energy and traffic, without kinds of work, faults, limits of devices, ends or a journal. Processor time,
which reduces the effect of other processes on the machine. The least of many rounds; *ratio* is that of the two.
""",
        ["tick", "bare physics", "ratio", "for each device"],
    )
    for count, rounds, kinds, target in _SIZES:
        arguments = [sys.executable, __file__, str(count), str(rounds), kinds]
        found: dict[str, float] = json.loads(subprocess.run(arguments, check=True, stdout=subprocess.PIPE).stdout)
        words = {"": "idle", "compute": f"{count:,} workloads", "every": f"{count:,} workloads, every kind"}
        work = words.get(kinds, f"`{kinds}`")
        section.add(
            f"{count:,} devices, {work}",
            ms(found["tick"]), ms(found["bare"]), f"{found['ratio']:.1f}", f"{found['tick'] / count * 1e9:,.0f} ns",
            judged=found["ratio"], target=target,
        )  # fmt: skip
    return section


class BarePhysics:
    """The physics of equal boards, as little as possible: arrays of shape (B,)."""

    def __init__(self, count: int) -> None:
        self._phase = np.linspace(0.0, 180.0, count)
        self._key = np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        self._noise, self._energy = np.zeros((2, count))
        self._core, self._memory = np.full((2, count), 40.0)
        self._moved = [np.zeros(count) for _ in range(6)]

    def step(self, tick: int) -> None:
        """One tick of a second."""
        phase = (self._phase + tick) % 180.0
        key = (self._key ^ np.uint64(tick)) * np.uint64(0xBF58476D1CE4E5B9)
        draw = ((key ^ (key >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53 - 0.5
        self._noise = self._noise * 0.9 + draw * 10.0
        load = np.minimum(np.maximum(np.where(phase < 120.0, 60.0, 20.0) + self._noise, 0.0) / 100.0, 1.0)
        work, ratio = 500.0 * load, np.ones_like(load)
        for _ in range(3):  # the clock at which the power meets its limit
            squared = ratio * ratio
            ratio = ratio - (work * squared * ratio + 90.0 * ratio - 580.0) / (3.0 * work * squared + 90.0)
        ratio = np.minimum(np.maximum(ratio, 0.2), 1.0)
        active = load > 1e-6
        clock = np.where(active, np.floor(1980.0 * ratio / 15.0) * 15.0, 345.0)
        power = 70.0 + 50.0 * (clock - 345.0) / 1635.0 + work * (clock / 1980.0) ** 2.5
        self._core = self._core + (30.0 + 0.055 * power - self._core) * 0.1
        self._memory = self._memory + (32.0 + 0.07 * power - self._memory) * 0.05
        used = np.rint(load * 8e10 / 2097152.0) * 2097152.0
        np.divide(used, 8.5e10), 8.5e10 - used
        self._energy = self._energy + power
        for place, most in enumerate((3.35e12, 1.7e12, 6.4e10, 6.4e10, 4.5e11, 4.5e11)):
            rate = np.minimum(load * most, most)
            self._moved[place] = self._moved[place] + rate


def _measure(count: int, rounds: int, given: str) -> dict[str, float]:
    # Only the process that measures needs these.
    from fakedev.config.load import load  # noqa: PLC0415
    from fakedev.fleet.events import StartWorkload  # noqa: PLC0415
    from fakedev.fleet.fleet import Fleet  # noqa: PLC0415
    from fakedev.fleet.spec.work_kinds import WORK_KINDS  # noqa: PLC0415
    from fakedev.fleet.spec.workload_fields import workload_from_fields  # noqa: PLC0415
    from fakedev.schema.files import Files  # noqa: PLC0415

    text = dcgm(count).replace("{folder}", "/nowhere")
    text = "\n".join(line for line in text.splitlines() if not line.startswith("  base:"))
    is_profile = given in _PROFILES
    overrides = [f"fleet.pools.0.profile={given}"] if is_profile else []
    fleet = Fleet(load(None, Files(environ={}), text=text, overrides=overrides).fleet)
    kinds = list(WORK_KINDS) if given == "every" else [given]
    for n in range(count if given and not is_profile else 0):
        fields = {
            "name": f"bench-{n}", "devices": [f"dgx-{n // 8}/{n % 8}"], "kind": kinds[n % len(kinds)],
            "profile": [[60, 10, 120], [20, 5, 60]], "repeat": 0, "pod": f"bench-{n}",
        }  # fmt: skip
        fleet.apply(StartWorkload(workload_from_fields(fields)))
    for _ in range(3):
        fleet.advance()
    physics = BarePhysics(count)
    ticks, bare = [], []
    for tick in range(rounds):
        began = thread_time()
        fleet.advance()
        ticks.append(thread_time() - began)
        began = thread_time()
        physics.step(tick)
        bare.append(thread_time() - began)
    return {"tick": min(ticks), "bare": min(bare), "ratio": min(ticks) / min(bare)}


if __name__ == "__main__":
    print(json.dumps(_measure(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])))
