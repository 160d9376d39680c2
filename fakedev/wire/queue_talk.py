"""JSON lines as a client of the queues speaks them: its requests, and the answers and news that it is told.

JSON lines as a backend speaks them: its requests, and the answers and news that it is told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from fakedev.wire.errors import ProtocolError, error_in_words
from fakedev.wire.strict_json import load_object

#: Bytes that a line of the frontend may have: an error of 64 KiB may be written in escapes, six bytes for one.
MAX_LINE_BYTES: Final = 1 << 20


class Accepted(NamedTuple):
    """A request was taken in; its job's number is what the news of its end will name."""

    request: int
    job: int


class NotAccepted(NamedTuple):
    """A request was not taken in.

    :param request: None when the whole connection is refused.
    """

    request: int | None
    code: str
    text: str


class Ended(NamedTuple):
    """A request is over.

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


ClientMessage = Accepted | NotAccepted | Ended


class PutForm:
    """Requests that differ in their number only."""

    def __init__(self, queue: str, arguments: Sequence[str], limit_seconds: float) -> None:
        fields: dict[str, object] = {"queue": queue, "args": list(arguments), "answer": "accepted"}
        if limit_seconds > 0:
            fields["limit"] = limit_seconds
        self._rest = json.dumps(fields, separators=(",", ":"))[1:].encode("ascii") + b"\n"

    def encode(self, number: int) -> bytes:
        """The request as a line; ``number`` comes back with the answer."""
        return b'{"op":"put","id":%d,%b' % (number, self._rest)


def encode_cancel(job: int) -> bytes:
    """The wish that a job be cancelled, as a line; its answer names no request."""
    return b'{"op":"cancel","job":%d}\n' % job


def parse_client_message(line: bytes) -> ClientMessage | None:
    """What a line of the frontend says; None when it is not about a request (the answer to a cancel).

    :raises ProtocolError: when it is nothing that a frontend says.
    """
    if line.startswith(b"error "):
        return NotAccepted(None, *error_in_words(line))
    fields = load_object(line)
    if "event" in fields:
        return _ended(fields) if fields["event"] == "ended" else None
    number = fields.get("id")
    if fields.get("ok") is True:
        job = fields.get("job")
        return Accepted(number, job) if isinstance(number, int) and isinstance(job, int) else None
    error = fields.get("error")
    if fields.get("ok") is not False or not isinstance(error, dict):
        raise ProtocolError("bad-argument", "this is no answer in JSON lines")
    code, text = str(error.get("code", "")), str(error.get("message", ""))
    if isinstance(number, int):
        return NotAccepted(number, code, text)
    # What was to be cancelled may have ended in the meantime; all else that names no request is the connection's end.
    return None if code == "unknown-name" else NotAccepted(None, code, text)


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

#: Bytes that an answer may have: a job of 64 KiB may be written in escapes, six bytes for one.
MAX_ANSWER_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Job:
    """A job that a frontend gave.

    :param limit_seconds: run-time limit; 0 for none.
    """

    id: int
    arguments: tuple[str, ...]
    limit_seconds: float


@dataclass(frozen=True)
class Done:
    """The good answer to a request.

    :param jobs: what `take` gave.
    """

    request: int
    jobs: tuple[Job, ...] = ()


@dataclass(frozen=True)
class Refusal:
    """The answer that a request is not granted.

    :param request: None when it answers no request, but the connection as such.
    """

    request: int | None
    code: str
    text: str


@dataclass(frozen=True)
class Withdrawn:
    """News: nothing more is wanted of a job."""

    job: int
    reason: str


BackendMessage = Done | Refusal | Withdrawn


def encode_request(verb: str, number: int, arguments: Mapping[str, object]) -> bytes:
    """A request as a line; its number comes back with the answer."""
    return json.dumps({"op": verb, "id": number, **arguments}, separators=(",", ":")).encode("ascii") + b"\n"


def parse_backend_message(line: bytes) -> BackendMessage | None:
    """What a line of the frontend says; None for news that do not concern a backend.

    :raises ProtocolError: when it is nothing that a frontend says.
    """
    if line.startswith(b"error "):
        return Refusal(None, *error_in_words(line))
    fields = load_object(line)
    if "event" in fields:
        job = fields.get("job")
        is_ours = fields["event"] == "withdrawn" and isinstance(job, int)
        return Withdrawn(job, str(fields.get("reason", ""))) if is_ours and isinstance(job, int) else None
    number = fields.get("id")
    if fields.get("ok") is True and isinstance(number, int):
        return Done(number, tuple(_job(entry) for entry in _list(fields.get("jobs"))))
    error = fields.get("error")
    if fields.get("ok") is False and isinstance(error, dict):
        request = number if isinstance(number, int) else None
        return Refusal(request, str(error.get("code", "")), str(error.get("message", "")))
    raise ProtocolError("bad-argument", "this is no answer in JSON lines")


def _job(entry: object) -> Job:
    fields = entry if isinstance(entry, dict) else {}
    number, arguments, limit = fields.get("job"), fields.get("args"), fields.get("limit-seconds", 0)
    if not isinstance(number, int) or not isinstance(limit, int | float):
        raise ProtocolError("bad-argument", "jobs: a job has no number or no limit")
    return Job(number, tuple(str(argument) for argument in _list(arguments)), max(0.0, float(limit)))


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
