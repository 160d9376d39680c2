"""The scale test: its steps, with backends that only count, and a frontend in memory."""

from __future__ import annotations

import math
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure

from fakedev.commands.scale_test import _parser, _plan, scale_test, with_two_dashes
from fakedev.queues.frontend_client import FrontendConnector
from fakedev.queues.job import Answer, Outcome
from fakedev.tester.driver import PlanDriver
from fakedev.tester.load_run import LoadTester
from fakedev.tester.plan import ClosedLoad, Plan
from fakedev.tester.scale_test import CannotScale, CountedBackends, ScaleSettings, ScaleTest
from fakedev.tester.scaling import scaling_of
from tests.support.deferreds import assert_no_result, failure_result_of, success_result_of

#: Binary fractions, as all times here: the clock meets each of them to the bit.
RUN_SECONDS = 0.5
STEP_SECONDS = 1 / 32
PLAN = Plan("sleep", "sleep", ClosedLoad(0, 64), "frontend")


class Servers:
    """Backends and the way to them: each runs one request at a time; together they do at most so many a second.

    :ivar count: how many there are.
    """

    can_start = True

    def __init__(self, clock: Clock, max_rate: float) -> None:
        self.count = 0
        self.ended = False
        self.lost = ""
        self.asker: Any = None
        self._clock = clock
        self._gap_seconds = 1 / max_rate
        self._free_at = 0.0
        self._calls: dict[int, Any] = {}

    def make(self, plan: Plan, asker: PlanDriver) -> Any:
        self.asker = asker
        return self

    async def become(self, count: int) -> None:
        self.count = count

    def check(self) -> None:
        if self.lost:
            raise CannotScale(self.lost)

    async def end(self) -> None:
        self.ended = True

    def start(self) -> None:
        """The frontend is there."""

    def stop(self) -> None:
        for call in self._calls.values():
            call.cancel()
        self._calls = {}

    def send(self, number: int) -> None:
        """Serve it, when the shared resource has room."""
        self._free_at = max(self._free_at + self._gap_seconds, self._clock.seconds() + RUN_SECONDS)
        self._calls[number] = self._clock.callLater(self._free_at - self._clock.seconds(), self._serve, number)

    def cancel_request(self, number: int) -> None:
        self._calls.pop(number).cancel()

    def _serve(self, number: int) -> None:
        del self._calls[number]
        self.asker.answered(number, Answer(Outcome.SUCCESS, 0, run_seconds=RUN_SECONDS))


class TestScaleTest:
    """Steps."""

    def begin(self, max_rate: float = math.inf) -> None:
        self.clock = Clock()
        self.servers = Servers(self.clock, max_rate)
        self.over: list[bool] = []
        self.told: list[str] = []
        tester = LoadTester([PLAN], self.servers.make, self.clock)
        settings = ScaleSettings(8, settle_seconds=2.0, measure_seconds=20.0)
        self.done: list[float] = []
        self.test = ScaleTest(
            tester, self.servers, settings, self.clock, lambda: self.over.append(True), self.told.append,
            self.done.append,
        )  # fmt: skip
        self.test.startService()

    def run_steps(self, seconds: float = 100.0) -> None:
        self.clock.pump([STEP_SECONDS] * int(seconds / STEP_SECONDS))

    def test_doubling_finds_the_straight_line(self) -> None:
        """1, 2, 4, 8 backends that share nothing: twice as much each time."""
        self.begin()
        self.run_steps()
        assert self.over == [True]
        assert [step.backends for step in self.test.steps] == [1, 2, 4, 8]
        assert [step.rate for step in self.test.steps] == [2.0, 4.0, 8.0, 16.0]
        scaling = scaling_of(self.test.steps)
        assert [doubling.speed_up for doubling in scaling.doublings] == [2.0, 2.0, 2.0]
        assert len(self.told) == 4
        assert self.done == pytest.approx([count / 40 for count in range(1, 41)])

    def test_a_shared_bottleneck_has_its_knee(self) -> None:
        """All that the shared resource lets through is what four backends do."""
        self.begin(max_rate=4 / RUN_SECONDS)
        self.run_steps()
        law = scaling_of(self.test.steps).law
        assert law is not None and law.knee_backends == pytest.approx(4.0, abs=1.5)

    def test_load_is_stopped_at_the_end(self) -> None:
        self.begin()
        self.run_steps()
        success_result_of(self.test.stop_all())
        assert self.servers.ended
        assert (self.test.problem, self.clock.getDelayedCalls()) == ("", [])

    def test_a_backend_that_ends_too_early(self) -> None:
        """Makes the measurement worthless: it is over, with the reason."""
        self.begin()
        self.servers.lost = "a backend has ended"
        self.run_steps()
        assert (self.test.problem, self.over, self.test.steps) == ("a backend has ended", [True], [])

    def test_stopping_it(self) -> None:
        """At once, with the backends; nothing is judged."""
        self.begin()
        self.run_steps(30.0)
        success_result_of(self.test.stop_all())
        assert (self.test.problem, self.over) == ("it was stopped", [])
        assert self.clock.getDelayedCalls() == []


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--most", "1"), "--most: '1' is no whole number from 2 to 1048576"),
        (("-per-backend", "0"), "--per-backend: '0' is no whole number from 1 to 1048576"),
        (("--start", "a", "--scale", "b"), "--start and --scale: give one of them"),
        (("-start", ""), "--start: must be a command"),
        (("-start", "'a"), "--start: No closing quotation"),
        (("-protocol", "xml"), "--protocol: invalid choice: 'xml' (choose from 'json', 'bare')"),
        (("--measure=0",), "--measure: must be above 0"),
        (("-wait", "-5"), "--wait: '-5' is negative"),
        (("--name", ""), "--name: must name a queue"),
        (("-meassure", "5"), "there is no option -meassure; did you mean --measure?"),
        (("-most",), "--most: expected one argument"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line that says what is wrong, and exit code 2."""
    with pytest.raises(SystemExit) as ended:
        scale_test(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"fakedev scale-test: {reason}; --help lists the options\n"


def test_one_dash_or_two() -> None:
    """Up to the first word that is no option; what follows belongs to the requests."""
    parser = _parser()
    for given in ("-name=a", "-name a", "--name=a", "--name a"):
        options = parser.parse_args(with_two_dashes([*given.split(), "-json", "0.5", "-name", "b"], parser))
        assert (options.name, options.json, options.words) == ("a", True, ["0.5", "-name", "b"])
    options = parser.parse_args(with_two_dashes(["--", "-devnames", "card7"], parser))
    assert _plan(options).arguments == ("-devnames", "card7")


class FakeStarter:
    """Starts nothing; records its calls."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.fault = ""

    async def become(self, count: int) -> None:
        self.told.append(f"become {count}")

    def check(self) -> None:
        if self.fault:
            raise CannotScale(self.fault)

    async def end(self) -> None:
        self.told.append("end")


class TestCounting:
    """Backends that the frontend is asked about."""

    def begin(self, count: int = 2) -> None:
        self.reactor = MemoryReactorClock()
        self.starter = FakeStarter()
        self.told: list[str] = []
        connector = FrontendConnector(self.reactor, path="/run/f.sock", shown="/run/f.sock")
        self.backends = CountedBackends(connector, "sleep", self.starter, self.reactor, 60.0, self.told.append)
        self.waiting = Deferred.fromCoroutine(self.backends.become(count))

    def answer(self, line: str) -> None:
        factory = self.reactor.unixClients.pop()[1]
        talk = factory.buildProtocol(None)
        transport = StringTransport()
        talk.makeConnection(transport)
        assert transport.value() == b'{"op": "stats", "queue": "sleep"}\n'
        for byte in line.encode():
            talk.dataReceived(bytes([byte]))
        talk.connectionLost(Failure(ConnectionDone()))

    def queue(self, idle: int, busy: int) -> str:
        return f'{{"ok":true,"queues":[{{"queue":"sleep","workers-idle":{idle},"workers-busy":{busy}}}]}}\n'

    def test_waiting_until_all_are_there(self) -> None:
        """Idle or busy; the starter is called first."""
        self.begin()
        self.answer(self.queue(0, 1))
        assert_no_result(self.waiting)
        self.reactor.advance(0.5)
        self.answer(self.queue(1, 1))
        success_result_of(self.waiting)
        assert (self.starter.told, self.told) == (["become 2"], ["waiting until there are backends: 1 of 2"])

    def test_not_for_ever(self) -> None:
        self.begin()
        for _ in range(123):
            if self.reactor.unixClients:
                self.answer(self.queue(3, 0))
            self.reactor.advance(0.5)
        reason = failure_result_of(self.waiting, CannotScale).value
        assert str(reason) == "after 60 s the frontend has 3 backends, not 2"

    def test_one_that_could_not_stay(self) -> None:
        """The test does not wait for a backend that has ended."""
        self.begin()
        self.starter.fault = "a backend has ended: exit code 2"
        self.answer(self.queue(0, 1))
        assert "exit code 2" in str(failure_result_of(self.waiting, CannotScale).value)

    def test_what_does_not_tell(self) -> None:
        """Silence, another program, an unknown queue."""
        for line, reason in (
            ("", "closed the connection"),
            ("HTTP/1.1 400 Bad Request\n", "does not report the number of backends"),
            ('{"ok":false,"error":{"code":"unknown-name"}}\n', "does not report the queue sleep"),
            ('{"ok":true,"queues":[]}\n', "does not report the number of backends"),
        ):
            self.begin()
            self.answer(line)
            assert reason in str(failure_result_of(self.waiting, CannotScale).value)

    def test_a_frontend_that_stands_still(self) -> None:
        """Is not waited for: the connection is cut."""
        self.begin()
        talk = self.reactor.unixClients.pop()[1].buildProtocol(None)
        transport = StringTransport()
        talk.makeConnection(transport)
        self.reactor.advance(10.0)
        assert "not answered for 10 s" in str(failure_result_of(self.waiting, CannotScale).value)
        assert transport.disconnected
