"""Settings declared at the fields of frozen values: the configuration makes keys and documents from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

_METADATA: Final = "setting"


@dataclass(frozen=True)
class Setting:
    """What the configuration says of a field; its key has the name of the field.

    :param doc: one or two sentences: what it is for.
    :param unit: of its number, for the documentation.
    :param high: the largest value, where one is checked; a duration without one may be ``none``, which is 0.
    """

    doc: str
    unit: str = ""
    high: float = 0.0


def setting(doc: str, unit: str = "", default: object = None, high: float = 0.0) -> Any:
    """A field of a dataclass that is a setting, with its default."""
    return field(default=default, metadata=described(doc, unit, high))


def described(doc: str, unit: str = "", high: float = 0.0) -> Mapping[str, Setting]:
    """The metadata of a field that is a setting: of one without default."""
    return {_METADATA: Setting(doc, unit, high)}


def settings_of(kind: type) -> dict[str, tuple[Setting, Any]]:
    """The settings of a dataclass with their defaults (MISSING for none), by the names of their fields, in order."""
    return {each.name: (each.metadata[_METADATA], each.default) for each in fields(kind) if _METADATA in each.metadata}
