"""Samples of pages, compared with what a real Prometheus stores of them."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.web.resource import Resource
from twisted.web.server import Site

from fakedev.scenario.samples.series import TargetSamples
from tests.exporters.real.test_prometheus import prometheus
from tests.support.programs.asynchronous import eventually, fetch
from tests.support.programs.processes import StartAsync

#: What each scrape in turn gets; None: an error.
PAGES: Final = (
    b'# TYPE a gauge\na{x="1",b="2"} 5\na{x="2",} 6.5e3\nb +Inf\n',
    b'a{x="1",b="2"} 7\nc{job="j",exported_job="k",instance=""} 1\n',
    None,
    b'a{x="1",b="2"} 8\na{x="1",b="2"} 9\n\nb\t1\n',
    b'a{x="1"} 1\nb 1 oops\n',
    None,
    b'a{x="1",b="2"} 10\nnew{l="\\"q\\\\ \\n}{,=#"} 1\n',
    b'a{x="1",b="2"} 11\nnew{l="\\"q\\\\ \\n}{,=#"} 2\n',
)
#: The duration of a scrape is its own; what is counted of a page that is not well formed differs.
_OTHERS: Final = frozenset(("scrape_duration_seconds",))
_REPORT: Final = frozenset(("scrape_samples_scraped", "scrape_samples_post_metric_relabeling", "scrape_series_added"))
_MALFORMED: Final = 4


class Pages(Resource):  # type: ignore[misc]
    """A target with the pages, one after the other; then the last one."""

    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self.served = 0

    def render_GET(self, request: Any) -> bytes:
        page = PAGES[min(self.served, len(PAGES) - 1)]
        self.served += 1
        if page is None:
            request.setResponseCode(500)
            return b""
        request.setHeader("Content-Type", "text/plain; version=0.0.4")
        return page


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.requires_program("prometheus")
@pytest_twisted.ensureDeferred
async def test_against_a_real_prometheus(start_async: StartAsync, tmp_path: Path) -> None:
    """Series, values, and the series of the scrapes are the same."""
    pages, real = Pages(), reactor
    site = Site(pages)
    site.noisy = False
    port = real.listenTCP(0, site, interface="127.0.0.1")  # type: ignore[attr-defined]
    address = f"127.0.0.1:{port.getHost().port}"
    scrapes = f"- {{job_name: j0, static_configs: [{{targets: ['{address}']}}]}}\n"
    server = await prometheus(start_async, tmp_path, scrapes, "1s")
    stored: dict[str, list[str]] = {}

    async def has_all() -> bool:
        stored.clear()
        every = quote('{job="j0"}[1h]')
        for each in json.loads((await fetch(server, f"/api/v1/query?query={every}")).body)["data"]["result"]:
            labels = {name: value for name, value in each["metric"].items() if name != "__name__"}
            name = json.dumps([each["metric"]["__name__"], sorted(labels.items())])
            stored[name] = [value for _, value in each["values"]]
        ups = stored.get(json.dumps(["up", [["instance", address], ["job", "j0"]]]), [])
        return len(ups) >= len(PAGES)

    await eventually(has_all, "all pages are scraped")
    await port.stopListening()
    ours: dict[str, list[str]] = defaultdict(list)
    target = TargetSamples({"job": "j0", "instance": address})
    for number, page in enumerate(PAGES):
        found = target.scrape(page)
        for series, value in zip(found.series, found.values, strict=True):
            text = f"{float(value):g}".replace("inf", "+Inf")
            is_counted = series.name in _REPORT and number == _MALFORMED
            ours[json.dumps([series.name, series.labels])].append("any" if is_counted else text)
    assert set(ours) == set(stored)
    for name, values in ours.items():
        if json.loads(name)[0] not in _OTHERS:
            theirs = [
                "any" if value == "any" else f"{float(other):g}".replace("inf", "+Inf")
                for value, other in zip(values, stored[name], strict=False)
            ]
            assert theirs == values, name
