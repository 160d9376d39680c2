"""Bare JSON of the queue ports, as the programs of the original work queue send and read it: parsing and encoding.

The parsers raise ProtocolError ``bad-argument``, with the name of the field.

The original programs read a message in one call, of at most MAX_BARE_BYTES. The text is the text of Go's JSON
encoder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final, Generic, NamedTuple, TypeVar

from fakedev.lines.bare_fields import bool_field, known_fields, number_field, text_field, texts_field, whole_field
from fakedev.lines.framing import BLANKS, ObjectReader
from fakedev.lines.grammar import ProtocolError
from fakedev.lines.json_lines import load_object

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
    fields, notes = _fields(message, ("Queue", "Args", "Limit"))
    return BareRequest(
        text_field("Queue", fields["Queue"]),
        _arguments(fields["Args"]),
        max(number_field("Limit", fields["Limit"]), 0.0),
        notes,
    )


def parse_bare_ask(message: bytes) -> BareRequest:
    """A backend's request for work, which has a queue only."""
    fields, notes = _fields(message, ("Queue",))
    return BareRequest(text_field("Queue", fields["Queue"]), notes=notes)


def parse_bare_work(message: bytes) -> BareWork:
    fields, notes = _fields(message, ("Error", "Args", "Limit", "Empty"))
    return BareWork(
        text_field("Error", fields["Error"]),
        _arguments(fields["Args"]),
        max(number_field("Limit", fields["Limit"]), 0.0),
        bool_field("Empty", fields["Empty"]),
        notes,
    )


def parse_bare_result(message: bytes) -> BareResult:
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
        """A frontend with too many connections answers in words, before it has detected the peer's format."""
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


#: Bytes of a message that the original programs read, in one call.
MAX_BARE_BYTES: Final = 1024

#: Work within these limits always fits, without encoding it: the frame takes less than 120 bytes, each argument
#: 6 bytes, and each character at most 6, as an escape.
_ALWAYS_FITTING_CHARACTERS: Final = 128
_ALWAYS_FITTING_ARGUMENTS: Final = 8
#: Characters of a name in a message that is too long.
_MAX_NAME_CHARACTERS: Final = 128
_NAMES: Final = ("Pod", "Node", "Device")
_DOTS: Final = "..."

_TEXT_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)  # json.dumps would create one for each text
_TEXTS_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",\n\t\t", ":"))
_PLAIN_DIGITS_BELOW: Final = 1e21
_PLAIN_DIGITS_FROM: Final = 1e-6


def encode_bare_request(request: BareRequest) -> bytes:
    return _encoded(
        ("Queue", go_text(request.queue)),
        ("Args", go_texts(request.arguments)),
        ("Limit", go_number(request.limit_seconds)),
    )


def encode_bare_ask(queue: str) -> bytes:
    return _encoded(("Queue", go_text(queue)))


def encode_bare_work(arguments: Sequence[str], limit_seconds: float) -> bytes:
    return _work(BareWork("", tuple(arguments), limit_seconds))


def fits_bare_work(arguments: Sequence[str], limit_seconds: float) -> bool:
    """Whether a backend of the original programs can read this work."""
    if len(arguments) <= _ALWAYS_FITTING_ARGUMENTS and len("".join(arguments)) <= _ALWAYS_FITTING_CHARACTERS:
        return True
    return len(encode_bare_work(arguments, limit_seconds)) <= MAX_BARE_BYTES


def encode_bare_no_work(error: str, empty: bool = False) -> bytes:
    """Encode the answer to a backend that gets no work. An error that is too long is cut.

    :param empty: whether the queue has no work now; False for an error in the request.
    """
    text = error
    while len(message := _work(BareWork(error=text, empty=empty))) > MAX_BARE_BYTES:
        text = _cut(text, len(message) - MAX_BARE_BYTES)
    return message


def encode_bare_result(result: BareResult, *more: tuple[str, str]) -> bytes:
    """A backend's result. Texts are cut if it would be too long.

    :param more: further fields before the last one: name and JSON text.
    """
    texts = {"Pod": result.pod, "Node": result.node, "Device": result.device, "Error": result.error}
    numbers = (
        ("Timeout", go_number(result.timeout_seconds)),
        ("Runtime", go_number(result.run_seconds)),
        *more,
        ("Retcode", str(result.exit_code)),
    )
    message = _encoded_run(texts, numbers)
    if len(message) > MAX_BARE_BYTES:
        texts.update({name: texts[name][:_MAX_NAME_CHARACTERS] for name in _NAMES})
        message = _encoded_run(texts, numbers)
    while (over := len(message) - MAX_BARE_BYTES) > 0:
        name = "Error" if texts["Error"] else max(_NAMES, key=lambda name: len(texts[name]))
        texts[name] = _cut(texts[name], over)
        message = _encoded_run(texts, numbers)
    return message


def encode_bare_answer(result: BareResult) -> bytes:
    """The answer to a client. Texts are cut if it would be too long."""
    return encode_bare_result(result, ("Waittime", go_number(result.wait_seconds)))


def _encoded(*fields: tuple[str, str]) -> bytes:
    """An object, indented by tabs, of names and values as JSON text."""
    # Texts may contain lone surrogates: file names that are not UTF-8.
    text = "{\n" + ",\n".join([f'\t"{name}": {value}' for name, value in fields]) + "\n}"
    return text.encode("utf-8", "replace")


def _work(work: BareWork) -> bytes:
    return _encoded(
        ("Error", go_text(work.error)),
        ("Args", "null" if work.error else go_texts(work.arguments)),
        ("Limit", go_number(work.limit_seconds)),
        ("Empty", "true" if work.empty else "false"),
    )


def _encoded_run(texts: Mapping[str, str], numbers: Iterable[tuple[str, str]]) -> bytes:
    return _encoded(*[(name, go_text(text)) for name, text in texts.items()], *numbers)


def _cut(text: str, over: int) -> str:
    """A text without its end, so that the message gets at least ``over`` bytes shorter. Dots mark the cut."""
    end = min(len(text), MAX_BARE_BYTES)
    gained = _encoded_bytes(text[end:]) - len(_DOTS)
    while end and gained < over:
        end -= 1
        gained += _encoded_bytes(text[end])
    return text[:end] + _DOTS if end else ""


def _encoded_bytes(text: str) -> int:
    return len(go_text(text).encode("utf-8", "replace")) - len('""')


def go_text(text: str) -> str:
    """A text in quotes, with the fewest escapes."""
    return _TEXT_ENCODER.encode(text)


def go_number(number: float) -> str:
    """The shortest decimal number with this value. It has an exponent only below 1e-6 and from 1e21 on."""
    digits, exponent_mark, exponent = repr(float(number)).partition("e")
    if not exponent_mark:
        return digits.removesuffix(".0")
    if _PLAIN_DIGITS_FROM <= abs(number) < _PLAIN_DIGITS_BELOW:
        return format(Decimal(f"{digits}e{exponent}"), "f")
    sign, size = exponent[0], exponent[1:].lstrip("0")
    return f"{digits}e{sign}{size}"


def go_texts(texts: Iterable[str]) -> str:
    entries = _TEXTS_ENCODER.encode(list(texts))[1:-1]
    return f"[\n\t\t{entries}\n\t]" if entries else "[]"
