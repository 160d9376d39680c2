"""Pages: rows of entities of several levels as text, against prometheus_client's parser and the arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from fakedev.exposition.face import Face
from fakedev.exposition.identity import FamilySpec, Identity, LabelSpec, Layout, NumberFormat, RowSpec
from fakedev.exposition.page import Page
from fakedev.exposition.sources import DeviceSource, Entity
from fakedev.sim.state import Level, State
from tests.fleets import make_fleet, pool_of, start

PARTS = 2


class Boards:
    """Entities of two levels: boards with two parts each, in groups of as many boards as are asked for.

    :ivar asked: the groups whose entities were asked for, with the level.
    """

    def __init__(self, *sizes: int) -> None:
        self.facts: list[list[dict[str, str]]] = []
        self.versions = [0] * len(sizes)
        self.asked: list[tuple[str, int]] = []
        for group, size in enumerate(sizes):
            self.facts.append([{"group": str(group), "board": str(board), "pod": ""} for board in range(size)])

    @property
    def groups(self) -> range:
        """All groups."""
        return range(len(self.facts))

    def entities(self, level: str, group: int) -> Sequence[Entity]:
        """The boards of a group, or their parts."""
        self.asked.append((level, group))
        first = sum(len(boards) for boards in self.facts[:group])
        boards = list(enumerate(self.facts[group], first))
        if level == "board":
            return boards
        parts = range(PARTS)
        return [(PARTS * place + part, {**facts, "part": str(part)}) for place, facts in boards for part in parts]

    def version(self, group: int) -> int:
        """How often the group's labels changed."""
        return self.versions[group]

    def former(self, group: int) -> None:
        """There was no reload."""

    def set_pod(self, group: int, board: int, pod: str) -> None:
        """A board gets a pod."""
        self.facts[group][board]["pod"] = pod
        self.versions[group] += 1


def state_of(
    boards: int, *, present: Mapping[str, Sequence[bool]] | None = None, offset: float = 0, wall: float = 0
) -> State:
    """A state where board n has 100 + n W and n / 10 as usage, and each part its own temperature."""
    level = Level(
        boards,
        {
            "power": np.arange(boards) + 100.0 + offset,
            "usage": np.arange(boards) / 10,
            "fans": np.full(boards, np.nan),
        },
        {name: np.array(mask) for name, mask in (present or {}).items()},
    )
    parts = Level(PARTS * boards, {"heat": np.arange(PARTS * boards) + 0.5, "errors": np.zeros(PARTS * boards)}, {})
    return State(7, 7.0, wall, {"board": level, "part": parts}, 0)


def family(name: str, *rows: RowSpec, kind: str = "gauge", number: NumberFormat = NumberFormat.GO) -> FamilySpec:
    """A family with a help text of its own."""
    return FamilySpec(name, kind, f"Help of {name}.", number, rows)


POWER = family("power_watts", RowSpec("power", level="board"))
PART = (LabelSpec("part", "{part}"),)
HEAT = family("heat_celsius", RowSpec("heat", labels=PART, level="part"), number=NumberFormat.PYTHON)
USAGE_LABEL = (LabelSpec("unit", "share"),)
#: Two rows for each board, of one quantity in two units.
USAGE = family(
    "usage",
    RowSpec("usage", level="board", labels=USAGE_LABEL),
    RowSpec("usage", unit="percent", level="board", labels=(LabelSpec("unit", "percent"),)),
)
LABELS = (LabelSpec("group", "{group}"), LabelSpec("board", "{board}"), LabelSpec("pod", "{pod}", optional=True))


def identity(*families: FamilySpec, **more: object) -> Identity:
    """An identity of these families."""
    return Identity("test", "1", families, LABELS, **more)  # type: ignore[arg-type]


def text(shown: Identity, source: Boards, state: State) -> str:
    """The whole page as text."""
    return Page(Face(shown, source), source.groups).render(state).decode()


def samples(page: str) -> dict[tuple[str, ...], float]:
    """The values of a page as the parser reads them: by name and label values in their order."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for each in text_string_to_metric_families(page)
        for sample in each.samples
    }


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
        """As the text format demands."""
        assert text(identity(POWER), Boards(1), state_of(1)).endswith(" 100\n")

    def test_families_that_nobody_has_are_absent(self) -> None:
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
        for layout in Layout:
            shown, source = identity(POWER, USAGE, HEAT, layout=layout), Boards(*[3] * 20)
            kept = Page(Face(shown, source), source.groups)
            kept.render(state_of(60))
            for step in range(4):
                masks = {name: rng.random(60) < step / 3 for name in ("power", "usage")}
                state = state_of(60, present=masks, offset=step)
                source.asked.clear()
                page = kept.render(state)
                assert source.asked == []
                assert page == Page(Face(shown, source), source.groups).render(state)
                assert page.count(b"\npower_watts{") == int(masks["power"].sum())

    def test_a_family_is_absent_when_no_entity_of_the_page_has_it(self) -> None:
        """Though others of the fleet do."""
        state = state_of(3, present={"power": [True, False, False]})
        assert Page(Face(identity(POWER), source := Boards(1, 2)), [1]).render(state) == b""
        assert Page(Face(identity(POWER), source), [0]).render(state).count(b"\n") == 3

    def test_pages_of_some_groups(self) -> None:
        """A node's page has the lines of the fleet's page that are of that node."""
        source, state = Boards(2, 3), state_of(5)
        shown = identity(POWER, HEAT, USAGE)
        whole = samples(text(shown, source, state))
        parts = [samples(Page(Face(shown, source), [group]).render(state).decode()) for group in (0, 1)]
        assert parts[0] | parts[1] == whole
        assert {key[1] for key in parts[1]} == {"1"}

    def test_no_groups(self) -> None:
        """A fleet without nodes has an empty page."""
        for layout in Layout:
            assert Page(Face(identity(POWER, layout=layout), Boards()), []).render(state_of(0)) == b""

    def test_no_labels(self) -> None:
        """Then there are no braces."""
        bare = replace(identity(POWER), labels=())
        assert text(bare, Boards(1), state_of(1)).splitlines()[-1] == "power_watts 100"

    def test_not_a_number(self) -> None:
        """Is written as such."""
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


class TestLabels:
    """Labels on a page."""

    @given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1))
    def test_any_text_can_be_a_label(self, pod: str) -> None:
        """Percent signs, quotes, backslashes, line feeds: the parser reads what was meant."""
        source = Boards(1, 1)
        source.set_pod(1, 0, pod)
        state = state_of(2, wall=1.5)
        for layout in Layout:
            page = text(identity(POWER, HEAT, layout=layout, timestamps=True), source, state)
            every = [sample for each in text_string_to_metric_families(page) for sample in each.samples]
            found = [sample for sample in every if sample.labels["group"] == "1"]
            assert len(found) == 3
            assert {sample.labels["pod"] for sample in found} == {pod}
            assert {sample.value for sample in found} == {101, 2.5, 3.5}

    def test_sorted_labels(self) -> None:
        """A row's own labels among the identity's; leading ones in front."""
        shown = identity(USAGE, sort_labels=True)
        assert 'usage{board="0",group="0",unit="share"} 0' in text(shown, Boards(1), state_of(1))
        shown = identity(USAGE, sort_labels=True, leading_labels=1)
        assert 'usage{group="0",board="0",unit="share"} 0' in text(shown, Boards(1), state_of(1))

    def test_texts_in_the_place_of_values(self) -> None:
        """A label may say a value in words, and another word for those it does not know."""
        words = LabelSpec("which", "{board}", texts=(("0", "first"), ("1", '"second"')), otherwise="another")
        shown = identity(family("x", RowSpec("power", level="board", labels=(words,))))
        found = samples(text(shown, Boards(3), state_of(3)))
        assert [key[-1] for key in found] == ["first", '"second"', "another"]

    def test_pages_share_what_they_keep(self) -> None:
        """Pages of one face ask for each group's entities once, and again once when its labels changed."""
        source = Boards(1, 1)
        face = Face(identity(POWER), source)
        pages = [Page(face, source.groups), Page(face, [0]), Page(face, [1]), Page(face, source.groups, True)]
        for page in pages:
            page.render(state_of(2))
        assert source.asked == [("board", 0), ("board", 1)]
        source.set_pod(1, 0, "train")
        shown = [b'pod="train"' in page.render(state_of(2)) for page in pages]
        assert shown == [True, False, True, True]
        assert source.asked == [("board", 0), ("board", 1), ("board", 1)]

    def test_only_a_group_whose_labels_changed_is_asked_again(self) -> None:
        """Texts are kept per group: not even its neighbours are made again."""
        source = Boards(*[2] * 40)
        page = Page(Face(identity(POWER, HEAT), source), source.groups)
        page.render(state_of(80))
        assert sorted(source.asked) == sorted((level, group) for group in source.groups for level in ("board", "part"))
        source.asked.clear()
        page.render(state_of(80, offset=5))
        assert source.asked == []
        source.set_pod(23, 1, "train")
        assert 'power_watts{group="23",board="1",pod="train"} 147' in page.render(state_of(80)).decode()
        assert sorted(source.asked) == [("board", 23), ("part", 23)]

    def test_a_page_kept_is_as_good_as_a_new_one(self) -> None:
        """After labels came and went, in both layouts."""
        for layout in Layout:
            shown, source = identity(POWER, HEAT, USAGE, layout=layout), Boards(*[1] * 20)
            kept = Page(Face(shown, source), source.groups)
            for step, (group, pod) in enumerate([(3, "a"), (17, "b"), (3, ""), (17, "c\n%d"), (0, "z")]):
                source.set_pod(group, 0, pod)
                state = state_of(20, offset=step)
                assert kept.render(state) == Page(Face(shown, source), source.groups).render(state)


class TestLayouts:
    """Where the declarations are."""

    def test_declarations_first(self) -> None:
        """All HELP and TYPE in the identity's order, then all lines sorted as text."""
        names = ("b", "ab", "a", "a_b", "a_total")
        shown = identity(
            *[family(name, RowSpec("heat", labels=(LabelSpec("part", "{part}"),), level="part")) for name in names],
            layout=Layout.DECLARATIONS_FIRST,
        )
        source = Boards(*[3] * 12)
        source.set_pod(2, 1, '%"5')
        source.set_pod(11, 1, "%%5")
        lines = text(shown, source, state_of(36)).splitlines()
        assert lines[:10] == [
            line for name in names for line in (f"# HELP {name} Help of {name}.", f"# TYPE {name} gauge")
        ]
        assert len(lines) == 10 + len(names) * 72
        assert lines[10:] == sorted(lines[10:])

    def test_declarations_first_without_labels(self) -> None:
        """A name that is the beginning of another then comes before it, and behind it with labels: so text sorts."""
        shown = identity(
            *[family(name, RowSpec("power", level="board")) for name in ("a_b", "a", "aa")],
            layout=Layout.DECLARATIONS_FIRST,
        )
        for labels in (LABELS, ()):
            lines = text(replace(shown, labels=labels), Boards(1), state_of(1)).splitlines()[6:]
            assert lines == sorted(lines)

    def test_both_layouts_say_the_same(self) -> None:
        """They differ in the order alone."""
        source, state = Boards(2, 1), state_of(3, present={"usage": [False, True, True]})
        pages = [text(identity(POWER, HEAT, USAGE, layout=layout), source, state) for layout in Layout]
        assert samples(pages[0]) == samples(pages[1])
        assert sorted(pages[0].splitlines()) == sorted(pages[1].splitlines())


class TestTimestamps:
    """Identities whose exporter prints the time."""

    def test_the_time_of_the_tick_in_milliseconds(self) -> None:
        """The wall time at which the tick was due, behind every number."""
        page = text(identity(POWER, timestamps=True), Boards(2), state_of(2, wall=1700000000.1234))
        assert [line.split("} ")[1] for line in page.splitlines()[2:]] == ["100 1700000000123", "101 1700000000123"]

    def test_each_tick_has_its_own(self) -> None:
        """Kept texts do not keep the time."""
        source = Boards(1)
        page = Page(Face(identity(POWER, timestamps=True), source), source.groups)
        ends = [page.render(state_of(1, wall=wall)).rsplit(b" ", 1)[1] for wall in (1.0, 2.5, 0.0)]
        assert ends == [b"1000\n", b"2500\n", b"0\n"]

    def test_none_for_the_others(self) -> None:
        """A number ends the line."""
        assert re.search(r"\} 100$", text(identity(POWER), Boards(1), state_of(1, wall=5)).strip())


class TestSlices:
    """Large pages are made piece by piece."""

    @pytest.mark.parametrize("layout", Layout)
    def test_joined_they_are_the_page(self, layout: Layout) -> None:
        """Of bounded size each, more than one for a large page."""
        source, state = Boards(*[8] * 400), state_of(3200)
        page = Page(Face(identity(POWER, HEAT, USAGE, layout=layout), source), source.groups)
        whole = page.render(state)
        pieces = list(page.slices(state))
        assert b"".join(pieces) == whole
        assert len(pieces) > 5
        assert max(map(len, pieces)) < len(whole) / 5
        assert samples(whole.decode()) == expected(source, state)

    @pytest.mark.parametrize("layout", Layout)
    def test_a_pause_for_each_family_of_a_large_page(self, layout: Layout) -> None:
        """Looking at which of many lines are there takes time as well, whether any are; small pages have no pauses."""
        shown = identity(*[family(f"x{n}", RowSpec("power", level="board")) for n in range(6)], layout=layout)
        for boards, pauses in ((4095, 0), (4096, 6)):
            state = state_of(boards, present={"power": [False] * boards})
            page = Page(Face(shown, source := Boards(boards)), source.groups)
            while not page.compile():
                pass
            assert list(page.slices(state)) == [b""] * pauses
            pieces = list(page.slices(state_of(boards)))
            assert pieces.count(b"") == pauses
            assert b"".join(pieces) == page.render(state_of(boards))

    def test_compiling_goes_piece_by_piece_too(self) -> None:
        """Each call does some groups and says whether all are done."""
        source = Boards(*[8] * 400)
        page = Page(Face(identity(POWER), source), source.groups)
        asked = []
        while not page.compile():
            asked.append(len(source.asked))
        assert len(asked) >= 4
        assert max(np.diff([0, *asked])) <= 64
        assert page.compile()
        assert len(source.asked) == 400

    def test_pieces_show_the_tick_and_the_labels_of_their_beginning(self) -> None:
        """However late they are taken: meanwhile time went on and a label changed."""
        source, before, after = Boards(*[8] * 100), state_of(800), state_of(800, offset=1000)
        page = Page(Face(identity(POWER, HEAT), source), source.groups)
        whole = page.render(before)
        pieces = page.slices(before)
        first = next(pieces)
        source.set_pod(99, 7, "late")
        assert b"late" in page.render(after)
        assert first + b"".join(pieces) == whole


def expected(source: Boards, state: State) -> dict[tuple[str, ...], float]:
    """What a page of POWER, HEAT and USAGE must say of boards without a pod, worked out from the arrays."""
    boards, parts = state.levels["board"].arrays, state.levels["part"].arrays
    found: dict[tuple[str, ...], float] = {}
    for group in source.groups:
        for place, facts in source.entities("board", group):
            key = facts["group"], facts["board"]
            found["power_watts", *key] = boards["power"][place]
            found["usage", *key, "share"] = boards["usage"][place]
            found["usage", *key, "percent"] = boards["usage"][place] * 100
        for place, facts in source.entities("part", group):
            found["heat_celsius", facts["group"], facts["board"], facts["part"]] = parts["heat"][place]
    return found


@given(
    st.lists(st.integers(0, 4), max_size=5),
    st.lists(st.floats(allow_nan=False), min_size=20, max_size=20),
    st.lists(st.booleans(), min_size=20, max_size=20),
    st.sampled_from(Layout),
    st.sampled_from([NumberFormat.GO, NumberFormat.PYTHON]),
)
def test_any_page_reads_as_the_arrays(
    sizes: list[int], values: list[float], mask: list[bool], layout: Layout, number: NumberFormat
) -> None:
    """Whatever the values, the presence, and the sizes of the groups."""
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


@given(
    st.lists(st.sampled_from(NumberFormat), min_size=2, max_size=6),
    st.lists(st.floats(-1e12, 1e12) | st.sampled_from([np.nan, np.inf, 0.0, 1e6, 4e9, 1e-5]), min_size=6, max_size=6),
    st.sampled_from([1, 3, 1500]),
)
def test_families_leave_each_other_alone(numbers: list[NumberFormat], values: list[float], times: int) -> None:
    """Numbers of several families are formatted together: a page is the pages of its families all the same."""
    source = Boards(4 * times)
    arrays = {f"q{n}": np.array(values[n:] + values[:n])[np.arange(4 * times) % 6] for n in range(len(numbers))}
    state = State(0, 0.0, 0.0, {"board": Level(4 * times, arrays, {})}, 0)
    families = [family(f"f{n}", RowSpec(f"q{n}", level="board"), number=each) for n, each in enumerate(numbers)]
    assert text(identity(*families), source, state) == "".join(text(identity(f), source, state) for f in families)


class TestDevices:
    """The devices of a fleet as a source."""

    def test_a_fleet(self) -> None:
        """Nodes in order, devices by index, each with its own value and the pod that has it."""
        fleet = make_fleet(pool_of(nodes=2, devices_per_node=2))
        labels = (LabelSpec("node", "{node}"), LabelSpec("gpu", "{index}"), LabelSpec("pod", "{pod}", optional=True))
        shown = Identity("test", "", (family("watts", RowSpec("power_watts")),), labels)
        page = Page(Face(shown, DeviceSource(fleet)), fleet.roster.nodes)
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
        assert Page(Face(shown, DeviceSource(fleet)), fleet.roster.nodes).render(fleet.state) == b""

    def test_families_that_a_fleet_has_not(self) -> None:
        """Are known beforehand, for those who ask what is covered."""
        shown = Identity(
            "test", "", (family("watts", RowSpec("power_watts")), family("heat", RowSpec("temperature_celsius"))), ()
        )
        assert shown.absent_families(make_fleet().quantity_names()) == ["heat"]
