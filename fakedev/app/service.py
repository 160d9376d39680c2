"""Composition of the service: makes all its parts and connects them."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from twisted.internet.defer import Deferred, succeed
from twisted.logger import ILogObserver

from fakedev import __version__
from fakedev.app.announcement import AnnouncedAddresses, Announcement
from fakedev.app.fleet import fleet_of, hub_of, journal_file, kept_after
from fakedev.app.fleet_views import FleetViews, follow_topology
from fakedev.app.options import Options
from fakedev.app.own_metrics import make_own_metrics
from fakedev.app.ports import Ports, Remedies, TlsOf
from fakedev.app.queues import QueueLogs, WorkQueues
from fakedev.app.reload import Reloader
from fakedev.app.run import Run
from fakedev.app.runner import Application, run_application
from fakedev.app.scenario import live_scenario
from fakedev.app.tester import make_tester
from fakedev.app.web import make_web
from fakedev.app.web_config import WebConfigs, sources_of
from fakedev.app.workload_ports import make_workload_ports
from fakedev.config.configuration import Configuration, WebEndpoint, WorkloadListen
from fakedev.net.fleet.hpc_jobs import HpcJobFolder
from fakedev.net.fleet.operator_topology import OperatorTopology
from fakedev.net.fleet.recorder import Recorder
from fakedev.net.fleet.ticker import Ticker
from fakedev.net.fleet.workloads import WorkloadHub
from fakedev.net.http.statistics import ScrapeStatistics
from fakedev.net.lines.fair_share import FairShare
from fakedev.net.system.descriptors import raise_descriptor_limit
from fakedev.net.system.listening import Listeners, ListeningService
from fakedev.net.system.logging import twistd_log
from fakedev.net.system.memory import keep_freed_memory
from fakedev.net.system.names import use_patient_resolver
from fakedev.net.system.notify import notifier_of
from fakedev.net.system.signals import HangupService
from fakedev.net.system.stalls import CollectorPauses, StallWatch
from fakedev.net.system.steady_clock import clock_shift, use_steady_clock
from fakedev.net.system.threads import wait_in_thread
from fakedev.net.system.timing import no_op
from fakedev.net.system.watch import FileFollower
from fakedev.net.tester.service import LoadTester, ReportFiles
from fakedev.net.web.frames import FrameSource
from fakedev.net.web.live import LiveView
from fakedev.net.web.own_metrics import (
    OwnMetrics,
)
from fakedev.net.web.page_cache import Pages
from fakedev.net.web.program import Program
from fakedev.net.web.static import PageFiles
from fakedev.sim.charts import History
from fakedev.sim.fleet import Fleet
from fakedev.spec.listen_address import ListenAddress
from fakedev.spec.os_errors import CannotWrite

if TYPE_CHECKING:
    from fakedev.app.kubernetes import ClusterParts
    from fakedev.net.fleet.state_folder import StateFolder
    from fakedev.net.nvml.writer import NvmlMap


class HasProblem(Protocol):
    """A file that the service writes."""

    @property
    def problem(self) -> str: ...


def makeService(options: Options, reactor: Any = None) -> Application:
    """The service of ``twistd fakedev`` (called by twistd)."""
    if reactor is None:
        from twisted.internet import reactor  # noqa: PLC0415 - importing it installs it

        use_steady_clock(reactor)
        use_patient_resolver(reactor)
    logging = options.configuration.logging
    twistd_options = getattr(options, "parent", None)
    observer = twistd_log(twistd_options, reactor, logging.level, logging.format) if twistd_options else None
    return make_application(options.configuration, options.run, reactor, observer)


def run_program(configuration: Configuration, run: Run) -> None:
    """Run the program until a signal.

    :raises SystemExit: 1, after a line of explanation, when an address cannot be used.
    """
    run_application(lambda reactor: make_application(configuration, run, reactor), configuration.logging)


def make_application(
    configuration: Configuration, run: Run, reactor: Any, observer: ILogObserver | None = None
) -> Application:
    """The application of a configuration.

    :raises SystemExit: 1, with a line of explanation, when the journal cannot be written.
    """
    if run.owns_process:
        _prepare_process()

    # The simulation, its clock, and what shows it.
    recorder = Recorder(run.record, run.head) if run.record else None
    journal = journal_file(configuration.journal, reactor) if configuration.journal else None
    state, fleet, run = fleet_of(configuration, run, recorder, journal, reactor)
    fair_share = FairShare(reactor)
    hub = hub_of(fleet, fair_share, run, state)
    nvml = _nvml(configuration, hub, reactor)
    files: dict[str, HasProblem | None] = {"record": recorder, "journal": journal, "state": state, "nvml": nvml}

    def file_problems() -> dict[str, str]:
        return {name: file.problem for name, file in files.items() if file is not None}

    pages = Pages(fleet, configuration.identities, reactor)
    history, listeners = History(fleet.state), Listeners()
    reloader = Reloader(run, configuration, fleet, listeners, reactor)
    scenario = live_scenario(run, fleet, reloader, lambda speed: ticker.set_speed(speed))  # noqa: PLW0108 - it comes

    def ticked() -> None:
        reloader.ticked()
        if cluster is not None:
            cluster.controller.ticked()
        views.ticked(reloader.configuration)

    ticker = Ticker(
        fleet, configuration.speed, reactor, hub.notify_listeners, kept_after(state, hub, ticked),
        lambda: hub.is_notifying, lambda: bool(reactor.getWriters()), scenario.before_tick if scenario else no_op,
    )  # fmt: skip

    # The ports.
    scrapes = ScrapeStatistics()
    closed: Counter[str] = Counter()
    by_port: dict[str, Mapping[str, int]] = {"workloads": closed}
    remedies = Remedies(run.option_of)
    web_configs = WebConfigs(
        sources_of(configuration), reactor,
        lambda: _refresh(reloader, (web, workloads, queues, cluster.ports if cluster else None)),
    )  # fmt: skip
    workloads = make_workload_ports(
        configuration, hub, ticker, fair_share, reactor, closed, remedies, web_configs.tls_of
    )
    queues = (
        WorkQueues(configuration.queues, fair_share, reactor, remedies, web_configs.tls_of)
        if configuration.queues else None
    )
    figures, queue_history = (queues.figures, queues.history) if queues is not None else (None, None)
    tester = make_tester(configuration.plans, reactor) if configuration.plans else None
    by_port |= queues.closed if queues is not None else {}
    stalls, pauses, http_dropped = StallWatch(reactor), CollectorPauses(), Counter[str]()
    own = make_own_metrics(
        fleet, state, ticker, scrapes, workloads, figures, tester, reloader, by_port, http_dropped,
        listeners.shortage, stalls, pauses, partial(clock_shift, reactor), file_problems, journal,
    )  # fmt: skip

    topology = OperatorTopology(fleet)
    follow_topology(topology, configuration)
    cluster = _cluster(
        configuration, hub, reactor, fair_share, by_port, own, remedies, web_configs.tls_of, topology, state
    )

    def ready() -> str | None:
        lack = listeners.shortage.trouble(reactor.seconds())
        of_cluster = cluster.follower.trouble() if cluster else None
        return ticker.trouble() or (queues.trouble() if queues else None) or of_cluster or lack

    live = LiveView(FrameSource(fleet, ticker, figures, tester, scenario), reactor)
    program = Program(
        hub, pages, ticker, scrapes, own, ready, file_problems, history, live, PageFiles(), reloader.reload, topology,
        figures, queue_history, tester, scenario,
    )  # fmt: skip
    web = make_web(configuration, program, fair_share, reactor, remedies, web_configs.of, http_dropped)

    # What a reload changes.
    views = FleetViews(fleet, pages, history, live, web, topology, nvml.ticked if nvml else no_op)
    announcement = Announcement(partial(_addresses, reloader, fleet, web, workloads, queues, cluster), run.ready_file)
    parts = [each for each in (web_configs, web, workloads, queues, cluster and cluster.ports) if each]
    notifier = notifier_of(os.environ, reactor, partial(_status, fleet, scrapes)) if run.owns_process else None
    reloader.connect(parts, views.follow, announcement.tell, lambda: ticker.speed, notifier)

    # All services, in the order in which they start.
    of_others = (queues and queues.ports, workloads.services, cluster and cluster.ports.services, nvml and nvml.ports)
    for service, _ in [*web.services, *(each for every in of_others for each in every or ())]:
        service.setServiceParent(listeners)
    is_watching = configuration.watch and reloader.files()
    return Application(
        listeners,
        reactor,
        [
            ticker,
            live,
            journal,
            QueueLogs(queues, listeners) if queues else None,
            state,
            listeners,
            queue_history,
            queues.log_service if queues else None,
            tester,
            ReportFiles(tester, configuration.reports) if tester else None,
            HangupService(reactor, reloader.again) if run.owns_process else None,
            FileFollower(reloader.files, reloader.again, reactor) if is_watching else None,
            web_configs,
            stalls,
            pauses,
            cluster.follower if cluster else None,
            nvml,
            _hpc_jobs(configuration, hub, reactor),
            announcement,
            notifier,
        ],
        recorder=recorder,
        observer=observer,
        drain=partial(_drain, ticker, queues, tester),
        hurry=queues.hurry if queues else None,
        owns_process=run.owns_process,
    )


def _prepare_process() -> None:
    raise_descriptor_limit()
    keep_freed_memory()


def _refresh(reloader: Reloader, parts: Iterable[Ports[Any] | WorkQueues | None]) -> None:
    """Give all addresses their entries again, because a web configuration or a certificate has changed."""
    for part in parts:
        if part is not None:
            part.refresh(reloader.configuration)


def _status(fleet: Fleet, scrapes: ScrapeStatistics) -> str:
    """The service in a line."""
    return f"{fleet.roster.summary}, tick {fleet.state.tick}, {scrapes.total} scrapes"


def _hpc_jobs(configuration: Configuration, hub: WorkloadHub, reactor: Any) -> HpcJobFolder | None:
    """The folder with the jobs of GPUs; None without."""
    jobs = configuration.hpc_jobs
    if jobs is None:
        return None
    in_thread = partial(wait_in_thread, reactor)
    return HpcJobFolder(hub, jobs.folder, jobs.node, jobs.is_written, jobs.every_seconds, reactor, in_thread)


def _cluster(
    configuration: Configuration,
    hub: WorkloadHub,
    reactor: Any,
    fair_share: FairShare,
    closed: dict[str, Mapping[str, int]],
    own: OwnMetrics,
    remedies: Remedies,
    tls_of: TlsOf,
    topology: OperatorTopology,
    state: StateFolder | None,
) -> ClusterParts | None:
    """The parts that follow a cluster, with their metrics; None without a cluster."""
    if configuration.kubernetes is None:
        return None
    # Only with a cluster: these modules are many.
    from fakedev.app.kubernetes import make_kubernetes  # noqa: PLC0415
    from fakedev.net.kube.metrics import cluster_metrics  # noqa: PLC0415

    closed_nodes: Counter[str] = Counter()
    closed["nodes"] = closed_nodes
    hub.master = "the cluster"
    cluster = make_kubernetes(
        configuration.kubernetes, hub, reactor, fair_share, closed_nodes, remedies, tls_of, topology, state
    )  # fmt: skip
    own.add("kubernetes", partial(cluster_metrics, cluster.follower, reactor))
    return cluster


def _addresses(
    reloader: Reloader,
    fleet: Fleet,
    web: Ports[WebEndpoint],
    workloads: Ports[WorkloadListen],
    queues: WorkQueues | None,
    cluster: ClusterParts | None,
) -> AnnouncedAddresses:
    configuration = reloader.configuration
    titles = ", ".join(dict.fromkeys(identity.title for identity in configuration.identities.values()))
    return AnnouncedAddresses(
        f"fakedev {__version__}: {fleet.roster.summary}, simulated, shown as {titles}",
        configuration.notes,
        [(service, endpoint.serve) for service, endpoint in web.services],
        [service for service, _ in workloads.services],
        queues.ports if queues else [],
        [service for service, _ in cluster.ports.services] if cluster else None,
    )


def _drain(ticker: Ticker, queues: WorkQueues | None, tester: LoadTester | None) -> Deferred[None]:
    """End an advance, whose peer is still connected; stop the source of new work; then let the running jobs finish."""
    ticker.stop_advance()
    if tester is not None:
        tester.halt()
    return succeed(None) if queues is None else queues.drain()


def _nvml(configuration: Configuration, hub: WorkloadHub, reactor: Any) -> NvmlMap | None:
    """The file for NVML; None without."""
    given = configuration.nvml
    if given is None:
        return None
    # Only with such a file.
    from fakedev.net.nvml.control import SettingFactory, user_numbers  # noqa: PLC0415
    from fakedev.net.nvml.writer import NvmlMap  # noqa: PLC0415

    try:
        users = user_numbers(given.file, given.setters)
        written = NvmlMap(
            hub.fleet, given.file, given.mode, given.nodes, hub.pid_of, reactor, control=given.control_socket
        )
    except CannotWrite as reason:
        sys.stderr.write(f"fakedev: the file for NVML cannot be written: {reason}\n")
        raise SystemExit(1) from None
    if users:
        # All may connect; the kernel says who they are.
        path = given.control_socket
        address = ListenAddress("unix", path=path, mode=0o666, display=path, local=True)
        factory = SettingFactory(hub.fleet, users, reactor)
        written.ports.append((ListeningService(address, factory, reactor), None))
    return written
