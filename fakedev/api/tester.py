"""/api/v1/tester: the load of this service's tester, with its plans, and who answered the requests of a plan.

/api/v1/tester/PLAN/nodes, /devices and /pods are lists of any length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from fakedev.tester.driver import PlanDriver
from fakedev.tester.expectation import point_of
from fakedev.tester.load_run import LoadTester
from fakedev.tester.pages import shown_names
from fakedev.tester.plan import ClosedLoad
from fakedev.tester.report import statistics_values, tally_value
from fakedev.tester.statistics import Step, Tallies, Tally
from fakedev.web.http_limits import HttpError
from fakedev.web.items import Items, ItemsResource, in_order
from fakedev.web.paths import LOAD, LOAD_DEVICES, LOAD_NODES, LOAD_PLAN, LOAD_PODS, WebPath
from fakedev.web.query import ApiPage, ApiResource, counted, json_body, missing, shown
from fakedev.web.request import Request
from fakedev.web.response import Response, json_response

#: The prefix of keys that are points of the run times.
_RUN: Final = "run-"


@dataclass(eq=False)
class AnswersBy(ItemsResource):
    """The answers of a plan by node, by device or by pod.

    :param path: one of LOAD_NODES, LOAD_DEVICES and LOAD_PODS.
    :param what: ``node``, ``device`` or ``pod``.
    :param now: returns the tallies; a reset replaces them.
    """

    path: WebPath = field()  # without the default of its class
    what: str
    now: Callable[[], Tallies]

    def items(self, request: Request) -> Items[tuple[str, Tally]]:
        """Those that answered since the last reset, sorted by name."""
        tallies = self.now()
        return Items(
            list(tallies.items()),
            lambda _: lambda each: tally_value(self.what, *each),
            lambda each: (each[0], each[1].last_error),
            partial(_sort_key, tallies, self.what),
            exists=lambda _: tallies is self.now(),
        )


def _sort_key(tallies: Tallies, what: str, name: str) -> Callable[[tuple[str, Tally]], Any]:
    """What tallies are sorted by, without a description of each; the one of all other names is the last name."""
    if name.startswith(_RUN):
        point = name.removeprefix(_RUN)
        return lambda each: point_of(each[1].run, point)
    keys: dict[str, Callable[[tuple[str, Tally]], Any]] = {
        what: lambda each: (tallies.is_others(each[1]), in_order(each[0])),
        "answers": lambda each: each[1].answers,
        "failures": lambda each: each[1].failures,
        "last-error": lambda each: in_order(each[1].last_error),
    }
    return keys[name]


#: The highest rate that can be set.
MAX_PER_SECOND: Final = 100_000
#: The changes that a body may ask for, with what they are when they are not given.
_CHANGES: Final[dict[str, Any]] = {"reset": False, "parallel": None, "rate": None, "plan": ""}
_SHARES: Final = (0.5, 0.99)
_COLUMNS: Final = ("seconds", "started", "successes", "failures", "outstanding", "p50", "p99")


class LoadCollection(ApiResource):
    """All plans: shows them, changes them."""

    path = LOAD

    def __init__(self, tester: LoadTester) -> None:
        self._tester = tester

    def getChild(self, name: bytes, request: Request) -> ApiResource:
        drivers = self._tester.drivers
        driver = drivers.get(name.decode("utf-8", "replace"))
        return missing("plan", name, counted(list(drivers))) if driver is None else LoadPlan(self._tester, driver)

    def get(self, request: Request) -> Response:
        return json_response({
            "plans": [_described(driver) for driver in self._tester.drivers.values()],
            "statistics": statistics_values(
                self._tester.total, self._tester.now, self._tester.waiting, shown_names(request)
            ),
        })  # fmt: skip

    def post(self, request: Request, body: bytes) -> Response:
        """``{"reset": true}``, ``{"parallel": 8}``, ``{"rate": 20}``; ``plan`` names the plan to change."""
        tester, wanted = self._tester, _wanted(json_body(body))
        reset, parallel, rate, plan = (wanted[name] for name in _CHANGES)
        # Both raise UnknownPlan before anything changes.
        if parallel is not None:
            tester.parallel(plan)
        if rate is not None:
            tester.open_plan(plan)
        if reset:
            tester.reset()
        changed: dict[str, Any] = {"reset": reset}
        if parallel is not None:
            changed["parallel"] = tester.set_parallel(parallel, plan)
        if rate is not None:
            changed["rate"] = tester.set_rate(rate, plan)
        return json_response(changed)


def _wanted(fields: dict[str, Any]) -> dict[str, Any]:
    """The changes in a body.

    :raises HttpError: naming the field at fault.
    """
    wanted = _CHANGES | fields
    for name in fields:
        if name not in _CHANGES:
            text = f"{shown(name)}: there are reset, parallel, rate and plan"
            raise HttpError(400, text, "bad-argument", shown(name))
    if not isinstance(wanted["reset"], bool):
        raise HttpError(400, "reset must be true or false", "bad-argument", "reset")
    if not isinstance(wanted["plan"], str):
        raise HttpError(400, "plan must be the name of a plan", "bad-argument", "plan")
    if "parallel" in fields and type(wanted["parallel"]) is not int:
        raise HttpError(400, "parallel must be a whole number", "bad-argument", "parallel")
    if "rate" in fields and not (type(wanted["rate"]) in (int, float) and 0 <= wanted["rate"] <= MAX_PER_SECOND):
        text = f"rate must be a number of requests per second, from 0 to {MAX_PER_SECOND}"
        raise HttpError(400, text, "bad-argument", "rate")
    if not wanted["reset"] and wanted["parallel"] is None and wanted["rate"] is None:
        raise HttpError(400, 'nothing to do: give "reset": true, "parallel" or "rate"', "bad-argument", "body")
    return wanted


class LoadPlan(ApiResource):
    """One plan; its timeline and who answered its requests are below it."""

    path = LOAD_PLAN

    def __init__(self, tester: LoadTester, driver: PlanDriver) -> None:
        statistics = tester.statistics(driver.plan.name)
        self.putChild(b"timeline", ApiPage(partial(_timeline, tester, driver.plan.name)))
        self.putChild(b"nodes", AnswersBy(LOAD_NODES, "node", lambda: statistics.nodes))
        self.putChild(b"devices", AnswersBy(LOAD_DEVICES, "device", lambda: statistics.devices))
        self.putChild(b"pods", AnswersBy(LOAD_PODS, "pod", lambda: statistics.pods))
        self._tester = tester
        self._driver = driver

    def get(self, request: Request) -> Response:
        statistics = self._tester.statistics(self._driver.plan.name)
        values = statistics_values(statistics, self._tester.now, self._driver.waiting, shown_names(request))
        return json_response({**_described(self._driver), "statistics": values})


def _timeline(tester: LoadTester, plan: str) -> dict[str, Any]:
    """The load over time, for charts: a row for each step since the last reset.

    There are 240 rows at most: the steps get longer as the run does.
    """
    timeline, now = tester.statistics(plan).timeline, tester.now
    rows = [_step(seconds, step) for seconds, step in timeline.steps(now)]
    return {"step-seconds": timeline.step_seconds, "columns": _COLUMNS, "rows": rows}


def _step(seconds: float, step: Step) -> list[float | None]:
    points = [round(step.total.quantile(share), 6) if step.total.count else None for share in _SHARES]
    return [seconds, step.started, step.successes, step.failures, step.outstanding, *points]


def _described(driver: PlanDriver) -> dict[str, Any]:
    plan = driver.plan
    return {
        "plan": plan.name,
        "queue": plan.queue,
        "frontend": plan.frontend,
        "arguments": plan.arguments,
        "limit-seconds": plan.limit_seconds,
        "model": "open" if driver.parallel is None else "closed",
        "parallel": driver.parallel,
        "most-parallel": driver.plan.load.max_parallel if isinstance(driver.plan.load, ClosedLoad) else None,
        "rate": driver.rate,
    }
