"""Churn of pools, workloads that start on their nodes again and again: the keys, and the specification."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from fakedev.config.catalog import Catalog
from fakedev.config.models import LoadedPool
from fakedev.config.names import MAX_DEVICES_PER_NODE
from fakedev.config.profile_keys import Series
from fakedev.config.schema.nodes import DEFAULT, Report
from fakedev.config.schema.schema import Key, Section, Values
from fakedev.config.schema.types import DURATION_UNITS, Choice, Duration, Integer, ListOf, Number, OneOf, Text
from fakedev.config.workloads import BASE, read_workload
from fakedev.sim.workloads.admission import Admission
from fakedev.sim.workloads.churn import MAX_EXPECTED, MAX_EXPECTED_AT_NODE
from fakedev.spec.errors import Refused
from fakedev.spec.fleet import ChurnKind, ChurnSpec, PoolSpec

_SECONDS_OF: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?|\.\d+)/([smhd])", re.ASCII)
_COUNT: Final = Integer(1, MAX_DEVICES_PER_NODE)
_LASTS: Final = Duration(0.001, 1e8)
#: Keys that are the same as in workloads.base.
_SHARED: Final = (
    "profile", "intensity", "metrics", "kind", "seconds-of", "measured-frequency", "measured-capability", "limits",
)  # fmt: skip


def _rate(text: str) -> float:
    """Arrivals per second of ``6/h``."""
    found = _RATE.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise ValueError(f"{text[:60]!r} is no rate: give a number above 0 with /s, /m, /h or /d, as 6/h")
    return float(found[1]) / _SECONDS_OF[found[2]]


CHURN_WORKLOAD = Section(
    "fleet.pools.churn.workloads",
    (
        Key("name", Text(), "What its pods' names begin with.", required=True),
        Key("weight", Number(0), "How often it starts, relative to the other kinds.", default=1.0),
        Key(
            "devices",
            OneOf((_COUNT, ListOf(_COUNT, 1, words="list of numbers"))),
            "How many devices it uses, or the numbers of which one is drawn.",
            default=1,
        ),
        Key(
            "lasts",
            OneOf((_LASTS, ListOf(_LASTS, 2, words="list of the shortest and the longest"))),
            "How long it lasts: a duration, or the shortest and the longest, between which it is drawn, as [10m, 4h].",
            required=True, unit=DURATION_UNITS,
        ),
        Key("pods", Choice(("deployment", "job")), "How its pods are named: as those of one deployment, or each as "
            "that of its own job.", default="deployment"),
        *(replace(key, required=key.name == "profile") for key in BASE.keys if key.name in _SHARED),
        Key("namespace", Text(), "Namespace of its pods.", default="default"),
        Key("container", Text(), "Container of its pods.", default_words="the name"),
    ),
    doc="One kind of workload that starts and ends on nodes.",
)  # fmt: skip

CHURN = Section(
    "fleet.pools.churn",
    (
        Key("rate", Text("rate", _rate), "How many start on each node, on average, as 6/h.", required=True),
        Key(
            "workloads",
            ListOf(CHURN_WORKLOAD, 1, words="list of workloads"),
            "The kinds of workloads.",
            default_yaml='[{name: train, profile: training, devices: [4, 8], lasts: [30m, 8h], pods: job}, '
            '{name: serve, weight: 3, profile: inference, devices: [1, 2], lasts: [10m, 4h]}, '
            '{name: notebook, weight: 2, profile: notebook, lasts: [15m, 2h]}]',
            default_words="train on 4 or 8 devices, and more often serve and notebook on 1 or 2",
        ),
    ),
    doc="Workloads that start and end on each node at random ([churn.md](churn.md)).",
)


#: Keys that are not fields of a workload.
_OWN: Final = ("weight", "devices", "lasts", "pods")


def read_churn(values: Values, catalog: Catalog, report: Report) -> ChurnSpec | None:
    """The churn of a pool; None when it has problems, which were reported."""
    series = Series(catalog, report)
    kinds = [_kind(each, catalog, series, report) for each in values["workloads"] or ()]
    found = tuple(kind for kind in kinds if kind is not None)
    if found and not sum(kind.weight for kind in found):
        report.problem(values.place_of("workloads"), "workloads: all have the weight 0, so that none starts")
    return ChurnSpec(values["rate"], found) if found and values["rate"] is not None else None


def _kind(values: Values, catalog: Catalog, series: Series, report: Report) -> ChurnKind | None:
    if any(values[name] is None for name in ("name", "profile")):
        return None  # which was reported
    workload = read_workload(values, catalog, series, report, besides=_OWN)
    lasts, counts = values["lasts"], values["devices"]
    if workload is None or lasts is None or counts is None or counts == ():
        return None  # which was reported
    span = lasts if isinstance(lasts, tuple) else (lasts, lasts)
    if len(span) != 2 or span[0] > span[1]:
        text = "lasts: give a duration, or the shortest and the longest, as [10m, 4h]"
        report.problem(values.place_of("lasts"), text)
        return None
    workload = replace(workload, namespace=values["namespace"], container=values["container"] or workload.name)
    counts = counts if isinstance(counts, tuple) else (counts,)
    return ChurnKind(workload, span[0], span[1], values["weight"], counts, values["pods"] == "job")


def check_churn(pools: Iterable[LoadedPool], tick_seconds: float, admission: Admission, report: Report) -> None:
    """Reports workloads that nodes of a pool cannot run, and rates that are too high."""
    expected = 0.0
    pools = list(pools)
    most: dict[str, int] = {}
    for pool in pools:
        most[pool.spec.name] = max(most.get(pool.spec.name, 0), _units(pool.spec))
    for pool in pools:
        churn, values = pool.spec.churn, pool.values["churn"]
        if churn is None:
            continue
        place = values.place_of("rate")
        at_node = churn.per_second * tick_seconds
        expected += at_node * len(pool.spec.nodes)
        if at_node > MAX_EXPECTED_AT_NODE:
            report.problem(place, f"rate: {at_node:g} start on a node in a tick: at most {MAX_EXPECTED_AT_NODE:g} can")
        elif expected > MAX_EXPECTED:
            report.problem(place, f"rate: {expected:g} start in the fleet in a tick: at most {MAX_EXPECTED:g} can")
        words = (f"{pool.spec.nodes[0].name}/*",)
        for kind, each in zip(churn.kinds, values["workloads"], strict=False):
            # The default workloads fit some nodes better than others, and are no mistake of the user.
            if each.place != DEFAULT and min(kind.counts) > most[pool.spec.name]:
                text = f"devices: the nodes have {most[pool.spec.name]}, so that it never starts"
                report.problem(each.place_of("devices"), text)
            try:
                admission.check(replace(kind.workload, devices=words))
            except Refused as error:
                report.problem(each.place_of(error.where), f"{error.where}: {error.text}")


def _units(pool: PoolSpec) -> int:
    """How many workloads a node can have at once: one on each device, or on each of its parts."""
    return sum(max(len(pool.parts_of(index)), 1) for index in range(pool.devices_per_node))
