"""The types of configuration values: text, number, duration, size, choice, list, mapping; keys from fields.

Scalars read the text as the user wrote it. Keys are made from fields of requests and from settings of frozen values.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from typing import Any, ClassVar, Final

from fakedev.base.errors import nearest_name
from fakedev.base.units import format_duration, parse_duration, parse_size
from fakedev.schema.declare import SETTING, Field, FieldKind
from fakedev.schema.places import Listing, Node, Report, Scalar, Table
from fakedev.schema.sections import INVALID, Key, Type, joined, kind_of, named, shortened

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
    :param takes_numbers: a number of JSON is such a text, too.
    """

    words: str = "text"
    check: Callable[[str], Any] | None = None
    longest: int = 4096
    takes_numbers: bool = False
    blank: ClassVar[object] = ""

    def parse(self, node: Scalar) -> Any:
        if node.json and not node.quoted and not (self.takes_numbers and _NUMBER.fullmatch(node.text)):
            raise ValueError(f"must be a {self.words} in quotes, not {kind_of(node)}")
        if len(node.text) > self.longest:
            raise ValueError(f"is longer than {self.longest} characters")
        return self.check(node.text) if self.check is not None else node.text


@dataclass(frozen=True)
class Path(Text):
    """A path, which becomes absolute: a relative one begins in the folder of the report.

    :param optional: an empty text stays empty.
    """

    words: str = "path"
    optional: bool = False

    def read(self, node: Node, where: str, report: Report) -> Any:
        path = super().read(node, where, report)
        if path is INVALID or (self.optional and not path):
            return path
        return os.path.normpath(os.path.join(report.folder, path))


@dataclass(frozen=True)
class Number(_ScalarType):
    """A finite number, written without quotes, within bounds."""

    least: float | None = None
    most: float | None = None
    words: str = "number"
    form: ClassVar[re.Pattern[str]] = _NUMBER
    json_type: ClassVar[str] = "number"
    blank: ClassVar[object] = 0

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
    """A size in bytes.

    :param number: the type of its value.
    """

    number: type[float] = float
    words: str = "size"
    units: ClassVar[str] = SIZE_UNITS

    def parse(self, node: Scalar) -> Any:
        return self.number(parse_size(node.text))


#: More words are not listed where one of them is likely to be meant.
_MOST_LISTED: Final = 10


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
        if nearest and len(self.choices) > _MOST_LISTED:
            raise ValueError(f"there is no {kind_of(node)}{hint}")
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


@dataclass(frozen=True)
class OneOf(Type):
    """One of several types, which differ in shape."""

    types: tuple[Type, ...]
    words: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", self.words or " or ".join(dict.fromkeys(each.words for each in self.types)))

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


def _plural(words: str) -> str:
    return words if words.endswith("s") else f"{words}s"


def key_of(field: Field, kind: Type | None = None, doc: str = "", **given: Any) -> Key:
    """The key for a field.

    :param kind: the key's type; None for the field's.
    :param doc: a sentence; empty for the field's.
    :param given: attributes of the key in place of the field's.
    """
    attributes: dict[str, Any] = {"unit": field.unit, "alias": field.word}
    if field.kind is FieldKind.DURATION:
        attributes |= {"unit": "", "default": 0.0, "default_words": "none" if field.zero else "0"}
    elif field.kind is FieldKind.NUMBER or (field.kind is FieldKind.TEXT and field.default):
        attributes["default"] = field.default
    doc = (doc or field.doc) + (f" Also called {field.word}." if field.word else "")
    return Key(field.name, kind or _type_of(field), doc, **(attributes | given))


def _type_of(field: Field) -> Type:
    if field.choices:
        return Choice(field.choices)
    match field.kind:
        case FieldKind.DURATION:
            return Duration(none=True)
        case FieldKind.WHOLE:
            return Integer(0, int(field.high))
        case FieldKind.NUMBER:
            return Number(0, field.high)
    return Text()


def keys_from(kind: type, *names: str) -> tuple[Key, ...]:
    """The keys of the settings of a dataclass, with the attributes that the settings give, and what the fields say.

    A key is named after its field, without ``_seconds`` of a duration or ``_bytes`` of a size. The type follows
    from the annotation, and from what `_type_from` takes. The attribute ``absent`` has the documentation's words for
    the default of a key that has no value where it is not written.

    :param names: of fields, whose keys are wanted, in this order; none: all.
    """
    settings = {field.name: field for field in fields(kind) if SETTING in field.metadata}
    return tuple(_key_from(settings[name]) for name in names or settings)


def _key_from(field: dataclasses.Field[Any]) -> Key:
    attributes = dict(field.metadata[SETTING])
    default = field.default if field.default_factory is MISSING else {}
    if "absent" in attributes:
        attributes |= {"default": None, "default_words": attributes.pop("absent")}
    elif default is not MISSING:
        attributes["default"] = default
    of_type = {name: attributes.pop(name) for name in _TYPE_ATTRIBUTES & attributes.keys()}
    kind = attributes.pop("type", None) or _type_from(field, **of_type)
    name = field.name.removesuffix("_bytes")
    if isinstance(kind, Duration):
        name = name.removesuffix("_seconds")
    if isinstance(kind, Size) and isinstance(default, int):
        attributes.setdefault("default_words", f"{default // 2**20}MiB")
    attributes.setdefault("name", name.replace("_", "-"))
    attributes.setdefault("required", not {"default", "default_yaml", "default_words"} & attributes.keys())
    return Key(type=kind, field=field.name, **attributes)


def _type_from(
    field: dataclasses.Field[Any],
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    words: str = "text",
    check: Callable[[str], Any] | None = None,
    path: str = "",
) -> Type:
    """The type of a setting.

    :param low, high: the smallest and the largest number; 0 is the smallest whole number, and the smallest one where
        there is a largest one. A duration without a largest one may be ``none``, which is 0.
    :param choices: the only texts.
    :param words: what messages call a text.
    :param check: of a text.
    :param path: what messages call a path.
    """
    if isinstance(field.default, Enum):
        return Choice.of(type(field.default))
    if choices:
        return Choice(choices)
    annotation = str(field.type).removesuffix(" | None")
    is_whole = annotation in ("int", "tuple[int, ...]")
    if low is None and (is_whole or high is not None):
        low = 0
    text = Path(path, optional=field.default == "") if path else Text(words, check)
    number: Type = (Integer if is_whole else Number)(low, high)
    if field.name.endswith("_bytes"):
        number = Size(int if is_whole else float)
    elif field.name.endswith("_seconds") and field.metadata[SETTING]["unit"] != "seconds":
        number = Duration(low or 0.0, high) if high else Duration(none=True)
    types = {
        "bool": Boolean(), "int": number, "float": number, "tuple[int, ...]": ListOf(number),
        "tuple[str, ...]": ListOf(text), "Mapping[str, str]": MapOf(text),
    }  # fmt: skip
    return types.get(annotation, text)


_TYPE_ATTRIBUTES: Final = frozenset(_type_from.__kwdefaults__ or ())
