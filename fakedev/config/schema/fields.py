"""Keys for what :mod:`fakedev.spec` declares: fields of requests (``fields``), settings of frozen values."""

from __future__ import annotations

from typing import Any

from fakedev.config.schema.schema import Key, Type
from fakedev.config.schema.types import Choice, Duration, Integer, Number, Size, Text
from fakedev.spec.fields import Field, FieldKind
from fakedev.spec.settings import settings_of


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


def keys_from(kind: type) -> tuple[Key, ...]:
    """The keys of a dataclass whose settings are texts, whole numbers, seconds and bytes.

    The key is the name of the field without its unit: ``grace`` for ``grace_seconds``.
    """
    keys = []
    for name, (setting, default) in settings_of(kind).items():
        if name.endswith("_bytes"):
            key = name.removesuffix("_bytes").replace("_", "-")
            keys.append(Key(key, Size(), setting.doc, default=default, default_words=f"{default // 2**20}MiB"))
            continue
        if isinstance(default, str):
            keys.append(Key(name.replace("_", "-"), Text(), setting.doc, default=default, default_words="none"))
            continue
        is_duration = name.endswith("_seconds")
        number = Duration(most=setting.high) if setting.high else Duration(none=True)
        keys.append(
            Key(
                name.removesuffix("_seconds").replace("_", "-"),
                number if is_duration else Integer(0, int(setting.high)),
                setting.doc,
                default=default,
            )
        )
    return tuple(keys)
