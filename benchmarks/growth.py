"""What a larger fleet costs, and what pods that come and go cost its pages: without any socket."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import process_time, thread_time
from typing import TYPE_CHECKING

from fleets import dcgm
from results import Section, Target, ms

if TYPE_CHECKING:
    from fakedev.exporters.page import Page
    from fakedev.fleet.fleet import Fleet

_SIZES = (8, 80, 800, 8_000, 80_000)
_ROUNDS = 7
#: Node pages that are timed, at most.
_NODES = 200
_CHANGING_DEVICES = 10_000


def growth() -> Section:
    """Fleets of 8 to 80,000 devices."""
    section = Section(
        "From 8 to 80,000 devices",
        f"""
H100s with one pod each, 8 per node, shown as by dcgm-exporter; each fleet in a separate process, without sockets.
*Made* is the time from the configuration's text to the fleet. *First page* is the first page of the whole fleet,
including all texts of labels. The following are medians of {_ROUNDS} ticks: a tick, the whole page, and one
node's page. All are processor time, which reduces the effect of neighbours on the host. *Memory* is the memory of
the process minus that of an empty one (VmRSS), per device: the fleet, all texts of labels, the lines of every
node's page and of the whole page, and the bytes of one whole page. The target applies to the whole page of 80,000
devices, per sample, relative to that of 8,000: doubling the fleet doubles the cost.
""",
        ["made", "first page", "tick", "for each device", "whole page", "for each sample", "a node's page", "memory"],
    )
    per_sample: dict[int, float] = {}
    for count in _SIZES:
        run = subprocess.run([sys.executable, __file__, "growth", str(count)], check=True, stdout=subprocess.PIPE)
        found: dict[str, float] = json.loads(run.stdout)
        per_sample[count] = found["page"] / found["samples"]
        ratio = per_sample[count] / per_sample.get(8_000, per_sample[count])
        section.add(
            f"{count:,} devices", ms(found["made"]), ms(found["first"]), ms(found["tick"]),
            f"{found['tick'] / count * 1e9:,.0f} ns", ms(found["page"]), f"{per_sample[count] * 1e9:.0f} ns",
            ms(found["node"]), f"{found['bytes'] / count / 1000:.1f} kB",
            judged=ratio if count == _SIZES[-1] else None, target=Target(1.5, unit="x"),
        )  # fmt: skip
    return section


def changing_labels() -> Section:
    """A large page while pods come and go."""
    section = Section(
        "A large page while pods come and go",
        f"""
{_CHANGING_DEVICES:,} devices. Before each page there is a tick, and the given number of nodes get a workload with
its own pod on all their devices, in turn. Shown are the processor time per sample of the whole page, including
texts of labels (median of {_ROUNDS}), and the longest step in which it is made, over all rounds: all other work
of the reactor waits at most this long. The target applies to the longest step.
""",
        ["nodes that change", "for each sample", "longest step"],
    )
    for identity, device in (("dcgm", "h100"), ("xpumanager", "max-1550"), ("collectd", "max-1550")):
        arguments = [sys.executable, __file__, "changing", identity, device]
        run = subprocess.run(arguments, check=True, stdout=subprocess.PIPE)
        for changed, seconds, longest in json.loads(run.stdout):
            section.add(
                f"{identity}, {device}", f"{changed}", f"{seconds * 1e9:.0f} ns", ms(longest),
                judged=longest * 1000, target=Target(20, unit=" ms"),
            )  # fmt: skip
    return section


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def _timed(way: Callable[[], object]) -> float:
    began = process_time()
    made = way()
    taken = process_time() - began
    del made
    return taken


def _pieces(page: Page[object], fleet: Fleet) -> list[bytes]:
    while not page.compile():
        pass
    return list(page.slices(fleet.state))


def _measure_growth(count: int) -> dict[str, float]:
    # Only the process that measures needs these.
    from fakedev.config.load import load  # noqa: PLC0415
    from fakedev.exporters.page import LabelCache, Page  # noqa: PLC0415
    from fakedev.exporters.sources import DeviceSource  # noqa: PLC0415
    from fakedev.fleet.fleet import Fleet  # noqa: PLC0415
    from fakedev.runtime.memory import keep_freed_memory  # noqa: PLC0415
    from fakedev.schema.files import Files  # noqa: PLC0415

    keep_freed_memory()
    empty = _resident()
    began = process_time()
    loaded = load(None, Files(environ={}), text=dcgm(count).replace("{folder}", "/nowhere"))
    fleet = Fleet(loaded.fleet)
    made = process_time() - began
    face = LabelCache(loaded.identities["dgx"], DeviceSource(fleet))
    whole, nodes = Page(face, fleet.roster.nodes), [Page(face, [node]) for node in fleet.roster.nodes]
    first = _timed(lambda: _pieces(whole, fleet))
    for page in nodes:
        _pieces(page, fleet)
    some = nodes[:: max(1, len(nodes) // _NODES)]
    ticks, pages, each = [], [], []
    for _ in range(_ROUNDS):
        ticks.append(_timed(fleet.advance))
        pages.append(_timed(lambda: _pieces(whole, fleet)))
        each.append(_timed(lambda: [_pieces(page, fleet) for page in some]) / len(some))
    kept = _pieces(whole, fleet)
    samples = sum(piece.count(b"\n") for piece in kept)
    return {
        "made": made, "first": first, "tick": median(ticks), "page": median(pages), "node": median(each),
        "samples": samples, "bytes": _resident() - empty,
    }  # fmt: skip


def _measure_changes(identity: str, device: str) -> Iterator[tuple[int, float, float]]:
    """For some numbers of nodes that change in a tick: seconds for each sample, and the longest step."""
    from fakedev.config.load import load  # noqa: PLC0415
    from fakedev.exporters.page import LabelCache, Page  # noqa: PLC0415
    from fakedev.exporters.sources import DeviceSource  # noqa: PLC0415
    from fakedev.fleet.events import StartWorkload  # noqa: PLC0415
    from fakedev.fleet.fleet import Fleet  # noqa: PLC0415
    from fakedev.fleet.spec.workload_fields import workload_from_fields  # noqa: PLC0415
    from fakedev.runtime.memory import freeze_objects, keep_freed_memory  # noqa: PLC0415
    from fakedev.schema.files import Files  # noqa: PLC0415

    keep_freed_memory()
    text = dcgm(_CHANGING_DEVICES).replace("{folder}", "/nowhere").replace("h100", device)
    text = text[: text.index("  base:")].replace("identity: dcgm", f"identity: {identity}")
    loaded = load(None, Files(environ={}), text=text)
    fleet = Fleet(loaded.fleet)
    page = Page(LabelCache(loaded.identities["dgx"], DeviceSource(fleet)), fleet.roster.nodes)
    node = 0
    _pieces(page, fleet)
    freeze_objects()  # as in the service, where the page's objects are not looked at again
    for changed in (0, 1, 50):
        seconds, longest = [], 0.0
        for _ in range(_ROUNDS):
            for _ in range(changed):
                fields = {"name": "bench", "devices": f"dgx-{node}/*", "profile": "60:0:0", "pod": f"bench-{node}"}
                fleet.apply(StartWorkload(workload_from_fields(fields)))
                node += 1
            fleet.advance()
            began, samples = process_time(), 0
            for piece in _steps(page, fleet):
                longest = max(longest, piece[0])
                samples += piece[1].count(b"\n")
            seconds.append((process_time() - began) / samples)
        yield changed, median(seconds), longest


def _steps(page: Page[object], fleet: Fleet) -> Iterator[tuple[float, bytes]]:
    """Each step of a page: how long it took, and what was made."""
    is_done = False
    while not is_done:
        began = thread_time()
        is_done = page.compile()
        yield thread_time() - began, b""
    pieces = page.slices(fleet.state)
    while True:
        began = thread_time()
        piece = next(pieces, None)
        taken = thread_time() - began
        if piece is None:
            return
        yield taken, piece


if __name__ == "__main__":
    if sys.argv[1] == "growth":
        print(json.dumps(_measure_growth(int(sys.argv[2]))))
    else:
        print(json.dumps(list(_measure_changes(*sys.argv[2:]))))
