"""/api/v1/tester: the load of this service's tester."""

from __future__ import annotations

from typing import Any

from twisted.web.resource import Resource

from fakedev.net.api_base import ApiResource, json_body
from fakedev.net.http_request import GuardedRequest
from fakedev.net.http_response import HttpError, Response, json_response
from fakedev.net.tester_driver import PlanDriver
from fakedev.net.tester_pages import shown_names
from fakedev.net.tester_service import LoadTester, UnknownPlan
from fakedev.tester.report_values import statistics_values


class LoadCollection(ApiResource):
    """All plans: look at them, change them."""

    def __init__(self, tester: LoadTester) -> None:
        super().__init__()
        self._tester = tester

    def getChild(self, path: bytes, request: GuardedRequest) -> Resource:
        """One plan."""
        driver = self._tester.drivers.get(path.decode("utf-8", "replace"))
        return super().getChild(path, request) if driver is None else LoadPlan(self._tester, driver)

    def get(self, request: GuardedRequest) -> Response:
        """All plans, and the statistics of all together."""
        return json_response({
            "plans": [_described(driver) for driver in self._tester.drivers.values()],
            "statistics": statistics_values(
                self._tester.total, self._tester.now, self._tester.waiting, shown_names(request)
            ),
        })  # fmt: skip

    def post(self, request: GuardedRequest, body: bytes) -> Response:
        """``{"reset": true}``, ``{"parallel": 8}`` or both; ``plan`` says whose number."""
        fields = json_body(body)
        reset, parallel, plan = fields.get("reset", False), fields.get("parallel"), fields.get("plan", "")
        for name in fields:
            if name not in ("reset", "parallel", "plan"):
                raise HttpError(400, f"{name[:100]}: there are reset, parallel and plan", "bad-argument", name[:100])
        if not isinstance(reset, bool):
            raise HttpError(400, "reset must be true or false", "bad-argument", "reset")
        if not isinstance(plan, str):
            raise HttpError(400, "plan must be the name of a plan", "bad-argument", "plan")
        is_number = isinstance(parallel, int) and not isinstance(parallel, bool)
        if "parallel" in fields and not is_number:
            raise HttpError(400, "parallel must be a whole number", "bad-argument", "parallel")
        if not reset and not is_number:
            raise HttpError(400, 'nothing to do: give "reset": true, or "parallel"', "bad-argument", "body")
        try:
            return json_response(self._changed(reset, parallel, plan))
        except UnknownPlan as reason:
            raise HttpError(400, str(reason), "unknown-name", "plan") from None

    def _changed(self, reset: bool, parallel: int | None, plan: str) -> dict[str, Any]:
        if parallel is not None:
            self._tester.parallel(plan)  # nothing is reset when there is no such plan
        if reset:
            self._tester.reset()
        if parallel is None:
            return {"reset": True}
        return {"reset": reset, "parallel": self._tester.set_parallel(parallel, plan)}


class LoadPlan(ApiResource):
    """One plan."""

    isLeaf = True

    def __init__(self, tester: LoadTester, driver: PlanDriver) -> None:
        super().__init__()
        self._tester = tester
        self._driver = driver

    def get(self, request: GuardedRequest) -> Response:
        """What it does, and its statistics."""
        statistics = self._tester.statistics(self._driver.plan.name)
        values = statistics_values(statistics, self._tester.now, self._driver.waiting, shown_names(request))
        return json_response({**_described(self._driver), "statistics": values})


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
    }
