"""Both ways to speak with a frontend: many requests on one connection, and a connection for each."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from zope.interface.verify import verifyObject

from fakedev.queues.backend import FrontendLost
from fakedev.queues.bare import BareResult
from fakedev.queues.job import Answer, Outcome
from fakedev.tester.driver import IRequests
from fakedev.tester.plan import ClosedLoad, Plan
from fakedev.tester.requests import BareRequests, LineRequests, answer_of

PLAN = Plan("p", "sleep", ClosedLoad(), "localhost:9997", ("0.5",), 2.5)


class Wire(StringTransport):  # type: ignore[misc]
    """A connection to the frontend."""

    def __init__(self, protocol: Any) -> None:
        super().__init__()
        self._protocol = protocol

    def sent(self) -> bytes:
        """What was sent since this was asked last."""
        sent: bytes = self.value()
        self.clear()
        return sent

    def lose(self) -> None:
        if self.connected:
            self.connected = False
            self._protocol.connectionLost(Failure(ConnectionDone()))

    def loseConnection(self) -> None:
        self.lose()

    def abortConnection(self) -> None:
        self.disconnected = True
        self.lose()


class FakeConnector:
    """Connects in memory.

    :ivar wires: all connections, the last one last.
    :ivar is_there: whether the frontend takes connections.
    """

    shown = "frontend"

    def __init__(self) -> None:
        self.wires: list[Wire] = []
        self.protocols: list[Any] = []
        self.is_there = True
        self.is_slow = False
        self.waiting: list[Deferred[None]] = []

    async def connect(self, make: Callable[[], Any]) -> Any:
        if self.is_slow:
            self.waiting.append(Deferred())
            await self.waiting[-1]
        if not self.is_there:
            raise FrontendLost("cannot connect")
        protocol = make()
        wire = Wire(protocol)
        protocol.makeConnection(wire)
        self.wires.append(wire)
        self.protocols.append(protocol)
        return protocol


class Recorder:
    """An asker that records the answers."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def answered(self, number: int, answer: Answer) -> None:
        self.told.append((number, answer))

    def may_start(self) -> None:
        self.told.append("may start")

    def reconnected(self) -> None:
        self.told.append("reconnected")

    def heard(self) -> list[Any]:
        """The answers since the last call."""
        told, self.told = self.told, []
        return told


class Way:
    """A way to speak with a frontend, which has begun."""

    make: Callable[..., Any]

    def setup_method(self) -> None:
        self.clock, self.connector, self.asker = Clock(), FakeConnector(), Recorder()
        self.way = self.started()
        assert verifyObject(IRequests, self.way)
        assert self.asker.heard() == ["may start"]

    def started(self) -> Any:
        way = self.make(PLAN, self.connector, self.asker, self.clock)
        way.start()
        return way


class TestLine(Way):
    """JSON lines."""

    make = LineRequests

    def say(self, **fields: object) -> None:
        self.connector.protocols[-1].dataReceived(json.dumps(fields).encode() + b"\n")

    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.connector.wires[-1].sent().splitlines()]

    def test_a_request_and_its_end(self) -> None:
        """Put, accepted, ended: the answer has all that the frontend sent."""
        self.way.send(7)
        assert self.lines() == [
            {"op": "put", "id": 7, "queue": "sleep", "args": ["0.5"], "answer": "accepted", "limit": 2.5}
        ]
        self.say(id=7, ok=True, job=41)
        self.say(
            event="ended", job=41, outcome="failure", **{"exit-code": 3}, error="why", pod="a", node="b", device="c",
            **{"run-seconds": 0.5, "wait-seconds": 0.25, "timeout-seconds": 0},
        )  # fmt: skip
        answer = Answer(Outcome.FAILURE, 3, "why", 0.0, 0.5, 0.25, "a", "b", "c")
        assert self.asker.heard() == [(7, answer)]

    def test_answers_in_any_pieces(self) -> None:
        self.way.send(1)
        text = b'{"id":1,"ok":true,"job":5}\n{"event":"ended","job":5,"outcome":"success","exit-code":0}\n'
        for place in range(len(text)):
            self.connector.protocols[-1].dataReceived(text[place : place + 1])
        assert self.asker.heard() == [(1, Answer(Outcome.SUCCESS, 0))]

    def test_a_refusal(self) -> None:
        self.way.send(1)
        self.say(id=1, ok=False, error={"code": "full", "message": "the queue is full"})
        ((number, answer),) = self.asker.heard()
        assert (number, answer.outcome, answer.error) == (1, Outcome.REFUSED, "full: the queue is full")

    def test_taking_back(self) -> None:
        """Cancels by the job's number, immediately or as soon as it is known; nothing more is reported of it."""
        for number in (1, 2):
            self.way.send(number)
        self.say(id=1, ok=True, job=11)
        self.lines()
        self.way.cancel_request(1)
        assert self.lines() == [{"op": "cancel", "job": 11}]
        self.way.cancel_request(2)
        assert self.lines() == []
        self.say(id=2, ok=True, job=12)
        assert self.lines() == [{"op": "cancel", "job": 12}]
        self.say(event="ended", job=11, outcome="cancelled")
        self.say(ok=True)
        self.say(event="ended", job=12, outcome="success")
        self.say(ok=False, error={"code": "unknown-name", "message": "no such job"})
        assert self.asker.heard() == []

    def test_a_frontend_that_restarts(self) -> None:
        """What was under way is lost; the connection is tried again, less and less often, and counted."""
        self.way.send(1)
        self.connector.is_there = False
        self.connector.wires[-1].lose()
        ((number, answer),) = self.asker.heard()
        assert (number, answer.outcome) == (1, Outcome.LOST)
        assert not self.way.can_start
        for seconds in (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0):
            self.clock.advance(seconds - 0.01)
            assert len(self.clock.getDelayedCalls()) == 1
            self.clock.advance(0.011)
        self.connector.is_there = True
        self.clock.advance(5.0)
        assert self.asker.heard() == ["reconnected", "may start"]
        self.way.send(2)
        assert len(self.lines()) == 1

    def test_a_frontend_that_comes_late(self) -> None:
        self.connector.is_there = False
        way = self.started()
        assert (self.asker.heard(), way.can_start) == ([], False)
        self.connector.is_there = True
        self.clock.advance(0.1)
        assert self.asker.heard() == ["reconnected", "may start"]

    def test_a_frontend_that_does_not_read(self) -> None:
        """Nothing more is started than what its buffer holds."""
        self.connector.protocols[-1].pauseProducing()
        assert not self.way.can_start
        self.connector.protocols[-1].resumeProducing()
        assert (self.way.can_start, self.asker.heard()) == (True, ["may start"])

    def test_what_is_no_frontend(self) -> None:
        """Costs the connection; the request is lost, with the reason."""
        for text, reason in (
            (b"HTTP/1.1 400 Bad Request\n", "does not speak JSON lines"),
            (b"error busy too many connections\n", "refuses the connection: busy: too many connections"),
            (b'{"event":"ended","job":"x"}\n', "does not speak JSON lines"),
            (b"x" * (1 << 21), "longer than"),
        ):
            self.way.send(1)
            self.connector.protocols[-1].dataReceived(text)
            ((_, answer),) = self.asker.heard()
            assert reason in answer.error
            self.clock.advance(5.0)
            self.asker.heard()

    def test_an_unknown_outcome(self) -> None:
        """Of a frontend that is newer than this program."""
        self.way.send(1)
        self.say(id=1, ok=True, job=5)
        self.say(event="ended", job=5, outcome="vanished")
        ((_, answer),) = self.asker.heard()
        assert answer.outcome == Outcome.LOST

    def test_stopping(self) -> None:
        """Closes at once, also while it connects or waits to; nothing is reported."""
        self.way.send(1)
        self.way.stop()
        assert self.connector.wires[-1].disconnected
        self.connector.is_slow = True
        for is_there in (True, False):
            way = self.started()
            if not is_there:
                self.connector.is_there = False
                self.connector.waiting[-1].callback(None)
            way.stop()
        assert (self.asker.heard(), self.clock.getDelayedCalls()) == ([], [])


ANSWER = b'{\n\t"Pod": "a",\n\t"Node": "b",\n\t"Device": "c",\n\t"Error": "",\n\t"Timeout": 0,\n\t"Runtime": 0.5,\n'
ANSWER += b'\t"Waittime": 0.25,\n\t"Retcode": 0\n}'
REQUEST = b'{\n\t"Queue": "sleep",\n\t"Args": [\n\t\t"0.5"\n\t],\n\t"Limit": 2.5\n}'


class TestBare(Way):
    """Bare JSON."""

    make = BareRequests

    def test_the_bytes_of_the_original(self) -> None:
        """Request and answer as captured, in pieces of one byte; then the connection is closed."""
        self.way.send(1)
        assert self.connector.wires[-1].sent() == REQUEST
        for place in range(len(ANSWER)):
            self.connector.protocols[-1].dataReceived(ANSWER[place : place + 1])
        answer = Answer(Outcome.SUCCESS, 0, "", 0.0, 0.5, 0.25, "a", "b", "c")
        assert self.asker.heard() == [(1, answer)]
        assert not self.connector.wires[-1].connected

    def test_no_connection_stays_silent(self) -> None:
        """The one that was made to look for the frontend is used at once or closed: the original would wait for it."""
        assert [wire.connected for wire in self.connector.wires] == [False]

    def test_a_connection_for_each(self) -> None:
        """Two requests, two connections, answered in any order."""
        self.way.send(1)
        self.way.send(2)
        first, second = self.connector.protocols[-2:]
        second.dataReceived(ANSWER)
        first.dataReceived(ANSWER)
        assert [number for number, _ in self.asker.heard()] == [2, 1]

    def test_a_frontend_that_goes(self) -> None:
        """Requests under way are lost, and so is one without a frontend; then it connects again."""
        self.way.send(1)
        self.connector.wires[-1].lose()
        self.connector.is_there = False
        self.way.send(2)
        assert [answer.outcome for _, answer in self.asker.heard()] == [Outcome.LOST] * 2
        assert not self.way.can_start
        self.clock.advance(0.1)
        self.connector.is_there = True
        self.clock.advance(0.2)
        assert self.asker.heard() == ["reconnected", "may start"]
        assert self.way.can_start

    def test_taking_back(self) -> None:
        """Closes the connection, also one that is being made; nothing is reported."""
        self.way.send(1)
        self.way.cancel_request(1)
        assert self.connector.wires[-1].disconnected
        self.connector.is_slow = True
        self.way.send(2)
        self.way.cancel_request(2)
        assert self.asker.heard() == []

    def test_what_is_no_frontend(self) -> None:
        """The outcome and the reason say what it is."""
        for text, outcome, reason in (
            (b"error busy too many connections\n", Outcome.REFUSED, "busy"),
            (b"HTTP/1.1 400 Bad Request\n", Outcome.LOST, "not an answer of a queue's frontend"),
            (b'{"Pod": 5}', Outcome.LOST, "Pod"),
        ):
            self.way.send(1)
            self.connector.protocols[-1].dataReceived(text)
            ((_, answer),) = self.asker.heard()
            assert answer.outcome == outcome
            assert reason in answer.error

    def test_stopping(self) -> None:
        """Closes all at once; nothing is reported."""
        self.way.send(1)
        self.connector.is_slow = True
        self.way.send(2)
        self.way.stop()
        assert (self.asker.heard(), self.clock.getDelayedCalls()) == ([], [])


class TestBareOutcome:
    """What a bare answer means."""

    def test_kinds(self) -> None:
        """Its frontend names no outcome: it follows from the fields."""
        ran = BareResult(pod="a", run_seconds=0.5, wait_seconds=0.1)
        for result, outcome in (
            (ran, Outcome.SUCCESS),
            (ran._replace(exit_code=2), Outcome.FAILURE),
            (ran._replace(error="no such file"), Outcome.FAILURE),
            (ran._replace(timeout_seconds=2.5, exit_code=1), Outcome.TIMEOUT),
            (BareResult(error="Unknown 'nope' queue", exit_code=1), Outcome.REFUSED),
            (BareResult(error="the backend left", exit_code=1, wait_seconds=0.1), Outcome.LOST),
        ):
            assert answer_of(result).outcome == outcome
