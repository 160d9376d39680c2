"""What must hold for links between devices, with any faults in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fakedev.base.errors import Refused
from fakedev.fleet.events import ClearFaults
from fakedev.fleet.links.link_levels import RATES
from fakedev.fleet.spec.fleet_spec import PoolSpec
from tests.support.examples import examples
from tests.support.fleet.calibration import catalog_type
from tests.support.fleet.faulty_fleets import in_ring, inject
from tests.support.fleet.fleets import make_fleet, pool_of, reload, start, stop_any
from tests.support.fleet.link_checks import of_link_steps, of_links
from tests.support.rules import assert_none


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
    @initialize(seed=st.integers(0, 2**40))
    def begin(self, seed: int) -> None:
        self.fleet = make_fleet(*pools(), seed=seed)

    @rule(devices=st.sampled_from(_DEVICES), tx=st.integers(0, 100), rx=st.integers(0, 100), errors=st.booleans())
    def begin_work(self, devices: str, tx: int, rx: int, errors: bool) -> None:
        counted = {"link_errors": "2"} if errors else {}
        start(self.fleet, devices, "10:0:0", metrics={"fabric-tx": f"{tx}%", "fabric-rx": f"{rx}%", **counted})

    @rule(place=st.integers(0, 5))
    @precondition(lambda self: len(self.fleet.workloads.by_id) > 0)
    def end_work(self, place: int) -> None:
        stop_any(self.fleet, place)

    @rule(
        kind=st.sampled_from(_FAULTS), devices=st.sampled_from(_DEVICES), link=st.integers(-1, 19),
        share=st.sampled_from((0.0, 0.3, 0.5, 0.99)), every=st.sampled_from((0, 0, 2)),
        probability=st.sampled_from((1, 1, 0.5)),
    )  # fmt: skip
    def break_something(self, kind: str, devices: str, link: int, share: float, **more: Any) -> None:
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
        ids = [each.fault_id for each in self.fleet.faults.by_id.values() if not each.is_cleared]
        self.fleet.apply(ClearFaults((ids[place % len(ids)],)))

    @rule(h_nodes=st.integers(1, 2), m_devices=st.integers(4, 6))
    def reload(self, h_nodes: int, m_devices: int) -> None:
        """Other numbers of nodes and boards: links have other positions and other ends."""
        reload(self.fleet, *pools(h_nodes, m_devices))
        self.fleet.advance()

    @rule(ticks=st.integers(1, 6))
    def advance(self, ticks: int) -> None:
        for _ in range(ticks):
            before = self.fleet.state.levels
            self.fleet.advance()
            after = self.fleet.state.levels
            assert_none(of_link_steps(self.fleet.roster.links, before, after, 1.0), after["link"])

    @invariant()
    def rules_hold(self) -> None:
        """Those of links, of what their devices and switches show of them, and of both ends."""
        layout, levels = self.fleet.roster.links, self.fleet.state.levels
        assert_none(of_links(layout, levels), levels["link"])
        links, devices, switch, port = (levels[name].arrays for name in ("link", "device", "switch", "port"))
        there = (layout.counts > 0) & (devices["lost"] == 0)
        up = np.bincount(layout.owners, weights=links["link_up"], minlength=len(there))
        assert (up[there] == devices["links_up"][there]).all()
        assert ((links["link_state"] == 2) == (links["link_up"] > 0)).all()
        to_switch = layout.switches >= 0
        for here, at_switch in (RATES, RATES[::-1]):
            assert np.allclose(links[here], port[at_switch])
            assert np.isclose(switch[at_switch].sum(), links[here][to_switch].sum())
        assert switch["links_up"].sum() == links["link_up"][to_switch].sum()
        # Several faults of the air add up.
        air = float(devices["inlet_temperature_celsius"].max())
        assert ((switch["temperature_celsius"] > 20) & (switch["temperature_celsius"] < max(air, 100.0) + 100.0)).all()

    def teardown(self) -> None:
        if hasattr(self, "fleet"):
            for each in list(self.fleet.faults.by_id.values()):
                if not each.is_cleared:
                    self.fleet.apply(ClearFaults((each.fault_id,)))
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


@pytest.mark.slow
@pytest.mark.hypothesis
def test_any_links() -> None:
    run_state_machine_as_test(AnyLinks, settings=settings(max_examples=examples(15), stateful_step_count=15))
