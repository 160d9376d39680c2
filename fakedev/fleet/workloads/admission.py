"""Which workloads a fleet can run: their devices, kind of work, metrics and limits must exist in it."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

import numpy as np

from fakedev.base.errors import Refused, did_you_mean, unknown_name
from fakedev.base.units import format_duration
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.entities.selectors import resolve_here
from fakedev.fleet.entities.state import Positions
from fakedev.fleet.spec.fleet_spec import MetricName
from fakedev.fleet.spec.quantities import QUANTITY_ALIASES, metric_word, quantity_name
from fakedev.fleet.spec.value_functions import DRAWN, MAX_DRAWS
from fakedev.fleet.spec.work_kinds import WORK_KINDS
from fakedev.fleet.spec.workload_spec import Activities, MetricUse, WorkloadSpec
from fakedev.fleet.workloads.demand import Capacity
from fakedev.fleet.workloads.table import speed_on
from fakedev.fleet.workloads.workload import Limit

#: From this number of devices on, the resolved device words of the last workloads are cached.
_MANY: Final = 64
_MAX_NAMED: Final = 64


class Admission:
    """Checks workloads before a fleet accepts them.

    :param quantities: the quantities of the fleet's devices.
    :param metric_names: names of metrics that limits may use in addition to the names of quantities.
    :param known: quantities that limits may use; None: ``quantities``. A shard knows those of the whole fleet.
    """

    def __init__(
        self,
        roster: Roster,
        capacity: Capacity,
        quantities: Collection[str],
        metric_names: Mapping[str, MetricName],
        tick_seconds: float = 1.0,
        known: Collection[str] | None = None,
    ) -> None:
        self._roster = roster
        self._capacity = capacity
        self._quantities = quantities
        self._known = quantities if known is None else known
        self._metric_names = metric_names
        self._tick_seconds = tick_seconds
        self._seen: dict[Hashable, Positions] = {}
        self._named: dict[Hashable, Positions] = {}
        dynamics = [pool.device_type.dynamics for pool in roster.pools]
        self._kinds = sorted({*WORK_KINDS, *(kind for dynamic in dynamics if dynamic for kind in dynamic.kinds)})

    def prepare(self, workloads: Iterable[WorkloadSpec]) -> None:
        """Check workloads of the configuration in advance, so that :meth:`check` takes no time for them later."""
        for workload in workloads:
            with suppress(Refused):
                self._seen[_key(workload)] = self.check(workload, of_configuration=True)

    def check(self, workload: WorkloadSpec, *, of_configuration: bool = False) -> Positions:
        """The workload's units, ascending: devices, and the parts of divided devices.

        :param of_configuration: every shard has the workload, so that there may be none of its devices here.
        :raises Refused: if it cannot run; ``where`` is the field at fault.
        """
        seen = self._seen.get(_key(workload)) if self._seen and of_configuration else None
        if seen is not None:
            return seen
        devices = self._devices(workload, of_configuration=of_configuration)
        if of_configuration and self._roster.whole is not None:
            return devices  # the rest is checked for the whole fleet, not for a shard
        for metric, _ in workload.limits:
            self.known_metric(metric, "limits")
        if workload.kind not in self._kinds:
            hint = did_you_mean(workload.kind, self._kinds, f": give one of {', '.join(self._kinds)}")
            raise Refused("unknown-name", f"no kind of work {workload.kind!r}{hint}", "kind")
        for field, measured, own, what in (
            ("measured-frequency", workload.measured_frequency_mhz, self._capacity.clock_mhz, "clock"),
            ("measured-capability", workload.measured_capability, self._capacity.capability, "capability"),
        ):
            if measured:
                self._check_known(what, own, devices, field, "nothing can be scaled by it")
        self._check_draws("profile", workload.activities, workload, devices)
        for use in workload.uses:
            word = metric_word(use.metric)
            if not use.is_optional and not self._have(use, devices):
                raise Refused("unknown-name", f"none of its devices has {word}", "metrics")
            self._check_draws(word, use.activities, workload, devices)
            if use.is_traffic:
                own = np.where(self._capacity.most(use.metric) > 0, self._capacity.memory_bytes_per_second, np.inf)
                self._check_known("memory bandwidth", own, devices, "metrics", "ask for a share of it")
        return devices

    def _devices(self, workload: WorkloadSpec, *, of_configuration: bool) -> Positions:
        """The units that its device words name; one array for all workloads with the same words, while they last."""
        key = (workload.devices, workload.node, of_configuration)
        devices = self._named.get(key)
        if devices is None:
            found = resolve_here(workload.devices, self._roster, workload.node, of_configuration=of_configuration)
            devices = self._roster.parts.with_work(found)
            if len(devices) >= _MANY:
                if len(self._named) == _MAX_NAMED:
                    del self._named[next(iter(self._named))]
                self._named[key] = devices
        return devices

    def fitted(self, workload: WorkloadSpec, devices: Positions) -> WorkloadSpec:
        """The workload without the optional metrics that none of its devices has."""
        uses = tuple(use for use in workload.uses if not use.is_optional or self._have(use, devices))
        return workload if len(uses) == len(workload.uses) else replace(workload, uses=uses)

    def _have(self, use: MetricUse, devices: Positions) -> bool:
        return bool((self._capacity.most(use.metric)[devices] > 0).any())

    def limits(self, workload: WorkloadSpec) -> tuple[Limit, ...]:
        """The limits of a workload, for quantities that a device of the fleet has."""
        named = [(metric, value, self.metric(metric)) for metric, value in workload.limits]
        return tuple(
            Limit(metric, shown.quantity, shown.factor, value)
            for metric, value, shown in named
            if shown.quantity in self._quantities
        )

    def metric(self, name: str) -> MetricName:
        """The meaning of a metric's name: of an identity, or the name or alias of a quantity."""
        return self._metric_names.get(name) or MetricName(quantity_name(name.replace("-", "_")))

    def known_metric(self, name: str, where: str = "metric") -> MetricName:
        """The meaning of a metric's name, of a quantity that the fleet has.

        :param where: the field that names it.
        :raises Refused: for another name.
        """
        found = self.metric(name)
        if found.quantity not in self._known:
            short = [alias for alias, quantity in QUANTITY_ALIASES.items() if quantity in self._known]
            known = [*short, *self._known, *self._metric_names]
            use = " to limit" if where == "limits" else ""
            raise Refused("unknown-name", unknown_name("metric", name, known, use), where)
        return found

    def _check_known(self, what: str, own: Floats, devices: Positions, field: str, otherwise: str) -> None:
        """Check that a value is known for all of some devices.

        :param own: the values, shape (devices of the fleet,); 0 if unknown.
        """
        lacking = devices[own[devices] <= 0]
        if len(lacking):
            device = int(lacking[0])
            kind = self._roster.nodes[self._roster.node_position(device)].pool.device_type.name
            name = self._roster.unit_name(device)
            raise Refused("bad-argument", f"the {what} of {name} ({kind}) is not known: {otherwise}", field)

    def _check_draws(
        self, what: str, activities: Activities, workload: WorkloadSpec, devices: Positions
    ) -> None:
        """Check that random values are drawn rarely enough for a tick to add them up."""
        draws = [value for value in activities.functions.values() if value.name in DRAWN]
        if not draws:
            return
        speed = speed_on(workload, devices, self._capacity) if workload.is_work else 1.0
        least = self._tick_seconds * max(speed, 1.0) / MAX_DRAWS
        shortest = min([value.arguments[2] for value in draws] + [activity.seconds for activity in activities])
        if shortest < least:
            text = (
                f"{what} with random values: {shortest:g} seconds are too short for a tick of "
                f"{format_duration(self._tick_seconds)}: activities and times between draws last {least:g} seconds "
                "or more"
            )
            raise Refused("limit", text, "profile" if what == "profile" else "metrics")


def _key(workload: WorkloadSpec) -> Hashable:
    """A hashable key that is equal for equal workloads: their faults are mappings, which have no hash."""
    return (replace(workload, faults=()), repr(workload.faults)) if workload.faults else workload
