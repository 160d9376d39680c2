"""The fleet of a trace: a pool for each kind of its nodes, and limits with room for the series of its jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from fakedev.scenario.entries import Run
from fakedev.sim.budget import profile_bytes
from fakedev.spec.limits import Limits
from fakedev.traces.replay import Plan

#: A job that has ended keeps its room for so long: longer than a tick.
_AFTER_SECONDS: Final = 600.0
_MIB: Final = 2**20


def configuration_of(plan: Plan, devices: Mapping[str, str], fleet: Mapping[str, object]) -> dict[str, Any]:
    """The configuration of the fleet.

    :param devices: the device type of each model.
    :param fleet: further keys of ``fleet``.
    """
    groups: dict[tuple[str, int], list[str]] = defaultdict(list)
    for node in plan.trace.nodes:
        groups[devices[node.model], node.devices].append(node.name)
    pools = [
        {"name": f"{device}-{count}", "nodes": names, "device": device, "devices-per-node": count}
        for (device, count), names in groups.items()
    ]
    found: dict[str, Any] = {"fleet": {**fleet, "pools": pools}}
    room = _most_series_bytes(plan)
    if room > Limits.memory_bytes // 2:
        found["limits"] = {"memory": f"{(Limits.memory_bytes + room) // _MIB}MiB"}
    return found


def _most_series_bytes(plan: Plan) -> int:
    """What the series of the jobs that run at once take of the limit of memory, at the peak."""
    times, changes = [], []
    for each in plan.occurrences:
        if isinstance(each.action, Run) and len(each.action.workload.activities) > 1:
            workload = each.action.workload
            taken = sum(map(profile_bytes, (workload.activities, *(use.activities for use in workload.uses))))
            times += [each.seconds, each.seconds + workload.activities.seconds + _AFTER_SECONDS]
            changes += [taken, -taken]
    order = np.argsort(times, kind="stable")
    return int(np.cumsum(np.array(changes, dtype=np.int64)[order]).max(initial=0))
