"""Label texts of rows: templates over facts, and the escaping of the text format."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha1
from typing import Final

from fakedev.exposition.identity import LabelSpec

_FIELD: Final = re.compile(r"\{(\w+)(?:\|(\w+))?\}")
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")


def _only_number(text: str) -> str:
    """The number in a text that has exactly one, as ``200`` of ``H200``; else an empty text."""
    numbers = _NUMBER.findall(text)
    return numbers[0] if len(numbers) == 1 else ""


def _next(text: str) -> str:
    """The number after a whole number, for exporters that count from 1; other texts stay."""
    return str(int(text) + 1) if text.isdecimal() else text


_CHANGES: Final[dict[str, Callable[[str], str]]] = {
    "": str, "upper": str.upper, "lower": str.lower, "dashed": lambda text: text.replace(" ", "-"),
    "number": _only_number, "next": _next, "hex4": lambda text: text.lower().removeprefix("0x").zfill(4),
    "sha1_6": lambda text: sha1(text.encode(), usedforsecurity=False).hexdigest()[:6],
}  # fmt: skip


@dataclass(frozen=True)
class Template:
    """A text with fields ``{fact}``, or ``{fact|upper}``, ``{fact|lower}``, ... for changed facts.

    :ivar facts: the facts that it needs.
    :ivar fields: the fact of each field, and how it is changed.
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
                raise ValueError(f"{match[0]}: {match[2]!r} is none of {', '.join(filter(None, _CHANGES))}")
        if "{" in _FIELD.sub("", text) or "}" in _FIELD.sub("", text):
            raise ValueError(f"{text!r} has a brace that is no {{fact}}")
        fields = tuple((match[1], _CHANGES[match[2] or ""]) for match in _FIELD.finditer(text))
        pattern = _FIELD.sub("%s", text.replace("%", "%%"))
        return cls(text, tuple(dict.fromkeys(fact for fact, _ in fields)), fields, pattern)

    def value(self, facts: Mapping[str, str]) -> str:
        """The text with the facts filled in; a fact that is missing is empty."""
        return self.pattern % tuple([change(facts.get(fact, "")) for fact, change in self.fields])

    def is_empty(self, facts: Mapping[str, str]) -> bool:
        """Whether a needed fact is missing or empty."""
        return not all(facts.get(fact) for fact in self.facts)


class Labels:
    """The labels of an entity's kinds of rows.

    :param common: labels of all kinds.
    :param kinds: each kind's own labels, which follow the common ones unless all are sorted.
    :param sort: whether labels are sorted by name.
    :param leading: how many of the common labels stay in front of the sorted ones.
    """

    def __init__(
        self,
        common: Sequence[LabelSpec],
        kinds: Sequence[Sequence[LabelSpec]] = ((),),
        sort: bool = False,
        leading: int = 0,
    ) -> None:
        self._common = [_Label(spec) for spec in common]
        #: Each kind's labels in order: own ones, and indices of common ones; the last index means all of them.
        self._kinds: list[list[int | _Label]] = []
        for own in kinds:
            if not sort:
                self._kinds.append([len(common), *map(_Label, own)])
                continue
            every: dict[str, int | _Label] = {spec.name: place for place, spec in enumerate(common)}
            every |= {spec.name: _Label(spec) for spec in own}
            names = list(every)
            in_front = sorted(spec.name for spec in own if spec.leading)
            rest = sorted(set(names[leading:]).difference(in_front))
            self._kinds.append([every[name] for name in names[:leading] + in_front + rest])

    def texts(self, facts: Mapping[str, str]) -> list[str]:
        """``name="value",...`` for each kind of row of an entity, without optional labels that have no value."""
        common = [label.text(facts) for label in self._common]
        common.append(",".join(filter(None, common)))
        return [
            ",".join(filter(None, [common[each] if isinstance(each, int) else each.text(facts) for each in labels]))
            for labels in self._kinds
        ]


class _Label:
    """One label with its parsed template."""

    def __init__(self, spec: LabelSpec) -> None:
        self._spec = spec
        self._template = Template.parse(spec.value)
        self._texts = dict(spec.texts)
        #: The fact that is the whole value; true of most labels.
        self._fact = self._template.facts[0] if spec.value in {f"{{{fact}}}" for fact in self._template.facts} else ""
        self._fixed = None if self._template.facts else self._written(spec.value)

    def text(self, facts: Mapping[str, str]) -> str:
        """``name="value"``; empty for an optional label without a value."""
        if self._fixed is not None:
            return self._fixed
        if self._fact:
            value = facts.get(self._fact, "")
            return self._written(value) if value or not self._spec.optional else ""
        if self._spec.optional and self._template.is_empty(facts):
            return ""
        return self._written(self._template.value(facts))

    def _written(self, value: str) -> str:
        text = self._texts.get(value, self._spec.otherwise) if self._texts else value
        return f'{self._spec.name}="{escaped(text)}"'


def escaped(value: str) -> str:
    """A label value, escaped for the text format."""
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return value


def escaped_help(text: str) -> str:
    """A HELP text, escaped for the text format."""
    return text.replace("\\", "\\\\").replace("\n", "\\n")
