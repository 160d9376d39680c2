"""``fakedev why``, also as ``fakedev explain``: the state of anything in a running service, back to its cause."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from typing import Final

from fakedev.base.console import write_text
from fakedev.base.environment import SOCKET, URL
from fakedev.client.http import FleetError
from fakedev.commands.control import send, utf8_word
from fakedev.commands.reach import JSON, CannotAsk, reach, service_options, write_json
from fakedev.runtime.running_services import running_services
from fakedev.schema.options import Operand, command

#: The exit code of words that cannot be used.
_WRONG_WORD: Final = 2
_DESCRIPTION = """\
Explains the state of something in a running service, back to its cause. OF is one of
  a device      dgx-0/3, 3, nvidia3, a UUID, a part or link; with METRIC only that value
  a workload, pod, node, queue or fault, by its name or id, also one that is over
  a page        /metrics, /nodes/dgx-0/metrics, or its URL
  a metric      DCGM_FI_DEV_GPU_TEMP: is it on the pages, of which identity
  a query       'DCGM_FI_DEV_GPU_TEMP{gpu="3"} > 90': its series, which label or value
                does not match, and which fault changes it"""


_OPTIONS: Final = (
    *service_options(takes_port=True),
    Operand("of", "OF", "what to explain", parse=utf8_word),
    Operand("metric", "METRIC", "explain only this metric of a device", "", utf8_word, count="?"),
    JSON,
)


def _answer(options: Namespace) -> None:
    """Print why something is as it is."""
    if options.socket or (os.environ.get(SOCKET) and not (options.url or options.service or os.environ.get(URL))):
        _over_port(options)
        return
    del options.socket  # HTTP alone explains everything
    service = reach(options, os.environ)
    try:
        found = service.fleet().why(options.of, options.metric)
    except FleetError as error:
        failed = service.failed(error)
        if failed.code == _WRONG_WORD and os.path.isfile(options.of):
            text = f"{failed}; of a file of rules fakedev faults --for {options.of} says which faults make each fire"
            raise CannotAsk(text, failed.code) from None
        raise failed from None
    if options.json:
        write_json(found)
    else:
        write_text(sys.stdout, "".join(f"{line}\n" for line in found["lines"]))


def _over_port(options: Namespace) -> None:
    """A workload port explains devices, parts and links.

    :raises CannotAsk: as :func:`~fakedev.commands.control.send`; also how other things are explained.
    """
    try:
        send("why", ["explain", *(word for word in (options.of, options.metric) if word)], options)
    except CannotAsk as error:
        if error.code != _WRONG_WORD:
            raise
        socket = options.socket or os.environ[SOCKET]
        urls = [address.address for service in running_services(os.environ)[0] for address in service.addresses
                if address.has_control and socket in [other.address for other in service.addresses]]  # fmt: skip
        use = f"--url {urls[0]}" if urls else "--url"
        raise CannotAsk(f"{error}; a workload port explains only devices, parts and links: {use} explains the rest",
                        error.code) from None  # fmt: skip


why = command("fakedev why", _DESCRIPTION, *_OPTIONS, is_formatted=True)(_answer)
explain = command("fakedev explain", _DESCRIPTION, *_OPTIONS, is_formatted=True)(_answer)
