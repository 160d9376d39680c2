"""The page of fakedev's own metrics: the groups of all parts, in the order of the page; and the part of the process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from fakedev.runtime.clock import clock_shift
from fakedev.runtime.memory import CollectorPauses, StallWatch
from fakedev.runtime.part import Part, parts_of
from fakedev.runtime.reactor import IReactor
from fakedev.web.metrics import Group, clock_metrics, collector_metrics, stall_metrics

#: The groups in the order of the page.
PAGE_ORDER: Final = (
    "ticks", "stalls", "clock", "collector", "scrapes", "workloads", "faults", "limits", "ports", "queues",
    "queue logs", "tester", "reload", "files", "state", "kubernetes",
)  # fmt: skip


def in_page_order(services: Iterable[object]) -> Mapping[str, Group]:
    """The groups of the parts among some services, in the order of the page."""
    groups = {name: group for part in parts_of(services) for name, group in part.metrics().items()}
    return {name: groups[name] for name in sorted(groups, key=PAGE_ORDER.index)}


class ProcessPart(Part):
    """Measures how long the reactor is held, and by collections of garbage."""

    def __init__(self, reactor: IReactor) -> None:
        self._stalls, self._pauses = StallWatch(reactor), CollectorPauses()
        self._reactor = reactor
        super().__init__("process", [self._stalls, self._pauses])

    def metrics(self) -> Mapping[str, Group]:
        return {
            "stalls": partial(stall_metrics, self._stalls.delays),
            "clock": partial(clock_metrics, partial(clock_shift, self._reactor)),
            "collector": partial(collector_metrics, self._pauses.by_generation),
        }
