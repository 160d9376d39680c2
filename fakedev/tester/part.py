"""The tester as a part of the service, as the program ``fakedev-client``, and in ``fakedev scale-test``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from fakedev import __version__
from fakedev.queues.backend_start import make_connector
from fakedev.queues.process_runs import ProcessRunner
from fakedev.runtime.announcement import Announcement
from fakedev.runtime.application import Application, run_application, run_task
from fakedev.runtime.listening import Announced, Listeners, ListeningService, raise_descriptor_limit
from fakedev.runtime.part import Part
from fakedev.runtime.reactor import IReactor
from fakedev.runtime.settings import Logging
from fakedev.runtime.signals import HangupService, stop_reactor
from fakedev.schema.addresses import ListenAddress
from fakedev.schema.peer_addresses import parse_address, with_tls
from fakedev.tester.driver import IRequests, PlanDriver
from fakedev.tester.load_run import LoadRun, LoadTester, ReportFiles
from fakedev.tester.pages import load_metrics, make_load_pages, query_metrics
from fakedev.tester.plan import Plan
from fakedev.tester.requests import BareRequests, LineRequests
from fakedev.tester.scale_test import (
    Backends,
    CannotScale,
    CommandedBackends,
    CountedBackends,
    ScaleSettings,
    ScaleTest,
    StartedBackends,
)
from fakedev.tester.scaling import ScaleStep
from fakedev.web.http_limits import DROP_IN_LIMITS
from fakedev.web.metrics import Group, OwnMetrics, OwnMetricsResource
from fakedev.web.resource import Folder
from fakedev.web.site import Site

#: How long peers of the control port may delay the end of the program.
_CLOSING_SECONDS: Final = 0.3
_KILL_AFTER_SECONDS: Final = 3.0


def make_tester(plans: Sequence[Plan], reactor: IReactor, verbose: bool = False) -> LoadTester:
    """The tester of these plans.

    :param verbose: log all messages.
    """

    def make_requests(plan: Plan, asker: PlanDriver) -> IRequests:
        kind = LineRequests if plan.json_lines else BareRequests
        connector = make_connector(with_tls(parse_address(plan.frontend), plan.tls), reactor, plan.token_file)
        return kind(plan, connector, asker, reactor, verbose)

    return LoadTester(plans, make_requests, reactor)


class TesterPart(Part):
    """The load of a service on queues.

    :param reports: files that get its result at the end.
    :ivar tester: makes the load.
    """

    def __init__(self, plans: Sequence[Plan], reports: Sequence[str], reactor: IReactor) -> None:
        self.tester = make_tester(plans, reactor)
        super().__init__("tester", [self.tester, ReportFiles(self.tester, reports)])

    def metrics(self) -> Mapping[str, Group]:
        return {"tester": partial(load_metrics, self.tester)}

    def drain(self) -> None:
        self.tester.halt()


class ClientPart(Part):
    """The run of ``fakedev-client``, with the address of its statistics and of changes.

    :param control: None for no address.
    """

    def __init__(self, run: LoadRun, control: ListenAddress | None, reactor: IReactor) -> None:
        self._run = run
        listening = []
        if control is not None:
            service = ListeningService(control, _control_site(run.tester, reactor), reactor)
            service.closing_seconds = _CLOSING_SECONDS
            service.announced = Announced("web", "statistics and control of the load", "/stats")
            service.remedy = "give another address with -caddr"
            listening.append(service)
        super().__init__("run", [run], listening)

    def drain(self) -> None:
        self._run.stopService()


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

    def make(reactor: IReactor) -> Application:
        raise_descriptor_limit()
        made.append(make_tester(plans, reactor, verbose))
        stop = partial(stop_reactor, reactor)
        run = LoadRun(
            made[0], reactor, stop, duration_seconds=duration_seconds,
            grace_seconds=grace_seconds, tell=tell, tell_seconds=tell_seconds,
        )  # fmt: skip
        loads = ", ".join(f"{plan.name} on queue {plan.queue} of {plan.frontend}" for plan in plans)
        listeners = Listeners()
        application = Application(reactor, listeners)
        return application.run_parts([
            listeners,
            ClientPart(run, control, reactor),
            HangupService(reactor, stop),
            Announcement(lambda: [f"fakedev {__version__}: load: {loads}"], application.listening),
        ])  # fmt: skip

    run_application(make, Logging())
    return made[0]


def _control_site(tester: LoadTester, reactor: IReactor) -> Site:
    """The original's pages, on which GET changes the load, and our own metrics."""
    root = Folder(errors_as_json=False, **make_load_pages(tester, changes=True))
    site = Site(root, reactor, limits=DROP_IN_LIMITS)
    groups = {"tester": partial(load_metrics, tester), "queries": partial(query_metrics, site.codes)}
    root.putChild(b"-", Folder(metrics=OwnMetricsResource(OwnMetrics(lambda: groups))))
    return site


@dataclass(frozen=True, kw_only=True)
class ScaleOrder(ScaleSettings):
    """The options of ``fakedev scale-test``.

    :param plan: the load, of the closed model.
    :param start: the command that starts a backend, with its arguments; empty for none.
    :param scale: the command that sets the number of backends, with its arguments; empty for none.
    :param wait_seconds: how long to wait until all backends are connected to the frontend.
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

    def make(reactor: IReactor, over: Callable[[], None]) -> ScaleTest:
        raise_descriptor_limit()
        tester = make_tester([order.plan], reactor)
        return ScaleTest(tester, _backends(order, reactor), order, reactor, over, order.tell, order.done)

    try:
        test, signal_name = run_task(make)
    except CannotScale as reason:
        return ScaleEnd(problem=str(reason))
    return ScaleEnd(test.steps, test.problem, signal_name)


def _backends(order: ScaleOrder, reactor: IReactor) -> Backends:
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
