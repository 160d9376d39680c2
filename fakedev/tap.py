"""Options and composition of the service; with the ``tap_*`` files the only place where services are put together."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import time
from typing import Any, ClassVar, Final, cast

from twisted.internet.defer import Deferred, succeed
from twisted.logger import ILogObserver
from twisted.python.usage import Options as UsageOptions
from twisted.python.usage import UsageError

from fakedev import __version__
from fakedev.config.configuration import Configuration, WebEndpoint, WorkloadListen
from fakedev.config.effective import effective_text
from fakedev.config.files import Files
from fakedev.config.load import load
from fakedev.config.problems import ConfigurationError
from fakedev.net.announcement import Announcement, WhatIsWhere
from fakedev.net.descriptors import raise_descriptor_limit
from fakedev.net.ending_signals import stop_reactor
from fakedev.net.follow import FileFollower
from fakedev.net.hangup import HangupService
from fakedev.net.journal_file import JournalFile
from fakedev.net.listening import Listeners, ListeningService
from fakedev.net.live import LiveView
from fakedev.net.live_frame import FrameSource
from fakedev.net.logs import twistd_log
from fakedev.net.memory import keep_freed_memory
from fakedev.net.own_collectors import (
    FaultMetrics,
    ReloadMetrics,
    ScrapeMetrics,
    TickMetrics,
)
from fakedev.net.own_collectors import WorkloadMetrics as WorkloadCounts
from fakedev.net.own_metrics import OwnMetrics
from fakedev.net.page_statistics import ScrapeStatistics
from fakedev.net.pages import Pages
from fakedev.net.queue_totals import QueueTotals
from fakedev.net.recorder import Recorder
from fakedev.net.report_files import ReportFiles
from fakedev.net.static_files import PageFiles
from fakedev.net.tester_metrics import LoadMetrics
from fakedev.net.tester_service import LoadTester
from fakedev.net.ticker import Ticker
from fakedev.net.tree import make_root
from fakedev.net.turns import Turns
from fakedev.net.workload_hub import WorkloadHub
from fakedev.net.workload_port import WorkloadPortFactory
from fakedev.sim.fleet import Fleet, keep_nothing
from fakedev.sim.happenings import tell_nobody
from fakedev.sim.history import History
from fakedev.sim.record_head import RecordHead
from fakedev.tap_application import Application, run_application
from fakedev.tap_ports import Ports
from fakedev.tap_queues import WorkQueues
from fakedev.tap_reload import InUse, ReadAgain, Reloader
from fakedev.tap_tester import make_tester
from fakedev.tap_web import make_web

#: How long the original waits for the rest of a message before it gives the peer up.
ORIGINAL_PATIENCE_SECONDS: Final = 0.15


class Options(UsageOptions):
    """What ``twistd fakedev`` and ``fakedev serve`` are told; loads the configuration."""

    optParameters: ClassVar[list[list[Any]]] = [
        ["config", "c", None, "configuration file; without one the built-in demo starts"],
        ["record", None, "", "write seed, configuration and events to this file, to be run again"],
        ["ready-file", None, "", "write the real addresses to this file, as JSON, when all is ready"],
    ]
    optFlags: ClassVar[list[list[Any]]] = [
        ["check", None, "only check the configuration: exit 0 or 2"],
        ["print-config", None, "only print the effective configuration, with where each value comes from"],
    ]

    configuration: Configuration
    run: Run

    def __init__(self) -> None:
        super().__init__()
        self["set"] = []

    def opt_set(self, assignment: str) -> None:
        """KEY=VALUE: a value of the configuration, as fleet.seed=7; may be repeated"""
        self["set"].append(assignment)

    def opt_version(self) -> None:
        """print the version"""
        sys.stdout.write(f"fakedev {__version__}\n")
        raise SystemExit(0)

    def parseOptions(self, options: Sequence[str] | None = None) -> None:
        """Parse; a mistake is one line and exit code 2."""
        try:
            super().parseOptions(options)
        except UsageError as error:
            sys.stderr.write(f"fakedev: {error}; --help tells what there is\n")
            raise SystemExit(2) from None

    def parseArgs(self, *operands: str) -> None:
        """There are none."""
        if operands:
            raise UsageError(f"unexpected {operands[0]!r}")

    def postOptions(self) -> None:
        """Load the configuration; whatever is wrong with it is told at once, and ends the program with 2."""
        files = Files(environ=os.environ)
        try:
            self.configuration = load(self["config"], files, self["set"])
        except ConfigurationError as error:
            sys.stderr.write(f"{error}\n")
            raise SystemExit(2) from None
        if self["print-config"]:
            sys.stdout.write(effective_text(self.configuration))
            raise SystemExit(0)
        if self["check"]:
            for note in self.configuration.notes:
                sys.stderr.write(f"note: {note}\n")
            sys.stdout.write(f"{self['config'] or 'the built-in demo'}: good\n")
            raise SystemExit(0)
        head = record_head(self.configuration, files, config=self["config"], overrides=self["set"])
        # twistd changes the folder when it becomes a daemon.
        record, ready_file = (self[option] and os.path.abspath(self[option]) for option in ("record", "ready-file"))
        path = self["config"] and os.path.abspath(self["config"])
        self.run = Run(head, record, ready_file, read_again=partial(read_again, path, tuple(self["set"])))


def record_head(
    configuration: Configuration,
    files: Files,
    *,
    config: str | None = None,
    text: str | None = None,
    overrides: Sequence[str] = (),
) -> RecordHead:
    """What a record of a run of this configuration begins with; the run begins now, unless the file says when."""
    epoch = time() if configuration.epoch_is_start else configuration.fleet.epoch_seconds
    path = None if config is None else os.path.abspath(config)
    return RecordHead(__version__, epoch, path, text, dict(files.texts), dict(files.variables), list(overrides))


def read_again(path: str | None, overrides: Sequence[str]) -> tuple[Configuration, RecordHead]:
    """The configuration as it is now where it was read at the start, and what it was read from.

    :raises ConfigurationError: with every problem.
    """
    files = Files(environ=os.environ)
    configuration = load(path, files, overrides)
    return configuration, record_head(configuration, files, config=path, overrides=overrides)


@dataclass(frozen=True)
class Run:
    """What one run of the program is told beyond its configuration.

    :param record: where the events are written; empty for nowhere.
    :param drop_in: behave as the original ``fakedev-exporter``: its pages alone, its impatience with
        peers, and SIGHUP ends it.
    :param read_again: reads the configuration for a reload; None: there is nothing to read it from.
    """

    head: RecordHead
    record: str = ""
    ready_file: str = ""
    drop_in: bool = False
    read_again: ReadAgain | None = None


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

    ticker = Ticker(fleet, configuration.speed, reactor, hub.tell, ticked)
    scrapes = ScrapeStatistics()
    turns = Turns(reactor)
    in_use = InUse(configuration)
    workloads = Ports(
        configuration.workloads.listen,
        lambda listen: listen.listen,
        partial(_workload_listener, in_use, hub, ticker, turns, reactor, run.drop_in),
        partial(_change_workload_port, in_use),
    )
    queues = WorkQueues(configuration.queues, turns, reactor) if configuration.queues is not None else None
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
    own_root = partial(
        make_root, hub, pages, ticker, own, scrapes, ticker.trouble, ready, history, live, PageFiles(),
        reload=reload, queues=queues.figures if queues else None, tester=tester,
    )  # fmt: skip
    web = make_web(configuration, pages, scrapes, ticker.trouble, own_root, reactor, drop_in=run.drop_in)
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
    announcement = Announcement(partial(_what_is_where, fleet, in_use, web, workloads, queues), run.ready_file)
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
    record = recorder.record if recorder else keep_nothing
    return Fleet(spec, record, wall_per_tick, journal.write if journal else tell_nobody)


def _follow(fleet: Fleet, pages: Pages, history: History, live: LiveView, configuration: Configuration) -> None:
    """The fleet has gone over to another configuration: so does what shows it."""
    pages.follow(configuration.identities)
    if fleet.moves is not None:
        history.move(fleet.moves, fleet.state)
    live.renew()


def _what_is_where(
    fleet: Fleet,
    in_use: InUse,
    web: Ports[WebEndpoint],
    workloads: Ports[WorkloadListen],
    queues: WorkQueues | None,
) -> WhatIsWhere:
    configuration = in_use.configuration
    titles = ", ".join(dict.fromkeys(identity.title for identity in configuration.identities.values()))
    return WhatIsWhere(
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


def _workload_listener(
    in_use: InUse, hub: WorkloadHub, ticker: Ticker, turns: Turns, reactor: Any, drop_in: bool, listen: WorkloadListen
) -> ListeningService:
    ports = in_use.configuration.workloads
    factory = WorkloadPortFactory(
        hub,
        ticker,
        reactor,
        allow=listen.allow,
        node=listen.node,
        max_connections=ports.max_connections,
        message_seconds=ports.message_seconds,
        idle_answer_seconds=ORIGINAL_PATIENCE_SECONDS if drop_in else None,
        turns=turns,
    )
    return ListeningService(listen.listen, factory, reactor, make_folder=True)


def _change_workload_port(in_use: InUse, service: ListeningService, listen: WorkloadListen) -> None:
    ports, factory = in_use.configuration.workloads, cast(WorkloadPortFactory, service.factory)
    factory.allow, factory.node = listen.allow, listen.node
    factory.max_connections, factory.message_seconds = ports.max_connections, ports.message_seconds


def _own_metrics(
    fleet: Fleet, ticker: Ticker, scrapes: ScrapeStatistics, ports: Ports[WorkloadListen]
) -> OwnMetrics:
    def by_state() -> dict[str, int]:
        starting = fleet.turnstile.starting_count
        return {"starting": starting, "running": len(fleet.workloads.by_id) - starting}

    def connections() -> int:
        return sum(len(cast(WorkloadPortFactory, service.factory).peers) for service, _ in ports.services)

    return OwnMetrics({
        "ticks": TickMetrics(ticker, lambda: fleet.state.tick),
        "scrapes": ScrapeMetrics(scrapes),
        "workloads": WorkloadCounts(by_state, connections),
        "faults": FaultMetrics(lambda: Counter(each.spec.kind for each in fleet.faults.by_id.values())),
    })  # fmt: skip


def _journal(configuration: Configuration) -> JournalFile | None:
    spec = configuration.journal
    if spec is None:
        return None
    try:
        return JournalFile(spec.file, spec.most_bytes, spec.keep)
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
