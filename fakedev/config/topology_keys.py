"""The keys of a topology of run-ai's fake-gpu-operator, in all its forms, and their spellings.

The operator wrote its keys as ``gpu-memory`` first and as ``gpuMemory`` later. Both are taken everywhere, in any letter
case. Keys that are not known are noted: it has keys for its own parts, and may get more.
"""

from __future__ import annotations

from typing import Final

from fakedev.config.names import MAX_DEVICES_PER_NODE, MAX_NODES, node_label, node_name, pool_name
from fakedev.config.schema.nodes import Listing, Node, Scalar, Table
from fakedev.config.schema.schema import Key, Section, Type
from fakedev.config.schema.types import Boolean, Integer, ListOf, MapOf, Number, OneOf, Text

_COUNT: Final = Integer(0, MAX_DEVICES_PER_NODE)
_AT_LEAST_ONE: Final = Integer(1, MAX_DEVICES_PER_NODE)
#: 16 TiB; more is a mistake of the unit.
_MEBIBYTES: Final = Integer(0, 2**24)
_PERCENT: Final = Number(0, 100)
_NUMBER_OF_OTHERS: Final = Integer(0, 2**31 - 1)


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
