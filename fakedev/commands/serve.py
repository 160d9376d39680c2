"""``fakedev serve``: the service as a program of its own, ended by SIGTERM or SIGINT with 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.application.service import IService
from twisted.internet.defer import Deferred

from fakedev.net.logs import begin_logging
from fakedev.tap import Options, makeService


def serve(arguments: Sequence[str]) -> int:
    """Serve until a signal comes.

    :returns: 0 after a clean end.
    """
    options = Options()
    options.synopsis = "Usage: fakedev serve [options]"
    options.parseOptions(list(arguments))
    from twisted.internet import reactor  # noqa: PLC0415 - importing it installs it

    logging = options.configuration.logging
    begin_logging(reactor, logging.level, logging.format)
    run_service(makeService(options, reactor), reactor)
    return 0


def run_service(service: IService, reactor: Any) -> None:
    """Run a service until the reactor is stopped, and stop it well.

    :raises SystemExit: 1, after a line in the log, when it cannot listen.
    """
    service.privilegedStartService()
    service.startService()

    def stop() -> Deferred[Any] | None:
        stopped: Deferred[Any] | None = service.stopService()
        return stopped

    reactor.addSystemEventTrigger("before", "shutdown", stop)
    reactor.run()
