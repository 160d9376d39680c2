"""Composition of the work queues: in the service, and alone as ``fakedev-frontend``."""

from __future__ import annotations

from functools import partial
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from fakedev import __version__
from fakedev.app.announcement import AnnouncedAddresses, Announcement
from fakedev.app.ports import Ports
from fakedev.app.runner import Application, run_application
from fakedev.config.configuration import Configuration, Queues
from fakedev.config.listen import ListenAddress
from fakedev.net.http.limits import DROP_IN_LIMITS
from fakedev.net.http.site import GuardedSite
from fakedev.net.http.statistics import ScrapeStatistics
from fakedev.net.lines.fair_share import FairShare
from fakedev.net.queues.backend_port import QueueBackendFactory
from fakedev.net.queues.client_port import QueueClientFactory
from fakedev.net.queues.figures import QueueFigures, QueueLog
from fakedev.net.queues.hub import GOING_DOWN, QueueHub
from fakedev.net.queues.port import QueuePortFactory
from fakedev.net.system.listening import Listeners, ListeningService
from fakedev.net.system.memory import raise_descriptor_limit
from fakedev.net.system.signals import HangupService, stop_reactor
from fakedev.net.web.tree import make_frontend_root
from fakedev.workqueue.broker import Broker


class WorkQueues:
    """The queues of a configuration with their ports.

    :param verbose: log every message.
    """

    log = Logger()

    def __init__(self, queues: Queues, fair_share: FairShare, reactor: Any, verbose: bool = False) -> None:
        hub = QueueHub(Broker(queues.broker, reactor.seconds()), reactor)
        clients = QueueClientFactory(
            hub, reactor, max_connections=queues.max_connections, message_seconds=queues.message_seconds,
            fair_share=fair_share, verbose=verbose,
        )  # fmt: skip
        backends = QueueBackendFactory(
            hub, reactor, max_connections=queues.max_connections, message_seconds=queues.message_seconds,
            fair_share=fair_share, verbose=verbose,
        )  # fmt: skip
        self.figures = QueueFigures(hub, clients, backends)
        self._clients, self._backends = (
            Ports(addresses, lambda address: address, partial(_listening, factory, reactor), lambda *_: None)
            for addresses, factory in ((queues.clients, clients), (queues.backends, backends))
        )
        self._factories = clients, backends
        self._hub = hub
        self._drain_seconds = queues.drain_seconds
        self._log_interval_seconds = queues.log_interval_seconds
        self._reactor = reactor

    @property
    def ports(self) -> list[tuple[ListeningService, str]]:
        """The services of their ports, each with who connects there."""
        clients = [(service, "clients") for service, _ in self._clients.services]
        return clients + [(service, "backends") for service, _ in self._backends.services]

    def begin(self, queues: Queues, listeners: Listeners) -> None:
        """Prepare to go over to other queues.

        :raises CannotListen: or :class:`~fakedev.workqueue.spec.Refused`; call :meth:`undo` then.
        """
        self._clients.begin(queues.clients, listeners)
        self._backends.begin(queues.backends, listeners)
        self._hub.broker.prepare(queues.broker)

    def undo(self) -> None:
        """Nothing comes of what was begun."""
        self._clients.undo()
        self._backends.undo()

    def reconfigure(self, queues: Queues) -> None:
        """Go over to other queues, which were begun."""
        self._hub.broker.reconfigure(queues.broker, self._hub.now())
        self._hub.turn_over()
        clients, backends = self._factories
        clients.read_limits()
        for factory in (clients, backends):
            factory.max_connections, factory.message_seconds = queues.max_connections, queues.message_seconds
        self._clients.finish(queues.clients)
        self._backends.finish(queues.backends)

    def add_to(self, application: Application) -> None:
        """Let the application start and stop what is not a port."""
        if self._log_interval_seconds:
            QueueLog(self.figures, self._log_interval_seconds, self._reactor).setServiceParent(application)

    def drain(self) -> Deferred[None]:
        """Take in no requests; fires when the running ones are over, have had their time, or a second signal comes."""
        running = sum(queue.now.running for queue in self.figures.all())
        if running and self._drain_seconds:
            self.log.info(
                "jobs that run: {running}; they have {seconds:g} s to finish, or until the next signal",
                running=running, seconds=self._drain_seconds,
            )  # fmt: skip
        return self._hub.drain(self._drain_seconds)

    def hurry(self, signal_name: str) -> None:
        """End the jobs that still run while the queues are drained."""
        if self._hub.is_draining:
            self.log.info("{name}: jobs that run are ended", name=signal_name)
            self._hub.give_up()

    def trouble(self) -> str | None:
        """Why no requests are taken in; None when they are."""
        return GOING_DOWN if self._hub.is_closed else None


def _listening(factory: QueuePortFactory, reactor: Any, address: ListenAddress) -> ListeningService:
    return ListeningService(address, factory, reactor, make_folder=True)


def run_frontend(configuration: Configuration, verbose: bool) -> None:
    """Be ``fakedev-frontend`` until a signal comes.

    :raises SystemExit: 1, after a line of explanation, when an address cannot be had.
    """
    run_application(lambda reactor: make_frontend(configuration, reactor, verbose), configuration.logging)


def make_frontend(configuration: Configuration, reactor: Any, verbose: bool = False) -> Application:
    """The queues of a configuration with their metrics, and nothing else of it."""
    assert configuration.queues is not None
    raise_descriptor_limit()
    queues = WorkQueues(configuration.queues, FairShare(reactor), reactor, verbose)
    site = GuardedSite(make_frontend_root(queues.figures, ScrapeStatistics()), reactor, limits=DROP_IN_LIMITS)
    web = [(ListeningService(endpoint.listen, site, reactor), "metrics") for endpoint in configuration.web]
    listeners = Listeners([service for service, _ in web + queues.ports])
    application = Application(listeners, reactor, drain=queues.drain, hurry=queues.hurry)
    listeners.setServiceParent(application)
    queues.add_to(application)
    HangupService(reactor, partial(stop_reactor, reactor)).setServiceParent(application)
    names = ", ".join(queue.name for queue in configuration.queues.broker.queues)
    summary = f"fakedev {__version__}: frontend of the queues {names}"
    what = AnnouncedAddresses(summary, configuration.notes, web, queues=queues.ports)
    Announcement(lambda: what).setServiceParent(application)
    return application
