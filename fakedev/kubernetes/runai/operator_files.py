"""Reads a topology of run-ai's fake-gpu-operator: a file, a ConfigMap, a list of ConfigMaps, or the chart's values.

The operator wrote its keys as ``gpu-memory`` first and as ``gpuMemory`` later. Both are taken everywhere, in any
letter case. Unknown keys are noted: the operator has keys for its own parts, and may get more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePath
from typing import Final

from fakedev.base.errors import nearest_name
from fakedev.base.names import MAX_DEVICES_PER_NODE, MAX_NODES, node_label, node_name, pool_name
from fakedev.fleet.spec.known_boards import Board
from fakedev.fleet.spec.offers import OPERATOR_NODE_LABEL, MigStrategy
from fakedev.kubernetes.runai.operator import (
    CONFIG_MAP,
    DATA_KEY,
    GPUS_OF_PROFILE,
    MIB,
    NODE_NAME_LABEL,
    GpuUse,
    NumaLayout,
    Topology,
    TopologyGpu,
    TopologyNode,
    TopologyPool,
    numa_nodes,
)
from fakedev.schema.places import Listing, Node, Place, Report, Scalar, Table, entries_of
from fakedev.schema.reader import read_document
from fakedev.schema.sections import INVALID, Key, Section, Type, Values
from fakedev.schema.types import Boolean, Choice, Integer, ListOf, MapOf, Number, OneOf, Text

_COUNT: Final = Integer(0, MAX_DEVICES_PER_NODE)
_AT_LEAST_ONE: Final = Integer(1, MAX_DEVICES_PER_NODE)
#: 16 TiB; more is a mistake of the unit.
_MEBIBYTES: Final = Integer(0, 2**24)
_PERCENT: Final = Number(0, 100)
#: As Kubernetes has them; empty: none is given.
_QUANTITY: Final = re.compile(r"([0-9]{1,15}(\.[0-9]{1,9})?([mkMGTPE]|[KMGTPE]i)?)?")
_DISTANCE: Final = Integer(0, 2**31 - 1)
_NUMBER_OF_OTHERS: Final = Integer(0, 2**31 - 1)


def _quantity(text: str) -> str:
    if not _QUANTITY.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is no quantity: a number, perhaps with a unit, as 500m or 64Gi")
    return text


def _section(title: str, *keys: Key) -> Section:
    return Section(title, keys, any_case=True)


_RANGE: Final = _section(
    "utilization",
    Key("min", _PERCENT, "The lowest.", default=0.0, unit="percent"),
    Key("max", _PERCENT, "The highest.", default=0.0, unit="percent"),
)
_OWNER: Final = _section(
    "owner",
    Key("namespace", Text(), "Namespace of the pod.", default=""),
    Key("pod", Text(), "Name of the pod.", default=""),
    Key("container", Text(), "Name of the container.", default=""),
)
_USAGE: Final = _section(
    "usage",
    Key("utilization", _RANGE, "Of the GPU.", default=None),
    Key("fbUsed", _MEBIBYTES, "Memory.", default=0, unit="MiB"),
    Key("useKnativeUtilization", Boolean(), "Not followed.", default=False),
    Key("isInferencePod", Boolean(), "Not followed.", default=False),
)
_STATUS: Final = _section(
    "status",
    Key("allocatedBy", _OWNER, "Who owns the GPU.", default=None),
    Key("podGpuUsageStatus", MapOf(_USAGE, words="mapping of UIDs of pods to their usage"), "Who uses it.", default={}),
)
_METRICS: Final = _section(
    "metrics",
    Key("metadata", _OWNER, "Who owns the GPU.", default=None),
    Key("utilization", _PERCENT, "Of the GPU.", default=0.0, unit="percent"),
    Key("fbUsed", _MEBIBYTES, "Memory.", default=0, unit="MiB"),
    Key("podGpuUsageStatus", MapOf(_USAGE, words="mapping of UIDs of pods to their usage"), "Who uses it.", default={}),
)
_GPU: Final = _section(
    "gpu of a node",
    Key("id", Text(longest=128), "Its UUID, with GPU- before it.", default=""),
    Key("status", _STATUS, "Who uses it.", default=None),
    Key("metrics", _METRICS, "The same, in the design document.", default=None),
    Key("numaNode", Integer(0, 1023), "Its NUMA node.", default=None),
)
_OTHERS: Final = ListOf(
    _section(
        "other device",
        Key("name", Text(), "Name of the resource, as rdma/hca.", required=True),
        Key("count", _NUMBER_OF_OTHERS, "How many a node has.", default=0),
    ),
    words="list of devices with name and count",
)
_DRIVER: Final = (
    Key("driverVersion", Text(), "Version of the driver.", default=""),
    Key("cudaVersion", Text(), "Version of CUDA.", default=""),
)

#: A node: in the topology of a cluster, or a ConfigMap of its own.
NODE: Final = _section(
    "node",
    Key("gpuProduct", Text(), "Product name of its GPUs.", required=True),
    Key("gpuMemory", _MEBIBYTES, "Memory of each GPU.", default=0, unit="MiB"),
    Key("gpuCount", _AT_LEAST_ONE, "Its GPUs, where they are not listed.", default=None),
    Key("gpus", ListOf(_GPU, words="list of GPUs"), "Its GPUs.", default=None),
    Key("otherDevices", _OTHERS, "Further resources.", default=()),
    Key("migStrategy", Text(), "See there.", default=""),
    *_DRIVER,
)
_OVERRIDES: Final = _section(
    "overrides",
    Key("device_count", _COUNT, "GPUs of a node.", default=0),
    Key("devices", ListOf(MapOf(Text()), words="list of devices"), "The same, as a list.", default=()),
    Key(
        "device_defaults",
        _section(
            "device defaults",
            Key("name", Text(), "Product name.", default=""),
            Key(
                "memory",
                _section("memory", Key("total_bytes", Integer(0, 2**44), "Memory.", default=0, unit="bytes")),
                "Memory of each GPU.",
                default=None,
            ),
        ),
        "What all GPUs have.",
        default=None,
    ),
    Key("system", _section("system", *_DRIVER), "Versions.", default=None),
)
_BACKEND: Final = _section(
    "gpu",
    Key("backend", Text(), "fake or mock: both are simulated here.", default="fake"),
    Key("profile", Text(), "h100, a100 and so on.", default=""),
    Key("overrides", _OVERRIDES, "What differs from the profile.", default=None),
)
_NUMA: Final = _section(
    "numa",
    Key("zones", Integer(0, 1024), "NUMA nodes.", default=0),
    Key("gpusPerZone", ListOf(_COUNT, words="list of numbers"), "GPUs of each.", default=()),
    Key("topologyManagerPolicy", Text(), "Of the kubelet's topology manager.", default="single-numa-node"),
    Key("topologyManagerScope", Choice(("container", "pod")), "The same.", default="container"),
    Key("cpuPerZone", Text("quantity", _quantity), "Processors of each, as 4 or 500m.", default=""),
    Key("memPerZone", Text("quantity", _quantity), "Memory of each, as 64Gi.", default=""),
    Key(
        "distances",
        _section(
            "distances",
            Key("self", _DISTANCE, "Of a NUMA node to itself.", default=10),
            Key("remote", _DISTANCE, "To each other one.", default=21),
        ),
        "How far NUMA nodes are from each other.",
        default=None,
    ),
)
_POOL: Final = _section(
    "node pool",
    Key("gpuProduct", Text(), "Product name of the GPUs.", default=""),
    Key("gpuMemory", _MEBIBYTES, "Memory of each GPU.", default=0, unit="MiB"),
    Key("gpuCount", _AT_LEAST_ONE, "GPUs of each node.", default=None),
    Key("gpu", _BACKEND, "The GPUs, in the newer form.", default=None),
    Key("numa", _NUMA, "NUMA nodes.", default=None),
    Key("otherDevices", _OTHERS, "Further resources.", default=()),
    Key(
        "resources",
        ListOf(MapOf(_NUMBER_OF_OTHERS), words="list of mappings of resources to numbers"),
        "The same, in the newer form.",
        default=(),
    ),
    Key(
        "nodes",
        OneOf((Integer(1, MAX_NODES), ListOf(Text("node name", node_name), 1, words="list of names"))),
        "fakedev's own: nodes without a cluster.",
        default=1,
    ),
)
_AUTOFILL: Final = _section("config", Key("nodeAutofill", _POOL, "The GPUs of all other nodes.", default=None))


def _label_or_nothing(text: str) -> str:
    return node_label(text) if text else ""


#: The whole.
CLUSTER: Final = _section(
    "topology",
    Key("nodePools", MapOf(_POOL, pool_name, words="mapping of pools"), "The pools.", default={}),
    Key("nodePoolLabelKey", Text("label", _label_or_nothing), "The node label that names the pool.", default=""),
    Key("migStrategy", Text(), "none, single or mixed.", default=""),
    Key("nodes", MapOf(NODE, node_name, words="mapping of nodes"), "The nodes.", default={}),
    Key("config", _AUTOFILL, "Of versions before 0.0.50.", default=None),
)


def folded(key: str) -> str:
    """A key without what its spellings differ in."""
    return key.replace("-", "").replace("_", "").casefold()


def named_alike(node: Node, kind: Type) -> Node:
    """A document with its keys as these sections write them; names of the user's own stay."""
    if isinstance(kind, Section) and isinstance(node, Table):
        keys = {folded(key.name): key for key in kind.keys}
        entries: list[tuple[Scalar, Node]] = []
        for written, value in node.entries:
            key = keys.get(folded(written.text))
            if key is None:
                entries.append((written, value))
            else:
                entries.append((written._replace(text=key.name), named_alike(value, key.type)))
        return Table(node.place, tuple(entries), node.weight, node.depth)
    if isinstance(kind, MapOf) and isinstance(node, Table):
        changed = tuple((written, named_alike(value, kind.value)) for written, value in node.entries)
        return Table(node.place, changed, node.weight, node.depth)
    if isinstance(kind, ListOf) and isinstance(node, Listing):
        items = tuple(named_alike(item, kind.item) for item in node.items)
        return Listing(node.place, items, node.weight, node.depth)
    return node


#: The pool of versions without pools.
_ONLY_POOL: Final = "default"
_STRATEGIES: Final = {strategy.value: strategy for strategy in MigStrategy}


@dataclass(frozen=True)
class LoadedTopology:
    """A topology with the places of its pools and nodes, by their names."""

    topology: Topology
    pools: Mapping[str, Place] = field(default_factory=dict)
    nodes: Mapping[str, Place] = field(default_factory=dict)


def read_topology(text: str, file: str, report: Report) -> LoadedTopology | None:
    """The topology of a text, YAML or JSON; None when it cannot be used, which was reported.

    :param file: its name, as problems show it.
    """
    document = read_document(text, file, report)
    if document is None:
        return None
    reader = _Reader(file, report)
    before = len(report.sorted_problems())
    reader.read(document, PurePath(file).stem.removeprefix(f"{CONFIG_MAP}-"))
    found = reader.found()
    if len(report.sorted_problems()) > before:
        return None
    if not found.topology.pools and not found.topology.nodes:
        report.problem(
            Place(file, 1),
            "has neither pools nor nodes: give nodePools: {NAME: {gpuProduct: ..., gpuCount: ...}}, or nodes:",
        )
        return None
    return found


class _Reader:
    """Collects what the parts of a document say; they may be several."""

    def __init__(self, file: str, report: Report) -> None:
        self._file, self._report = file, report
        self._pools: dict[str, tuple[TopologyPool, Place]] = {}
        self._nodes: dict[str, tuple[TopologyNode, Place]] = {}
        self._label_key, self._strategy = "", MigStrategy.NONE

    def found(self) -> LoadedTopology:
        """All that was read."""
        return LoadedTopology(
            Topology(
                tuple(pool for pool, _ in self._pools.values()),
                tuple(node for node, _ in self._nodes.values()),
                self._label_key or OPERATOR_NODE_LABEL,
                self._strategy,
            ),
            {name: place for name, (_, place) in self._pools.items()},
            {name: place for name, (_, place) in self._nodes.items()},
        )

    def read(self, node: Node, name: str, *, is_inside: bool = False) -> None:
        """Read a document, or a part of it.

        :param name: of the node that it is of, if it is of one.
        :param is_inside: it is the text of a ConfigMap, which has no ConfigMap in it.
        """
        parts = {folded(key.text): value for key, value in entries_of(node)}
        kind, items = parts.get("kind"), parts.get("items")
        if isinstance(kind, Scalar) and kind.text.endswith("List") and isinstance(items, Listing):
            for item in items.items:
                self.read(item, name, is_inside=is_inside)
        elif isinstance(kind, Scalar) and kind.text == "ConfigMap":
            if is_inside:
                self._report.problem(kind.place, "is a ConfigMap in a ConfigMap: give the inner one alone")
            else:
                self._config_map(parts, node.place, name)
        elif "gpus" in parts:
            self._one_node(node, name)
        elif isinstance(parts.get("topology"), Table):  # the values of the operator's chart
            self.read(parts["topology"], name, is_inside=is_inside)
        elif isinstance(parts.get("initialtopology"), Table):
            self.read(parts["initialtopology"], name, is_inside=is_inside)
        else:
            self._cluster(node)

    def _config_map(self, parts: Mapping[str, Node], place: Place, name: str) -> None:
        metadata = {key.text: value for key, value in entries_of(parts.get("metadata"))}
        labels = {key.text: value for key, value in entries_of(metadata.get("labels"))}
        named = labels.get(NODE_NAME_LABEL) or metadata.get("name")
        if isinstance(named, Scalar):
            name = named.text.removeprefix(f"{CONFIG_MAP}-")
        data = {key.text: value for key, value in entries_of(parts.get("data"))}
        text = data.get(DATA_KEY)
        if not isinstance(text, Scalar):
            there = ", ".join(data) or "nothing"
            self._report.problem(place, f"data: has no {DATA_KEY} with a text: there is {there}")
            return
        place_of = partial(_place_in, text)
        own = Report()
        # By its beginning, not by the name of the file around it, the text is JSON or YAML.
        inner = read_document(text.text, self._file.removesuffix(".json"), own)
        for problem in own.sorted_problems():
            self._report.problem(place_of(problem.line), problem.text)
        if inner is not None:
            self.read(_moved(inner, place_of), name, is_inside=True)

    def _one_node(self, node: Node, name: str) -> None:
        try:
            name = node_name(name)
        except ValueError as error:
            self._report.problem(node.place, f"the node is named by its ConfigMap or by the file: {error}")
            return
        values = NODE.read(named_alike(node, NODE), name, self._report)
        if values is not INVALID:
            self._set_strategy(values)
            self._add_node(name, values)

    def _cluster(self, node: Node) -> None:
        values = CLUSTER.read(named_alike(node, CLUSTER), "", self._report)
        if values is INVALID:
            return
        self._label_key = values["nodePoolLabelKey"] or self._label_key
        self._set_strategy(values)
        for name, pool in values["nodePools"].items():
            self._add_pool(name, pool)
        autofill = _given(values["config"], "nodeAutofill")
        if autofill is not None:
            self._add_pool(_ONLY_POOL, autofill)
        for name, one in values["nodes"].items():
            self._add_node(name, one)

    def _set_strategy(self, values: Values) -> None:
        text = values["migStrategy"].lower()
        if text and text not in _STRATEGIES:
            nearest = nearest_name(text, _STRATEGIES)
            hint = f"did you mean {nearest}? " if nearest else ""
            problem = f"migStrategy: {text[:40]!r} is not one of {', '.join(_STRATEGIES)}: {hint}none offers whole GPUs"
            self._report.problem(values.place_of("migStrategy"), problem)
        elif text:
            self._strategy = _STRATEGIES[text]

    def _add_pool(self, name: str, values: Values) -> None:
        place, where = values.place, f"nodePools.{name}"
        board, count = self._board(values), values["gpuCount"]
        overrides = values["gpu"]["overrides"]
        count = overrides["device_count"] or len(overrides["devices"]) or count
        count = count or (GPUS_OF_PROFILE if board.profile else None)
        if not board.product and not board.profile:
            self._report.problem(place, f"{where}: 'gpuProduct' is missing: the product name, as NVIDIA-A100-SXM4-80GB")
        if not count:
            if not values.given("gpuCount"):
                self._report.problem(place, f"{where}: 'gpuCount' is missing: the GPUs of each node, from 1")
            return
        zones: Values = values["numa"]
        numa = self._report.tried(
            zones.place, f"{where}.numa: ", numa_nodes, count, zones["zones"], zones["gpusPerZone"]
        )
        given = values["nodes"]
        nodes = given if isinstance(given, tuple) else tuple(f"{name}-{number}" for number in range(given or 1))
        others = _others(values) | {
            resource: number for by_resource in values["resources"] for resource, number in by_resource.items()
        }
        # The number of GPUs is that of the profile; the operator, too, takes only the others from there.
        others.pop("nvidia.com/gpu", None)
        self._pools[name] = TopologyPool(name, board, count, numa or (), _layout(zones), others, nodes), place

    def _add_node(self, name: str, values: Values) -> None:
        if name in self._nodes:
            first = self._nodes[name][1]
            self._report.problem(values.place, f"the node {name!r} is there twice (first in line {first.line})")
            return
        listed = values["gpus"]
        gpus = tuple(map(self._gpu, listed)) if listed is not None else (TopologyGpu(),) * (values["gpuCount"] or 0)
        if not gpus:
            self._report.problem(values.place, f"{name}: has no GPUs: list them under gpus:, or give gpuCount")
            return
        ids: dict[str, int] = {}
        for index, gpu in enumerate(gpus):
            if gpu.id and ids.setdefault(gpu.id, index) != index:
                place = listed[index].place_of("id")
                self._report.problem(place, f"{name}: GPUs {ids[gpu.id]} and {index} have the same id: give another")
        self._nodes[name] = TopologyNode(name, self._board(values), gpus, _others(values)), values.place

    def _gpu(self, values: Values) -> TopologyGpu:
        return TopologyGpu(values["id"].removeprefix("GPU-"), tuple(self._uses(values)), values["numaNode"])

    def _uses(self, values: Values) -> Iterator[GpuUse]:
        """The pods on a GPU, in the three forms that there are."""
        status, metrics = _given(values, "status"), _given(values, "metrics")
        source = status or metrics
        if source is None:
            return
        owner = source["metadata" if status is None else "allocatedBy"].build(GpuUse)
        for uid, usage in source["podGpuUsageStatus"].items():
            low, high = usage["utilization"]["min"], usage["utilization"]["max"]
            if low > high:
                place = usage.place_of("utilization")
                self._report.problem(place, f"utilization: min {low:g} is over max {high:g}: exchange them")
            if usage["useKnativeUtilization"] or usage["isInferencePod"]:
                self._report.note(usage.place, "the requests of Knative are not followed: min and max are used")
            yield replace(owner, utilization=(low, high), fb_used_mib=usage["fbUsed"], uid=uid)
        if source["podGpuUsageStatus"] or not owner.pod:
            return
        if status is None:
            load = source["utilization"]
            yield replace(owner, utilization=(load, load), fb_used_mib=source["fbUsed"])
        else:
            yield owner

    @staticmethod
    def _board(values: Values) -> Board:
        board = Board(values["gpuProduct"] or "", values["gpuMemory"])
        if values.section is NODE:
            return replace(board, driver_version=values["driverVersion"], cuda_version=values["cudaVersion"])
        overrides: Values = values["gpu"]["overrides"]
        system, defaults = overrides["system"], overrides["device_defaults"]
        return Board(
            defaults["name"] or board.product,
            defaults["memory"]["total_bytes"] // MIB or board.memory_mib,
            values["gpu"]["profile"],
            system["driverVersion"],
            system["cudaVersion"],
        )


def _given(values: Values, key: str) -> Values | None:
    """A section that is written; None when it is not."""
    found: Values = values[key]
    return found if values.given(key) else None


def _layout(numa: Values) -> NumaLayout | None:
    distances: Values = numa["distances"]
    return NumaLayout(
        numa["zones"], numa["topologyManagerPolicy"], numa["topologyManagerScope"], numa["cpuPerZone"],
        numa["memPerZone"], distances["self"], distances["remote"],
    ) if numa["zones"] else None  # fmt: skip


def _others(values: Values) -> dict[str, int]:
    return {device["name"]: device["count"] for device in values["otherDevices"] if device["name"]}


def _place_in(text: Scalar, line: int) -> Place:
    """Where a line of a text is in the file around it."""
    if text.json:
        return text.place  # it is one line there
    # A block of text begins in the line after its key.
    is_block = "\n" in text.text.rstrip("\n")
    return Place(text.place.file, text.place.line + line - (not is_block))


def _moved(node: Node, place_of: Callable[[int], Place]) -> Node:
    """A document with the places that its lines have in the file around it."""
    place = place_of(node.place.line)
    if isinstance(node, Table):
        entries = ((key._replace(place=place_of(key.place.line)), value) for key, value in node.entries)
        moved = tuple((key, _moved(value, place_of)) for key, value in entries)
        return Table(place, moved, node.weight, node.depth)
    if isinstance(node, Listing):
        return Listing(place, tuple(_moved(item, place_of) for item in node.items), node.weight, node.depth)
    return node._replace(place=place)
