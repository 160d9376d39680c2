"""/queues/metrics: the page of the original frontend, with our series beside its own."""

from __future__ import annotations

from typing import Final

from fakedev import __version__
from fakedev.net.http.negotiation import choose_exposition
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.resource import GuardedResource
from fakedev.net.http.response import Response
from fakedev.net.http.statistics import PageStatistics
from fakedev.net.queues.figures import QueueFigures
from fakedev.net.queues.metrics_page import queue_series

#: The original's page begins with a line that names its program, and so does ours.
TITLE: Final = f"# fakedev {__version__}: work queues, with the series of the scalability tester's frontend\n".encode()


class QueueMetricsPage(GuardedResource):
    """/queues/metrics of the service, /metrics of ``fakedev-frontend``."""

    isLeaf = True

    def __init__(self, figures: QueueFigures, statistics: PageStatistics) -> None:
        super().__init__()
        self._figures = figures
        self.statistics = statistics

    def get(self, request: GuardedRequest) -> Response:
        """The page, as text 0.0.4 or OpenMetrics (which has no comments but its own)."""
        form = choose_exposition(request.header(b"accept"))
        series = queue_series(self._figures, form.openmetrics)
        text = series + b"# EOF\n" if form.openmetrics else TITLE + series
        if request.method == b"GET":
            for queue in self._figures.all():
                queue.counted.scraped()
        return Response(200, text, form.content_type)
