"""Labels: templates over facts, their escaping in the text format, and conversions of facts.

Conversions in labels and numbers: ``{pci_address|upper}``, ``{driver_version|nvml}``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha1
from typing import Final

from fakedev.exporters.identity import LabelSpec
from fakedev.fleet.spec.drivers import cuda_of

_VERSION: Final = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})")
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")
#: What names of boards have in them, and their brand.
_BRANDS: Final = (("Tesla", "Tesla"), ("GeForce", "GeForce"), ("Quadro", "Quadro"), ("RTX", "NVIDIA RTX"))


def _packed(version: str, factor: int, scale: int) -> str:
    """A version of two numbers as one: the first by ``factor``, the second by ``scale``; empty for another text."""
    found = _VERSION.fullmatch(version)
    return str(int(found[1]) * factor + int(found[2]) * scale) if found else ""


def _nvml_version(driver: str) -> str:
    """The version of NVML of a driver: the CUDA that it has, then its own version (12.550.163.01)."""
    cuda = cuda_of(driver)
    return "" if cuda is None else f"{cuda.partition('.')[0]}.{driver}".lstrip(".")


def _brand(product: str) -> str:
    """The brand of a board by its name, in the words of nvidia-smi; those of DCGM are unverified."""
    return next((brand for mark, brand in _BRANDS if mark in product), "NVIDIA") if product else ""


def _cuda_number(version: str) -> str:
    """A version of CUDA as one number: 12.4 is 12040."""
    return _packed(version, 1000, 10)


def _compute_number(version: str) -> str:
    """A compute capability as DCGM has it: 9.0 is 9 * 65536."""
    return _packed(version, 65536, 1)


def _only_number(text: str) -> str:
    """The number in a text that has exactly one, as ``200`` of ``H200``; else an empty text."""
    numbers = _NUMBER.findall(text)
    return numbers[0] if len(numbers) == 1 else ""


def _next(text: str) -> str:
    """The number after a whole number, for exporters that count from 1; other texts stay."""
    return str(int(text) + 1) if text.isdecimal() else text


#: By the word after the bar; each is a function from a fact's text.
CHANGES: Final[dict[str, Callable[[str], str]]] = {
    "": str, "upper": str.upper, "lower": str.lower, "dashed": lambda text: text.replace(" ", "-"),
    "number": _only_number, "next": _next, "hex4": lambda text: text.lower().removeprefix("0x").zfill(4),
    "sha1_6": lambda text: sha1(text.encode(), usedforsecurity=False).hexdigest()[:6],
    "nvml": _nvml_version, "brand": _brand, "cuda_number": _cuda_number, "compute_number": _compute_number,
}  # fmt: skip


#: A fact, how it is changed, and before them another fact that is shown as it is where it has a value.
_FIELD: Final = re.compile(r"\{(?:(\w++)\?)?+(\w++)(?:\|(\w++))?+\}")

#: A label of a row, with its escaped value.
_PAIR: Final = re.compile(r'(?<!\w)(\w++)="((?:[^"\\]|\\.)*+)"?+')
_ESCAPED: Final = re.compile(r"\\(.)")


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
            ",".join(filter(None, [common[label] if isinstance(label, int) else label.text(facts) for label in labels]))
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


def signature(labels: str) -> str:
    """By what dcgm-exporter sorts rows from 4.8.3 on: all labels by name, each with lengths in bytes.

    :param labels: ``name="value",...`` as on a page.
    """
    pairs = [(name, _unescaped(value)) for name, value in _PAIR.findall(labels)]
    return "".join(f"{len(name)}:{name}={len(value.encode())}:{value};" for name, value in sorted(pairs))


def _unescaped(value: str) -> str:
    if "\\" not in value:
        return value
    return _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], value)


def escaped(value: str) -> str:
    """A label value, escaped for the text format."""
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return value


def escaped_help(text: str) -> str:
    """A HELP text, escaped for the text format."""
    return text.replace("\\", "\\\\").replace("\n", "\\n")
