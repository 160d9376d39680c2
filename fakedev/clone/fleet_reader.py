"""Reads nodes, devices, instances, owners and values of a fleet from the pages of an exporter, by its labels.

The result is frozen values. Facts come from labels: the templates of an identity's labels are read backwards.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import fmean
from typing import Final

from fakedev.clone.scraped import PageGroup, plain_number
from fakedev.exporters.identity import UNITS, FamilySpec, Identity, LabelSpec, RowSpec
from fakedev.exporters.samples import CapturedFamily, Sample


@dataclass(frozen=True)
class Owner:
    """Who has a device: a pod of Kubernetes, or nobody.

    :param labels: further facts that only owned devices have, as ``pod_uid``.
    """

    pod: str = ""
    namespace: str = ""
    container: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Unit:
    """A device or an instance of it.

    :param facts: by name, as label templates have them; without those of its node and its owner.
    :param values: by quantity, in the quantity's unit.
    """

    facts: Mapping[str, str]
    values: Mapping[str, float]
    owner: Owner = Owner()


@dataclass(frozen=True)
class ObservedDevice:
    """A device of a node.

    :param parts: its instances in order of their ids; empty for an undivided one.
    """

    index: int
    unit: Unit
    parts: tuple[Unit, ...] = ()


@dataclass(frozen=True)
class ObservedNode:
    """A node with its devices in order of their indices."""

    name: str
    devices: tuple[ObservedDevice, ...]


#: A template with one fact: the text before it, the fact, how it is changed, the text after it.
_ONE_FACT: Final = re.compile(r"([^{}]*+)\{(\w++)(?:\|(\w++))?+\}([^{}]*+)")


def _number_before(text: str) -> str:
    """The number before a whole number: exporters may count from 1."""
    return str(int(text) - 1) if text.isdecimal() and int(text) else ""


#: How changes of facts are undone; the others cannot be.
_UNDONE: Final[Mapping[str, Callable[[str], str]]] = {
    "": str,
    "upper": str.lower,
    "lower": str,
    "next": _number_before,
}


@lru_cache(maxsize=1024)
def _reader(template: str) -> tuple[str, str, Callable[[str], str], str] | None:
    """What is before the fact of a template, the fact, how its change is undone, and what is after it."""
    found = _ONE_FACT.fullmatch(template)
    if found is None or (found[3] or "") not in _UNDONE:
        return None
    return found[1], found[2], _UNDONE[found[3] or ""], found[4]


def facts_of(labels: Mapping[str, str], specs: Iterable[LabelSpec]) -> dict[str, str]:
    """The facts that labels show.

    :param labels: of a line.
    :param specs: the labels of the identity; those whose template has several facts, or a change that loses something,
        show none.
    """
    facts: dict[str, str] = {}
    for spec in specs:
        reader = _reader(spec.value)
        value = labels.get(spec.name, "")
        if spec.texts:
            value = {shown: text for text, shown in reversed(spec.texts)}.get(value, "")
        if reader is None or not value:
            continue
        before, fact, undone, after = reader
        if value.startswith(before) and value.endswith(after) and len(value) > len(before) + len(after):
            text = undone(value[len(before) : len(value) - len(after)])
            if text:
                facts.setdefault(fact, text)
    return facts


#: Levels of rows that are of a device or of an instance.
OF_DEVICES: Final = frozenset(("device", "held", "part", "unit", "repeated", "whole", "tiled", "single"))
#: Facts that tell devices of a node apart, the surest first.
TELLING: Final = ("uuid", "pci_address", "serial", "index", "device_file")
#: Facts of an instance; its UUID is computed and cannot be given.
OF_PARTS: Final = frozenset(("mig_id", "mig_profile", "part", "part_uuid"))
#: Facts of the owner of a device, besides pod, namespace and container.
_OF_OWNERS: Final = ("pod_", "dra_", "hpc_job", "job_")
_OWNER: Final = ("pod", "namespace", "container")
#: Facts that the simulation computes and that say nothing of a device.
_COMPUTED: Final = frozenset(
    ("node", "pool", "device_count", "device_memory_bytes", "xid", "process", "pid", "tile", "node_tile", "window_ms")
)
_HIGHEST_INDEX: Final = 1023

#: Beginning of the names of facts that hold the numbers of families that the simulation does not follow.
KEPT_NUMBER: Final = "kept_"
#: Beginning of the names of facts of labels that the identity lacks, and of those that only owned devices have.
OTHER_LABEL: Final = "label_"
OWNERS_LABEL: Final = "pod_label_"


def is_of_owner(fact: str) -> bool:
    """Whether a fact is about the owner of the device, besides pod, namespace and container."""
    return fact.startswith(_OF_OWNERS)


@dataclass
class _UnitSoFar:
    facts: dict[str, str] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    owner: dict[str, str] = field(default_factory=dict)

    def unit(self) -> Unit:
        """What is known of it, as a value."""
        own = {name: text for name, text in self.owner.items() if name not in _OWNER}
        pod, namespace, container = (self.owner.get(name, "") for name in _OWNER)
        owner = Owner(pod, namespace, container, own)
        facts = {name: text for name, text in self.facts.items() if name not in OF_PARTS}
        return Unit(facts, self.values, owner)


@dataclass
class _DeviceSoFar:
    """
    :ivar tiles: ratios of its tiles, by quantity.
    """

    unit: _UnitSoFar = field(default_factory=_UnitSoFar)
    parts: dict[str, _UnitSoFar] = field(default_factory=dict)
    tiles: dict[str, list[float]] = field(default_factory=dict)


class FleetReader:
    """Reads the pages of a group.

    :param identity: of the exporter, with the labels that its pages have.
    :ivar notes: what could not be told, in words.
    """

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._families = {family.name: family for family in identity.families}
        self._nodes: dict[str, list[_DeviceSoFar]] = {}
        self._known: dict[tuple[str, str, str], _DeviceSoFar] = {}
        self._facts: dict[tuple[int, tuple[tuple[str, str], ...]], dict[str, str]] = {}
        self._shared: set[str] = set()
        self.notes: list[str] = []

    def read(self, group: PageGroup) -> tuple[ObservedNode, ...]:
        """The nodes of all pages, in the order of their names as pages have them."""
        for source in group.pages:
            for family in source.page.families.values():
                self._read_family(family, source.name)
        if self._shared:
            self.notes.append(f"devices have several pods, as {min(self._shared)}: only the first pod of each is here")
        return tuple(self._node(name, devices) for name, devices in self._nodes.items())

    def _read_family(self, family: CapturedFamily, page: str) -> None:
        spec = self._families.get(family.name)
        for sample in family.samples:
            labels = dict(sample.labels)
            row = None if spec is None else row_of(spec, labels, self._identity)
            is_of_tile = (
                row is not None and row.state_level == "tile" and row.quantity.endswith("_ratio")
                and math.isfinite(float(sample.number))
            )  # fmt: skip
            if row is not None and row.state_level not in OF_DEVICES and not is_of_tile:
                continue
            facts = self._facts_of(sample, labels, row)
            device = self._device(facts.get("node") or page, facts)
            if device is None:
                continue
            self._take(device, facts, sample, None if is_of_tile else row)
            if row is not None and is_of_tile:
                device.tiles.setdefault(row.quantity, []).append(float(sample.number) / UNITS[row.unit])

    def _facts_of(self, sample: Sample, labels: Mapping[str, str], row: RowSpec | None) -> dict[str, str]:
        key = (id(row) if row is not None and row.labels else 0, sample.labels)
        if key not in self._facts:
            level = "device" if row is None else row.level
            own: tuple[LabelSpec, ...] = () if row is None else row.labels
            self._facts[key] = facts_of(labels, (*self._identity.labels_on(level), *own))
        return self._facts[key]

    def _device(self, node: str, facts: Mapping[str, str]) -> _DeviceSoFar | None:
        """The device that some facts tell; None where they tell none."""
        telling = [(name, facts[name]) for name in TELLING if facts.get(name)]
        if not telling:
            return None
        for name, text in telling:
            known = self._known.get((node, name, text))
            if known is not None and known.unit.facts.get(telling[0][0], telling[0][1]) == telling[0][1]:
                break
        else:
            known = _DeviceSoFar()
            self._nodes.setdefault(node, []).append(known)
        for name, text in telling:
            self._known.setdefault((node, name, text), known)
        return known

    def _take(self, device: _DeviceSoFar, facts: Mapping[str, str], sample: Sample, row: RowSpec | None) -> None:
        """What a line says of its device, or of its instance."""
        unit = device.unit
        if "mig_id" in facts:
            unit = device.parts.setdefault(facts["mig_id"], _UnitSoFar())
        owner = {}
        for name, text in facts.items():
            if name in _OWNER or is_of_owner(name):
                owner[name] = text
            elif name in OF_PARTS:
                unit.facts.setdefault(name, text)
            elif name not in _COMPUTED:
                device.unit.facts.setdefault(name, text)
        pods = owner.get("pod"), unit.owner.get("pod")
        if pods[0] and pods[1] and pods[0] != pods[1]:
            self._shared.add(min(pods[0], pods[1]))
        elif owner:
            unit.owner = {**owner, **unit.owner}
        if row is None:
            return
        if row.fact.startswith(f"{{{KEPT_NUMBER}"):
            device.unit.facts.setdefault(row.fact.strip("{}"), plain_number(sample.number))
        elif row.is_plain and math.isfinite(float(sample.number)):
            unit.values.setdefault(row.quantity, float(sample.number) / (UNITS[row.unit] * row.times))

    def _node(self, name: str, found: list[_DeviceSoFar]) -> ObservedNode:
        devices: dict[int, _DeviceSoFar] = {}
        without: list[_DeviceSoFar] = []
        for device in found:
            index = device.unit.facts.get("index", "")
            if index.isdecimal() and int(index) <= _HIGHEST_INDEX and int(index) not in devices:
                devices[int(index)] = device
            else:
                without.append(device)
        twice = [device_so_far.unit.facts["index"] for device_so_far in without if "index" in device_so_far.unit.facts]
        if twice:
            self.notes.append(f"{name}: {len(twice)} devices have the index of another one and got a free one")
        for device in without:
            devices[next(number for number in range(len(devices) + 1) if number not in devices)] = device
        return ObservedNode(name, tuple(_devices(devices)))


def _devices(found: Mapping[int, _DeviceSoFar]) -> Iterator[ObservedDevice]:
    for index in sorted(found):
        device = found[index]
        unit = device.unit.unit()
        values = {**{name: fmean(ratios) for name, ratios in device.tiles.items()}, **unit.values}
        facts = {name: text for name, text in unit.facts.items() if name != "index"}
        parts = sorted(device.parts.items(), key=lambda each: (len(each[0]), each[0]))
        instances = tuple(
            Unit({"mig_profile": part.facts.get("mig_profile", "")}, part.values, part.unit().owner)
            for _, part in parts
        )
        yield ObservedDevice(index, Unit(facts, values, unit.owner), instances)


def row_of(spec: FamilySpec, labels: Mapping[str, str], identity: Identity) -> RowSpec | None:
    """The row of a family that a line is of, by its own labels; None where it is of none."""
    if len(spec.rows) == 1:
        return spec.rows[0]
    divided = "mig_id" in facts_of(labels, identity.labels)
    for row in spec.rows:
        if row.level in ("part", "whole") and (row.level == "part") != divided:
            continue
        fixed = {label.name: label.value for label in row.labels if "{" not in label.value}
        if all(labels.get(name) == value for name, value in fixed.items()):
            return row
    return None
