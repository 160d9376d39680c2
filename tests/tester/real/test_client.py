"""fakedev-client as a program, with real frontends and backends that come and go."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
from contextlib import suppress
from html.parser import HTMLParser

import pytest
import pytest_twisted
from prometheus_client.parser import text_string_to_metric_families

from tests.support.programs.asynchronous import eventually, fetch
from tests.support.programs.load import Stand, check_sums
from tests.support.programs.processes import require_program, run

pytestmark = pytest.mark.real

BOTH = pytest.mark.parametrize("protocol", ["bare", "json"])
PATHS = ("fails", "nodes", "pods", "stats", "parallel", "parallelism", "reqs-per-sec", "reqs-per-seq", "reset")
MARKUP = "<script>document.title='taken'</script>"


@BOTH
@pytest_twisted.ensureDeferred
async def test_scripts_for_the_original(stand: Stand, protocol: str) -> None:
    """Its flags, its paths, its answers to the byte; ^C ends it with its statistics."""
    for _ in range(2):
        stand.backend("sleep", "0.02")
    arguments = [] if protocol == "bare" else ["-protocol", "json"]
    client = await stand.client("-name", "sleep", "--limit=5", "-req-max", "600", "-req-now", "2", *arguments, "0.02")
    await stand.until_good()
    assert await stand.plain("/parallel?value=4") == "4"
    assert await stand.plain("/parallel?value=601") == "600"
    assert await stand.plain("/parallelism?value=3") == await stand.plain("/parallelism") == "3"
    await stand.until_good()
    assert re.fullmatch(r"\d+\.\d{6}", await stand.plain("/reqs-per-sec"))
    assert float(await stand.plain("/reqs-per-seq")) > 0
    assert await stand.plain("/reset") == "Reseted"
    for path in PATHS:
        for form in ("plain", "json", "html"):
            assert (await stand.ask(f"/{path}?type={form}")).status == 200
    assert (await stand.ask("/stats", "POST")).status == 405
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families((await stand.ask("/-/metrics")).body.decode())
        for sample in family.samples
    }
    assert samples["fakedev_tester_queries_total", "refused"] == 1
    assert samples["fakedev_tester_parallel", "sleep"] == 3
    assert await client.stop(signal.SIGINT) == 0
    assert "Requests to sleep of 127.0.0.1:" in client.stdout and "Requests by node" in client.stdout
    assert "Traceback" not in client.stderr


@pytest_twisted.ensureDeferred
async def test_a_verdict(stand: Stand) -> None:
    """0 when all holds, 3 when not; reports in all forms; plain lines where there is no terminal."""
    stand.backend("sleep", "0.01")
    reports = [word for name in ("out.txt", "out.json", "out.csv", "out.html") for word in ("-report", name)]
    load = ["-headless", "--duration", "2s", "--rate", "20/s", "--expect", "p99<50s", "--expect", "failures<1%"]
    client = await stand.client(*load, *reports, "0.01")
    assert await client.wait() == 0, client.stdout
    assert "met      p99<50s" in client.stdout
    assert re.search(r"^\d+ s: \d+ good, 0 failed", client.stderr, re.MULTILINE)
    assert "\x1b" not in client.stderr
    told = json.loads((stand.folder / "out.json").read_text())
    check_sums(told["statistics"])
    assert told["statistics"]["successes"] == told["statistics"]["started"] == 40
    assert (stand.folder / "out.txt").read_text() == client.stdout
    rows = list(csv.reader((stand.folder / "out.csv").read_text().splitlines()))
    assert ["sleep", "", "successes", "40"] in rows
    strict = await stand.client(
        *load[:3], "-rate", "5/s", "-expect", "total.p50<1ms", "-expect", "successes>=1", "0.01"
    )
    assert await strict.wait() == 3
    assert "NOT MET  total.p50<1ms" in strict.stdout and "met      successes>=1" in strict.stdout


@pytest_twisted.ensureDeferred
async def test_a_terminal(stand: Stand) -> None:
    """Progress is one line, which is written over."""
    stand.backend("sleep", "0.01")
    ours, theirs = os.openpty()
    try:
        os.set_blocking(ours, False)
        said = ""

        def has_two_lines() -> bool:
            nonlocal said
            with suppress(BlockingIOError):
                said += os.read(ours, 65536).decode()
            return re.search(r"\r\d+ s: \d+ good.*\x1b\[K\r\d+ s: \d+ good.*\x1b\[K", said) is not None

        client = stand.start(stand.client_command("-headless", "0.01"), descriptors={2: theirs})
        await eventually(has_two_lines, "the progress of two seconds")
        assert await client.stop() == 0
    finally:
        os.close(ours)
        os.close(theirs)


@BOTH
@pytest_twisted.ensureDeferred
async def test_a_frontend_that_is_stopped(stand: Stand, protocol: str) -> None:
    """The client still ends and shows its statistics; the requests that the frontend has are pending."""
    stand.backend("sleep", "0.02")
    client = await stand.client("-protocol", protocol, "-req-now", "4", "-expect", "successes>0", "0.02")
    await stand.until_good()
    stand.frontend.send_signal(signal.SIGSTOP)
    await stand.until(lambda told: told["outstanding"] == 4, "all wait for the frontend")
    assert await client.stop(signal.SIGINT) == 0
    assert re.search(r"^outstanding +4$", client.stdout, re.MULTILINE)


@BOTH
@pytest_twisted.ensureDeferred
async def test_a_frontend_that_is_started_again(stand: Stand, protocol: str) -> None:
    """The load goes on; the reconnect is counted, and every lost request is counted."""
    stand.backend("sleep", "0.02")
    client = await stand.client("-protocol", protocol, "-req-now", "4", "0.02")
    await stand.until_good()
    await stand.frontend.kill()
    await stand.until(lambda told: told["failures"]["lost"] > 0, "requests are lost")
    await client.wait_for_text("Z warn")  # it has seen that there is none
    await stand.until(lambda told: told["outstanding"] == 0, "nothing is started without a frontend")
    await stand.start_frontend()
    told = await stand.until_good()
    assert told["reconnects"] == 1
    assert told["failures"]["total"] == told["failures"]["lost"]


@pytest_twisted.ensureDeferred
async def test_a_backend_that_is_killed(stand: Stand) -> None:
    """Only its request is lost; a reset and another number in parallel keep the sums right."""
    dying = stand.backend("sleep", "30", POD="dying")
    await stand.client("-protocol", "json", "-req-max", "16", "-req-now", "3", "30")
    await stand.until(lambda told: told["outstanding"] == 3, "requests are sent")

    async def one_runs() -> bool:
        return b'hpa_queue_running{name="sleep"} 1' in (await fetch(stand.metrics, "/metrics")).body

    await eventually(one_runs, "one runs")
    await dying.kill()
    await stand.until(lambda told: told["failures"]["lost"] == 1, "its request is lost")
    await stand.until(lambda told: told["outstanding"] == 3, "another is in its place")
    assert await stand.plain("/parallelism?value=12") == "12"
    await stand.until(lambda told: told["outstanding"] == 12, "there are twelve")
    assert (await stand.statistics())["pending"] == 9
    assert await stand.plain("/parallel?value=2") == "2"
    told = await stand.statistics()
    assert (told["outstanding"], told["withdrawn"], told["failures"]["total"]) == (2, 9, 0)
    assert await stand.plain("/reset") == "Reseted"
    told = await stand.statistics()
    assert (told["outstanding"], told["pending"], told["withdrawn"]) == (2, 0, 0)


@pytest_twisted.ensureDeferred
async def test_several_plans(stand: Stand) -> None:
    """Each with statistics of its own, in one program."""
    stand.backend("sleep", "0.02")
    plans = stand.folder / "plans.yaml"
    plans.write_text(
        f"plans:\n- {{name: some, queue: sleep, frontend: '{stand.clients}', arguments: ['0.02'], parallel: 2}}\n"
        f"- {{name: refused, queue: none, frontend: '{stand.clients}', rate: 20/s}}\n"
    )
    client = stand.client_command("-plans", str(plans))
    del client[client.index("-faddr") : client.index("-faddr") + 2]
    await stand.started(client)
    await stand.until_good()
    told = await stand.until(lambda told: told["completed"] > 3, "requests are refused", "&plan=refused")
    assert (told["successes"], told["failures"]["total"]) == (0, told["failures"]["refused"])
    assert [error["text"] for error in told["errors"]] == ["unknown-name: Unknown 'none' queue"]


class Elements(HTMLParser):
    """The names of all elements of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.names.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest_twisted.ensureDeferred
async def test_reports_in_a_browser(stand: Stand) -> None:
    """The report and the pages of the control port: plots are drawn, markup of a node is text, no complaint."""
    chromium = require_program("chromium")
    stand.backend("-node-env", "NODE", "-pod-env", "POD", "sleep", "0.02", NODE=MARKUP, POD=f"pod{MARKUP}")
    client = await stand.client("-req-now", "2", "-report", "out.html", "0.02")
    await stand.until_good(20)

    async def opened(address: str) -> Elements:
        profile = f"--user-data-dir={stand.folder / 'chromium'}"
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", profile, "--dump-dom"]
        shown = await run(stand.start, chromium, *options, address)
        assert "CONSOLE" not in shown.stderr, shown.stderr
        assert "<title>taken" not in shown.stdout
        return Elements(shown.stdout)

    for page in ("stats", "nodes", "pods"):
        assert "script" not in (await opened(f"http://{stand.control}/{page}")).names
    assert MARKUP in (await opened(f"http://{stand.control}/nodes")).text
    assert await client.stop() == 0
    report = await opened((stand.folder / "out.html").as_uri())
    assert {"svg", "polyline", "table"} <= report.names
    assert "script" not in report.names
    assert f"pod{MARKUP}" in report.text
