"""Links between devices: where they lead, what they show, and what happens when one goes down."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from fakedev.base.errors import FieldError, Refused
from fakedev.fleet.explanation import Explanation, explain, explain_link
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.links.link_layout import NOWHERE, other_ends
from fakedev.fleet.spec.device_types import Layout, Links
from tests.support.fleet.calibration import catalog_type
from tests.support.fleet.faulty_fleets import boards_of, cleared, inject
from tests.support.fleet.fleets import advance, make_fleet, pool_of, reload, start

TX = "fabric_tx_bytes_per_second"


def at_work(name: str, devices: int = 8, tx: str = "90%", nodes: int = 1) -> Fleet:
    fleet = make_fleet(boards_of(name, nodes=nodes, devices=devices))
    start(fleet, "all", "10:0:0", metrics={"fabric-tx": tx, "fabric-rx": "20%"})
    advance(fleet, 2)
    return fleet


def links(fleet: Fleet, name: str, device: int = 0, level: str = "link") -> list[float]:
    own = fleet.roster.links.of(device)
    found: list[float] = fleet.state.levels[level].arrays[name][own.start : own.stop].tolist()
    return found


def test_forgotten_arrays_are_made_again() -> None:
    """A layout that is no longer in use takes little memory, and answers as before."""
    layout = make_fleet(boards_of("h100", nodes=2)).roster.links
    before = [layout.owners.copy(), layout.remotes.copy(), layout.switch_numbers.copy()]
    kept = layout.owners
    layout.forget()
    assert layout.owners is not kept
    assert all(map(np.array_equal, before, [layout.owners, layout.remotes, layout.switch_numbers]))


class TestPattern:
    @pytest.mark.parametrize(
        ("count", "layout", "devices", "peers"),
        [
            (7, Layout.MESH, 8, [1] * 7),
            (16, Layout.MESH, 8, [2, 2, 2, 2, 2, 3, 3]),
            (16, Layout.MESH, 4, [5, 5, 6]),
            (16, Layout.MESH, 2, [16]),
            (5, Layout.MESH, 3, [2, 2]),  # the fifth has no partner
            (4, Layout.MESH, 1, []),
            (4, Layout.RING, 5, [2, 2]),
            (3, Layout.RING, 4, [1, 1, 1]),  # the third leads across
            (4, Layout.RING, 2, [4]),
            (4, Layout.NONE, 8, []),
            (4, Layout.SWITCHES, 8, []),
        ],
    )
    def test_dealt(self, count: int, layout: Layout, devices: int, peers: list[int]) -> None:
        """Each device has as many links to others, both ends name each other, and no device is linked to itself."""
        ends = other_ends(Links(count, layout, switches=2), devices)
        linked = np.flatnonzero(ends != NOWHERE)
        assert (ends[ends[linked]] == linked).all()
        assert (ends[linked] // count != linked // count).all()
        for device in range(devices):
            own = ends[device * count : (device + 1) * count]
            assert sorted(Counter((own[own != NOWHERE] // count).tolist()).values()) == peers

    def test_listed(self) -> None:
        """As the table says, where the node has as many devices; else as the layout."""
        dgx1 = catalog_type("v100").connections.links
        assert dgx1 is not None
        ends = other_ends(dgx1, 8)
        assert [end // 6 for end in ends[:6].tolist()] == [1, 2, 3, 3, 4, 4]
        assert (ends[ends] == np.arange(48)).all()
        assert sorted(Counter((other_ends(dgx1, 4)[:6] // 6).tolist()).values()) == [2, 2, 2]


class TestLinks:
    def test_well(self) -> None:
        fleet = at_work("h100", nodes=2)
        assert links(fleet, TX, 9) == [pytest.approx(0.9 * 25e9)] * 18
        assert links(fleet, "link_number") == list(range(18))
        assert links(fleet, "link_up") + links(fleet, "link_state") == [1] * 18 + [2] * 18
        assert fleet.links_up.tolist() == [18] * 16
        switches = fleet.state.levels["switch"]
        assert switches.arrays["links_up"].tolist() == [40, 40, 32, 32] * 2

    def test_one_link_down(self) -> None:
        fleet = at_work("h100")
        fault = inject(fleet, kind="link-down", devices="dgx-0/3", link=5)
        advance(fleet, 1)
        assert links(fleet, TX, 3)[5] == 0
        assert links(fleet, TX, 3)[4] == pytest.approx(0.9 * 25e9 * 18 / 17)
        assert fleet.fabric_tx_bytes_per_second[3] == pytest.approx(0.9 * 450e9)
        assert (fleet.links_up[3], fleet.links_up[2]) == (17, 18)
        assert fleet.xid.tolist() == [0, 0, 0, 74, 0, 0, 0, 0]
        assert links(fleet, "link_errors", 3) == [0] * 5 + [1] + [0] * 12
        assert links(fleet, "link_state", 3)[5] == 3
        assert links(fleet, "link_up", 3, "port")[5] == 0
        assert fleet.state.levels["switch"].arrays["links_up"].tolist() == [40, 39, 32, 32]
        assert links(fleet, "link_errors", 4) == [0] * 18
        cleared(fleet, fault)
        assert links(fleet, TX, 3) == [pytest.approx(0.9 * 25e9)] * 18
        assert links(fleet, "link_recoveries", 3)[5] == 1
        assert fleet.link_recoveries.tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
        assert fleet.link_errors[3] == 1

    def test_what_is_left_limits(self) -> None:
        """A board that asks for more than its links that are up can carry gets no more."""
        fleet = at_work("mi300x", tx="100%")
        inject(fleet, kind="link-down", devices="dgx-0/0", link=0)
        advance(fleet, 1)
        assert fleet.fabric_tx_bytes_per_second[0] == pytest.approx(448e9 * 6 / 7)
        assert links(fleet, TX, 0)[1:] == [pytest.approx(64e9)] * 6
        fleet = at_work("h100")
        inject(fleet, kind="link-down", devices="dgx-0/0", share=0.3)
        advance(fleet, 1)
        assert links(fleet, "link_up") == [1] * 6 + [0] * 12, "the higher numbers are down"
        assert fleet.fabric_tx_bytes_per_second[0] == pytest.approx(450e9 * 0.3)
        assert fleet.link_errors[0] == 1

    def test_boards_without_the_link(self) -> None:
        """None of theirs can fail; of boards with different numbers of links, those that have it."""
        fleet = make_fleet(boards_of("l40s"))
        assert fleet.state.levels["link"].count == 0
        assert "links_up" not in fleet.quantity_names()
        with pytest.raises(Refused, match="link-down"):
            inject(fleet, kind="link-down", devices="all", link=0)
        few = replace(catalog_type("a100"), name="few")
        fleet = make_fleet(boards_of("h100"), pool_of("few", device_type=few, devices_per_node=2))
        with pytest.raises(Refused, match="none of the devices has a link 18"):
            inject(fleet, kind="link-down", devices="all", link=18)
        with pytest.raises(FieldError, match="does not go with share"):
            inject(fleet, kind="link-down", devices="all", link=1, share=0.5)
        inject(fleet, kind="link-down", devices="all", link=15)
        advance(fleet, 1)
        assert fleet.links_up.tolist() == [17, 17, 12, 12]

    @pytest.mark.parametrize(("name", "xid"), [("v100", 74), ("mi300x", 0)])
    def test_between_boards(self, name: str, xid: int) -> None:
        fleet = at_work(name)
        layout = fleet.roster.links
        other = int(layout.remotes[layout.firsts[2] + 3])
        peer, slot = int(layout.owners[other]), int(layout.numbers[other])
        inject(fleet, kind="link-down", devices="dgx-0/2", link=3)
        advance(fleet, 1)
        count = int(layout.counts[0])
        for device, link in ((2, 3), (peer, slot)):
            assert links(fleet, "link_up", device) == [float(each != link) for each in range(count)]
            assert links(fleet, "link_errors", device) == [float(each == link) for each in range(count)]
            assert (fleet.link_errors[device], fleet.xid[device]) == (1, xid)
        assert (fleet.links_up < count).sum() == 2

    def test_a_board_goes(self) -> None:
        fleet = at_work("mi300x")
        fault = inject(fleet, kind="lost", devices="dgx-0/1")
        advance(fleet, 2)
        assert fleet.links_up.tolist() == [6, 0, 6, 6, 6, 6, 6, 6]
        assert sum(links(fleet, "link_state", 0)) == 12
        cleared(fleet, fault, ticks=2)
        assert fleet.links_up.tolist() == [7] * 8
        assert not fleet.link_errors.any()
        assert not fleet.link_recoveries.any()

    def test_errors_that_work_brings(self) -> None:
        fleet = make_fleet(boards_of("h100", devices=1))
        start(fleet, "all", "10:0:0", metrics={"link_errors": "5"})
        advance(fleet, 5)
        before = links(fleet, "link_errors")
        assert sum(before) == fleet.link_errors[0] == 25
        assert max(before) - min(before) == 1
        inject(fleet, kind="link-down", devices="dgx-0/0", link=17)
        advance(fleet, 3)
        after = links(fleet, "link_errors")
        assert sum(after) == fleet.link_errors[0] == 41
        assert all(now >= then for now, then in zip(after, before, strict=True))

    def test_explained(self) -> None:
        fleet = at_work("mi300x")
        inject(fleet, kind="link-down", devices="dgx-0/0", link=0)
        advance(fleet, 1)
        assert explain(fleet, 0, "links_up")[0].text == (
            "6 of 7 links are up; down: 0 (to dgx-0/1/link/1); cause fault f2 (link-down)"
        )
        assert explain(fleet, 1, TX)[0].text.startswith("6 of 7 links are up; down: 1 (to dgx-0/0/link/0); work: w1")
        assert explain(fleet, 1, "links_up")[0].faults == ("f2",), "the fault is at the other end"
        assert explain(fleet, 2, "links_up")[0].text == "7 of 7 links are up"
        unasked = [[each.metric for each in explain(fleet, device)][-1] for device in (0, 1, 2)]
        assert unasked == ["links_up", "links_up", "memory_used_bytes"], "told unasked where one is down"
        assert explain(fleet, 2, "pcie_link_width")[0].text == "generation 5 of 5, 16 of 16 lanes"

    def test_one_link_explained(self) -> None:
        fleet = at_work("mi300x")
        inject(fleet, kind="link-down", devices="dgx-0/0", link=0)
        inject(fleet, kind="link-down", devices="dgx-0/2", share=0.5)
        inject(fleet, kind="lost", devices="dgx-0/7")
        advance(fleet, 1)
        found = {(device, link): explain_link(fleet, device, link, "link-up")[0]
                 for device in range(8) for link in range(7)}  # fmt: skip
        behind = {link: each.faults for link, each in found.items() if each.faults}
        assert all((not each.value) == (link in behind) for link, each in found.items())
        assert found[1, 1].text == "down, it leads to dgx-0/0/link/0; cause fault f2 (link-down)"
        assert behind[0, 0] == behind[1, 1] == ("f2",)
        assert {link: each for link, each in behind.items() if link[0] == 2} == {
            (2, 4): ("f3",), (2, 5): ("f3", "f4"), (2, 6): ("f3",),
        }  # fmt: skip
        assert found[7, 0] == Explanation(
            "link_up", None, "the device is lost and shows nothing; cause fault f4 (lost)", ("f4",)
        )
        told = explain_link(fleet, 1, 1)
        assert [(each.metric, each.value) for each in told] == [
            ("link_up", 0), (TX, 0), ("fabric_rx_bytes_per_second", 0), ("link_errors", 1), ("link_recoveries", 0),
        ]  # fmt: skip
        assert {each.faults for each in told} == {("f2",)}

    @pytest.mark.parametrize(
        ("number", "metric", "text"),
        [(7, "", "no link 'dgx-0/0/link/7': dgx-0/0 has 7: 0 to 6"), (0, "nope", "no metric 'nope'"),
         (0, "power", "of links are explained link_up, .*, not 'power'")],
    )  # fmt: skip
    def test_no_such_link(self, number: int, metric: str, text: str) -> None:
        with pytest.raises(Refused, match=text):
            explain_link(make_fleet(boards_of("mi300x")), 0, number, metric)

    def test_a_reload(self) -> None:
        fleet = make_fleet(boards_of("mi300x", devices=4))
        start(fleet, "all", "10:0:0", metrics={"fabric-tx": "70%"})
        inject(fleet, kind="link-down", devices="dgx-0/0", link=1)
        advance(fleet, 5)
        before = [links(fleet, "fabric_tx_bytes", device) for device in range(3)]
        others = pool_of("a", device_type=catalog_type("h100"), devices_per_node=2)
        reload(fleet, others, boards_of("mi300x", devices=3))
        advance(fleet, 1)
        for device, carried in enumerate(before):
            now = links(fleet, "fabric_tx_bytes", device + 2)
            assert all(0 <= more - less <= 64e9 for more, less in zip(now, carried, strict=True))
            assert sum(now) == pytest.approx(fleet.fabric_tx_bytes[device + 2])
        assert links(fleet, "link_errors", 2) == [0, 1, 0, 0, 0, 0, 0]
        assert links(fleet, "link_up", 2)[1] == 0
        assert links(fleet, "link_up", 0) == [1] * 18
