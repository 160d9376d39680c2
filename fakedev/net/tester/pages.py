"""The tester's pages: each as plain text, JSON or HTML."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from html import escape
from typing import Any, Final

from fakedev.net.http.api import argument, page_of
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.resource import Folder, GuardedResource
from fakedev.net.http.response import HttpError, Response, json_response
from fakedev.net.tester.service import LoadTester, UnknownPlan
from fakedev.spec.web_paths import LOAD
from fakedev.tester.report_html import node_spread_html, page, statistics_html, tallies_html
from fakedev.tester.report_text import nodes_text, pods_text, statistics_text
from fakedev.tester.report_values import node_values, statistics_values, tally_values, totals
from fakedev.tester.statistics import Statistics
from fakedev.tester.tallies import ALL

_HTML: Final = "text/html; charset=utf-8"
#: The most nodes, devices and pods in one answer, which takes about 20 ms to write.
_MAX_SHOWN: Final = 100
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,9}")
_WAY: Final = f"POST to {LOAD.template}: "


class Form(Enum):
    """The forms of a page."""

    PLAIN = "plain"
    JSON = "json"
    HTML = "html"


class LoadPage(GuardedResource, ABC):
    """The base of the tester's pages: forms and plans.

    :param changes: whether GET may change something here, as on the port of the original.
    """

    def __init__(self, tester: LoadTester, changes: bool) -> None:
        super().__init__()
        self.tester = tester
        self.changes = changes
        self.allow_head = not changes

    def get(self, request: GuardedRequest) -> Response:
        """The page in the form of ``type=``, HTML by default."""
        text = argument(request, "type") or Form.HTML.value
        if text not in (form.value for form in Form):
            raise HttpError(400, "type must be plain, json or html", "bad-argument", "type")
        try:
            return self.answer(Form(text), argument(request, "plan"), request)
        except UnknownPlan as reason:
            raise HttpError(400, str(reason), "unknown-name", "plan") from None

    @abstractmethod
    def answer(self, form: Form, plan: str, request: GuardedRequest) -> Response:
        """The page."""

    def refuse_change(self, allowed: str, way: str) -> None:
        """Refuse a GET that would change something, where GET must not.

        :raises HttpError: 405, with the request that is allowed.
        """
        if not self.changes:
            raise HttpError(405, f"GET changes nothing here: {_WAY}{way}", headers=[("Allow", allowed)])


class NumberPage(LoadPage):
    """A page with one number.

    :param read: returns the number, from the statistics and their time.
    :param info: its meaning, in words.
    """

    def __init__(
        self, tester: LoadTester, changes: bool, read: Callable[[Statistics, float], float], info: str
    ) -> None:
        super().__init__(tester, changes)
        self._read = read
        self._info = info

    def answer(self, form: Form, plan: str, request: GuardedRequest) -> Response:
        """The page."""
        return result(form, self._read(self.tester.statistics(plan), self.tester.now), self._info)


class ParallelPage(LoadPage):
    """/parallel and /parallelism: shows the number of parallel requests, or sets it by ``value=``.

    :param resets: whether setting it resets the statistics first.
    """

    def __init__(self, tester: LoadTester, changes: bool, resets: bool) -> None:
        super().__init__(tester, changes)
        self._resets = resets

    def answer(self, form: Form, plan: str, request: GuardedRequest) -> Response:
        """The page."""
        text = argument(request, "value")
        parallel = self.tester.parallel(plan)
        if text:
            reset = '"reset": true, ' if self._resets else ""
            self.refuse_change("GET, HEAD", f'{{{reset}"parallel": N}}')
            if not _WHOLE.fullmatch(text):
                raise HttpError(400, "value must be a whole number", "bad-argument", "value")
            if self._resets:
                self.tester.reset()
            parallel = self.tester.set_parallel(int(text), plan)
        return result(form, parallel, "requests in parallel")


class ResetPage(LoadPage):
    """/reset: resets all statistics."""

    def answer(self, form: Form, plan: str, request: GuardedRequest) -> Response:
        """The page."""
        self.refuse_change("", '{"reset": true}')
        self.tester.reset()
        return result(form, "Reseted", "the statistics begin anew")


class StatisticsPage(LoadPage):
    """/stats: all statistics."""

    def answer(self, form: Form, plan: str, request: GuardedRequest) -> Response:
        """The page."""
        statistics, now, waiting = self.tester.statistics(plan), self.tester.now, self.tester.waiting
        title = _title("Requests", plan)
        if form is Form.JSON:
            return json_response(statistics_values(statistics, now, waiting, shown_names(request)))
        if form is Form.PLAIN:
            return _plain(statistics_text(title, statistics, now, waiting))
        return _html(title, [*statistics_html(statistics, now, waiting), _links()])


class NodesPage(LoadPage):
    """/nodes: how the answers spread over nodes, and over the devices and pods of each."""

    def answer(self, form: Form, plan: str, request: GuardedRequest) -> Response:
        """The page."""
        statistics, which = self.tester.statistics(plan), shown_names(request)
        if form is Form.JSON:
            devices = tally_values("device", statistics.devices, which)
            nodes = node_values(statistics, which)
            return json_response({"nodes": nodes, "devices": devices, "totals": totals(statistics)})
        if form is Form.PLAIN:
            return _plain(nodes_text(statistics, which))
        body = [*tallies_html("node", statistics.nodes, which), *tallies_html("device", statistics.devices, which)]
        return _html(_title("Nodes", plan), [*body, *node_spread_html(statistics, which), _links()])


class PodsPage(LoadPage):
    """/pods: how the answers spread over pods."""

    def answer(self, form: Form, plan: str, request: GuardedRequest) -> Response:
        """The page."""
        statistics, which = self.tester.statistics(plan), shown_names(request)
        if form is Form.JSON:
            return json_response({"pods": tally_values("pod", statistics.pods, which), "totals": totals(statistics)})
        if form is Form.PLAIN:
            return _plain(pods_text(statistics, which))
        return _html(_title("Pods", plan), [*tallies_html("pod", statistics.pods, which), _links()])


def make_load_pages(tester: LoadTester, *, changes: bool) -> dict[str, GuardedResource]:
    """All pages by their names.

    :param changes: whether GET may change something, as on the port of the original.
    """

    def rate(statistics: Statistics, now: float) -> float:
        return statistics.rate(now)

    def fails(statistics: Statistics, now: float) -> int:
        return statistics.failed

    per_second = "successful requests per second since the first one after the reset"
    return {
        "fails": NumberPage(tester, changes, fails, "failed requests"),
        "nodes": NodesPage(tester, changes),
        "parallel": ParallelPage(tester, changes, resets=False),
        "parallelism": ParallelPage(tester, changes, resets=True),
        "pods": PodsPage(tester, changes),
        "reqs-per-sec": NumberPage(tester, changes, rate, per_second),
        "reqs-per-seq": NumberPage(tester, changes, rate, per_second),
        "reset": ResetPage(tester, changes),
        "stats": StatisticsPage(tester, changes),
    }


def make_tester_folder(tester: LoadTester) -> Folder:
    """/tester in the service's web tree, where GET changes nothing."""
    return Folder(errors_as_json=False, **make_load_pages(tester, changes=False))


def shown_names(request: GuardedRequest) -> range:
    """The range of nodes, devices and pods that a query selects by limit and offset."""
    return page_of(request, len(ALL), _MAX_SHOWN)


def result(form: Form, value: float | str, info: str) -> Response:
    """A page with one value: alone, as an object, or as a sentence."""
    text = f"{value:.6f}" if isinstance(value, float) else str(value)
    if form is Form.PLAIN:
        return _plain(f"{text}\n")
    if form is Form.JSON:
        return json_response({"result": value, "info": info})
    return _html("fakedev tester", [f"<p>{escape(info)}: <strong>{escape(text)}</strong></p>", _links()])


def _plain(text: str) -> Response:
    return Response(200, text.encode())


def _html(title: str, body: Sequence[Any]) -> Response:
    return Response(200, page(title, body).encode(), _HTML)


def _title(what: str, plan: str) -> str:
    return f"{what} of plan {plan}" if plan else what


def _links() -> str:
    names = ("stats", "nodes", "pods", "fails", "parallel", "reqs-per-sec")
    return "<p>" + " ".join(f'<a href="{name}">{name}</a>' for name in names) + "</p>"
