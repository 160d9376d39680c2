"""Declares the fields of requests and the settings of frozen values: type, default, unit, sentence.

A field of requests is declared once for ports, web, configuration and flags. A setting is declared at the field of a
frozen value; the configuration makes keys and documents from it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final

from fakedev.base.errors import FieldError
from fakedev.base.units import number_of, parse_duration

#: The longest text of a field, in characters.
LONGEST_TEXT: Final = 1024
#: The longest duration, in seconds: over 300 years.
LONGEST_SECONDS: Final = 1e10
_WORDS: Final = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}


class FieldKind(enum.Enum):
    """What a field holds; the kinds of arguments on line ports have the same names."""

    TEXT = "a text"
    LIST = "a list of texts; a text has commas between them"
    SERIES = "a profile or another structure, as a text or as JSON"
    DURATION = "a duration such as 90s, or seconds"
    WHOLE = "a whole number"
    NUMBER = "a finite number"
    MAPPING = "names, each with a number or a size"
    SERIES_MAPPING = "names, each with a profile"
    TEXT_MAPPING = "names, each with a text"


@dataclass(frozen=True)
class Field:
    """A field that a workload or a fault takes.

    :param name: in JSON, as an option in words and as a key of the configuration.
    :param purpose: what it is for: a phrase without a capital letter and a full stop.
    :param shown: the placeholder for its value in usage lines, as ``DURATION``.
    :param attribute: of the specification; empty: the name.
    :param unit: of its number, for the documentation.
    :param high: the largest number; the smallest is 0.
    :param zero: what 0 stands for, as ``for ever``; empty: for itself.
    :param choices: the only texts; empty for any.
    :param word: its name in words on line ports and as a flag, where that differs. Both names are good everywhere.
    """

    name: str
    purpose: str
    shown: str = "TEXT"
    kind: FieldKind = FieldKind.TEXT
    default: str | float = ""
    attribute: str = ""
    unit: str = ""
    high: float = 0.0
    zero: str = ""
    choices: tuple[str, ...] = ()
    word: str = ""

    @property
    def spec_name(self) -> str:
        """The attribute of the specification that holds its value."""
        return self.attribute or self.name

    @property
    def help(self) -> str:
        """What it is for and what 0 stands for, for the help of ports and programs."""
        return self._with("0")

    @property
    def doc(self) -> str:
        """The help as a sentence, for the configuration, where durations of 0 are written as ``none``."""
        text = self._with("none" if self.kind is FieldKind.DURATION else "0")
        return f"{text[:1].upper()}{text[1:]}."

    def _with(self, zero: str) -> str:
        return f"{self.purpose}; {zero} {self.zero}" if self.zero else self.purpose

    def read(self, fields: Mapping[str, object]) -> str | float:
        """Its value among the fields of a request, or its default; only for texts, numbers and durations.

        :raises FieldError: naming the field.
        """
        value = fields.get(self.name, self.default)
        if self.kind is FieldKind.TEXT:
            text = read_text(self.name, value) or str(self.default)
            if self.choices and text not in self.choices:
                raise FieldError(self.name, f"{text!r} is neither {' nor '.join(self.choices)}")
            return text
        if self.kind is FieldKind.DURATION:
            return read_seconds(self.name, value)
        if self.kind is FieldKind.WHOLE and isinstance(value, int) and not isinstance(value, bool):
            number: float | None = value
        else:
            number = number_of(value) if self.kind is FieldKind.NUMBER else None
        if number is None or not 0 <= number <= self.high:
            form = "a whole number" if self.kind is FieldKind.WHOLE else f"a number from 0 to {self.high:g}"
            zero = f", 0 {self.zero}" if self.zero else ""
            raise FieldError(self.name, f"must be {form.replace('e+0', 'e')}{zero}")
        return number


def read_text(field: str, value: object) -> str:
    """A text of a request.

    :raises FieldError: for what is not a text, is too long, or cannot be stored.
    """
    if not isinstance(value, str):
        raise FieldError(field, f"must be a text, not {kind_of(value)}")
    if len(value) > LONGEST_TEXT:
        raise FieldError(field, f"is longer than {LONGEST_TEXT} characters")
    if "\0" in value:
        raise FieldError(field, "must not hold a NUL character")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise FieldError(field, "is not UTF-8: it holds half a surrogate pair")
    return value


def read_seconds(field: str, value: object) -> float:
    """The seconds of a duration such as 90s, or of a plain number.

    :raises FieldError: for what is not a duration.
    """
    number = number_of(value)
    if number is not None:
        if not 0 <= number <= LONGEST_SECONDS:
            raise FieldError(field, "must be a duration, as 90s or 5m, or seconds from 0 up")
        return number
    if not isinstance(value, str):
        raise FieldError(field, f"must be a duration, as 90s or 5m, not {kind_of(value)}")
    try:
        return parse_duration(value)
    except ValueError as error:
        raise FieldError(field, str(error)) from None


def kind_of(value: object) -> str:
    """A JSON value in words, for ``must be this, not that``."""
    return _WORDS.get(type(value), "nothing")


#: Keys of the metadata of fields: what the configuration says of a field; the key whose change needs a restart.
SETTING: Final = "setting"
_RESTART: Final = "restart"


def setting(doc: str, unit: str = "", default: Any = None, **attributes: Any) -> Any:
    """A field of a dataclass that is a setting, with its default; attributes as for `described`."""
    metadata = described(doc, unit, **attributes)
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def described(doc: str, unit: str = "", *, restart: str = "", **attributes: Any) -> Mapping[str, Any]:
    """The metadata of a field that is a setting: of one without default.

    :param doc: one or two sentences: what it is for.
    :param unit: of its number, for the documentation.
    :param restart: the path of the key, if a change of it needs a restart.
    :param attributes: of its key and of the key's type, where they do not follow from the field; see
        `fakedev.schema.types.keys_from`.
    """
    return {SETTING: {"doc": doc, "unit": unit, **attributes}, **restarts(restart)}


def restarts(key: str) -> Mapping[str, str]:
    """The metadata of a field whose change needs a restart, with the path of its key: ``fleet.seed``."""
    return {_RESTART: key} if key else {}


def restart_keys(before: Any, after: Any) -> Iterator[str]:
    """The paths of keys that need a restart and differ in two frozen values of one type, or in values inside them."""
    for each in fields(before):
        old, new = getattr(before, each.name), getattr(after, each.name)
        if _RESTART in each.metadata:
            if old != new:
                yield each.metadata[_RESTART]
        elif is_dataclass(old) and type(old) is type(new):
            yield from restart_keys(old, new)
