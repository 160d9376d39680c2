"""The numbers of a workload in the table, packed when it is accepted.

A tick in which thousands of workloads start only joins these rows: what takes microseconds for each workload, as its
keys and the length of its profile, is done when its event arrives.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.workloads.workload import Workload
from fakedev.spec.fleet import WorkloadSpec
from fakedev.spec.shards import entity_key

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
    rows = np.frombuffer(b"".join([each.row for each in started]), dtype=_TYPE)
    return {name: np.ascontiguousarray(rows[name]) for name in _COLUMNS}
