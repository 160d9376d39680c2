"""The samples of a page of metrics, for assertions in tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, SupportsIndex, overload

from fakedev.exporters.samples import Row, read_lines

#: Samples that an error shows.
_SHOWN_SAMPLES: Final = 5


class Sample(NamedTuple):
    """One line of a page.

    :ivar timestamp: as the page has it: in milliseconds (text format), or in seconds (OpenMetrics); None without one.
    """

    name: str
    labels: Mapping[str, str]
    value: float
    timestamp: float | None = None

    def __str__(self) -> str:
        return f"{self.name}{{{', '.join(f'{name}={value!r}' for name, value in self.labels.items())}}} {self.value:g}"


class Samples(tuple[Sample, ...]):
    """The samples of a page, in its order."""

    @overload
    def __getitem__(self, place: SupportsIndex) -> Sample: ...
    @overload
    def __getitem__(self, place: slice) -> Samples: ...
    def __getitem__(self, place: SupportsIndex | slice) -> Sample | Samples:
        return Samples(super().__getitem__(place)) if isinstance(place, slice) else super().__getitem__(place)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that there are, each once, in the order of the page."""
        return tuple(dict.fromkeys(sample.name for sample in self))

    def find(self, name: str, /, **labels: object) -> Samples:
        """The samples of that name that have these labels, and perhaps more. A number is compared as its text."""
        wanted = [(label, str(value)) for label, value in labels.items()]
        return Samples([
            sample for sample in self
            if sample.name == name and all(sample.labels.get(label) == value for label, value in wanted)
        ])  # fmt: skip

    def value(self, name: str, /, **labels: object) -> float:
        """The value of the only sample of that name that has these labels.

        :raises LookupError: when there is none, or more than one; the text says what there is.
        """
        found = self.find(name, **labels)
        if len(found) == 1:
            return found[0].value
        asked = f"{name} with {labels}" if labels else name
        if found:
            shown = "; ".join(map(str, found[:_SHOWN_SAMPLES]))
            raise LookupError(f"{len(found)} samples are {asked}: give more labels. The first: {shown}")
        of_name = self.find(name)
        if of_name:
            raise LookupError(f"no sample is {asked}. The first of that name: {of_name[0]}")
        raise LookupError(f"no sample is {name}: the page has {len(self)} samples of {len(self.names)} names")


def read_samples(page: bytes | str) -> Samples:
    """The samples of a page in the text format 0.0.4, or in OpenMetrics (without exemplars).

    :raises ValueError: for a line that is neither a comment nor a sample, with its number.
    """
    rows = (line for _, line in read_lines(page) if isinstance(line, Row))
    return Samples([
        Sample(row.name, dict(row.labels), float(row.number), None if row.time is None else float(row.time))
        for row in rows
    ])  # fmt: skip
