"""Our own series of each workload, for /workloads/metrics: an identity like any other, over workloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from fakedev.exposition.face import Face
from fakedev.exposition.identity import FamilySpec, Identity, LabelSpec, NumberFormat, RowSpec
from fakedev.exposition.page import Page
from fakedev.sim.fleet import Fleet
from fakedev.sim.state import Level, State

_LABELS: Final = tuple(
    LabelSpec(name, f"{{{name}}}", optional=name not in ("workload", "name"))
    for name in ("workload", "name", "node", "namespace", "pod", "container")
)


def _gauge(name: str, help_text: str, quantity: str) -> FamilySpec:
    return FamilySpec(name, "gauge", help_text, NumberFormat.GO, (RowSpec(quantity, level="workload"),))


WORKLOAD_SERIES: Final = Identity(
    name="fakedev-workloads",
    version="",
    labels=_LABELS,
    families=(
        _gauge("fakedev_workload_devices", "Simulated devices that the workload is on.", "devices"),
        _gauge("fakedev_workload_load_ratio", "Load the workload put on each of its devices in this tick.", "load"),
        _gauge("fakedev_workload_run_seconds", "Simulated seconds since the workload began.", "run_seconds"),
    ),
)


class WorkloadPage:
    """The page of all running workloads, in order of their start."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._page = Page(Face(WORKLOAD_SERIES, self), [None])

    def entities(self, level: str, group: None) -> Sequence[tuple[int, Mapping[str, str]]]:
        """The running workloads with the texts of their labels."""
        return [
            (position, {
                "workload": workload.workload_id,
                "name": workload.spec.name,
                "node": workload.spec.node,
                "namespace": workload.spec.namespace,
                "pod": workload.spec.pod,
                "container": workload.spec.container,
            })
            for position, workload in enumerate(self._fleet.workloads.running())
        ]  # fmt: skip

    def version(self, group: None) -> int:
        """How often workloads came or went."""
        return self._fleet.workloads.changes

    def render(self) -> bytes:
        """The page at the fleet's tick."""
        state = self._fleet.state
        running = self._fleet.workloads.running()
        load = np.array(list(self._fleet.workloads.load_percents().values())) / 100.0
        begun = np.array([workload.start_seconds or 0.0 for workload in running])
        level = Level(
            len(running),
            {
                "devices": np.array([float(len(workload.devices)) for workload in running]),
                "load": load,
                "run_seconds": state.seconds - begun,
            },
            {},
        )
        shown = State(state.tick, state.seconds, state.wall_seconds, {"workload": level}, self.version(None))
        return self._page.render(shown)
