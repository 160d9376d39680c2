"""Composition of the tester: in the service, and alone as ``fakedev-client``.

Composition of ``fakedev scale-test``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from fakedev import __version__
from fakedev.app.announcement import AnnouncedAddresses, Announcement
from fakedev.app.runner import Application, run_application
from fakedev.config.configuration import Logging
from fakedev.config.listen import ListenAddress
from fakedev.config.peer_address import parse_address
from fakedev.net.http.limits import DROP_IN_LIMITS
from fakedev.net.http.resource import Folder
from fakedev.net.http.site import GuardedSite
from fakedev.net.lines.client import FrontendConnector
from fakedev.net.system.commands import ProcessRunner
from fakedev.net.system.listening import Listeners, ListeningService
from fakedev.net.system.memory import raise_descriptor_limit
from fakedev.net.system.signals import HangupService, stop_reactor
from fakedev.net.tester.bare import BareRequests
from fakedev.net.tester.driver import Asker, Requests
from fakedev.net.tester.lines import LineRequests
from fakedev.net.tester.metrics import LoadMetrics, QueryMetrics
from fakedev.net.tester.pages import make_load_pages
from fakedev.net.tester.run import LoadRun
from fakedev.net.tester.scale_backends import Backends, CannotScale, CommandedBackends, CountedBackends, StartedBackends
from fakedev.net.tester.scale_test import ScaleSettings, ScaleTest
from fakedev.net.tester.service import LoadTester
from fakedev.net.web.own_metrics import OwnMetrics, OwnMetricsResource
from fakedev.tester.plan import Plan
from fakedev.tester.scaling import ScaleStep

#: How long those who are being answered may hold up the end of the program.
_CLOSING_SECONDS: Final = 0.3


@dataclass(frozen=True)
class ClientSettings:
    """What ``fakedev-client`` is told.

    :param control: where the statistics are served and changes are taken; None for nowhere.
    :param duration_seconds: 0: until a signal comes.
    :param grace_seconds: how long requests under way are waited for after that.
    :param tell: is told how it goes, every ``tell_seconds``; None: nobody is.
    """

    plans: tuple[Plan, ...]
    control: ListenAddress | None
    duration_seconds: float = 0.0
    grace_seconds: float = 5.0
    tell: Callable[[str], None] | None = None
    tell_seconds: float = 1.0
    verbose: bool = False


def make_tester(plans: Sequence[Plan], reactor: Any, verbose: bool = False) -> LoadTester:
    """The tester of these plans.

    :param verbose: log all messages.
    """

    def requests_of(plan: Plan, asker: Asker) -> Requests:
        address = parse_address(plan.frontend)
        connector = FrontendConnector(
            reactor, path=address.path, host=address.host, port=address.port, shown=address.shown
        )
        kind = LineRequests if plan.json_lines else BareRequests
        return kind(plan, connector, asker, reactor, verbose)

    return LoadTester(plans, requests_of, reactor)


def run_client(settings: ClientSettings) -> LoadTester:
    """Be ``fakedev-client`` until its run is over or a signal comes; the tester then has the statistics.

    :raises SystemExit: 1, after a line of explanation, when the control address cannot be had.
    """
    made: list[LoadTester] = []

    def make(reactor: Any) -> Application:
        application, tester = make_client(settings, reactor)
        made.append(tester)
        return application

    run_application(make, Logging())
    return made[0]


def make_client(settings: ClientSettings, reactor: Any) -> tuple[Application, LoadTester]:
    """The client of these settings, and its tester."""
    raise_descriptor_limit()
    tester = make_tester(settings.plans, reactor, settings.verbose)
    stop = partial(stop_reactor, reactor)
    run = LoadRun(
        tester, reactor, stop, duration_seconds=settings.duration_seconds,
        grace_seconds=settings.grace_seconds, tell=settings.tell, tell_seconds=settings.tell_seconds,
    )  # fmt: skip
    listeners = Listeners()
    application = Application(listeners, reactor, drain=run.stop_now)
    web = []
    if settings.control is not None:
        control = ListeningService(settings.control, _control_site(tester, reactor), reactor)
        control.closing_seconds = _CLOSING_SECONDS
        control.setServiceParent(listeners)
        web.append((control, "tester"))
    listeners.setServiceParent(application)
    run.setServiceParent(application)
    HangupService(reactor, stop).setServiceParent(application)
    loads = ", ".join(f"{plan.name} on queue {plan.queue} of {plan.frontend}" for plan in settings.plans)
    what = AnnouncedAddresses(f"fakedev {__version__}: load: {loads}", (), web)
    Announcement(lambda: what).setServiceParent(application)
    return application, tester


def _control_site(tester: LoadTester, reactor: Any) -> GuardedSite:
    """The original's pages, where GET changes things, and our own metrics."""
    root = Folder(**make_load_pages(tester, changes=True))
    site = GuardedSite(root, reactor, limits=DROP_IN_LIMITS)
    own = OwnMetrics({"tester": LoadMetrics(tester), "queries": QueryMetrics(site.codes)})
    root.put_child("-", Folder(metrics=OwnMetricsResource(own)))
    return site

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
