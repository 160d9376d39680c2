"""Whose series are whose: the values of each device over time, with the owner that the labels name."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fakedev.clone.fleet_reader import OF_DEVICES, TELLING, facts_of, row_of
from fakedev.exporters.identity import UNITS, FamilySpec, Identity, RowSpec
from fakedev.exporters.samples import Labels
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.spec.xids import Xid

USAGE: Final = "usage_ratio"
POWER: Final = "power_watts"
MEMORY: Final = "memory_used_bytes"
XID: Final = "xid"
TEMPERATURE: Final = "temperature_celsius"
#: Usage of instances, and of boards whose exporter shows no other.
ENGINES: Final = "engine_active_ratio"
#: Labels of whoever has a device: a series goes on when they change.
OWNERS: Final = frozenset(("pod", "namespace", "container", "hpc_job", "pod_uid", "uid", "job_id"))
_UNIT: Final = "{unit?index}"
#: An XID that was not shown for longer is another one.
_AWAY_SECONDS: Final = 300.0
QUANTITIES: Final = (USAGE, POWER, MEMORY, XID, TEMPERATURE)


class Seen(NamedTuple):
    """Samples of a series, or of a part of it.

    :ivar seconds: their times, increasing, since 1970: shape (N,).
    :ivar numbers: shape (N,).
    :ivar target: whose page they are from; empty: not known.
    """

    name: str
    labels: Labels
    seconds: Floats
    numbers: Floats
    target: str = ""


class Owner(NamedTuple):
    """Who has a device: a pod, or a job of a batch system; all empty: nobody."""

    namespace: str = ""
    pod: str = ""
    batch_job: str = ""


@dataclass(frozen=True)
class Track:
    """A device while it had one owner.

    :ivar device: the node, as the fleet names it, and what tells the device.
    :ivar index: its number on the node, of an instance with the number of the instance on the board (``0/2``); empty
        where the labels do not tell it.
    :ivar seconds: times of its samples, increasing, since 1970: shape (N,).
    :ivar numbers: by quantity, in its unit, at these times: shape (N,).
    """

    device: tuple[str, str]
    owner: Owner
    seconds: NDArray[np.uint32]
    numbers: Mapping[str, NDArray[np.float32]] = field(repr=False)
    index: str = ""

    @property
    def is_instance(self) -> bool:
        """Whether it is an instance of a divided board."""
        return "/" in self.index

    @property
    def is_placed(self) -> bool:
        """Whether its number on the node is known."""
        return all(part.isdecimal() for part in self.index.split("/"))


NodeOf = Callable[[Mapping[str, str], str], str]


def shown_node(facts: Mapping[str, str], target: str) -> str:
    """The node that the labels name; if they name none, the target."""
    return facts.get("node") or target


class Tracks:
    """Collects the series of some exporters.

    :param shown: the families that there are.
    :param node_of: returns the name of a node, of its labels' facts and its target.
    :param is_divided: whether there are instances of boards.
    """

    def __init__(
        self, identities: Iterable[Identity], shown: Collection[str], node_of: NodeOf = shown_node, *,
        is_divided: bool = False,
    ) -> None:  # fmt: skip
        self._node_of = node_of
        self._is_divided = is_divided
        self._told = {
            spec.name: (identity, spec) for identity in identities
            for spec in _told(identity, shown, is_divided=is_divided)
        }  # fmt: skip
        self._parts: dict[tuple[tuple[str, str], Owner], dict[str, list[_Piece]]] = {}
        self._indices: dict[tuple[str, str], str] = {}
        #: The instances of each board, by their ids.
        self._instances: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
        self._begin = math.inf
        self._xids: dict[tuple[str, str], list[_Piece]] = defaultdict(list)
        self._heat: dict[tuple[str, str], list[_Piece]] = defaultdict(list)
        self._is_usage_shown = any(
            row.quantity == USAGE for _, spec in self._told.values() for row in spec.rows
        )

    @property
    def names(self) -> list[str]:
        """The families to read, but for those of :attr:`mean_names`."""
        return sorted(self._told.keys() - self.mean_names)

    @property
    def mean_names(self) -> list[str]:
        """The families of which the mean is used: fewer samples do."""
        told = ((name, row) for name, (_, spec) in self._told.items() for row in spec.rows)
        return sorted({name for name, row in told if row.quantity == TEMPERATURE})

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
        quantity = row.quantity
        owner = Owner(facts.get("namespace", ""), facts.get("pod", ""), facts.get("hpc_job", ""))
        device = self._node_of(facts, seen.target), telling
        if "mig_id" in facts:
            # Power and errors are the board's.
            if quantity not in (ENGINES, MEMORY):
                return
            board, device = device, (device[0], f"{telling}/{facts['mig_id']}")
            self._instances.setdefault(board, {})[facts["mig_id"]] = device
        elif quantity == ENGINES and self._is_usage_shown:
            return
        self._indices[device] = facts.get("index", "") or self._index(identity, labels)
        self._begin = min(self._begin, float(seen.seconds[0]))
        numbers = seen.numbers / (UNITS[row.unit] * row.times)
        # Whole seconds and single precision: a week of thousands of boards is here at once.
        piece = seen.seconds.astype(np.uint32), numbers.astype(np.float32)
        if quantity == TEMPERATURE:
            self._heat[device].append(piece)
            return
        parts = self._parts.setdefault((device, owner), {})
        parts.setdefault(USAGE if quantity == ENGINES else quantity, []).append(piece)

    def _index(self, identity: Identity, labels: Mapping[str, str]) -> str:
        """The number of a board where a label has that of units: on boards that are not divided they are the same."""
        names = (label.name for label in identity.labels if label.value == _UNIT and not self._is_divided)
        return next((labels.get(name, "") for name in names), "")

    def found(self) -> Iterator[Track]:
        """The tracks that have a usage, once; other quantities have their last value before each of its samples."""
        for instances in self._instances.values():
            for number, mig_id in enumerate(sorted(instances, key=lambda each: (len(each), each))):
                self._indices[instances[mig_id]] += f"/{number}"
        self._instances.clear()
        while self._parts:
            (device, owner), parts = self._parts.popitem()
            joined = {quantity: _joined(pieces) for quantity, pieces in parts.items()}
            joined = {quantity: samples for quantity, samples in joined.items() if len(samples[0])}
            if XID in joined:
                self._xids[device].append(joined[XID])
            if USAGE in joined:
                seconds, _ = joined[USAGE]
                numbers = {
                    quantity: values[np.maximum(np.searchsorted(times, seconds, "right") - 1, 0)]
                    for quantity, (times, values) in joined.items()
                }
                yield Track(device, owner, seconds, numbers, self._indices[device])

    @property
    def temperatures(self) -> dict[tuple[str, str], tuple[Floats, Floats]]:
        """The temperatures of boards, whoever had them: times, seconds since 1970, and degrees Celsius, shape (N,)."""
        joined = {device: _joined(pieces) for device, pieces in self._heat.items()}
        return {
            device: (times.astype(np.float64), values.astype(np.float64))
            for device, (times, values) in joined.items() if len(values)
        }  # fmt: skip

    @property
    def xid_count(self) -> int:
        """Changes of the last XID of boards, once :meth:`found` is over.

        An XID ends work, so that it comes with another owner; and a board that is lost shows nothing else.
        """
        boards = [_joined(pieces) for pieces in self._xids.values()]
        # Exporters show 0 of boards without an error, or nothing.
        is_always_shown = any((xid == 0).any() for _, xid in boards)
        count = 0
        for times, xid in boards:
            is_new = np.concatenate([times[:1] > self._begin + _AWAY_SECONDS, np.diff(times) > _AWAY_SECONDS])
            if is_always_shown:
                is_new[:] = False
            is_new[1:] |= xid[1:] != xid[:-1]
            count += int((is_new & (xid > 0)).sum())
        return count

    @property
    def lost_seconds(self) -> list[float]:
        """For how long boards were lost, each time: as long as that was their XID."""
        found = []
        for pieces in self._xids.values():
            times, xid = _joined(pieces)
            times = times[xid == Xid.FALLEN_OFF]
            for run in np.split(times, np.flatnonzero(np.diff(times) > _AWAY_SECONDS) + 1):
                if len(run) > 1:
                    found.append(float(np.ptp(run)))
        return found


def _is_of_board(row: RowSpec) -> bool:
    return row.quantity in (*QUANTITIES, ENGINES) and row.is_plain and row.state_level in OF_DEVICES


def _told(identity: Identity, shown: Collection[str], *, is_divided: bool) -> list[FamilySpec]:
    """The family that shows each quantity of whole boards: the first of those with the fewest labels.

    That of the engines only where it is needed.
    """
    best: dict[str, tuple[int, FamilySpec]] = {}
    for family in (candidate for candidate in identity.families if candidate.name in shown):
        for row in filter(_is_of_board, family.rows):
            known = best.get(row.quantity)
            if known is None or len(row.labels) < known[0]:
                best[row.quantity] = len(row.labels), family
    if USAGE in best and not is_divided:
        best.pop(ENGINES, None)
    return [family for _, family in best.values()]


_Piece = tuple[NDArray[np.uint32], NDArray[np.float32]]


def _joined(pieces: Sequence[_Piece]) -> _Piece:
    """The samples of pieces in the order of their times; NaN, as of a stale series, is none."""
    times = np.concatenate([piece_times for piece_times, _ in pieces])
    values = np.concatenate([piece_values for _, piece_values in pieces])
    order = np.argsort(times, kind="stable")
    order = order[np.isfinite(values[order])]
    return times[order], values[order]


def selector(match: str, label: str, text: str) -> str:
    """The selector of those series that have a text at a label, too.

    :param match: of all series, in braces; empty for all.
    :raises ValueError: for one of another form.
    """
    inner = match.strip() or "{}"
    if not (inner.startswith("{") and inner.endswith("}")):
        raise ValueError(f"--match: {match!r} is not in braces, as '{{job=\"dcgm\"}}'")
    return f"{{{label}={json.dumps(text)},{inner[1:]}"
