"""Bare JSON of the queue ports, as the programs of the original work queue send it: messages and their parsers.

The parsers raise ProtocolError ``bad-argument``, with the name of the field.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from fakedev.wire.bare_fields import bool_field, known_fields, number_field, text_field, texts_field, whole_field
from fakedev.wire.errors import ProtocolError
from fakedev.wire.framing import BLANKS, ObjectReader
from fakedev.wire.strict_json import load_object

Notes = tuple[str, ...]
T = TypeVar("T")

LARGEST_EXIT_CODE: Final = 2**31 - 1

_BUSY: Final = b"error busy"
_MAX_LINE_BYTES: Final = 4096
_MAX_EXCERPT_BYTES: Final = 200


class BareRequest(NamedTuple):
    """A client's request.

    :param limit_seconds: run-time limit; 0 for none.
    :param notes: fields that were ignored, in words, for the log.
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
    """The answer to a backend that asked for work.

    :param error: why it gets no work; empty if it gets work.
    :param empty: whether the queue has no work now.
    """

    error: str = ""
    arguments: tuple[str, ...] = ()
    limit_seconds: float = 0.0
    empty: bool = False
    notes: Notes = ()


class BareResult(NamedTuple):
    """A backend's report of a run, or the answer to a client.

    :param timeout_seconds: the time limit, if it ended the run; else 0.
    :param wait_seconds: time in the queue; for clients only.
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
    """Parse a client's request."""
    fields, notes = _fields(message, ("Queue", "Args", "Limit"))
    return BareRequest(
        text_field("Queue", fields["Queue"]),
        _arguments(fields["Args"]),
        max(number_field("Limit", fields["Limit"]), 0.0),
        notes,
    )


def parse_bare_ask(message: bytes) -> BareAsk:
    """Parse a backend's request for work."""
    fields, notes = _fields(message, ("Queue",))
    return BareAsk(text_field("Queue", fields["Queue"]), notes)


def parse_bare_work(message: bytes) -> BareWork:
    """Parse the answer to a backend that asked for work."""
    fields, notes = _fields(message, ("Error", "Args", "Limit", "Empty"))
    return BareWork(
        text_field("Error", fields["Error"]),
        _arguments(fields["Args"]),
        max(number_field("Limit", fields["Limit"]), 0.0),
        bool_field("Empty", fields["Empty"]),
        notes,
    )


def parse_bare_result(message: bytes) -> BareResult:
    """Parse a backend's result, or the answer to a client."""
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


class BareReader(Generic[T]):
    """Collects the only answer on a connection to a frontend, in pieces of any size.

    :param parse: parses the object of the answer; raises ProtocolError.
    """

    def __init__(self, parse: Callable[[bytes], T]) -> None:
        self._parse = parse
        self._objects = ObjectReader()
        self._words = b""

    def feed(self, data: bytes) -> T | None:
        """The answer, if these bytes complete it; else None.

        :raises ProtocolError: ``busy`` if the frontend has no room for the connection; another code if the bytes are
            not an answer.
        """
        if not self._objects.begun:
            data = data if self._words else data.lstrip(BLANKS)
            if self._words or (data and not data.startswith(b"{")):
                self._refuse_words(data)
                return None
        message, _ = self._objects.feed(data)
        return None if message is None else self._parse(message)

    def _refuse_words(self, data: bytes) -> None:
        """A frontend with too many connections answers in words, before it knows the format of its peer."""
        self._words += data
        line, newline, _ = self._words.partition(b"\n")
        if not newline and len(line) <= _MAX_LINE_BYTES:
            return
        text = line[:_MAX_EXCERPT_BYTES].decode("utf-8", "replace").strip()
        if line.startswith(_BUSY):
            raise ProtocolError("busy", text)
        raise ProtocolError("bad-argument", f"not an answer of a queue's frontend: {text}")


def _fields(message: bytes, names: tuple[str, ...]) -> tuple[dict[str, object], Notes]:
    notes: list[str] = []
    return known_fields(load_object(message, last_one_counts=True), names, "", notes), tuple(notes)


def _arguments(value: object) -> tuple[str, ...]:
    arguments = texts_field("Args", value)
    for place, argument in enumerate(arguments):
        if "\0" in argument:
            raise ProtocolError("bad-argument", f"Args[{place}]: contains a NUL, which a command cannot receive")
    return arguments


def _seconds(name: str, value: object) -> float:
    seconds = number_field(name, value)
    if seconds < 0:
        raise ProtocolError("bad-argument", f"{name}: must not be negative")
    return seconds


def _exit_code(value: object) -> int:
    code = whole_field("Retcode", value)
    if not -LARGEST_EXIT_CODE <= code <= LARGEST_EXIT_CODE:
        raise ProtocolError("bad-argument", "Retcode: is not an exit code")
    return code
