"""What a service of 10,000 GPUs does in a minute in which it is scraped, by py-spy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

from fleets import dcgm
from programs import fakedev, load
from results import Section

_NODES = 1250
_SECONDS = 60
_RATE = 200
_ROWS = 6


def busy_minute() -> Section:
    """A profile of a busy minute."""
    section = Section(
        "A busy minute of 10,000 GPUs",
        f"""
{_NODES:,} nodes of 8 H100s with pod labels, one tick a second, each node scraped every 15 s by one connection.
Shown is where the service spends its time, by
`py-spy record --rate {_RATE} --duration {_SECONDS} --format raw --pid PID`, which takes {_RATE} samples a
second: the share of the samples in which the service was working. *Itself* is the function alone, *in all*
includes the functions that it calls; the {_ROWS} functions with most of each. `doPoll` itself is the
kernel's search for pending events, and py-spy counts a part of the waiting there as work. `py-spy top --pid
PID` shows the same live on a terminal.
""",
        ["itself", "in all"],
    )
    spy = shutil.which("py-spy", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if spy is None:
        section.add("there is no py-spy here: `pip install py-spy`", "", "")
        return section
    with fakedev(dcgm(_NODES * 8)) as (server,), tempfile.TemporaryDirectory(prefix="fakedev-bench-") as folder:
        load(server, "/nodes/dgx-{}/metrics", seconds=4, numbers=_NODES)
        used = server.cpu_seconds()
        scrapes = threading.Thread(
            target=load, args=(server, "/nodes/dgx-{}/metrics"),
            kwargs={"seconds": _SECONDS + 2, "interval": 15 / _NODES, "numbers": _NODES},
        )  # fmt: skip
        scrapes.start()
        stacks = Path(folder, "stacks")
        arguments = [
            spy, "record", f"--rate={_RATE}", f"--duration={_SECONDS}", "--format=raw", f"--output={stacks}",
            f"--pid={server.pid}",
        ]  # fmt: skip
        subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        scrapes.join()
        share = (server.cpu_seconds() - used) / (_SECONDS + 2)
        _fill(section, stacks.read_text())
    section.text += f"\nCPU: {share:.1%} of one core."
    return section


def _fill(section: Section, stacks: str) -> None:
    own: Counter[str] = Counter()
    all_of_it: Counter[str] = Counter()
    for line in stacks.splitlines():
        frames, _, count = line.rpartition(" ")
        functions = [_without_line(frame) for frame in frames.split(";")]
        own[functions[-1]] += int(count)
        for function in set(functions):
            all_of_it[function] += int(count)
    looks = sum(own.values())
    ours = Counter({name: count for name, count in all_of_it.items() if "fakedev/" in name and count < 0.95 * looks})
    shown = {name for name, _ in own.most_common(_ROWS)} | {name for name, _ in ours.most_common(_ROWS)}
    for name in sorted(shown, key=lambda each: -all_of_it[each]):
        section.add(f"`{name}`", f"{own[name] / looks:.1%}", f"{all_of_it[name] / looks:.1%}")


def _without_line(frame: str) -> str:
    """A frame without the number of its line, and the file from its package on."""
    function, _, place = frame.partition(" (")
    return f"{place.rstrip(')').rpartition(':')[0]} {function}"
