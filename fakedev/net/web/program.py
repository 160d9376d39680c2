"""The parts of the running program that its web tree shows and changes."""

from __future__ import annotations

from dataclasses import dataclass

from fakedev.net.fleet.ticker import Ticker
from fakedev.net.fleet.workloads import WorkloadHub
from fakedev.net.http.statistics import ScrapeStatistics
from fakedev.net.queues.figures import QueueFigures
from fakedev.net.tester.service import LoadTester
from fakedev.net.web.live import LiveView
from fakedev.net.web.own_metrics import OwnMetrics
from fakedev.net.web.page_cache import Pages
from fakedev.net.web.probes import AskReload, Health
from fakedev.net.web.static import PageFiles
from fakedev.sim.charts import History
from fakedev.sim.fleet import Fleet


@dataclass(frozen=True)
class Program:
    """What a program is put together from, as far as the web has to do with it.

    :param own_metrics: of fakedev itself.
    :param ready: why no more should be asked of the program, because of its simulation or for another reason.
    :param history: the last ticks of all devices.
    :param live: what viewers of the web page see.
    :param files: the web page.
    :param reload: reads the configuration again.
    :param queues: the work queues; None when there are none.
    :param tester: puts load on queues; None when there are no plans.
    """

    hub: WorkloadHub
    pages: Pages
    ticker: Ticker
    scrapes: ScrapeStatistics
    own_metrics: OwnMetrics
    ready: Health
    history: History
    live: LiveView
    files: PageFiles
    reload: AskReload
    queues: QueueFigures | None
    tester: LoadTester | None

    @property
    def fleet(self) -> Fleet:
        """What is simulated."""
        return self.hub.fleet

    @property
    def health(self) -> Health:
        """Why the simulation is not well."""
        return self.ticker.trouble
