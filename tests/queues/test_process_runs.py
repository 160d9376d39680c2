"""Commands in process groups: what is started, which signals go where and when, in memory."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from zope.interface.verify import verifyObject

from fakedev.queues.job import Outcome, outcome_of
from fakedev.queues.process_runs import (
    AFTER_KILL_SECONDS,
    LOOK_AGAIN_SECONDS,
    CannotRun,
    CommandRun,
    IRun,
    ProcessRunner,
    SleepRun,
)
from tests.support.deferreds import assert_no_result, success_result_of
from tests.support.queues.backend_stubs import RecordedGroups, RecordedWatchdog, SpawningClock

SH = "/bin/sh"
TERM, KILL = signal.SIGTERM, signal.SIGKILL


class TestProcessRunner:
    """One command at a time, with 3 s between SIGTERM and SIGKILL."""

    def setup_method(self) -> None:
        self.clock = SpawningClock()
        self.groups = RecordedGroups()
        self.watchdog = RecordedWatchdog()

    def start(self, limit_seconds: float = 0.0, **options: Any) -> CommandRun:
        runner = ProcessRunner(
            self.clock,
            kill_after_seconds=3.0,
            groups=self.groups,
            setsid="/usr/bin/setsid",
            watchdog=self.watchdog,  # type: ignore[arg-type]  # has its methods
            **options,
        )
        return runner.start([SH, "-c", "x y"], limit_seconds)

    def test_what_is_started(self) -> None:
        """setsid becomes the command; environment, folder and descriptors are this program's."""
        self.start()
        (process,) = self.clock.spawned
        assert process.arguments == ["/usr/bin/setsid", SH, "-c", "x y"]
        assert (process.environment, process.folder) == (None, None)
        assert process.descriptors == {0: 0, 1: 1, 2: 2}

    def test_null_input_and_output(self) -> None:
        """/dev/null takes the place of the descriptors that were asked for."""
        null = os.stat(os.devnull)
        for options, expected in (({"null_in": True}, [0]), ({"null_out": True}, [1, 2])):
            self.start(**options)
            descriptors = self.clock.spawned[-1].descriptors
            assert [number for number in descriptors if descriptors[number] != number] == expected
            for number in expected:
                assert os.path.samestat(os.fstat(descriptors[number]), null)

    def test_the_end_of_a_command(self) -> None:
        """Its exit code, or the signal that another process sent, and the time that it ran."""
        for ending, code, error in (
            ({}, 0, ""),
            ({"code": 3}, 3, "/bin/sh ended with exit code 3"),
            ({"signal": 11}, 139, "/bin/sh was ended by signal 11"),
        ):
            run = self.start()
            assert verifyObject(IRun, run)
            self.clock.advance(1.5)
            self.clock.spawned[-1].end(**ending)
            report = success_result_of(run.ended)
            assert (report.exit_code, report.error, report.run_seconds) == (code, error, 1.5)
        assert self.groups.sent == []
        assert self.clock.getDelayedCalls() == []

    def test_the_time_limit(self) -> None:
        """SIGTERM at the limit; however the command reacts, the outcome is a time-out."""
        for code in (0, 7):
            run = self.start(2.0)
            process = self.clock.spawned[-1]
            self.clock.advance(1.99)
            assert self.groups.sent == []
            self.clock.advance(0.01)
            assert self.groups.sent == [("all", process.pid, TERM)]
            self.groups.sent.clear()
            process.end(code)
            report = success_result_of(run.ended)
            assert outcome_of(report) == Outcome.TIMEOUT
            assert (report.exit_code, report.timeout_seconds) == (124, 2.0)
            assert self.clock.getDelayedCalls() == []

    def test_a_pause_of_this_process(self) -> None:
        """A command that ended meanwhile has kept its limit; one that runs on has not."""
        runs = [self.start(2.0) for _ in range(2)]
        ended, process = self.clock.spawned[-2:]
        self.clock.advance(30)
        assert self.groups.sent == []
        ended.end(0)
        assert outcome_of(success_result_of(runs[0].ended)) == Outcome.SUCCESS
        self.clock.advance(1)
        assert self.groups.sent == [("all", process.pid, TERM)]

    def test_a_command_that_ignores_sigterm(self) -> None:
        """SIGKILL comes after the grace period."""
        run = self.start(2.0)
        process = self.clock.spawned[0]
        self.clock.advance(2.0)
        self.clock.advance(2.99)
        assert self.groups.sent == [("all", process.pid, TERM)]
        self.clock.advance(0.01)
        assert self.groups.sent[1:] == [("all", process.pid, KILL)]
        process.end(signal=9)
        assert success_result_of(run.ended).error == "/bin/sh was stopped at its time limit of 2 s"

    def test_what_a_command_leaves_behind_is_ended_too(self) -> None:
        """With SIGTERM, and the result waits for it, but the run time does not."""
        run = self.start()
        process = self.clock.spawned[0]
        self.groups.rest.add(process.pid)
        self.clock.advance(1.0)
        process.end(0)
        assert_no_result(run.ended)
        assert self.groups.sent == [("rest", process.pid, TERM)]
        self.clock.advance(LOOK_AGAIN_SECONDS)
        report = success_result_of(run.ended)
        assert (report.exit_code, report.error, report.run_seconds) == (0, "", 1.0)
        assert self.clock.getDelayedCalls() == []

    def test_the_watchdog_knows_what_runs(self) -> None:
        one, other = self.start(), self.start()
        first, second = (process.pid for process in self.clock.spawned)
        assert self.watchdog.leaders == {first, second}
        self.groups.rest.add(first)
        for process in self.clock.spawned:
            process.end(0)
        assert_no_result(one.ended)
        success_result_of(other.ended)
        assert self.watchdog.leaders == {first}
        self.clock.advance(LOOK_AGAIN_SECONDS)
        success_result_of(one.ended)
        assert self.watchdog.leaders == set()

    def test_a_deaf_rest_is_killed(self) -> None:
        """SIGKILL after the grace period."""
        run = self.start()
        process = self.clock.spawned[0]
        self.groups.rest.add(process.pid)
        self.groups.deaf = (TERM,)
        process.end(0)
        self.clock.pump([LOOK_AGAIN_SECONDS] * 149)
        assert_no_result(run.ended)
        self.clock.pump([LOOK_AGAIN_SECONDS] * 2)
        assert self.groups.sent == [("rest", process.pid, TERM), ("rest", process.pid, KILL)]
        success_result_of(run.ended)

    def test_a_rest_that_hangs_in_the_kernel_delays_no_result(self) -> None:
        """SIGKILL is the last thing that can be done; then the result is reported."""
        run = self.start()
        self.groups.rest.add(self.clock.spawned[0].pid)
        self.groups.deaf = (TERM, KILL)
        self.clock.spawned[0].end(0)
        self.clock.advance(3.0)
        self.clock.advance(AFTER_KILL_SECONDS)
        success_result_of(run.ended)
        assert self.clock.getDelayedCalls() == []

    def test_stop_and_kill(self) -> None:
        """A run that is stopped is no success, whatever its exit code; stopping again changes nothing."""
        run = self.start(60.0)
        process = self.clock.spawned[0]
        run.stop()
        run.stop()
        assert self.groups.sent == [("all", process.pid, TERM)]
        run.kill()
        run.kill()
        assert self.groups.sent[1:] == [("all", process.pid, KILL)]
        process.end(0)
        assert success_result_of(run.ended).error == "/bin/sh was stopped before its end"
        run.stop()
        run.kill()
        assert len(self.groups.sent) == 2
        assert self.clock.getDelayedCalls() == []

    def test_what_keeps_commands_from_being_started(self, tmp_path: Path) -> None:
        plain = tmp_path / "plain"
        plain.write_text("")
        plain.chmod(0o644)
        for words, options, part in (
            (["/no/such"], {}, "the command /no/such is not there"),
            ([str(tmp_path)], {}, "is not there"),
            ([str(plain)], {}, "not executable"),
            ([SH], {"folder": "/no/such"}, "the working directory /no/such is not there"),
        ):
            runner = ProcessRunner(
                self.clock,
                kill_after_seconds=3.0,
                groups=self.groups,
                watchdog=self.watchdog,  # type: ignore[arg-type]  # has its methods
                **options,
            )
            with pytest.raises(CannotRun, match=part):
                runner.start(words, 0.0)
        self.clock.refusal = OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        with pytest.raises(CannotRun, match=f"cannot start {SH}: the limit of processes"):
            self.start()
        assert self.clock.spawned == []


class TestSleepRun:
    """The built-in command."""

    def test_its_endings(self) -> None:
        clock = SpawningClock()
        for seconds, limit, after, outcome, error in (
            (1.5, 0.0, 1.5, Outcome.SUCCESS, ""),
            (1.5, 1.5, 1.5, Outcome.SUCCESS, ""),
            (0.0, 0.0, 0.0, Outcome.SUCCESS, ""),
            (1.5, 0.5, 0.5, Outcome.TIMEOUT, "sleep was stopped at its time limit of 0.5 s"),
        ):
            run = SleepRun(seconds, limit, clock)
            if after:
                clock.advance(after / 2)
                assert_no_result(run.ended)
            clock.advance(after / 2)
            report = success_result_of(run.ended)
            assert (outcome_of(report), report.error, report.run_seconds) == (outcome, error, after)
        run = SleepRun(9.0, 0.0, clock)
        assert verifyObject(IRun, run)
        run.stop()
        run.kill()
        assert success_result_of(run.ended).error == "sleep was stopped before its end"
        assert clock.getDelayedCalls() == []
