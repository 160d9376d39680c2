"""The tester's HTTP: the original's paths on a separate port, and the service's tree, where GET changes nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from html import unescape
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text
from twisted.internet.task import Clock

from fakedev.api.tester import LoadCollection
from fakedev.queues.job import Answer, Outcome
from fakedev.tester.driver import PlanDriver
from fakedev.tester.load_run import LoadTester
from fakedev.tester.pages import load_metrics, make_load_pages, make_tester_folder, query_metrics
from fakedev.tester.plan import ClosedLoad, Plan
from fakedev.tester.statistics import MAX_NAMES
from fakedev.web.http_limits import DROP_IN_LIMITS
from fakedev.web.metrics import OwnMetrics, OwnMetricsResource
from fakedev.web.resource import Folder
from fakedev.web.site import Site
from tests.support.wire.http_wire import Answer as HttpAnswer
from tests.support.wire.http_wire import Peer
from tests.tester.test_service import OPEN, FakeRequests

MARKUP = "<script>alert(1)</script>"
PLAN = Plan("sleep", "sleep", ClosedLoad(1, 8), "localhost:9997")


class PageCase:
    """A tester in memory, and both trees over it."""

    plans: tuple[Plan, ...] = (PLAN,)

    def setup_method(self) -> None:
        """The tester has one request under way."""
        self.clock = Clock()
        self.clock.advance(1000.0)
        self.ways: dict[str, FakeRequests] = {}
        self.tester = LoadTester(self.plans, self.make, self.clock)
        self.tester.startService()
        self.own = Site(self.root(), self.clock, limits=DROP_IN_LIMITS)
        groups = {"tester": partial(load_metrics, self.tester), "queries": partial(query_metrics, self.own.codes)}
        metrics = OwnMetrics(lambda: groups)
        self.own.resource.putChild(b"-", Folder(metrics=OwnMetricsResource(metrics)))
        api = Folder(errors_as_json=True, tester=LoadCollection(self.tester))
        service = Folder(tester=make_tester_folder(self.tester), api=Folder(errors_as_json=True, v1=api))
        self.service = Site(service, self.clock)

    def root(self) -> Folder:
        return Folder(**make_load_pages(self.tester, changes=True))

    def make(self, plan: Plan, asker: PlanDriver) -> Any:
        self.ways[plan.name] = FakeRequests(plan, asker)
        return self.ways[plan.name]

    def run_some(self, count: int = 3) -> None:
        """Answer some requests in half a second each, and fail one, with markup in every text."""
        way = self.ways["sleep"]
        answer = Answer(Outcome.SUCCESS, 0, "", 0.0, 0.5, 0.0, MARKUP, MARKUP, MARKUP)
        for _ in range(count):
            self.clock.advance(0.5)
            way.answer(1, answer)
        way.answer(1, replace(answer, outcome=Outcome.FAILURE, exit_code=1, error=MARKUP))

    def ask(self, site: Site, text: str, body: bytes = b"") -> HttpAnswer:
        """The answer to a request: METHOD PATH."""
        peer = Peer(site)
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        head = text.startswith("HEAD")
        return peer.ask(f"{text} HTTP/1.1\r\nHost: localhost\r\n{length}\r\n".encode() + body, head=head)

    def get(self, path: str, status: int = 200) -> str:
        """What the original's port says."""
        answer = self.ask(self.own, f"GET {path}")
        assert answer.status == status, answer.body
        return answer.body.decode()


class TestOriginal(PageCase):
    """The port of the original."""

    def test_pages_of_one_value(self) -> None:
        """Plain as scripts read them, the value and a line end; JSON is an object with the value and what it is."""
        self.run_some()
        for path, plain, value in (
            ("/fails", "1", 1), ("/parallel", "1", 1), ("/reqs-per-sec", "2.000000", 2.0),
            ("/reqs-per-seq", "2.000000", 2.0), ("/reset", "Reseted", "Reseted"),
        ):  # fmt: skip
            found = json.loads(self.get(f"{path}?type=json"))
            assert (found["result"], list(found)) == (value, ["result", "info"])
            assert self.get(f"{path}?type=plain") == f"{plain}\n"
        assert json.loads(self.get("/parallel?type=json"))["info"] == "requests in parallel"

    def test_every_page_has_every_form(self) -> None:
        """Each says what it is; /nodes and /pods are never HTML, and an unknown type is none, as in the original."""
        self.run_some()
        kinds = {"plain": "text/plain", "json": "application/json", "html": "text/html", "": "text/html"}
        kinds["xml"] = kinds["html"]
        for name in make_load_pages(self.tester, changes=True):
            for form, usual in kinds.items():
                kind = "text/plain" if name in ("nodes", "pods") and form != "json" else usual
                answer = self.ask(self.own, f"GET /{name}" + (f"?type={form}" if form else ""))
                assert answer.status == 200
                assert kind in answer.headers["content-type"]
                if form == "json":
                    json.loads(answer.body)
                if kind == "text/html":
                    assert b'<a href="stats">' in answer.body

    def test_setting_the_parallelism(self) -> None:
        """Held to what is allowed; the answer is what was set, and it takes effect at once."""
        for value, expected in (("4", "4"), ("99", "8"), ("-3", "0"), ("%2B2", "2")):
            assert self.get(f"/parallel?type=plain&value={value}") == f"{expected}\n"
            assert len(self.ways["sleep"].under_way) == int(expected)

    def test_other_web_pages_change_nothing(self) -> None:
        """A picture in another web page is a GET without an Origin; the original's scripts send neither header."""
        self.run_some()
        for header in ("Sec-Fetch-Site: cross-site", "Origin: http://other.example"):
            for path in ("/parallel?value=4", "/parallelism?value=4", "/reset"):
                text = f"GET {path} HTTP/1.1\r\nHost: tester.example\r\n{header}\r\n\r\n"
                assert Peer(self.own).ask(text.encode()).status == 403
        assert self.tester.total.successes == 3 and self.get("/parallel?type=plain") == "1\n"
        assert Peer(self.own).ask(b"GET /reset HTTP/1.1\r\nHost: tester.example\r\n\r\n").status == 200

    def test_parallel_keeps_the_statistics_and_parallelism_resets_them(self) -> None:
        self.run_some()
        self.get("/parallel?value=2")
        assert self.tester.total.successes == 3
        self.get("/parallelism")
        assert self.tester.total.successes == 3
        assert self.get("/parallelism?type=plain&value=3") == "3\n"
        assert (self.tester.total.successes, self.tester.total.pending) == (0, 1)

    def test_a_reset_under_load(self) -> None:
        """Nothing is negative, nothing is huge."""
        self.get("/parallel?value=5")
        self.get("/reset")
        values = json.loads(self.get("/stats?type=json"))
        assert (values["outstanding"], values["pending"], values["started"]) == (5, 0, 0)
        self.ways["sleep"].answer(5)
        values = json.loads(self.get("/stats?type=json"))
        assert (values["outstanding"], values["pending"], values["completed"]) == (5, 5, 0)

    def test_the_text_of_stats_nodes_and_pods(self) -> None:
        """The original's rows first, then ours: titles underlined with =, histograms of #."""
        self.run_some()
        text = self.get("/stats?type=plain")
        assert text.startswith("\n\nOverall request / reply statistics\n=====")
        assert "\nRequests\n========\n" in text
        page = self.get("/stats")
        assert '<form action="parallel">' in page and '<form action="reset">' in page
        shown = unescape(page.partition("<pre>")[2].partition("</pre>")[0])
        without_queries = [line for line in shown.splitlines() if "HTTP queries" not in line]
        assert without_queries == [line for line in text.splitlines() if "HTTP queries" not in line]
        bar = "#" * 60
        for path in ("/nodes", "/pods"):
            text = self.get(path)
            assert text == self.get(f"{path}?type=plain") == self.get(f"{path}?type=html")
            assert f"{MARKUP} | {bar} 100.0% (3)\n" in text
            assert f"{MARKUP} | {bar} 100.0% (4)\n" in text
            assert text.startswith("\n\n")

    def test_markup_is_shown_as_text(self) -> None:
        """Nodes, pods, devices and errors that hold some: none of it is markup in any page."""
        self.run_some()
        pages = [(self.service, f"/tester/{name}") for name in ("stats", "nodes", "pods")]
        for site, path in [(self.own, "/stats"), *pages]:
            page = self.ask(site, f"GET {path}").body.decode()
            assert MARKUP not in page
            assert "&lt;script&gt;" in page

    def test_many_nodes_come_in_parts(self) -> None:
        """A hundred at a time, so that a large fleet delays no other request; shares are of all answers."""
        way = self.ways["sleep"]
        for number in range(200):
            way.answer(1, Answer(Outcome.SUCCESS, 0, node=f"n{number:03}", pod=f"p{number:03}", device="d"))
        told = json.loads(self.get("/stats?type=json"))
        assert told["totals"] == {"nodes": 200, "devices": 200, "pods": 200}
        assert [len(told[what]) for what in ("nodes", "devices", "pods")] == [100] * 3
        text = self.get("/nodes?type=plain&limit=50&offset=40")
        assert "n040 | 0.5% (1)\n" in text
        assert "n089 | 0.5% (1)\n110 more: offset=90\n" in text
        assert "\n100 more: offset=100\n" in self.get("/pods")
        assert "more: offset" not in self.get("/pods?offset=100")
        last = json.loads(self.get("/nodes?type=json&offset=199"))["nodes"]
        assert [node["node"] for node in last] == ["n199"]
        assert "limit must be a whole number from 0 to 100" in self.get("/nodes?limit=101", 400)

    def test_what_cannot_be_answered(self) -> None:
        answer = self.ask(self.service, "GET /tester/stats?type=xml")
        assert (answer.status, b"type must be" in answer.body) == (400, True)
        assert "value must be a whole number" in self.get("/parallel?value=many", 400)
        assert "no plan 'other'" in self.get("/stats?plan=other", 400)
        self.get("/other", 404)
        self.get("/stats/more", 404)

    def test_everything_but_get_is_refused_and_counted(self) -> None:
        """Methods, bodies, long heads; completed and refused queries are both counted."""
        for request, status in (
            ("POST /stats", 405), ("HEAD /reset", 405), ("PUT /stats", 405), (f"GET /stats?{'x' * 5000}", 414),
        ):  # fmt: skip
            assert self.ask(self.own, request).status == status, request[:20]
        assert self.ask(self.own, "GET /reset", b"body").status == 400
        assert self.tester.total.started_count == 1
        self.get("/stats")
        samples = {
            (sample.name, sample.labels.get("result")): sample.value
            for family in parse_text(self.get("/-/metrics"))
            for sample in family.samples
        }
        assert samples["fakedev_tester_queries_total", "completed"] == 1
        assert samples["fakedev_tester_queries_total", "refused"] == 5

    def test_own_metrics(self) -> None:
        """Requests by outcome, and how long they took, in buckets."""
        self.run_some()
        samples = {
            (sample.name, sample.labels.get("outcome") or sample.labels.get("le")): sample.value
            for family in parse_text(self.get("/-/metrics"))
            for sample in family.samples
        }
        assert samples["fakedev_tester_requests_total", "success"] == 3
        assert samples["fakedev_tester_requests_total", "failure"] == 1
        buckets = [samples["fakedev_tester_request_duration_seconds_bucket", le] for le in ("0.25", "0.5", "+Inf")]
        assert buckets == [1, 4, 4]
        assert samples["fakedev_tester_outstanding", None] == 1
        assert samples["fakedev_collector_success", None] == 1


class TestService(PageCase):
    """The service's own tree."""

    plans = (PLAN, OPEN)

    def test_get_tells_and_changes_nothing(self) -> None:
        """A GET that would change something is answered 405, with the way."""
        assert self.ask(self.service, "GET /tester/parallel?type=plain").body == b"1\n"
        assert self.ask(self.service, "HEAD /tester/stats").status == 200
        for path, allowed, fields in (
            ("reset", "", '{"reset": true}'), ("parallel?value=3", "GET, HEAD", '{"parallel": N}'),
            ("parallelism?value=3", "GET, HEAD", '{"reset": true, "parallel": N}'),
        ):  # fmt: skip
            answer = self.ask(self.service, f"GET /tester/{path}")
            assert (answer.status, answer.headers["allow"]) == (405, allowed)
            assert f"POST to /api/v1/tester: {fields}" in answer.body.decode()
        assert self.tester.parallel() == 1

    def test_plans_and_their_statistics(self) -> None:
        self.run_some()
        found = json.loads(self.ask(self.service, "GET /api/v1/tester").body)
        assert [(plan["plan"], plan["model"]) for plan in found["plans"]] == [("sleep", "closed"), ("open", "open")]
        one = json.loads(self.ask(self.service, "GET /api/v1/tester/sleep").body)
        assert (one["parallel"], one["statistics"]["failures"]["total"]) == (1, 1)
        assert self.ask(self.service, "GET /api/v1/tester/other").status == 404
        page = self.ask(self.service, "GET /tester/stats?plan=open").body
        assert b"Requests of plan open" in page

    def test_changes_are_posts(self) -> None:
        self.run_some()
        answer = self.ask(self.service, "POST /api/v1/tester", b'{"parallel": 4, "plan": "sleep"}')
        assert json.loads(answer.body) == {"reset": False, "parallel": 4}
        assert self.tester.total.successes == 3
        answer = self.ask(self.service, "POST /api/v1/tester", b'{"parallel": 99, "reset": true}')
        assert json.loads(answer.body) == {"reset": True, "parallel": 8}
        assert self.tester.total.successes == 0

    def test_rate_of_an_open_plan(self) -> None:
        before = json.loads(self.ask(self.service, "GET /api/v1/tester").body)["plans"]
        assert [plan["rate"] is None for plan in before] == [True, False]
        answer = self.ask(self.service, "POST /api/v1/tester", b'{"rate": 7.5}')
        assert json.loads(answer.body) == {"reset": False, "rate": 7.5}
        assert json.loads(self.ask(self.service, "GET /api/v1/tester/open").body)["rate"] == 7.5

    def test_timeline(self) -> None:
        """A row for each second since the reset, with the times of those that ended in it."""
        self.run_some()
        course = json.loads(self.ask(self.service, "GET /api/v1/tester/sleep/timeline").body)
        assert course["step-seconds"] == 1
        rows = [dict(zip(course["columns"], row, strict=True)) for row in course["rows"]]
        assert [row["seconds"] for row in rows] == list(range(len(rows)))
        assert sum(row["successes"] + row["failures"] for row in rows) == 4
        assert all((row["p50"] is None) == (row["successes"] == 0) for row in rows)

    def test_lists_of_those_that_answered(self) -> None:
        """Of each plan: the same values as in its statistics, in any order and part; a reset empties them."""
        self.run_some()
        way = self.ways["sleep"]
        for number in range(11):
            way.answer(1, Answer(Outcome.SUCCESS, 0, node=f"n{number}", pod="p", device="d"))
        told = json.loads(self.ask(self.service, "GET /api/v1/tester/sleep").body)["statistics"]
        for what in ("nodes", "devices", "pods"):
            found = self.answered(f"sleep/{what}")
            assert (found[what], found["total"]) == (told[what], told["totals"][what])
            assert self.answered(f"open/{what}") == {what: [], "total": 0}
        assert self.answered("sleep/nodes?limit=0") == {"nodes": [], "total": 12}
        some = self.answered("sleep/nodes?search=N1&sort=-node")
        assert ([node["node"] for node in some["nodes"]], some["total"]) == (["n10", "n1"], 2)
        assert some["nodes"][0]["pods"] == {"p": 1}
        self.tester.reset()
        assert self.answered("sleep/pods") == {"pods": [], "total": 0}
        assert self.ask(self.service, "HEAD /api/v1/tester/sleep/nodes").status == 200
        for path, status in (("other/nodes", 404), ("sleep/tallies", 404), ("sleep/nodes/n1", 404),
                             ("sleep/nodes?limit=501", 400), ("sleep/pods?sort=node", 400)):  # fmt: skip
            assert self.ask(self.service, f"GET /api/v1/tester/{path}").status == status, path

    @pytest.mark.slow
    def test_all_other_names_are_the_last(self) -> None:
        """Names beyond the limit share an entry, which no name can hide: it is last in the order of names."""
        for number in range(MAX_NAMES + 5):
            self.ways["sleep"].answer(1, Answer(Outcome.SUCCESS, 0, node=f"n{number}", pod="(others)", device="d"))
        for query in ("offset=4000", "offset=4000&sort=node"):
            found = self.answered(f"sleep/nodes?{query}")
            assert found["total"] == MAX_NAMES + 1
            last = found["nodes"][-1]
            assert (last["node"], last["answers"], last["pods"]) == ("(others)", 5, {"(others)": 5})
        assert self.answered("sleep/nodes?sort=-node&limit=1")["nodes"] == [last]

    def answered(self, path: str) -> Any:
        return json.loads(self.ask(self.service, f"GET /api/v1/tester/{path}").body)

    def test_what_cannot_be_posted(self) -> None:
        self.run_some()
        for body, reason in (
            (b"[]", "must be a JSON object"),
            (b"{}", "nothing to do"),
            (b'{"reset": 1}', "reset must be true or false"),
            (b'{"parallel": "4"}', "parallel must be a whole number"),
            (b'{"parallel": true}', "parallel must be a whole number"),
            (b'{"paralel": 4}', "there are reset, parallel, rate and plan"),
            (b'{"reset": true, "parallel": 4, "plan": "open"}', "open model"),
            (b'{"rate": "4"}', "rate must be a number"),
            (b'{"rate": -1}', "rate must be a number"),
            (b'{"rate": 1e9}', "rate must be a number"),
            (b'{"reset": true, "rate": 4, "plan": "sleep"}', "closed model"),
            (b'{"reset": true, "parallel": 4, "plan": "other"}', "no plan 'other'"),
        ):
            answer = self.ask(self.service, "POST /api/v1/tester", body)
            assert answer.status == 400
            assert reason in json.loads(answer.body)["error"]["message"]
        assert self.tester.total.successes == 3
