"""Composition of ``fakedev-exporter``: one fleet, its metrics page and its workload port, as the original has them.

Apart from the service, because it must listen within a fraction of a second: what it does not have is not imported.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from fakedev import __version__
from fakedev.app.announcement import AnnouncedAddresses, Announcement
from fakedev.app.ports import Remedies
from fakedev.app.run import make_fleet
from fakedev.app.runner import Application, run_application
from fakedev.app.workload_ports import make_workload_port
from fakedev.config.configuration import Configuration
from fakedev.net.fleet.ticker import Ticker
from fakedev.net.fleet.workloads import WorkloadHub
from fakedev.net.http.limits import DROP_IN_LIMITS
from fakedev.net.http.resource import make_tree
from fakedev.net.http.site import GuardedSite
from fakedev.net.http.statistics import ScrapeStatistics
from fakedev.net.lines.fair_share import FairShare
from fakedev.net.system.descriptors import raise_descriptor_limit
from fakedev.net.system.listening import Listeners, ListeningService
from fakedev.net.system.memory import keep_freed_memory
from fakedev.net.system.signals import HangupService, stop_reactor
from fakedev.net.web.metrics_page import MetricsPage
from fakedev.net.web.page_cache import Pages
from fakedev.spec.record_head import RecordHead
from fakedev.spec.web_paths import METRICS

if TYPE_CHECKING:
    from fakedev.app.web_config import WebConfigs
    from fakedev.config.web_config import WebConfigSource

#: How long the original waits for the rest of a message.
ORIGINAL_PATIENCE_SECONDS: Final = 0.15


def run_exporter(
    configuration: Configuration,
    head: RecordHead,
    record: str,
    option_of: Mapping[str, str],
    web_socket: socket.socket | None = None,
) -> None:
    """Run ``fakedev-exporter`` until a signal.

    :param record: the file for the events; empty for none.
    :param option_of: the options that give addresses; see Remedies.
    :param web_socket: listens on the address of the metrics already; None: nothing does.
    :raises SystemExit: 1, after a line of explanation, when an address or the record cannot be used.
    """
    remedies = Remedies(option_of)
    run_application(
        lambda reactor: make_exporter(configuration, head, reactor, record, remedies, web_socket), configuration.logging
    )


def make_exporter(
    configuration: Configuration,
    head: RecordHead,
    reactor: Any,
    record: str = "",
    remedies: Remedies | None = None,
    web_socket: socket.socket | None = None,
) -> Application:
    """The exporter: /metrics by GET, and the workload port with the original's patience; SIGHUP ends it."""
    raise_descriptor_limit()
    keep_freed_memory()
    recorder = None
    if record:
        from fakedev.net.fleet.recorder import Recorder  # noqa: PLC0415 - most runs are not recorded

        recorder = Recorder(record, head)
    fleet = make_fleet(configuration, head, recorder)
    fair_share = FairShare(reactor)
    hub = WorkloadHub(fleet, fair_share)
    pages = Pages(fleet, configuration.identities, reactor)
    ticker = Ticker(
        fleet, configuration.speed, reactor, hub.notify_listeners, pages.keep, lambda: hub.is_notifying
    )
    page = MetricsPage(pages.fleet_page, ScrapeStatistics().page(METRICS.template), allow_head=False)
    site = GuardedSite(
        make_tree({METRICS.template: page}), reactor, limits=DROP_IN_LIMITS, fair_share=fair_share
    )
    web_configs = _secured(site, configuration.web[0].web_config, reactor)
    web = [(ListeningService(endpoint.listen, site, reactor), endpoint.serve) for endpoint in configuration.web]
    web[0][0].adopted = web_socket
    ports = configuration.workloads
    workloads = [
        make_workload_port(
            entry,
            ports,
            hub,
            ticker,
            reactor,
            fair_share=fair_share,
            idle_answer_seconds=ORIGINAL_PATIENCE_SECONDS,
        )
        for entry in ports.listen
    ]
    for key, services_of_key in (("web", [service for service, _ in web]), ("workloads.listen", workloads)):
        for index, service in enumerate(services_of_key):
            service.remedy = (remedies or Remedies()).of(f"{key}.{index}.listen")
    listeners = Listeners([*(service for service, _ in web), *workloads])
    titles = ", ".join(dict.fromkeys(identity.title for identity in configuration.identities.values()))
    summary = f"fakedev {__version__}: {fleet.roster.summary}, simulated, shown as {titles}"
    addresses = AnnouncedAddresses(summary, configuration.notes, web, workloads)
    hangup = HangupService(reactor, partial(stop_reactor, reactor))
    services = [ticker, listeners, hangup, web_configs, Announcement(lambda: addresses)]
    return Application(listeners, reactor, services, recorder=recorder)


def _secured(site: GuardedSite, source: WebConfigSource | None, reactor: Any) -> WebConfigs | None:
    """The web configuration of the page, which follows its files; None without."""
    if source is None:
        return None
    from fakedev.app.web_config import WebConfigs  # noqa: PLC0415 - few have one

    web_configs = WebConfigs([source], reactor, lambda: web_configs.secure(site, source))
    web_configs.secure(site, source)
    return web_configs
