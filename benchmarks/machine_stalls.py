"""How long the machine itself takes a core away from a program that only reads the clock.

``python benchmarks/machine_stalls.py CORE SECONDS`` prints one line of JSON: how long it had to do without, in all, and
the longest time of these. On a virtual machine that is mostly the host, which counts it for no process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from time import perf_counter

#: Shorter ones are interrupts, and the clock's own.
_MIN_SECONDS = 0.0005
_SECONDS = 5.0
#: Where other programs have more of a core, they decide how long an answer takes.
FREE_SHARE = 0.05


def measure(core: int, seconds: float) -> dict[str, float]:
    """Read the clock for some time."""
    os.sched_setaffinity(0, {core})
    stalls = [0.0]
    before = began = perf_counter()
    while before < began + seconds:
        now = perf_counter()
        if now - before > _MIN_SECONDS:
            stalls.append(now - before)
        before = now
    return {"share": sum(stalls) / seconds, "longest": max(stalls)}


def stalls() -> dict[str, float]:
    """The worst of all cores at once: the share of the time that it was taken away, and the longest time."""
    cores = sorted(os.sched_getaffinity(0))
    commands = [[sys.executable, __file__, str(core), str(_SECONDS)] for core in cores]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for command in commands]
    found = [json.loads(each.communicate()[0]) for each in running]
    return {key: max(each[key] for each in found) for key in ("share", "longest")}


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), float(sys.argv[2]))))
