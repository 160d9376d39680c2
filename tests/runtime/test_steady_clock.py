"""The reactor's clock stays steady when somebody sets that of the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text
from twisted.internet.task import Clock

from fakedev.base.steps import result_of
from fakedev.runtime.clock import SteadyClock, clock_shift, passed_seconds
from fakedev.web.metrics import OwnMetrics, clock_metrics


class Machine:
    """A machine with a clock that can be set."""

    def __init__(self) -> None:
        self.wall_seconds = 1_800_000_000.0
        self.up_seconds = 500.0
        self.clock = SteadyClock(lambda: self.wall_seconds, lambda: self.up_seconds)

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.wall_seconds += seconds
        self.up_seconds += seconds


def test_it_starts_with_the_time_of_day() -> None:
    """And goes as that does, as long as nobody sets it."""
    machine = Machine()
    assert machine.clock.seconds() == 1_800_000_000
    machine.wait(2.5)
    assert (machine.clock.seconds(), machine.clock.shift_seconds()) == (1_800_000_002.5, 0)


def test_the_machine_is_set() -> None:
    """Back by an hour, then forward by a day: the clock goes on, and knows how far the other one is away."""
    machine = Machine()
    for change, shift in ((-3600, -3600), (86_400, 82_800)):
        before = machine.clock.seconds()
        machine.wall_seconds += change
        machine.wait(1)
        assert machine.clock.seconds() == before + 1
        assert machine.clock.shift_seconds() == shift


def test_seconds_pass() -> None:
    """The system's own count never goes back."""
    seen = [passed_seconds() for _ in range(100)]
    assert seen == sorted(seen) and seen[0] > 0


@pytest.mark.slow
def test_the_reactor_of_a_program() -> None:
    """It has the clock and provides what programs use; a reactor that was chosen before keeps its own."""
    program = (
        "from zope.interface.verify import verifyObject\n"
        "from fakedev.runtime.clock import SteadyClock, clock_shift\n"
        "from fakedev.runtime.reactor import IReactor, program_reactor\n"
        "reactor = program_reactor()\n"
        "for base in IReactor.__bases__:\n"
        "    verifyObject(base, reactor)\n"
        "assert program_reactor() is reactor\n"
        "assert reactor.callLater(5, print).getTime() - SteadyClock.seconds(reactor) > 4\n"
        "assert abs(clock_shift(reactor)) < 60\n"
    )
    chosen = (
        "from twisted.internet import selectreactor\n"
        "selectreactor.install()\n"
        "from fakedev.runtime.clock import clock_shift\n"
        "from fakedev.runtime.reactor import program_reactor\n"
        "assert type(program_reactor()) is selectreactor.SelectReactor\n"
        "assert clock_shift(program_reactor()) == 0\n"
    )
    for text in (program, chosen):
        subprocess.run([sys.executable, "-c", text], check=True, timeout=300, env={**os.environ, "PYTHONPATH": "."})


def test_a_reactor_of_tests() -> None:
    """Its clock is nobody's time of day, so there is no shift."""
    assert clock_shift(Clock()) == 0


def test_the_shift_is_shown() -> None:
    machine = Machine()
    machine.wall_seconds -= 3600
    own = OwnMetrics(lambda: {"clock": partial(clock_metrics, machine.clock.shift_seconds)})
    families = {family.name: family for family in parse_text(bytes(result_of(own.steps(None)).body).decode())}
    assert families["fakedev_clock_shift_seconds"].samples[0].value == -3600
