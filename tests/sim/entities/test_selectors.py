"""Device words: which devices they name, and the errors when they name none or too many."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fakedev.sim.entities.roster import Roster
from fakedev.sim.entities.selectors import MAX_PATTERNS, resolve
from fakedev.spec.errors import Refused
from fakedev.spec.fleet import DeviceSpec
from tests.support.fleets import pool_of

#: dgx-0 and dgx-1 with 4 devices each, then xpu-0 with 2, the second of which has its own device file.
ROSTER = Roster([
    pool_of("dgx", nodes=2),
    pool_of("xpu", devices_per_node=2, devices={1: DeviceSpec(1, {"file": "renderD129"})}),
])
ALONE = Roster([pool_of("dgx")])


def named(*words: str, node: str = "", roster: Roster = ROSTER) -> list[str]:
    """The devices that some words name, as ``node/index``."""
    return [roster.unit_name(position) for position in resolve(words, roster, node).tolist()]


def fault(*words: str, node: str = "", roster: Roster = ROSTER) -> tuple[str, str, str]:
    """Code, text and field of the error of words that cannot be used."""
    with pytest.raises(Refused) as caught:
        resolve(words, roster, node)
    return caught.value.code, caught.value.text, caught.value.where


@pytest.mark.parametrize(
    ("words", "devices"),
    [
        (["dgx-0/3"], ["dgx-0/3"]),
        (["dgx-0/card3"], ["dgx-0/3"]),
        (["xpu-0/renderD129"], ["xpu-0/1"]),
        (["renderD129"], ["xpu-0/1"]),
        (["dgx-[0-1]/0"], ["dgx-0/0", "dgx-1/0"]),
        (["dgx-[1-99]/0"], ["dgx-1/0"]),
        (["dgx-?/[1-2]"], ["dgx-0/1", "dgx-0/2", "dgx-1/1", "dgx-1/2"]),
        (["dgx-0/card[2-3]"], ["dgx-0/2", "dgx-0/3"]),
        (["*/0"], ["dgx-0/0", "dgx-1/0", "xpu-0/0"]),
        (["x*/*"], ["xpu-0/0", "xpu-0/1"]),
        (["*-0/card1"], ["dgx-0/1"]),
        (["dgx-1/all"], ["dgx-1/0", "dgx-1/1", "dgx-1/2", "dgx-1/3"]),
        (["dgx-1/even"], ["dgx-1/0", "dgx-1/2"]),
        (["dgx-1/odd"], ["dgx-1/1", "dgx-1/3"]),
        (["odd"], ["dgx-0/1", "dgx-0/3", "dgx-1/1", "dgx-1/3", "xpu-0/1"]),
        (["xpu-0/0", "dgx-0/1", "dgx-0/1", "dgx-0/card1"], ["dgx-0/1", "xpu-0/0"]),
    ],
)
def test_words(words: list[str], devices: list[str]) -> None:
    """Each device once, in the order of the fleet, however it is named."""
    assert named(*words) == devices


def test_all_is_the_whole_fleet() -> None:
    """Also across pools of different size."""
    assert len(named("all")) == 10


def test_bare_names_in_a_fleet_of_one_node() -> None:
    """Where there is one node, it need not be named."""
    assert named("card1", roster=ALONE) == ["dgx-0/1"]
    assert named("card[1-2]", roster=ALONE) == ["dgx-0/1", "dgx-0/2"]
    assert named("*", roster=ALONE) == named("all", roster=ALONE) == [f"dgx-0/{n}" for n in range(4)]


class TestNode:
    """The node that a port is bound to, or that the request names."""

    def test_bare_words_speak_of_it(self) -> None:
        """Device files, numbers, groups and wildcards are those of that node."""
        assert named("card0", node="dgx-1") == ["dgx-1/0"]
        assert named("2", "card3", node="dgx-1") == ["dgx-1/2", "dgx-1/3"]
        assert named("even", node="dgx-1") == ["dgx-1/0", "dgx-1/2"]
        assert named("card[1-2]", node="dgx-1") == ["dgx-1/1", "dgx-1/2"]

    def test_a_word_with_a_node_of_its_own(self) -> None:
        """A word that names another node selects that one."""
        assert named("card0", "xpu-0/0", node="dgx-1") == ["dgx-1/0", "xpu-0/0"]

    def test_a_node_that_is_not_there(self) -> None:
        """The fault is the node's, not the device's."""
        assert fault("card0", node="dgx-7") == ("unknown-name", "no node 'dgx-7'; did you mean dgx-1?", "node")


class TestFaults:
    """The error when a word cannot be used."""

    @pytest.mark.parametrize(
        ("word", "text"),
        [
            ("crad0", "no device 'crad0'; did you mean card0?"),
            ("renderD128", "no device 'renderD128'; did you mean renderD129?"),
            ("gpu", "no device 'gpu'"),
            ("dgx-0/4", "no device '4'"),
            ("dgx-0/", "no device ''"),
            ("dgx-0/card7", "no device 'card7'; did you mean card3?"),
            ("dgx-0/[7-9]", "no device '[7-9]'"),
            ("dgx-5/0", "no node 'dgx-5'; did you mean dgx-1?"),
            ("dgx-[5-9]/0", "no node 'dgx-[5-9]'"),
            ("dgx-[1-0]/0", "no node 'dgx-[1-0]'; did you mean dgx-1?"),
            ("zzz*/0", "no node 'zzz*'"),
            ("/3", "no node ''"),
        ],
    )
    def test_unknown_names(self, word: str, text: str) -> None:
        """The nearest name that there is, when one is near."""
        assert fault(word) == ("unknown-name", text, "devices")

    def test_a_device_file_that_several_nodes_have(self) -> None:
        """It must be clear which is meant; the answer shows the ways out."""
        assert fault("card0") == (
            "bad-argument",
            "device 'card0' is on 3 nodes: name one, as dgx-0/0 or dgx-1/0, or give node=",
            "devices",
        )

    def test_a_wildcard_that_may_be_on_several_nodes(self) -> None:
        """A bare pattern is as unclear as a bare name; only the groups mean the whole fleet."""
        text = "'card[0-1]' may be on any of 3 nodes: say */card[0-1] for all of them"
        assert fault("card[0-1]") == ("bad-argument", text, "devices")

    def test_one_bad_word_is_enough(self) -> None:
        """No part of a list is taken when another part is wrong."""
        assert fault("dgx-0/0", "dgx-0/9")[0] == "unknown-name"

    def test_wildcards_are_bounded(self) -> None:
        """Few in a word, and few words with any: each may have to look at every node."""
        assert fault("*a*b*c*d*/0") == ("bad-argument", "more than 4 wildcards in '*a*b*c*d*'", "devices")
        assert fault(*[f"*{n}/0" for n in range(MAX_PATTERNS + 1)]) == (
            "bad-argument",
            "more than 64 device words with wildcards",
            "devices",
        )

    def test_numbers_have_at_most_nine_digits(self) -> None:
        """A longer one is no range, just text that no node is called."""
        assert fault("dgx-[0-9999999999]/0")[0] == "unknown-name"


class TestTime:
    """No complicated word delays other requests."""

    def seconds(self, roster: Roster, words: Sequence[str]) -> float:
        """How long it takes."""
        begun = time.perf_counter()
        with suppress(Refused):
            resolve(words, roster)
        return time.perf_counter() - begun

    def test_words_that_make_a_matcher_try_for_long(self) -> None:
        """Stars in a row are one star: two hundred letters give no room to go back and forth."""
        roster = Roster([pool_of("abcdefghij" * 20, nodes=200)])
        for word in ("****x/0", "*?*?x/0", "*a*a*ax/0", "[0-9]*[0-9]*x/0", "*" * 30_000 + "x/0"):
            assert self.seconds(roster, [word]) < 2, word[:20]

    def test_many_words_over_all_nodes(self) -> None:
        """The devices of a pool are matched once, not once for each node."""
        roster = Roster([pool_of("dgx", nodes=2_000, devices_per_node=64)])
        assert self.seconds(roster, [f"*{n}/card*[0-9]?" for n in range(10)]) < 2


#: Random letters hardly ever name a device.
GOOD_WORDS = st.sampled_from(["all", "even", "*", "card1", "2", "dgx-1/0", "dgx-*/[1-2]", "xpu-0/*", "*/1", "dgx-?/3"])
ANY_WORDS = st.lists(GOOD_WORDS, max_size=4) | st.lists(
    GOOD_WORDS | st.text(alphabet="dgxcar0123-/*?[]", max_size=12), max_size=5
)


@given(ANY_WORDS, st.sampled_from(["", "dgx-1"]))
@example(["dgx-*/[1-2]", "xpu-0/*", "dgx-1/2"], "")
def test_any_words_name_devices_or_are_refused(words: list[str], node: str) -> None:
    """Nothing but Refused comes out, and positions are ascending and of this fleet."""
    try:
        found = resolve(words, ROSTER, node).tolist()
    except Refused as refusal:
        assert refusal.code in ("unknown-name", "bad-argument")
    else:
        assert found == sorted(set(found))
        assert all(0 <= position < ROSTER.device_count for position in found)


@given(st.sets(st.integers(0, 9), min_size=1))
def test_names_of_devices_are_words_for_them(positions: set[int]) -> None:
    """What is shown as a device's name can be typed again."""
    words = [ROSTER.unit_name(position) for position in positions]
    assert resolve(words, ROSTER).tolist() == sorted(positions)
