"""Bare JSON of the queue ports: what the programs of the original work queue say, in both directions."""

from __future__ import annotations

from typing import Final, NamedTuple

from fakedev.wire.bare_fields import bool_field, known_fields, list_field, number_field, text_field, whole_field
from fakedev.wire.errors import ProtocolError
from fakedev.wire.strict_json import load_object

Notes = tuple[str, ...]

LARGEST_EXIT_CODE: Final = 2**31 - 1


class BareRequest(NamedTuple):
    """A client's request.

    :param limit_seconds: 0 for none.
    :param notes: what was ignored, in words, for the log.
    """

    queue: str
    arguments: tuple[str, ...] = ()
    limit_seconds: float = 0.0
    notes: Notes = ()


class BareAsk(NamedTuple):
    """A backend's request for work."""

    queue: str
    notes: Notes = ()


class BareWork(NamedTuple):
    """What a backend gets for it.

    :param error: why it gets no work; empty when it does.
    :param empty: whether there is none just now.
    """

    error: str = ""
    arguments: tuple[str, ...] = ()
    limit_seconds: float = 0.0
    empty: bool = False
    notes: Notes = ()


class BareResult(NamedTuple):
    """What a backend says of its run, and what a client is told.

    :param timeout_seconds: the time limit, when that was over; else 0.
    :param wait_seconds: in the queue; for clients only.
    """

    pod: str = ""
    node: str = ""
    device: str = ""
    error: str = ""
    timeout_seconds: float = 0.0
    run_seconds: float = 0.0
    wait_seconds: float = 0.0
    exit_code: int = 0
    notes: Notes = ()


def parse_bare_request(message: bytes) -> BareRequest:
    """A client's request.

    :raises ProtocolError: ``bad-argument``, naming the field at fault.
    """
    fields, notes = _fields(message, ("Queue", "Args", "Limit"))
    return BareRequest(
        text_field("Queue", fields["Queue"]),
        _arguments(fields["Args"]),
        max(number_field("Limit", fields["Limit"]), 0.0),
        notes,
    )


def parse_bare_ask(message: bytes) -> BareAsk:
    """A backend's request for work.

    :raises ProtocolError: ``bad-argument``, naming the field at fault.
    """
    fields, notes = _fields(message, ("Queue",))
    return BareAsk(text_field("Queue", fields["Queue"]), notes)


def parse_bare_work(message: bytes) -> BareWork:
    """The answer to a backend that asked for work.

    :raises ProtocolError: ``bad-argument``, naming the field at fault.
    """
    fields, notes = _fields(message, ("Error", "Args", "Limit", "Empty"))
    return BareWork(
        text_field("Error", fields["Error"]),
        _arguments(fields["Args"]),
        max(number_field("Limit", fields["Limit"]), 0.0),
        bool_field("Empty", fields["Empty"]),
        notes,
    )


def parse_bare_result(message: bytes) -> BareResult:
    """A backend's result, or the answer to a client.

    :raises ProtocolError: ``bad-argument``, naming the field at fault.
    """
    fields, notes = _fields(message, ("Pod", "Node", "Device", "Error", "Timeout", "Runtime", "Waittime", "Retcode"))
    return BareResult(
        pod=text_field("Pod", fields["Pod"]),
        node=text_field("Node", fields["Node"]),
        device=text_field("Device", fields["Device"]),
        error=text_field("Error", fields["Error"]),
        timeout_seconds=_seconds("Timeout", fields["Timeout"]),
        run_seconds=_seconds("Runtime", fields["Runtime"]),
        wait_seconds=_seconds("Waittime", fields["Waittime"]),
        exit_code=_exit_code(fields["Retcode"]),
        notes=notes,
    )


def _fields(message: bytes, names: tuple[str, ...]) -> tuple[dict[str, object], Notes]:
    notes: list[str] = []
    return known_fields(load_object(message, last_one_counts=True), names, "", notes), tuple(notes)


def _arguments(value: object) -> tuple[str, ...]:
    arguments = tuple(text_field(f"Args[{place}]", entry) for place, entry in enumerate(list_field("Args", value)))
    for place, argument in enumerate(arguments):
        if "\0" in argument:
            raise ProtocolError("bad-argument", f"Args[{place}]: holds a NUL, which no command can be given")
    return arguments


def _seconds(name: str, value: object) -> float:
    seconds = number_field(name, value)
    if seconds < 0:
        raise ProtocolError("bad-argument", f"{name}: must not be negative")
    return seconds


def _exit_code(value: object) -> int:
    code = whole_field("Retcode", value)
    if not -LARGEST_EXIT_CODE <= code <= LARGEST_EXIT_CODE:
        raise ProtocolError("bad-argument", "Retcode: is no exit code")
    return code
