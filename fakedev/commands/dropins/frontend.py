"""fakedev-frontend: a replacement of the scalability tester's frontend, with its options."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Final

from fakedev.commands.go_flags import FlagError, FlagSet, Values, all_interfaces, parse_unsigned
from fakedev.config.load import load
from fakedev.config.schema.files import Files
from fakedev.config.schema.nodes import ConfigurationError, Problem

_PROGRAM: Final = "fakedev-frontend"
#: The name of the configuration's text in messages.
_OPTIONS: Final = "options"
#: Lines of that text, and their options.
_FLAG_OF_LINE: Final = {2: "-maddr", 5: "-caddr", 6: "-waddr"}
#: The limits of the configuration.
_LONGEST_INTERVAL_SECONDS: Final = 10**10
_MAX_WAITING: Final = 10**8


class FrontendOptions:
    """The original's options, and the configuration that they mean."""

    def __init__(self) -> None:
        flags = FlagSet(_PROGRAM, "runs queues of requests between clients and backends", "QUEUE...")
        self.flags = flags
        self.clients = flags.text("caddr", "localhost:9997", "where clients connect", "HOST:PORT")
        self.backends = flags.text("waddr", "localhost:9999", "where backends (workers) connect", "HOST:PORT")
        self.metrics = flags.text("maddr", "localhost:9998", "address of the metrics", "HOST:PORT")
        self.interval = flags.value(
            "interval", 0, "seconds between statistics in the log, and the time of the maxima; 0: none", "SECONDS",
            _up_to(_LONGEST_INTERVAL_SECONDS),
        )  # fmt: skip
        self.max_waiting = flags.value(
            "qmax", 0, "most waiting requests of a queue; 0: no limit", "N", _up_to(_MAX_WAITING)
        )
        self.verbose = flags.boolean("verbose", "log all messages")
        self.since_scrape = flags.boolean(
            "since-scrape",
            "maxima are those since the last scrape, as the original's are (not an option there)",
        )

    def configuration_text(self, values: Values) -> str:
        """The configuration that the options mean, as JSON, which is YAML.

        :raises FlagError: when there is no queue, or one is named twice.
        """
        if not values.operands:
            raise FlagError("give the names of the queues, at least one")
        repeated = next((name for name in values.operands if values.operands.count(name) > 1), None)
        if repeated is not None:
            raise FlagError(f"the queue {repeated!r} is there twice")
        interval = values[self.interval]
        maxima = "since-scrape" if values[self.since_scrape] else "interval" if interval else "window"
        names = {name: {"max-waiting": values[self.max_waiting]} for name in values.operands}
        clients, backends = ({"listen": _listen(values[flag]), "open": True} for flag in (self.clients, self.backends))
        web = {"listen": _listen(values[self.metrics]), "serve": "metrics"}
        return f"""{{"version": 1, "workloads": {{"listen": []}},
            "web": [{json.dumps(web)}],
            "queues": {{
              "names": {json.dumps(names)},
              "listen-clients": [{json.dumps(clients)}],
              "listen-backends": [{json.dumps(backends)}],
              "maxima": "{maxima}", "log-interval": "{f'{interval}s' if interval else 'none'}"}}}}
            """


def _listen(address: str) -> str:
    """An address for the configuration, in which a dollar is not expanded."""
    return all_interfaces(address).replace("$", "$$")


def _up_to(most: int) -> Callable[[str], int]:
    """A parser of whole numbers from 0 to ``most``."""

    def parse(text: str) -> int:
        value = parse_unsigned(text)
        if value > most:
            raise ValueError(f"{text} is more than {most}")
        return value

    return parse


def _of_options(problem: Problem) -> str:
    """A problem of the configuration, with the names of options instead of places."""
    flag = _FLAG_OF_LINE.get(problem.line)
    text = (f"{flag}: " if flag else "") + re.sub(r"^[a-z.-]+: ", "", problem.text)
    return re.sub(rf"{_OPTIONS}:(\d+)", lambda place: _FLAG_OF_LINE.get(int(place[1]), place[0]), text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the frontend until SIGTERM, SIGINT or SIGHUP.

    :returns: 0 after a signal.
    """
    options = FrontendOptions()
    with options.flags.usage_errors_exit():
        values = options.flags.parse(arguments)
        text = options.configuration_text(values)
    try:
        configuration = load(_OPTIONS, Files(environ=os.environ), text=text)
    except ConfigurationError as error:
        for problem in error.problems:
            print(f"{_PROGRAM}: {_of_options(problem)}", file=sys.stderr)
        return 2
    from fakedev.app.queues import run_frontend  # noqa: PLC0415 - a usage error does not need Twisted

    run_frontend(configuration, values[options.verbose])
    return 0
