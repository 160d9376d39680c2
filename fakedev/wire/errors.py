"""What a peer is told when its message cannot be used."""

from __future__ import annotations

from typing import Final

#: The codes an error may have, in all line protocols.
CODES: Final = (
    "unknown-verb", "bad-argument", "unknown-name", "too-long", "full", "limit", "busy", "internal",
)  # fmt: skip


def error_in_words(line: bytes) -> tuple[str, str]:
    """Code and text of an answer in words that begins with ``error``, as its reader sees it.

    Readers of JSON lines hear such when there are too many connections: nobody knows yet who asks in which way.
    """
    code, _, text = line.decode("utf-8", "replace").removeprefix("error ").strip().partition(" ")
    return code, text


class ProtocolError(Exception):
    """A message that is answered with an error.

    :param code: one of CODES.
    :param text: what is wrong and what would be right; it begins with the argument's name, where there is one.
    :param fatal: whether the framing is lost, so that the connection must be closed after the answer.
    :param request_id: the id of the request at fault, where one could be read.
    """

    def __init__(self, code: str, text: str, fatal: bool = False, request_id: str | int | None = None) -> None:
        if code not in CODES:
            raise ValueError(f"{code!r} is not one of the codes: {', '.join(CODES)}")
        super().__init__(text)
        self.code = code
        self.text = text
        self.fatal = fatal
        self.request_id = request_id
