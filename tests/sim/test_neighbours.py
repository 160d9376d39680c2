"""An addition to a fleet changes no other history, and no other page."""

from __future__ import annotations

import numpy as np
import pytest

from fakedev.exposition.identity import FamilySpec, Identity, LabelSpec, Layout, NumberFormat, RowSpec
from fakedev.exposition.label_cache import LabelCache
from fakedev.exposition.page import Page
from fakedev.exposition.sources import DeviceSource
from fakedev.sim.fleet import Fleet
from fakedev.spec.device_types import DeviceType, Range
from tests.support.fleets import labels_of, make_fleet, pool_of, start, stop


def arrays(fleet: Fleet) -> dict[str, np.ndarray]:
    """All that the devices of a fleet show."""
    return dict(fleet.state.levels["device"].arrays)


class TestNeighbours:
    """An addition to a fleet changes no other history."""

    def run(self, *pools: str) -> Fleet:
        """A fleet of pools with nodes, where the same things happen on dgx-0."""
        specs = {
            "dgx": pool_of("dgx"),
            "more nodes": pool_of("dgx", nodes=3),
            "before": pool_of("aaa", nodes=2, device_type=DeviceType("tiny", {"power_watts": Range(1, 2)})),
            "after": pool_of("zzz", device_type=DeviceType("none", {"memory_used_bytes": Range(1, 2)})),
        }
        fleet = make_fleet(*(specs[name] for name in pools), seed=5)
        for tick in range(30):
            if tick % 10 == 0:
                start(fleet, "dgx-0/all", "50:30:3,40:20:5", repeat=0, name=f"at {tick}", pod=f"p{tick}")
            if tick == 25:
                stop(fleet, "w2")
            fleet.advance()
        return fleet

    @pytest.mark.parametrize("pools", [("more nodes",), ("before", "dgx"), ("dgx", "after"), ("before", "more nodes")])
    def test_added_pools_and_nodes(self, pools: tuple[str, ...]) -> None:
        """All arrays and labels of the common node are the same, to the last bit."""
        alone, among = self.run("dgx"), self.run(*pools)
        node = among.roster.node("dgx-0")
        assert node is not None
        for name, values in arrays(alone).items():
            assert np.array_equal(getattr(among, name)[node.devices], values), name
        assert among.facts(node) == alone.facts(alone.roster.nodes[0])

    @pytest.mark.parametrize("pools", [("more nodes",), ("before", "dgx"), ("dgx", "after"), ("before", "more nodes")])
    @pytest.mark.parametrize("layout", Layout)
    def test_pages(self, pools: tuple[str, ...], layout: Layout) -> None:
        """The common node's page is the same, byte for byte."""
        labels = (LabelSpec("node", "{node}"), LabelSpec("uuid", "{uuid}"), LabelSpec("pod", "{pod}", optional=True))
        names = ("power_watts", "energy_joules")
        families = tuple(FamilySpec(name, "gauge", name, NumberFormat.GO, (RowSpec(name),)) for name in names)
        identity = Identity("test", "", families, labels, layout=layout, timestamps=True)
        pages = []
        for fleet in (self.run("dgx"), self.run(*pools)):
            node = fleet.roster.node("dgx-0")
            assert node is not None
            pages.append(Page(LabelCache(identity, DeviceSource(fleet)), [node]).render(fleet.state))
        assert pages[0] == pages[1]
        assert pages[0].count(b"\n") == 4 + 2 * 4

    def test_what_happens_elsewhere(self) -> None:
        """Workloads on other devices do not touch a device's noise, not even when they leave."""
        quiet, busy = make_fleet(), make_fleet()
        for fleet, devices, profile in ((quiet, "card1", "50:0:0"), (busy, "card1,card2", "50:50:0")):
            start(fleet, devices, profile)
            start(fleet, "card0", "50:30:0")
        for tick in range(30):
            quiet.advance()
            busy.advance()
            assert quiet.usage_ratio[0] == busy.usage_ratio[0]
            if tick == 10:
                stop(busy, "w1")
            if tick == 20:
                start(busy, "card3", "50:50:0")

    def test_another_seed_is_another_history(self) -> None:
        """In noise and in names."""
        one, other = make_fleet(seed=1), make_fleet(seed=2)
        for fleet in (one, other):
            start(fleet, profile="50:30:0")
            fleet.advance()
        assert one.usage_ratio[0] != other.usage_ratio[0]
        assert labels_of(one, "dgx-0", ["uuid"]) != labels_of(other, "dgx-0", ["uuid"])
