"""The parts of the running program that the web tree shows and changes."""

from __future__ import annotations

from dataclasses import dataclass

from fakedev.net.fleet.operator_topology import OperatorTopology
from fakedev.net.fleet.ticker import Ticker
from fakedev.net.fleet.workloads import WorkloadHub
from fakedev.net.http.statistics import ScrapeStatistics
from fakedev.net.queues.figures import QueueFigures, QueueHistory
from fakedev.net.scenario.live import LiveScenario
from fakedev.net.tester.service import LoadTester
from fakedev.net.web.live import LiveView
from fakedev.net.web.own_metrics import OwnMetrics
from fakedev.net.web.page_cache import Pages
from fakedev.net.web.probes import AskReload, FileProblems, Health
from fakedev.net.web.static import PageFiles
from fakedev.sim.charts import History
from fakedev.sim.fleet import Fleet


@dataclass(frozen=True)
class Program:
    """The parts of a program that the web tree needs.

    :param ready: the reason why the program takes no new work, if any; also when the simulation fails.
    :param file_problems: why files that are written while the program runs have ended, by what they are (``record``);
        empty texts for those that have not.
    :param history: the last ticks of all devices.
    :param topology: the fleet as fake-gpu-operator describes it, which may be off.
    :param queues, queue_history: the work queues, and their last hour; None for none.
    :param tester: the load on queues; None when there are no plans.
    :param scenario: what is played; None for none.
    """

    hub: WorkloadHub
    pages: Pages
    ticker: Ticker
    scrapes: ScrapeStatistics
    own_metrics: OwnMetrics
    ready: Health
    file_problems: FileProblems
    history: History
    live: LiveView
    files: PageFiles
    reload: AskReload
    topology: OperatorTopology
    queues: QueueFigures | None
    queue_history: QueueHistory | None
    tester: LoadTester | None
    scenario: LiveScenario | None = None

    @property
    def fleet(self) -> Fleet:
        """The simulated fleet."""
        return self.hub.fleet

    @property
    def health(self) -> Health:
        """The reason why the simulation is not healthy, if any."""
        return self.ticker.trouble
