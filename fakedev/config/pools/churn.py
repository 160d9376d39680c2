"""Churn of pools: workloads that come to nodes by themselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from fakedev.config.catalog import Catalog
from fakedev.config.models import LoadedPool
from fakedev.config.schema.nodes import Report
from fakedev.config.schema.schema import Values
from fakedev.config.work_profiles import Series
from fakedev.config.workloads import read_workload
from fakedev.sim.workloads.admission import Admission
from fakedev.sim.workloads.churn import MAX_EXPECTED, MAX_EXPECTED_AT_NODE
from fakedev.spec.errors import Refused
from fakedev.spec.fleet import ChurnKind, ChurnSpec, PoolSpec

#: Keys that are no fields of a workload.
_OWN: Final = ("weight", "devices", "lasts", "pods")


def read_churn(values: Values, catalog: Catalog, report: Report) -> ChurnSpec | None:
    """What the configuration says of churn; None when it is wrong, which was reported."""
    series = Series(catalog, report)
    kinds = [_kind(each, catalog, series, report) for each in values["workloads"] or ()]
    found = tuple(kind for kind in kinds if kind is not None)
    if found and not sum(kind.weight for kind in found):
        report.problem(values.place_of("workloads"), "workloads: all have the weight 0, so that none comes")
    return ChurnSpec(values["rate"], found) if found and values["rate"] is not None else None


def _kind(values: Values, catalog: Catalog, series: Series, report: Report) -> ChurnKind | None:
    if any(values[name] is None for name in ("name", "profile")):
        return None  # which was reported
    workload = read_workload(values, catalog, series, report, besides=_OWN)
    lasts, counts = values["lasts"], values["devices"]
    if workload is None or lasts is None or counts is None:
        return None
    span = lasts if isinstance(lasts, tuple) else (lasts, lasts)
    if len(span) != 2 or span[0] > span[1]:
        text = "lasts: give a duration, or the shortest and the longest, as [10m, 4h]"
        report.problem(values.place_of("lasts"), text)
        return None
    workload = replace(workload, namespace=values["namespace"], container=values["container"] or workload.name)
    counts = counts if isinstance(counts, tuple) else (counts,)
    return ChurnKind(workload, span[0], span[1], values["weight"], counts, values["pods"] == "job")


def check_churn(pools: Iterable[LoadedPool], tick_seconds: float, admission: Admission, report: Report) -> None:
    """Reports workloads that nodes of a pool cannot take, and arrivals that are too many."""
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
            report.problem(place, f"rate: {at_node:g} come to a node in a tick: at most {MAX_EXPECTED_AT_NODE:g} can")
        elif expected > MAX_EXPECTED:
            report.problem(place, f"rate: {expected:g} come to the fleet in a tick: at most {MAX_EXPECTED:g} can")
        words = (f"{pool.spec.nodes[0].name}/*",)
        for kind, said in zip(churn.kinds, values["workloads"], strict=False):
            if min(kind.counts) > most[pool.spec.name] and values.given("workloads"):
                text = f"devices: the nodes have {most[pool.spec.name]}, so that it never comes"
                report.problem(said.place_of("devices"), text)
            try:
                admission.check(replace(kind.workload, devices=words))
            except Refused as error:
                report.problem(said.place_of(error.where), f"{error.where}: {error.text}")


def _units(pool: PoolSpec) -> int:
    """How many workloads a node can have at once: one on each device, or on each of its parts."""
    return sum(max(len(pool.parts_of(index)), 1) for index in range(pool.devices_per_node))
