"""The PCIe link of a device: generation, width and speed, as they can be and as they are; where it is plugged in."""

from __future__ import annotations

import pytest

from fakedev.sim.events import ClearFault
from fakedev.sim.fleet import Fleet
from fakedev.spec.device_types import Connections, Layout, Links, Pcie, Server
from fakedev.spec.errors import FieldError, Refused
from fakedev.spec.fleet import DeviceSpec
from tests.support.calibration import catalog_type
from tests.support.configurations import loaded, pool, problems
from tests.support.faulty_fleets import inject
from tests.support.fleets import advance, labels_of, make_fleet, pool_of, start, stop

MOST = 63e9


def fleet_of(device: str = "h100", count: int = 2) -> Fleet:
    """A node of a device of the catalog."""
    return make_fleet(pool_of(device_type=catalog_type(device), devices_per_node=count))


def link(fleet: Fleet, device: int = 0) -> tuple[float, float, float]:
    """Generation, lanes and speed of a device's link."""
    arrays = fleet.state.levels["device"].arrays
    names = ("pcie_link_generation", "pcie_link_width", "pcie_link_gigatransfers_per_second")
    generation, width, speed = (float(arrays[name][device]) for name in names)
    return generation, width, speed


class TestLink:
    """What the link runs at."""

    def test_well(self) -> None:
        """It runs as fast as it can, idle or not, where the board saves nothing."""
        fleet = fleet_of()
        advance(fleet, 3)
        assert link(fleet) == (5, 16, 32)
        arrays = fleet.state.levels["device"].arrays
        assert arrays["pcie_link_generation_max"][0] == 5
        assert arrays["pcie_link_width_max"][0] == 16
        assert arrays["pcie_link_gigatransfers_per_second_max"][0] == 32

    def test_idle_saving(self) -> None:
        """An idle GDDR board's link falls to generation 1, and is back with the first work."""
        fleet = fleet_of("l40s", 1)
        assert link(fleet) == (1, 16, 2.5)
        work = start(fleet, "dgx-0/0", "50:0:0")
        advance(fleet, 2)
        assert link(fleet) == (4, 16, 16)
        stop(fleet, work)
        advance(fleet, 10)
        assert link(fleet) == (1, 16, 2.5)

    @pytest.mark.parametrize(
        ("given", "shown", "share"),
        [
            ({}, (5, 8, 32), 0.5),
            ({"share": 0.3}, (5, 8, 32), 0.3),
            ({"share": 0.0}, (5, 1, 32), 0.0),
            ({"width": 4}, (5, 4, 32), 0.25),
            ({"generation": 3}, (3, 16, 8), 0.25),
            ({"generation": 4, "width": 8}, (4, 8, 16), 0.25),
            ({"width": 32}, (5, 16, 32), 1.0),
        ],
    )
    def test_slow(self, given: dict[str, float], shown: tuple[float, float, float], share: float) -> None:
        """The remaining lanes and generation are shown, and limit the traffic; the other board is healthy."""
        fleet = fleet_of()
        start(fleet, "all", "10:0:0", metrics={"pcie-tx": "100%"})
        inject(fleet, kind="pcie-slow", devices="dgx-0/0", **given)
        advance(fleet, 3)
        assert link(fleet) == shown
        assert fleet.pcie_tx_bytes_per_second[0] == pytest.approx(MOST * share)
        assert link(fleet, 1) == (5, 16, 32)
        assert fleet.pcie_tx_bytes_per_second[1] == pytest.approx(MOST)
        fleet.apply(ClearFault("f2"))
        advance(fleet, 1)
        assert link(fleet) == (5, 16, 32)
        assert fleet.pcie_tx_bytes_per_second[0] == pytest.approx(MOST)

    def test_the_worst_counts(self) -> None:
        """Of several faults the narrowest width, the lowest generation and the lowest share."""
        fleet = fleet_of()
        start(fleet, "all", "10:0:0", metrics={"pcie-tx": "100%"})
        for given in ({"width": 8.0}, {"width": 4.0}, {"generation": 4.0}, {"share": 0.5}):
            inject(fleet, kind="pcie-slow", devices="dgx-0/0", **given)
        advance(fleet, 2)
        assert link(fleet) == (4, 4, 16)
        assert fleet.pcie_tx_bytes_per_second[0] == pytest.approx(MOST / 8)

    def test_a_share_and_a_generation(self) -> None:
        """Of two faults: the link that is shown carries the traffic that is shown."""
        fleet = fleet_of()
        start(fleet, "all", "10:0:0", metrics={"pcie-tx": "100%"})
        for given in ({"generation": 3.0}, {"share": 0.5}):
            inject(fleet, kind="pcie-slow", devices="dgx-0/0", **given)
        advance(fleet, 2)
        assert link(fleet) == (3, 16, 8)
        assert fleet.pcie_tx_bytes_per_second[0] == pytest.approx(MOST / 4)

    def test_lost(self) -> None:
        """A board that is lost shows no link."""
        fleet = fleet_of()
        inject(fleet, kind="lost", devices="dgx-0/0")
        advance(fleet, 1)
        level = fleet.state.levels["device"]
        assert not level.has("pcie_link_width", 0)
        assert level.has("pcie_link_width", 1)

    def test_refused(self) -> None:
        """A share does not go with lanes; lanes need a board that shows some."""
        with pytest.raises(FieldError, match="does not go with share"):
            inject(fleet_of(), kind="pcie-slow", devices="all", share=0.5, width=4)
        unknown = make_fleet(pool_of())
        with pytest.raises(Refused, match="needs power_limit_watts, which none"):
            inject(unknown, kind="pcie-slow", devices="all", width=4)


class TestPlace:
    """Where devices are plugged in."""

    def test_as_in_the_usual_server(self) -> None:
        """Addresses, NUMA nodes and CPUs of a DGX H100, also on nodes of fewer boards."""
        names = ["pci_address", "numa_node", "cpu_affinity"]
        rows = labels_of(fleet_of(count=8), "dgx-0", names)
        assert rows[0] == ("0000:1b:00.0", "0", "0-55,112-167")
        assert rows[7] == ("0000:df:00.0", "1", "56-111,168-223")
        assert labels_of(fleet_of(count=2), "dgx-0", names) == rows[:2]

    def test_not_in_another(self) -> None:
        """A node of more boards is another server."""
        fleet = fleet_of(count=9)
        facts = fleet.facts(fleet.roster.nodes[0])
        assert len({each["pci_address"] for each in facts}) == 9
        assert not any("numa_node" in each for each in facts)

    def test_an_address_that_is_given_is_unique(self) -> None:
        """Another board leaves the address that it would have had."""
        pool = pool_of(
            device_type=catalog_type("h100"), devices_per_node=8, devices={1: DeviceSpec(1, {"addr": "0000:1b:00.0"})}
        )
        addresses = [address for (address,) in labels_of(make_fleet(pool), "dgx-0", ["pci_address"])]
        assert addresses[1] == "0000:1b:00.0"
        assert len(set(addresses)) == 8


DEVICE = """\
name: mine
ranges: {usage_ratio: [0, 1], power_watts: [1, 2]}
facts: {product_name: Mine, driver_version: "1"}
connections: CONNECTIONS
"""


class TestFile:
    """The connections of a device type's file."""

    @pytest.mark.parametrize(
        ("connections", "problem"),
        [
            ("{pcie: {generation: 3, width: 8, idle-generation: 4}}", "idle-generation 4 is over generation 3"),
            ("{pcie: {generation: 9, width: 8}}", "generation"),
            ("{links: {count: 2, layout: switches}}", "switches are given where"),
            ("{links: {count: 2, switches: 3}}", "switches are given where"),
            ("{links: {count: 1, peers: [[1], [2], [0]]}}", "another number of links to 1"),
            ("{links: {count: 2, peers: [[1], [0]]}}", "device 0 needs 2 others of 0 to 1"),
            ("{server: {pci-addresses: ['0000:01:00.0', '0000:01:00.0']}}", "the same PCI address"),
            ("{server: {cpus: {zero: 0-3}}}", "'zero' is no number of a NUMA node"),
            ("{sever: {}}", "did you mean 'server'"),
        ],
    )
    def test_problems(self, connections: str, problem: str) -> None:
        """The error of an impossible value has its line."""
        found = problems(pool(device="dev.yaml"), {"dev.yaml": DEVICE.replace("CONNECTIONS", connections)})
        assert len(found) == 1
        assert found[0].startswith("dev.yaml:4: ")
        assert problem in found[0]

    def test_read(self) -> None:
        """What is right is there."""
        text = "{pcie: {generation: 3, width: 8}, links: {count: 2, layout: ring}, server: {cpus: {0: 0-3}}}"
        found = loaded(pool(device="dev.yaml"), {"dev.yaml": DEVICE.replace("CONNECTIONS", text)})
        connections = Connections(Pcie(3, 8), Links(2, Layout.RING), Server(cpus={0: "0-3"}))
        assert found.fleet.pools[0].device_type.connections == connections
