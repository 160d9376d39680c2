"""How fast one large page is rendered: from a state to bytes, without any socket."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import process_time

from fleets import dcgm, original
from prometheus_client import generate_latest
from prometheus_client.core import CollectorRegistry, Metric
from prometheus_client.parser import text_string_to_metric_families
from results import Section, Target

_DEVICES = 10_000
#: For generate_latest, which is slow: enough for its time per sample.
_FEW_DEVICES = 1_000
_ROUNDS = 11
_GO_NANOSECONDS = 1020.0


class Parsed:
    """A page as prometheus_client's own metrics."""

    def __init__(self, page: bytes) -> None:
        self._families = list(text_string_to_metric_families(page.decode()))

    def collect(self) -> Iterator[Metric]:
        """The metrics, as they are."""
        yield from self._families


class Subject:
    """A fleet whose page is rendered."""

    def __init__(self, configuration: str) -> None:
        # Only the process that measures needs all of it.
        from fakedev.config.load import load  # noqa: PLC0415
        from fakedev.exporters.page import LabelCache, Page  # noqa: PLC0415
        from fakedev.exporters.sources import DeviceSource  # noqa: PLC0415
        from fakedev.fleet.fleet import Fleet  # noqa: PLC0415
        from fakedev.runtime.memory import keep_freed_memory  # noqa: PLC0415
        from fakedev.schema.files import Files  # noqa: PLC0415

        keep_freed_memory()
        loaded = load(None, Files(environ={}), text=configuration.replace("{folder}", "/nowhere"))
        self.fleet = Fleet(loaded.fleet)
        identity = next(iter(loaded.identities.values()))
        self.page = Page(LabelCache(identity, DeviceSource(self.fleet)), self.fleet.roster.nodes)
        began = process_time()
        self.page.render(self.fleet.state)
        self.first_seconds = process_time() - began

    def pieces(self) -> list[bytes]:
        """The page as the service makes it: in pieces, all of them kept."""
        while not self.page.compile():
            pass
        return list(self.page.slices(self.fleet.state))


def measure(configuration: str, few: str) -> dict[str, float]:
    """Nanoseconds a sample, and what else is told of one identity."""
    subject = Subject(configuration)
    page = subject.page.render(subject.fleet.state)
    lines = [line for line in page.splitlines(keepends=True) if not line.startswith(b"#")]
    cut = [line.rpartition(b" ") for line in lines]
    template = b"".join([text.replace(b"%", b"%%") + b" %b\n" for text, _, _ in cut])
    numbers = [number.rstrip() for _, _, number in cut]
    thousand = range(0, len(cut), 128)
    small = [b"".join([text.replace(b"%", b"%%") + b" %b\n" for text, _, _ in cut[n : n + 128]]) for n in thousand]
    registry = CollectorRegistry()
    few_subject = Subject(few)
    few_page = few_subject.page.render(few_subject.fleet.state)
    registry.register(Parsed(few_page))
    few_lines = sum(not line.startswith(b"#") for line in few_page.splitlines())
    del page, lines, cut

    ways: dict[str, tuple[Callable[[], object], int]] = {
        "pieces": (subject.pieces, len(numbers)),
        "render": (lambda: subject.page.render(subject.fleet.state), len(numbers)),
        "bare": (lambda: template % tuple(numbers), len(numbers)),
        "bare_small": (
            lambda: [each % tuple(numbers[n : n + 128]) for each, n in zip(small, thousand, strict=True)],
            len(numbers),
        ),
        "latest": (lambda: generate_latest(registry), few_lines),
    }
    processor: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(_ROUNDS):
        subject.fleet.advance()
        turn = number % len(ways)
        for name in [*list(ways)[turn:], *list(ways)[:turn]]:
            way, count = ways[name]
            # Once more than is measured: the memory that another way has just given back is another's cost.
            way()
            used = process_time()
            made = way()
            processor[name].append((process_time() - used) / count * 1e9)
            del made
    found = {name: median(figures) for name, figures in processor.items()}
    return found | {"samples": len(numbers), "bytes": len(template), "first": subject.first_seconds}


def large_pages() -> Section:
    """One page of 10,000 devices, in two identities."""
    section = Section(
        "Rendering one page of 10,000 devices",
        f"""
Nanoseconds of processor time per sample, which reduces the effect of neighbours on the host. Medians of {_ROUNDS}
rounds that measure all variants alternately, with a tick of the fleet between rounds, so that all numbers are
new. *In pieces* is what the service does: texts are checked, numbers are formatted, and the page is kept as
pieces of up to 64 KiB. *As one* (`Page.render`, for `fakedev render`) joins the pieces. *Bare* is one template of
all lines `%` a tuple of numbers that are already bytes, without reading or formatting any number: the work that
remains when everything else is free. It creates one block of memory that the system hands out page by page each
time; smaller pieces avoid this. *Bare, small* is the same with templates of 128 lines. generate_latest of
prometheus_client is measured on {_FEW_DEVICES:,} devices with the same labels, with its samples already created.
*First* is the very first page, including the texts of all labels. The process keeps freed memory, as the service
does (fakedev/runtime/memory.py). Otherwise the C library may return the memory of the last page to the system, and
getting it again costs up to 80 ns more per sample.
""",
        ["samples", "MB", "in pieces", "as one", "bare", "bare, small", "ratio to bare", "generate_latest",
         "ahead of it", "ahead of Go's 1,020 ns", "first"],
    )  # fmt: skip
    for title, kind in (("dcgm, with pod labels", "dcgm"), ("original's JSON, 4 metrics", "original")):
        run = subprocess.run([sys.executable, __file__, kind], check=True, stdout=subprocess.PIPE)
        found: dict[str, float] = json.loads(run.stdout)
        ratio = found["pieces"] / found["bare"]
        section.add(
            title, f"{found['samples']:,.0f}", f"{found['bytes'] / 1e6:.1f}",
            f"{found['pieces']:.0f} ns", f"{found['render']:.0f} ns",
            f"{found['bare']:.0f} ns", f"{found['bare_small']:.0f} ns", f"{ratio:.2f}", f"{found['latest']:,.0f} ns",
            f"{found['latest'] / found['pieces']:.0f}x", f"{_GO_NANOSECONDS / found['pieces']:.1f}x",
            f"{found['first']:.2f} s",
            judged=ratio, target=Target(1.5),
        )  # fmt: skip
    return section


def main() -> None:
    """Measure one identity, in this process."""
    with tempfile.TemporaryDirectory(prefix="fakedev-bench-") as name:
        if sys.argv[1] == "dcgm":
            found = measure(dcgm(_DEVICES), dcgm(_FEW_DEVICES))
        else:
            few = Path(name, "few")
            few.mkdir()
            found = measure(original(_DEVICES, Path(name)), original(_FEW_DEVICES, few))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
