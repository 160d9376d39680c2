"""The keys under ``fleet``."""

from __future__ import annotations

from fakedev.config.devices.dynamics import DYNAMICS
from fakedev.config.devices.mig import INSTANCES
from fakedev.config.names import (
    COLDEST_INLET,
    HOTTEST_INLET,
    MAX_DEVICES_PER_NODE,
    MAX_NODES,
    epoch_seconds,
    fact_name,
    node_name,
    node_pattern,
    pci_address,
    pool_name,
    uuid_text,
)
from fakedev.config.pools.churn import CHURN
from fakedev.config.profile_keys import SCHEDULE
from fakedev.config.schema.schema import Key, Section
from fakedev.config.schema.types import (
    Boolean,
    Choice,
    Duration,
    Integer,
    ListOf,
    MapOf,
    Number,
    OneOf,
    Size,
    Text,
)
from fakedev.spec.device_types import Layout
from fakedev.spec.fleet import MAX_SPEED
from fakedev.spec.kubernetes import MAX_REPLICAS, MigStrategy
from fakedev.spec.named_profiles import MIXES, PROFILES
from fakedev.spec.shards import parse_shard

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
    (
        Key("total", Size(), "Memory of the board.", required=True),
        Key("reserved", Size(), "Memory that driver and firmware use.", default=0.0),
        Key("page", Size(), "The granularity of used memory.", default=1.0),
    ),
    doc="The memory of each device of the pool. What plain work uses of it stays the same share. The size alone is "
    "enough.",
    shorthand="total",
)

SHARING = Section(
    "fleet.pools.sharing",
    (
        Key("replicas", Integer(1, MAX_REPLICAS), "How many pods may share a device.", default=1),
        Key("rename", Boolean(), "Shared devices are another resource: nvidia.com/gpu.shared.", default=False),
    ),
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
            "The nodes: a number of them, their names, or a CSV file with the columns name and, if wanted, "
            "device, count, labels (as k=v;k=v), label:NAME and inlet; cluster: those of a Kubernetes cluster.",
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
            "Device type: a name of the catalog, the path of a YAML file, or of the original's JSON.",
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
            "mig",
            INSTANCES,
            "The instances that each GPU is divided into, by their profiles (doc/parts.md).",
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
            default_words="8; with a list of the original's JSON all of its devices",
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
        Key("labels", _LABELS, "Facts of all devices of the pool, for the identity's labels.", default={}),
        Key("sharing", SHARING, "How pods of a cluster share its devices by time-slicing."),
        Key(
            "mig-strategy",
            Choice.of(MigStrategy),
            "How instances are offered in a cluster: not at all, all of one profile as nvidia.com/gpu, or each profile "
            "as a resource of its own.",
            default=MigStrategy.NONE,
            default_words="none",
        ),
    ),
    doc="Nodes with the same devices.",
)

FLEET = Section(
    "fleet",
    (
        Key(
            "seed",
            Integer(0, 2**63 - 1),
            "The seed of all randomness: the same seed gives the same history.",
            default=1,
        ),
        Key("tick", Duration(0.001, 3600), "Simulated time of one tick.", default=1.0),
        Key(
            "speed",
            Number(0, MAX_SPEED),
            "Simulated seconds per real second; 0: the clock stops and is moved by command.",
            default=1.0,
        ),
        Key(
            "epoch",
            Text("time", epoch_seconds),
            "Wall time of tick 0: start, an ISO 8601 time, or seconds since 1970.",
            default_words="start",
        ),
        Key(
            "shard",
            Text("shard", parse_shard),
            "Only one slice of the nodes is simulated: its number, from 0, and how many there are, as 0/3 "
            "([shards.md](shards.md)).",
            default_words="all nodes",
        ),
        Key(
            "pools",
            ListOf(POOL, 1, words="list of pools"),
            "The pools of nodes.",
            default_yaml="[{name: dgx}]",
            default_words="one pool dgx of one node",
        ),
    ),
    doc="The simulated machines.",
)
