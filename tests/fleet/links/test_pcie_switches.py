"""Boards of a PCIe switch share its link to the host: in a DGX A100 two boards do, in a DGX H100 each has its own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.fleet.fleet import Fleet
from fakedev.fleet.hub import describe_explanations
from fakedev.fleet.links.pcie_switches import PcieSwitches
from tests.support.fleet.calibration import catalog_type
from tests.support.fleet.faulty_fleets import inject
from tests.support.fleet.fleets import advance, make_fleet, pool_of, start

WAYS = ("pcie_tx_bytes_per_second", "pcie_rx_bytes_per_second")


def fleet_of(device: str = "a100", count: int = 8) -> Fleet:
    return make_fleet(pool_of(device_type=catalog_type(device), devices_per_node=count))


def shares(fleet: Fleet) -> list[float]:
    """What each board sends to the host, of what its own link carries."""
    most = fleet.compiled.relations.maxima[WAYS[0]]
    return [round(float(share), 3) for share in fleet.pcie_tx_bytes_per_second / most]


class TestFleet:
    def test_one_board_has_the_whole_link(self) -> None:
        fleet = fleet_of()
        start(fleet, "dgx-0/0,dgx-0/2", "60:0:0", metrics={"pcie-tx": "100%"})
        advance(fleet, 3)
        assert shares(fleet)[:4] == [1.0, 0.0, 1.0, 0.0]

    def test_two_boards_share_it(self) -> None:
        """Each has half; one that asks for less leaves the rest; the other direction is free."""
        fleet = fleet_of()
        start(fleet, "dgx-0/0,dgx-0/1", "60:0:0", metrics={"pcie-tx": "100%", "pcie-rx": "20%"})
        start(fleet, "dgx-0/2", "60:0:0", metrics={"pcie-tx": "100%"})
        start(fleet, "dgx-0/3", "60:0:0", metrics={"pcie-tx": "25%"})
        advance(fleet, 3)
        assert shares(fleet)[:4] == [0.5, 0.5, 0.75, 0.25]
        received = fleet.pcie_rx_bytes_per_second / fleet.compiled.relations.maxima[WAYS[1]]
        assert received[:2] == pytest.approx(0.2, rel=0.01)  # with what an idle board receives

    def test_a_board_with_a_slow_link_leaves_more(self) -> None:
        fleet = fleet_of()
        inject(fleet, kind="pcie-slow", devices="dgx-0/1", width=4)
        start(fleet, "dgx-0/0,dgx-0/1", "60:0:0", metrics={"pcie-tx": "100%"})
        advance(fleet, 3)
        assert shares(fleet)[:2] == [0.75, 0.25]

    @pytest.mark.parametrize(("device", "count"), [("h100", 8), ("a100", 9)])
    def test_own_links(self, device: str, count: int) -> None:
        """Of boards of other servers nothing is known: each has its own link."""
        fleet = fleet_of(device, count)
        start(fleet, "all", "60:0:0", metrics={"pcie-tx": "100%"})
        advance(fleet, 3)
        assert shares(fleet) == [1.0] * count

    @pytest.mark.slow
    def test_work_takes_longer(self) -> None:
        """Copies that take 100 s take twice as long where another board of the switch copies, too."""
        fleet = fleet_of()
        for device in ("dgx-0/0", "dgx-0/2"):
            start(fleet, device, "0:0:100", seconds_of="work", metrics={"pcie-tx": "99%"})
        start(fleet, "dgx-0/3", "0:0:300", metrics={"pcie-tx": "99%"})
        ends = {verdict.workload_id: tick for tick in range(1, 220) for verdict in fleet.advance()}
        assert ends == {"w1": 100, "w2": pytest.approx(200, rel=0.02)}

    def test_explained(self) -> None:
        """``why`` names the board with which the link is shared, while it is too little for both."""
        fleet = fleet_of()
        start(fleet, "dgx-0/0", "60:0:0", metrics={"pcie-tx": "80%"})
        advance(fleet, 3)
        said = "shares the link of its PCIe switch to the host with dgx-0/1"
        assert said not in text_of(fleet)
        start(fleet, "dgx-0/1", "60:0:0", metrics={"pcie-tx": "80%"})
        advance(fleet, 3)
        assert said in text_of(fleet)


def text_of(fleet: Fleet) -> str:
    return str(describe_explanations(fleet, 0, WAYS[0])["explanations"][0]["text"])


@given(st.data())
def test_fair(data: st.DataObject) -> None:
    """No switch sends more than its link carries or less than it could, and nobody gets less than an equal share."""
    count = data.draw(st.integers(1, 12))
    numbers = np.array(data.draw(st.lists(st.integers(-1, 3), min_size=count, max_size=count)))
    asked = np.array(data.draw(st.lists(st.floats(0, 100), min_size=count, max_size=count)))
    most = dict.fromkeys(WAYS, np.full(count, 64.0))
    asked = np.minimum(asked, 64.0)
    traffic = dict.fromkeys(WAYS, asked)
    is_less = PcieSwitches(numbers).limit(traffic, most)
    given = traffic[WAYS[0]]
    assert is_less == bool((given < asked).any())
    for number in range(-1, 4):
        own = numbers == number
        together = float(asked[own].sum())
        if number < 0 or together <= 64.0:
            assert (given[own] == asked[own]).all()
            continue
        assert given[own].sum() == pytest.approx(64.0)
        held = own & (given < asked)
        assert given[held] == pytest.approx(given[own].max())
        assert (given[held] >= 64.0 / own.sum() - 1e-9).all()
