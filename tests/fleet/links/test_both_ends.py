"""What one end of a link sends the other receives, over switches and from board to board."""

from __future__ import annotations

import numpy as np
import pytest

from fakedev.fleet.fleet import Fleet
from fakedev.fleet.links.link_levels import RATES
from fakedev.fleet.spec.fleet_spec import DeviceSpec
from tests.support.fleet.calibration import catalog_type
from tests.support.fleet.divided_devices import parts_of
from tests.support.fleet.faulty_fleets import boards_of, in_ring, inject
from tests.support.fleet.fleets import advance, make_fleet, pool_of, start
from tests.support.fleet.link_checks import of_link_steps, of_links
from tests.support.rules import assert_none

TX, RX = RATES
READ, WRITTEN = "memory_read_bytes_per_second", "memory_write_bytes_per_second"
FETCHED = "fabric_fetched_bytes_per_second"


def checked(fleet: Fleet, ticks: int = 1) -> None:
    for _ in range(ticks):
        before = fleet.state.levels
        fleet.advance()
        layout, levels = fleet.roster.links, fleet.state.levels
        assert_none(of_links(layout, levels), levels["link"])
        assert_none(of_link_steps(layout, before, levels, fleet.spec.tick_seconds), levels["link"])


def at_work(name: str, devices: int, *work: tuple[str, dict[str, str]], is_ring: bool = False) -> Fleet:
    """A node of boards with traffic, as (device, metrics)."""
    board = in_ring(name) if is_ring else catalog_type(name)
    fleet = make_fleet(pool_of(device_type=board, devices_per_node=devices))
    for device, metrics in work:
        start(fleet, f"dgx-0/{device}", "0", metrics=metrics)
    checked(fleet, 2)
    return fleet


def gigabytes(fleet: Fleet, name: str) -> list[float]:
    found: list[float] = (fleet.state.levels["device"].arrays[name] / 1e9).round(6).tolist()
    return found


class TestOverSwitches:
    @pytest.mark.parametrize(
        ("devices", "work", "sent", "received"),
        [
            (8, [("0", {"fabric-tx": "70GB/s"})], [70] + [0] * 7, [0] + [10] * 7),
            (8, [("3", {"fabric-rx": "70GB/s"})], [10, 10, 10, 0, 10, 10, 10, 10], [0, 0, 0, 70, 0, 0, 0, 0]),
            (4, [("1", {"fabric-tx": "30GB/s", "fabric-rx": "15GB/s"})], [5, 30, 5, 5], [10, 15, 10, 10]),
            (8, [("[0-3]", {"fabric-tx": "20%", "fabric-rx": "20%"})], [90] * 4 + [0] * 4, [90] * 4 + [0] * 4),
            (8, [("0", {"fabric-tx": "50%"}), ("1", {"fabric-rx": "50%"})], [225] + [0] * 7, [0, 225] + [0] * 6),
            (1, [("0", {"fabric-tx": "50%", "fabric-rx": "10%"})], [225], [45]),
        ],
        ids=["one sends", "one receives", "one does both", "a job", "from one to the next", "alone"],
    )
    def test_who_exchanges(
        self, devices: int, work: list[tuple[str, dict[str, str]]], sent: list[float], received: list[float]
    ) -> None:
        """What no work on the other side asks for goes to, or comes from, the memory of all other boards.

        Boards of a job exchange as much as they state among themselves. A board alone exchanges with the outside.
        """
        fleet = at_work("h100", devices, *work)
        assert (gigabytes(fleet, TX), gigabytes(fleet, RX)) == (sent, received)
        assert np.array(gigabytes(fleet, READ)) == pytest.approx(np.array(sent), abs=0.01)
        assert np.array(gigabytes(fleet, WRITTEN)) == pytest.approx(np.array(received), abs=0.01)

    def test_no_board_has_more_than_its_links_carry(self) -> None:
        fleet = at_work("h100", 3, ("[0-1]", {"fabric-tx": "100%"}), ("2", {"fabric-rx": "90%"}))
        assert gigabytes(fleet, TX) == [450, 450, 0]
        received = gigabytes(fleet, RX)
        assert sum(received) == pytest.approx(900)
        assert received[2] <= 450

    def test_the_others_are_gone(self) -> None:
        fleet = at_work("h100", 2, ("0", {"fabric-tx": "50%"}))
        inject(fleet, kind="lost", devices="dgx-0/1")
        checked(fleet, 2)
        assert gigabytes(fleet, TX) == gigabytes(fleet, RX) == [0, 0]

    @pytest.mark.parametrize("fields", [{"link": 5}, {"share": 0.5}, {"share": 0.05}, {"share": 0.0}])
    def test_links_are_down(self, fields: dict[str, float]) -> None:
        """Each switch sends what it receives, also while a board has lost some of its links to it."""
        fleet = at_work("h100", 8, ("3", {"fabric-tx": "90%"}), ("[4-6]", {"fabric-rx": "20%", "fabric-tx": "5%"}))
        inject(fleet, kind="link-down", devices="dgx-0/3", **fields)
        checked(fleet, 3)
        switches = fleet.state.levels["switch"].arrays
        assert np.allclose(switches[TX], switches[RX])
        assert switches[TX].sum() > 0

    def test_the_others_use_that_switch_less(self) -> None:
        """All boards of the node use the switches as the one that has lost a link."""
        fleet = at_work("h100", 8, ("*", {"fabric-tx": "50%", "fabric-rx": "50%"}))
        inject(fleet, kind="link-down", devices="dgx-0/3", link=5)
        checked(fleet)
        own = fleet.roster.links.of(0)
        shares = fleet.state.levels["link"].arrays[TX][own.start : own.stop] / 225e9
        assert shares[[0, 1, 2, 3]] == pytest.approx([1 / 17, 4 / 85, 1 / 17, 1 / 17])

    def test_no_switch_in_common(self) -> None:
        fleet = at_work("a100", 2, ("*", {"fabric-tx": "50%", "fabric-rx": "50%"}))
        for device, links in enumerate(((0, 6, 1, 7, 2, 8), (3, 9, 4, 10, 5, 11))):
            for link in links:
                inject(fleet, kind="link-down", devices=f"dgx-0/{device}", link=link)
        checked(fleet, 2)
        assert gigabytes(fleet, TX) == [0, 0]

    @pytest.mark.parametrize("name", ["h100", "v100"])
    def test_a_board_that_heat_shuts_down(self, name: str) -> None:
        fleet = make_fleet(boards_of(name, devices=4))
        start(fleet, "dgx-0/*", "100", kind="exchange")
        inject(fleet, kind="inlet", devices="dgx-0/1", celsius=90)
        checked(fleet, 60)
        assert fleet.lost.tolist() == [0, 1, 0, 0]
        assert gigabytes(fleet, TX)[1] == 0

    def test_instances_have_no_links(self) -> None:
        """A divided board takes no part; the one that is left in its node has none to exchange traffic with."""
        divided = {0: DeviceSpec(0, parts=parts_of("3g.20gb", "2g.10gb"))}
        for devices, sent in ((2, 0), (3, 150)):
            fleet = make_fleet(pool_of(device_type=catalog_type("a100"), devices_per_node=devices, devices=divided))
            start(fleet, "dgx-0/1", "0", metrics={"fabric-tx": "50%"})
            checked(fleet, 2)
            assert gigabytes(fleet, TX)[1] == sent
            assert gigabytes(fleet, RX)[0] == 0


class TestFromBoardToBoard:
    @pytest.mark.parametrize("name", ["mi300x", "v100", "max-1550"])
    def test_one_sends(self, name: str) -> None:
        """Alike over its links; each other end receives, and writes, what its links bring."""
        fleet = at_work(name, 8, ("0", {"fabric-tx": "70%"}))
        layout = fleet.roster.links
        peers = layout.owners[layout.remotes[: int(layout.counts[0])]]
        each = gigabytes(fleet, TX)[0] / int(layout.counts[0])
        links = np.bincount(peers, minlength=8)
        assert gigabytes(fleet, RX) == pytest.approx((links * each).tolist(), abs=1e-5)
        assert gigabytes(fleet, WRITTEN)[int(peers[0])] >= each * links[peers[0]] - 1e-5

    @pytest.mark.parametrize(
        ("devices", "work", "quantity", "expected"),
        [
            (8, [("2", {"fabric-rx": "70GB/s"})], TX, [10, 10, 0, 10, 10, 10, 10, 10]),
            (8, [("2", {"fabric-rx": "70GB/s"})], RX, [0, 0, 70, 0, 0, 0, 0, 0]),
            (8, [("*", {"fabric-tx": "60%", "fabric-rx": "60%"})], TX, [268.8] * 8),
            (8, [("*", {"fabric-tx": "60%", "fabric-rx": "60%"})], RX, [268.8] * 8),
            # Work fetches less where others fill a link.
            (8, [("0", {"fabric-tx": "100%"}), ("1", {"fabric-rx": "100%"})], TX, [448] + [0] * 7),
            (8, [("0", {"fabric-tx": "100%"}), ("1", {"fabric-rx": "100%"})], RX, [0] + [64] * 7),
            # A board alone exchanges traffic with something that is not simulated.
            (1, [("0", {"fabric-tx": "50%", "fabric-rx": "10%"})], TX, [224]),
            (1, [("0", {"fabric-tx": "50%", "fabric-rx": "10%"})], RX, [44.8]),
            # What a board's own work fetches is a part of what it receives.
            (8, [("0", {"fabric-tx": "70GB/s"}), ("1", {"fabric-rx": "50GB/s"})], FETCHED, [0, 40] + [0] * 6),
        ],
    )
    def test_who_exchanges(
        self, devices: int, work: list[tuple[str, dict[str, str]]], quantity: str, expected: list[float]
    ) -> None:
        assert gigabytes(at_work("mi300x", devices, *work), quantity) == pytest.approx(expected, abs=1e-5)

    def test_only_where_boards_are_linked(self) -> None:
        assert FETCHED not in make_fleet(boards_of("h100")).quantity_names()
        fleet = at_work("mi300x", 5, ("0", {"fabric-tx": "60GB/s"}), is_ring=True)
        # The seventh link has no partner: it leads out of the node.
        assert gigabytes(fleet, RX) == pytest.approx([0, 60 * 3 / 7, 0, 0, 60 * 3 / 7], abs=1e-5)

    def test_links_are_down(self) -> None:
        fleet = at_work("mi300x", 8, ("0", {"fabric-tx": "90%"}), ("[3-5]", {"fabric-rx": "30%"}))
        fault = inject(fleet, kind="link-down", devices="dgx-0/0", link=2)
        checked(fleet, 2)
        assert gigabytes(fleet, TX)[0] >= 448 * 6 / 7 - 1
        inject(fleet, kind="lost", devices="dgx-0/4", duration=3)
        inject(fleet, kind="reset", devices="dgx-0/5")
        checked(fleet, 8)
        assert fault in fleet.faults.by_id


def test_a_shown_counter_that_restarted() -> None:
    """A fault of one board's exporter changes its links on pages, and not those of the other ends."""
    fleet = at_work("mi300x", 4, ("*", {"fabric-tx": "50%", "fabric-rx": "50%"}))
    true = fleet.state.levels["link"].arrays["fabric_rx_bytes"].copy()
    assert true.any()
    inject(fleet, kind="counter-reset", devices="dgx-0/0")
    advance(fleet, 1)
    shown, seen = fleet.shown.levels["link"].arrays, fleet.shown.levels["device"].arrays
    layout = fleet.roster.links
    for name in ("fabric_tx_bytes", "fabric_rx_bytes"):
        assert np.bincount(layout.owners, shown[name]) == pytest.approx(seen[name])
    assert (shown["fabric_rx_bytes"][layout.owners > 0] >= true[layout.owners > 0]).all()
    assert shown["fabric_rx_bytes"][0] < true[0]
