"""Messages of the queue ports in JSON lines as their peers see them: requests out, answers and notifications in.

doc/protocol-queue.txt describes them in full.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from fakedev.lines.grammar import ProtocolError, error_in_words
from fakedev.lines.json_lines import load_object

#: Maximum bytes of a line from the frontend: a job or error of 64 KiB may consist of escapes, six bytes for one.
MAX_LINE_BYTES: Final = 1 << 20


class Accepted(NamedTuple):
    """A request was accepted. The notification of its end has the number of its job."""

    request: int
    job: int


class Ended(NamedTuple):
    """A request of the client has ended.

    :param outcome: one of the words of doc/protocol-queue.txt.
    """

    job: int
    outcome: str
    exit_code: int
    error: str
    timeout_seconds: float
    run_seconds: float
    wait_seconds: float
    pod: str
    node: str
    device: str


class BackendJob(NamedTuple):
    """A job for a backend.

    :param limit_seconds: run-time limit; 0 for none.
    """

    id: int
    arguments: tuple[str, ...]
    limit_seconds: float


class Done(NamedTuple):
    """The successful answer to a request of a backend.

    :param jobs: the jobs from ``take``.
    """

    request: int
    jobs: tuple[BackendJob, ...] = ()


class Refusal(NamedTuple):
    """The error that answers a request.

    :param request: None if the frontend refuses the whole connection.
    """

    request: int | None
    code: str
    text: str


class Withdrawn(NamedTuple):
    """The frontend withdrew a job from the backend."""

    job: int
    reason: str


ClientMessage = Accepted | Refusal | Ended
BackendMessage = Done | Refusal | Withdrawn


class PutForm:
    """Encodes put requests that differ only in their number."""

    def __init__(self, queue: str, arguments: Sequence[str], limit_seconds: float) -> None:
        fields: dict[str, object] = {"queue": queue, "args": list(arguments), "answer": "accepted"}
        if limit_seconds > 0:
            fields["limit"] = limit_seconds
        self._rest = json.dumps(fields, separators=(",", ":"))[1:].encode("ascii") + b"\n"

    def encode(self, number: int) -> bytes:
        return b'{"op":"put","id":%d,%b' % (number, self._rest)


def encode_cancel(job: int) -> bytes:
    """The cancel request as a line; its answer carries no number."""
    return b'{"op":"cancel","job":%d}\n' % job


def encode_request(verb: str, number: int, arguments: Mapping[str, object]) -> bytes:
    """A request as a line; the answer carries ``number``."""
    return json.dumps({"op": verb, "id": number, **arguments}, separators=(",", ":")).encode("ascii") + b"\n"


def parse_client_message(line: bytes) -> ClientMessage | None:
    """Parse a line from the frontend to a client; None if it concerns no request (the answer to a cancel).

    :raises ProtocolError: if it is not a message of a frontend.
    """
    if line.startswith(b"error "):
        return Refusal(None, *error_in_words(line))
    fields = load_object(line)
    if "event" in fields:
        return _ended(fields) if fields["event"] == "ended" else None
    number = fields.get("id")
    if fields.get("ok") is True:
        job = fields.get("job")
        return Accepted(number, job) if isinstance(number, int) and isinstance(job, int) else None
    refusal = _refusal(fields)
    # A job may have ended before its cancel request arrived. Every other error without a number ends the connection.
    return None if refusal.request is None and refusal.code == "unknown-name" else refusal


def parse_backend_message(line: bytes) -> BackendMessage | None:
    """Parse a line from the frontend to a backend; None for notifications that do not concern a backend.

    :raises ProtocolError: if it is not a message of a frontend.
    """
    if line.startswith(b"error "):
        return Refusal(None, *error_in_words(line))
    fields = load_object(line)
    if "event" in fields:
        job = fields.get("job")
        if fields["event"] != "withdrawn" or not isinstance(job, int):
            return None
        return Withdrawn(job, str(fields.get("reason", "")))
    number = fields.get("id")
    if fields.get("ok") is True and isinstance(number, int):
        return Done(number, tuple(_job(entry) for entry in _list(fields.get("jobs"))))
    return _refusal(fields)


def _refusal(fields: dict[str, object]) -> Refusal:
    number, error = fields.get("id"), fields.get("error")
    if fields.get("ok") is not False or not isinstance(error, dict):
        raise ProtocolError("bad-argument", "not an answer in JSON lines")
    request = number if isinstance(number, int) else None
    return Refusal(request, str(error.get("code", "")), str(error.get("message", "")))


def _ended(fields: dict[str, object]) -> Ended:
    job, exit_code = fields.get("job"), fields.get("exit-code", 0)
    if not isinstance(job, int) or not isinstance(exit_code, int):
        raise ProtocolError("bad-argument", "ended: has no job, or no exit code")
    return Ended(
        job,
        _text(fields, "outcome"),
        exit_code,
        _text(fields, "error"),
        _seconds(fields, "timeout-seconds"),
        _seconds(fields, "run-seconds"),
        _seconds(fields, "wait-seconds"),
        _text(fields, "pod"),
        _text(fields, "node"),
        _text(fields, "device"),
    )


def _job(entry: object) -> BackendJob:
    fields = entry if isinstance(entry, dict) else {}
    number, arguments, limit = fields.get("job"), fields.get("args"), fields.get("limit-seconds", 0)
    if not isinstance(number, int) or not isinstance(limit, int | float):
        raise ProtocolError("bad-argument", "jobs: a job has no number or no limit")
    return BackendJob(number, tuple(str(argument) for argument in _list(arguments)), max(0.0, float(limit)))


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _text(fields: dict[str, object], name: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise ProtocolError("bad-argument", f"{name}: must be a text")
    return value


def _seconds(fields: dict[str, object], name: str) -> float:
    value = fields.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ProtocolError("bad-argument", f"{name}: must be a number")
    return max(0.0, float(value))
