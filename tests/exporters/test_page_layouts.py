"""How a page is laid out: where declarations are, timestamps, and the pieces that it is made in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from fakedev.exporters.family import GroupTexts, Lines, RowKinds
from fakedev.exporters.identity import LabelSpec, PageLayout, RowSpec
from fakedev.exporters.page import GROUPS_AT_ONCE, LabelCache, Page
from fakedev.fleet.entities.state import State
from tests.support.fleet.board_pages import (
    HEAT,
    LABELS,
    POWER,
    USAGE,
    Boards,
    family,
    identity,
    samples,
    state_of,
    text,
)


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


class TestLayouts:
    """Where the declarations are."""

    def test_declarations_first(self) -> None:
        """All HELP and TYPE in the identity's order, then all lines sorted as text."""
        names = ("b", "ab", "a", "a_b", "a_total")
        shown = identity(
            *[family(name, RowSpec("heat", labels=(LabelSpec("part", "{part}"),), level="part")) for name in names],
            layout=PageLayout.DECLARATIONS_FIRST,
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
            layout=PageLayout.DECLARATIONS_FIRST,
        )
        for labels in (LABELS, ()):
            lines = text(replace(shown, labels=labels), Boards(1), state_of(1)).splitlines()[6:]
            assert lines == sorted(lines)

    def test_both_layouts_say_the_same(self) -> None:
        source, state = Boards(2, 1), state_of(3, present={"usage": [False, True, True]})
        pages = [text(identity(POWER, HEAT, USAGE, layout=layout), source, state) for layout in PageLayout]
        assert samples(pages[0]) == samples(pages[1])
        assert sorted(pages[0].splitlines()) == sorted(pages[1].splitlines())


class TestTimestamps:
    """Identities of exporters that print the time."""

    def test_the_time_of_the_tick_in_milliseconds(self) -> None:
        """The wall time at which the tick was due, behind every number."""
        page = text(identity(POWER, timestamps=True), Boards(2), state_of(2, wall=1700000000.1234))
        assert [line.split("} ")[1] for line in page.splitlines()[2:]] == ["100 1700000000123", "101 1700000000123"]

    def test_each_tick_has_its_own(self) -> None:
        """Kept texts do not keep the time."""
        source = Boards(1)
        page = Page(LabelCache(identity(POWER, timestamps=True), source), source.groups)
        ends = [page.render(state_of(1, wall=wall)).rsplit(b" ", 1)[1] for wall in (1.0, 2.5, 0.0)]
        assert ends == [b"1000\n", b"2500\n", b"0\n"]

    def test_none_for_the_others(self) -> None:
        assert re.search(r"\} 100$", text(identity(POWER), Boards(1), state_of(1, wall=5)).strip())


class TestSlices:
    """Large pages are made piece by piece."""

    @pytest.mark.slow
    @pytest.mark.parametrize("layout", PageLayout)
    def test_joined_they_are_the_page(self, layout: PageLayout) -> None:
        """Of bounded size each, more than one for a large page."""
        source, state = Boards(*[8] * 400), state_of(3200)
        page = Page(LabelCache(identity(POWER, HEAT, USAGE, layout=layout), source), source.groups)
        whole = page.render(state)
        pieces = list(page.slices(state))
        assert b"".join(pieces) == whole
        assert len(pieces) > 5
        assert max(map(len, pieces)) < len(whole) / 5
        assert samples(whole.decode()) == expected(source, state)

    @pytest.mark.parametrize("layout", PageLayout)
    def test_a_pause_for_each_family_of_a_large_page(self, layout: PageLayout) -> None:
        """Looking at which of many lines are there takes time as well, whether any are; small pages have no pauses."""
        shown = identity(*[family(f"x{n}", RowSpec("power", level="board")) for n in range(6)], layout=layout)
        for boards, pauses in ((4095, 0), (4096, 6)):
            state = state_of(boards, present={"power": [False] * boards})
            page = Page(LabelCache(shown, source := Boards(boards)), source.groups)
            while not page.compile():
                pass
            assert list(page.slices(state)) == [b""] * pauses
            pieces = list(page.slices(state_of(boards)))
            assert pieces.count(b"") == pauses
            assert b"".join(pieces) == page.render(state_of(boards))

    def test_compiling_goes_piece_by_piece_too(self) -> None:
        """Each call does some groups and says whether all are done."""
        source = Boards(*[8] * 400)
        page = Page(LabelCache(identity(POWER), source), source.groups)
        asked = []
        while not page.compile():
            asked.append(len(source.asked))
        assert len(asked) >= 4
        assert max(np.diff([0, *asked])) <= 64
        assert page.compile()
        assert len(source.asked) == 400

    @pytest.mark.slow
    @pytest.mark.parametrize("layout", PageLayout)
    def test_lines_are_made_for_the_groups_that_changed(
        self, monkeypatch: pytest.MonkeyPatch, layout: PageLayout
    ) -> None:
        """At first in several calls, later only those near a group with another label; the page is as a new one."""
        shown, source, state = identity(POWER, HEAT, USAGE, layout=layout), Boards(*[8] * 1280), state_of(10_240)
        page = Page(LabelCache(shown, source), source.groups)
        made: list[int] = []
        real = Lines.of

        def of(groups: Sequence[GroupTexts], kinds: RowKinds) -> Lines:
            made.append(len(groups))
            return real(groups, kinds)

        monkeypatch.setattr(Lines, "of", of)
        calls = []
        while not page.compile():
            calls.append(sum(made))
            made.clear()
        assert sum(calls) == 3 * 1280
        assert max(calls) < 1280
        made.clear()
        source.set_pod(700, 3, "new")
        rendered = page.render(state)
        assert made == [GROUPS_AT_ONCE] * 3
        assert rendered == Page(LabelCache(shown, source), source.groups).render(state)

    def test_pieces_show_the_tick_and_the_labels_of_their_beginning(self) -> None:
        """However late they are taken: meanwhile time went on and a label changed."""
        source, before, after = Boards(*[8] * 100), state_of(800), state_of(800, offset=1000)
        page = Page(LabelCache(identity(POWER, HEAT), source), source.groups)
        whole = page.render(before)
        pieces = page.slices(before)
        first = next(pieces)
        source.set_pod(99, 7, "late")
        assert b"late" in page.render(after)
        assert first + b"".join(pieces) == whole
