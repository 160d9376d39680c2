"""fakedev-frontend: stands in for the frontend of the scalability tester, with its options."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Final

from fakedev.commands.go_flags import FlagSet, Values
from fakedev.config.files import Files
from fakedev.config.load import load
from fakedev.config.problems import ConfigurationError

_PROGRAM: Final = "fakedev-frontend"
#: How the configuration calls the text that the options stand for.
_OPTIONS: Final = "options"


class FrontendOptions:
    """The original's options, and the configuration that they stand for."""

    def __init__(self) -> None:
        flags = FlagSet(_PROGRAM, "keeps queues of work between clients and backends", "QUEUE...")
        self.flags = flags
        self.clients = flags.text("caddr", "localhost:9997", "where clients connect", "HOST:PORT")
        self.backends = flags.text("waddr", "localhost:9999", "where backends (workers) connect", "HOST:PORT")
        self.metrics = flags.text("maddr", "localhost:9998", "where metrics are served", "HOST:PORT")
        self.interval = flags.unsigned(
            "interval", 0, "seconds between statistics in the log, covered by the maxima, too; 0: none", "SECONDS"
        )
        self.most_waiting = flags.unsigned("qmax", 0, "most requests that wait in a queue; 0: no limit")
        self.verbose = flags.boolean("verbose", "log all messages")
        self.since_scrape = flags.boolean(
            "since-scrape",
            "maxima cover the time since the last scrape, as the original's do (not an option there)",
        )

    def configuration_text(self, values: Values) -> str:
        """The configuration (YAML, for it is JSON) that the options stand for."""
        interval = values[self.interval]
        maxima = "since-scrape" if values[self.since_scrape] else "interval" if interval else "window"
        tree = {
            "version": 1,
            "web": [{"listen": _listen(values[self.metrics]), "serve": "metrics"}],
            "workloads": {"listen": []},
            "queues": {
                "names": {name: {"max-waiting": values[self.most_waiting]} for name in values.operands},
                "listen-clients": [{"listen": _listen(values[self.clients]), "open": True}],
                "listen-backends": [{"listen": _listen(values[self.backends]), "open": True}],
                "maxima": maxima,
                "log-interval": f"{interval}s" if interval else "none",
            },
        }
        return json.dumps(tree, indent=1)


def _listen(address: str) -> str:
    """An address for the configuration: Go's ``:9999`` means all interfaces, and a dollar is a dollar."""
    return (f"*{address}" if address.startswith(":") else address).replace("$", "$$")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the frontend until SIGTERM, SIGINT or SIGHUP.

    :returns: 0 after such an end.
    """
    options = FrontendOptions()
    values = options.flags.parse_or_exit(sys.argv[1:] if arguments is None else arguments)
    if not values.operands:
        options.flags.refuse("give the names of the queues, at least one")
    repeated = next((name for name in values.operands if values.operands.count(name) > 1), None)
    if repeated is not None:
        options.flags.refuse(f"the queue {repeated!r} is there twice")
    text = options.configuration_text(values)
    try:
        configuration = load(_OPTIONS, Files(environ=os.environ), text=text)
    except ConfigurationError as error:
        for problem in error.problems:
            print(f"{_PROGRAM}: {problem.text}", file=sys.stderr)
        return 2
    from fakedev.tap_queues import run_frontend  # noqa: PLC0415 - a usage error need not wait for Twisted

    run_frontend(configuration, values[options.verbose])
    return 0
