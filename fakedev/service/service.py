"""The service: all its parts, like a bill of materials."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Final

from twisted.logger import ILogObserver

from fakedev.api.live import FrameSource, LiveView
from fakedev.api.static import PageFiles
from fakedev.api.tree import Program, WebPart, follow_topology
from fakedev.base.console import write_text
from fakedev.config.configuration import Configuration
from fakedev.exporters.hpc_jobs import HpcJobFolder
from fakedev.exporters.part import ExportersPart
from fakedev.fleet.charts import History
from fakedev.fleet.part import WorkloadsPart
from fakedev.kubernetes.runai.operator_port import OperatorTopology
from fakedev.runtime.announcement import Announcement
from fakedev.runtime.application import Application, run_application
from fakedev.runtime.clock import clock_shift
from fakedev.runtime.listening import CannotStart, Listeners, raise_descriptor_limit
from fakedev.runtime.logs import twistd_log
from fakedev.runtime.memory import StallWatch, keep_freed_memory
from fakedev.runtime.part import Part, Remedies, parts_of
from fakedev.runtime.reactor import IReactor, program_reactor
from fakedev.runtime.running_services import Registration
from fakedev.runtime.systemd import notifier_of
from fakedev.runtime.threads import load_in_thread, wait_in_thread
from fakedev.runtime.turns import FairShare
from fakedev.service.fleet_part import FleetPart
from fakedev.service.options import Options
from fakedev.service.program_run import Run
from fakedev.service.reload import Reloader, ScenarioPart
from fakedev.web.metrics import Group, OwnMetrics, clock_metrics, stall_metrics
from fakedev.web.response import ScrapeStatistics
from fakedev.web.web_configs import WebConfigs


def makeService(options: Options, reactor: IReactor | None = None) -> Application:
    """The service of ``twistd fakedev`` (called by twistd)."""
    reactor = reactor or program_reactor()
    logging = options.configuration.logging
    twistd_options = getattr(options, "parent", None)
    observer = twistd_log(twistd_options, reactor, logging.level, logging.format) if twistd_options else None
    return make_application(options.configuration, options.run, reactor, observer)


def run_program(configuration: Configuration, run: Run) -> None:
    """Run the program until a signal.

    :raises SystemExit: 1, after a line of explanation, when an address cannot be used.
    """
    run_application(lambda reactor: make_application(configuration, run, reactor), configuration.logging)


#: Modules that the start need not wait for and that ticks and pages use; numpy.unique loads numpy.ma.
LOADED_LATER: Final = ("numpy.ma", "fakedev.fleet.metrics", "fakedev.queues.metrics")


def make_application(
    configuration: Configuration, run: Run, reactor: IReactor, observer: ILogObserver | None = None
) -> Application:
    """The application of a configuration.

    :raises CannotStart: after a line of explanation, when a part cannot use its files or its cluster.
    """
    if run.owns_process:
        raise_descriptor_limit()
        keep_freed_memory()
    with ExitStack() as begun:
        try:
            return _with_parts(configuration, run, reactor, observer, begun)
        except CannotStart as reason:
            write_text(sys.stderr, f"{reason}\n")
            raise


def _with_parts(
    configuration: Configuration, run: Run, reactor: IReactor, observer: ILogObserver | None, begun: ExitStack
) -> Application:
    """The application with its parts, of which each needs only those before it.

    :param begun: closes what parts have opened, when a later one cannot be made.
    """
    listeners, fair_share, remedies = Listeners(), FairShare(reactor), Remedies(run.option_of)
    application = Application(reactor, listeners, observer, owns_process=run.owns_process)
    scrapes = ScrapeStatistics()

    fleet = FleetPart(configuration, run, listeners, fair_share, reactor)
    begun.callback(fleet.stopService)
    exporters = ExportersPart(fleet.fleet, configuration.identities, reactor)
    topology = OperatorTopology(fleet.fleet)
    follow_topology(topology, configuration)
    nvml = kernel_log = kubernetes = queues = tester = scenario = hpc_jobs = otlp = notifier = None
    if configuration.nvml is not None:
        from fakedev.nvml.part import NvmlPart  # noqa: PLC0415 - few services have such a file

        nvml = NvmlPart(configuration.nvml, fleet.hub, reactor)
        begun.callback(nvml.stopService)
    if configuration.kernel_log is not None:
        from fakedev.nvml.kernel_log_file import KernelLogPart  # noqa: PLC0415 - as above

        kernel_log = KernelLogPart(configuration.kernel_log, fleet.fleet, reactor)
        begun.callback(kernel_log.stopService)
    if configuration.otlp is not None:
        from fakedev.exporters.otlp_sender import OtlpPart  # noqa: PLC0415 - its messages are in an extra

        otlp = OtlpPart(configuration.otlp, fleet.fleet, reactor)
    if jobs := configuration.hpc_jobs:
        node = fleet.fleet.roster.node(jobs.node)
        identity = configuration.identities.get(node.pool.name) if node is not None else None
        hpc_jobs = HpcJobFolder(
            fleet.hub, jobs.folder, jobs.node, jobs.is_written, jobs.every_seconds, reactor,
            partial(wait_in_thread, reactor), is_by_instance=identity is None or identity.jobs_of_instances,
            is_slurm=identity is not None and identity.shows_slurm_jobs,
        )  # fmt: skip
    web_configs = WebConfigs(configuration.web_config_sources(), reactor)
    line_options = fair_share, reactor, remedies, web_configs.tls_of
    workloads = WorkloadsPart(configuration.workloads, fleet.hub, fleet.ticker, *line_options)
    if configuration.queues is not None:
        from fakedev.queues.part import QueuesPart  # noqa: PLC0415 - few services have queues

        queues = QueuesPart(configuration.queues, listeners, *line_options)
    if configuration.kubernetes is not None:
        from fakedev.kubernetes.part import KubernetesPart  # noqa: PLC0415 - its modules are many

        kubernetes = KubernetesPart(
            configuration.kubernetes, fleet.hub, topology, fleet.state, exporters.pages,
            nvml.values if nvml is not None else None, *line_options,
        )  # fmt: skip
    if configuration.plans:
        from fakedev.tester.part import TesterPart  # noqa: PLC0415 - few services put load on queues

        tester = TesterPart(configuration.plans, configuration.reports, reactor)
    if run.owns_process:
        notifier = notifier_of(os.environ, reactor, partial(_status, fleet, scrapes))
        reactor.callWhenRunning(load_in_thread, reactor, *LOADED_LATER)
    announcement = Announcement(
        fleet.summary, application.listening, run.ready_file, ["nodes"] if kubernetes else [],
        Registration(None if run.program else run.head.config, os.environ, run.program) if run.owns_process else None,
    )
    reloader = Reloader(fleet, listeners, announcement, notifier, reactor)
    if run.scenario is not None:
        scenario = ScenarioPart(run.scenario, fleet, reloader)

    # The web tree shows them all.
    figures, history = (queues.figures, queues.history) if queues else (None, None)
    load, played = tester.tester if tester else None, scenario.live if scenario else None
    live = LiveView(
        FrameSource(fleet.fleet, fleet.ticker, figures, load, played), reactor, fair_share.call_when_complete
    )
    program = Program(
        hub=fleet.hub,
        pages=exporters.pages,
        ticker=fleet.ticker,
        scrapes=scrapes,
        own_metrics=OwnMetrics(partial(in_page_order, application)),
        ready=application.unready_reason,
        file_problems=application.problems,
        history=History(fleet.fleet.state),
        live=live,
        files=PageFiles(),
        reload=reloader.reload,
        topology=topology,
        queues=figures,
        queue_history=history,
        tester=load,
        scenario=played,
    )
    web = WebPart(configuration, program, listeners, fair_share, reactor, remedies, web_configs.of)
    begun.pop_all()

    return application.run_parts(
        [
            fleet,
            reloader,
            scenario,
            exporters,
            web_configs,
            web,
            workloads,
            queues,
            listeners,
            tester,
            ProcessPart(reactor),
            kubernetes,
            nvml,
            kernel_log,
            hpc_jobs,
            otlp,
            announcement,
            notifier,
        ],
        listening=(web, queues, workloads, kubernetes, nvml),
    )


def _status(fleet: FleetPart, scrapes: ScrapeStatistics) -> str:
    """One-line status for ``systemctl``."""
    return f"{fleet.fleet.roster.summary}, tick {fleet.fleet.state.tick}, {scrapes.total} scrapes"


#: The groups in the order of the page.
PAGE_ORDER: Final = (
    "ticks", "stalls", "clock", "scrapes", "workloads", "faults", "limits", "ports", "queues",
    "queue logs", "tester", "reload", "files", "state", "kubernetes",
)  # fmt: skip


def in_page_order(services: Iterable[object]) -> Mapping[str, Group]:
    """The groups of the parts among some services, in the order of the page."""
    groups = {name: group for part in parts_of(services) for name, group in part.metrics().items()}
    return {name: groups[name] for name in sorted(groups, key=PAGE_ORDER.index)}


class ProcessPart(Part):
    """Measures how long the reactor is held."""

    def __init__(self, reactor: IReactor) -> None:
        self._stalls = StallWatch(reactor)
        self._reactor = reactor
        super().__init__("process", [self._stalls])

    def metrics(self) -> Mapping[str, Group]:
        return {
            "stalls": partial(stall_metrics, self._stalls.longest_seconds),
            "clock": partial(clock_metrics, partial(clock_shift, self._reactor)),
        }
