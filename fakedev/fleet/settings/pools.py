"""The keys under ``fleet``: pools, their devices and their churn.

Churn of a pool: workloads that start on its nodes again and again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from fakedev.base.errors import Refused
from fakedev.base.names import (
    COLDEST_INLET,
    HOTTEST_INLET,
    MAX_DEVICES_PER_NODE,
    MAX_INLET_DRIFT,
    MAX_NODES,
    driver_version,
    epoch_seconds,
    fact_name,
    node_name,
    node_pattern,
    pci_address,
    pool_name,
    uuid_text,
)
from fakedev.fleet.settings.catalog import DeviceCatalog
from fakedev.fleet.settings.cluster import CLUSTER_KEY
from fakedev.fleet.settings.devices import INSTANCES, MEMORY_KEYS
from fakedev.fleet.settings.dynamics import DYNAMICS
from fakedev.fleet.settings.loaded import LoadedPool
from fakedev.fleet.settings.racks import RACKS
from fakedev.fleet.settings.workloads import BASE, SCHEDULE, Series, read_workload
from fakedev.fleet.spec.device_types import Layout
from fakedev.fleet.spec.fleet_spec import MAX_SPEED, ChurnKind, ChurnSpec, FleetSpec, PoolSpec
from fakedev.fleet.spec.limits import parse_shard
from fakedev.fleet.spec.named_profiles import MIXES, PROFILES
from fakedev.fleet.spec.offers import InCluster
from fakedev.fleet.workloads.admission import Admission
from fakedev.fleet.workloads.churn import MAX_EXPECTED, MAX_EXPECTED_AT_NODE
from fakedev.schema.places import DEFAULT, Report
from fakedev.schema.sections import Key, Section, Values
from fakedev.schema.types import (
    DURATION_UNITS,
    Choice,
    Duration,
    Integer,
    ListOf,
    MapOf,
    Number,
    OneOf,
    Text,
    keys_from,
)

_UNIT_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
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
    return float(found[1]) / _UNIT_SECONDS[found[2]]


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
        Key("pods", Choice(("deployment", "job")), "How its pods are named: all as pods of one deployment, or each as "
            "the pod of a job of its own.", default="deployment"),
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
    doc="Workloads that start and end on each node at random ([churn](workloads.md#churn-workloads-that-come-and-go)).",
)


#: Keys that are not fields of a workload.
_OWN: Final = ("weight", "devices", "lasts", "pods")


def read_churn(values: Values, catalog: DeviceCatalog, report: Report) -> ChurnSpec | None:
    """The churn of a pool; None when it has problems, which were reported."""
    series = Series(catalog, report)
    kinds = [_kind(row, catalog, series, report) for row in values["workloads"] or ()]
    found = tuple(kind for kind in kinds if kind is not None)
    if found and not sum(kind.weight for kind in found):
        report.problem(values.place_of("workloads"), "workloads: all have the weight 0, so that none starts")
    return ChurnSpec(values["rate"], found) if found and values["rate"] is not None else None


def _kind(values: Values, catalog: DeviceCatalog, series: Series, report: Report) -> ChurnKind | None:
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
        for kind, row in zip(churn.kinds, values["workloads"], strict=False):
            # The default workloads fit some nodes better than others, and are no mistake of the user.
            if row.place != DEFAULT and min(kind.counts) > most[pool.spec.name]:
                text = f"devices: the nodes have {most[pool.spec.name]}, so that it never starts"
                report.problem(row.place_of("devices"), text)
            try:
                admission.check(replace(kind.workload, devices=words))
            except Refused as error:
                report.problem(row.place_of(error.where), f"{error.where}: {error.text}")


def _units(pool: PoolSpec) -> int:
    """How many workloads a node can have at once: one on each device, or on each of its parts."""
    return sum(max(len(pool.parts_of(index)), 1) for index in range(pool.devices_per_node))


_NAMED = (*PROFILES, *MIXES)
_PROFILE = OneOf((SCHEDULE, Choice(_NAMED)), words=f"{' or '.join(_NAMED)} or a schedule")
_CELSIUS = Number(COLDEST_INLET, HOTTEST_INLET)
_DEGREES = "degrees Celsius"
_LABELS = MapOf(Text(), check=fact_name, words="mapping of label names to texts")

DEVICE = Section(
    "fleet.pools.devices",
    (
        Key(
            "index", Integer(0, MAX_DEVICES_PER_NODE - 1), "Number of the device on each node, from 0.", required=True
        ),
        Key(
            "uuid",
            Text("UUID", uuid_text),
            "Its UUID, without a vendor's prefix.",
            default_words="from seed, node and index",
        ),
        Key("serial", Text(), "Its serial number.", default_words="from seed, node and index"),
        Key("pci", Text("PCI address", pci_address), "Its PCI address.", default_words="from seed, node and index"),
        Key("file", Text(), "Its device file, by which workloads name it.", default_words="card and the index"),
        Key("inlet", _CELSIUS, "Inlet temperature.", default_words="the node's", unit=_DEGREES),
        Key("mig", INSTANCES, "Its instances; none for an undivided GPU.", default=None, default_words="the pool's"),
        Key("profile", _PROFILE, "Its work: a profile by name, or a schedule.", default_words="the pool's"),
        Key("labels", _LABELS, "Facts of this device, for the identity's labels.", default={}),
    ),
    doc="One device of every node of the pool.",
)

MEMORY = Section(
    "fleet.pools.memory",
    (replace(MEMORY_KEYS[0], required=True, default=None), *MEMORY_KEYS[1:]),
    doc="The memory of each device of the pool. What plain work uses of it stays the same share. The size alone is "
    "enough.",
    shorthand="total",
)

SHARING = Section(
    "fleet.pools.sharing",
    keys_from(InCluster, "replicas", "is_renamed", "is_consumable"),
    doc="Time-slicing, as NVIDIA's device plugin does it.",
)

POOL = Section(
    "fleet.pools",
    (
        Key("name", Text("pool name", pool_name), "Name of the pool; unique.", required=True),
        Key(
            "nodes",
            OneOf(
                (
                    Integer(1, MAX_NODES),
                    ListOf(Text("node name", node_name), 1, words="list of names"),
                    Text("path of a CSV file"),
                )
            ),
            "How many nodes, or their names, or a CSV file with the columns name and, if wanted, "
            "device, count, driver, labels (as k=v;k=v), label:NAME and inlet; cluster: those of a Kubernetes cluster.",
            default=1,
        ),
        Key(
            "node-name",
            Text("text", node_pattern),
            "Names of counted nodes; {} is their number from 0, {03} with three digits.",
            default_words="the pool's name and -{}",
        ),
        Key(
            "device",
            Text(),
            "Device type: a name of the catalog, the path of a YAML file, or of the original's JSON. gb200-nvl72 and "
            "gb300-nvl72 are the boards in racks; without racks: and nodes:, a whole one.",
            default="h100",
        ),
        Key(
            "dynamics",
            DYNAMICS,
            "In place of the device type's: how clocks, power and heat of the devices act on each other.",
            default=None,
            default_words="the device type's",
        ),
        Key(
            "topology",
            Choice.of(Layout),
            "In place of the device type's: where the links between the devices of a node go (doc/topology.md).",
            default_words="the device type's",
        ),
        Key(
            "memory",
            MEMORY,
            "In place of the device type's: the memory of each device.",
            default=None,
            default_words="the device type's",
        ),
        Key("inlet", _CELSIUS, "Inlet temperature of the devices.", default_words="the device type's", unit=_DEGREES),
        Key(
            "inlet-drift",
            Number(0, MAX_INLET_DRIFT),
            "How far the inlet temperatures are from their mean over the day, which is warmest at 16:00 UTC.",
            default_words="the device type's, and 0 for an inlet that is given",
            unit=_DEGREES,
        ),
        Key("racks", RACKS, "The racks that the nodes are in.", optional=True, default_words="no racks"),
        Key(
            "mig",
            INSTANCES,
            "The instances that each GPU is divided into, by their profiles (doc/topology.md).",
            default=(),
        ),
        Key(
            "profile",
            OneOf((ListOf(_PROFILE, 1, words="list of profiles"), _PROFILE)),
            "The work of the devices: a profile by name (doc/simulation.md), a schedule of utilization, or several of "
            "them, in turn.",
            default_words="nothing",
        ),
        Key("churn", CHURN, "Workloads that start and end on each node at random.", default=None),
        Key(
            "devices-per-node",
            Integer(1, MAX_DEVICES_PER_NODE),
            "Devices of each node.",
            default_words="8; 4 in racks of the kind nvl72; with a list of the original's JSON all of its devices",
        ),
        Key(
            "devices",
            OneOf((ListOf(DEVICE, words="list of devices"), Text("path of the original's device list"))),
            "Settings of single devices of each node; or the path of the original's device list.",
            default=(),
        ),
        Key(
            "identity",
            Text(),
            "The exporter whose pages it has: a name of the catalog (name or name@version), the path of a YAML file, "
            "or of the original's JSON.",
            default="dcgm",
        ),
        Key(
            "attribution",
            Choice(("as-vendor", "honest")),
            "The owner of a device that several pods share. as-vendor: as the exporter shows it; honest: none, "
            "since its numbers belong to no single pod.",
            default="as-vendor",
        ),
        Key(
            "driver",
            Text("driver version", driver_version),
            "The version of the driver, as 580.105.08: pages, NVML and node labels show it, and what they show depends "
            "on it. Of NVIDIA's boards it decides the version of CUDA, too.",
            default_words="the device type's",
        ),
        Key("labels", _LABELS, "Facts of all devices of the pool, for the identity's labels.", default={}),
        Key("sharing", SHARING, "How pods of a cluster share its devices by time-slicing."),
        *keys_from(InCluster, "mig_strategy", "resource"),
    ),
    doc="Nodes with the same devices.",
)

FLEET = Section(
    "fleet",
    (
        *keys_from(FleetSpec, "seed", "tick_seconds", "exact_sensors"),
        Key(
            "speed",
            Number(0, MAX_SPEED),
            "Simulated seconds per real second; 0: the clock stops and is moved by command.",
            default=1.0,
        ),
        Key(
            "epoch",
            Text("time", epoch_seconds, takes_numbers=True),
            "Wall time of tick 0: start, an ISO 8601 time, or seconds since 1970.",
            default_words="start",
            field="epoch_seconds",
        ),
        Key(
            "shard",
            Text("shard", parse_shard),
            "Only one slice of the nodes is simulated: its number, from 0, and how many there are, as 0/3 "
            "([service.md](service.md#one-fleet-in-several-processes)).",
            default_words="all nodes",
        ),
        Key(
            "pools",
            ListOf(POOL, 1, words="list of pools"),
            "The pools of nodes.",
            default_yaml="[{name: dgx}]",
            default_words="one pool dgx of one node",
        ),
        CLUSTER_KEY,
    ),
    doc="The simulated machines.",
)
