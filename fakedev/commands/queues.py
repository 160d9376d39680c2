"""``fakedev queues``: the queues of a running service, or of a ``fakedev-frontend``, and what holds each one up."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from typing import Any

from fakedev.base.console import write_text
from fakedev.base.environment import URL
from fakedev.client.http import FleetError
from fakedev.commands.control import ask_port
from fakedev.commands.reach import JSON, CannotAsk, frontend, reach, service_options, write_json
from fakedev.commands.status import understood
from fakedev.queues.diagnosis import queue_diagnosis, queue_line
from fakedev.schema.options import Option, command
from fakedev.schema.peer_addresses import parse_address


@command(
    "fakedev queues",
    "Shows the queues of a service or a frontend, and what holds each one up.",
    *service_options(),
    Option(
        "frontend", "ADDRESS",
        "a client or backend port of a fakedev-frontend; default: this user's frontend, if no service runs",
    ),
    JSON,
)  # fmt: skip
def queues(options: Namespace) -> None:
    """Print each queue, and what holds it up."""
    address = options.frontend or ("" if options.url or os.environ.get(URL) else frontend(options.service, os.environ))
    if address and (options.frontend or options.service):
        found = _of_frontend(address)
    else:
        try:
            service = reach(options, os.environ)
            try:
                found = service.fleet().queues()
            except FleetError as error:
                raise service.failed(error) from None
        except CannotAsk:
            if not address:
                raise
            found = _of_frontend(address)
    lines = understood(lambda: [f"{queue_line(queue)}\n  {queue['diagnosis']}\n" for queue in found])
    if options.json:
        write_json(found)
    else:
        write_text(sys.stdout, "".join(lines) or "the service has no queues\n")


def _of_frontend(address: str) -> list[dict[str, Any]]:
    try:
        parsed = parse_address(address)
    except ValueError as error:
        raise CannotAsk(f"--frontend: {error}", 2) from None
    answer = ask_port(parsed, {"op": "stats"}, kind="port of queues")
    return understood(lambda: [{**stats, "diagnosis": queue_diagnosis(stats)} for stats in answer["queues"]])
