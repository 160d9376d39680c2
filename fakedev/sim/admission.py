"""Which workloads a fleet can take: their devices, kind of work and limits must exist there."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.device_types import WORK_KINDS
from fakedev.sim.errors import Refused
from fakedev.sim.quantities import QUANTITY_ALIASES, quantity_name
from fakedev.sim.roster import Roster
from fakedev.sim.selectors import resolve
from fakedev.sim.spec import MetricName, WorkloadSpec


class Admission:
    """Looks at workloads before a fleet takes them.

    :param quantities: those that some device of the fleet has.
    :param metric_names: names of metrics that limits may use beside those of quantities.
    """

    def __init__(self, roster: Roster, quantities: Collection[str], metric_names: Mapping[str, MetricName]) -> None:
        self._roster = roster
        self._quantities = quantities
        self._metric_names = metric_names
        dynamics = [pool.device_type.dynamics for pool in roster.pools]
        self._kinds = sorted({*WORK_KINDS, *(kind for each in dynamics if each for kind in each.kinds)})

    def check(self, workload: WorkloadSpec) -> NDArray[np.int64]:
        """The positions of the workload's devices, ascending.

        :raises Refused: when it cannot run; ``where`` is the field at fault.
        """
        devices = resolve(workload.devices, self._roster, workload.node)
        for metric, _ in workload.limits:
            if self.metric(metric).quantity not in self._quantities:
                short = [alias for alias, name in QUANTITY_ALIASES.items() if name in self._quantities]
                known = [*self._quantities, *short, *self._metric_names]
                raise Refused("unknown-name", f"no metric {metric!r} to limit{_hint(metric, known)}", "limits")
        if workload.kind not in self._kinds:
            hint = _hint(workload.kind, self._kinds) or f": give one of {', '.join(self._kinds)}"
            raise Refused("unknown-name", f"no kind of work {workload.kind!r}{hint}", "kind")
        return devices

    def metric(self, name: str) -> MetricName:
        """What a limit's metric shows: as an identity names it, or a quantity by its name or alias."""
        if name in self._metric_names:
            return self._metric_names[name]
        # A device's file may have quantities of its own, also by the name of an alias.
        return MetricName(name if name in self._quantities else quantity_name(name))


def _hint(word: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(word[:100], list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""
