"""Whose series are whose: the values of each device over time, with the owner that the labels name."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fakedev.clone.fleet_reader import OF_DEVICES, TELLING, facts_of, row_of
from fakedev.exporters.identity import UNITS, FamilySpec, Identity, RowSpec
from fakedev.exporters.samples import Labels
from fakedev.fleet.entities.randomness import Floats

USAGE: Final = "usage_ratio"
POWER: Final = "power_watts"
MEMORY: Final = "memory_used_bytes"
XID: Final = "xid"
QUANTITIES: Final = (USAGE, POWER, MEMORY, XID)


class Seen(NamedTuple):
    """Samples of a series, or of a part of it.

    :ivar seconds: their times, increasing, since 1970: shape (N,).
    :ivar numbers: shape (N,).
    """

    name: str
    labels: Labels
    seconds: Floats
    numbers: Floats


class Owner(NamedTuple):
    """Who has a device: a pod, or a job of a batch system; all empty: nobody."""

    namespace: str = ""
    pod: str = ""
    batch_job: str = ""


@dataclass(frozen=True)
class Track:
    """A device while it had one owner.

    :ivar device: the node and what tells the device.
    :ivar index: its number on the node; empty where the labels do not tell it.
    :ivar seconds: times of its samples, increasing, since 1970: shape (N,).
    :ivar numbers: by quantity, in its unit, at these times: shape (N,).
    """

    device: tuple[str, str]
    owner: Owner
    seconds: NDArray[np.uint32]
    numbers: Mapping[str, NDArray[np.float32]] = field(repr=False)
    index: str = ""


class Tracks:
    """Collects the series of some exporters.

    :param shown: the families that there are.
    :ivar divided_count: series of instances, which are left out.
    """

    def __init__(self, identities: Iterable[Identity], shown: Collection[str]) -> None:
        self._told = {spec.name: (identity, spec) for identity in identities for spec in _told(identity, shown)}
        self._parts: dict[tuple[tuple[str, str], Owner], dict[str, list[_Piece]]] = {}
        self._indices: dict[tuple[str, str], str] = {}
        self.divided_count = 0

    @property
    def names(self) -> list[str]:
        """The families to read."""
        return sorted(self._told)

    def take(self, seen: Seen) -> None:
        """Take samples; those of families and devices that say nothing here are ignored."""
        if seen.name not in self._told:
            return
        identity, spec = self._told[seen.name]
        labels = dict(seen.labels)
        row = row_of(spec, labels, identity)
        if row is None or not _is_of_board(row):
            return
        facts = facts_of(labels, (*identity.labels_on(row.level), *row.labels))
        telling = next((facts[name] for name in TELLING if facts.get(name)), "")
        if not telling:
            return
        if "mig_id" in facts:
            self.divided_count += 1
            return
        owner = Owner(facts.get("namespace", ""), facts.get("pod", ""), facts.get("hpc_job", ""))
        device = facts.get("node", labels.get("instance", "")), telling
        self._indices[device] = facts.get("index", "")
        numbers = seen.numbers / (UNITS[row.unit] * row.times)
        parts = self._parts.setdefault((device, owner), {})
        # Whole seconds and single precision: a week of thousands of boards is here at once.
        piece = seen.seconds.astype(np.uint32), numbers.astype(np.float32)
        parts.setdefault(row.quantity, []).append(piece)

    def found(self) -> Iterator[Track]:
        """The tracks that have a usage, once; other quantities have their last value before each of its samples."""
        while self._parts:
            (device, owner), parts = self._parts.popitem()
            joined = {quantity: _joined(pieces) for quantity, pieces in parts.items()}
            joined = {quantity: samples for quantity, samples in joined.items() if len(samples[0])}
            if USAGE in joined:
                seconds, _ = joined[USAGE]
                numbers = {
                    quantity: values[np.maximum(np.searchsorted(times, seconds, "right") - 1, 0)]
                    for quantity, (times, values) in joined.items()
                }
                yield Track(device, owner, seconds, numbers, self._indices[device])


def _is_of_board(row: RowSpec) -> bool:
    return row.quantity in QUANTITIES and row.is_plain and row.state_level in OF_DEVICES


def _told(identity: Identity, shown: Collection[str]) -> list[FamilySpec]:
    """For each quantity the family that tells it of whole boards: the first of those with the fewest labels."""
    best: dict[str, tuple[int, FamilySpec]] = {}
    for family in (each for each in identity.families if each.name in shown):
        for row in filter(_is_of_board, family.rows):
            known = best.get(row.quantity)
            if known is None or len(row.labels) < known[0]:
                best[row.quantity] = len(row.labels), family
    return [family for _, family in best.values()]


_Piece = tuple[NDArray[np.uint32], NDArray[np.float32]]


def _joined(pieces: Sequence[_Piece]) -> _Piece:
    """The samples of pieces in the order of their times; NaN, as of a stale series, is none."""
    times = np.concatenate([each for each, _ in pieces])
    values = np.concatenate([each for _, each in pieces])
    order = np.argsort(times, kind="stable")
    order = order[np.isfinite(values[order])]
    return times[order], values[order]


def selector(match: str, name: str) -> str:
    """The selector of one family.

    :param match: of all series, in braces.
    :raises ValueError: for one of another form.
    """
    inner = match.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        raise ValueError(f"--match: {match!r} is not in braces, as '{{job=\"dcgm\"}}'")
    return f"{{__name__={json.dumps(name)},{inner[1:]}"
