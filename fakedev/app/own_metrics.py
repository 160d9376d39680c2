"""What the page of fakedev's own metrics shows of a service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from fakedev.app.ports import Ports
from fakedev.app.reload import Reloader
from fakedev.app.workload_ports import connection_count
from fakedev.config.configuration import WorkloadListen
from fakedev.net.fleet.journal import JournalFile
from fakedev.net.fleet.ticker import Ticker
from fakedev.net.http.statistics import ScrapeStatistics
from fakedev.net.queues.figures import QueueFigures
from fakedev.net.system.descriptors import DescriptorShortage
from fakedev.net.system.stalls import CollectorPauses, StallWatch
from fakedev.net.tester.metrics import load_metrics
from fakedev.net.tester.service import LoadTester
from fakedev.net.web.own_metrics import (
    OwnMetrics,
    clock_metrics,
    collector_metrics,
    fault_metrics,
    file_metrics,
    limit_metrics,
    port_metrics,
    queue_log_metrics,
    queue_totals,
    reload_metrics,
    scrape_metrics,
    stall_metrics,
    state_metrics,
    tick_metrics,
    workload_metrics,
)
from fakedev.sim.fleet import Fleet

if TYPE_CHECKING:
    from fakedev.net.fleet.state_folder import StateFolder


def make_own_metrics(
    fleet: Fleet,
    state: StateFolder | None,
    ticker: Ticker,
    scrapes: ScrapeStatistics,
    workloads: Ports[WorkloadListen],
    figures: QueueFigures | None,
    tester: LoadTester | None,
    reloader: Reloader,
    closed: Mapping[str, Mapping[str, int]],
    http_dropped: Mapping[str, int],
    shortage: DescriptorShortage,
    stalls: StallWatch,
    pauses: CollectorPauses,
    shift_seconds: Callable[[], float],
    file_problems: Callable[[], Mapping[str, str]],
    journal: JournalFile | None,
) -> OwnMetrics:
    """The page of a service's own metrics.

    :param closed: connections that line ports closed, by reason, by port.
    :param http_dropped: connections that HTTP addresses dropped, by reason.
    :param shift_seconds: returns how far the system's time of day is ahead of the reactor's clock.
    :param file_problems: returns why each file has ended; empty texts for those that have not.
    """

    def journal_waiting() -> int:
        return journal.waiting_count if journal else 0

    def by_state() -> dict[str, int]:
        starting = fleet.intake.starting_count
        return {"starting": starting, "running": len(fleet.workloads.by_id) - starting}

    def by_kind() -> dict[str, int]:
        return Counter(each.spec.kind for each in fleet.faults.by_id.values())

    own = OwnMetrics({
        "ticks": partial(tick_metrics, ticker, lambda: fleet.state.tick),
        "stalls": partial(stall_metrics, stalls.delays),
        "clock": partial(clock_metrics, shift_seconds),
        "collector": partial(collector_metrics, pauses.by_generation),
        "scrapes": partial(scrape_metrics, scrapes),
        "workloads": partial(workload_metrics, by_state, partial(connection_count, workloads)),
        "faults": partial(fault_metrics, by_kind),
        "limits": partial(limit_metrics, fleet.limits),
        "ports": partial(port_metrics, closed, http_dropped, lambda: shortage.postponed),
    })  # fmt: skip
    if figures is not None:
        own.add("queues", partial(queue_totals, figures))
        own.add("queue logs", partial(queue_log_metrics, figures))
    if tester is not None:
        own.add("tester", partial(load_metrics, tester))
    own.add("reload", partial(reload_metrics, reloader.statistics))
    own.add("files", partial(file_metrics, file_problems, journal_waiting))
    if state is not None:
        own.add("state", lambda: state_metrics(state.snapshots, state.saved_at))
    return own
