"""Which rows a page has, and with which values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fakedev.exporters.identity import FamilySpec, NumberFormat, PageLayout, RowSpec
from fakedev.exporters.page import LabelCache, Page
from tests.support.fleet.board_pages import (
    HEAT,
    PART,
    POWER,
    USAGE,
    USAGE_LABEL,
    Boards,
    family,
    identity,
    samples,
    state_of,
    text,
)


class TestRows:
    """What is a row, and in which order."""

    def test_a_page(self) -> None:
        """Family by family; in it group by group, entity by entity, row by row."""
        assert text(identity(POWER, HEAT, USAGE), Boards(1, 2), state_of(3)).splitlines() == [
            "# HELP power_watts Help of power_watts.",
            "# TYPE power_watts gauge",
            'power_watts{group="0",board="0"} 100',
            'power_watts{group="1",board="0"} 101',
            'power_watts{group="1",board="1"} 102',
            "# HELP heat_celsius Help of heat_celsius.",
            "# TYPE heat_celsius gauge",
            'heat_celsius{group="0",board="0",part="0"} 0.5',
            'heat_celsius{group="0",board="0",part="1"} 1.5',
            'heat_celsius{group="1",board="0",part="0"} 2.5',
            'heat_celsius{group="1",board="0",part="1"} 3.5',
            'heat_celsius{group="1",board="1",part="0"} 4.5',
            'heat_celsius{group="1",board="1",part="1"} 5.5',
            "# HELP usage Help of usage.",
            "# TYPE usage gauge",
            'usage{group="0",board="0",unit="share"} 0',
            'usage{group="0",board="0",unit="percent"} 0',
            'usage{group="1",board="0",unit="share"} 0.1',
            'usage{group="1",board="0",unit="percent"} 10',
            'usage{group="1",board="1",unit="share"} 0.2',
            'usage{group="1",board="1",unit="percent"} 20',
        ]

    def test_rows_of_several_levels_in_a_family(self) -> None:
        """In each group board and parts in turn, as far as there are any."""
        both = family("x", RowSpec("power", level="board"), RowSpec("heat", labels=PART, level="part"))
        assert text(identity(both), Boards(1, 2), state_of(3)).splitlines()[2:] == [
            'x{group="0",board="0"} 100',
            'x{group="0",board="0",part="0"} 0.5',
            'x{group="0",board="0",part="1"} 1.5',
            'x{group="1",board="0"} 101',
            'x{group="1",board="0",part="0"} 2.5',
            'x{group="1",board="1"} 102',
            'x{group="1",board="0",part="1"} 3.5',
            'x{group="1",board="1",part="0"} 4.5',
            'x{group="1",board="1",part="1"} 5.5',
        ]

    def test_ends_with_a_line_feed(self) -> None:
        assert text(identity(POWER), Boards(1), state_of(1)).endswith(" 100\n")

    def test_families_that_no_board_has_are_absent(self) -> None:
        """With their HELP and TYPE: nothing is there to be declared."""
        nowhere = family("links", RowSpec("traffic", level="link"))
        unknown = family("voltage", RowSpec("volts", level="board"))
        assert "links" not in (page := text(identity(POWER, nowhere, unknown), Boards(1), state_of(1)))
        assert "voltage" not in page

    def test_entities_that_do_not_have_a_quantity_have_no_row(self) -> None:
        """Where the mask says so; the others keep their own values."""
        state = state_of(3, present={"power": [True, False, True]})
        page = text(identity(POWER), Boards(3), state)
        assert samples(page) == {("power_watts", "0", "0"): 100, ("power_watts", "0", "2"): 102}

    def test_a_row_may_require_another_quantity(self) -> None:
        """As the time of creation that is printed beside a counter: only where there is the counter."""
        for mask, boards in (([True, False, True], {"0", "2"}), ([False] * 3, set()), ([True] * 3, {"0", "1", "2"})):
            state = state_of(3, present={"usage": mask})
            page = text(identity(family("x", RowSpec("power", level="board", requires="usage"))), Boards(3), state)
            assert {key[2] for key in samples(page)} == boards
        page = text(identity(family("x", RowSpec("power", level="board", requires="volts"))), Boards(1), state_of(1))
        assert page == ""

    def test_a_row_may_be_a_sum(self) -> None:
        """Of quantities that the entity must have all, in the unit of the row."""
        state = state_of(3, present={"usage": [True, False, True]})
        total = family("x", RowSpec("power", unit="percent", level="board", plus=("usage",)))
        page = text(identity(total), Boards(3), state)
        assert samples(page) == {("x", "0", "0"): 10000, ("x", "0", "2"): pytest.approx(10220)}
        nowhere = family("x", RowSpec("power", level="board", plus=("volts",)))
        assert text(identity(nowhere), Boards(1), state_of(1)) == ""

    def test_a_row_may_be_a_share_of_another_quantity(self) -> None:
        """That the entity must have; 0 where the whole is 0."""
        share = family("x", RowSpec("power", unit="half", level="board", plus=("usage",), per="usage"))
        state = state_of(3, present={"usage": [True, False, True]})
        assert samples(text(identity(share), Boards(3), state)) == {
            ("x", "0", "0"): 0, ("x", "0", "2"): pytest.approx((102.2 / 0.2) / 2),
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("conditions", "boards"),
        [
            ({"where": ("usage",)}, "2"),
            ({"where": ("usage", "volts")}, "2"),
            ({"where": ("power",)}, "012"),
            ({"where": ("volts",)}, ""),
            ({"unless": ("usage",)}, "013"),
            ({"unless": ("volts",)}, "0123"),
            ({"where": ("power",), "unless": ("usage", "power")}, ""),
            ({"where": ("power",), "unless": ("usage",), "requires": "usage"}, "0"),
        ],
    )
    def test_a_row_may_depend_on_what_is_0(self, conditions: dict[str, Any], boards: str) -> None:
        """As an exporter prints nothing before the first error; what is absent counts as 0. Other rows stay."""
        state = state_of(4, present={"usage": [True, False, True, False], "power": [True, True, True, False]})
        row, other = RowSpec("heat", level="board", **conditions), RowSpec("heat", level="board", labels=USAGE_LABEL)
        state.levels["board"].arrays["heat"] = np.ones(4)  # type: ignore[index]
        found = samples(text(identity(family("x", row, other)), Boards(4), state))
        assert [key[2] for key in found if len(key) == 3] == list(boards)
        assert [key[2] for key in found if len(key) == 4] == list("0123")
        alone = samples(text(identity(family("x", row)), Boards(4), state))
        assert [key[2] for key in alone] == list(boards)

    def test_presence_may_be_another_in_every_tick(self) -> None:
        """A page that was kept shows what there is in the state it is rendered from, and asks for no labels again."""
        rng = np.random.default_rng(5)
        for layout in PageLayout:
            shown, source = identity(POWER, USAGE, HEAT, layout=layout), Boards(*[3] * 20)
            kept = Page(LabelCache(shown, source), source.groups)
            kept.render(state_of(60))
            for step in range(4):
                masks = {name: rng.random(60) < step / 3 for name in ("power", "usage")}
                state = state_of(60, present=masks, offset=step)
                source.asked.clear()
                page = kept.render(state)
                assert source.asked == []
                assert page == Page(LabelCache(shown, source), source.groups).render(state)
                assert page.count(b"\npower_watts{") == int(masks["power"].sum())

    def test_a_family_is_absent_when_no_entity_of_the_page_has_it(self) -> None:
        """Though others of the fleet do."""
        state = state_of(3, present={"power": [True, False, False]})
        assert Page(LabelCache(identity(POWER), source := Boards(1, 2)), [1]).render(state) == b""
        assert Page(LabelCache(identity(POWER), source), [0]).render(state).count(b"\n") == 3

    def test_pages_of_some_groups(self) -> None:
        """A node's page has the lines of the fleet's page that are of that node."""
        source, state = Boards(2, 3), state_of(5)
        shown = identity(POWER, HEAT, USAGE)
        whole = samples(text(shown, source, state))
        parts = [samples(Page(LabelCache(shown, source), [group]).render(state).decode()) for group in (0, 1)]
        assert parts[0] | parts[1] == whole
        assert {key[1] for key in parts[1]} == {"1"}

    def test_no_groups(self) -> None:
        for layout in PageLayout:
            assert Page(LabelCache(identity(POWER, layout=layout), Boards()), []).render(state_of(0)) == b""

    def test_no_labels(self) -> None:
        bare = replace(identity(POWER), labels=())
        assert text(bare, Boards(1), state_of(1)).splitlines()[-1] == "power_watts 100"

    def test_not_a_number(self) -> None:
        fans = family("fans", RowSpec("fans", level="board"))
        assert text(identity(fans), Boards(1), state_of(1)).splitlines()[-1] == 'fans{group="0",board="0"} NaN'

    def test_units(self) -> None:
        """Each is a factor from the quantity's own unit."""
        factors = {"percent": 100, "half": 0.5, "MiB": 2**-20, "kB": 1e-3, "MB": 1e-6, "mJ": 1000, "uJ": 1e6}
        factors |= {"mW": 1000, "Hz": 1e6, "same": 1}
        for unit, factor in factors.items():
            page = text(identity(family("x", RowSpec("power", unit, level="board"))), Boards(1), state_of(1))
            assert list(samples(page).values()) == [pytest.approx(100 * factor)]

    def test_type_and_help(self) -> None:
        """The word of TYPE as it is; HELP with backslashes and line feeds escaped."""
        spec = FamilySpec("x_total", "counter", 'a\\b\n"c" 100 %', NumberFormat.INT, (RowSpec("errors", level="part"),))
        page = text(identity(spec), Boards(1), state_of(1)).splitlines()
        assert page[:2] == ['# HELP x_total a\\\\b\\n"c" 100 %', "# TYPE x_total counter"]
