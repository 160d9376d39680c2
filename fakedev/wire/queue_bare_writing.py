"""Bare JSON of the queue ports, written: as the original programs write it, and so long that they can read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fakedev.wire.bare_queue import BareRequest, BareResult, BareWork
from fakedev.wire.go_json import go_number, go_object, go_text, go_texts

#: What the original programs read of a message, in one go.
MOST_BARE_BYTES: Final = 1024

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
    return len(encode_bare_work(arguments, limit_seconds)) <= MOST_BARE_BYTES


def encode_bare_no_work(error: str, empty: bool = False) -> bytes:
    """The answer to a backend that gets no work; the error is cut where it is too long.

    :param empty: whether there is none just now; else the request was at fault.
    """
    text = error
    while len(message := _work(BareWork(error=text, empty=empty))) > MOST_BARE_BYTES:
        text = _cut(text, len(message) - MOST_BARE_BYTES)
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
    if len(message) > MOST_BARE_BYTES:
        texts.update({name: texts[name][:_NAME_CHARACTERS] for name in _NAMES})
        message = _encoded(*_quoted(texts), *numbers)
    while (over := len(message) - MOST_BARE_BYTES) > 0:
        name = "Error" if texts["Error"] else max(_NAMES, key=lambda name: len(texts[name]))
        texts[name] = _cut(texts[name], over)
        message = _encoded(*_quoted(texts), *numbers)
    return message


def _quoted(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, go_text(text)) for name, text in texts.items()]


def _cut(text: str, over: int) -> str:
    """The beginning of a text, so that what is written of it gets shorter by so many bytes; dots show the cut."""
    end = min(len(text), MOST_BARE_BYTES)
    gained = _written_bytes(text[end:]) - len(_DOTS)
    while end and gained < over:
        end -= 1
        gained += _written_bytes(text[end])
    return text[:end] + _DOTS if end else ""


def _written_bytes(text: str) -> int:
    return len(go_text(text).encode("utf-8", "replace")) - len('""')
