"""Composition of ``fakedev-exporter``: one fleet, its metrics page and its workload port, as the original has them.

Apart from the service, because it must listen within a fraction of a second: what it does not have is not imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from fakedev.config.configuration import Configuration
from fakedev.exporters.part import ExportersPart
from fakedev.exporters.port import MetricsPage
from fakedev.fleet.part import WorkloadsPart
from fakedev.fleet.spec.limits import RecordHead
from fakedev.runtime.announcement import Announcement
from fakedev.runtime.application import Application, run_application
from fakedev.runtime.listening import Listeners, raise_descriptor_limit
from fakedev.runtime.memory import keep_freed_memory
from fakedev.runtime.part import Remedies
from fakedev.runtime.reactor import IReactor
from fakedev.runtime.signals import HangupService, stop_reactor
from fakedev.runtime.turns import FairShare
from fakedev.service.fleet_part import FleetPart
from fakedev.service.program_run import Run
from fakedev.web.drop_in import MetricsSite
from fakedev.web.paths import METRICS
from fakedev.web.response import ScrapeStatistics

if TYPE_CHECKING:
    from fakedev.web.web_configs import WebConfigs

#: How long the original waits for the rest of a message.
ORIGINAL_PATIENCE_SECONDS: Final = 0.15


def run_exporter(
    configuration: Configuration,
    head: RecordHead,
    record: str,
    option_of: Mapping[str, str],
) -> None:
    """Run ``fakedev-exporter`` until a signal.

    :param record: the file for the events; empty for none.
    :param option_of: the options that give addresses; see Remedies.
    :raises SystemExit: 1, after a line of explanation, when an address or the record cannot be used.
    """
    remedies = Remedies(option_of)
    run_application(
        lambda reactor: make_exporter(configuration, head, reactor, record, remedies), configuration.logging
    )


def make_exporter(
    configuration: Configuration,
    head: RecordHead,
    reactor: IReactor,
    record: str = "",
    remedies: Remedies | None = None,
) -> Application:
    """The exporter: /metrics by GET, and the workload port with the original's patience; SIGHUP ends it."""
    raise_descriptor_limit()
    keep_freed_memory()
    listeners, fair_share, remedies = Listeners(), FairShare(reactor), remedies or Remedies()
    fleet = FleetPart(configuration, Run(head, record), listeners, fair_share, reactor)
    exporters = ExportersPart(fleet.fleet, configuration.identities, reactor)
    source = configuration.web[0].web_config
    web_configs: WebConfigs | None = None
    if source is not None:
        from fakedev.web.web_configs import WebConfigs  # noqa: PLC0415 - few have one

        web_configs = WebConfigs([source], reactor)
    page = MetricsPage(exporters.pages.fleet_page, ScrapeStatistics().page(METRICS.template), allow_head=False)
    addresses = [endpoint.listen for endpoint in configuration.web]
    web = MetricsSite(page, addresses, reactor, remedies, web_configs, source, fair_share)
    workloads = WorkloadsPart(
        configuration.workloads, fleet.hub, fleet.ticker, fair_share, reactor, remedies,
        idle_answer_seconds=ORIGINAL_PATIENCE_SECONDS,
    )  # fmt: skip
    application = Application(reactor, listeners)
    return application.run_parts([
        fleet,
        exporters,
        web,
        workloads,
        listeners,
        HangupService(reactor, partial(stop_reactor, reactor)),
        web_configs,
        Announcement(fleet.summary, application.listening),
    ])  # fmt: skip
