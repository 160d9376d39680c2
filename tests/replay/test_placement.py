"""Placement: no device gets more than it has, demands are respected, and who finds no place waits."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.replay.placement import ORDERS, POLICIES, place
from fakedev.replay.trace import WHOLE, TraceJob, TraceNode

_NODES = [TraceNode("a", "T4", 2), TraceNode("b", "V100", 4), TraceNode("c", "V100", 1)]


def places(jobs: list[TraceJob], policy: str) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(each.job.name, _NODES[each.node].name, each.indices) for each in place(_NODES, jobs, policy).placed]


def test_policies_fill_the_fullest_the_emptiest_or_the_first() -> None:
    """Two halves share a device with best fit and first, and have a node each with spread."""
    jobs = [TraceJob("x", 0, 0, 9, 1, 500), TraceJob("y", 0, 1, 9, 1, 500), TraceJob("z", 0, 2, 9)]
    assert places(jobs, "best-fit") == [("x", "a", (0,)), ("y", "a", (0,)), ("z", "a", (1,))]
    assert places(jobs, "first") == [("x", "a", (0,)), ("y", "a", (0,)), ("z", "a", (1,))]
    assert places(jobs, "spread")[2] == ("z", "b", (0,))


def test_a_node_or_a_model_that_is_asked_for_is_given() -> None:
    """What no node can ever give is told apart from what waits."""
    jobs = [
        TraceJob("named", 0, 0, 9, node="c"),
        TraceJob("model", 0, 0, 9, models=("V100",)),
        TraceJob("large", 0, 0, 9, 5),
        TraceJob("lost", 0, 0, 9, node="nowhere"),
    ]
    found = place(_NODES, jobs, "best-fit")
    assert places(jobs, "best-fit") == [("named", "c", (0,)), ("model", "b", (0,))]
    assert [job.name for job in found.never] == ["large", "lost"]


def test_the_devices_of_the_trace_are_given() -> None:
    """A job waits for them although others are free; a device that the node does not have is never given."""
    jobs = [
        TraceJob("x", 0, 0, 9, node="b", indices=(2,)),
        TraceJob("y", 0, 1, 9, 2, node="b", indices=(1, 2)),
        TraceJob("z", 0, 2, 9, node="b", indices=(4,)),
    ]
    found = place(_NODES, jobs, "first")
    given = [(each.job.name, each.indices, each.start_seconds) for each in found.placed]
    assert given == [("x", (2,), 0), ("y", (1, 2), 9)]
    assert [job.name for job in found.never] == ["z"]


def test_a_job_without_a_place_waits_until_another_ends_and_keeps_its_length() -> None:
    """It starts when there is room; one with the same demand does not overtake it."""
    jobs = [
        TraceJob("first", 0, 0, 100, node="c"),
        TraceJob("second", 0, 10, 20, node="c"),
        TraceJob("third", 0, 11, 15, node="c"),
    ]
    found = place(_NODES, jobs, "first")
    assert [(each.job.name, each.start_seconds, each.end_seconds) for each in found.placed] == [
        ("first", 0, 100), ("second", 100, 110), ("third", 110, 114),
    ]  # fmt: skip
    assert [each.job.name for each in found.delayed] == ["second", "third"]


@pytest.mark.parametrize(
    ("order", "starts"),
    [
        ("trace", {"two": 13, "long": 17, "short": 17}), ("arrival", {"two": 11, "long": 5, "short": 10}),
        ("strict", {"two": 10, "long": 14, "short": 14}), ("shortest", {"two": 12, "long": 6, "short": 5}),
        ("smallest", {"two": 11, "long": 5, "short": 10}), ("largest", {"two": 11, "long": 5, "short": 10}),
    ],
)  # fmt: skip
def test_who_waits_starts_in_some_order(order: str, starts: dict[str, float]) -> None:
    """Two devices are free at 5 and at 10; only with strict nobody overtakes the job that wants both."""
    jobs = [
        TraceJob("first", 0, 0, 10),
        TraceJob("other", 0, 0, 5),
        TraceJob("two", 1, 13, 17, 2),
        TraceJob("long", 2, 14, 20),
        TraceJob("short", 3, 15, 16),
    ]
    found = place([TraceNode("n", "T4", 2)], jobs, "first", order)
    assert {each.job.name: each.start_seconds for each in found.placed if each.job.name in starts} == starts


_JOBS = st.lists(
    st.builds(
        lambda start, length, devices, share, models: TraceJob(
            "j", start, start, start + length, devices, share if devices == 1 else WHOLE, models=models
        ),
        st.integers(0, 30), st.integers(1, 30), st.integers(1, 5), st.sampled_from([WHOLE, 500, 300, 1]),
        st.sampled_from([(), ("T4",), ("V100",), ("T4", "V100"), ("X",)]),
    ),
    max_size=40,
)  # fmt: skip


@given(_JOBS, st.sampled_from(POLICIES), st.sampled_from(ORDERS))
def test_no_device_ever_gives_more_than_it_has(jobs: list[TraceJob], policy: str, order: str) -> None:
    """At each start, the shares of each device add up to one at most; every job is placed once, or never can be."""
    found = place(_NODES, jobs, policy, order)
    assert len(found.placed) + len(found.never) == len(jobs)
    for at in {each.start_seconds for each in found.placed}:
        used: dict[tuple[int, int], int] = defaultdict(int)
        for each in found.placed:
            if each.start_seconds <= at < each.end_seconds:
                for index in each.indices:
                    used[each.node, index] += each.job.share
        assert max(used.values()) <= WHOLE
    for each in found.placed:
        assert each.delay_seconds >= 0
        assert not each.job.models or _NODES[each.node].model in each.job.models
