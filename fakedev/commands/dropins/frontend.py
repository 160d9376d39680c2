"""fakedev-frontend: a replacement of the scalability tester's frontend, with its options."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from fakedev.commands.dropins.addresses import BACKENDS_ADDRESS, CLIENTS_ADDRESS, METRICS_ADDRESS
from fakedev.schema.go_flags import Flag, FlagError, FlagSet, Values, all_interfaces, parse_unsigned

if TYPE_CHECKING:
    from fakedev.queues.settings import Maxima, Queues
    from fakedev.schema.addresses import ListenAddress
    from fakedev.web.settings import WebConfigSource

_PROGRAM: Final = "fakedev-frontend"
#: The limits of the configuration.
_LONGEST_INTERVAL_SECONDS: Final = 10**10
_MAX_WAITING: Final = 10**8


class FrontendOptions:
    """The original's options, and the queues and addresses that they mean."""

    def __init__(self) -> None:
        flags = FlagSet(_PROGRAM, "runs queues of requests between clients and backends", "QUEUE...")
        self.flags = flags
        self.clients = flags.text("caddr", CLIENTS_ADDRESS, "where clients connect", "HOST:PORT")
        self.backends = flags.text("waddr", BACKENDS_ADDRESS, "where backends (workers) connect", "HOST:PORT")
        self.metrics = flags.text("maddr", METRICS_ADDRESS, "address of the metrics", "HOST:PORT")
        self.interval = flags.value(
            "interval", 0, "seconds between statistics in the log, and the time of the maxima; 0: none", "SECONDS",
            _up_to(_LONGEST_INTERVAL_SECONDS),
        )  # fmt: skip
        self.max_waiting = flags.value(
            "qmax", 0, "most waiting requests of a queue; 0: no limit", "N", _up_to(_MAX_WAITING)
        )
        self.verbose = flags.boolean("verbose", "log all messages")
        self.web_config = flags.web_config_file("-maddr")
        self.tls_config = flags.text(
            "tls-config-file", "", "such a file, of which -caddr and -waddr have TLS (not in the original)", "FILE"
        )
        self.since_scrape = flags.boolean(
            "since-scrape",
            "maxima are those since the last scrape, as the original's are (not an option there)",
        )

    def settings(self, values: Values) -> tuple[Queues, ListenAddress]:
        """The queues with their ports, and the address of the metrics.

        :raises FlagError: when something cannot be used.
        """
        if not values.operands:
            raise FlagError("give the names of the queues, at least one")
        # Usage errors that can be found without them, and -help, need none of these.
        from fakedev.base.names import MAX_QUEUES, queue_name  # noqa: PLC0415
        from fakedev.queues.settings import (  # noqa: PLC0415
            BrokerSpec,
            Queues,
            QueueSpec,
        )
        from fakedev.schema.addresses import parse_listen, same_address  # noqa: PLC0415
        from fakedev.web.settings import LineListen  # noqa: PLC0415

        names = values.operands
        if len(names) > MAX_QUEUES:
            raise FlagError(f"{len(names)} queues, and {MAX_QUEUES} are the most")
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise FlagError(f"the queue {repeated!r} is there twice")
        taken: dict[str, ListenAddress] = {}
        for flag in (self.metrics, self.clients, self.backends):
            try:
                listen = parse_listen(all_interfaces(values[flag]))
            except ValueError as error:
                raise FlagError(f"-{flag.name}: {error}") from None
            first = next((name for name, other in taken.items() if same_address(listen, other)), None)
            if first is not None:
                raise FlagError(f"-{flag.name}: {listen.display} is listened on twice (first at -{first})")
            taken[flag.name] = listen
        interval = float(values[self.interval])
        try:
            specs = tuple(QueueSpec(queue_name(name), values[self.max_waiting]) for name in names)
        except ValueError as error:
            raise FlagError(str(error)) from None
        maxima: Maxima = "since-scrape" if values[self.since_scrape] else "interval" if interval else "window"
        broker = BrokerSpec(specs, maxima=maxima, interval_seconds=interval)
        metrics, clients, backends = taken.values()
        tls = self.source(values, self.tls_config)
        ports = (LineListen(clients, open=True, tls=tls),), (LineListen(backends, open=True, tls=tls),)
        return Queues(broker, *ports, log_interval_seconds=interval), metrics


    def source(self, values: Values, flag: Flag[str]) -> WebConfigSource | None:
        """The file that an option names, which can be used; None without.

        :raises FlagError: when it cannot be used.
        """
        if not values[flag]:
            return None
        from fakedev.schema.places import ConfigurationError  # noqa: PLC0415
        from fakedev.web.settings import WebConfigSource  # noqa: PLC0415
        from fakedev.web.web_configs import read_web_configs  # noqa: PLC0415 - few have one

        source = WebConfigSource(os.path.abspath(values[flag]))
        try:
            config = read_web_configs([source])[source]
        except ConfigurationError as error:
            raise FlagError(f"-{flag.name}: {error}") from None
        if flag is self.tls_config and config.tls is None:
            raise FlagError(f"-{flag.name}: {source.file} has no tls_server_config")
        return source


def _up_to(most: int) -> Callable[[str], int]:
    """A parser of whole numbers from 0 to ``most``."""

    def parse(text: str) -> int:
        value = parse_unsigned(text)
        if value > most:
            raise ValueError(f"{text} is more than {most}")
        return value

    return parse


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the frontend until SIGTERM, SIGINT or SIGHUP.

    :returns: 0 after a signal.
    """
    options = FrontendOptions()
    with options.flags.usage_errors_exit():
        values = options.flags.parse(arguments)
        queues, metrics = options.settings(values)
        web_config = options.source(values, options.web_config)
    from fakedev.queues.part import run_frontend  # noqa: PLC0415 - a usage error does not need Twisted

    run_frontend(queues, metrics, values[options.verbose], web_config)
    return 0
