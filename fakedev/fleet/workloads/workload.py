"""One workload of a fleet: its numbers in the table, and the verdict at its end.

The numbers are packed when the workload is accepted. A tick in which thousands of workloads start only joins these
rows: work of microseconds for each workload, e.g. its keys and the length of its profile, is done when its event
arrives.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fakedev.fleet.entities.state import Positions
from fakedev.fleet.spec.fleet_spec import Cost
from fakedev.fleet.spec.limits import entity_key
from fakedev.fleet.spec.workload_spec import FOREVER, WorkloadSpec

#: The codes and texts of known ends.
ENDS: Final = ((0, "OK"), (0, "time to live is over"), (1, "Limit run-time reached, terminated"))
_PROFILE_IS_OVER, _TIME_TO_LIVE, _RUN_TIME_LIMIT = range(len(ENDS))

#: The beginnings of workload ids: of churn, of the cluster's jobs, of the configuration.
CHURN_PREFIX: Final = "churn-"
CLUSTER_PREFIX: Final = "cluster-"
CONFIGURATION_PREFIX: Final = "base-"


class Verdict(NamedTuple):
    """The result of a workload that ended, for its peer: a tuple, because thousands are made in one tick.

    :ivar devices: that it had; verdicts that differ only in them, or in what follows, are equal.
    :ivar pod: whose it was; empty for none.
    :ivar detail: of a limit: reading, limit and device; else empty. Peers do not get it.
    """

    workload_id: str
    name: str
    code: int
    text: str
    devices: Positions = np.zeros(0, dtype=np.int64)
    pod: str = ""
    detail: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Verdict) and self[:4] == other[:4]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self[:4])


class Ending(NamedTuple):
    """A known end: seconds after the start, and the position of the verdict's code and text in ENDS."""

    seconds: float
    end: int


class Limit(NamedTuple):
    """A limit of a workload on the quantity of a metric.

    :ivar metric: as the workload named it.
    :ivar factor: from the quantity's unit to the metric's.
    :ivar value: in the metric's unit; a higher value ends the workload.
    """

    metric: str
    quantity: str
    factor: float
    value: float


@dataclass(slots=True)
class Workload:
    """A workload that was accepted.

    :ivar start_seconds: simulated time of its start; None until the next tick begins.
    :ivar key: of its randomness, by default its id: the same in every shard that has devices of it.
    :ivar cost: what it takes of the limits.
    :ivar peer: whose limits these are; None or empty: no single peer's.
    :ivar row: its numbers in the table, see :mod:`fakedev.fleet.workloads.workload`.
    """

    workload_id: str
    spec: WorkloadSpec
    devices: Positions
    limits: tuple[Limit, ...] = ()
    start_seconds: float | None = None
    key: str = ""
    cost: Cost = field(default_factory=Cost)
    peer: object | None = None
    row: bytes = b""

    def __post_init__(self) -> None:
        self.key = self.key or self.workload_id

    @property
    def profile_seconds(self) -> float:
        """Seconds of the profile with its repeats: simulated time, or work."""
        activities = self.spec.activities
        once = activities.once_seconds
        return min(once + (activities.seconds - once) * self.spec.repeat, FOREVER) if self.spec.repeat else FOREVER

    @property
    def end_seconds(self) -> Ending:
        """The earliest known end; an open end is unknown: the end of work depends on the clocks."""
        spec = self.spec
        ends = [Ending(FOREVER if spec.has_open_end else self.profile_seconds, _PROFILE_IS_OVER)]
        if spec.ttl_seconds:
            ends.append(Ending(spec.ttl_seconds, _TIME_TO_LIVE))
        if spec.run_time_limit_seconds:
            ends.append(Ending(spec.run_time_limit_seconds, _RUN_TIME_LIMIT))
        return min(ends)

    def verdict(self, code: int, text: str) -> Verdict:
        """The verdict when it ends with this code and text."""
        return Verdict(self.workload_id, self.spec.name, code, text, self.devices, self.spec.pod)


def is_generated(workload_id: str) -> bool:
    """Whether churn or the cluster started the workload with that id."""
    return workload_id.startswith((CHURN_PREFIX, CLUSTER_PREFIX))


def origin_of(workload_id: str) -> str:
    """The origin of the workload with that id: ``churn``, ``cluster``, ``configuration`` or ``request``."""
    for prefix in (CHURN_PREFIX, CLUSTER_PREFIX):
        if workload_id.startswith(prefix):
            return prefix[:-1]
    return "configuration" if workload_id.startswith(CONFIGURATION_PREFIX) else "request"


#: Columns of the table that follow from the workload alone, each with its code for :mod:`struct`.
_COLUMNS: Final = {
    "keys": "Q", "services": "Q", "lasts": "d", "work": "d", "measured_mhz": "d", "measured_capability": "d",
    "peak": "d", "ends": "B", "is_work": "?", "is_open": "?",
    "is_owner": "?",
}  # fmt: skip
#: Packed in the order of the columns, without padding, in the machine's order of bytes.
_ROW: Final = struct.Struct("=" + "".join(_COLUMNS.values()))
_TYPE: Final = np.dtype(list(_COLUMNS.items()))


def start_row(workload: Workload) -> bytes:
    """The packed row of a workload."""
    spec, known = workload.spec, workload.end_seconds
    return _ROW.pack(
        entity_key("workload", workload.key), entity_key("service", spec.service or spec.name), known.seconds,
        workload.profile_seconds, spec.measured_frequency_mhz, spec.measured_capability, spec.activities.highest,
        known.end, spec.is_work, spec.has_open_end, is_owner(spec),
    )  # fmt: skip


def is_owner(spec: WorkloadSpec) -> bool:
    """Whether labels of its devices come from a workload."""
    return bool(spec.pod or spec.labels)


def columns_of(started: Iterable[Workload]) -> dict[str, NDArray[Any]]:
    """The columns of some workloads, by the name of the table's field, each of shape (W,)."""
    rows = np.frombuffer(b"".join([workload.row for workload in started]), dtype=_TYPE)
    return {name: np.ascontiguousarray(rows[name]) for name in _COLUMNS}
