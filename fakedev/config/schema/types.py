"""The types of values: scalars, which read the text as it was written; lists, mappings, and one of several types."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final

from fakedev.config.schema.nodes import Listing, Node, Report, Scalar, Table
from fakedev.config.schema.schema import INVALID, Section, Type, joined, kind_of, named, shortened
from fakedev.spec.errors import nearest_name
from fakedev.spec.units import format_duration, parse_duration, parse_size

_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,30}")
_NUMBER: Final = re.compile(r"[-+]?([0-9]{1,400}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][-+]?[0-9]{1,10})?")
#: Units of durations and sizes, for the documentation.
DURATION_UNITS: Final = "ms, s, m, h or d"
SIZE_UNITS: Final = "bytes, kB, MB, GB, KiB, MiB, GiB"
_VARIABLE: Final = {"type": "string", "pattern": r"\$\{"}


class _ScalarType(Type):
    """Reads the text of a scalar, which subclasses check."""

    def takes(self, node: Node) -> bool:
        return isinstance(node, Scalar)

    def read(self, node: Node, where: str, report: Report) -> Any:
        try:
            if not isinstance(node, Scalar) or node.is_null:
                raise ValueError(f"must be a {self.words}, not {kind_of(node)}")
            return self.parse(node)
        except ValueError as error:
            report.problem(node.place, f"{where}: {error}" if where else str(error))
            return INVALID

    @abstractmethod
    def parse(self, node: Scalar) -> Any:
        """The value of a scalar. Raises ValueError with the mistake and a remedy."""

    def schema(self) -> dict[str, Any]:
        return {"type": ["string", "number"]}


@dataclass(frozen=True)
class Text(_ScalarType):
    """A text: whatever is written, quoted or not.

    :param check: raises ValueError for a text that cannot be used; returns what to use.
    """

    words: str = "text"
    check: Callable[[str], Any] | None = None
    longest: int = 4096

    def parse(self, node: Scalar) -> Any:
        if node.json and not node.quoted:
            raise ValueError(f"must be a {self.words} in quotes, not {kind_of(node)}")
        if len(node.text) > self.longest:
            raise ValueError(f"is longer than {self.longest} characters")
        return self.check(node.text) if self.check is not None else node.text


@dataclass(frozen=True)
class Number(_ScalarType):
    """A finite number, written without quotes, within bounds."""

    least: float | None = None
    most: float | None = None
    words: str = "number"
    form: ClassVar[re.Pattern[str]] = _NUMBER
    json_type: ClassVar[str] = "number"

    @property
    def described(self) -> str:
        """The words with their bounds."""
        return self.words + _span(self.least, self.most).replace(" within", ",")

    def takes(self, node: Node) -> bool:
        return isinstance(node, Scalar) and not node.quoted and _NUMBER.fullmatch(node.text) is not None

    def parse(self, node: Scalar) -> Any:
        if node.quoted or not self.form.fullmatch(node.text):
            raise ValueError(f"must be a {self.words}{_span(self.least, self.most)}, not {kind_of(node)}")
        value = self.number(node.text)
        if (self.least is not None and value < self.least) or (self.most is not None and value > self.most):
            raise ValueError(f"{value} is not{_span(self.least, self.most)}")
        return value

    def number(self, text: str) -> float:
        """The number of a text of the form. Raises ValueError for one that is too large."""
        value = float(text)
        if not math.isfinite(value):
            raise ValueError(f"{shortened(text)} is too large for a number")
        return value

    def schema(self) -> dict[str, Any]:
        bounds = {"minimum": self.least, "maximum": self.most}
        return _or_variable({"type": self.json_type} | {key: end for key, end in bounds.items() if end is not None})


@dataclass(frozen=True)
class Integer(Number):
    """A whole number."""

    words: str = "whole number"
    form: ClassVar[re.Pattern[str]] = _INTEGER
    json_type: ClassVar[str] = "integer"

    def number(self, text: str) -> float:
        return int(text)


@dataclass(frozen=True)
class Boolean(_ScalarType):
    """``true`` or ``false``."""

    words: str = "true or false"

    def parse(self, node: Scalar) -> Any:
        if node.quoted or node.text.lower() not in ("true", "false"):
            raise ValueError(f"must be true or false, not {kind_of(node)}")
        return node.text.lower() == "true"

    def schema(self) -> dict[str, Any]:
        return _or_variable({"type": "boolean"})


@dataclass(frozen=True)
class Duration(_ScalarType):
    """A duration in seconds.

    :param none: whether ``none`` (no limit) may be written: its value is 0.
    """

    least: float = 0.0
    most: float = 1e10
    none: bool = False
    words: str = "duration"
    units: ClassVar[str] = DURATION_UNITS

    @property
    def described(self) -> str:
        """The words with their bounds."""
        if self.none:
            return f"{self.words} or none"
        return f"{self.words}, {format_duration(self.least)} to {format_duration(self.most)}"

    def parse(self, node: Scalar) -> Any:
        if self.none and node.text == "none":
            return 0.0
        seconds = parse_duration(node.text)
        if not self.least <= seconds <= self.most:
            raise ValueError(f"{node.text} is not within {format_duration(self.least)} to {format_duration(self.most)}")
        return seconds


@dataclass(frozen=True)
class Size(_ScalarType):
    """A size in bytes."""

    words: str = "size"
    units: ClassVar[str] = SIZE_UNITS

    def parse(self, node: Scalar) -> Any:
        return float(parse_size(node.text))


@dataclass(frozen=True)
class Choice(_ScalarType):
    """One of a few words.

    :param kind: what a word becomes: a member of an enumeration.
    """

    choices: tuple[str, ...]
    words: str = ""
    kind: Callable[[str], Any] = str

    @classmethod
    def of(cls, kind: type[Enum]) -> Choice:
        """One of the members of an enumeration, by their values."""
        return cls(tuple(member.value for member in kind), kind=kind)

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", self.words or " or ".join(self.choices))

    def parse(self, node: Scalar) -> Any:
        if node.text in self.choices:
            return self.kind(node.text)
        nearest = nearest_name(node.text, self.choices)
        hint = f"; did you mean {nearest}?" if nearest else ""
        raise ValueError(f"must be one of {', '.join(self.choices)}, not {kind_of(node)}{hint}")

    def schema(self) -> dict[str, Any]:
        return _or_variable({"enum": list(self.choices)})


@dataclass(frozen=True)
class Mode(_ScalarType):
    """Permissions of a socket, in octal digits as chmod takes them."""

    words: str = "permissions in octal digits"

    def parse(self, node: Scalar) -> Any:
        if not re.fullmatch(r"0?[0-7]{3}", node.text):
            raise ValueError(f"must be three octal digits, as 660, not {kind_of(node)}")
        return int(node.text, 8)

    def schema(self) -> dict[str, Any]:
        return {"type": ["string", "integer"]}


def _span(least: float | None, most: float | None) -> str:
    if least is None and most is None:
        return ""
    if most is None:
        return f" from {least} up"
    return f" within {least} to {most}" if least is not None else f" up to {most}"


def _or_variable(schema: dict[str, Any]) -> dict[str, Any]:
    """The type, or a text with a variable in its place."""
    return {"anyOf": [schema, dict(_VARIABLE)]}


@dataclass(frozen=True)
class ListOf(Type):
    """A list of one type; a value that is no list is a problem."""

    item: Type
    least: int = 0
    words: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", self.words or f"list of {_plural(self.item.words)}")

    def takes(self, node: Node) -> bool:
        return isinstance(node, Listing)

    def read(self, node: Node, where: str, report: Report) -> Any:
        if not isinstance(node, Listing):
            report.problem(node.place, f"{named(where)}must be a {self.words}, not {kind_of(node)}: put [ ] around it")
            return INVALID
        if len(node.items) < self.least:
            report.problem(node.place, f"{named(where)}needs at least {self.least} in its list")
        prefix = joined(where, "")
        values = [self.item.read(item, f"{prefix}{number}", report) for number, item in enumerate(node.items)]
        return tuple(value for value in values if value is not INVALID) if INVALID in values else tuple(values)

    def schema(self) -> dict[str, Any]:
        result: dict[str, Any] = {"type": "array", "items": self.item.schema()}
        if self.least:
            result["minItems"] = self.least
        return result

    def sections(self) -> Iterable[Section]:
        return self.item.sections()


@dataclass(frozen=True)
class MapOf(Type):
    """A mapping from names of one's own to values of one type.

    :param check: raises ValueError for a name that cannot be used.
    """

    value: Type
    check: Callable[[str], object] | None = None
    words: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", self.words or f"mapping of names to {_plural(self.value.words)}")

    def takes(self, node: Node) -> bool:
        return isinstance(node, Table)

    def read(self, node: Node, where: str, report: Report) -> Any:
        if not isinstance(node, Table):
            report.problem(node.place, f"{named(where)}must be a {self.words}, not {kind_of(node)}")
            return INVALID
        result = {}
        prefix = joined(where, "")
        for key, child in node.entries:
            if self.check is not None:
                try:
                    self.check(key.text)
                except ValueError as error:
                    report.problem(key.place, f"{named(where)}{error}")
                    continue
            value = self.value.read(child, prefix + key.text, report)
            if value is not INVALID:
                result[key.text] = value
        return result

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": self.value.schema()}

    def sections(self) -> Iterable[Section]:
        return self.value.sections()


@dataclass(frozen=True)
class OneOf(Type):
    """One of several types, which differ in shape."""

    types: tuple[Type, ...]
    words: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", self.words or " or ".join(kind.words for kind in self.types))

    def takes(self, node: Node) -> bool:
        return any(kind.takes(node) for kind in self.types)

    def read(self, node: Node, where: str, report: Report) -> Any:
        for kind in self.types:
            if kind.takes(node):
                return kind.read(node, where, report)
        report.problem(node.place, f"{named(where)}must be a {self.words}, not {kind_of(node)}")
        return INVALID

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [kind.schema() for kind in self.types]}

    def sections(self) -> Iterable[Section]:
        for kind in self.types:
            yield from kind.sections()


def _plural(words: str) -> str:
    return words if words.endswith("s") else f"{words}s"
