"""The PCIe link of a device: generation, width and speed, as they can be and as they are; where it is plugged in."""

from __future__ import annotations

import pytest

from fakedev.base.errors import FieldError, Refused
from fakedev.fleet.events import ClearFaults
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.device_types import Connections, Layout, Links, Pcie, Server
from fakedev.fleet.spec.fleet_spec import DeviceSpec
from tests.support.configurations import loaded, pool, problems
from tests.support.fleet.calibration import catalog_type
from tests.support.fleet.faulty_fleets import inject
from tests.support.fleet.fleets import advance, labels_of, make_fleet, pool_of, start, stop

MOST = 63e9


def fleet_of(device: str = "h100", count: int = 2) -> Fleet:
    return make_fleet(pool_of(device_type=catalog_type(device), devices_per_node=count))


def link(fleet: Fleet, device: int = 0) -> tuple[float, float, float]:
    """Generation, lanes and speed of a device's link."""
    arrays = fleet.state.levels["device"].arrays
    names = ("pcie_link_generation", "pcie_link_width", "pcie_link_gigatransfers_per_second")
    generation, width, speed = (float(arrays[name][device]) for name in names)
    return generation, width, speed


class TestLink:
    def test_well_and_lost(self) -> None:
        """It runs as fast as it can, idle or not, where the board saves nothing; a board that is lost shows none."""
        fleet = fleet_of()
        inject(fleet, kind="lost", devices="dgx-0/1", start=3)
        advance(fleet, 3)
        assert link(fleet) == (5, 16, 32)
        arrays = fleet.state.levels["device"].arrays
        most = ("pcie_link_generation_max", "pcie_link_width_max", "pcie_link_gigatransfers_per_second_max")
        assert [arrays[name][0] for name in most] == [5, 16, 32]
        advance(fleet, 1)
        assert [fleet.state.levels["device"].has("pcie_link_width", device) for device in (0, 1)] == [True, False]

    def test_idle_saving(self) -> None:
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
        fleet = fleet_of()
        start(fleet, "all", "10:0:0", metrics={"pcie-tx": "100%"})
        inject(fleet, kind="pcie-slow", devices="dgx-0/0", **given)
        advance(fleet, 3)
        assert link(fleet) == shown
        assert fleet.pcie_tx_bytes_per_second[0] == pytest.approx(MOST * share)
        assert link(fleet, 1) == (5, 16, 32)
        assert fleet.pcie_tx_bytes_per_second[1] == pytest.approx(MOST)
        fleet.apply(ClearFaults(("f2",)))
        advance(fleet, 1)
        assert link(fleet) == (5, 16, 32)
        assert fleet.pcie_tx_bytes_per_second[0] == pytest.approx(MOST)

    @pytest.mark.parametrize(
        ("faults", "shown", "share"),
        [
            (({"width": 8.0}, {"width": 4.0}, {"generation": 4.0}, {"share": 0.5}), (4, 4, 16), 1 / 8),
            (({"generation": 3.0}, {"share": 0.5}), (3, 16, 8), 1 / 4),
        ],
    )
    def test_the_worst_counts(
        self, faults: tuple[dict[str, float], ...], shown: tuple[float, ...], share: float
    ) -> None:
        fleet = fleet_of()
        start(fleet, "all", "10:0:0", metrics={"pcie-tx": "100%"})
        for given in faults:
            inject(fleet, kind="pcie-slow", devices="dgx-0/0", **given)
        advance(fleet, 2)
        assert link(fleet) == shown
        assert fleet.pcie_tx_bytes_per_second[0] == pytest.approx(MOST * share)

    def test_refused(self) -> None:
        with pytest.raises(FieldError, match="does not go with share"):
            inject(fleet_of(), kind="pcie-slow", devices="all", share=0.5, width=4)
        unknown = make_fleet(pool_of())
        with pytest.raises(Refused, match="needs power_limit_watts, which none"):
            inject(unknown, kind="pcie-slow", devices="all", width=4)


class TestPlace:
    def test_as_in_the_usual_server(self) -> None:
        """Those of a DGX H100, also on nodes of fewer boards; a node of more boards is another server."""
        names = ["pci_address", "numa_node", "cpu_affinity"]
        rows = labels_of(fleet_of(count=8), "dgx-0", names)
        assert rows[0] == ("0000:1b:00.0", "0", "0-55,112-167")
        assert rows[7] == ("0000:df:00.0", "1", "56-111,168-223")
        assert labels_of(fleet_of(count=2), "dgx-0", names) == rows[:2]
        larger = fleet_of(count=9)
        facts = larger.labels.facts(larger.roster.nodes[0])
        assert len({fact["pci_address"] for fact in facts}) == 9
        assert not any("numa_node" in fact for fact in facts)

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
        found = problems(pool(device="dev.yaml"), {"dev.yaml": DEVICE.replace("CONNECTIONS", connections)})
        assert len(found) == 1
        assert found[0].startswith("dev.yaml:4: ")
        assert problem in found[0]

    def test_read(self) -> None:
        text = "{pcie: {generation: 3, width: 8}, links: {count: 2, layout: ring}, server: {cpus: {0: 0-3}}}"
        found = loaded(pool(device="dev.yaml"), {"dev.yaml": DEVICE.replace("CONNECTIONS", text)})
        connections = Connections(Pcie(3, 8), Links(2, Layout.RING), Server(cpus={0: "0-3"}))
        assert found.fleet.pools[0].device_type.connections == connections


@pytest.mark.parametrize("name", ["h100", "t4", "l4", "gb200"])
@pytest.mark.parametrize(("generation", "most"), [(1, 250e6), (2, 500e6), (3, 8e9 / 8 * 128 / 130)])
def test_what_an_old_generation_carries(name: str, generation: int, most: float) -> None:
    """No more than its lanes do: of the bits of generations 1 and 2 a fifth is no data."""
    fleet = fleet_of(name, 1)
    start(fleet, "all", "100:0:0", kind="transfer")
    inject(fleet, kind="pcie-slow", devices="all", generation=generation)
    advance(fleet, 3)
    arrays = fleet.state.levels["device"].arrays
    most *= arrays["pcie_link_width"][0]
    assert 0.75 * most < arrays["pcie_tx_bytes_per_second"][0] <= most
