"""What links carry comes from the memory or goes to it: nothing moves bytes while the memory rests."""

from __future__ import annotations

import pytest

from fakedev.sim.fleet import Fleet
from tests.support.faulty_fleets import boards_of
from tests.support.fleets import advance, make_fleet, start


def moved(name: str, load: str = "0:0:0", **metrics: str) -> Fleet:
    """A board of the catalog whose work requests some traffic."""
    fleet = make_fleet(boards_of(name, nodes=1, devices=1))
    start(fleet, "all", load, metrics={key.replace("_", "-"): value for key, value in metrics.items()})
    advance(fleet, 5)
    return fleet


@pytest.mark.parametrize("name", ["h100", "a100", "t4", "v100", "l40s", "mi300x", "max-1550"])
def test_pcie(name: str) -> None:
    """Received bytes are written, sent bytes are read; the share of the bandwidth follows."""
    fleet = moved(name, pcie_rx="8GB/s", pcie_tx="4GB/s")
    assert fleet.memory_write_bytes_per_second[0] == pytest.approx(8e9)
    assert fleet.memory_read_bytes_per_second[0] == pytest.approx(4e9)
    assert fleet.memory_bandwidth_ratio[0] * fleet.memory_max_bytes_per_second[0] == pytest.approx(12e9)


def test_links_to_other_boards() -> None:
    """Likewise."""
    assert moved("h100", fabric_tx="100GB/s").memory_read_bytes_per_second[0] == pytest.approx(100e9)


def test_work_that_has_traffic_of_its_own() -> None:
    """It includes that of the links, as far as there is enough of it."""
    plain, copies = moved("h100", "100:0:0"), moved("h100", "100:0:0", pcie_rx="8GB/s")
    assert copies.memory_bandwidth_ratio[0] == plain.memory_bandwidth_ratio[0]


def test_what_links_bring_is_beside_what_work_reads() -> None:
    """A board that receives writes that to its memory, and its work reads as much as before."""
    work = {"kind": "memory", "profile": "10:0:0"}
    shown = []
    for metrics in ({}, {"fabric-rx": "400GB/s"}):
        fleet = make_fleet(boards_of("h100", nodes=1, devices=1))
        start(fleet, "all", metrics=metrics, **work)
        advance(fleet, 5)
        shown.append((fleet.memory_read_bytes_per_second[0], fleet.memory_write_bytes_per_second[0]))
    assert shown[1] == (pytest.approx(shown[0][0]), pytest.approx(400e9))
    assert shown[0][1] < 400e9
