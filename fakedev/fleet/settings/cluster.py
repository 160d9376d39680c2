"""The section ``fleet.cluster``: the jobs and services of a living cluster, of a preset or of one's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fakedev.fleet.settings.catalog import DeviceCatalog
from fakedev.fleet.settings.workloads import BASE, Series, read_workload
from fakedev.fleet.spec.cluster_spec import ClusterSpec, JobKind, ServiceKind
from fakedev.fleet.spec.limits import Shard
from fakedev.fleet.spec.workload_spec import WorkloadSpec
from fakedev.schema.places import Report
from fakedev.schema.sections import Key, Section, Values
from fakedev.schema.types import ListOf, MapOf, Number, OneOf, Text, keys_from

#: The files of the catalog.
PRESETS: Final = ("research", "training", "inference", "mixed")
#: Boards of the largest job.
_MOST_BOARDS: Final = 65_536
#: Keys that are the same as in workloads.base.
_SHARED: Final = ("profile", "intensity", "metrics", "kind", "seconds-of")
_WORK: Final = (
    Key("name", Text(), "What its pods' names begin with.", required=True),
    *(replace(key, required=key.name == "profile") for key in BASE.keys if key.name in _SHARED),
    Key("namespace", Text(), "Namespace of its pods.", default="default"),
    Key("container", Text(), "Container of its pods.", default_words="the name"),
)


def _board_count(text: str) -> None:
    if not text.isdecimal() or not 1 <= int(text[:9]) <= _MOST_BOARDS:
        raise ValueError(f"{text[:20]!r} is no number of boards from 1 to {_MOST_BOARDS}")


_OWN_OF_JOBS: Final = ("sizes", "memory", *(key.name for key in keys_from(JobKind)))
_OWN_OF_SERVICES: Final = tuple(key.name for key in keys_from(ServiceKind))

JOB = Section(
    "fleet.cluster.jobs",
    (
        # Its ranks wait for their slowest board.
        *(replace(key, default="work") if key.name == "seconds-of" else key for key in _WORK),
        Key("sizes", MapOf(Number(0), _board_count, "mapping of numbers of boards to weights"),
            "How many boards jobs request: numbers, each with its weight, as {1: 80, 8: 20}; what is more than half "
            "of a pool, and more than a node, does not come.", required=True),
        Key("memory", ListOf(Number(0, 1), 2, words="list of shares"),
            "The least and the most memory that a job holds, as shares of a board's; each job's is drawn between "
            "them. More than two are quantiles: half of the jobs hold less than the middle one.", default=(0.1, 0.9)),
        *keys_from(JobKind),
    ),
    doc="One kind of jobs.",
)  # fmt: skip

SERVICE = Section(
    "fleet.cluster.services", (*_WORK, *keys_from(ServiceKind)),
    doc="Replicas of a model that answer requests, with a page of metrics as vLLM has it.",
)  # fmt: skip

CLUSTER = Section(
    "fleet.cluster",
    (
        *keys_from(ClusterSpec),
        Key("jobs", ListOf(JOB, words="list of jobs"), "The kinds of jobs.", default=()),
        Key("services", ListOf(SERVICE, words="list of services"), "The services.", default=()),
    ),
    doc="Jobs that arrive, wait, run, fail and come back, and services ([cluster](workloads.md#a-living-cluster)).",
)

CLUSTER_KEY: Final = Key(
    "cluster",
    OneOf((CLUSTER, Text("name of a preset, or path"))),
    f"A living cluster on all nodes: {', '.join(PRESETS)}, the path of a YAML file, or its keys here.",
    default_words="none",
)


def read_cluster(
    given: Values | str | None, fleet: Values, catalog: DeviceCatalog, shard: Shard | None, report: Report
) -> ClusterSpec | None:
    """The cluster of a configuration; None when there is none, or it has problems, which were reported."""
    place = fleet.place_of("cluster")
    if given is None:
        return None
    if shard is not None:
        report.problem(place, "cluster: its scheduler needs all nodes: leave out shard, or cluster")
        return None
    if isinstance(given, str):
        found = catalog.cluster(given, place, PRESETS)
        values = None if found is None else CLUSTER.read(found, "cluster", report)
        if not isinstance(values, Values):
            return None
        given = values
    series = Series(catalog, report)
    jobs = [_job(row, catalog, series, report) for row in given["jobs"]]
    services = [_service(row, catalog, series, report) for row in given["services"]]
    names = [row["name"] for row in (*given["jobs"], *given["services"])]
    if len(set(names)) < len(names):
        report.problem(given.place, "cluster: two of its jobs or services have the same name")
    return given.build(
        ClusterSpec, jobs=tuple(job for job in jobs if job is not None),
        services=tuple(service for service in services if service is not None),
    )  # fmt: skip


def _job(values: Values, catalog: DeviceCatalog, series: Series, report: Report) -> JobKind | None:
    workload = _workload(values, catalog, series, report, _OWN_OF_JOBS)
    if workload is None or values["sizes"] is None or values["lasts"] is None or not values["memory"]:
        return None  # which was reported
    memory = values["memory"]
    if list(memory) != sorted(memory):
        report.problem(values.place_of("memory"), "memory: give the least first and the most last, as [0.2, 0.9]")
        return None
    sizes = tuple(sorted((int(size), weight) for size, weight in values["sizes"].items()))
    return values.build(JobKind, workload=workload, sizes=sizes, memory=tuple(memory))


def _service(values: Values, catalog: DeviceCatalog, series: Series, report: Report) -> ServiceKind | None:
    workload = _workload(values, catalog, series, report, _OWN_OF_SERVICES)
    if workload is not None and values["least"] > values["most"]:
        report.problem(values.place_of("least"), "least: is more than most")
    return None if workload is None else values.build(ServiceKind, workload=workload)


def _workload(
    values: Values, catalog: DeviceCatalog, series: Series, report: Report, besides: tuple[str, ...]
) -> WorkloadSpec | None:
    if any(values[name] is None for name in ("name", "profile")):
        return None  # which was reported
    workload = read_workload(values, catalog, series, report, besides=besides)
    if workload is None:
        return None
    return replace(workload, namespace=values["namespace"], container=values["container"] or workload.name)
