"""Our own series of each workload, for /workloads/metrics: an identity like any other, over workloads."""

from __future__ import annotations

from typing import Final

from fakedev.exposition.identity import FamilySpec, Identity, LabelSpec, NumberFormat, RowSpec
from fakedev.exposition.label_cache import Face
from fakedev.exposition.page import Page
from fakedev.exposition.workload_source import MOST_PAIRS, PAIR, WORKLOAD, Chunk, WorkloadSource
from fakedev.sim.fleet import Fleet


def _labels(*names: str) -> tuple[LabelSpec, ...]:
    return tuple(LabelSpec(name, f"{{{name}}}", optional=name in _OPTIONAL) for name in names)


#: What tells whose a workload is; a workload need not say it.
_OPTIONAL: Final = ("namespace", "pod", "container")
_ENGINES: Final = ("tensor", "copy", "encoder", "decoder", "render")


def _gauge(name: str, help_text: str, *rows: RowSpec) -> FamilySpec:
    return FamilySpec(f"fakedev_workload_{name}", "gauge", help_text, NumberFormat.GO, rows)


def _row(quantity: str, **labels: str) -> RowSpec:
    own = tuple(LabelSpec(name, value) for name, value in labels.items())
    return RowSpec(quantity, labels=own, level=WORKLOAD)


def _both_ways(link: str) -> tuple[RowSpec, RowSpec]:
    return (
        _row(f"{link}_tx_bytes_per_second", direction="tx"),
        _row(f"{link}_rx_bytes_per_second", direction="rx"),
    )


WORKLOAD_SERIES: Final = Identity(
    name="fakedev-workloads",
    version="",
    labels=_labels("workload", "name", *_OPTIONAL),
    families=(
        _gauge(
            "info",
            "1; what kind of work the workload does, and the node that it named.",
            RowSpec("one", labels=(*_labels("kind"), LabelSpec("node", "{named_node}", optional=True)), level=WORKLOAD),
        ),
        _gauge("devices", "Simulated devices that the workload is on.", _row("devices")),
        _gauge("run_seconds", "Simulated seconds since the workload began.", _row("run_seconds")),
        _gauge(
            "remaining_seconds",
            "Simulated seconds until it will be over, at the highest clock if it is an amount of work.",
            _row("remaining_seconds"),
        ),
        _gauge("progress_ratio", "Part of its profile that is done, where that has an end.", _row("progress_ratio")),
        _gauge(
            "load_ratio",
            "Load the workload put on each of its devices in this tick, without fluctuation.",
            _row("load_ratio"),
        ),
        _gauge(
            "usage_ratio",
            "Part of their compute engines that its devices gave to it in this tick, their mean.",
            _row("usage_ratio"),
        ),
        _gauge(
            "engine_active_ratio",
            "Part of other engines that its devices gave to it in this tick, their mean.",
            *[_row(f"{engine}_active_ratio", engine=engine) for engine in _ENGINES],
        ),
        _gauge("memory_used_bytes", "Memory that it holds, on all its devices.", _row("memory_used_bytes")),
        _gauge(
            "memory_bandwidth_ratio",
            "Part of their memory's bandwidth that its devices gave to it in this tick, their mean.",
            _row("memory_bandwidth_ratio"),
        ),
        _gauge("pcie_bytes_per_second", "PCIe traffic that it makes, over all its devices.", *_both_ways("pcie")),
        _gauge(
            "fabric_bytes_per_second",
            "Traffic that it makes on links to other devices, over all its devices.",
            *_both_ways("fabric"),
        ),
        _gauge(
            "device_load_ratio",
            "Part of this device that the workload has got in this tick, fluctuation included.",
            RowSpec("load_ratio", labels=_labels("node", "device"), level=PAIR),
        ),
    ),
)


class WorkloadPage(Page[Chunk]):
    """The page of all running workloads, in order of their start.

    :param face: made by :func:`workload_face`; several pages may share it.
    """

    def __init__(self, face: Face[Chunk], source: WorkloadSource, openmetrics: bool = False) -> None:
        super().__init__(face, source.chunks(), openmetrics)
        self._source = source

    def compile(self) -> bool:
        """Bring some of the texts up to date with the workloads of now."""
        self.regroup(self._source.chunks())
        return super().compile()


def workload_pages(
    fleet: Fleet, most_pairs: int = MOST_PAIRS
) -> tuple[WorkloadSource, WorkloadPage, WorkloadPage]:
    """What shows a fleet's workloads: the source of the states to render, the page, and that as OpenMetrics."""
    source = WorkloadSource(fleet, most_pairs)
    face = Face(WORKLOAD_SERIES, source)
    return source, WorkloadPage(face, source), WorkloadPage(face, source, openmetrics=True)
