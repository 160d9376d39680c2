"""The work queues as a part of a program: of the service, and of ``fakedev-frontend``."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import Logger
from zope.interface import implementer

from fakedev import __version__
from fakedev.base.errors import CannotWrite
from fakedev.lines.server import LineAddress
from fakedev.queues.backend_port import QueueBackendFactory
from fakedev.queues.broker import Broker
from fakedev.queues.client_port import QueueClientFactory
from fakedev.queues.figures import QueueFigures, QueueHistory, QueueLog, QueueMetricsPage
from fakedev.queues.port import GOING_DOWN, QueueHub, QueuePortFactory
from fakedev.queues.settings import Queues
from fakedev.runtime.announcement import Announcement
from fakedev.runtime.application import Application, run_application
from fakedev.runtime.clock import no_op
from fakedev.runtime.listening import Announced, Listeners, raise_descriptor_limit
from fakedev.runtime.part import IReloadable, LinePorts, Part, Remedies, TlsOf, plain
from fakedev.runtime.reactor import IReactor
from fakedev.runtime.running_services import Registration
from fakedev.runtime.settings import Logging
from fakedev.runtime.signals import HangupService, stop_reactor
from fakedev.runtime.threads import wait_in_thread
from fakedev.runtime.turns import FairShare
from fakedev.schema.addresses import ListenAddress
from fakedev.web.drop_in import MetricsSite
from fakedev.web.paths import METRICS
from fakedev.web.response import ScrapeStatistics
from fakedev.web.settings import LineListen

if TYPE_CHECKING:
    from fakedev.web.metrics import Group
    from fakedev.web.settings import WebConfigSource
    from fakedev.web.web_configs import WebConfigs

#: The options of ``fakedev-frontend`` that give addresses.
_OPTION_BY_KEY: Final = {
    "web.0.listen": "-maddr",
    "queues.listen-clients.0.listen": "-caddr",
    "queues.listen-backends.0.listen": "-waddr",
}


@implementer(IReloadable)
class QueuesPart(Part):
    """The queues of a configuration with their ports, their logs, and their figures.

    :param remedies: for addresses that cannot be listened on.
    :param tls_of: the TLS of an address.
    :param verbose: log every message.
    :param is_charted: note the last hour, for charts.
    :ivar figures: the state and the totals of the queues.
    :ivar history: their last hour, for charts.
    """

    log = Logger()

    def __init__(
        self, queues: Queues, listeners: Listeners, fair_share: FairShare, reactor: IReactor, remedies: Remedies,
        tls_of: TlsOf = plain, *, verbose: bool = False, is_charted: bool = True,
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
        log_seconds = queues.log_interval_seconds
        super().__init__("queues", [
            self.history if is_charted else None,
            QueueLog(self.figures, log_seconds, reactor) if log_seconds else None,
        ])  # fmt: skip
        self._drain_seconds = queues.drain_seconds
        self._listeners = listeners
        self._reactor = reactor
        self.closed = {"clients": self._client_factory.closed, "backends": self._backend_factory.closed}
        self.ports = [
            LinePorts(
                queues, attrgetter(who), partial(_address, factory), no_op, f"queues.listen-{who}", remedies,
                reactor, tls_of=tls_of, announced=Announced(f"queue-{who}", f"{who} of the queues"),
            )
            for who, factory in (("clients", self._client_factory), ("backends", self._backend_factory))
        ]  # fmt: skip

    def startService(self) -> None:
        """Restore the requests of the durable queues: all addresses are ours now.

        :raises CannotStart: if a log cannot be used.
        """
        reactor, in_thread = self._reactor, partial(wait_in_thread, self._reactor)
        try:
            self._hub.logs.open(self._hub.broker, reactor, time.time(), in_thread, self._hub.turn_ended)
        except CannotWrite as reason:
            self._listeners.give_up(f"the log of a queue cannot be used: {reason}")
        super().startService()

    def stopService(self) -> Deferred[None]:
        """Free the folders of the durable queues, for another service of this process; fires when writes are over."""
        stopped = maybeDeferred(super().stopService).addCallback(lambda _: self._hub.logs.when_idle())
        return stopped.addCallback(lambda _: self._hub.logs.close())

    def metrics(self) -> Mapping[str, Group]:
        # The frontend has none of these metrics.
        from fakedev.queues.metrics import queue_log_metrics, queue_totals  # noqa: PLC0415

        return {"queues": partial(queue_totals, self.figures), "queue logs": partial(queue_log_metrics, self.figures)}

    def begin(self, section: Queues, listeners: Listeners) -> None:
        super().begin(section, listeners)
        self._hub.broker.prepare(section.broker)

    def undo(self) -> None:
        super().undo()
        self._hub.broker.undo_prepare()

    def finish(self, section: Queues) -> None:
        self._hub.broker.reconfigure(section.broker, self._hub.now())
        self._hub.turn_ended()
        for factory in (self._client_factory, self._backend_factory):
            factory.max_connections = section.max_connections
            factory.message.seconds = section.message_seconds
        super().finish(section)

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

    def unready_reason(self) -> str | None:
        return GOING_DOWN if self._hub.is_closed else self._hub.logs.problem or None


def _address(factory: QueuePortFactory, entry: LineListen) -> LineAddress:
    return LineAddress(factory, entry.tokens)


def run_frontend(
    queues: Queues, metrics: ListenAddress, verbose: bool, web_config: WebConfigSource | None = None
) -> None:  # fmt: skip
    """Run ``fakedev-frontend`` until a signal.

    :param metrics: the address of the metrics.
    :param web_config: its TLS and passwords, which can be used; None: plain text.
    :raises SystemExit: 1, after a line of explanation, when an address cannot be used.
    """
    registration = Registration(None, os.environ, "frontend")
    run_application(
        lambda reactor: make_frontend(queues, metrics, reactor, verbose, web_config, registration), Logging()
    )


def make_frontend(
    queues: Queues, metrics: ListenAddress, reactor: IReactor, verbose: bool = False,
    web_config: WebConfigSource | None = None, registration: Registration | None = None,
) -> Application:  # fmt: skip
    """The frontend: queues with their metrics, and nothing else."""
    raise_descriptor_limit()
    listeners, remedies = Listeners(), Remedies(_OPTION_BY_KEY)
    sources = [each for each in (web_config, *(entry.tls for entry in (*queues.clients, *queues.backends))) if each]
    web_configs: WebConfigs | None = None
    if sources:
        from fakedev.web.web_configs import WebConfigs  # noqa: PLC0415 - few have one

        web_configs = WebConfigs(sources, reactor)
    work = QueuesPart(
        queues, listeners, FairShare(reactor), reactor, remedies, web_configs.tls_of if web_configs else plain,
        verbose=verbose, is_charted=False,
    )  # fmt: skip
    page = QueueMetricsPage(work.figures, ScrapeStatistics().page(METRICS.template), allow_head=False)
    site = MetricsSite(page, [metrics], reactor, remedies, web_configs, web_config)
    names = ", ".join(queue.name for queue in queues.broker.queues)
    application = Application(reactor, listeners)
    return application.run_parts([
        site,
        work,
        listeners,
        web_configs,
        HangupService(reactor, partial(stop_reactor, reactor)),
        Announcement(
            lambda: [f"fakedev {__version__}: frontend of the queues {names}"], application.listening,
            registration=registration,
        ),
    ])  # fmt: skip
