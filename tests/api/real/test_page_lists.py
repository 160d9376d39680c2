"""The web page's lists and its clock in a real Chromium: search, sort, pages, pause, speed, advance; each as curl."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest
import pytest_twisted

from tests.support.programs.asynchronous import eventually
from tests.support.programs.browser import Browser
from tests.support.programs.page import CONFIG, Stand, column, fill, no_complaint, panel, press, refreshed
from tests.support.programs.processes import StartAsync

pytestmark = pytest.mark.real

#: More workloads, queues and nodes than a page of a list has.
_JOBS = ", ".join(
    f'{{name: job-{n}, devices: "dgx-{n % 60}/0", profile: "{n % 50}:0:0", pod: pod-{n}}}' for n in range(120)
)
_QUEUES = ", ".join(f"queue-{number}" for number in range(60))
LISTS = f"""
version: 1
fleet:
  seed: 7
  tick: 250ms
  pools: [{{name: p, nodes: 60, node-name: "dgx-{{}}", device: h100, devices-per-node: 1, identity: dcgm}}]
web: ["127.0.0.1:%(port)d"]
workloads:
  listen: []
  base: [{_JOBS}]
queues:
  names: [{_QUEUES}]
  listen-clients: ["%(folder)s/clients.sock"]
  listen-backends: ["%(folder)s/backends.sock"]
"""
#: The same address, later: nothing but a board.
ALONE = """
version: 1
fleet: {seed: 7, pools: [{name: q, nodes: [alone], device: h100, devices-per-node: 1, identity: dcgm}]}
web: ["127.0.0.1:%(port)d"]
workloads: {listen: []}
"""
#: Lets what is copied be read, and not only by programs that the user allows to.
TIMES = "\u00d7"
COPIES = "navigator.clipboard.writeText = async (text) => { window.copied = text; }"


@pytest_twisted.ensureDeferred
async def test_lists(start_async: StartAsync, tmp_path: Path, browser: Browser) -> None:
    """Search, order and page of a list are the user's until they change them, however often it is refreshed."""
    stand = Stand(start_async, tmp_path, browser, LISTS)
    await stand.serve()
    await stand.open("#workloads")
    await browser.until(f"{panel('workloads')}.includes('1-50 of 120')")
    await press(browser, "workloads", "Next")
    await press(browser, "workloads", "Next")
    await browser.until(f"{panel('workloads')}.includes('101-120 of 120') && {column('workloads')}[0] === 'job-100'")
    pager = "document.querySelector('table[aria-label=Workloads]').closest('.card').querySelector('.pager')"
    assert await browser.value(f"{pager}.lastChild.disabled")
    await press(browser, "workloads", "Name")  # from the first page, as the new order begins
    head = "document.querySelector('#panel-workloads th').getAttribute('aria-sort')"
    await browser.until(f"{head} === 'ascending' && {column('workloads')}[1] === 'job-1'")
    await press(browser, "workloads", "Name")
    await browser.until(f"{head} === 'descending' && {column('workloads')}[0] === 'job-119'")
    await press(browser, "workloads", "Load")  # of numbers the highest come first
    await browser.until(f"{head} === null && {column('workloads', 3)}[0] === '49.0 %'")
    await browser.press("/")
    await browser.until("document.activeElement === document.querySelector('#panel-workloads input[type=search]')")
    for letter in "POD-11":
        await browser.press(letter)
    await browser.until(f"{panel('workloads')}.includes('1-11 of 11 found')")
    await refreshed(browser, "search=POD-11")
    shown = await browser.value(column("workloads"))
    # By load, which is the number's rest by 50; equal ones in their order.
    assert shown == [f"job-{number}" for number in (*range(119, 111, -1), 11, 111, 110)]
    assert await browser.value("document.activeElement.value") == "POD-11"
    await browser.press("Escape")
    await browser.value("document.getElementById('tab-queues').click()")
    await browser.until(f"{panel('queues')}.includes('1-50 of 60')")
    await press(browser, "queues", "Queue")
    await browser.until(f"{column('queues')}[10] === 'queue-10'")
    await browser.value("document.getElementById('tab-metrics').click()")
    await browser.until(f"{panel('metrics')}.includes('1-50 of 60')")
    await browser.until(f"{panel('metrics')}.includes('/nodes/dgx-1/metrics')")
    await browser.value("document.getElementById('tab-faults').click()")
    await fill(browser, "faults", kind="hang", devices="dgx-5/0")
    await browser.until(f"{column('faults', 1)}[0] === 'hang'")
    search = "[...document.querySelectorAll('#panel-faults input[type=search]')]"
    await browser.value(f"(() => {{ const field = {search}[2]; field.value = 'dgx-5'; field.oninput?.();"
                        "field.dispatchEvent(new Event('input')); })()")  # fmt: skip
    journal = column("faults", 2, table=3)
    await browser.until(f"{journal}.includes('hung') && {journal}.every((kind) => kind !== 'start')")
    await no_complaint(browser)
    assert browser.refused == []


@pytest_twisted.ensureDeferred
async def test_another_fleet(start_async: StartAsync, tmp_path: Path, browser: Browser) -> None:
    """A service with other things begins at the same address: of the old ones nothing is left."""
    stand = Stand(start_async, tmp_path, browser, LISTS)
    await stand.serve()
    await stand.open("#workloads")
    await browser.until(f"{panel('workloads')}.includes('1-50 of 120')")
    await browser.value("document.getElementById('tab-queues').click()")
    await browser.until("document.querySelectorAll('#panel-queues canvas').length > 10")
    await browser.value("location.hash = '#fleet/dgx-3/0'")
    await browser.until("document.querySelector('aside .card:not([hidden]) h2').innerText === 'dgx-3/0'")
    assert await stand.service.program.stop() == 0
    stand.configure(ALONE)
    await stand.serve()
    await browser.until("document.querySelector('.tiles').innerText.includes('on 1 node')")
    assert await browser.value("document.querySelector('aside .card:not([hidden]) h2').innerText") == "Fleet"
    await browser.value("document.getElementById('tab-queues').click()")
    await browser.until(f"{panel('queues')}.includes('There are no queues')")
    await browser.until("document.querySelectorAll('#panel-queues canvas').length === 0")
    await browser.value("document.getElementById('tab-workloads').click()")
    await browser.until(f"{panel('workloads')}.includes('Nothing runs')")
    await browser.value("document.getElementById('tab-tester').click()")
    await browser.until(f"{panel('tester')}.includes('There is no load')")
    assert browser.refused == []


@pytest_twisted.ensureDeferred
async def test_a_list_that_cannot_be_loaded(start_async: StartAsync, tmp_path: Path, browser: Browser) -> None:
    """The list says why, in place of old rows and of a text that would say that there are none."""
    stand = Stand(start_async, tmp_path, browser)
    await stand.serve()
    await stand.open("#workloads")
    await browser.until(f"{column('workloads')}[0] === 'training'")
    refuse = json.dumps(json.dumps({"error": {"message": "the disk is full", "where": ""}}))
    await browser.value(
        f"window.fetch = () => Promise.resolve(new Response({refuse}, {{status: 503}})), 0"
    )
    for name in ("workloads", "faults", "queues", "metrics"):
        await browser.value(f"document.getElementById('tab-{name}').click()")
        await browser.until(f"{panel(name)}.includes('Cannot be loaded: the disk is full')")
        assert "Nothing runs" not in await browser.value(panel(name))
    await browser.value("document.getElementById('tab-tester').click()")
    await browser.until(f"{panel('tester')}.includes('the disk is full')")
    await browser.value("location.hash = '#fleet/dgx-0/0'")
    await browser.until(f"{panel('fleet')}.includes('Cannot be loaded: the disk is full')")


async def copied(browser: Browser, what: str) -> str:
    """What the button beside an action copies."""
    await browser.value(f"window.copied = '', document.querySelector('[aria-label=\"Copy as curl: {what}\"]').click()")
    text: str = await browser.until("window.copied")
    return text


def as_curl(sent: tuple[str, str, str]) -> str:
    """The command that sends a request."""
    method, address, body = sent
    quoted = body.replace("'", "'\\''")
    content = f" -H 'Content-Type: application/json' -d '{quoted}'" if body else ""
    return f"curl -sS -X {method}{content} '{address}'"


async def last_change(browser: Browser) -> tuple[str, str, str]:
    """The last request that changes something, as soon as there is one since the list was cleared."""

    def found() -> list[tuple[str, str, str]]:
        return [each for each in browser.sent if each[0] != "GET"]

    sent = await eventually(found, "a change is sent")
    browser.sent.clear()
    return sent[-1]


async def acts(browser: Browser, click: str, what: str) -> None:
    """An action sends what its curl button copied just before."""
    command = await copied(browser, what)
    browser.sent.clear()
    await browser.value(click)
    assert as_curl(await last_change(browser)) == command, what


@pytest_twisted.ensureDeferred
async def test_the_clock(start_async: StartAsync, tmp_path: Path, browser: Browser) -> None:
    """Pause, speed and advance in the header; what a curl button copies is what the action sends."""
    stand = Stand(start_async, tmp_path, browser)
    await stand.serve()
    await stand.open()
    await browser.value(COPIES)
    pace = "document.getElementById('clock').innerText"

    async def speed() -> float:
        found: float = (await stand.get("/api/v1/clock"))["speed"]
        return found

    await browser.until(f"{pace}.includes('1{TIMES}')")
    await acts(browser, "document.querySelector('.clock > button').click()", "pause or continue the clock")
    await browser.until(f"{pace}.includes('paused')")
    assert await speed() == 0
    await acts(browser, "document.querySelector('.clock > button').click()", "pause or continue the clock")
    await browser.until(f"{pace}.includes('1{TIMES}')")
    await browser.value("document.getElementById('clock').click()")
    await browser.until("document.querySelector('dialog[open]')?.innerText.includes('at the speed of real time')")
    dialog = "document.querySelector('dialog[open]')"
    await browser.value(f"{dialog}.querySelector('[aria-label=\"Speed 10\"]').click()")
    await browser.until(f"{pace}.includes('10{TIMES}')")
    assert await speed() == 10
    await browser.value(f"{dialog}.querySelectorAll('form')[0].elements[0].value = '2.5'")
    await acts(browser, f"{dialog}.querySelectorAll('form')[0].requestSubmit()", "set the speed")
    await browser.until(f"{pace}.includes('2.5{TIMES}')")
    # An advance that would take minutes: it shows its progress, and is stopped.
    await browser.value(f"{dialog}.querySelectorAll('form')[1].elements[0].value = '20d'")
    await acts(browser, f"{dialog}.querySelectorAll('form')[1].requestSubmit()", "advance the clock")
    await browser.until(f"{pace}.includes('→') && {dialog}.innerText.includes('% of the way to tick')")
    assert (await stand.get("/api/v1/clock"))["advance"] is not None
    assert await browser.value(f"{dialog}.querySelector('progress').max") == 100
    await acts(browser, f"{dialog}.querySelector('.danger').click()", "stop the advance")
    await browser.until(f"!{pace}.includes('→')")
    assert (await stand.get("/api/v1/clock"))["advance"] is None
    await browser.value(f"{dialog}.querySelectorAll('form')[1].elements[0].value = '5 minuets'")
    await browser.value(f"{dialog}.querySelectorAll('form')[1].requestSubmit()")
    await browser.until("document.querySelector('#said .bad')?.innerText.includes('5 minuets')")
    await browser.value(f"{dialog}.querySelector('[aria-label=\"Advance by 5 min\"]').click()")
    await browser.until("[...document.querySelectorAll('#said p')].some((each) => each.innerText.includes('at tick'))")
    await browser.press("Escape", 27)
    await browser.until(f"{dialog} === null")


@pytest_twisted.ensureDeferred
async def test_actions_as_curl(start_async: StartAsync, tmp_path: Path, browser: Browser) -> None:
    """Forms send what their curl buttons copy; clearing all faults asks first; the scrape configuration is copied."""
    stand = Stand(start_async, tmp_path, browser)
    await stand.serve()
    await stand.open()
    await browser.value(COPIES)
    await browser.value("location.hash = '#workloads'")
    await browser.value(
        "(() => { const form = document.querySelector('#panel-workloads form').elements;"
        "form.name.value = \"it's\"; form.devices.value = 'dgx-1/2'; })()"
    )
    command = await copied(browser, "start the workload")
    browser.sent.clear()
    await browser.value("document.querySelector('#panel-workloads form').requestSubmit()")
    assert as_curl(await last_change(browser)) == command
    await browser.value("location.hash = '#faults'")
    await browser.until("document.querySelector('#panel-faults select').options.length > 20")
    await browser.value("document.querySelector('#panel-faults form').elements.devices.value = 'dgx-0/0'")
    await acts(browser, "document.querySelector('#panel-faults form').requestSubmit()", "inject the fault")
    await stand.becomes("faults", 1)
    # Clearing all asks first.
    for answer, left in (("Cancel", 1), ("Clear all faults", 0)):
        await press(browser, "faults", "Clear all")
        question = "[...document.querySelectorAll('dialog[open] button')]"
        await browser.until(f"{question}.some((each) => each.innerText === '{answer}')")
        await browser.value(f"{question}.find((each) => each.innerText === '{answer}').click()")
        await browser.until("document.querySelector('dialog[open]') === null")
        await stand.becomes("faults", left)
    await browser.value("location.hash = '#metrics'")
    await press(browser, "metrics", "Copy")
    assert "scrape_configs" in await browser.until("window.copied.includes('scrape') && window.copied")
    await no_complaint(browser)


@pytest_twisted.ensureDeferred
async def test_a_service_that_stops_answering(start_async: StartAsync, tmp_path: Path, browser: Browser) -> None:
    """After three seconds without a frame the badge says so; a tab that is opened then knows nothing yet."""
    stand = Stand(start_async, tmp_path, browser)
    await stand.serve()
    await stand.open()
    await browser.until("document.querySelector('.tiles').innerText.match(/[0-9]/)")
    await browser.value(
        "window.said = [], new MutationObserver(() => window.said.push(document.getElementById('link').innerText))"
        ".observe(document.getElementById('link'), {childList: true, subtree: true, characterData: true}), 0"
    )
    stand.service.program.send_signal(signal.SIGSTOP)
    try:
        first = await browser.until("window.said.find((text) => text.startsWith('no answer'))")
        # With the age of what is shown, in whole seconds: three, and what a slow machine adds.
        assert re.fullmatch(r"no answer for ([3-9]|\d\d) s", first), first
        assert await browser.value("document.body.classList.contains('stale')")
        for name, claim in (("workloads", "Nothing runs"), ("faults", "No faults"), ("queues", "There are no")):
            await browser.value(f"document.getElementById('tab-{name}').click()")
            await browser.until(f"{panel(name)}.includes('Loading…')")
            assert claim not in await browser.value(panel(name))
    finally:
        stand.service.program.send_signal(signal.SIGCONT)
    await browser.until("document.getElementById('link').innerText === 'live'")
    await browser.until("!document.body.classList.contains('stale')")


NOTHING = "\n".join(CONFIG.split("queues:")[0].splitlines())
NAMED = CONFIG.replace('token: open-sesame}', 'token: open-sesame, names: [fakedev.localhost]}')


@pytest.mark.parametrize(
    ("config", "web", "host"), [(NOTHING, 0, ""), (NAMED, 1, "fakedev.localhost"), (NAMED, 0, "localhost")],
    ids=["nothing", "token and name", "localhost"],
)  # fmt: skip
@pytest_twisted.ensureDeferred
async def test_no_request_is_refused(
    start_async: StartAsync, tmp_path: Path, browser: Browser, config: str, web: int, host: str
) -> None:
    """Without queues and load, under a name, with a token: looking at everything asks for nothing that is refused."""
    stand = Stand(start_async, tmp_path, browser, config)
    await stand.serve()
    await stand.open(web=web, host=host)
    for place in ("fleet", "fleet/mig-0/0", "fleet/dgx-0/3", "workloads", "faults", "queues", "tester", "metrics"):
        await browser.value(f"location.hash = '#{place}'")
        await browser.until(f"!document.getElementById('panel-{place.split('/')[0]}').hidden")
        await browser.value("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        await browser.until(f"!{panel(place.split('/')[0])}.includes('Loading…')")
        await refreshed(browser, {"metrics": "/nodes", "tester": "/stream" if config is NOTHING else "/tester"}.get(
            place, "/api/v1/"), times=0 if place in ("tester", "fleet") else 1)  # fmt: skip
    await browser.value("document.querySelector('.tile button').click()")
    assert browser.refused == []
    await no_complaint(browser)
