"""The series of fakedev's own pages, for questions about them: of work queues, workloads, and fakedev itself."""

from __future__ import annotations

from fakedev.api.metric_queries import OwnPage
from fakedev.base.steps import Steps
from fakedev.exporters.workload_page import PREFIX, workload_pages
from fakedev.fleet.fleet import Fleet
from fakedev.queues.figures import QueueFigures, queue_series
from fakedev.web.metrics import OwnMetrics
from fakedev.web.paths import OWN_METRICS, QUEUE_METRICS, WORKLOAD_METRICS


def own_pages(
    fleet: Fleet, queues: QueueFigures | None, own: OwnMetrics, metrics: tuple[str, ...]
) -> Steps[list[OwnPage]]:
    """What the pages have of some metrics now, in steps.

    :param queues: None for none.
    """
    found = [OwnPage(path.template) for path in (QUEUE_METRICS, WORKLOAD_METRICS, OWN_METRICS)]
    of_queues, of_workloads, of_itself = found
    if queues is not None:
        yield from of_queues.read(metrics, [queue_series(queues, openmetrics=False)])
    if any(metric.startswith(PREFIX) for metric in metrics):  # with many workloads the page takes seconds
        source, page, _ = workload_pages(fleet)
        while not page.compile():
            yield
        yield from of_workloads.read(metrics, page.slices(source.state()))
    response = yield from own.steps(None)
    yield from of_itself.read(metrics, response.body.pieces)
    return found
