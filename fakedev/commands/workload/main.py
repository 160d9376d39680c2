"""fakedev-workload: asks a server to simulate a workload, waits for its end, and exits with its code.

Thousands of pods may each run one, so neither this module nor its imports use Twisted or NumPy.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence

from fakedev.base.console import log
from fakedev.base.errors import plain_reason
from fakedev.commands.workload.exchange import (
    AnswerReader,
    Stopped,
    StopSignals,
    Verdict,
    beyond_the_original,
    connect,
    receive,
    send_all,
    unknown_to_the_original,
)
from fakedev.commands.workload.options import Order, WorkloadOptions
from fakedev.fleet.spec.profiles import format_profile
from fakedev.fleet.spec.workload_spec import WorkloadSpec
from fakedev.lines.auth import encode_auth
from fakedev.schema.peer_addresses import WORKLOAD_SOCKET, Address, runtime_folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code: the server's; 0 when stopped; 1 and 2 as everywhere."""
    with StopSignals() as stop:
        options = WorkloadOptions(os.environ)
        with options.flags.usage_errors_exit():
            order = options.order(options.flags.parse(arguments))
        try:
            return run(order, stop)
        except Stopped as stopped:
            log(f"Stopped by {stopped}, and the workload with it")
            return 0


def run(order: Order, stop: StopSignals) -> int:
    """Send the workload to its server, and return the exit code at its end.

    :raises Stopped: at a signal; the connection is closed then.
    """
    workload = order.workload
    for remark in order.remarks:
        log(remark)
    log(f"Workload {workload.name!r} on {', '.join(workload.devices)}: "
        f"{format_profile(workload.activities)}, repeat {workload.repeat}")  # fmt: skip
    for reason in beyond_the_original(workload, order.message):
        log(f"Only fakedev takes this workload: {reason}")
    log(f"Connecting to {order.address}")
    try:
        token = order.read_token()
    except ValueError as error:
        log(f"ERROR: -token-file: {error}")
        return 1
    try:
        connection = connect(order.address, stop)
    except OSError as error:
        reason = _reason(order.address, error)
        log(f"ERROR: cannot connect to {order.address}: {reason}{_running_service(order.address)}")
        return 1
    with connection:
        verdict = converse(connection, order.message, stop, log, token)
    log(conclusion(verdict, workload, order.message))
    return verdict.code


def _reason(address: Address, error: OSError) -> str:
    if address.tls is None:
        return plain_reason(error)
    from fakedev.runtime.client_tls import connection_reason  # noqa: PLC0415 - without TLS the program must start fast

    return connection_reason(error)


def _running_service(tried: Address) -> str:
    """Where a service of this user listens, when that is another address; else an empty text."""
    path = os.path.join(runtime_folder(os.environ.get), WORKLOAD_SOCKET)
    is_other = path != tried.path and os.path.exists(path)
    return f"; a service of this user listens on {path}: give it with -socket" if is_other else ""


def converse(
    connection: socket.socket, message: bytes, stop: StopSignals, say: Callable[[str], None], token: str = ""
) -> Verdict:
    """Send the token and the request, and read until the verdict; a lost connection is a verdict as well."""
    reader = AnswerReader(awaits_admission=bool(token))
    problem = ""
    try:
        send_all(connection, (encode_auth(token) if token else b"") + message, stop)
        say("Sent, waiting for the end")
    except OSError as error:
        problem = plain_reason(error)  # the server may have sent the reason before it closed
    while True:
        try:
            data = receive(connection, stop)
        except OSError as error:
            problem = problem or plain_reason(error)
            data = b""
        for news in reader.feed(data):
            if isinstance(news, Verdict):
                return news
            say(f"Accepted as {news}" if news else "Accepted")
        if not data:
            verdict = reader.finish()
            return Verdict(verdict.code, f"{verdict.text} ({problem})") if problem else verdict


def conclusion(verdict: Verdict, workload: WorkloadSpec, message: bytes) -> str:
    """The last log line: the code, and what is known about its reason."""
    if not verdict.bare:
        return f"Exiting with code {verdict.code}: {verdict.text or 'the server gives no reason'}"
    line = f"Exiting with code {verdict.code}, all that an original server says"
    if verdict.code:
        reasons = "; ".join(beyond_the_original(workload, message))
        return f"{line}: {reasons or 'its log has the reason'}"
    ignored = ", ".join(unknown_to_the_original(workload))
    return f"{line}; it ignores {ignored}" if ignored else line


if __name__ == "__main__":
    raise SystemExit(main())
