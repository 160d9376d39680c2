"""Errors that answer a message which cannot be used."""

from __future__ import annotations

from typing import Final

from fakedev.spec.errors import shortened

#: The codes of errors in all line protocols.
CODES: Final = (
    "unknown-verb", "bad-argument", "unknown-name", "too-long", "full", "limit", "denied", "busy", "internal",
)  # fmt: skip


def error_in_words(line: bytes) -> tuple[str, str]:
    """Code and text of an answer in words that begins with ``error``.

    Clients of JSON lines receive such an answer if there are too many connections: the server does not know the format
    yet.
    """
    code, _, text = line.decode("utf-8", "replace").removeprefix("error ").strip().partition(" ")
    return code, text


class ProtocolError(Exception):
    """An error that answers a message.

    :param code: one of CODES.
    :param text: what is wrong and what would be right. It begins with the name of the argument, if there is one.
    :param fatal: whether the framing is lost, so that the connection must be closed after the answer.
    :param request_id: the id of the request, if it could be read.
    """

    def __init__(self, code: str, text: str, fatal: bool = False, request_id: str | int | None = None) -> None:
        if code not in CODES:
            raise ValueError(f"{code!r} is not one of the codes: {', '.join(CODES)}")
        self.code = code
        self.text = shortened(text)
        super().__init__(self.text)
        self.fatal = fatal
        self.request_id = request_id
