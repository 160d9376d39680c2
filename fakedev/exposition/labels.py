"""Label texts of rows: templates over facts, and the escaping of the text format."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from fakedev.exposition.fact_changes import CHANGES
from fakedev.exposition.identity import LabelSpec

#: A fact, how it is changed, and before them another fact that is shown as it is where it has a value.
_FIELD: Final = re.compile(r"\{(?:(\w++)\?)?+(\w++)(?:\|(\w++))?+\}")


@dataclass(frozen=True)
class Template:
    """A text with fields ``{fact}``, or ``{fact|upper}``, ``{fact|lower}``, ... for changed facts.

    ``{own?fact|nvml}`` is the fact ``own`` where it has a value, else the other one, changed.

    :ivar facts: the facts that it needs.
    :ivar fields: of each field the fact that goes before, empty for none; the fact, and how it is changed.
    :ivar pattern: the text with ``%s`` for each field.
    """

    text: str
    facts: tuple[str, ...]
    fields: tuple[tuple[str, str, Callable[[str], str]], ...]
    pattern: str

    @classmethod
    def parse(cls, text: str) -> Template:
        """The template of a text.

        :raises ValueError: for a brace that is no field, or an unknown change after the bar.
        """
        return _parsed(text)

    def value(self, facts: Mapping[str, str]) -> str:
        """The text with the facts filled in; a fact that is missing is empty."""
        texts = [facts.get(own) or change(facts.get(fact, "")) for own, fact, change in self.fields]
        return self.pattern % tuple(texts)

    def is_empty(self, facts: Mapping[str, str]) -> bool:
        """Whether a needed fact is missing or empty."""
        return not all(facts.get(fact) for fact in self.facts)


@lru_cache(maxsize=256)
def _parsed(text: str) -> Template:
    """Templates are read again and again: those of common labels for each row, and at each reload."""
    for match in _FIELD.finditer(text):
        if (match[3] or "") not in CHANGES:
            raise ValueError(f"{match[0]}: {match[3]!r} is none of {', '.join(filter(None, CHANGES))}")
    if "{" in _FIELD.sub("", text) or "}" in _FIELD.sub("", text):
        raise ValueError(f"{text!r} has a brace that is no {{fact}}")
    fields = tuple((match[1] or "", match[2], CHANGES[match[3] or ""]) for match in _FIELD.finditer(text))
    pattern = _FIELD.sub("%s", text.replace("%", "%%"))
    return Template(text, tuple(dict.fromkeys(fact for _, fact, _ in fields)), fields, pattern)


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
        if self._spec.only_with and not facts.get(self._spec.only_with):
            return ""
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
