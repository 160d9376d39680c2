"""Composition of the tester: in the service, as the program ``fakedev-client``, and in ``fakedev scale-test``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from fakedev import __version__
from fakedev.app.announcement import AnnouncedAddresses, Announcement
from fakedev.app.backend import make_connector
from fakedev.app.runner import Application, run_application, run_task
from fakedev.config.configuration import Logging
from fakedev.config.peer_address import parse_address, with_tls
from fakedev.net.http.limits import DROP_IN_LIMITS
from fakedev.net.http.resource import Folder
from fakedev.net.http.site import GuardedSite
from fakedev.net.system.commands import ProcessRunner
from fakedev.net.system.descriptors import raise_descriptor_limit
from fakedev.net.system.files import replace_file
from fakedev.net.system.listening import Listeners, ListeningService
from fakedev.net.system.signals import HangupService, stop_reactor
from fakedev.net.tester.bare import BareRequests
from fakedev.net.tester.driver import PlanDriver, Requests
from fakedev.net.tester.lines import LineRequests
from fakedev.net.tester.metrics import load_metrics, query_metrics
from fakedev.net.tester.pages import make_load_pages
from fakedev.net.tester.run import LoadRun
from fakedev.net.tester.scale_backends import Backends, CannotScale, CommandedBackends, CountedBackends, StartedBackends
from fakedev.net.tester.scale_test import ScaleSettings, ScaleTest
from fakedev.net.tester.service import LoadTester
from fakedev.net.web.own_metrics import OwnMetrics, OwnMetricsResource
from fakedev.spec.listen_address import ListenAddress
from fakedev.spec.os_errors import CannotWrite
from fakedev.tester.plan import Plan
from fakedev.tester.report import Report
from fakedev.tester.scaling import ScaleStep

#: How long peers of the control port may delay the end of the program.
_CLOSING_SECONDS: Final = 0.3
_KILL_AFTER_SECONDS: Final = 3.0


def make_tester(plans: Sequence[Plan], reactor: Any, verbose: bool = False) -> LoadTester:
    """The tester of these plans.

    :param verbose: log all messages.
    """

    def make_requests(plan: Plan, asker: PlanDriver) -> Requests:
        kind = LineRequests if plan.json_lines else BareRequests
        connector = make_connector(with_tls(parse_address(plan.frontend), plan.tls), reactor, plan.token_file)
        return kind(plan, connector, asker, reactor, verbose)

    return LoadTester(plans, make_requests, reactor)


def run_client(
    plans: Sequence[Plan],
    control: ListenAddress | None,
    *,
    duration_seconds: float,
    grace_seconds: float,
    tell: Callable[[str], None] | None,
    tell_seconds: float,
    verbose: bool,
) -> LoadTester:
    """Run ``fakedev-client`` until its run has ended, or a signal; the tester then has the statistics.

    :param control: the address of the statistics and of changes; None for none.
    :param duration_seconds: 0: until a signal.
    :param grace_seconds: how long the run then waits for pending requests.
    :param tell: called with the progress, every ``tell_seconds``; None for no progress.
    :raises SystemExit: 1, after a line of explanation, when the control address cannot be used.
    """
    made: list[LoadTester] = []

    def make(reactor: Any) -> Application:
        raise_descriptor_limit()
        tester = make_tester(plans, reactor, verbose)
        made.append(tester)
        stop = partial(stop_reactor, reactor)
        run = LoadRun(
            tester, reactor, stop, duration_seconds=duration_seconds,
            grace_seconds=grace_seconds, tell=tell, tell_seconds=tell_seconds,
        )  # fmt: skip
        web = []
        if control is not None:
            service = ListeningService(control, _control_site(tester, reactor), reactor)
            service.closing_seconds = _CLOSING_SECONDS
            service.remedy = "give another address with -caddr"
            web.append((service, "tester"))
        loads = ", ".join(f"{plan.name} on queue {plan.queue} of {plan.frontend}" for plan in plans)
        addresses = AnnouncedAddresses(f"fakedev {__version__}: load: {loads}", (), web)
        listeners = Listeners([service for service, _ in web])
        services = [listeners, run, HangupService(reactor, stop), Announcement(lambda: addresses)]
        return Application(listeners, reactor, services, drain=run.stop_now)

    run_application(make, Logging())
    return made[0]


def save_report(report: Report, path: str) -> str:
    """Write a report to a file, in the form that its name asks for; returns why it could not be written, or nothing."""
    try:
        replace_file(path, report.as_file(path))
    except CannotWrite as reason:
        return str(reason)
    return ""


def _control_site(tester: LoadTester, reactor: Any) -> GuardedSite:
    """The original's pages, on which GET changes the load, and our own metrics."""
    root = Folder(errors_as_json=False, **make_load_pages(tester, changes=True))
    site = GuardedSite(root, reactor, limits=DROP_IN_LIMITS)
    own = OwnMetrics({"tester": partial(load_metrics, tester), "queries": partial(query_metrics, site.codes)})
    root.put_child("-", Folder(metrics=OwnMetricsResource(own)))
    return site


@dataclass(frozen=True, kw_only=True)
class ScaleOrder(ScaleSettings):
    """The options of ``fakedev scale-test``.

    :param plan: the load, of the closed model.
    :param start: the command that starts a backend, with its arguments; empty for none.
    :param scale: the command that sets the number of backends, with its arguments; empty for none.
    :param wait_seconds: how long to wait until the frontend knows all backends.
    :param tell: called with each line of progress.
    :param done: called with the share of the test that is done, from 0 to 1.
    """

    plan: Plan
    start: tuple[str, ...]
    scale: tuple[str, ...]
    wait_seconds: float
    tell: Callable[[str], None]
    done: Callable[[float], None]


@dataclass(frozen=True)
class ScaleEnd:
    """How a scale test ended.

    :param problem: why it ended early; empty when it did not.
    :param signal_name: the signal that stopped it; empty for none.
    """

    steps: Sequence[ScaleStep] = ()
    problem: str = ""
    signal_name: str = ""


def run_scale_test(order: ScaleOrder) -> ScaleEnd:
    """Run the test and stop the backends that it has started."""

    def make(reactor: Any, over: Callable[[], None]) -> ScaleTest:
        raise_descriptor_limit()
        tester = make_tester([order.plan], reactor)
        return ScaleTest(tester, _backends(order, reactor), order, reactor, over, order.tell, order.done)

    try:
        test, signal_name = run_task(make)
    except CannotScale as reason:
        return ScaleEnd(problem=str(reason))
    return ScaleEnd(test.steps, test.problem, signal_name)


def _backends(order: ScaleOrder, reactor: Any) -> Backends:
    starter: Backends | None = None
    runner = ProcessRunner(reactor, null_in=True, null_out=True, kill_after_seconds=_KILL_AFTER_SECONDS)
    if order.start:
        starter = StartedBackends(runner, order.start)
    elif order.scale:
        starter = CommandedBackends(runner, order.scale)
    if starter is not None and not order.plan.json_lines:
        return starter  # only a frontend that speaks JSON lines can be asked for the number of backends
    address = with_tls(parse_address(order.plan.frontend), order.plan.tls)
    connector = make_connector(address, reactor, order.plan.token_file)
    return CountedBackends(connector, order.plan.queue, starter or Backends(), reactor, order.wait_seconds, order.tell)
