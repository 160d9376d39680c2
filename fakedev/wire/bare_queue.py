"""Bare JSON of the queue ports: what the programs of the original work queue say, in both directions.

The frontend's answer to a peer that asked in bare JSON, as it comes: in any pieces.

Bare JSON of the queue ports, written: as the original programs write it, and so long that they can read it.

JSON as Go's encoder writes it, as far as the original programs' messages need it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final, Generic, NamedTuple, TypeVar

from fakedev.wire.bare_fields import bool_field, known_fields, list_field, number_field, text_field, whole_field
from fakedev.wire.errors import ProtocolError
from fakedev.wire.framing import BLANKS, ObjectReader
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

T = TypeVar("T")

_BUSY: Final = b"error busy"
_MAX_LINE_BYTES: Final = 4096
_SHOWN_BYTES: Final = 200


class BareReader(Generic[T]):
    """Gathers the one answer of a connection.

    :param parse: makes the answer of its object; raises ProtocolError.
    """

    def __init__(self, parse: Callable[[bytes], T]) -> None:
        self._parse = parse
        self._objects = ObjectReader()
        self._words = b""

    def feed(self, data: bytes) -> T | None:
        """The answer, when these bytes complete it.

        :raises ProtocolError: ``busy`` when the frontend has no room for the connection just now; another code when
            what came is no such answer.
        """
        if not self._objects.begun:
            data = data if self._words else data.lstrip(BLANKS)
            if self._words or (data and not data.startswith(b"{")):
                self._refuse_words(data)
                return None
        message, _ = self._objects.feed(data)
        return None if message is None else self._parse(message)

    def _refuse_words(self, data: bytes) -> None:
        """Words come from a frontend that has too many connections, before it knows in which way it is asked."""
        self._words += data
        line, newline, _ = self._words.partition(b"\n")
        if not newline and len(line) <= _MAX_LINE_BYTES:
            return
        text = line[:_SHOWN_BYTES].decode("utf-8", "replace").strip()
        if line.startswith(_BUSY):
            raise ProtocolError("busy", text)
        raise ProtocolError("bad-argument", f"this is no answer of a queue's frontend: {text}")


class BareWorkReader(BareReader[BareWork]):
    """Gathers what a backend is answered."""

    def __init__(self) -> None:
        super().__init__(parse_bare_work)

_TEXTS = json.JSONEncoder(ensure_ascii=False)  # json.dumps would make one for each text
_PLAIN_DIGITS_BELOW = 1e21
_PLAIN_DIGITS_FROM = 1e-6


def go_text(text: str) -> str:
    """A text in its quotes; not escaped is what need not be."""
    return _TEXTS.encode(text)


def go_number(number: float) -> str:
    """The shortest decimal number that reads as this one; with an exponent only below 1e-6 and from 1e21 on."""
    digits, exponent_mark, exponent = repr(float(number)).partition("e")
    if not exponent_mark:
        return digits.removesuffix(".0")
    if _PLAIN_DIGITS_FROM <= abs(number) < _PLAIN_DIGITS_BELOW:
        return format(Decimal(f"{digits}e{exponent}"), "f")
    sign, size = exponent[0], exponent[1:].lstrip("0")
    return f"{digits}e{sign}{size}"


def go_object(fields: Iterable[tuple[str, str]]) -> str:
    """An object, indented by tabs.

    :param fields: names and values; the values are JSON already.
    """
    return "{\n" + ",\n".join([f'\t"{name}": {value}' for name, value in fields]) + "\n}"


def go_texts(texts: Iterable[str]) -> str:
    """A list of texts, as the value of a field."""
    entries = ",\n".join(["\t\t" + go_text(text) for text in texts])
    return f"[\n{entries}\n\t]" if entries else "[]"

#: What the original programs read of a message, in one go.
MAX_BARE_BYTES: Final = 1024

#: Work that is sure to fit, so that nobody need write it to know: its frame takes less than 120 bytes, each argument
#: 6 bytes, and a character 6 at most, as an escape.
_SURELY_FITTING_CHARACTERS: Final = 128
_SURELY_FITTING_ARGUMENTS: Final = 8
#: Of a name in a message that would be too long.
_NAME_CHARACTERS: Final = 128
_NAMES: Final = ("Pod", "Node", "Device")
_DOTS: Final = "..."


def encode_bare_request(request: BareRequest) -> bytes:
    """A client's request."""
    return _encoded(
        ("Queue", go_text(request.queue)),
        ("Args", go_texts(request.arguments)),
        ("Limit", go_number(request.limit_seconds)),
    )


def encode_bare_ask(queue: str) -> bytes:
    """A backend's request for work."""
    return _encoded(("Queue", go_text(queue)))


def encode_bare_work(arguments: Sequence[str], limit_seconds: float) -> bytes:
    """The answer to a backend that gets work; see :func:`fits_bare_work`."""
    return _work(BareWork(arguments=tuple(arguments), limit_seconds=limit_seconds))


def fits_bare_work(arguments: Sequence[str], limit_seconds: float) -> bool:
    """Whether the original's backend can read this work."""
    if len(arguments) <= _SURELY_FITTING_ARGUMENTS and len("".join(arguments)) <= _SURELY_FITTING_CHARACTERS:
        return True
    return len(encode_bare_work(arguments, limit_seconds)) <= MAX_BARE_BYTES


def encode_bare_no_work(error: str, empty: bool = False) -> bytes:
    """The answer to a backend that gets no work; the error is cut where it is too long.

    :param empty: whether there is none just now; else the request was at fault.
    """
    text = error
    while len(message := _work(BareWork(error=text, empty=empty))) > MAX_BARE_BYTES:
        text = _cut(text, len(message) - MAX_BARE_BYTES)
    return message


def encode_bare_result(result: BareResult) -> bytes:
    """A backend's result; texts are cut where it would be too long."""
    return _fitting(result)


def encode_bare_answer(result: BareResult) -> bytes:
    """The answer to a client; texts are cut where it would be too long."""
    return _fitting(result, ("Waittime", go_number(result.wait_seconds)))


def _encoded(*fields: tuple[str, str]) -> bytes:
    # Texts may hold half surrogate pairs: file names that are not UTF-8.
    return go_object(fields).encode("utf-8", "replace")


def _work(work: BareWork) -> bytes:
    return _encoded(
        ("Error", go_text(work.error)),
        ("Args", "null" if work.error else go_texts(work.arguments)),
        ("Limit", go_number(work.limit_seconds)),
        ("Empty", "true" if work.empty else "false"),
    )


def _fitting(result: BareResult, *more: tuple[str, str]) -> bytes:
    texts = {"Pod": result.pod, "Node": result.node, "Device": result.device, "Error": result.error}
    numbers = (
        ("Timeout", go_number(result.timeout_seconds)),
        ("Runtime", go_number(result.run_seconds)),
        *more,
        ("Retcode", str(result.exit_code)),
    )
    message = _encoded(*_quoted(texts), *numbers)
    if len(message) > MAX_BARE_BYTES:
        texts.update({name: texts[name][:_NAME_CHARACTERS] for name in _NAMES})
        message = _encoded(*_quoted(texts), *numbers)
    while (over := len(message) - MAX_BARE_BYTES) > 0:
        name = "Error" if texts["Error"] else max(_NAMES, key=lambda name: len(texts[name]))
        texts[name] = _cut(texts[name], over)
        message = _encoded(*_quoted(texts), *numbers)
    return message


def _quoted(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, go_text(text)) for name, text in texts.items()]


def _cut(text: str, over: int) -> str:
    """The beginning of a text, so that what is written of it gets shorter by so many bytes; dots show the cut."""
    end = min(len(text), MAX_BARE_BYTES)
    gained = _written_bytes(text[end:]) - len(_DOTS)
    while end and gained < over:
        end -= 1
        gained += _written_bytes(text[end])
    return text[:end] + _DOTS if end else ""


def _written_bytes(text: str) -> int:
    return len(go_text(text).encode("utf-8", "replace")) - len('""')
