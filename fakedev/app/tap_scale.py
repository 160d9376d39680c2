"""Composition of ``fakedev scale-test``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from fakedev.app.runner import Application, run_application
from fakedev.app.tester import make_tester
from fakedev.config.configuration import Logging
from fakedev.config.peer_address import parse_address
from fakedev.net.lines.client import FrontendConnector
from fakedev.net.system.commands import ProcessRunner
from fakedev.net.system.descriptors import raise_descriptor_limit
from fakedev.net.system.listening import Listeners
from fakedev.net.system.signals import stop_reactor
from fakedev.net.tester.scale_backends import Backends, CannotScale, CommandedBackends, StartedBackends
from fakedev.net.tester.scale_counting import CountedBackends
from fakedev.net.tester.scale_test import ScaleSettings, ScaleTest
from fakedev.tester.plan import Plan
from fakedev.tester.scaling import ScaleStep

_KILL_AFTER_SECONDS: Final = 3.0


@dataclass(frozen=True)
class ScaleOrder:
    """What ``fakedev scale-test`` is told.

    :param plan: the load, of the closed model.
    :param most, per_backend, settle_seconds, measure_seconds: see ScaleSettings.
    :param start: words of the command that starts a backend; empty for none.
    :param scale: words of the command that sets how many there are; empty for none.
    :param wait_seconds: how long the frontend is asked until it knows of all backends.
    :param tell: is told how it goes.
    """

    plan: Plan
    most: int
    per_backend: int
    settle_seconds: float
    measure_seconds: float
    start: tuple[str, ...]
    scale: tuple[str, ...]
    wait_seconds: float
    tell: Callable[[str], None]


def run_scale_test(order: ScaleOrder) -> tuple[list[ScaleStep], str]:
    """Do it, and end all that was started for it: the steps, and why it ended early (empty when it did not)."""
    made: list[ScaleTest] = []

    def make(reactor: Any) -> Application:
        raise_descriptor_limit()
        settings = ScaleSettings(order.most, order.per_backend, order.settle_seconds, order.measure_seconds)
        tester = make_tester([order.plan], reactor)
        stop = partial(stop_reactor, reactor)
        test = ScaleTest(tester, _backends(order, reactor), settings, reactor, stop, order.tell)
        listeners = Listeners()
        application = Application(listeners, reactor, drain=test.stop_all)
        listeners.setServiceParent(application)
        # Not before the reactor runs: at its end the test stops it.
        reactor.callWhenRunning(test.startService)
        made.append(test)
        return application

    try:
        run_application(make, Logging("warn"))
    except CannotScale as reason:
        return [], str(reason)
    return made[0].steps, made[0].problem


def _backends(order: ScaleOrder, reactor: Any) -> Backends:
    starter: Backends | None = None
    runner = ProcessRunner(reactor, null_in=True, null_out=True, kill_after_seconds=_KILL_AFTER_SECONDS)
    if order.start:
        starter = StartedBackends(runner, order.start)
    elif order.scale:
        starter = CommandedBackends(runner, order.scale)
    if starter is not None and not order.plan.json_lines:
        return starter  # only a frontend that speaks JSON lines can be asked whether they are there
    address = parse_address(order.plan.frontend)
    connector = FrontendConnector(reactor, path=address.path, host=address.host, port=address.port, shown=address.shown)
    return CountedBackends(connector, order.plan.queue, starter, reactor, order.wait_seconds, order.tell)
