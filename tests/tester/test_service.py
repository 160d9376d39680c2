"""Load as a service: plans, their drivers, changes while they run. The frontend is a recorder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from twisted.internet.task import Clock

from fakedev.queues.job import Answer, Outcome, refusal
from fakedev.tester.driver import PlanDriver, lost
from fakedev.tester.load_run import LoadTester, UnknownPlan
from fakedev.tester.pacing import MAX_AT_ONCE
from fakedev.tester.plan import ClosedLoad, OpenLoad, Plan, constant
from tests.support.deferreds import assert_no_result, success_result_of

GOOD = Answer(Outcome.SUCCESS, 0, run_seconds=0.5, node="n", pod="p")
CLOSED = Plan("closed", "sleep", ClosedLoad(parallel=3, max_parallel=8), "localhost:9997")
OPEN = Plan("open", "train", OpenLoad(constant(10.0)), "localhost:9997")


class FakeRequests:
    """A way to a frontend that only notes what is asked.

    :ivar under_way: numbers of requests, in the order in which they were sent.
    """

    def __init__(self, plan: Plan, asker: PlanDriver) -> None:
        self.plan = plan
        self.asker = asker
        self.can_start = False
        self.under_way: list[int] = []
        self.taken_back: list[int] = []
        self.stopped = False
        self.refuses = False

    def start(self) -> None:
        self.come()

    def come(self) -> None:
        self.can_start = True
        self.asker.may_start()

    def go(self) -> None:
        self.can_start = False
        numbers, self.under_way = self.under_way, []
        for number in numbers:
            self.asker.answered(number, lost("gone"))

    def send(self, number: int) -> None:
        if self.refuses:
            self.asker.answered(number, refusal("full"))
        else:
            self.under_way.append(number)

    def cancel_request(self, number: int) -> None:
        self.under_way.remove(number)
        self.taken_back.append(number)

    def stop(self) -> None:
        self.stopped = True

    def answer(self, count: int = 1, answer: Answer = GOOD) -> None:
        """Answer the oldest requests."""
        for number in self.under_way[:count]:
            self.under_way.remove(number)
            self.asker.answered(number, answer)


class TestLoadTester:
    """The service."""

    def start(self, *plans: Plan, go: bool = True) -> FakeRequests:
        """Start the service; the way of the first plan."""
        self.clock = Clock()
        self.clock.advance(1000.0)
        self.ways: dict[str, FakeRequests] = {}
        self.tester = LoadTester(plans, self.make, self.clock)
        if go:
            self.tester.startService()
        return self.ways[plans[0].name]

    def make(self, plan: Plan, asker: PlanDriver) -> Any:
        self.ways[plan.name] = FakeRequests(plan, asker)
        return self.ways[plan.name]

    def test_the_closed_model_keeps_its_number_under_way(self) -> None:
        way = self.start(CLOSED)
        assert way.under_way == [1, 2, 3]
        self.clock.advance(0.5)
        way.answer(2)
        assert way.under_way == [3, 4, 5]
        assert (self.tester.total.successes, self.tester.total.outstanding) == (2, 3)

    def test_parallelism_changes_at_once(self) -> None:
        """Raised: more begin. Lowered: the youngest are taken back, which is no failure. Held to what is allowed."""
        way = self.start(CLOSED)
        assert self.tester.set_parallel(5) == 5
        assert way.under_way == [1, 2, 3, 4, 5]
        assert self.tester.set_parallel(2) == 2
        assert (way.under_way, way.taken_back) == ([1, 2], [5, 4, 3])
        assert (self.tester.total.withdrawn, self.tester.total.failed) == (3, 0)
        assert self.tester.set_parallel(99) == 8
        assert self.tester.set_parallel(-4) == 0
        assert way.under_way == []
        assert self.tester.total.pending == 0

    def test_thousands_begin_and_are_taken_back_in_parts(self) -> None:
        """In as many reactor turns as needed, so that nothing else waits; no time passes."""
        way = self.start(replace(CLOSED, load=ClosedLoad(1, 10_000)))
        self.tester.set_parallel(1000)
        assert len(way.under_way) == 1 + MAX_AT_ONCE
        self.clock.pump([0.0] * 30)
        assert len(way.under_way) == 1000
        self.tester.set_parallel(100)
        assert len(way.under_way) == 1000 - MAX_AT_ONCE
        way.answer(2)
        self.clock.pump([0.0] * 30)
        assert (len(way.under_way), way.under_way[-1]) == (100, 102)
        assert (self.tester.total.withdrawn, self.tester.total.successes) == (898, 2)

    def test_the_open_model_does_not_wait_for_answers(self) -> None:
        """Ten a second, none answered: ten after a second, at even times."""
        self.start(OPEN)
        for _ in range(100):
            self.clock.advance(0.01)
        assert len(self.ways["open"].under_way) == 10
        assert self.tester.total.late == 0

    def test_open_arrivals_wait_for_a_frontend(self) -> None:
        """They come late then, and their time counts from when they were meant."""
        way = self.start(OPEN)
        way.go()
        self.clock.advance(1.0)
        assert (way.under_way, self.tester.waiting) == ([], 10)
        way.come()
        assert self.tester.total.late == 10
        way.answer(10)
        assert self.tester.total.timings["total"].maximum == pytest.approx(0.95, rel=0, abs=5e-8)

    def test_a_frontend_that_goes_loses_what_was_under_way(self) -> None:
        """And nothing is started until it is back; places pause a moment after that."""
        way = self.start(CLOSED)
        way.go()
        assert self.tester.total.failures[Outcome.LOST] == 3
        self.clock.advance(60.0)
        assert way.under_way == []
        way.come()
        way.asker.reconnected()
        assert way.under_way == [4, 5, 6]
        assert self.tester.total.reconnects == 1

    def test_refusals_do_not_spin(self) -> None:
        """A frontend that refuses at once is asked ten times a second by each place, not endlessly."""
        self.start(CLOSED, go=False)
        self.ways["closed"].refuses = True
        self.tester.startService()
        for _ in range(100):
            self.clock.advance(0.01)
        assert self.tester.total.failures[Outcome.REFUSED] in range(27, 34)

    def test_plans_have_statistics_of_their_own(self) -> None:
        self.start(CLOSED, OPEN)
        self.clock.advance(0.15)
        self.ways["closed"].answer()
        self.ways["open"].answer(1, refusal("full"))
        found = [self.tester.statistics(name) for name in ("closed", "open", "")]
        assert [each.successes for each in found] == [1, 0, 1]
        assert [each.failed for each in found] == [0, 1, 1]
        assert found[2].started_count == found[0].started_count + found[1].started_count

    def test_which_plan_is_meant(self) -> None:
        """A name is needed only when the number of several plans can be set."""
        self.start(CLOSED, OPEN)
        assert self.tester.parallel() == 3
        for name, reason in (("other", "no plan 'other'; there is closed, open"), ("open", "of the open model")):
            with pytest.raises(UnknownPlan, match=reason):
                self.tester.parallel(name)
        with pytest.raises(UnknownPlan):
            self.tester.statistics("other")
        self.start(CLOSED, Plan("second", "q", ClosedLoad(), "f"))
        with pytest.raises(UnknownPlan, match="one of closed, second"):
            self.tester.set_parallel(1)
        self.start(OPEN)
        with pytest.raises(UnknownPlan, match="open model"):
            self.tester.parallel()

    def test_the_system_time_is_set_back(self) -> None:
        """The tester's time stops until it has caught up; nothing is negative."""
        self.start(CLOSED)
        self.clock.advance(5.0)
        assert self.tester.now == 1005.0
        self.clock.rightNow -= 100.0
        self.ways["closed"].answer(3)
        assert self.tester.now == 1005.0
        assert self.tester.total.timings["total"].maximum == 5.0
        assert sum(step.successes for _, step in self.tester.total.timeline.steps(self.tester.now)) == 3

    def test_the_end_of_a_run(self) -> None:
        """Halted, it starts nothing and is over with the last answer; what is not answered ends as cancelled."""
        way = self.start(CLOSED)
        self.tester.halt()
        over = self.tester.when_over()
        way.answer(2)
        assert_no_result(over)
        self.tester.end("not over in time")
        assert way.taken_back == [3]
        assert self.tester.total.failures[Outcome.CANCELLED] == 1
        assert dict(self.tester.total.errors.items())["not over in time"].value == 1
        self.start(CLOSED)
        self.tester.halt()
        over = self.tester.when_over()
        self.ways["closed"].answer(3)
        success_result_of(over)

    def test_arrivals_that_wait_at_the_end_are_dropped(self) -> None:
        """A frontend that never came back does not make them forgotten; what is due at the end still starts."""
        way = self.start(OPEN)
        way.can_start = False
        self.clock.pump([0.01] * 200)
        assert self.tester.waiting == 20
        self.tester.halt()
        assert (self.tester.waiting, self.tester.total.dropped) == (0, 20)
        self.start(OPEN)
        self.clock.rightNow += 0.06
        self.tester.halt()
        assert (self.tester.total.started_count, self.tester.total.dropped) == (1, 0)

    def test_a_trace_that_ends_is_over(self) -> None:
        """When all of its arrivals were answered, and not before."""
        self.start(Plan("trace", "q", OpenLoad(listed_seconds=(0.0, 0.5)), "f"))
        over = self.tester.when_over()
        self.ways["trace"].answer()
        assert_no_result(over)
        self.clock.advance(0.5)
        self.ways["trace"].answer()
        success_result_of(over)

    def test_stopping_does_not_wait(self) -> None:
        """Requests under way stay pending, and the time of the statistics stops."""
        self.start(CLOSED)
        self.clock.advance(4.0)
        self.tester.stopService()
        assert self.ways["closed"].stopped
        self.clock.advance(100.0)
        assert (self.tester.total.pending, self.tester.now) == (3, 1004.0)
        assert self.clock.getDelayedCalls() == []
