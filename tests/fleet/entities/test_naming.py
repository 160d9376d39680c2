"""The names of devices: UUIDs, serial numbers, PCI addresses, and their other facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakedev.fleet.spec.device_types import DeviceType, Range
from fakedev.fleet.spec.fleet_spec import DeviceSpec, NodeSpec
from tests.support.fleet.fleets import labels_of, make_fleet, pool_of


class TestNames:
    @pytest.mark.slow
    def test_they_are_unique_and_look_like_real_ones(self) -> None:
        fleet = make_fleet(pool_of(nodes=1000, devices_per_node=16))
        rows = [labels_of(fleet, node.name, ["uuid", "serial", "pci_address"]) for node in fleet.roster.nodes]
        every = [row for node in rows for row in node]
        assert len({uuid for uuid, _, _ in every}) == len(every)
        assert len({serial for _, serial, _ in every}) > len(every) - 3
        assert {len(serial) for _, serial, _ in every} == {13}
        assert all(len({address for _, _, address in node}) == 16 for node in rows)
        assert rows[0][0][0][14] == "4"

    def test_many_devices_on_one_node(self) -> None:
        fleet = make_fleet(pool_of(devices_per_node=300))
        addresses = [address for (address,) in labels_of(fleet, "dgx-0", ["pci_address"])]
        assert len(set(addresses)) == 300
        assert all(len(address) == len("0000:1b:00.0") for address in addresses)

    def test_what_is_said_wins(self) -> None:
        """A device's fact over its node's, over its pool's, over its type's; aliases mean each other."""
        kind = DeviceType("kind", {"power_watts": Range(1, 2)}, {"color": "type", "rack": "type", "row": "type"})
        pool = pool_of(device_type=kind, devices_per_node=2, facts={"rack": "pool", "row": "pool"})
        pool = replace(
            pool,
            nodes=(NodeSpec("n", {"row": "node", "file": "cardX"}),),
            devices={1: DeviceSpec(1, {"row": "device", "addr": "0000:99:00.0", "uuid": "mine"})},
        )
        fleet = make_fleet(pool)
        names = ["color", "rack", "row", "pci_address", "uuid", "index", "pool"]
        assert labels_of(fleet, "n", names)[1] == ("type", "pool", "device", "0000:99:00.0", "mine", "1", "dgx")
        assert labels_of(fleet, "n", ["row", "file", "device_file"])[0] == ("node", "cardX", "cardX")
