"""The series of fakedev's own pages, for questions about them: of work queues, workloads, and fakedev itself."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Final

from fakedev.exporters.samples import Row, read_lines
from fakedev.exporters.workload_page import workload_pages
from fakedev.fleet.fleet import Fleet
from fakedev.queues.figures import QueueFigures, queue_series
from fakedev.web.metrics import OwnMetrics
from fakedev.web.paths import OWN_METRICS, QUEUE_METRICS, WORKLOAD_METRICS

#: What the names of their metrics begin with.
BEGINNINGS: Final = ("fakedev_", "hpa_", "process_", "python_")


@dataclass
class OwnPage:
    """The series of some metrics on a page.

    :ivar rows: by the names of the metrics.
    :ivar helps: the texts of all its families, by their names.
    """

    path: str
    rows: dict[str, list[Row]] = field(default_factory=dict)
    helps: dict[str, str] = field(default_factory=dict)

    def read(self, metrics: tuple[str, ...], text: bytes) -> None:
        """Take what whole lines of the page have of some metrics."""
        starts = (b"# HELP ", *(metric.encode() for metric in metrics))
        lines = b"\n".join(line for line in text.split(b"\n") if line.startswith(starts))
        for _, line in read_lines(lines):
            if not isinstance(line, Row):
                self.helps[line.name] = line.text
            elif line.name in metrics:
                self.rows.setdefault(line.name, []).append(line)


def own_pages(
    fleet: Fleet, queues: QueueFigures | None, own: OwnMetrics, metrics: tuple[str, ...]
) -> Generator[None, None, list[OwnPage]]:
    """What the pages have of some metrics now, in steps.

    :param queues: None for none.
    """
    found = [OwnPage(path.template) for path in (QUEUE_METRICS, WORKLOAD_METRICS, OWN_METRICS)]
    of_queues, of_workloads, of_itself = found
    if queues is not None:
        of_queues.read(metrics, queue_series(queues, openmetrics=False))
    yield
    source, page, _ = workload_pages(fleet)
    while not page.compile():
        yield
    pieces = []
    for piece in page.slices(source.state()):
        pieces.append(piece)
        yield
    of_workloads.read(metrics, b"".join(pieces))
    yield
    response = yield from own.steps(None)
    of_itself.read(metrics, b"".join(response.body.pieces))
    return found
