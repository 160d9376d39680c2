"""Composition of the work queues, in the service and as the program ``fakedev-frontend``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from fakedev import __version__
from fakedev.app.announcement import AnnouncedAddresses, Announcement
from fakedev.app.ports import Ports, Reloadable, Remedies, TlsOf
from fakedev.app.runner import Application, run_application
from fakedev.config.configuration import Logging, QueueListen, Queues
from fakedev.net.http.limits import DROP_IN_LIMITS
from fakedev.net.http.resource import make_tree
from fakedev.net.http.site import GuardedSite
from fakedev.net.http.statistics import ScrapeStatistics
from fakedev.net.lines.fair_share import FairShare
from fakedev.net.lines.server import LineAddress
from fakedev.net.queues.backend_port import QueueBackendFactory
from fakedev.net.queues.client_port import QueueClientFactory
from fakedev.net.queues.figures import QueueFigures, QueueHistory, QueueLog
from fakedev.net.queues.hub import GOING_DOWN, QueueHub
from fakedev.net.queues.metrics_page import QueueMetricsPage
from fakedev.net.queues.port import QueuePortFactory
from fakedev.net.system.descriptors import raise_descriptor_limit
from fakedev.net.system.listening import Listeners, ListeningService
from fakedev.net.system.signals import HangupService, stop_reactor
from fakedev.net.system.threads import wait_in_thread
from fakedev.spec.listen_address import ListenAddress
from fakedev.spec.os_errors import CannotWrite
from fakedev.spec.web_paths import METRICS
from fakedev.workqueue.broker import Broker

if TYPE_CHECKING:
    from fakedev.app.web_config import WebConfigs
    from fakedev.config.configuration import Configuration
    from fakedev.config.web_config import WebConfigSource

_Entries = Callable[[Queues], Sequence[QueueListen]]
#: The options of ``fakedev-frontend`` that give addresses.
_OPTION_OF: Final = {
    "web.0.listen": "-maddr",
    "queues.listen-clients.0.listen": "-caddr",
    "queues.listen-backends.0.listen": "-waddr",
}


def _plain(_: object) -> None:
    """No TLS: no option of ``fakedev-frontend`` asks for it."""


class WorkQueues(Reloadable):
    """The queues of a configuration with their ports.

    :param remedies: for addresses that cannot be listened on.
    :param tls_of: the TLS of an address.
    :param verbose: log every message.
    :ivar figures: the state and the totals of the queues.
    :ivar history: their last hour, for charts.
    :ivar log_service: logs the figures; None when the configuration does not ask for it.
    """

    log = Logger()

    def __init__(
        self, queues: Queues, fair_share: FairShare, reactor: Any, remedies: Remedies, tls_of: TlsOf,
        verbose: bool = False,
    ) -> None:  # fmt: skip
        self._hub = hub = QueueHub(Broker(queues.broker, reactor.seconds()), reactor, fair_share)
        options: dict[str, Any] = {
            "max_connections": queues.max_connections,
            "message_seconds": queues.message_seconds,
            "fair_share": fair_share,
            "verbose": verbose,
        }
        self._client_factory = QueueClientFactory(hub, reactor, **options)
        self._backend_factory = QueueBackendFactory(hub, reactor, **options)
        self.figures = QueueFigures(hub, self._client_factory, self._backend_factory)
        self.history = QueueHistory(self.figures, reactor)

        def ports(who: str, entries: _Entries, factory: QueuePortFactory) -> Ports[QueueListen]:
            return _ports(queues, entries, factory, reactor, f"queues.listen-{who}", remedies, tls_of)

        self._clients = ports("clients", lambda later: later.clients, self._client_factory)
        self._backends = ports("backends", lambda later: later.backends, self._backend_factory)
        self.log_service = (
            QueueLog(self.figures, queues.log_interval_seconds, reactor) if queues.log_interval_seconds else None
        )
        self._drain_seconds = queues.drain_seconds
        self._reactor = reactor

    def open_logs(self) -> None:
        """Restore the requests of the durable queues.

        :raises CannotWrite: if a log cannot be used.
        """
        reactor, in_thread = self._reactor, partial(wait_in_thread, self._reactor)
        self._hub.logs.open(self._hub.broker, reactor, time.time(), in_thread, self._hub.turn_ended)

    def close_logs(self) -> Deferred[None]:
        """Free the folders of the durable queues; fires when the writes that have begun are over."""
        return self._hub.logs.when_idle().addCallback(lambda _: self._hub.logs.close())

    @property
    def ports(self) -> list[tuple[ListeningService, str]]:
        """The services of the ports, each with the kind of its peers: ``clients`` or ``backends``."""
        clients = [(service, "clients") for service, _ in self._clients.services]
        return clients + [(service, "backends") for service, _ in self._backends.services]

    @property
    def closed(self) -> dict[str, Mapping[str, int]]:
        """The connections that the ports have closed, by port and reason."""
        return {"clients": self._client_factory.closed, "backends": self._backend_factory.closed}

    def refresh(self, configuration: Configuration) -> None:
        """Give the addresses their entries again, because certificates have changed."""
        self._clients.refresh(configuration)
        self._backends.refresh(configuration)

    def begin(self, configuration: Configuration, listeners: Listeners) -> None:
        self._clients.begin(configuration, listeners)
        self._backends.begin(configuration, listeners)
        self._hub.broker.prepare(_queues_of(configuration).broker)

    def undo(self) -> None:
        self._clients.undo()
        self._backends.undo()

    def finish(self, configuration: Configuration) -> None:
        queues = _queues_of(configuration)
        self._hub.broker.reconfigure(queues.broker, self._hub.now())
        self._hub.turn_ended()
        self._client_factory.read_limits()
        for factory in (self._client_factory, self._backend_factory):
            factory.max_connections = queues.max_connections
            factory.message_timer.change(queues.message_seconds)
        self._clients.finish(configuration)
        self._backends.finish(configuration)

    def drain(self) -> Deferred[None]:
        """Accept no more requests; fires when the running ones have ended, at the time limit, or at a second signal."""
        running = sum(queue.now.running for queue in self.figures.all())
        if running and self._drain_seconds:
            self.log.info(
                "running jobs: {running}; they have {seconds:g} s to finish, or until the next signal",
                running=running, seconds=self._drain_seconds,
            )  # fmt: skip
        return self._hub.drain(self._drain_seconds).addCallback(lambda _: self._hub.logs.when_idle())

    def hurry(self, signal_name: str) -> None:
        """End the jobs that still run while the queues drain."""
        if self._hub.is_draining:
            self.log.info("{name}: ends the running jobs", name=signal_name)
            self._hub.give_up()

    def trouble(self) -> str | None:
        """Why no requests are accepted; None when they are."""
        return GOING_DOWN if self._hub.is_closed else self._hub.logs.problem or None


class QueueLogs(Service):
    """Opens the logs of the durable queues at the start, when all addresses are ours, and closes them at the end.

    :param listeners: give up if a log cannot be used.
    """

    def __init__(self, queues: WorkQueues, listeners: Listeners) -> None:
        self.setName("queue-logs")
        self._queues = queues
        self._listeners = listeners

    def startService(self) -> None:
        """Open the logs.

        :raises CannotStart: if one cannot be used.
        """
        try:
            self._queues.open_logs()
        except CannotWrite as reason:
            self._listeners.give_up(f"the log of a queue cannot be used: {reason}")
        super().startService()

    def stopService(self) -> Deferred[None]:
        """Close the logs: another service of this process may use their folders."""
        super().stopService()
        return self._queues.close_logs()


def _queues_of(configuration: Configuration) -> Queues:
    assert configuration.queues is not None
    return configuration.queues


def _ports(
    first: Queues,
    entries: _Entries,
    factory: QueuePortFactory,
    reactor: Any,
    key: str,
    remedies: Remedies,
    tls_of: TlsOf,
) -> Ports[QueueListen]:
    def listen(entry: QueueListen) -> ListeningService:
        address = LineAddress(factory, entry.tokens)
        address.use_tls(tls_of(entry.tls))
        return ListeningService(entry.listen, address, reactor, make_folder=True)

    def change(service: ListeningService, entry: QueueListen, _: Configuration) -> None:
        address = cast(LineAddress, service.factory)
        address.gate.change(entry.tokens)
        address.use_tls(tls_of(entry.tls))

    def later(configuration: Configuration) -> Sequence[QueueListen]:
        return entries(_queues_of(configuration))

    return Ports(entries(first), later, lambda entry: entry.listen, listen, change, key, remedies)


def run_frontend(
    queues: Queues, metrics: ListenAddress, verbose: bool, web_config: WebConfigSource | None = None
) -> None:  # fmt: skip
    """Run ``fakedev-frontend`` until a signal.

    :param metrics: the address of the metrics.
    :param web_config: its TLS and passwords, which can be used; None: plain text.
    :raises SystemExit: 1, after a line of explanation, when an address cannot be used.
    """
    run_application(lambda reactor: make_frontend(queues, metrics, reactor, verbose, web_config), Logging())


def make_frontend(
    queues: Queues, metrics: ListenAddress, reactor: Any, verbose: bool = False,
    web_config: WebConfigSource | None = None,
) -> Application:  # fmt: skip
    """The frontend: queues with their metrics, and nothing else."""
    raise_descriptor_limit()
    remedies = Remedies(_OPTION_OF)
    sources = [each for each in (web_config, *(entry.tls for entry in (*queues.clients, *queues.backends))) if each]
    web_configs: WebConfigs | None = None

    def secure() -> None:
        """Use the certificates and passwords that the files have now."""
        assert web_configs is not None
        web_configs.secure(site, web_config)
        for entry, (service, _) in zip((*queues.clients, *queues.backends), work.ports, strict=True):
            cast(LineAddress, service.factory).use_tls(tls_of(entry.tls))

    if sources:
        from fakedev.app.web_config import WebConfigs  # noqa: PLC0415 - few have one

        web_configs = WebConfigs(sources, reactor, secure)
    tls_of = web_configs.tls_of if web_configs else _plain
    work = WorkQueues(queues, FairShare(reactor), reactor, remedies, tls_of, verbose)
    page = QueueMetricsPage(work.figures, ScrapeStatistics().page(METRICS.template), allow_head=False)
    site = GuardedSite(make_tree({METRICS.template: page}), reactor, limits=DROP_IN_LIMITS)
    if web_configs is not None:
        secure()
    web = [(ListeningService(metrics, site, reactor), "metrics")]
    for service, _ in web:
        service.remedy = remedies.of("web.0.listen")
    listeners = Listeners([service for service, _ in web + work.ports])
    names = ", ".join(queue.name for queue in queues.broker.queues)
    addresses = AnnouncedAddresses(f"fakedev {__version__}: frontend of the queues {names}", (), web, queues=work.ports)
    services = [
        QueueLogs(work, listeners),
        listeners,
        work.log_service,
        web_configs,
        HangupService(reactor, partial(stop_reactor, reactor)),
        Announcement(lambda: addresses),
    ]
    return Application(listeners, reactor, services, drain=work.drain, hurry=work.hurry)
