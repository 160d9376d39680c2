"""Labels of the rows of a page, and when their texts are made again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from fakedev.exporters.identity import LabelSpec, PageLayout, RowSpec
from fakedev.exporters.page import LabelCache, Page
from tests.support.fleet.board_pages import HEAT, POWER, USAGE, Boards, family, identity, samples, state_of, text


class TestLabels:
    """Labels on a page."""

    @given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1))
    def test_any_text_can_be_a_label(self, pod: str) -> None:
        """Percent signs, quotes, backslashes, line feeds: the parser reads what was meant."""
        source = Boards(1, 1)
        source.set_pod(1, 0, pod)
        state = state_of(2, wall=1.5)
        for layout in PageLayout:
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
        face = LabelCache(identity(POWER), source)
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
        page = Page(LabelCache(identity(POWER, HEAT), source), source.groups)
        page.render(state_of(80))
        assert sorted(source.asked) == sorted((level, group) for group in source.groups for level in ("board", "part"))
        source.asked.clear()
        page.render(state_of(80, offset=5))
        assert source.asked == []
        source.set_pod(23, 1, "train")
        assert 'power_watts{group="23",board="1",pod="train"} 147' in page.render(state_of(80)).decode()
        assert sorted(source.asked) == [("board", 23), ("part", 23)]

    def test_a_page_kept_is_as_good_as_a_new_one(self) -> None:
        for layout in PageLayout:
            shown, source = identity(POWER, HEAT, USAGE, layout=layout), Boards(*[1] * 20)
            kept = Page(LabelCache(shown, source), source.groups)
            for step, (group, pod) in enumerate([(3, "a"), (17, "b"), (3, ""), (17, "c\n%d"), (0, "z")]):
                source.set_pod(group, 0, pod)
                state = state_of(20, offset=step)
                assert kept.render(state) == Page(LabelCache(shown, source), source.groups).render(state)
