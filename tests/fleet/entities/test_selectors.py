"""Device words: which devices they name, errors when they name none or too many, and the words for some devices."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fakedev.base.errors import Refused
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.entities.selectors import MAX_PATTERNS, resolve, words_of
from fakedev.fleet.spec.fleet_spec import DeviceSpec, NodeSpec, PoolSpec
from tests.support.fleet.divided_devices import divided_pool
from tests.support.fleet.fleets import BOARD, pool_of

#: dgx-0 and dgx-1 with 4 devices each, then xpu-0 with 2, the second of which has its own device file.
ROSTER = Roster([
    pool_of("dgx", nodes=2),
    pool_of("xpu", devices_per_node=2, devices={1: DeviceSpec(1, {"file": "renderD129"})}),
])
ALONE = Roster([pool_of("dgx")])


def named(*words: str, node: str = "", roster: Roster = ROSTER) -> list[str]:
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
        (["all"], [f"dgx-{n}/{d}" for n in (0, 1) for d in range(4)] + ["xpu-0/0", "xpu-0/1"]),
        (["odd"], ["dgx-0/1", "dgx-0/3", "dgx-1/1", "dgx-1/3", "xpu-0/1"]),
        (["xpu-0/0", "dgx-0/1", "dgx-0/1", "dgx-0/card1"], ["dgx-0/1", "xpu-0/0"]),
    ],
)
def test_words(words: list[str], devices: list[str]) -> None:
    assert named(*words) == devices


def test_bare_names_in_a_fleet_of_one_node() -> None:
    assert named("card1", roster=ALONE) == ["dgx-0/1"]
    assert named("card[1-2]", roster=ALONE) == ["dgx-0/1", "dgx-0/2"]
    assert named("*", roster=ALONE) == named("all", roster=ALONE) == [f"dgx-0/{n}" for n in range(4)]


class TestNode:
    @pytest.mark.parametrize(
        ("words", "devices"),
        [
            (["card0"], ["dgx-1/0"]),
            (["2", "card3"], ["dgx-1/2", "dgx-1/3"]),
            (["even"], ["dgx-1/0", "dgx-1/2"]),
            (["card[1-2]"], ["dgx-1/1", "dgx-1/2"]),
            (["card0", "xpu-0/0"], ["dgx-1/0", "xpu-0/0"]),
        ],
    )
    def test_bare_words_speak_of_it(self, words: list[str], devices: list[str]) -> None:
        assert named(*words, node="dgx-1") == devices

    def test_a_node_that_is_not_there(self) -> None:
        assert fault("card0", node="dgx-7") == ("unknown-name", "no node 'dgx-7'; did you mean dgx-1?", "node")


class TestFaults:
    @pytest.mark.parametrize(
        ("word", "text"),
        [
            ("crad0", "no device 'crad0'; did you mean card0?"),
            ("renderD128", "no device 'renderD128'; did you mean renderD129?"),
            ("gpu", "no device 'gpu': name a device as dgx-0/0"),
            ("dgx-1", "no device 'dgx-1': it is a node; name its devices, as dgx-1/0 or dgx-1/*"),
            ("dgx-0/4", "no device '4': dgx-0 has 4: 0 to 3"),
            ("dgx-0/", "no device '': dgx-0 has 4: 0 to 3"),
            ("dgx-0/card7", "no device 'card7'; did you mean card3?"),
            ("dgx-0/[7-9]", "no device '[7-9]': dgx-0 has 4: 0 to 3"),
            ("dgx-5/0", "no node 'dgx-5'; did you mean dgx-1?"),
            ("dgx-[5-9]/0", "no node 'dgx-[5-9]'; there are dgx-0, dgx-1, xpu-0"),
            ("dgx-[1-0]/0", "no node 'dgx-[1-0]'; did you mean dgx-1?"),
            ("zzz*/0", "no node 'zzz*'; there are dgx-0, dgx-1, xpu-0"),
            ("/3", "no node ''; there are dgx-0, dgx-1, xpu-0"),
        ],
    )
    def test_unknown_names(self, word: str, text: str) -> None:
        assert fault(word) == ("unknown-name", text, "devices")

    @pytest.mark.parametrize(
        ("words", "text"),
        [
            (["card0"], "device 'card0' is on 3 nodes: name one, as dgx-0/0 or dgx-1/0, or give node="),
            (["card[0-1]"], "'card[0-1]' may be on any of 3 nodes: say */card[0-1] for all of them"),
            (["*a*b*c*d*/0"], "more than 4 wildcards in '*a*b*c*d*'"),
            ([f"*{n}/0" for n in range(MAX_PATTERNS + 1)], "more than 64 device words with wildcards"),
        ],
    )
    def test_unclear_words(self, words: list[str], text: str) -> None:
        """A bare name or pattern on several nodes; wildcards are bounded, as each may have to look at every node."""
        assert fault(*words) == ("bad-argument", text, "devices")

    def test_numbers_have_at_most_nine_digits(self) -> None:
        """A longer one is no range, just text that no node is called; and one bad word of several is enough."""
        assert fault("dgx-0/0", "dgx-[0-9999999999]/0")[0] == "unknown-name"


class TestTime:
    def seconds(self, roster: Roster, words: Sequence[str]) -> float:
        begun = time.process_time()
        with suppress(Refused):
            resolve(words, roster)
        return time.process_time() - begun

    def test_words_that_make_a_matcher_try_for_long(self) -> None:
        """Stars in a row are one star: two hundred letters give no room to go back and forth."""
        roster = Roster([pool_of("abcdefghij" * 20, nodes=200)])
        for word in ("****x/0", "*?*?x/0", "*a*a*ax/0", "[0-9]*[0-9]*x/0", "*" * 30_000 + "x/0"):
            assert self.seconds(roster, [word]) < 20, word[:20]

    def test_many_words_over_all_nodes(self) -> None:
        """The devices of a pool are matched once, not once for each node."""
        roster = Roster([pool_of("dgx", nodes=2_000, devices_per_node=64)])
        assert self.seconds(roster, [f"*{n}/card*[0-9]?" for n in range(10)]) < 20


#: Random letters hardly ever name a device.
GOOD_WORDS = st.sampled_from(["all", "even", "*", "card1", "2", "dgx-1/0", "dgx-*/[1-2]", "xpu-0/*", "*/1", "dgx-?/3"])
ANY_WORDS = st.lists(GOOD_WORDS, max_size=4) | st.lists(
    GOOD_WORDS | st.text(alphabet="dgxcar0123-/*?[]", max_size=12), max_size=5
)


@given(ANY_WORDS, st.sampled_from(["", "dgx-1"]))
@example(["dgx-*/[1-2]", "xpu-0/*", "dgx-1/2"], "")
def test_any_words_name_devices_or_are_refused(words: list[str], node: str) -> None:
    try:
        found = resolve(words, ROSTER, node).tolist()
    except Refused as refusal:
        assert refusal.code in ("unknown-name", "bad-argument")
    else:
        assert found == sorted(set(found))
        assert all(0 <= position < ROSTER.device_count for position in found)


@given(st.sets(st.integers(0, 9), min_size=1))
def test_names_of_devices_are_words_for_them(positions: set[int]) -> None:
    words = [ROSTER.unit_name(position) for position in positions]
    assert resolve(words, ROSTER).tolist() == sorted(positions)


#: Names that are counted through, with a hole and with zeros before them, and others.
NAMES = [
    *("n-0", "n-1", "n-2", "n-10", "n-11", "gpu008", "gpu009", "gpu010", "gpu12"),
    *("alone", "7", "9", "8.x", "m-1234567890"),
]
MIXED = Roster((
    PoolSpec("mixed", tuple(map(NodeSpec, NAMES)), BOARD, 3),
    divided_pool("mig", nodes=3),
    pool_of("n-0", nodes=2, devices_per_node=5),
))  # fmt: skip


def told(roster: Roster, *words: str) -> list[str]:
    return words_of(roster, resolve(words, roster))


@given(st.frozensets(st.integers(0, MIXED.parts.unit_count - 1)))
def test_nothing_is_lost(chosen: frozenset[int]) -> None:
    units = np.array(sorted(chosen), dtype=np.int64)
    words = words_of(MIXED, units)
    found = [
        unit
        for begin in range(0, len(words), MAX_PATTERNS)
        for unit in resolve(words[begin : begin + MAX_PATTERNS], MIXED).tolist()
    ]
    assert len(found) == len(set(found))
    # Parts of devices that are there are meant by these.
    whole = {unit for unit in chosen if MIXED.parts.owner(unit) == unit or MIXED.parts.owner(unit) not in chosen}
    assert set(found) == whole


@pytest.mark.parametrize(
    ("given_words", "words"),
    [
        (["n-0/1"], ["n-0/1"]),
        (["n-0/*"], ["n-0/[0-2]"]),
        (["n-*/0"], ["n-[0-2]/0", "n-[10-11]/0", "n-0-[0-1]/0"]),
        (["gpu*/[1-2]"], ["gpu[008-010]/[1-2]", "gpu12/[1-2]"]),
        (["n-[0-2]/*", "n-1/0"], ["n-[0-2]/[0-2]"]),
        (["n-0/0", "n-0/2", "n-1/0", "n-1/2", "n-2/0"], ["n-[0-1]/0", "n-[0-1]/2", "n-2/0"]),
        (["alone/*", "7/0"], ["alone/[0-2]", "7/0"]),
        (["mig-*/1/*"], ["mig-[0-2]/1/[0-2]"]),
        (
            ["mig-*/1/0", "mig-1/1/2", "mig-*/[2-3]"],
            ["mig-0/[2-3]", "mig-0/1/0", "mig-2/[2-3]", "mig-2/1/0", "mig-1/[2-3]", "mig-1/1/0", "mig-1/1/2"],
        ),
        (["mig-0/1", "mig-0/1/*"], ["mig-0/1"]),
    ],
)
def test_what_is_regular_is_short(given_words: list[str], words: list[str]) -> None:
    assert told(MIXED, *given_words) == words


def test_a_large_fleet() -> None:
    roster = Roster((pool_of(nodes=1250, devices_per_node=8),))
    assert told(roster, "all") == ["dgx-[0-1249]/[0-7]"]
    assert words_of(roster, np.delete(np.arange(10_000), 8)) == ["dgx-0/[0-7]", "dgx-[2-1249]/[0-7]", "dgx-1/[1-7]"]
    assert len(words_of(roster, np.arange(0, 10_000, 2))) == 4
    assert len(words_of(roster, np.arange(0, 10_000, 9))) <= 1250
