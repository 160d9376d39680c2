"""Device types in YAML: keys, connections, memory and MIG of devices and pools, and what they become.

It reads a device type's YAML to the device type that the fleet reads. ``connections`` says how a board is connected
to its host and to other boards. A pool may replace the memory of its devices' type: for a board that is not in the
catalog, or one with more memory. MIG: how boards can be divided into instances, and the instances of pools and
devices.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fakedev.base.names import MAX_DEVICES_PER_NODE, fact_name, pci_address
from fakedev.fleet.devices.relations import Relations
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.parts.mig import Mig, instances
from fakedev.fleet.parts.tiles import tiles_of
from fakedev.fleet.settings.dynamics import DYNAMICS, read_dynamics
from fakedev.fleet.settings.loaded import LoadedDevice
from fakedev.fleet.spec.device_types import (
    Connections,
    DeviceType,
    Layout,
    Links,
    MigProfile,
    PartSpec,
    Pcie,
    Range,
    Server,
)
from fakedev.fleet.spec.fleet_spec import NodeSpec, PoolSpec
from fakedev.fleet.spec.quantities import (
    DIRECT_QUANTITIES,
    ERROR_COUNTERS,
    FILE_ALIASES,
    INTEGRALS,
    KNOWN_QUANTITIES,
    quantity_in_file,
    quantity_name,
)
from fakedev.schema.places import Node, Place, Report, Scalar, Table
from fakedev.schema.sections import INVALID, Key, Section, Type, Values, did_you_mean
from fakedev.schema.types import Choice, Integer, ListOf, MapOf, Number, Size, Text, keys_from

_INDEX: Final = Integer(0, MAX_DEVICES_PER_NODE - 1)

PCIE = Section(
    "device type.connections.pcie",
    keys_from(Pcie),
    doc="The PCIe link.",
)

LINKS = Section(
    "device type.connections.links",
    (
        *keys_from(Links),
        Key(
            "peers",
            ListOf(ListOf(_INDEX, words="list of devices"), words="list of lists of devices"),
            "For each device the devices at the other ends of its links, in their order; in place of the layout on "
            "nodes of as many devices.",
            default=(),
        ),
    ),
    doc="The links to other boards.",
)

SERVER = Section(
    "device type.connections.server",
    (
        *keys_from(Server, "name"),
        Key(
            "pci-addresses", ListOf(Text("PCI address", pci_address)), "The PCI addresses of its devices.", default=(),
            default_words="from seed, node and index",
        ),
        *keys_from(Server, "numa_nodes", "pcie_switches"),
        Key(
            "cpus", MapOf(Text(), words="mapping of NUMA nodes to CPUs"), "The CPUs of each NUMA node.", default={},
            default_words="not known",
        ),
    ),
    doc="The server that usually holds the board; used for nodes with at most as many devices.",
)  # fmt: skip

CONNECTIONS = Section(
    "device type.connections",
    (
        Key("pcie", PCIE, "The PCIe link.", default=None, default_words="not shown"),
        Key("links", LINKS, "The links to other boards.", default=None, default_words="no individual links"),
        Key("server", SERVER, "The server that usually holds the board.", default=None, default_words="not known"),
    ),
    doc="How the board is connected.",
)


def read_connections(section: Values | None, report: Report) -> Connections:
    """The connections that a section describes; problems are reported."""
    if section is None:
        return Connections()
    pcie = None if section["pcie"] is None else _pcie(section["pcie"], report)
    links = None if section["links"] is None else _links(section["links"], report)
    return Connections(pcie, links, _server(section["server"], report))


def with_topology(device_type: DeviceType, values: Values, report: Report) -> DeviceType:
    """The device type with the topology of a pool, if that has one; problems are reported."""
    if values["topology"] is None:
        return device_type
    layout, links, place = values["topology"], device_type.connections.links, values.place_of("topology")
    if links is None:
        report.problem(place, f"topology: the device type {device_type.name!r} has no individual links")
        return device_type
    if layout is Layout.SWITCHES and not links.switches:
        report.problem(place, f"topology: the device type {device_type.name!r} has no switches")
        return device_type
    switches = links.switches if layout is Layout.SWITCHES else 0
    links = replace(links, layout=layout, switches=switches, peers=())
    return replace(device_type, connections=replace(device_type.connections, links=links))


def _pcie(values: Values, report: Report) -> Pcie:
    generation, idle = values["generation"] or 0, values["idle-generation"]
    if idle > generation:
        place = values.place_of("idle-generation")
        report.problem(place, f"pcie: idle-generation {idle} is over generation {generation}")
    return values.build(Pcie)


def _links(values: Values, report: Report) -> Links:
    switches = values["switches"]
    if (values["layout"] is Layout.SWITCHES) != bool(switches):
        place = values.place_of("switches" if switches else "layout")
        report.problem(place, "links: switches are given where the layout is switches, and only there")
    _check_peers(values["peers"], values["count"] or 0, values.place_of("peers"), report)
    return values.build(Links)


def _check_peers(peers: Sequence[Sequence[int]], count: int, place: Place, report: Report) -> None:
    """Reports links that only one end lists."""
    for device, row in enumerate(peers):
        if len(row) != count or not all(0 <= peer < len(peers) and peer != device for peer in row):
            report.problem(place, f"peers: device {device} needs {count} others of 0 to {len(peers) - 1}")
            return
    for device, row in enumerate(peers):
        for peer in set(row):
            if row.count(peer) != peers[peer].count(device):
                report.problem(place, f"peers: {device} has another number of links to {peer} than {peer} to {device}")
                return


def _server(values: Values, report: Report) -> Server:
    addresses = values["pci-addresses"]
    if len(set(addresses)) < len(addresses):
        report.problem(values.place_of("pci-addresses"), "server: two devices have the same PCI address")
    cpus = {}
    for text, shown in values["cpus"].items():
        if not text.isdecimal():
            report.problem(values.place_of("cpus"), f"server: cpus: {text[:40]!r} is no number of a NUMA node")
            continue
        cpus[int(text)] = shown
    return values.build(Server, cpus=cpus)


_USED: Final = "memory_used_bytes"
#: Of device types, and of pools with another memory.
MEMORY_KEYS: Final = keys_from(DeviceType, "memory_total_bytes", "memory_reserved_bytes", "memory_page_bytes")


def with_memory(device_type: DeviceType, values: Values, report: Report) -> DeviceType:
    """The device type with the memory of a pool, if that gives it; problems are reported.

    What plain work uses stays the same share of the memory.

    :param values: of the pool.
    """
    memory: Values | None = values["memory"]
    if memory is None or memory["total"] is None:
        return device_type
    total, reserved = memory["total"], memory["reserved"]
    usable = total - reserved
    if usable <= 0:
        text = f"memory: reserved {reserved:.0f} leaves nothing of total {total:.0f}: give a larger total"
        report.problem(values.place_of("memory"), text)
        return device_type
    if device_type.tiles:
        text = f"memory: the device type {device_type.name!r} has tiles with memory of their own: remove it"
        report.problem(values.place_of("memory"), text)
        return device_type
    ranges = dict(device_type.ranges)
    before = device_type.memory_total_bytes - device_type.memory_reserved_bytes
    if _USED in ranges:
        share = usable / before if before > 0 else 1.0
        low, high = (min(end * share, usable) for end in (ranges[_USED].low, ranges[_USED].high))
        ranges[_USED] = Range(low, high)
    return replace(
        device_type,
        ranges=ranges,
        memory_total_bytes=total,
        memory_reserved_bytes=reserved,
        memory_page_bytes=max(memory["page"], 1.0),
    )


MIG_PROFILE = Section(
    "device type.mig.profiles",
    (
        *keys_from(MigProfile, "name", "slices", "memory_slices", "memory_bytes"),
        Key(
            "begins",
            ListOf(Integer(0, 63), 1, words="list of numbers"),
            "Memory slices at which an instance may begin, the first choice first.",
            required=True,
        ),
        *keys_from(MigProfile, "most"),
    ),
    doc="A kind of instance.",
)

MIG = Section(
    "device type.mig",
    (
        Key("slices", Integer(1, 64), "Compute slices of the board.", required=True),
        Key("memory-slices", Integer(1, 64), "Memory slices of the board, a power of 2.", required=True),
        Key("profiles", ListOf(MIG_PROFILE, 1, words="list of profiles"), "The kinds of instances.", required=True),
    ),
    doc="How a board can be divided into instances (MIG).",
)

#: Of a pool, and of one device of its nodes.
INSTANCES = ListOf(Text("profile"), words="list of profiles, as [3g.40gb, 1g.10gb]")


def read_mig(values: Values, report: Report) -> Mig | None:
    """How boards of a type can be divided; None when they cannot, or when there are problems, which were reported."""
    if not values.given("mig") or values["mig"] is None:
        return None
    section: Values = values["mig"]
    profiles = [
        row.build(MigProfile)
        for row in section["profiles"] or ()
        if all(row[key.name] is not None for key in MIG_PROFILE.keys)
    ]
    slices, memory_slices = section["slices"], section["memory-slices"]
    if slices is None or memory_slices is None or not profiles:
        return None
    is_right = True
    for profile, row in zip(profiles, section["profiles"], strict=False):
        reason = _wrong(profile, slices, memory_slices)
        if reason:
            report.problem(row.place, f"mig: {profile.name}: {reason}")
            is_right = False
    if memory_slices & (memory_slices - 1):
        report.problem(section.place_of("memory-slices"), f"mig: memory-slices: {memory_slices} is no power of 2")
        is_right = False
    return Mig(slices, memory_slices, tuple(profiles)) if is_right else None


def _wrong(profile: MigProfile, slices: int, memory_slices: int) -> str:
    """Why a profile does not fit a board with this many slices; empty when it fits."""
    if profile.memory_slices & (profile.memory_slices - 1):
        return f"memory-slices: {profile.memory_slices} is no power of 2"
    if profile.slices > slices or profile.memory_slices > memory_slices:
        return f"the board has {slices} slices and {memory_slices} memory slices"
    for begin in profile.begins:
        if begin % profile.memory_slices or begin + profile.memory_slices > memory_slices:
            return f"begins: no {profile.memory_slices} memory slices in a row begin at {begin}"
    return ""


def divided(
    names: Sequence[str], places: Sequence[Place], device: LoadedDevice, report: Report
) -> tuple[PartSpec, ...]:
    """The instances of the profiles of those names on a board; what is wrong is reported, and empty then.

    :param places: of each name.
    """
    if not names:
        return ()
    name = device.type.name
    if device.mig is None:
        report.problem(places[0], f"mig: the device type {name} cannot be divided into instances")
        return ()
    profiles = []
    for each, place in zip(names, places, strict=False):
        profile = device.mig.profile(each)
        if profile is None:
            known = [known.name for known in device.mig.profiles]
            hint = did_you_mean(each, known, "; ") or f": it has {', '.join(known)}"
            report.problem(place, f"mig: {name} has no profile {each[:60]!r}{hint}")
        else:
            profiles.append(profile)
    if len(profiles) < len(names):
        return ()
    try:
        parts = tuple(instances(device.mig, profiles))
    except ValueError as error:
        report.problem(places[0], f"mig: {', '.join(names)} do not fit on {name}: {error}")
        return ()
    slices = device.mig.slices
    if device.type.facts.get("vendor") == "AMD" and (len({*names}) > 1 or len(names) * profiles[0].slices < slices):
        modes = " or ".join(f"{slices // profile.slices} {profile.name}" for profile in device.mig.profiles)
        report.note(places[0], f"mig: a board is in one mode, {modes}: no {name} is divided into {', '.join(names)}")
    return parts


@dataclass(frozen=True)
class Amount(Type):
    """A number, or a size in bytes."""

    words: str = "number or size"

    def takes(self, node: Node) -> bool:
        return isinstance(node, Scalar)

    def read(self, node: Node, where: str, report: Report) -> Any:
        number = Number()
        return (number if number.takes(node) else Size()).read(node, where, report)

    def schema(self) -> dict[str, Any]:
        return {"type": ["number", "string"]}


@dataclass(frozen=True)
class Anything(Type):
    """A value for readers of the file only."""

    words: str = "anything"

    def takes(self, node: Node) -> bool:
        return True

    def read(self, node: Node, where: str, report: Report) -> Any:
        return INVALID if node is None else ""

    def schema(self) -> dict[str, Any]:
        return {}


_TEXTS: Final = MapOf(Text(), check=fact_name, words="mapping of fact names to texts")


DEVICE_TYPE = Section(
    "device type",
    (
        Key("name", Text(), "Name of the type.", required=True),
        Key("aliases", ListOf(Text()), "Other names for it, in the catalog.", default=()),
        Key(
            "facts",
            _TEXTS,
            "Texts for labels: product_name, vendor, pci_device_id, driver_version and others.",
            default={},
        ),
        Key(
            "memory",
            Section(
                "device type.memory",
                MEMORY_KEYS,
                doc="The board's memory.",
            ),
            "The board's memory.",
        ),
        Key(
            "ranges",
            MapOf(
                ListOf(Amount(), 2, words="list of two numbers"),
                words="mapping of quantities to [at load 0, at load 100]",
            ),
            "Quantity to its values at load 0 and at load 100; bytes may be written as sizes (19818MiB).",
            required=True,
        ),
        Key("dynamics", DYNAMICS, "How clocks, power and heat act on each other.", default=None),
        Key("connections", CONNECTIONS, "How the board is connected.", default=None, default_words="not known"),
        Key("tiles", Integer(1, 16), "The number of its tiles.", default=1),
        Key("mig", MIG, "How it can be divided into instances.", default=None, default_words="not at all"),
        Key(
            "limits",
            MapOf(Amount(), words="mapping of quantities to numbers"),
            "Quantity to the value above which a workload of the device is ended: the one that grew most.",
            default={},
            default_words="none; where workloads give the memory that they need, all that the board has",
        ),
        *keys_from(DeviceType, "capability", "counts_errors"),
        Key(
            "lacks",
            ListOf(Choice((*ERROR_COUNTERS, *INTEGRALS, "xid"))),
            "Counters, or codes of errors (xid), that it does not have, e.g. energy_joules before Volta (NVIDIA).",
            default=(),
        ),
        Key("sources", Anything(), "Where the values come from: for readers only."),
    ),
    doc="A model of device.",
)


_QUANTITY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

#: NVIDIA's architectures without profiling metrics and a counter of energy (nvmlDeviceGetTotalEnergyConsumption: "for
#: Volta or newer fully supported devices").
_BEFORE_VOLTA: Final = ("kepler", "maxwell", "pascal")
#: Those whose GeForce boards have no profiling metrics (NVIDIA/DCGM#234).
_BEFORE_BLACKWELL: Final = (*_BEFORE_VOLTA, "volta", "turing", "ampere", "ada", "hopper")
_GEFORCE: Final = "GeForce"
#: The fact that is 0 for boards without profiling metrics.
_PROFILING: Final = "profiling_metrics"

#: Replaces a range that was reported, so that the quantity has no further problems.
_UNKNOWN: Final = Range(0.0, 0.0)


def load_device(node: Node, report: Report) -> LoadedDevice | None:
    """The device type of a document; None when it cannot be used (the problems are reported)."""
    if not isinstance(node, Table):
        report.problem(node.place, "a device type is a mapping with name, facts, memory and ranges")
        return None
    values = DEVICE_TYPE.read(node, "", report)
    if values is INVALID:
        return None
    memory: Values = values["memory"]
    ranges = _ranges(values, report)
    if values["capability"] < 0:
        report.problem(values.place_of("capability"), f"capability must not be below 0, as {values['capability']:g} is")
    _check_memory(memory, ranges, values.place_of("ranges"), report)
    facts: dict[str, str] = dict(values["facts"])
    without_profiling = _BEFORE_BLACKWELL if _GEFORCE in facts.get("product_name", "") else _BEFORE_VOLTA
    is_old = facts.get("architecture") in _BEFORE_VOLTA
    if facts.get("architecture") in without_profiling:
        facts.setdefault(_PROFILING, "0")
    device = values.build(
        DeviceType,
        name=values["name"] or "",
        ranges=ranges,
        facts=facts,
        memory_total_bytes=memory["total"],
        memory_reserved_bytes=memory["reserved"],
        memory_page_bytes=max(memory["page"], 1.0),
        lacks=tuple(dict.fromkeys((*values["lacks"], *(["energy_joules"] if is_old else [])))),
        limits={},
        dynamics=read_dynamics(values["dynamics"] if values.given("dynamics") else None, ranges, report),
        connections=read_connections(values["connections"] if values.given("connections") else None, report),
        tiles=tiles_of(values["tiles"], memory["total"]),
    )
    mig = read_mig(values, report)
    device = replace(
        device, limits=_read_limits(values, device, report), mig_slices=mig.slices if mig else 0,
        mig_profiles=mig.profiles if mig else (),
    )  # fmt: skip
    return LoadedDevice(device, mig=mig)


def checked_range(name: str, low: float, high: float) -> Range:
    """The range of a quantity.

    :raises ValueError: when no device could have it.
    """
    if low > high:
        raise ValueError(f"{name}: {low:g} at load 0 is over {high:g} at load 100: the smaller number comes first")
    if name in KNOWN_QUANTITIES:
        if name.endswith("_ratio") and not 0 <= low <= high <= 1:
            raise ValueError(f"{name}: {low:g} to {high:g} is not within 0 to 1")
        if low < 0 and not name.endswith("_celsius"):
            raise ValueError(f"{name}: {low:g} is below 0")
    return Range(low, high)


def _ranges(values: Values, report: Report) -> dict[str, Range]:
    table = values.nodes.get("ranges")
    if not isinstance(table, Table):
        return {}
    ranges: dict[str, Range] = {}
    for key, node in table.entries:
        pair = (values["ranges"] or {}).get(key.text)
        if pair is None:
            ranges.setdefault(quantity_in_file(key.text), _UNKNOWN)
            continue
        try:
            name = _range_name(key.text, key.place, report)
            if len(pair) != 2:
                raise ValueError(f"{key.text}: must be two numbers, at load 0 and at load 100, as [3, 35]")
            ranges[name] = checked_range(name, *pair)
        except ValueError as error:
            ranges.setdefault(quantity_in_file(key.text), _UNKNOWN)
            report.problem(node.place, f"ranges: {error}")
    return ranges


def _range_name(text: str, place: Place, report: Report) -> str:
    name = quantity_in_file(text)
    if name in KNOWN_QUANTITIES and name not in DIRECT_QUANTITIES:
        raise ValueError(
            f"{text}: is computed and has no range; ranges are for {', '.join(DIRECT_QUANTITIES)} or names of your own"
        )
    if not _QUANTITY.fullmatch(name):
        raise ValueError(f"{text[:60]!r} is no name of a quantity: letters, digits and _ only, no digit first")
    if name not in KNOWN_QUANTITIES:
        hint = did_you_mean(name, (*DIRECT_QUANTITIES, *FILE_ALIASES), "; ")
        if hint:
            report.note(place, f"ranges: {name!r} is taken as a quantity of your own{hint}")
    return name


def _check_memory(memory: Values, ranges: dict[str, Range], place: Place, report: Report) -> None:
    total, reserved = memory["total"], memory["reserved"]
    if reserved > total:
        report.problem(memory.place_of("reserved"), f"memory: reserved {reserved:.0f} is over total {total:.0f}")
    used = ranges.get("memory_used_bytes")
    if used is not None and total and used.high > total - reserved:
        report.problem(
            place,
            f"ranges: memory_used_bytes goes to {used.high:.0f}, and total less reserved is {total - reserved:.0f}",
        )


def _read_limits(values: Values, device: DeviceType, report: Report) -> dict[str, float]:
    """The limits of a device type, by quantity.

    Problems: limits of quantities that the type lacks, limits given twice.

    :param device: the type without its limits.
    """
    table = values.nodes.get("limits")
    if not isinstance(table, Table):
        return {}
    known = Relations(Roster([PoolSpec("pool", (NodeSpec("node"),), device, 1)]), 0.0, 0).quantities
    limits: dict[str, float] = {}
    for key, node in table.entries:
        limit = values["limits"].get(key.text)
        name = quantity_name(key.text.replace("-", "_"))
        if limit is None:
            continue
        if name not in known:
            hint = did_you_mean(name, known, "; ")
            report.problem(key.place, f"limits: {device.name or 'it'} has no {key.text!r}{hint}")
        elif name in limits:
            report.problem(node.place, f"limits: {name} is there twice: remove one")
        else:
            limits[name] = limit
    return limits
