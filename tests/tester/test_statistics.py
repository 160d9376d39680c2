"""The statistics of the tester: numbers that add up, and that are right for loads with a known distribution."""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.queues.job import Answer, Outcome
from fakedev.tester.pacing import ClosedPacer, OpenPacer
from fakedev.tester.plan import ClosedLoad, OpenLoad, Spacing, constant
from fakedev.tester.statistics import MAX_STEPS, OTHERS, ByName, Count, Statistics, Ticket, Timeline, kept_text

GOOD = Answer(Outcome.SUCCESS, 0, run_seconds=0.5, wait_seconds=0.25, node="n", pod="p", device="card0")


def bad(outcome: Outcome = Outcome.FAILURE, error: str = "no such file") -> Answer:
    return replace(GOOD, outcome=outcome, exit_code=1, error=error)


def test_the_parts_of_a_request_add_up() -> None:
    """late + communication + wait + run is total, from the intended start on."""
    statistics = Statistics(0.0)
    ticket = statistics.started(10.0, 12.0)
    statistics.answered(ticket, GOOD, 13.0)
    means = {part: histogram.mean for part, histogram in statistics.timings.items()}
    assert means == {"late": 2.0, "wait": 0.25, "run": 0.5, "communication": 0.25, "total": 3.0}
    assert statistics.late == 1


def test_times_are_of_requests_that_ran() -> None:
    """A refusal that comes at once would make everything look fast."""
    statistics = Statistics(0.0)
    for outcome in (Outcome.REFUSED, Outcome.CANCELLED, Outcome.LOST):
        statistics.answered(statistics.started(0.0, 0.0), bad(outcome), 0.001)
    assert statistics.timings["total"].count == 0
    statistics.answered(statistics.started(0.0, 0.0), bad(Outcome.TIMEOUT), 9.0)
    assert statistics.timings["total"].maximum == 9.0


def test_rates_are_of_successes() -> None:
    """Over the run from the first request on, as the original's; and over the last ten seconds."""
    statistics = Statistics(0.0)
    assert statistics.rate(5.0) == 0.0
    for second in range(100, 160):
        statistics.answered(statistics.started(second, second), GOOD, second + 0.5)
        statistics.answered(statistics.started(second, second), bad(), second + 0.5)
    assert statistics.rate(160.0) == pytest.approx(60 / 60)
    assert statistics.rate(200.0) == pytest.approx(60 / 100)
    assert statistics.rate_now(160.0) == pytest.approx(1.0)
    assert statistics.rate_now(165.0) == pytest.approx(0.5)
    assert statistics.rate_now(200.0) == 0.0


def test_nodes_devices_and_pods_are_told_apart() -> None:
    """A device belongs to its node; a node knows how its answers spread."""
    statistics = Statistics(0.0)
    for node, device, answer in (("a", "card0", GOOD), ("b", "card0", GOOD), ("b", "card1", bad())):
        ticket = statistics.started(0.0, 0.0)
        statistics.answered(ticket, replace(answer, node=node, device=device), 1.0)
    assert {name: tally.answers for name, tally in statistics.nodes.items()} == {"a": 1, "b": 2}
    assert {name: tally.failures for name, tally in statistics.devices.items()} == {
        "a/card0": 0, "b/card0": 0, "b/card1": 1,
    }  # fmt: skip
    assert dict(statistics.pods.items())["p"].run.count == 3
    assert [name for name, _ in statistics.nodes["b"].devices.items()] == ["card0", "card1"]
    assert statistics.nodes["b"].last_error == "no such file"


def test_error_texts_are_bounded() -> None:
    """In number and length; what is beyond is still counted."""
    statistics = Statistics(0.0)
    for number in range(1000):
        statistics.answered(statistics.started(0.0, 0.0), bad(error=f"{number} " + "x" * 5000), 1.0)
    errors = list(statistics.errors.items())
    assert len(errors) == 101
    assert errors[-1][0] == "(others)" and errors[-1][1].value == 900
    assert max(len(text) for text, _ in errors) < 210


def test_names_are_one_line_of_printable_text() -> None:
    """A pod cannot steer somebody's terminal; and no name can pass for the entry of all others."""
    assert kept_text("a\x1b[2Jb\nc") == r"a\x1b[2Jb\nc"
    names = ByName(Count, 1)
    names[OTHERS].value += 1
    names["second"].value += 1
    assert [name for name, _ in names.items()] == [r"(others)\n", "(others)"]


def test_a_reset_under_load_never_shows_too_many_or_too_few() -> None:
    """What was under way at the reset is outstanding till it ends, and counts nowhere else."""
    statistics = Statistics(0.0)
    before = [statistics.started(0.0, 0.0) for _ in range(3)]
    statistics.reset(1.0)
    assert (statistics.outstanding, statistics.pending) == (3, 0)
    after = statistics.started(2.0, 2.0)
    for ticket in before[:2]:
        statistics.answered(ticket, GOOD, 3.0)
    statistics.withdraw(before[2])
    assert (statistics.outstanding, statistics.pending, statistics.completed, statistics.withdrawn) == (1, 1, 0, 0)
    statistics.answered(after, GOOD, 4.0)
    assert (statistics.outstanding, statistics.pending, statistics.successes) == (0, 0, 1)
    assert statistics.timings["total"].count == 1


@given(st.lists(st.tuples(st.sampled_from(["start", "good", "withdraw", "reset", *Outcome]), st.integers(0, 99))))
def test_the_numbers_always_add_up(acts: list[tuple[object, int]]) -> None:
    """In any order of starts, ends of all kinds, withdrawals and resets."""
    statistics, tickets, now = Statistics(0.0), list[Ticket](), 0.0
    for act, number in acts:
        now += number / 10
        if act == "start":
            tickets.append(statistics.started(now - number / 100, now))
        elif act == "reset":
            statistics.reset(now)
        elif tickets:
            ticket = tickets.pop(number % len(tickets))
            if act == "withdraw":
                statistics.withdraw(ticket)
            else:
                answer = bad(act) if isinstance(act, Outcome) and act is not Outcome.SUCCESS else GOOD
                statistics.answered(ticket, answer, now)
        assert statistics.outstanding == len(tickets)
        assert 0 <= statistics.pending <= statistics.outstanding
        assert statistics.started_count == statistics.completed + statistics.withdrawn + statistics.pending
        steps = [step for _, step in statistics.timeline.steps(now)]
        assert sum(step.started for step in steps) == statistics.started_count
        assert sum(step.successes + step.failures for step in steps) == statistics.completed
        assert sum(tally.answers for _, tally in statistics.nodes.items()) == statistics.completed


def test_the_timeline_stays_small_and_loses_nothing() -> None:
    """A day at one a second: at most 240 steps, and every event in one of them."""
    timeline = Timeline(0.0)
    for second in range(86_400):
        timeline.at(second).successes += 1
    steps = list(timeline.steps(86_399.0))
    assert len(steps) <= MAX_STEPS
    assert sum(step.successes for _, step in steps) == 86_400
    assert {step.successes for _, step in steps[:-1]} == {timeline.step_seconds}


class FakeQueue:
    """Servers in a row: a request is served for a known time as soon as one is free, first come first served."""

    def __init__(self, servers: int) -> None:
        self._free_at = [0.0] * servers

    def serve(self, now: float, run_seconds: float) -> tuple[float, float]:
        """When it is over, and how long it waits."""
        begin = max(now, heapq.heappop(self._free_at))
        heapq.heappush(self._free_at, begin + run_seconds)
        return begin + run_seconds, begin - now

    def stand_still(self, until: float) -> None:
        """No server does anything before this time."""
        self._free_at = [max(until, each) for each in self._free_at]


def drive(
    pacer: ClosedPacer | OpenPacer, queue: FakeQueue, runs: list[float], stall: float | None = None
) -> Statistics:
    """Run as many requests as there are run times; ``stall``: when the queue stops for ten seconds."""
    statistics = Statistics(0.0)
    under_way: list[tuple[float, int, Ticket, Answer]] = []
    now, number = 0.0, 0
    while number < len(runs) or under_way:
        if stall is not None and now >= stall:
            queue.stand_still(now + 10.0)
            stall = None
        if number < len(runs):
            for intended in pacer.due(now, len(under_way), True)[: len(runs) - number]:
                ticket = statistics.started(intended, now)
                ended, wait = queue.serve(now, runs[number])
                answer = replace(GOOD, run_seconds=runs[number], wait_seconds=wait)
                heapq.heappush(under_way, (ended, number, ticket, answer))
                number += 1
        moments = [under_way[0][0]] if under_way else []
        following = pacer.next_due(now, len(under_way)) if number < len(runs) else None
        now = min([*moments, *([following] if following is not None else [])])
        while under_way and under_way[0][0] <= now:
            ended, _, ticket, answer = heapq.heappop(under_way)
            statistics.answered(ticket, answer, ended)
            pacer.ended(now, False)
    return statistics


def test_closed_load_of_known_times() -> None:
    """Four clients at two servers of one second: each waits one second for each that it is served."""
    statistics = drive(ClosedPacer(ClosedLoad(parallel=4)), FakeQueue(2), [1.0] * 400)
    assert statistics.timings["total"].quantile(0.5) == pytest.approx(2.0, rel=0.005)
    assert statistics.timings["wait"].quantile(0.9) == pytest.approx(1.0, rel=0.005)
    assert statistics.timings["run"].minimum == statistics.timings["run"].maximum == 1.0
    assert statistics.timings["late"].maximum == 0.0
    assert statistics.rate(200.0) == pytest.approx(2.0)


@pytest.mark.slow
def test_run_times_of_a_known_distribution() -> None:
    """Exponential run times of mean 1 s with a server for everybody: quantiles are -log(1 - share)."""
    chance = random.Random(1)
    runs = [chance.expovariate(1.0) for _ in range(20_000)]
    statistics = drive(ClosedPacer(ClosedLoad(parallel=8)), FakeQueue(8), runs)
    for share in (0.5, 0.9, 0.99):
        assert statistics.timings["total"].quantile(share) == pytest.approx(-math.log(1 - share), rel=0.07)


@pytest.mark.slow
def test_open_poisson_load_is_the_queue_of_the_books() -> None:
    """Poisson arrivals at one server of exponential times (M/M/1): total is exponential of mean 1 / (mu - lambda)."""
    chance = random.Random(2)
    runs = [chance.expovariate(10.0) for _ in range(40_000)]
    load = OpenLoad(constant(5.0), spacing=Spacing.POISSON, seed=3)
    total = drive(OpenPacer(load, "a", 0.0), FakeQueue(1), runs).timings["total"]
    assert total.mean == pytest.approx(1 / (10 - 5), rel=0.06)
    assert total.quantile(0.9) == pytest.approx(math.log(10) / 5, rel=0.06)


def test_open_load_at_half_of_what_is_served_never_waits() -> None:
    """Even arrivals at a server of constant times: no request waits, none is late."""
    statistics = drive(OpenPacer(OpenLoad(constant(5.0)), "a", 0.0), FakeQueue(1), [0.1] * 500)
    assert statistics.timings["total"].maximum == pytest.approx(0.1)
    assert statistics.late == 0


def test_a_standstill_is_charged_for_all_that_it_kept_waiting() -> None:
    """Coordinated omission: ten seconds of standstill in a hundred. In the open model a tenth of all requests was to
    begin in them, so that p95 is 5 s; a closed tester makes one request in that time and sees nothing at p99."""
    runs = [0.001] * 1000
    open_total = drive(OpenPacer(OpenLoad(constant(10.0)), "a", 0.0), FakeQueue(1), runs, stall=50.0).timings["total"]
    assert open_total.quantile(0.95) == pytest.approx(5.0, abs=0.3)
    assert open_total.quantile(0.89) < 0.1
    closed = ClosedPacer(ClosedLoad(parallel=1, delay_seconds=0.099))
    closed_total = drive(closed, FakeQueue(1), runs, stall=50.0).timings["total"]
    assert closed_total.quantile(0.99) < 0.1
    assert closed_total.maximum == pytest.approx(10.0, abs=0.2)


def test_the_standstill_is_charged_also_when_few_may_be_under_way() -> None:
    """With one request at a time the others wait inside the tester: they are late, and total says so all the same."""
    load = OpenLoad(constant(10.0), max_outstanding=1)
    statistics = drive(OpenPacer(load, "a", 0.0), FakeQueue(1), [0.001] * 1000, stall=50.0)
    assert statistics.timings["total"].quantile(0.95) == pytest.approx(5.0, abs=0.3)
    assert statistics.timings["wait"].quantile(0.99) < 0.1
    assert statistics.late == pytest.approx(100, abs=5)
