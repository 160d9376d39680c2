"""The messages between fakedev-workload and a server: one request, its answers, and a socket that stops by signals.

The request is the same for our server and the original's. For ours it is a JSON line with ``op``. The original's Go
server reads names in any letter case and skips unknown ones, so for it the same bytes are its bare form, when they
fit into its one read of 1024 bytes and activities are whole numbers. Because of that read the newline must be sent
with the rest: to the original a later byte means that the connection is lost.

Our server answers in JSON lines, the original's with one digit only. A server without room may answer in words
(``error busy ...``) before it has read anything.

On the socket each wait ends at once when the program gets a signal to stop. The signals only wake a poll. A handler
that raises could run between a check and a blocking call, which would then block until the server sends something:
with a hanging server for ever.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from fakedev.fleet.spec.profiles import ONCE, format_intensities, use_profile, use_word
from fakedev.fleet.spec.value_functions import Function, Value
from fakedev.fleet.spec.workload_spec import FOREVER, Activity, WorkloadSpec
from fakedev.lines.auth import is_plain_ok
from fakedev.schema.peer_addresses import Address

#: The longest line of the line protocols, in bytes.
LONGEST_MESSAGE: Final = 65536
#: The bytes that the original's server reads of a message.
ORIGINAL_READS: Final = 1024
#: Characters of a server's answer that our messages quote.
_SHOWN: Final = 200


def run_message(workload: WorkloadSpec) -> bytes:
    """The request to run a workload, as one line.

    :raises ValueError: when no server would accept it.
    """
    request: dict[str, object] = {
        "op": "run",
        "id": 1,
        "name": workload.name,
        "repeat": workload.repeat,
        "profile": [_activity(activity) for activity in workload.activities],
        "devices": list(workload.devices),
        "seconds-of": "work" if workload.is_work else "",
        "kind": "" if workload.kind == "compute" else workload.kind,
        "intensity": format_intensities(workload.intensities),
        "service": workload.service,
        "node": workload.node,
        "pod": workload.pod,
        "namespace": workload.namespace,
        "container": workload.container,
        "labels": dict(workload.labels),
        "limits": {metric: _plain(value) for metric, value in workload.limits},
        "run-time-limit": _plain(workload.run_time_limit_seconds),
        "ttl": _plain(workload.ttl_seconds),
        "metrics": {use_word(use): use_profile(use) for use in workload.uses},
        "measured-frequency": _plain(workload.measured_frequency_mhz),
        "measured-capability": _plain(workload.measured_capability),
        "faults": [dict(fault) for fault in workload.faults],
    }
    kept = {key: value for key, value in request.items() if key == "repeat" or value}
    try:
        message = json.dumps(kept, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError as error:
        raise ValueError(f"{error.object!r} is not UTF-8") from None
    if len(message) > LONGEST_MESSAGE:
        raise ValueError(f"the workload takes {len(message)} bytes on the wire: at most {LONGEST_MESSAGE} are possible")
    return message


def beyond_the_original(workload: WorkloadSpec, message: bytes) -> list[str]:
    """Why the original's server would refuse a workload, each as the end of a sentence."""
    reasons = []
    if len(message) > ORIGINAL_READS:
        reasons.append(f"its message takes {len(message)} bytes, and the original reads {ORIGINAL_READS}")
    values = [value for a in workload.activities for value in (a.value, a.fluctuation, a.seconds)]
    if any(isinstance(value, Function) for value in values):
        reasons.append("its loads change within an activity, and the original takes numbers")
    if any(not isinstance(value, Function) and not value.is_integer() for value in values):
        reasons.append("its activities have fractions, and the original takes whole numbers")
    return reasons


def unknown_to_the_original(workload: WorkloadSpec) -> list[str]:
    """What the original's server would accept and ignore."""
    asked = {
        "limits": workload.limits,
        "run-time limit": workload.run_time_limit_seconds,
        "ttl": workload.ttl_seconds,
        "metrics": workload.uses,
        "faults": workload.faults,
        "scaling": workload.measured_frequency_mhz or workload.measured_capability,
        "seconds of work": workload.is_work,
        "drawn lengths": workload.activities.spreads,
        "activities that run once": workload.activities.once_count,
        "kind of work": workload.kind != "compute",
        "intensity": workload.intensities,
        "service": workload.service,
        "node": workload.node,
        "pod": workload.pod or workload.namespace or workload.container,
        "labels": workload.labels,
    }
    return [name for name, value in asked.items() if value]


def _activity(activity: Activity) -> dict[str, object]:
    """An activity without its zeros, which both servers add: the original reads few bytes."""
    seconds = 0.0 if activity.seconds >= FOREVER else activity.seconds
    numbers = {"load": activity.value, "fluctuation": activity.fluctuation, "seconds": seconds}
    shown: dict[str, object] = {name: _shown(number) for name, number in numbers.items() if number}
    if activity.spread != 1.0:
        shown["spread"] = _plain(activity.spread)
    return shown | {ONCE: True} if activity.is_once else shown


def _shown(value: Value) -> object:
    if isinstance(value, Function):
        return {value.name: [_plain(argument) for argument in value.arguments]}
    return _plain(value)


def _plain(number: float) -> float:
    """A number that JSON writes without a fraction when it has none, as Go needs it for integers."""
    return int(number) if number.is_integer() else number


@dataclass(frozen=True)
class Verdict:
    """The end of the workload: the exit code and the reason.

    :param bare: whether it was the single digit of an original server.
    """

    code: int
    text: str
    bare: bool = False


class AnswerReader:
    """Reads the answers of one connection, in any pieces: the name of the accepted workload on the server (empty where
    it gives none), and the verdict, after which there are none.

    :param awaits_admission: the first good answer is that to the token.
    """

    def __init__(self, awaits_admission: bool = False) -> None:
        self._awaits_admission = awaits_admission
        self._buffer = b""
        self._accepted: str | None = None
        self._has_line = False
        self._ended = False

    def feed(self, data: bytes) -> list[str | Verdict]:
        """The new answers that these bytes complete."""
        news: list[str | Verdict] = []
        self._buffer += data
        while not self._ended and (said := self._next()) is not None:
            news.append(said)
            self._ended = isinstance(said, Verdict)
        return news

    def finish(self) -> Verdict:
        """The verdict when the server has closed the connection without one."""
        line = self._buffer.strip()
        # A JSON object without its end is an incomplete answer.
        said = self._parse(line) if not line.startswith(b"{") or line.endswith(b"}") else None
        if isinstance(said, Verdict):
            return said
        when = "before it had answered" if self._accepted is None else "while the workload ran"
        return Verdict(1, f"the server closed the connection {when}")

    def _next(self) -> str | Verdict | None:
        """The next answer in the buffer; None: its end has not come yet."""
        said = None
        while said is None:
            if not self._has_line:
                self._buffer = self._buffer.lstrip()
                if self._buffer[:1].isdigit():
                    return Verdict(int(self._buffer[:1]), "", bare=True)
            line, newline, rest = self._buffer.partition(b"\n")
            if len(line) > LONGEST_MESSAGE:
                return Verdict(1, f"the server's answer is longer than {LONGEST_MESSAGE} bytes")
            if not newline:
                return None
            self._buffer = rest
            said = self._parse(line.strip())
        return said

    def _parse(self, line: bytes) -> str | Verdict | None:
        """The answer of a line; None when it does not concern this workload."""
        if not line:
            return None
        self._has_line = True
        if self._awaits_admission and is_plain_ok(line):
            self._awaits_admission = False
            return None
        shown = line[:_SHOWN].decode("utf-8", "replace")
        if line.startswith(b"error "):
            return Verdict(1, f"the server refuses: {shown.removeprefix('error ')}")
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            return Verdict(1, f"this is no answer of a workload server: {shown}")
        if answer.get("ok") is True:
            self._accepted = str(answer.get("workload", ""))
            return self._accepted
        if "ok" in answer:
            error = answer.get("error")
            given = error if isinstance(error, dict) else {}
            return Verdict(1, f"the server refuses: {given.get('code', 'error')} {given.get('message', '')}".rstrip())
        workload = answer.get("workload")
        # A missing name counts as this workload's.
        is_ours = not workload or self._accepted in (None, "", workload)
        return _ended(answer) if is_ours and answer.get("event") == "ended" else None


def _ended(event: dict[str, object]) -> Verdict:
    code = event.get("code")
    text = str(event.get("text", ""))
    if isinstance(code, bool) or not isinstance(code, int) or not 0 <= code <= 255:
        return Verdict(1, f"the server gives no exit code from 0 to 255 but {code!r}, and says: {text}")
    return Verdict(code, text)


_RETRY_MILLISECONDS: Final = 50
_PENDING: Final = (errno.EINPROGRESS, errno.EINTR)
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


class Stopped(Exception):
    """A signal to stop was received; the text is its name."""


class StopSignals:
    """A context in which these signals are caught, and make :meth:`wait` raise."""

    def __init__(self, signals: Iterable[signal.Signals] = (signal.SIGTERM, signal.SIGINT)) -> None:
        self._signals = tuple(signals)
        self._received: signal.Signals | None = None

    def __enter__(self) -> Self:
        self._woken, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._old_wake = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        # The interpreter writes to the wake-up descriptor only for a signal with a handler.
        self._old_handlers = {number: signal.signal(number, lambda *_: None) for number in self._signals}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_wake)
        os.close(self._woken)
        os.close(self._wake)

    def wait(self, descriptor: int | None = None, events: int = 0, milliseconds: int | None = None) -> None:
        """Return at one of the events, or when the time is over.

        :param events: as in select.poll.
        :raises Stopped: at a signal, before the wait or during it.
        """
        if self._received is None:
            poll = select.poll()
            poll.register(self._woken, select.POLLIN)
            if descriptor is not None:
                poll.register(descriptor, events)
            if any(ready == self._woken for ready, _ in poll.poll(milliseconds)):
                numbers = os.read(self._woken, 1024)  # the interpreter writes each signal's number
                self._received = next((number for number in self._signals if number in numbers), None)
        if self._received is not None:
            raise Stopped(self._received.name)


def connect(address: Address, stop: StopSignals) -> socket.socket:
    """A connected, non-blocking socket, also of TLS.

    :raises OSError: when none of the addresses accepts the connection, or TLS cannot be agreed on.
    :raises Stopped: at a signal.
    """
    if address.path:
        path = "\0" + address.path[1:] if address.path.startswith("@") else address.path
        return _connected(socket.AF_UNIX, path, stop)
    if address.tls is not None:
        from fakedev.runtime.client_tls import secured  # noqa: PLC0415 - most addresses have no TLS

        return secured(_connected_to(address, stop), address.host, address.tls, stop.wait)
    return _connected_to(address, stop)


def _connected_to(address: Address, stop: StopSignals) -> socket.socket:
    failure = OSError(f"{address.host} has no address")
    for family, _, _, _, target in socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM):
        try:
            connection = _connected(family, target, stop)
        except OSError as error:
            failure = error
            continue
        _keep_alive(connection)
        return connection
    raise failure


def send_all(connection: socket.socket, data: bytes, stop: StopSignals) -> None:
    """Send all bytes, in one call if they fit into the kernel's buffer."""
    rest = memoryview(data)
    while rest:
        stop.wait(connection.fileno(), select.POLLOUT)
        try:
            rest = rest[connection.send(rest) :]
        except BlockingIOError:
            continue


def receive(connection: socket.socket, stop: StopSignals) -> bytes:
    """The next bytes; empty at the end of the connection."""
    pending = getattr(connection, "pending", int)  # bytes that TLS has decrypted already
    while True:
        if not pending():
            stop.wait(connection.fileno(), select.POLLIN)
        try:
            return connection.recv(65536)
        except BlockingIOError:
            continue


def _connected(family: int, target: tuple[Any, ...] | str, stop: StopSignals) -> socket.socket:
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        while (problem := connection.connect_ex(target)) == errno.EAGAIN and family == socket.AF_UNIX:
            # The queue of a UNIX server is full, and no event reports when it has room.
            stop.wait(milliseconds=_RETRY_MILLISECONDS)
        if problem in _PENDING:
            stop.wait(connection.fileno(), select.POLLOUT)
            problem = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if problem:
            raise OSError(problem, os.strerror(problem))
    except BaseException:
        connection.close()
        raise
    return connection


def _keep_alive(connection: socket.socket) -> None:
    """Notice within a minute that the server's machine is gone, although nothing is sent to it."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
