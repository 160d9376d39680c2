"""One worker of a backend: jobs from a scripted frontend, runs that end when the test says so."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ReactorNotRunning
from twisted.internet.task import Clock

from fakedev.queues.backend import BackendProgram, BackendWorker, DeviceFile, FrontendLost, FrontendRefused, OneRun
from fakedev.queues.job import Report
from fakedev.queues.process_runs import CannotRun
from fakedev.queues.run_reports import BackendCommand, End, Pace, RequestFault
from tests.support.deferreds import assert_no_result, success_result_of
from tests.support.logged_errors import LoggedErrors
from tests.support.queues.backend_stubs import RecordedRun, ScriptedSource, starter

GOOD = Report(0, "", run_seconds=1.0)


class WorkerCase:
    """A worker of the command ``/bin/a own``, and its clock."""

    def setup_method(self) -> None:
        self.clock = Clock()
        self.runs: list[RecordedRun] = []
        self.files: list[str] = []

    def device(self, pattern: str = "/dev/card*") -> DeviceFile:
        return DeviceFile(pattern, lambda _: self.files)

    def begin(
        self, source: ScriptedSource, *, backoff: float = 0.0, reconnect: float = 1.0, start: Any = None
    ) -> tuple[BackendWorker, Deferred[End]]:
        worker = BackendWorker(
            source,
            start or starter(self.runs),
            BackendCommand(("/bin/a", "own"), limit_seconds=9.0),
            self.device(),
            Pace(backoff, 5.0, reconnect),
            grace_seconds=25.0,
            clock=self.clock,
        )
        return worker, Deferred.fromCoroutine(worker.work())


class TestBackendWorker(WorkerCase):
    """From the first question to the end."""

    def test_jobs_are_run_one_after_the_other(self) -> None:
        """Each result goes back before the next job is asked for; an empty queue is the end."""
        source = ScriptedSource(["1"], ["2"], None)
        _, ended = self.begin(source)
        for words in (["/bin/a", "own", "1"], ["/bin/a", "own", "2"]):
            run = self.runs[-1]
            assert (run.words, run.limit_seconds) == (words, 9.0)
            run.ended.callback(GOOD)
        assert success_result_of(ended) == End(0, "the queue is empty")
        taken, finished = ("take", 0.0), ("finish", GOOD)
        assert source.said == [taken, finished, taken, finished, taken]

    def test_backoff_is_waited_out_before_asking(self) -> None:
        source = ScriptedSource(None, None, ["1"], None)
        self.begin(source, backoff=2.0)
        assert len(source.said) == 1
        self.clock.advance(2.0)
        assert len(source.said) == 2
        self.clock.advance(3.99)
        assert (len(source.said), self.runs) == (2, [])
        self.clock.advance(0.01)
        self.runs[0].ended.callback(GOOD)
        assert source.said[3:] == [("finish", GOOD), ("take", 0.0)]

    def test_backoff_is_waited_out_at_the_frontend(self) -> None:
        source = ScriptedSource(None, None, waits_for_work=True)
        self.begin(source, backoff=2.0)
        assert source.said == [("take", 0.0), ("take", 2.0), ("take", 4.0)]

    def test_requests_that_cannot_be_run(self) -> None:
        """The client gets the error; the backend continues. A device file that appears later is used."""
        source = ScriptedSource(["FILENAME"], ["FILENAME"], None)
        runs = starter(self.runs)

        def start(words: Any, limit_seconds: float) -> RecordedRun:
            if "bad" in words:
                raise RequestFault("bad argument")
            return runs(words, limit_seconds)

        source.script[1:1] = [["bad"]]
        source.script.insert(2, FrontendLost("gone"))
        self.begin(source, start=start)
        errors = [report.error for verb, report in source.said if verb == "finish"]
        assert len(errors) == 2
        assert "no device file" in errors[0]
        assert errors[1] == "bad argument"
        self.files.append("/dev/card1")
        self.clock.advance(0.1)
        assert self.runs[0].words == ["/bin/a", "own", "/dev/card1"]

    def test_a_command_that_cannot_be_run_ends_the_backend(self) -> None:
        """The job is given back, since another backend may be able to do it."""

        def start(words: Any, limit_seconds: float) -> RecordedRun:
            raise CannotRun("the command is not there")

        source = ScriptedSource(["1"])
        _, ended = self.begin(source, start=start)
        assert success_result_of(ended) == End(1, "the command is not there")
        assert source.said[1:] == [("give back", "the command is not there", 0.0)]

    def test_a_lost_frontend_is_looked_for(self) -> None:
        """And given up when it does not come back in time; when a result was lost with it, too."""
        source = ScriptedSource(["1"], *[FrontendLost("gone")] * 20)
        source.failure = FrontendLost("gone")
        _, ended = self.begin(source)
        self.runs[0].ended.callback(GOOD)
        assert len(source.said) == 2
        self.clock.pump([0.05] * 19)
        assert_no_result(ended)
        self.clock.pump([0.05] * 2)
        assert success_result_of(ended) == End(1, "the frontend is lost, tried for 1 s: gone")

    def test_a_refusal_is_the_end(self) -> None:
        """With exit code 1."""
        _, ended = self.begin(ScriptedSource(FrontendRefused("Unknown 'x' queue")), backoff=1.0)
        assert success_result_of(ended).exit_code == 1

    def test_a_withdrawn_job_is_stopped(self) -> None:
        source = ScriptedSource(["1"], None)
        _, ended = self.begin(source)
        source.jobs[0].withdraw("cancelled")
        assert self.runs[0].told == ["stop"]
        success_result_of(ended)
        assert source.said == [("take", 0.0), ("take", 0.0)]

    def test_leaving_while_nothing_runs(self) -> None:
        for script, options in (([None], {"backoff": 5.0}), ([FrontendLost("gone")], {"reconnect": 60.0})):
            source = ScriptedSource(*script)
            worker, ended = self.begin(source, **options)
            assert_no_result(ended)
            worker.leave()
            worker.leave()
            assert success_result_of(ended) == End(0, "stopped by a signal")
            assert source.said == [("take", 0.0), "leave"]

    def test_a_running_job_is_finished_within_the_grace_period(self) -> None:
        source = ScriptedSource(["1"], ["2"])
        worker, ended = self.begin(source)
        worker.leave()
        self.clock.advance(24.9)
        assert self.runs[0].told == []
        self.runs[0].ended.callback(GOOD)
        assert success_result_of(ended).exit_code == 0
        assert source.said == [("take", 0.0), "leave", ("finish", GOOD)]

    def test_a_job_that_outlasts_the_grace_period_is_given_back(self) -> None:
        """After its run has ended, so that no other backend starts it before."""
        source = ScriptedSource(["1"])
        worker, ended = self.begin(source)
        worker.leave()
        self.clock.advance(25.0)
        assert self.runs[0].told == ["stop"]
        success_result_of(ended)
        assert source.said[2] == ("give back", "the backend ended before the job did", 1.0)

    def test_a_job_that_comes_while_leaving(self) -> None:
        """It is given back where that does no harm, else run as if it had come before."""
        for takes_back in (True, False):
            source = ScriptedSource(takes_back=takes_back)
            worker, ended = self.begin(source)
            worker.leave()
            source.pending.callback(["late"])
            if takes_back:
                assert source.said[2:] == [("give back", "the backend ends", 0.0)]
            else:
                self.runs[-1].ended.callback(GOOD)
                assert source.said[2:] == [("finish", GOOD)]
            success_result_of(ended)

    def test_cut(self) -> None:
        source = ScriptedSource(["1"])
        worker, _ = self.begin(source)
        worker.cut()
        assert (self.runs[0].told, source.said[-1]) == (["kill"], "cut")


class TestOneRun(WorkerCase):
    """``-once``: the command as it would be for a request without arguments."""

    def one_run(self, *words: str, start: Any = None) -> tuple[OneRun, Deferred[End]]:
        one = OneRun(start or starter(self.runs), BackendCommand(words), self.device(), 25.0, self.clock)
        return one, Deferred.fromCoroutine(one.work())

    def test_its_end_is_the_programs(self) -> None:
        """0 for success, 1 for everything else."""
        for report, code in ((GOOD, 0), (Report(7, "exit code 7", run_seconds=1.0), 1)):
            _, ended = self.one_run("/bin/a")
            self.runs[-1].ended.callback(report)
            assert success_result_of(ended).exit_code == code

    def test_what_cannot_be_run(self) -> None:
        _, ended = self.one_run("/bin/a", "FILENAME")
        assert "no device file" in success_result_of(ended).reason

    def test_signals(self) -> None:
        one, ended = self.one_run("/bin/a")
        one.leave()
        self.clock.advance(25.0)
        assert success_result_of(ended).exit_code == 1
        one, _ = self.one_run("/bin/a")
        one.cut()
        assert self.runs[-1].told == ["kill"]


class RecordedWorker:
    """A worker that ends when the test says so."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.end: Deferred[End] = Deferred()

    async def work(self) -> End:
        return await self.end

    def leave(self) -> None:
        self.told.append("leave")

    def cut(self) -> None:
        self.told.append("cut")


class StoppableReactor:
    """A reactor that is only stopped; to do so twice is an error, as with real ones."""

    running = True

    def stop(self) -> None:
        if not self.running:
            raise ReactorNotRunning
        self.running = False


class TestBackendProgram:
    """Several workers in one program."""

    def setup_method(self) -> None:
        self.workers = [RecordedWorker() for _ in range(3)]
        self.reactor = StoppableReactor()
        self.program = BackendProgram(self.workers, self.reactor)
        self.program.start()

    def test_it_ends_with_the_last_worker(self) -> None:
        """With 0 when all of them did."""
        for worker in self.workers:
            assert self.reactor.running
            worker.end.callback(End(0, "the queue is empty"))
        assert not self.reactor.running
        assert self.program.exit_code == 0
        assert self.workers[2].told == []

    def test_one_that_fails_ends_all(self) -> None:
        self.workers[0].end.callback(End(1, "refused"))
        assert [worker.told for worker in self.workers[1:]] == [["leave"], ["leave"]]
        for worker in self.workers[1:]:
            worker.end.callback(End(0, "told to end"))
        assert not self.reactor.running
        assert self.program.exit_code == 1

    def test_a_fault_of_ours_ends_all(self, logged_errors: LoggedErrors) -> None:
        """It is logged, and does not leave a program that does nothing."""
        self.workers[0].end.errback(ZeroDivisionError())
        assert len(logged_errors.take(ZeroDivisionError)) == 1
        assert (self.program.exit_code, self.workers[1].told) == (1, ["leave"])

    def test_signals(self) -> None:
        """The first asks the workers to leave, the second ends everything."""
        self.program.leave("SIGTERM")
        assert [worker.told for worker in self.workers] == [["leave"]] * 3
        assert self.reactor.running
        self.program.cut("SIGINT")
        assert [worker.told for worker in self.workers] == [["leave", "cut"]] * 3
        assert not self.reactor.running
        for worker in self.workers:
            worker.end.callback(End(0, "told to end"))
