"""What must hold for links between devices, with any faults in any order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fakedev.sim.compiled import CompiledFleet
from fakedev.sim.entities.state import Level
from fakedev.sim.events import ClearFault, Reload
from fakedev.sim.links.levels import CARRIED, COUNTED, RATES
from fakedev.spec.errors import Refused
from fakedev.spec.fleet import PoolSpec
from fakedev.spec.record_head import RecordHead
from tests.support.calibration import catalog_type
from tests.support.examples import examples
from tests.support.faulty_fleets import in_ring, inject
from tests.support.fleets import make_fleet, pool_of, start, stop_any


def pools(h_nodes: int = 1, m_devices: int = 5) -> list[PoolSpec]:
    """Switches, a mesh that does not come out even, a table of peers, a ring, and boards without links."""
    return [
        pool_of("h", nodes=h_nodes, device_type=catalog_type("h100"), devices_per_node=3),
        pool_of("m", nodes=1, device_type=catalog_type("mi300x"), devices_per_node=m_devices),
        pool_of("l", nodes=1, device_type=catalog_type("l40s"), devices_per_node=1),
        pool_of("v", nodes=1, device_type=catalog_type("v100"), devices_per_node=8),
        pool_of("r", nodes=1, device_type=in_ring("max-1550"), devices_per_node=3),
    ]


_DEVICES = ("all", "h-0/0", "h-0/*", "m-0/1", "m-0/*", "v-0/3", "v-0/*", "r-0/0", "*/1")
_FAULTS = ("link-down", "link-down", "link-down", "lost", "reset", "node-down", "inlet")


class AnyLinks(RuleBasedStateMachine):
    """Boards with traffic, and links that go down and come back."""

    @initialize(seed=st.integers(0, 2**40))
    def begin(self, seed: int) -> None:
        """Some pools, at work or not."""
        self.fleet = make_fleet(*pools(), seed=seed)

    @rule(devices=st.sampled_from(_DEVICES), tx=st.integers(0, 100), rx=st.integers(0, 100), errors=st.booleans())
    def begin_work(self, devices: str, tx: int, rx: int, errors: bool) -> None:
        """Traffic, and errors too."""
        counted = {"link_errors": "2"} if errors else {}
        start(self.fleet, devices, "10:0:0", metrics={"fabric-tx": f"{tx}%", "fabric-rx": f"{rx}%", **counted})

    @rule(place=st.integers(0, 5))
    @precondition(lambda self: len(self.fleet.workloads.by_id) > 0)
    def end_work(self, place: int) -> None:
        """A workload is stopped."""
        stop_any(self.fleet, place)

    @rule(
        kind=st.sampled_from(_FAULTS), devices=st.sampled_from(_DEVICES), link=st.integers(-1, 19),
        share=st.sampled_from((0.0, 0.3, 0.5, 0.99)), every=st.sampled_from((0, 0, 2)),
        probability=st.sampled_from((1, 1, 0.5)),
    )  # fmt: skip
    def break_something(self, kind: str, devices: str, link: int, share: float, **more: Any) -> None:
        """Links go down, boards are lost and reset."""
        given: dict[str, float] = {}
        if kind == "link-down":
            given = {"link": link} if link >= 0 else {"share": share}
        if kind == "inlet":
            given = {"celsius": 90}
        try:
            inject(self.fleet, kind=kind, devices=devices, **given, **more)
        except Refused:
            assert link >= 6

    @rule(place=st.integers(0, 5))
    @precondition(lambda self: any(not each.is_cleared for each in self.fleet.faults.by_id.values()))
    def repair(self, place: int) -> None:
        """A fault is cleared."""
        ids = [each.fault_id for each in self.fleet.faults.by_id.values() if not each.is_cleared]
        self.fleet.apply(ClearFault(ids[place % len(ids)]))

    @rule(h_nodes=st.integers(1, 2), m_devices=st.integers(4, 6))
    def reload(self, h_nodes: int, m_devices: int) -> None:
        """Other numbers of nodes and boards: links have other positions and other ends."""
        spec = replace(self.fleet.spec, pools=tuple(pools(h_nodes, m_devices)))
        self.fleet.apply(Reload(CompiledFleet(spec), RecordHead("", 0.0)))
        self.fleet.advance()

    @rule(ticks=st.integers(1, 6))
    def advance(self, ticks: int) -> None:
        """Time passes; what links have counted grows as they carry."""
        for _ in range(ticks):
            before = self.fleet.state.levels
            self.fleet.advance()
            self.follows(before["link"], before["device"])

    def follows(self, before: Level, devices: Level) -> None:
        """Counters grow by what is shown, those of bytes begin again with a reset only."""
        layout, after, now = self.fleet.roster.links, self.fleet.state.levels["link"], self.fleet.state.levels["device"]
        reset = (now.arrays["created_seconds"] != devices.arrays["created_seconds"])[layout.owners]
        for name in COUNTED:
            assert (after.arrays[name] - before.arrays[name] >= 0).all(), name
        for name, rate in zip(CARRIED, RATES, strict=True):
            grown = after.arrays[name] - np.where(reset, 0.0, before.arrays[name])
            assert np.allclose(grown, after.arrays[rate] * self.fleet.spec.tick_seconds, rtol=1e-6, atol=1.0), name

    @invariant()
    def links_are_their_devices(self) -> None:
        """What the links of a device show is together what it shows; none carries more than it can."""
        layout, levels = self.fleet.roster.links, self.fleet.state.levels
        links, devices = levels["link"], levels["device"]
        has = layout.counts > 0
        for name in (*RATES, *CARRIED, *COUNTED):
            together = np.bincount(layout.owners, weights=links.arrays[name], minlength=len(has))
            # Of terabytes that come and go some millionths of a byte are left.
            assert np.allclose(together[has], devices.arrays[name][has], rtol=1e-9, atol=1e-3), name
        most = links.arrays["link_bytes_per_second_max"] * (1 + 1e-9)
        assert all((links.arrays[name] <= most).all() for name in RATES)
        there = has & (devices.arrays["lost"] == 0)
        up = np.bincount(layout.owners, weights=links.arrays["link_up"], minlength=len(has))
        assert (up[there] == devices.arrays["links_up"][there]).all()

    @invariant()
    def what_is_down_carries_nothing(self) -> None:
        """Neither way; and both ends know that it is down."""
        layout, links = self.fleet.roster.links, self.fleet.state.levels["link"].arrays
        down = links["link_up"] == 0
        assert all((links[name][down] == 0).all() for name in RATES)
        ends = layout.remotes
        assert (links["link_up"][ends >= 0] == links["link_up"][ends[ends >= 0]]).all()
        assert ((links["link_state"] == 2) == ~down).all()

    @invariant()
    def switches_pass_on(self) -> None:
        """What devices send to switches these receive, and know which ports are up."""
        levels, layout = self.fleet.state.levels, self.fleet.roster.links
        to_switch = layout.switches >= 0
        switch, port = levels["switch"].arrays, levels["port"].arrays
        for here, there in ((RATES[0], RATES[1]), (RATES[1], RATES[0])):
            assert np.allclose(levels["link"].arrays[here], port[there])
            assert np.isclose(switch[there].sum(), levels["link"].arrays[here][to_switch].sum())
        assert switch["links_up"].sum() == levels["link"].arrays["link_up"][to_switch].sum()
        # Several faults of the air add up.
        air = float(levels["device"].arrays["inlet_temperature_celsius"].max())
        assert ((switch["temperature_celsius"] > 20) & (switch["temperature_celsius"] < max(air, 100.0) + 100.0)).all()

    def teardown(self) -> None:
        """All faults cleared: all links are up."""
        if hasattr(self, "fleet"):
            for each in list(self.fleet.faults.by_id.values()):
                if not each.is_cleared:
                    self.fleet.apply(ClearFault(each.fault_id))
            for _ in range(300):
                self.fleet.advance()
                if not self.fleet.state.levels["device"].arrays["lost"].any():
                    break
            self.fleet.advance()
            gone = self.fleet.state.levels["device"].arrays["lost"] > 0
            layout, up = self.fleet.roster.links, self.fleet.state.levels["link"].arrays["link_up"] > 0
            ends = layout.remotes
            lost = gone[layout.owners] | ((ends >= 0) & gone[layout.owners[ends]])
            assert (up == ~lost).all()


TestAnyLinks = AnyLinks.TestCase
TestAnyLinks.settings = settings(max_examples=examples(15), stateful_step_count=15, deadline=None)
