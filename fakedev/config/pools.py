"""The pools of the configuration: nodes, devices, identities."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fakedev.base.groups import grouped
from fakedev.exporters.identity import SharedDevices
from fakedev.exporters.settings.catalog import Catalog
from fakedev.exporters.settings.loaded import LoadedIdentity
from fakedev.fleet.entities.roster import device_files
from fakedev.fleet.events import MAX_DEVICES
from fakedev.fleet.settings.devices import divided, with_memory, with_topology
from fakedev.fleet.settings.dynamics import read_dynamics
from fakedev.fleet.settings.loaded import LoadedDevice, LoadedDeviceList, LoadedPool
from fakedev.fleet.settings.node_lists import CLUSTER, ListedNode, Names, PoolNodes
from fakedev.fleet.settings.pools import read_churn
from fakedev.fleet.settings.racks import in_own_racks, read_racks, with_fabric
from fakedev.fleet.spec.device_types import DeviceType
from fakedev.fleet.spec.fleet_spec import DeviceSpec, NodeSpec, PoolSpec
from fakedev.fleet.spec.offers import InCluster
from fakedev.fleet.spec.rack_spec import RackKind
from fakedev.schema.places import Place, Report, Table
from fakedev.schema.sections import Values

#: Facts of single devices, by which identities distinguish them.
_SINGLE: Final = ("uuid", "serial", "pci_address", "device_file", "addr", "file")
_DEVICES_PER_NODE: Final = 8
_DEVICES_PER_TRAY: Final = 4


@dataclass(frozen=True)
class ShownPool(LoadedPool):
    """A pool with the identity that shows it."""

    identity: LoadedIdentity

    @property
    def sample(self) -> PoolSpec:
        """The pool for checks of its pages: one whose nodes come from a cluster has two nodes."""
        if not self.spec.has_cluster_nodes:
            return self.spec
        return replace(self.spec, nodes=(NodeSpec("node-0"), NodeSpec("node-1")))


class Pools:
    """Builds the pools; problems are reported."""

    def __init__(self, catalog: Catalog, report: Report) -> None:
        self._catalog = catalog
        self._report = report
        self._names = Names("pool", report)
        self._nodes = PoolNodes(catalog, report)
        self._devices = 0

    def load(self, pools: Iterable[Values]) -> list[ShownPool]:
        """All pools that could be built; one whose nodes have different devices becomes several of the same name."""
        return [pool for values in pools for pool in self._pool(values)]

    def _pool(self, values: Values) -> list[ShownPool]:
        values = in_own_racks(values)
        identity = self._catalog.identity(values["identity"], values.place_of("identity"))
        file = values["devices"]
        listed = self._catalog.device_list(file, values.place_of("devices")) if isinstance(file, str) else None
        if identity is not None and values["attribution"] == "honest":
            identity = replace(identity, identity=replace(identity.identity, shared_devices=SharedDevices.NO_POD))
        usual = self._device_count(values, listed)
        nodes = self._nodes.load(values)
        counts = [node.count or usual for node in nodes]
        most = max(counts, default=usual)
        devices = self._listed_devices(values, listed, most) if listed else self._devices_given(values, most)
        kinds = grouped(((node.device, count), node) for node, count in zip(nodes, counts, strict=True))
        types = {word: self._type(word, kinds, values) for word in dict.fromkeys(["", *(word for word, _ in kinds)])}
        name = values["name"]
        if name is None:
            return []
        self._names.add(name, values.place_of("name"))
        fits = self._fits(sum(counts), values.place_of("nodes"))
        is_from_cluster = values["nodes"] == CLUSTER
        if is_from_cluster:
            self._check_of_cluster(values)
            kinds = {("", usual): []}
        if identity is None or not (nodes or is_from_cluster) or not fits or None in types.values():
            return []
        for label in _SINGLE:
            if label in values["labels"] and sum(counts) > 1:
                self._report.problem(
                    _label_place(values, label),
                    f"labels: {label!r} differs from device to device: give it under devices, for one index",
                )
        self._check_nodes(nodes, counts)
        driver = {"driver_version": values["driver"]} if values["driver"] else {}
        if driver and "driver_version" in values["labels"]:
            text = "driver: the label driver_version is the same: give one of the two"
            self._report.problem(values.place_of("driver"), text)
        shown_as = {metric.quantity: name for name, metric in reversed(identity.identity.metric_names().items())}
        in_cluster = values["sharing"].build(
            InCluster, mig_strategy=values["mig-strategy"], resource=values["resource"] or ""
        )  # fmt: skip
        churn = None
        if values["churn"] is not None and not is_from_cluster:
            churn = read_churn(values["churn"], self._catalog, self._report)
        racks = read_racks(values, len(nodes), [count for _, count in kinds], self._report)
        pools = []
        for (word, count), alike in kinds.items():
            device = types[word]
            assert device is not None, word
            own = {index: device for index, device in devices.items() if index < count}
            if identity.strict and listed is not None:
                own = _without_made_labels(own, listed, identity, {*device.type.facts, *values["labels"]})
            device_type = with_topology(self._with_dynamics(device.type, values), values, self._report)
            device_type = with_fabric(with_memory(device_type, values, self._report), racks, values, self._report)
            parts = divided(values["mig"], _places(values, "mig"), device, self._report)
            specs = [node.spec if racks is None else replace(node.spec, place=at) for at, node in enumerate(alike)]
            spec = PoolSpec(
                name, tuple(specs), device_type, count,
                self._with_instances(values, own, device),
                driver | values["labels"], shown_as, values["inlet"], parts,
                churn, in_cluster, is_from_cluster, racks, inlet_drift_celsius=values["inlet-drift"],
            )  # fmt: skip
            self._check_inlets(spec, values)
            self._check_files(spec, values.place_of("devices"))
            pools.append(ShownPool(spec, values, device, listed, identity))
        return pools

    def _check_of_cluster(self, values: Values) -> None:
        """Reports keys that a pool without nodes of its own cannot have."""
        for key in ("profile", "churn"):
            if values.given(key):
                text = f"{key}: the nodes come from the cluster, and their work from its pods"
                self._report.problem(values.place_of(key), text)

    def _type(
        self, word: str, kinds: Mapping[tuple[str, int], Sequence[ListedNode]], values: Values
    ) -> LoadedDevice | None:
        """The device type with a name in a list of nodes; empty: the pool's."""
        if not word:
            return self._catalog.device(values["device"], values.place_of("device"))
        return self._catalog.device(word, next(nodes[0].place for (kind, _), nodes in kinds.items() if kind == word))

    def _with_instances(
        self, values: Values, devices: dict[int, DeviceSpec], device: LoadedDevice
    ) -> dict[int, DeviceSpec]:
        """The devices of a pool, with instances where these are given."""
        for each in values["devices"] if not isinstance(values["devices"], str) else ():
            if each["index"] in devices and each["mig"] is not None:
                parts = divided(each["mig"], _places(each, "mig"), device, self._report)
                devices[each["index"]] = replace(devices[each["index"]], parts=parts)
        return devices

    def _with_dynamics(self, device_type: DeviceType, values: Values) -> DeviceType:
        if not values.given("dynamics"):
            return device_type
        return replace(device_type, dynamics=read_dynamics(values["dynamics"], device_type.ranges, self._report))

    def _check_inlets(self, pool: PoolSpec, values: Values) -> None:
        """Reports inlet temperatures of devices without dynamics, which they do not affect."""
        if pool.device_type.dynamics is not None or values.given("dynamics"):
            return
        given = [values.place_of("inlet")] if pool.inlet_celsius is not None else []
        given += [values.place_of("devices")] if any(d.inlet_celsius is not None for d in pool.devices.values()) else []
        given += [values.place_of("nodes")] if any(node.inlet_celsius is not None for node in pool.nodes) else []
        for place in given:
            self._report.problem(
                place, f"inlet: the device type {values['device']!r} has no dynamics, so it has no effect"
            )

    def _check_files(self, pool: PoolSpec, place: Place) -> None:
        """Reports devices with the same file: neither could be named, not even by its index."""
        first: dict[str, int] = {}
        for index, file in enumerate(device_files(pool)):
            if first.setdefault(file, index) != index:
                self._report.problem(
                    place, f"devices {first[file]} and {index} have the same file, {file!r}: give one of them another"
                )

    def _check_nodes(self, nodes: Sequence[ListedNode], counts: Sequence[int]) -> None:
        """Reports labels of single devices in a list of nodes with several devices."""
        for node, count in zip(nodes, counts, strict=True):
            for label in _SINGLE if count > 1 else ():
                if label in node.spec.facts:
                    self._report.problem(node.place, f"the label {label!r} differs from device to device of a node")

    def _device_count(self, values: Values, listed: LoadedDeviceList | None) -> int:
        count: int | None = values["devices-per-node"]
        if count is not None:
            return count
        if listed:
            return max(len(listed.devices), 1)
        is_nvl72 = values["racks"] is not None and values["racks"]["kind"] is RackKind.NVL72
        return _DEVICES_PER_TRAY if is_nvl72 else _DEVICES_PER_NODE

    def _listed_devices(self, values: Values, listed: LoadedDeviceList, count: int) -> dict[int, DeviceSpec]:
        if len(listed.devices) < count:
            self._report.problem(
                values.place_of("devices-per-node"),
                f"{count} devices are requested, and the list {values['devices']} has {len(listed.devices)}: "
                "request fewer, or list more",
            )
        return {device.index: device for device in listed.devices[:count]}

    def _devices_given(self, values: Values, count: int) -> dict[int, DeviceSpec]:
        devices: dict[int, DeviceSpec] = {}
        unique: dict[tuple[str, str], Place] = {}
        for device in values["devices"] if not isinstance(values["devices"], str) else ():
            index = device["index"]
            if index is None:
                continue
            if index in devices:
                self._report.problem(device.place_of("index"), f"device {index} is there twice: put both into one")
            if index >= count:
                place = device.place_of("index")
                self._report.problem(place, f"device {index}: a node has {count} devices, 0 to {count - 1}")
            facts = dict(device["labels"])
            for key, fact in (("uuid", "uuid"), ("serial", "serial"), ("pci", "pci_address"), ("file", "device_file")):
                if device[key] is not None:
                    facts[fact] = device[key]
                    first = unique.setdefault((key, device[key]), device.place_of(key))
                    if first is not device.place_of(key):
                        self._report.problem(
                            device.place_of(key), f"{key}: {device[key]!r} is there twice (first in line {first.line})"
                        )
            devices[index] = DeviceSpec(index, facts, device["inlet"])
        return devices

    def _fits(self, devices: int, place: Place) -> bool:
        """Whether the fleet may have this many devices more; the first excess is reported."""
        before, self._devices = self._devices, self._devices + devices
        if before <= MAX_DEVICES < self._devices:
            self._report.problem(place, f"the fleet has {self._devices} devices so far: at most {MAX_DEVICES}")
        return self._devices <= MAX_DEVICES


def _places(values: Values, key: str) -> list[Place]:
    return [node.place for node in values.items_of(key)]


def _label_place(values: Values, label: str) -> Place:
    table = values.nodes.get("labels")
    if isinstance(table, Table):
        return next((key.place for key, _ in table.entries if key.text == label), table.place)
    return values.place


def _without_made_labels(
    devices: Mapping[int, DeviceSpec], listed: LoadedDeviceList, identity: LoadedIdentity, of_all: Collection[str]
) -> dict[int, DeviceSpec]:
    """The devices of the original's list, which show no label that they lack and others have: none is made for them.

    :param of_all: labels that the device type or the pool gives to all. The file always has a value: it is the name.
    """
    shown = {fact for device in listed.devices for fact in device.facts if fact in identity.label_places}
    shown -= {"device_file", *of_all}
    return {
        index: replace(device, facts={**dict.fromkeys(shown, ""), **device.facts}) for index, device in devices.items()
    }
