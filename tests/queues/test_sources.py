"""How backends talk to frontends: the bare and the line way, against a frontend made of bytes."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost, ConnectionRefusedError

from fakedev.queues.backend import SHUTDOWN_SECONDS, FrontendLost, FrontendRefused, JobSource, TakenJob
from fakedev.queues.backend_wire import BareSource, LinesSource
from fakedev.queues.frontend_client import FrontendConnector
from fakedev.queues.job import Report
from tests.support.deferreds import assert_no_result, failure_result_of, success_result_of
from tests.support.programs.original_tester import to_go, work
from tests.support.queues.backend_stubs import FrontendReactor, FrontendWire

ASK = b'{\n\t"Queue": "sleep"\n}'
GOOD = Report(0, "", run_seconds=0.5)
BAD = Report(3, "it failed", run_seconds=0.5)
LATE = Report(124, "it took too long", 2.5, 2.75)


class Names:
    """Where the backend runs."""

    device = ""

    def __call__(self) -> dict[str, str]:
        return {"pod": "p", "node": "n", "device": self.device}


class TalkCase:
    """A source of jobs, and the reactor that it connects with."""

    def setup_method(self) -> None:
        self.reactor = FrontendReactor()
        self.names = Names()
        self.connector = FrontendConnector(self.reactor, host="127.0.0.1", port=9999)
        self.source = self.make_source()

    def make_source(self) -> JobSource:
        raise NotImplementedError

    def take(self, idle_seconds: float = 0.0) -> Deferred[TakenJob | None]:
        return Deferred.fromCoroutine(self.source.take(idle_seconds))

    def finish(self, job: TakenJob, report: Report) -> Deferred[None]:
        return Deferred.fromCoroutine(self.source.finish(job, report))

    def fault(self, asked: Deferred[Any], kind: type[Exception]) -> str:
        return str(failure_result_of(asked, kind).value)


class TestBareSource(TalkCase):
    """As the original programs speak: to the byte."""

    def make_source(self) -> BareSource:
        return BareSource(self.connector, "sleep", self.names, self.reactor)

    def taken(self) -> tuple[TakenJob, FrontendWire]:
        asked = self.take()
        wire = self.reactor.accept()
        wire.say(work(["0.1"], 2.5))
        job = success_result_of(asked)
        assert job is not None
        return job, wire

    def test_question_and_result_are_one_write_each(self) -> None:
        """The original frontend reads once for each, and at most 1024 bytes."""
        for report, device, result in (
            (
                GOOD, "",
                {"Pod": "p", "Node": "n", "Device": "", "Error": "", "Timeout": 0, "Runtime": 0.5, "Retcode": 0},
            ),
            (
                LATE, "card0",
                {"Pod": "p", "Node": "n", "Device": "card0", "Error": "it took too long", "Timeout": 2.5,
                 "Runtime": 2.75, "Retcode": 124},
            ),
        ):  # fmt: skip
            self.names.device = device
            job, wire = self.taken()
            assert (job.arguments, job.limit_seconds) == (("0.1",), 2.5)
            assert wire.writes == [ASK]
            success_result_of(self.finish(job, report))
            assert wire.writes[1:] == [to_go(result)]
            assert wire.lost
            assert job.withdrawn == ""

    def test_answers_without_work(self) -> None:
        for answer, kind, part in (
            (work(None, error="Queue 'sleep' is empty", empty=True), None, ""),
            (work(None, error="Unknown 'sleep' queue"), FrontendRefused, "Unknown 'sleep' queue"),
            (b"error busy too many connections\n", FrontendLost, "too many connections"),
            (b"HTTP/1.1 400 Bad Request\r\n\r\n", FrontendRefused, "not an answer of a queue's frontend"),
            (b'{"Args": 1}', FrontendRefused, "Args"),
        ):
            asked = self.take()
            wire = self.reactor.accept()
            wire.say(answer)
            assert wire.lost, answer
            if kind is None:
                assert success_result_of(asked) is None
            else:
                assert part in self.fault(asked, kind)

    def test_a_frontend_that_is_not_there(self) -> None:
        asked = self.take()
        self.reactor.refuse(ConnectionRefusedError(111))
        assert "127.0.0.1:9999: no program listens there" in self.fault(asked, FrontendLost)
        for part in (b"", work(["1"])[:20]):
            asked = self.take()
            wire = self.reactor.accept()
            wire.say(part)
            wire.end(ConnectionLost())
            assert "without an answer" in self.fault(asked, FrontendLost)

    def test_a_frontend_that_leaves_during_a_run(self) -> None:
        job, wire = self.taken()
        told: list[str] = []
        job.watch(lambda: told.append("withdrawn"))
        wire.end()
        assert told == ["withdrawn"]
        self.fault(self.finish(job, GOOD), FrontendLost)

    def test_a_job_cannot_be_given_back(self) -> None:
        job, wire = self.taken()
        success_result_of(Deferred.fromCoroutine(self.source.give_back(job, "the backend ends", 2.5)))
        result = json.loads(wire.writes[1])
        assert (result["Error"], result["Retcode"], result["Runtime"]) == ("the backend ends", 1, 2.5)

    def test_leaving_in_the_middle_of_an_answer(self) -> None:
        """A frontend that hangs is waited for only a moment, at every point where it hangs."""
        for part in (None, b"", work(["1"])[:20]):
            self.source = self.make_source()
            asked = self.take()
            if part is not None:
                wire = self.reactor.accept()
                wire.say(part)
            self.source.leave()
            assert_no_result(asked)
            self.reactor.advance(SHUTDOWN_SECONDS)
            assert success_result_of(asked) is None
            assert part is None or wire.lost

    def test_an_answer_that_comes_while_leaving(self) -> None:
        asked = self.take()
        wire = self.reactor.accept()
        self.source.leave()
        wire.say(work(["1"]))
        job = success_result_of(asked)
        assert job is not None
        self.reactor.advance(10)
        success_result_of(self.finish(job, GOOD))
        assert len(wire.writes) == 2

    def test_cut(self) -> None:
        asked = self.take()
        wire = self.reactor.accept()
        self.source.cut()
        assert success_result_of(asked) is None
        assert wire.lost
        _job, wire = self.taken()
        self.source.cut()
        assert wire.lost


class TestLinesSource(TalkCase):
    """With fakedev's frontend: one connection, which waits."""

    def make_source(self) -> LinesSource:
        return LinesSource(self.connector, "sleep", self.names, self.reactor)

    def heard(self, wire: FrontendWire) -> list[dict[str, Any]]:
        said = [json.loads(line) for line in b"".join(wire.writes).splitlines()]
        wire.writes.clear()
        return said

    def answer(self, wire: FrontendWire, number: int, **fields: object) -> None:
        wire.say(json.dumps({"id": number, "ok": True, **fields}).encode() + b"\n")

    def taken(self, job_id: int = 7) -> tuple[TakenJob, FrontendWire]:
        asked = self.take()
        wire = self.reactor.accept()
        last = self.heard(wire)[-1]
        assert last["op"] == "take"
        self.answer(wire, last["id"], jobs=[{"job": job_id, "args": ["0.1"], "limit-seconds": 2.5}])
        job = success_result_of(asked)
        assert job is not None
        return job, wire

    def test_a_conversation(self) -> None:
        """Its identity, its request and its result; then the same connection is used again."""
        asked = self.take(2.5)
        wire = self.reactor.accept()
        hello = {"op": "hello", "id": 1, "pod": "p", "node": "n", "device": ""}
        assert self.heard(wire) == [hello, {"op": "take", "id": 2, "queue": "sleep", "wait": 2.5}]
        self.answer(wire, 1)
        self.answer(wire, 2, jobs=[{"job": 7, "queue": "sleep", "args": ["0.1"], "limit-seconds": 2.5}])
        job = success_result_of(asked)
        assert job is not None
        assert (job.arguments, job.limit_seconds) == (("0.1",), 2.5)
        finished = self.finish(job, GOOD)
        assert self.heard(wire) == [{"op": "done", "id": 3, "job": 7, "exit-code": 0, "run": 0.5}]
        assert_no_result(finished)
        self.answer(wire, 3, outcome="success")
        success_result_of(finished)
        asked = self.take()
        assert self.heard(wire) == [{"op": "take", "id": 4, "queue": "sleep", "wait": 0.0}]
        self.answer(wire, 4, jobs=[])
        assert success_result_of(asked) is None
        assert not wire.lost

    def test_other_ends_of_a_job(self) -> None:
        for report, expected in (
            (BAD, {"op": "fail", "exit-code": 3, "run": 0.5, "reason": "it failed"}),
            (LATE, {"op": "fail", "exit-code": 124, "run": 2.75, "timeout": 2.5, "reason": "it took too long"}),
            (None, {"op": "release"}),
        ):
            self.source = self.make_source()
            job, wire = self.taken()
            if report is None:
                told = Deferred.fromCoroutine(self.source.give_back(job, "the backend ends"))
            else:
                told = self.finish(job, report)
            assert self.heard(wire) == [{"id": 3, "job": 7, **expected}]
            self.answer(wire, 3)
            success_result_of(told)

    def test_the_device_is_told_when_it_is_found(self) -> None:
        job, wire = self.taken()
        self.names.device = "card0"
        self.finish(job, GOOD)
        self.answer(wire, 3)
        self.heard(wire)
        self.take()
        assert [(said["op"], said.get("device")) for said in self.heard(wire)] == [("hello", "card0"), ("take", None)]

    def test_a_withdrawn_job(self) -> None:
        """The notification concerns the job that is held, and no other; its result is not sent."""
        job, wire = self.taken()
        wire.say(b'{"event":"withdrawn","job":6,"reason":"cancelled"}\n')
        assert job.withdrawn == ""
        wire.say(b'{"event":"withdrawn","job":7,"reason":"cancelled"}\n')
        assert "cancelled" in job.withdrawn
        self.fault(self.finish(job, GOOD), FrontendLost)
        assert self.heard(wire) == []
        assert not wire.lost

    def test_a_result_that_is_not_taken(self) -> None:
        job, wire = self.taken()
        finished = self.finish(job, GOOD)
        wire.say(b'{"id":3,"ok":false,"error":{"code":"unknown-name","message":"no job 7"}}\n')
        success_result_of(finished)
        assert not wire.lost

    def test_refusals(self) -> None:
        """An unknown queue, a frontend without room, one that speaks something else."""
        for said, kind, part in (
            (b'{"id":2,"ok":false,"error":{"code":"unknown-name","message":"Unknown \'sleep\' queue"}}\n',
             FrontendRefused, "Unknown 'sleep' queue"),
            (b"error busy too many connections\n", FrontendLost, "too many connections"),
            (work(None, error="Unknown '' queue") + b"\n", FrontendRefused, "other protocol"),
            (b"x" * (1 << 21), FrontendRefused, "longer than"),
        ):  # fmt: skip
            self.source = self.make_source()
            asked = self.take()
            self.reactor.accept().say(said)
            assert part in self.fault(asked, kind)

    def test_a_lost_connection_is_made_anew(self) -> None:
        asked = self.take()
        self.reactor.accept().end(ConnectionLost())
        self.fault(asked, FrontendLost)
        job, wire = self.taken()
        wire.end()
        assert "closed" in job.withdrawn
        job, wire = self.taken()
        finished = self.finish(job, GOOD)
        wire.end()
        self.fault(finished, FrontendLost)
        self.taken()

    def test_leaving_a_frontend_that_hangs(self) -> None:
        """Waiting for work, or for the answer to a result: no longer than a moment."""
        asked = self.take(30.0)
        wire = self.reactor.accept()
        self.source.leave()
        self.reactor.advance(SHUTDOWN_SECONDS)
        assert success_result_of(asked) is None
        for leave_first in (True, False):
            self.source = self.make_source()
            job, wire = self.taken()
            if leave_first:
                self.source.leave()
                self.reactor.advance(20)
            finished = self.finish(job, GOOD)
            if not leave_first:
                self.source.leave()
            assert_no_result(finished)
            self.reactor.advance(SHUTDOWN_SECONDS)
            self.fault(finished, FrontendLost)
            assert self.heard(wire)[-1]["op"] == "done"
