"""Pages as a whole: any page reads as the arrays, and those of a fleet."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.exporters.identity import Identity, LabelSpec, NumberFormat, PageLayout, RowSpec
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.sources import DeviceSource
from fakedev.fleet.entities.state import Level, State
from tests.support.fleet.board_pages import POWER, Boards, family, identity, samples, text
from tests.support.fleet.fleets import make_fleet, pool_of, start
from tests.support.identities import loaded


@given(
    st.lists(st.integers(0, 4), max_size=5),
    st.lists(st.floats(allow_nan=False), min_size=20, max_size=20),
    st.lists(st.booleans(), min_size=20, max_size=20),
    st.sampled_from(PageLayout),
    st.sampled_from([NumberFormat.GO, NumberFormat.PYTHON]),
)
def test_any_page_reads_as_the_arrays(
    sizes: list[int], values: list[float], mask: list[bool], layout: PageLayout, number: NumberFormat
) -> None:
    """For any values, any presence, and any sizes of the groups."""
    source = Boards(*sizes)
    level = Level(20, {"power": np.array(values)}, {"power": np.array(mask)})
    state = State(0, 0.0, 0.0, {"board": level}, 0)
    page = text(identity(replace(POWER, number=number), layout=layout), source, state)
    assert samples(page) == {
        ("power_watts", facts["group"], facts["board"]): values[place]
        for group in source.groups
        for place, facts in source.entities("board", group)
        if mask[place]
    }


@pytest.mark.slow
@given(
    st.lists(st.sampled_from(NumberFormat), min_size=2, max_size=6),
    st.lists(st.floats(-1e12, 1e12) | st.sampled_from([np.nan, np.inf, 0.0, 1e6, 4e9, 1e-5]), min_size=6, max_size=6),
    st.sampled_from([1, 3, 1500]),
)
def test_families_leave_each_other_alone(numbers: list[NumberFormat], values: list[float], times: int) -> None:
    """Numbers of several families are formatted together: a page still consists of the pages of its families."""
    source = Boards(4 * times)
    arrays = {f"q{n}": np.array(values[n:] + values[:n])[np.arange(4 * times) % 6] for n in range(len(numbers))}
    state = State(0, 0.0, 0.0, {"board": Level(4 * times, arrays, {})}, 0)
    families = [family(f"f{n}", RowSpec(f"q{n}", level="board"), number=number) for n, number in enumerate(numbers)]
    assert text(identity(*families), source, state) == "".join(text(identity(f), source, state) for f in families)


class TestDevices:
    """The devices of a fleet as a source."""

    def test_a_fleet(self) -> None:
        """Nodes in order, devices by index, each with its own value and the pod that has it."""
        fleet = make_fleet(pool_of(nodes=2, devices_per_node=2))
        labels = (LabelSpec("node", "{node}"), LabelSpec("gpu", "{index}"), LabelSpec("pod", "{pod}", optional=True))
        shown = Identity("test", "", (family("watts", RowSpec("power_watts")),), labels)
        page = Page(LabelCache(shown, DeviceSource(fleet)), fleet.roster.nodes)
        start(fleet, "dgx-1/0", "100:0:0", pod="train")
        for expected_page in (
            {("watts", "dgx-0", "0"): 50, ("watts", "dgx-0", "1"): 50,
             ("watts", "dgx-1", "0"): 50, ("watts", "dgx-1", "1"): 50},
            {("watts", "dgx-0", "0"): 50, ("watts", "dgx-0", "1"): 50,
             ("watts", "dgx-1", "0", "train"): 250, ("watts", "dgx-1", "1"): 50},
        ):  # fmt: skip
            assert samples(page.render(fleet.state).decode()) == expected_page
            fleet.advance()

    def test_a_level_that_is_not_there(self) -> None:
        """Devices have no parts yet: a family of such rows is absent."""
        fleet = make_fleet()
        shown = Identity("test", "", (family("heat", RowSpec("heat", level="part")),), ())
        assert Page(LabelCache(shown, DeviceSource(fleet)), fleet.roster.nodes).render(fleet.state) == b""

    def test_families_that_a_fleet_has_not(self) -> None:
        """They are known in advance, for the list of what is covered."""
        shown = Identity(
            "test", "", (family("watts", RowSpec("power_watts")), family("heat", RowSpec("temperature_celsius"))), ()
        )
        assert shown.absent_families(make_fleet().quantity_names()) == ["heat"]

    @pytest.mark.parametrize(("driver", "is_absent"), [("580.95.05", False), ("580.105.08", True), ("", True)])
    def test_a_family_of_some_drivers(self, driver: str, is_absent: bool) -> None:
        """Boards without links have this row up to a driver."""
        name = "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"
        absent = loaded("dcgm@4.8.2").absent_families(["memory_total_bytes"], [{"driver_version": driver}])
        assert (name in absent) is is_absent
