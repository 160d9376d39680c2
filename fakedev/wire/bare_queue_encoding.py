"""Bare JSON of the queue ports, written as the programs of the original work queue write it and can read it.

The original programs read a message in one call, of at most MAX_BARE_BYTES. The text is that of Go's JSON encoder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final

from fakedev.wire.bare_queue import BareRequest, BareResult, BareWork

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
_PLAIN_DIGITS_BELOW: Final = 1e21
_PLAIN_DIGITS_FROM: Final = 1e-6


def encode_bare_request(request: BareRequest) -> bytes:
    """Encode a client's request."""
    return _encoded(
        ("Queue", go_text(request.queue)),
        ("Args", go_texts(request.arguments)),
        ("Limit", go_number(request.limit_seconds)),
    )


def encode_bare_ask(queue: str) -> bytes:
    """Encode a backend's request for work."""
    return _encoded(("Queue", go_text(queue)))


def encode_bare_work(arguments: Sequence[str], limit_seconds: float) -> bytes:
    """Encode the answer to a backend that gets work; see :func:`fits_bare_work`."""
    return _work(BareWork(arguments=tuple(arguments), limit_seconds=limit_seconds))


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


def encode_bare_result(result: BareResult) -> bytes:
    """Encode a backend's result. Texts are cut if it would be too long."""
    return _fitting(result)


def encode_bare_answer(result: BareResult) -> bytes:
    """Encode the answer to a client. Texts are cut if it would be too long."""
    return _fitting(result, ("Waittime", go_number(result.wait_seconds)))


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
        texts.update({name: texts[name][:_MAX_NAME_CHARACTERS] for name in _NAMES})
        message = _encoded(*_quoted(texts), *numbers)
    while (over := len(message) - MAX_BARE_BYTES) > 0:
        name = "Error" if texts["Error"] else max(_NAMES, key=lambda name: len(texts[name]))
        texts[name] = _cut(texts[name], over)
        message = _encoded(*_quoted(texts), *numbers)
    return message


def _quoted(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, go_text(text)) for name, text in texts.items()]


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
    """A list of texts, as the value of a field."""
    entries = ",\n".join(["\t\t" + go_text(text) for text in texts])
    return f"[\n{entries}\n\t]" if entries else "[]"
