"""JSON lines as a backend speaks them: its requests, and the answers and news that it is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fakedev.wire.errors import ProtocolError, error_in_words
from fakedev.wire.strict_json import load_object

#: Bytes that an answer may have: a job of 64 KiB may be written in escapes, six bytes for one.
MOST_ANSWER_BYTES: Final = 1 << 20


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
