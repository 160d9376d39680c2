"""The tester's web pages, as plain text, JSON or HTML, and our own metrics of the tester."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from html import escape
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from fakedev.base.histograms import JOB_BUCKETS
from fakedev.base.html import page
from fakedev.tester.load_run import LoadTester
from fakedev.tester.report import (
    node_spread_html,
    nodes_text,
    original_nodes_text,
    original_pods_text,
    original_statistics_text,
    pods_text,
    statistics_html,
    statistics_text,
    statistics_values,
    tallies_html,
    tally_values,
    totals,
)
from fakedev.tester.statistics import ALL
from fakedev.web.guard import refusal_of_page
from fakedev.web.http_limits import HttpError
from fakedev.web.items import page_of
from fakedev.web.metrics import histograms, labelled
from fakedev.web.paths import LOAD
from fakedev.web.query import argument
from fakedev.web.request import Request
from fakedev.web.resource import Folder, Resource
from fakedev.web.response import Response, json_response

_HTML: Final = "text/html; charset=utf-8"
#: The most nodes, devices and pods in one answer, which takes about 20 ms to write.
MAX_SHOWN: Final = 100
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,9}")
_LINKS: Final = ("stats", "nodes", "pods", "fails", "parallel", "reqs-per-sec")
#: The forms of the original's page.
_FORMS: Final = (
    '<form action="parallel"><label>Parallel requests: <input name="value" type="number" min="0"></label> '
    '<button>Set</button></form><form action="reset"><button>Reset the statistics</button></form>'
)
_WAY: Final = f"POST to {LOAD.template}: "


class Form(Enum):
    """The forms of a page."""

    PLAIN = "plain"
    JSON = "json"
    HTML = "html"


class LoadPage(Resource):
    """One of the tester's pages.

    :param changes: whether GET may change something here, as on the port of the original.
    :param answer: makes the page in a form, for a plan (empty for all); the first argument is the page.
    """

    def __init__(
        self, tester: LoadTester, changes: bool, answer: Callable[[LoadPage, Form, str, Request], Response]
    ) -> None:
        self.tester = tester
        self.changes = changes
        self.allow_head = not changes
        self._answer_in = answer

    def get(self, request: Request) -> Response:
        """The page in the form of ``type=``, HTML by default."""
        text = argument(request, "type") or Form.HTML.value
        if text not in (form.value for form in Form):
            if self.changes:  # as on the port of the original
                return self._answer_in(self, Form.HTML, argument(request, "plan"), request)
            raise HttpError(400, "type must be plain, json or html", "bad-argument", "type")
        return self._answer_in(self, Form(text), argument(request, "plan"), request)

    def refuse_change(self, request: Request, allowed: str, way: str) -> None:
        """Refuse a GET that would change something, where GET must not or this request must not.

        :raises HttpError: 405, with the request that is allowed; 403 for requests of foreign web pages.
        """
        if not self.changes:
            raise HttpError(405, f"GET changes nothing here: {_WAY}{way}", headers=[("Allow", allowed)])
        refusal = refusal_of_page(request.getHeader)
        if refusal is not None:
            raise refusal


def _rate(page: LoadPage, form: Form, plan: str, request: Request) -> Response:
    rate = page.tester.statistics(plan).rate(page.tester.now)
    return result(form, rate, "successful requests per second since the first one after the reset")


def _fails(page: LoadPage, form: Form, plan: str, request: Request) -> Response:
    return result(form, page.tester.statistics(plan).failed, "failed requests")


def _parallel(page: LoadPage, form: Form, plan: str, request: Request, *, resets: bool = False) -> Response:
    """/parallel and /parallelism: shows the number of parallel requests, or sets it by ``value=``.

    :param resets: whether setting it resets the statistics first.
    """
    text = argument(request, "value")
    parallel = page.tester.parallel(plan)
    if text:
        reset = '"reset": true, ' if resets else ""
        page.refuse_change(request, "GET, HEAD", f'{{{reset}"parallel": N}}')
        if not _WHOLE.fullmatch(text):
            raise HttpError(400, "value must be a whole number", "bad-argument", "value")
        if resets:
            page.tester.reset()
        parallel = page.tester.set_parallel(int(text), plan)
    return result(form, parallel, "requests in parallel")


def _reset(page: LoadPage, form: Form, plan: str, request: Request) -> Response:
    page.refuse_change(request, "", '{"reset": true}')
    page.tester.reset()
    return result(form, "Reseted", "the statistics start again from zero")


def _statistics(page: LoadPage, form: Form, plan: str, request: Request) -> Response:
    statistics, now, waiting = page.tester.statistics(plan), page.tester.now, page.tester.waiting
    title = _title("Requests", plan)
    if form is Form.JSON:
        return json_response(statistics_values(statistics, now, waiting, shown_names(request)))
    plain = statistics_text(title, statistics, now, waiting)
    if page.changes:
        answered = request.site.codes
        completed = sum(count for code, count in answered.items() if code < 400)
        parallel, rejected = page.tester.parallel(plan), sum(answered.values()) - completed
        plain = f"{original_statistics_text(statistics, now, parallel, completed, rejected)}\n{plain}"
    if form is Form.PLAIN:
        return _plain(plain)
    if page.changes:
        return _html(title, [_FORMS, f"<pre>{escape(plain)}</pre>"])
    return _html(title, statistics_html(statistics, now, waiting))


def _nodes(page: LoadPage, form: Form, plan: str, request: Request) -> Response:
    """/nodes: how the answers spread over nodes, and over the devices and pods of each."""
    statistics, which = page.tester.statistics(plan), shown_names(request)
    if form is Form.JSON:
        devices = tally_values("device", statistics.devices, which)
        nodes = tally_values("node", statistics.nodes, which)
        return json_response({"nodes": nodes, "devices": devices, "totals": totals(statistics)})
    if page.changes:
        return _plain(f"{original_nodes_text(statistics, which)}\n{nodes_text(statistics, which)}")
    if form is Form.PLAIN:
        return _plain(nodes_text(statistics, which))
    body = [*tallies_html("node", statistics.nodes, which), *tallies_html("device", statistics.devices, which)]
    return _html(_title("Nodes", plan), [*body, *node_spread_html(statistics, which)])


def _pods(page: LoadPage, form: Form, plan: str, request: Request) -> Response:
    """/pods: how the answers spread over pods."""
    statistics, which = page.tester.statistics(plan), shown_names(request)
    if form is Form.JSON:
        return json_response({"pods": tally_values("pod", statistics.pods, which), "totals": totals(statistics)})
    if page.changes:
        return _plain(f"{original_pods_text(statistics, which)}\n{pods_text(statistics, which)}")
    if form is Form.PLAIN:
        return _plain(pods_text(statistics, which))
    return _html(_title("Pods", plan), tallies_html("pod", statistics.pods, which))


_PAGES: Final[dict[str, Callable[[LoadPage, Form, str, Request], Response]]] = {
    "fails": _fails,
    "nodes": _nodes,
    "parallel": _parallel,
    "parallelism": partial(_parallel, resets=True),
    "pods": _pods,
    "reqs-per-sec": _rate,
    "reqs-per-seq": _rate,
    "reset": _reset,
    "stats": _statistics,
}


def make_load_pages(tester: LoadTester, *, changes: bool) -> dict[str, Resource]:
    """All pages by their names.

    :param changes: whether GET may change something, as on the port of the original.
    """
    return {name: LoadPage(tester, changes, answer) for name, answer in _PAGES.items()}


def make_tester_folder(tester: LoadTester) -> Folder:
    """/tester in the service's web tree, where GET changes nothing."""
    return Folder(errors_as_json=False, **make_load_pages(tester, changes=False))


def shown_names(request: Request) -> range:
    """The range of nodes, devices and pods that a query selects by limit and offset."""
    return range(*page_of(request, MAX_SHOWN).indices(len(ALL)))


def result(form: Form, value: float | str, info: str) -> Response:
    """A page with one value: alone, as an object, or as a sentence."""
    text = f"{value:.6f}" if isinstance(value, float) else str(value)
    if form is Form.PLAIN:
        return _plain(f"{text}\n")
    if form is Form.JSON:
        return json_response({"result": value, "info": info})
    return _html("fakedev tester", [f"<p>{escape(info)}: <strong>{escape(text)}</strong></p>"])


def _plain(text: str) -> Response:
    return Response(200, text.encode())


def _html(title: str, body: Sequence[Any]) -> Response:
    """A page with links to the others at its end."""
    links = " ".join(f'<a href="{name}">{name}</a>' for name in _LINKS)
    return Response(200, page(title, [*body, f"<p>{links}</p>"]).encode(), _HTML)


def _title(what: str, plan: str) -> str:
    return f"{what} of plan {plan}" if plan else what


#: The counters of a plan, with the attributes of its statistics.
_COUNTERS: Final = (
    ("started", "started_count", "Requests sent."),
    ("withdrawn", "withdrawn", "Requests taken back, since the parallelism was lowered."),
    ("late", "late", "Requests that started more than 10 ms after their time."),
    ("dropped", "dropped", "Arrivals for which no request was made: too many waited, or the run was over."),
    ("reconnects", "reconnects", "Connections made again."),
)


def load_metrics(tester: LoadTester) -> Iterable[Metric]:
    """Each plan's requests. A reset of the statistics resets these counters, as a restart would."""
    drivers = tester.drivers
    by_plan = {plan: tester.statistics(plan) for plan in drivers}
    for name, attribute, text in _COUNTERS:
        counts = {plan: getattr(statistics, attribute) for plan, statistics in by_plan.items()}
        yield labelled(CounterMetricFamily, f"fakedev_tester_{name}", text, "plan", counts)
    ended = CounterMetricFamily("fakedev_tester_requests", "Requests that are over.", labels=["plan", "outcome"])
    for plan, statistics in by_plan.items():
        ended.add_metric([plan, "success"], statistics.successes)
        for outcome, count in statistics.failures.items():
            ended.add_metric([plan, outcome.value], count)
    yield ended
    outstanding = {plan: statistics.outstanding for plan, statistics in by_plan.items()}
    waiting = {plan: driver.waiting for plan, driver in drivers.items()}
    parallel = {plan: driver.parallel for plan, driver in drivers.items() if driver.parallel is not None}
    yield labelled(GaugeMetricFamily, "fakedev_tester_outstanding", "Requests under way.", "plan", outstanding)
    yield labelled(GaugeMetricFamily, "fakedev_tester_waiting", "Arrivals that wait.", "plan", waiting)
    yield labelled(GaugeMetricFamily, "fakedev_tester_parallel", "Requests that should be under way.", "plan", parallel)
    times = {plan: statistics.timings["total"].histogram(JOB_BUCKETS) for plan, statistics in by_plan.items()}
    text = "From the intended start to the answer of a backend."
    yield histograms("fakedev_tester_request_duration_seconds", text, "plan", times)


def query_metrics(codes: Mapping[int, int]) -> Iterable[Metric]:
    """Queries to the control port.

    :param codes: answers by status.
    """
    completed = sum(count for code, count in codes.items() if code < 400)
    counts = {"completed": completed, "refused": sum(codes.values()) - completed}
    text = "Queries to the control port, by what became of them."
    yield labelled(CounterMetricFamily, "fakedev_tester_queries", text, "result", counts)
