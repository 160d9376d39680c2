"""What the rules answer when something cannot be done."""

from __future__ import annotations


class Refused(Exception):
    """An event or request that the rules do not allow.

    :param code: one word of the protocols' closed list (``bad-argument``, ``unknown-name``, ...).
    :param text: what is wrong and what would be right.
    :param where: the field or name at fault, when there is one.
    """

    def __init__(self, code: str, text: str, where: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.where = where


class FieldError(Refused):
    """A field of a request or a configuration entry that cannot be used."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__("bad-argument", f"{field}: {reason}", field)
        self.field = field
        self.reason = reason
