"""Composition of the service; with the ``tap_*`` files the only place where services are put together."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.logger import ILogObserver

from fakedev import __version__
from fakedev.app.announcement import AnnouncedAddresses, Announcement
from fakedev.app.options import Options, Run
from fakedev.app.ports import Ports
from fakedev.app.queues import WorkQueues
from fakedev.app.reload import InUse, Reloader
from fakedev.app.runner import Application, run_application
from fakedev.app.tester import make_tester
from fakedev.app.web import connection_count, make_web, make_workload_ports
from fakedev.config.configuration import Configuration, WebEndpoint, WorkloadListen
from fakedev.net.fleet.journal import JournalFile
from fakedev.net.fleet.recorder import Recorder
from fakedev.net.fleet.ticker import Ticker
from fakedev.net.fleet.workloads import WorkloadHub
from fakedev.net.http.statistics import ScrapeStatistics
from fakedev.net.lines.fair_share import FairShare
from fakedev.net.queues.figures import QueueTotals
from fakedev.net.system.listening import Listeners
from fakedev.net.system.logging import twistd_log
from fakedev.net.system.memory import keep_freed_memory, raise_descriptor_limit
from fakedev.net.system.signals import HangupService, stop_reactor
from fakedev.net.system.watch import FileFollower
from fakedev.net.tester.metrics import LoadMetrics
from fakedev.net.tester.service import LoadTester, ReportFiles
from fakedev.net.web.live import FrameSource, LiveView
from fakedev.net.web.own_metrics import (
    FaultMetrics,
    OwnMetrics,
    ReloadMetrics,
    ScrapeMetrics,
    TickMetrics,
)
from fakedev.net.web.own_metrics import WorkloadMetrics as WorkloadCounts
from fakedev.net.web.page_cache import Pages
from fakedev.net.web.program import Program
from fakedev.net.web.static import PageFiles
from fakedev.sim.charts import History
from fakedev.sim.fleet import Fleet, discard_record
from fakedev.sim.journal import no_op


def makeService(options: Options, reactor: Any = None) -> Application:
    """The service of ``twistd fakedev`` (called by twistd)."""
    if reactor is None:
        from twisted.internet import reactor  # noqa: PLC0415 - importing it installs it
    logging = options.configuration.logging
    twistd_options = getattr(options, "parent", None)
    observer = twistd_log(twistd_options, reactor, logging.level, logging.format) if twistd_options else None
    return make_application(options.configuration, options.run, reactor, observer)


def run_program(configuration: Configuration, run: Run) -> None:
    """Be the program until a signal comes.

    :raises SystemExit: 1, after a line of explanation, when an address cannot be had.
    """
    run_application(lambda reactor: make_application(configuration, run, reactor), configuration.logging)


def make_application(
    configuration: Configuration, run: Run, reactor: Any, observer: ILogObserver | None = None
) -> Application:
    """The application of a configuration.

    :raises SystemExit: 1, with a line of explanation, when the record cannot be written.
    """
    raise_descriptor_limit()
    keep_freed_memory()
    recorder = _recorder(run)
    journal = _journal(configuration)
    fleet = _fleet(configuration, run, recorder, journal)
    hub = WorkloadHub(fleet)
    history = History(fleet.state)
    pages = Pages(fleet, configuration.identities, reactor)

    def ticked() -> None:
        reloader.ticked()
        pages.keep()
        history.note(fleet.state)

    ticker = Ticker(fleet, configuration.speed, reactor, hub.notify_listeners, ticked)
    scrapes = ScrapeStatistics()
    fair_share = FairShare(reactor)
    in_use = InUse(configuration)
    workloads = make_workload_ports(in_use, hub, ticker, fair_share, reactor, drop_in=run.drop_in)
    queues = WorkQueues(configuration.queues, fair_share, reactor) if configuration.queues is not None else None
    own = _own_metrics(fleet, ticker, scrapes, workloads)
    if queues is not None:
        own.add("queues", QueueTotals(queues.figures))
    tester = make_tester(configuration.plans, reactor) if configuration.plans else None
    if tester is not None:
        own.add("tester", LoadMetrics(tester))

    def ready() -> str | None:
        return ticker.trouble() or (queues.trouble() if queues else None)

    def reload() -> Deferred[dict[str, Any]]:
        return reloader.reload()

    live = LiveView(FrameSource(fleet, ticker, queues.figures if queues else None, tester), reactor)
    program = Program(
        hub, pages, ticker, scrapes, own, ready, history, live, PageFiles(), reload,
        queues.figures if queues else None, tester,
    )  # fmt: skip
    web = make_web(configuration, program, reactor, drop_in=run.drop_in)
    listeners = Listeners(
        [service for service, _ in [*web.services, *(queues.ports if queues else ()), *workloads.services]]
    )
    application = Application(
        listeners, reactor, recorder=recorder, observer=observer, drain=_first_at_the_end(queues, tester),
        hurry=queues.hurry if queues else None,
    )  # fmt: skip
    ticker.setServiceParent(application)
    live.setServiceParent(application)
    if journal is not None:
        journal.setServiceParent(application)
    listeners.setServiceParent(application)
    if queues is not None:
        queues.add_to(application)
    if tester is not None:
        tester.setServiceParent(application)
        ReportFiles(tester, configuration.reports).setServiceParent(application)
    announcement = Announcement(partial(_announced_addresses, fleet, in_use, web, workloads, queues), run.ready_file)
    reloader = Reloader(
        run.read_again, in_use, run.head, fleet, partial(_follow, fleet, pages, history, live), web, workloads, queues,
        listeners, announcement.tell, reactor,
    )  # fmt: skip
    own.add("reload", ReloadMetrics(reloader.statistics))
    web.finish(configuration.web)
    HangupService(
        reactor, partial(stop_reactor, reactor) if run.drop_in else reloader.again
    ).setServiceParent(application)
    if configuration.watch and reloader.files():
        FileFollower(reloader.files, reloader.again, reactor).setServiceParent(application)
    announcement.setServiceParent(application)
    return application


def _fleet(configuration: Configuration, run: Run, recorder: Recorder | None, journal: JournalFile | None) -> Fleet:
    spec = replace(configuration.fleet, epoch_seconds=run.head.epoch_seconds)
    wall_per_tick = spec.tick_seconds / configuration.speed if configuration.speed else 0.0
    record = recorder.record if recorder else discard_record
    return Fleet(spec, record, wall_per_tick, journal.write if journal else no_op)


def _follow(fleet: Fleet, pages: Pages, history: History, live: LiveView, configuration: Configuration) -> None:
    """The fleet has gone over to another configuration: so does what shows it."""
    pages.follow(configuration.identities)
    if fleet.moves is not None:
        history.move(fleet.moves, fleet.state)
    live.renew()


def _announced_addresses(
    fleet: Fleet,
    in_use: InUse,
    web: Ports[WebEndpoint],
    workloads: Ports[WorkloadListen],
    queues: WorkQueues | None,
) -> AnnouncedAddresses:
    configuration = in_use.configuration
    titles = ", ".join(dict.fromkeys(identity.title for identity in configuration.identities.values()))
    return AnnouncedAddresses(
        f"fakedev {__version__}: {fleet.roster.summary}, simulated, shown as {titles}",
        configuration.notes,
        [(service, endpoint.serve) for service, endpoint in web.services],
        [service for service, _ in workloads.services],
        queues.ports if queues else [],
    )


def _first_at_the_end(queues: WorkQueues | None, tester: LoadTester | None) -> Callable[[], Deferred[None]]:
    """Stops what would make work, and then lets the work that there is be finished."""

    def drain() -> Deferred[None]:
        if tester is not None:
            tester.halt()
        return succeed(None) if queues is None else queues.drain()

    return drain


def _own_metrics(
    fleet: Fleet, ticker: Ticker, scrapes: ScrapeStatistics, ports: Ports[WorkloadListen]
) -> OwnMetrics:
    def by_state() -> dict[str, int]:
        starting = fleet.intake.starting_count
        return {"starting": starting, "running": len(fleet.workloads.by_id) - starting}

    return OwnMetrics({
        "ticks": TickMetrics(ticker, lambda: fleet.state.tick),
        "scrapes": ScrapeMetrics(scrapes),
        "workloads": WorkloadCounts(by_state, partial(connection_count, ports)),
        "faults": FaultMetrics(lambda: Counter(each.spec.kind for each in fleet.faults.by_id.values())),
    })  # fmt: skip


def _journal(configuration: Configuration) -> JournalFile | None:
    spec = configuration.journal
    if spec is None:
        return None
    try:
        return JournalFile(spec.file, spec.max_bytes, spec.keep)
    except OSError as error:
        sys.stderr.write(f"fakedev: the journal cannot be written: {error}\n")
        raise SystemExit(1) from None


def _recorder(run: Run) -> Recorder | None:
    if not run.record:
        return None
    try:
        return Recorder(run.record, run.head)
    except OSError as error:
        sys.stderr.write(f"fakedev: the record cannot be written: {error}\n")
        raise SystemExit(1) from None
