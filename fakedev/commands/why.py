"""``fakedev why``, also as ``fakedev explain``: why anything of a running service is as it is, back to the cause."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from typing import Final

from fakedev.base.console import write_text
from fakedev.base.environment import SOCKET
from fakedev.base.errors import printable
from fakedev.client.fleet_client import Fleet
from fakedev.client.http import FleetError
from fakedev.commands.control import send, utf8_word
from fakedev.commands.reach import CannotAsk, reach, service_options
from fakedev.schema.options import Operand, Option, command

_PATIENCE_SECONDS = 30.0
_DESCRIPTION = """\
Says why something of a running service is as it is, back to the cause. OF is one of
  a device      dgx-0/3, 3, nvidia3, a UUID, a part or link; with METRIC only that value
  a workload, pod, node, queue or fault, by its name or id, also one that is over
  a page        /metrics, /nodes/dgx-0/metrics, or its URL
  a metric      DCGM_FI_DEV_GPU_TEMP: is it on the pages, of which identity
  a query       'DCGM_FI_DEV_GPU_TEMP{gpu="3"} > 90': its series, which label or value
                does not match, and which fault changes it"""


_OPTIONS: Final = (
    *service_options(takes_port=True),
    Operand("of", "OF", "what is explained", parse=utf8_word),
    Operand("metric", "METRIC", "of a device: only this metric", "", utf8_word, count="?"),
    Option("json", "", "print JSON"),
)


def _answer(options: Namespace) -> None:
    """Print why something is as it is."""
    if options.socket or (os.environ.get(SOCKET) and not (options.url or options.service)):
        words = [each for each in (options.of, options.metric) if each]
        send("why", ["explain", *words], options)
        return
    del options.socket  # HTTP alone explains everything
    service = reach(options, os.environ)
    try:
        found = Fleet(service.url, service.token, _PATIENCE_SECONDS, **service.access).why(options.of, options.metric)
    except FleetError as error:
        is_wrong = getattr(error, "code", "") in ("unknown-name", "bad-argument")
        raise CannotAsk(str(error), 2 if is_wrong else 1) from None
    lines = "".join(f"{printable(line)}\n" for line in found["lines"])
    write_text(sys.stdout, json.dumps(found, indent=1) + "\n" if options.json else lines)


why = command("fakedev why", _DESCRIPTION, *_OPTIONS, is_formatted=True)(_answer)
explain = command("fakedev explain", _DESCRIPTION, *_OPTIONS, is_formatted=True)(_answer)
