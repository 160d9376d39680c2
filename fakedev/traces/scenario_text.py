"""A placed trace as the files of a scenario: a list of nodes, and a timeline with the jobs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from fakedev.spec.units import format_duration, format_number
from fakedev.traces.model import WHOLE_THOUSANDTHS, TraceNode
from fakedev.traces.placement import Placed

NODES_FILE: Final = "nodes.csv"
SCENARIO_FILE: Final = "replay.json"


class UnknownModels(Exception):
    """Models of a trace without a device type; ``str`` of it says what to write."""

    def __init__(self, models: Iterable[str]) -> None:
        names = sorted(models)
        advice = ",".join(f"{name}=DEVICE" for name in names)
        super().__init__(
            f"no device type for {', '.join(map(repr, names))}: write --map {advice}, with names of fakedev devices"
        )


def node_list(nodes: Iterable[TraceNode], models: Mapping[str, str]) -> str:
    """The nodes as a CSV file for ``nodes:`` of a pool.

    :param models: the device type of each model.
    :raises UnknownModels: naming every model without one.
    """
    listed = list(nodes)
    unknown = {node.model for node in listed} - set(models)
    if unknown:
        raise UnknownModels(unknown)
    lines = (f"{node.name},{models[node.model]},{node.devices}\n" for node in listed)
    return "".join(["name,device,count\n", *lines])


def scenario_text(
    placed: Iterable[Placed], span_seconds: float, tick_seconds: float, usage: tuple[float, float], seed: int
) -> str:
    """The scenario, as JSON with an entry a line.

    :param usage: percent that a job uses of what it asked for, and how much that fluctuates.
    """
    pool = {"name": "trace", "nodes": NODES_FILE}
    fleet = {"tick": format_duration(tick_seconds), "seed": seed, "pools": [pool]}
    scrape = max(1.0, tick_seconds)
    head: dict[str, Any] = {
        "scenario": {"for": format_duration(span_seconds), "scrape": format_duration(scrape)},
        "config": {"fleet": fleet},
    }
    entries = ",\n".join(_plain(_entry(number, each, usage)) for number, each in enumerate(placed))
    return f'{_plain(head)[:-1]}, "timeline": [\n{entries}\n]}}\n'


def _entry(number: int, placed: Placed, usage: tuple[float, float]) -> dict[str, Any]:
    share = placed.job.thousandths / WHOLE_THOUSANDTHS
    load, fluctuation = (format_number(round(each * share, 3)) for each in usage)
    workload = {
        "name": placed.job.name,
        "devices": [f"{placed.node}/{device}" for device in placed.devices],
        "profile": f"{load}:{fluctuation}:0",
        "pod": placed.job.name,
        "namespace": "trace",
    }
    entry: dict[str, Any] = {"at": _time(placed.start_seconds), "as": f"job-{number}", "run": workload}
    if placed.end_seconds is not None:
        entry["for"] = _time(placed.end_seconds - placed.start_seconds)
    return entry


def _time(seconds: float) -> str:
    return f"{format_number(round(seconds, 3))}s"


def _plain(value: object) -> str:
    """JSON; a dollar is doubled, for one begins a variable in a configuration."""
    return json.dumps(value).replace("$", "$$")
