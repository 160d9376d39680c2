"""Label text of rows: templates over facts, and the escaping of the text format."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fakedev.exposition.identity import LabelSpec

_FIELD: Final = re.compile(r"\{(\w+)(?:\|(\w+))?\}")
_CHANGES: Final[dict[str, Callable[[str], str]]] = {"": str, "upper": str.upper, "lower": str.lower}


@dataclass(frozen=True)
class Template:
    """A label's value as text with ``{fact}``, ``{fact|upper}`` and ``{fact|lower}`` in it.

    :ivar facts: the facts it needs.
    :ivar fields: the fact of each field, and the change it is shown with.
    :ivar pattern: the text with ``%s`` for each field.
    """

    text: str
    facts: tuple[str, ...]
    fields: tuple[tuple[str, Callable[[str], str]], ...]
    pattern: str

    @classmethod
    def parse(cls, text: str) -> Template:
        """The template of a text.

        :raises ValueError: for a brace that is no field, or an unknown change after the bar.
        """
        for match in _FIELD.finditer(text):
            if (match[2] or "") not in _CHANGES:
                raise ValueError(f"{match[0]}: {match[2]!r} is not upper or lower")
        if "{" in _FIELD.sub("", text) or "}" in _FIELD.sub("", text):
            raise ValueError(f"{text!r} has a brace that is no {{fact}}")
        fields = tuple((match[1], _CHANGES[match[2] or ""]) for match in _FIELD.finditer(text))
        pattern = _FIELD.sub("%s", text.replace("%", "%%"))
        return cls(text, tuple(dict.fromkeys(fact for fact, _ in fields)), fields, pattern)

    def value(self, facts: Mapping[str, str]) -> str:
        """The text with the facts filled in; a fact that is missing is empty."""
        return self.pattern % tuple([change(facts.get(fact, "")) for fact, change in self.fields])

    def is_empty(self, facts: Mapping[str, str]) -> bool:
        """Whether a fact that it needs is missing or empty."""
        return not all(facts.get(fact) for fact in self.facts)


class Labels:
    """The labels of a kind of row: one text per entity."""

    def __init__(self, specs: Sequence[LabelSpec], sort: bool = False, leading: int = 0) -> None:
        ordered = list(specs[:leading]) + (
            sorted(specs[leading:], key=lambda spec: spec.name) if sort else list(specs[leading:])
        )
        self._labels = [(spec, Template.parse(spec.value), dict(spec.texts)) for spec in ordered]

    def text(self, facts: Mapping[str, str]) -> str:
        """``name="value",...`` of an entity with these facts; optional labels without a value left out."""
        return ",".join(
            f'{spec.name}="{escaped(_said(template.value(facts), spec, texts))}"'
            for spec, template, texts in self._labels
            if not (spec.optional and template.is_empty(facts))
        )


def _said(value: str, spec: LabelSpec, texts: Mapping[str, str]) -> str:
    return texts.get(value, spec.otherwise) if texts else value


def escaped(value: str) -> str:
    """A label value as the text format wants it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def escaped_help(text: str) -> str:
    """A HELP text as the text format wants it."""
    return text.replace("\\", "\\\\").replace("\n", "\\n")
