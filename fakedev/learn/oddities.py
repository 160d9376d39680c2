"""What goes wrong with boards and exporters: gaps, resets, families that nodes do not have, values that are stuck.

Each becomes a fault of the configuration.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import numpy as np

from fakedev.clone.fleet_reader import OF_DEVICES, OF_PARTS, TELLING, is_of_owner
from fakedev.exporters.identity import UNITS, Identity, RowSpec
from fakedev.exporters.samples import Labels
from fakedev.fleet.cluster.jobs import CAUSES
from fakedev.fleet.entities.randomness import Floats
from fakedev.learn.tracks import OWNERS, POWER, USAGE, Seen, Track
from fakedev.learn.usage_fit import HOUR, Window

#: A sample is the next one when it comes within this many usual times between two.
_NEXT: Final = 1.5
#: A time without samples is a gap from this number of steps on.
_GAP_STEPS: Final = 2.5
#: A value is stuck when it is the same in this number of samples, while the other one moves.
_LEAST_STUCK: Final = 60
ENERGY: Final = "energy_joules"
#: What takes clock away, as a report names it.
THROTTLES: Final[Mapping[str, str]] = {
    "throttled_power_seconds": "throttled by power, % of the time",
    "throttled_thermal_seconds": "throttled by heat, % of the time",
}
COUNTED: Final = (ENERGY, *THROTTLES)
#: Facts that a board may have or not, and those that tell it from others.
_OF_SOME: Final = OF_PARTS | {*TELLING, *OWNERS, "node", "process", "pid"}
_MOVES: Final[Mapping[str, float]] = {USAGE: 0.1, POWER: 20.0}


def share_of_failures(*kinds: str) -> float:
    """The share of the failures of a living cluster that are faults of some kinds."""
    return sum(cause.weight for cause in CAUSES if cause.fault in kinds) / sum(cause.weight for cause in CAUSES)


def gaps(tracks: Iterable[Track], window: Window, failures: float = 0.0) -> list[dict[str, Any]]:
    """The fault of exporters that are away now and then: no sample of any board of a node.

    Where all nodes have none, nobody has scraped them.

    :param failures: how many of a cluster's nodes have failed, which bring as many of these times anyhow.
    """
    times: dict[str, list[Floats]] = defaultdict(list)
    for track in tracks:
        times[track.device[0]].append(track.seconds.astype(np.float64))
    seen = {node: np.unique(np.concatenate(parts)) for node, parts in times.items()}
    if not seen:
        return []
    every = np.unique(np.concatenate([*seen.values()]))
    found: list[float] = []
    hours = 0.0
    for own in seen.values():
        hours += float(own[-1] - own[0]) / HOUR
        away = np.flatnonzero(np.diff(own) > _GAP_STEPS * window.step)
        for begin, end in zip(own[away].tolist(), own[away + 1].tolist(), strict=True):
            # The samples of the others say how long of that somebody scraped.
            missing = int(((every > begin) & (every < end)).sum())
            if missing:
                found.append(missing * window.step)
    more = len(found) - failures
    if more <= 0:
        return []
    # Each node is drawn anew for every such time, and is away for all of it.
    lasts = float(np.median(found))
    return [_repeated("error-page", lasts, more / hours * lasts / HOUR)]


def resets(count: int, hours: float, failures: int) -> list[dict[str, Any]]:
    """The fault of boards that are reset.

    :param count: falls of counters that a reset sets to zero.
    :param hours: boards times hours.
    :param failures: XIDs, after which boards are reset anyhow.
    """
    more = count - failures
    return [_repeated("reset", HOUR, more / hours)] if hours and more >= max(1.0, 0.5 * count) else []


def _repeated(kind: str, every_seconds: float, probability: float) -> dict[str, Any]:
    return {
        "kind": kind, "devices": "all", "every": f"{every_seconds:.0f}s",
        "probability": float(f"{min(probability, 1.0):.3g}"),
    }  # fmt: skip


def stuck(tracks: Iterable[Track], word_of: Callable[[Track], str]) -> list[dict[str, Any]]:
    """The faults of boards whose usage moves while their power is always the same, or the reverse."""
    boards: dict[str, list[Track]] = defaultdict(list)
    for track in tracks:
        if track.is_placed and USAGE in track.numbers and POWER in track.numbers:
            boards[word_of(track)].append(track)
    found = []
    for word, own in boards.items():
        for still, moving in ((POWER, USAGE), (USAGE, POWER)):
            one, other = (np.concatenate([track.numbers[each] for track in own]) for each in (still, moving))
            if len(one) >= _LEAST_STUCK and np.ptp(one) == 0.0 and np.ptp(other) > _MOVES[moving]:
                value = float(f"{one[0]:.6g}")
                found.append({"kind": "sentinel", "metric": still, "devices": [word], "value": value})
    return found


def missing(shown: Mapping[str, set[str]], alike: Mapping[str, object]) -> list[dict[str, Any]]:
    """The faults of nodes without a family that half of their kind have.

    :param shown: the nodes of each family.
    :param alike: what nodes have in common, by node.
    """
    of_kind: dict[object, set[str]] = defaultdict(set)
    for node, kind in alike.items():
        of_kind[kind].add(node)
    found: dict[str, set[str]] = {}
    for family, nodes in shown.items():
        without = {node for kind in of_kind.values() if 2 * len(kind & nodes) >= len(kind) for node in kind - nodes}
        if without:
            found[family] = without
    return [
        {"kind": "absent", "metric": family, "devices": [f"{node}/*" for node in sorted(without)]}
        for family, without in sorted(found.items())
    ]


def lacking(shown: Mapping[object, Mapping[str, set[str]]]) -> dict[str, dict[str, str]]:
    """The facts of nodes without a label that half of the nodes of their exporter have: none, as pools have it.

    :param shown: by exporter, the facts that the labels of each node show.
    """
    found: dict[str, dict[str, str]] = {}
    for nodes in shown.values():
        counts = Counter(fact for facts in nodes.values() for fact in facts)
        usual = {fact for fact, count in counts.items() if 2 * count >= len(nodes)} - _OF_SOME
        usual = {fact for fact in usual if not is_of_owner(fact)}
        found |= {node: dict.fromkeys(sorted(usual - facts), "") for node, facts in nodes.items() if usual - facts}
    return found


class Counters:
    """Collects counters of boards: of resets, and of the time in which something took clock away.

    :param shown: the families that there are.
    """

    def __init__(self, identities: Iterable[Identity], shown: Collection[str]) -> None:
        self._rows: dict[str, RowSpec] = {}
        for family in (family for identity in identities for family in identity.families):
            row = family.rows[0]
            is_one = family.name in shown and len(family.rows) == 1 and row.is_plain and row.state_level in OF_DEVICES
            is_known = any(row.quantity == each.quantity for each in self._rows.values())
            if is_one and row.quantity in COUNTED and not is_known:
                self._rows[family.name] = row
        self._series: dict[tuple[str, str, Labels], list[Seen]] = defaultdict(list)

    @property
    def names(self) -> list[str]:
        """The families to read."""
        return sorted(self._rows)

    def take(self, seen: Seen) -> None:
        """Take samples; a series goes on when its board has another owner."""
        labels = tuple(label for label in seen.labels if label[0] not in OWNERS)
        self._series[seen.name, seen.target, labels].append(seen)

    def watched(self, quantity: str) -> tuple[float, int, float]:
        """How much the counters of a quantity have risen, how often they fell from one sample to the next, and in how
        many seconds; of all boards.
        """
        risen, fallen, seconds = 0.0, 0, 0.0
        for (name, _, _), parts in self._series.items():
            row = self._rows[name]
            if row.quantity == quantity:
                times, places = np.unique(np.concatenate([part.seconds for part in parts]), return_inverse=True)
                numbers = np.full(len(times), -np.inf)
                # The series of the last owner is seen for a step more: of two values the higher one is newer.
                np.maximum.at(numbers, places, np.nan_to_num(np.concatenate([part.numbers for part in parts])))
                steps = np.diff(numbers) / (UNITS[row.unit] * row.times)
                risen += float(steps[steps > 0].sum())
                # After a gap, as of a node that was down, everything begins anew.
                between = np.diff(times)
                fallen += int(((steps < 0) & (between <= _NEXT * np.median(between))).sum() if len(between) else 0)
                seconds += float(times[-1] - times[0])
        return risen, fallen, seconds
