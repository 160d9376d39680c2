"""What the rules answer when something cannot be done."""

from __future__ import annotations


class Refused(Exception):
    """A request that the rules do not allow.

    :param code: one word of the protocols' closed list: ``unknown-name``, ``full`` or ``busy``.
    :param text: what is wrong.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
