"""The racks of a pool: their keys, and what they make of its device type."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from fakedev.fleet.spec.device_types import MAX_LINKS, DeviceType, Layout
from fakedev.fleet.spec.rack_spec import OF_AIR, RackKind, RackSpec
from fakedev.schema.places import Report
from fakedev.schema.sections import Section, Values
from fakedev.schema.types import keys_from

RACKS: Final = Section(
    "fleet.pools.racks",
    keys_from(RackSpec),
    doc="Racks of the pool's nodes ([racks](racks.md)). The kind alone is enough.",
    shorthand="kind",
)


#: Names of device types that end so are boards of such racks: ``gb200-nvl72`` is ``gb200`` with ``racks: nvl72``.
_IN_RACKS: Final = f"-{RackKind.NVL72.value}"


def in_own_racks(values: Values) -> Values:
    """The values of a pool; with a device type that is named after racks, such racks, and the nodes of one rack."""
    if not values["device"].endswith(_IN_RACKS):
        return values
    racks = values["racks"] if values.given("racks") else RACKS.empty(values.place_of("device"))
    is_one_rack = racks is not None and racks["kind"] is RackKind.NVL72 and not values.given("nodes")
    nodes = racks["trays"] if is_one_rack else values["nodes"]
    return replace(values, values_by_key={**values.values_by_key, "racks": racks, "nodes": nodes})


def read_racks(values: Values, nodes: int, devices: Collection[int], report: Report) -> RackSpec | None:
    """The racks of a pool; None when it has none, or problems, which were reported.

    :param values: of the pool.
    :param devices: how many devices its nodes have.
    """
    section: Values | None = values["racks"]
    if section is None:
        return None
    problems = len(report.sorted_problems())
    if len(devices) != 1:
        text = "racks: the nodes have different numbers or types of devices: give each kind a pool of its own"
        report.problem(section.place, text)
        return None
    of_kind = OF_AIR if section["kind"] is RackKind.AIR else {}
    keys = section.section.fields_of(RackSpec)
    spec = section.build(RackSpec, **{name: of_kind[name] for key, name in keys.items()
                                      if name in of_kind and not section.given(key)})  # fmt: skip
    gpus, per_node = spec.trays * next(iter(devices)), next(iter(devices))
    if spec.partition:
        place = section.place_of("partition")
        if not spec.switch_trays:
            report.problem(place, "racks: partition: the racks have no switch trays, whose fabric it could divide")
        elif gpus % spec.partition:
            report.problem(place, f"racks: partition: {spec.partition} does not divide the {gpus} GPUs of a rack")
        elif nodes % spec.trays and spec.partition < gpus:
            text = f"racks: partition: the {nodes} nodes are no whole racks of {spec.trays}"
            report.problem(place, text)
    if spec.cpus and per_node % spec.cpus:
        report.problem(section.place_of("cpus"), f"racks: cpus: {spec.cpus} do not share {per_node} devices alike")
    if spec.switches > MAX_LINKS:
        report.problem(section.place_of("switch-trays"), f"racks: switch-trays: at most {MAX_LINKS // 2}")
    return spec if len(report.sorted_problems()) == problems else None


def with_fabric(device_type: DeviceType, racks: RackSpec | None, values: Values, report: Report) -> DeviceType:
    """The device type, with its links to the switches of the racks."""
    if racks is None or not racks.switch_trays:
        return device_type
    place, links = values["racks"].place, device_type.connections.links
    if links is None or device_type.dynamics is None:
        text = f"racks: the device type {device_type.name!r} has no links to switches: give switch-trays: 0"
        report.problem(place, text)
        return device_type
    if values.given("topology"):
        report.problem(values.place_of("topology"), "topology: the links lead to the switches of the racks")
    links = replace(links, layout=Layout.SWITCHES, switches=racks.switches, peers=())
    return replace(device_type, connections=replace(device_type.connections, links=links))
