"""Composition of the work queues: in the service, and alone as ``fakedev-frontend``."""

from __future__ import annotations

from functools import partial
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from fakedev import __version__
from fakedev.config.configuration import Configuration, Queues
from fakedev.net.announcement import Announcement
from fakedev.net.descriptors import raise_descriptor_limit
from fakedev.net.ending_signals import stop_reactor
from fakedev.net.hangup import HangupService
from fakedev.net.http_head import DROP_IN_LIMITS
from fakedev.net.http_site import GuardedSite
from fakedev.net.listening import Listeners, ListeningService
from fakedev.net.page_statistics import ScrapeStatistics
from fakedev.net.queue_backend_port import QueueBackendFactory
from fakedev.net.queue_client_port import QueueClientFactory
from fakedev.net.queue_figures import QueueFigures
from fakedev.net.queue_hub import GOING_DOWN, QueueHub
from fakedev.net.queue_log import QueueLog
from fakedev.net.tree import make_frontend_root
from fakedev.net.turns import Turns
from fakedev.tap_application import Application, run_application
from fakedev.workqueue.broker import Broker


class WorkQueues:
    """The queues of a configuration with their ports.

    :param verbose: log every message.
    :ivar ports: the services of their ports, each with who connects there.
    """

    log = Logger()

    def __init__(self, queues: Queues, turns: Turns, reactor: Any, verbose: bool = False) -> None:
        hub = QueueHub(Broker(queues.broker, reactor.seconds()), reactor)
        clients = QueueClientFactory(
            hub, reactor, max_connections=queues.max_connections, message_seconds=queues.message_seconds,
            turns=turns, verbose=verbose,
        )  # fmt: skip
        backends = QueueBackendFactory(
            hub, reactor, max_connections=queues.max_connections, message_seconds=queues.message_seconds,
            turns=turns, verbose=verbose,
        )  # fmt: skip
        self.figures = QueueFigures(hub, clients, backends)
        self.ports = [
            *((ListeningService(address, clients, reactor, make_folder=True), "clients") for address in queues.clients),
            *(
                (ListeningService(address, backends, reactor, make_folder=True), "backends")
                for address in queues.backends
            ),
        ]
        self._hub = hub
        self._drain_seconds = queues.drain_seconds
        self._log_interval_seconds = queues.log_interval_seconds
        self._reactor = reactor

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


def run_frontend(configuration: Configuration, verbose: bool) -> None:
    """Be ``fakedev-frontend`` until a signal comes.

    :raises SystemExit: 1, after a line of explanation, when an address cannot be had.
    """
    run_application(lambda reactor: make_frontend(configuration, reactor, verbose), configuration.logging)


def make_frontend(configuration: Configuration, reactor: Any, verbose: bool = False) -> Application:
    """The queues of a configuration with their metrics, and nothing else of it."""
    assert configuration.queues is not None
    raise_descriptor_limit()
    queues = WorkQueues(configuration.queues, Turns(reactor), reactor, verbose)
    site = GuardedSite(make_frontend_root(queues.figures, ScrapeStatistics()), reactor, limits=DROP_IN_LIMITS)
    web = [(ListeningService(endpoint.listen, site, reactor), "metrics") for endpoint in configuration.web]
    listeners = Listeners([service for service, _ in web + queues.ports])
    application = Application(listeners, reactor, drain=queues.drain, hurry=queues.hurry)
    listeners.setServiceParent(application)
    queues.add_to(application)
    HangupService(reactor, partial(stop_reactor, reactor)).setServiceParent(application)
    names = ", ".join(queue.name for queue in configuration.queues.broker.queues)
    summary = f"fakedev {__version__}: frontend of the queues {names}"
    Announcement(summary, configuration.notes, web, queues=queues.ports).setServiceParent(application)
    return application
