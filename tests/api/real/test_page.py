"""The web page in a real Chromium: people open it, watch, start, inject, change, and lose the server for a while."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from importlib.resources import files
from itertools import product
from pathlib import Path

import pytest
import pytest_twisted

from tests.support.programs.asynchronous import eventually
from tests.support.programs.browser import Browser, Chromium
from tests.support.programs.page import Stand, fill, no_complaint, press, show_map, unfold
from tests.support.programs.processes import StartAsync, skip_or_fail

pytestmark = pytest.mark.real

MARKUP = "<script>document.title='taken'</script>"
#: Every tab, a device, and one that is divided.
TABS = (
    "fleet", "fleet?view=Table", "fleet/dgx-0/1", "fleet/dgx-0/1,dgx-0/2?span=86400",
    "fleet/mig-0/0", "workloads", "faults", "queues", "tester", "metrics",
    "why/dgx-0%2F1",
)
#: Roles of what must have a name.
NAMED = {
    *("button", "textbox", "combobox", "link", "radio", "slider", "spinbutton", "searchbox"),
    *("tab", "tabpanel", "table", "image", "application"),
}
USAGE = "document.querySelector('.tiles').innerText"


def panel_of(place: str) -> str:
    """The tab of a place in the page."""
    return re.split("[/?]", place)[0]


@pytest_twisted.async_yield_fixture
async def stand(start_async: StartAsync, tmp_path: Path, chromium: Chromium) -> AsyncIterator[Stand]:
    """A service, and a tab with an empty profile."""
    browser = await chromium.tab()
    stand = Stand(start_async, tmp_path, browser)
    await stand.serve()
    yield stand
    await browser.close()


@pytest_twisted.ensureDeferred
async def test_open_and_watch(stand: Stand) -> None:
    """From an empty profile: the page is live, says that it is simulated, its numbers move, every tab opens."""
    browser = await stand.open()
    assert "simulated" in (await browser.value("document.querySelector('header').innerText")).lower()
    before = await browser.until(f"{USAGE}.includes('Mean usage') && {USAGE}.match(/[0-9]/) && {USAGE}")
    assert "on 3 nodes" in before
    await browser.until(f"{USAGE} !== {json.dumps(before)}")
    await show_map(browser)
    drawn = "(() => { const c = document.querySelector('.map canvas'); return c.width && c.getContext('2d')"
    painted = drawn + ".getImageData(0, 0, c.width, c.height).data.some((value) => value > 0); })()"
    await browser.until(painted)
    for name in ("workloads", "faults", "queues", "tester", "metrics", "fleet"):
        await browser.value(f"document.getElementById('tab-{name}').click()")
        await browser.until(f"!document.getElementById('panel-{name}').hidden && location.hash === '#{name}'")
    await browser.value("document.getElementById('tab-metrics').click()")
    await browser.until("document.getElementById('panel-metrics').innerText.includes('/nodes/dgx-1/metrics')")
    scrape = await browser.value("document.querySelector('#panel-metrics pre').innerText")
    assert f"http://127.0.0.1:{stand.port}/sd" in scrape
    await no_complaint(browser)


@pytest_twisted.ensureDeferred
async def test_start_and_stop_a_workload(stand: Stand) -> None:
    """A form starts it, the table shows it, whatever its name is; a button stops it."""
    browser = await stand.open("#workloads")
    await fill(browser, "workloads", name=MARKUP, devices="dgx-1/2", load="70", swing="0", seconds="0")
    await browser.until(f"document.querySelector('#panel-workloads tbody').innerText.includes({json.dumps(MARKUP)})")
    await browser.until(f"document.getElementById('said').innerText.includes({json.dumps(MARKUP)})")
    (found,) = [each for each in (await stand.get("/api/v1/workloads"))["workloads"] if each["name"] == MARKUP]

    async def device_works() -> bool:
        return (await stand.get("/api/v1/devices/dgx-1/2"))["quantities"]["usage_ratio"] > 0.5

    await eventually(device_works, "the device works")
    await browser.until(
        "[...document.querySelectorAll('#panel-workloads table[aria-label=Workloads] tbody tr')]"
        f".filter((row) => row.innerText.includes('{found['id']}'))"
        ".slice(0, 1).map((row) => row.querySelector('button').click() ?? true)[0]"
    )
    await stand.becomes("workloads", 1)
    rows = "document.querySelectorAll('#panel-workloads table[aria-label=Workloads] tbody tr')"
    await browser.until(f"{rows}.length === 1")
    await fill(browser, "workloads", name="x", devices="nowhere/1")
    await browser.until("document.querySelector('#said .bad')?.innerText.includes('nowhere')")
    # A refused change is an error of the network to the console; that is all it says.
    assert browser.complaints and all("400" in complaint for complaint in browser.complaints), browser.complaints


@pytest_twisted.ensureDeferred
async def test_a_device_by_keyboard(stand: Stand) -> None:
    """Arrow keys move on the map, Enter opens a device: its charts, its values, and the reasons for them."""

    async def has_past() -> bool:
        return (await stand.get("/api/v1/clock"))["seconds"] > 6

    await eventually(has_past, "there is a past to show")
    browser = await stand.open()
    await show_map(browser)
    await browser.value("document.querySelector('.map canvas').focus()")
    for key in ("ArrowRight", "ArrowRight"):
        await browser.press(key)
    await browser.press("Enter", 13)
    await browser.until("location.hash === '#fleet/dgx-0/2'")
    panel = "[...document.querySelectorAll('aside .card')].find((each) => !each.hidden).innerText"
    await browser.until(f"{panel}.includes('Core clock') && {panel}.includes('training')")
    why = await browser.value(panel)
    assert why.startswith("dgx-0/2")
    assert "work: base-training" in why
    label = "document.querySelector('aside .card:not([hidden]) .chart canvas').getAttribute('aria-label')"
    past = f"Number({label}.match(/last ([0-9]+) s/)?.[1] ?? 0)"
    begun = await browser.until(f"{past} >= 6 && {past}")
    for _ in range(5):  # it only grows, although frames and answers come in any order
        begun = await browser.until(f"{past} > {begun} && {past}")
    await browser.value("document.getElementById('tab-fleet').focus()")
    await browser.press("ArrowRight")
    await browser.until("location.hash === '#workloads' && document.activeElement.id === 'tab-workloads'")
    await no_complaint(browser)


@pytest_twisted.ensureDeferred
async def test_parts_of_a_device(stand: Stand) -> None:
    """Instances with their load, memory, pod and state, asked for only while they are looked at."""
    work = {"name": "train", "devices": ["mig-0/0/1"], "profile": "50:0:0", "pod": "train-0"}
    await stand.service.fetch("/api/v1/workloads", work)
    await stand.service.fetch("/api/v1/faults", {"kind": "xid", "code": 31, "devices": ["mig-0/0/0"]})
    browser = await stand.open("#fleet/mig-0/0/1")  # the device is shown, with all of its parts
    rows = "[...document.querySelectorAll('.parts > li')].map((row) => row.innerText.replace(/\\s+/g, ' '))"
    found = await browser.until(f"{rows}[1]?.includes('train-0') && {rows}[0].includes('XID 31') && {rows}")
    assert found[0].startswith("mig-0/0/0 3g.20gb, id 2 XID 31 Load 0.0 % Memory 0 B of 19.5 GiB no pod")
    assert found[1].startswith("mig-0/0/1 1g.5gb, id 7 well Load 50.0 % Memory")
    assert "divided (MIG): 1" in await browser.value("document.querySelector('.legend').innerText")
    await browser.value("document.querySelectorAll('.parts details')[1].open = true")
    await browser.until(f"{rows}[1].includes('of the whole device mig-0/0')")
    await browser.value("document.querySelector('.parts').parentElement.open = false")
    settled = "document.getElementById('clock').textContent"

    async def asked() -> int:
        """How often parts were asked for, after some ticks in which a question on its way could come to an end."""
        for _ in range(3):
            await browser.until(f"{settled} !== {json.dumps(await browser.value(settled))}")
        return sum("/parts" in address for address in browser.asked)

    before = await asked()
    assert (before > 0, await asked()) == (True, before)
    await press(browser, "fleet", "Put work on it")
    await browser.until("document.querySelector('#panel-workloads form').elements.devices.value === 'mig-0/0'")
    await no_complaint(browser)


@pytest_twisted.ensureDeferred
async def test_links_of_a_device(stand: Stand) -> None:
    """Which of them are up, where they lead and what they carry; one that is down, and why."""
    await stand.service.fetch("/api/v1/faults", {"kind": "link-down", "link": 5, "devices": ["dgx-0/1"]})
    browser = await stand.open("#fleet/dgx-0/1")
    panel = "document.querySelector('.links').innerText"
    await browser.until(f"{panel}.includes('NVLink: 17 of 18 up')")
    await browser.value("document.querySelector('.links details').open = true")
    row = "document.querySelectorAll('.links tbody tr')[5].innerText.split(/[\\t\\n]+/).map((text) => text.trim())"
    assert (await browser.value(row))[:3] == ["5", "switch 1, port 6", "down, 1 error"]
    assert "down: 5 (to dgx-0/switch/1)" in await browser.until("document.querySelector('aside .why').innerText")
    facts = await browser.value("document.querySelector('.links').parentElement.innerText")
    assert "generation 5, x16" in facts
    assert "NUMA node" in facts
    await stand.service.fetch("/api/v1/faults", method="DELETE")
    await browser.until(f"{panel}.includes('NVLink: all 18 up')")
    await no_complaint(browser)


@pytest_twisted.ensureDeferred
async def test_inject_and_clear_a_fault(stand: Stand) -> None:
    """It is in the list, in the journal and on the map's count; a button clears it."""
    browser = await stand.open("#faults")
    await browser.until("document.querySelector('#panel-faults select').options.length > 20")
    await fill(browser, "faults", kind="hang", devices="dgx-0/[0-2]")
    rows = "document.querySelectorAll('#panel-faults table')[0].innerText"
    await browser.until(f"{rows}.includes('hang') && {rows}.includes('3 of 3')")
    await browser.until("[...document.querySelectorAll('#panel-faults table')].at(-1).innerText.includes('hung')")
    await browser.value("document.getElementById('tab-fleet').click()")
    await browser.until(f"{USAGE}.replace(/\\s+/g, ' ').includes('In trouble 3')")
    await browser.value("document.getElementById('tab-faults').click()")
    await press(browser, "faults", "Clear")
    await stand.becomes("faults", 0)
    await browser.until("document.getElementById('panel-faults').innerText.includes('No faults')")
    await no_complaint(browser)


@pytest_twisted.ensureDeferred
async def test_queues_and_parallelism(stand: Stand) -> None:
    """The queue's figures are there; the number in parallel is changed, and the statistics are reset."""
    browser = await stand.open("#queues")
    await browser.until("document.querySelector('#panel-queues tbody').innerText.startsWith('sleep')")
    await browser.value("document.getElementById('tab-tester').click()")
    await browser.until("document.querySelector('#panel-tester input[type=number]').value === '2'")
    await browser.value(
        "(() => { const panel = document.getElementById('panel-tester');"
        "panel.querySelector('input[type=number]').value = '9'; panel.querySelector('form').requestSubmit(); })()"
    )

    async def nine_wait() -> bool:
        (plan,) = (await stand.get("/api/v1/tester"))["plans"]
        return plan["parallel"] == (await stand.get("/api/v1/queues/sleep"))["waiting"] == 9

    await eventually(nine_wait, "there are as many requests")
    await browser.until("document.getElementById('said').innerText.includes('9 requests in parallel')")
    await press(browser, "tester", "Reset the statistics")

    async def is_reset() -> bool:
        return (await stand.get("/api/v1/tester"))["statistics"]["pending"] == 0

    await eventually(is_reset, "the statistics are reset")
    await no_complaint(browser)


@pytest_twisted.ensureDeferred
async def test_a_token_is_asked_for(stand: Stand) -> None:
    """Where the address has one: looking needs none, the first change asks for it, and the page remembers it."""
    browser = await stand.open("#workloads", web=1)
    await fill(browser, "workloads", name="one", devices="dgx-1/0")
    await browser.until("document.getElementById('ask-token').open")
    assert await stand.number("workloads") == 1
    await browser.value("(() => { document.getElementById('token').value = 'open-sesame';"
                        "document.querySelector('#ask-token .main').click(); })()")  # fmt: skip
    await stand.becomes("workloads", 2)
    await fill(browser, "workloads", name="two", devices="dgx-1/1")
    await stand.becomes("workloads", 3)
    assert browser.complaints and all("401" in complaint for complaint in browser.complaints), browser.complaints


@pytest_twisted.ensureDeferred
async def test_pages_of_others_change_nothing(stand: Stand) -> None:
    """A page from elsewhere can send a form here, as any page can; it is refused, and reads no answer."""
    body = json.dumps({"name": "foreign", "devices": ["dgx-1/0"], "profile": "50:0:0"})
    address = f"http://{stand.service.web[0]}/api/v1/workloads"
    sent = f"fetch('{address}', {{method: 'POST', mode: 'no-cors', body: {json.dumps(body)}}})"
    assert await stand.browser.value(f"{sent}.then((answer) => answer.type)") == "opaque"
    assert [each["name"] for each in (await stand.get("/api/v1/workloads"))["workloads"]] == ["training"]
    await stand.open()  # the same from our own page is taken
    assert await stand.browser.value(f"{sent.replace('no-cors', 'cors')}.then((answer) => answer.status)") == 201


@pytest_twisted.ensureDeferred
async def test_lose_and_regain_the_server(stand: Stand) -> None:
    """The page says that it has no connection, keeps what it showed, and is live again by itself."""
    browser = await stand.open()
    await browser.until(f"{USAGE}.match(/[0-9]/)")
    assert await stand.service.program.stop() == 0
    await browser.until("document.getElementById('link').textContent.includes('no connection')")
    assert await browser.value(f"{USAGE}.includes('Mean usage')")
    await stand.serve()
    await browser.until("document.getElementById('link').textContent === 'live'")
    clock = await browser.until("document.getElementById('clock').textContent")
    await browser.until(f"document.getElementById('clock').textContent !== '{clock}'")
    # The browser itself says that the server is away, unless it was too slow to ask; our scripts say nothing.
    assert all("ERR_" in complaint for complaint in browser.complaints), browser.complaints


@pytest.mark.parametrize(
    ("width", "theme"),
    [
        (1400, "light"), (390, "dark"),
        *[pytest.param(*each, marks=pytest.mark.long) for each in product((1400, 800, 390), ("light", "dark"))
          if each not in ((1400, "light"), (390, "dark"))],
    ],
)  # fmt: skip
@pytest_twisted.ensureDeferred
async def test_accessible(stand: Stand, theme: str, width: int) -> None:
    """axe finds nothing on any tab, nor in the dialogs: contrast, names, roles, order."""
    try:
        axe = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    except ModuleNotFoundError:
        skip_or_fail("axe-core-python is not installed")
    browser = await stand.open()
    await browser.theme(theme)
    await browser.resize(width, 800)
    await browser.until(f"document.documentElement.dataset.theme === '{theme}'")
    await stand.service.fetch("/api/v1/faults", {"kind": "fan", "devices": "dgx-0/0"})
    await browser.value(f"{axe}; true")
    for name in TABS:
        await browser.value(f"location.hash = '#{name}'")
        await browser.until(f"!document.getElementById('panel-{panel_of(name)}').hidden")
        await browser.until("!document.querySelector('#said p')")
        await unfold(browser, name)
        await browser.until(f"!document.getElementById('panel-{panel_of(name)}').innerText.includes('Loading…')")
        await clean(browser, name)
    for opener in ("clock", "keys"):
        await browser.value(f"document.getElementById('{opener}').click()")
        await browser.until("document.querySelector('dialog[open]') !== null")
        await clean(browser, opener)
        await browser.value("document.querySelector('dialog[open]').close()")


async def clean(browser: Browser, place: str) -> None:
    """Axe finds nothing at a place, once the page has drawn it."""
    is_bright = "getComputedStyle(document.querySelector('main')).opacity === '1'"
    found, was_bright = [], False
    while not was_bright:  # a page without news is dim, as on a busy machine
        await browser.until(is_bright)
        await browser.value("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
        found = json.loads(await browser.value("axe.run().then((found) => JSON.stringify(found.violations))"))
        was_bright = await browser.value(is_bright)
    wrong = [(each["id"], [node["html"][:150] for node in each["nodes"]]) for each in found]
    assert wrong == [], (place, wrong)


@pytest_twisted.ensureDeferred
async def test_everything_has_a_name(stand: Stand) -> None:
    """Everything that can be pressed or filled in has a name for screen readers, wide and narrow."""
    browser = await stand.open()
    await browser.until("document.querySelector('#panel-faults select').options.length > 20")
    for width in (1280, 390):
        await browser.resize(width, 800)
        for name in TABS:
            await browser.value(f"location.hash = '#{name}'")
            await browser.until(f"!document.getElementById('panel-{panel_of(name)}').hidden")
            await unfold(browser, name)
            nodes = (await browser.call("Accessibility.getFullAXTree"))["nodes"]
            shown = [node for node in nodes if not node["ignored"] and node["role"]["value"] in NAMED]
            assert shown, name
            assert [node for node in shown if not node["name"]["value"]] == [], name
            # Nothing is wider than the window.
            assert await browser.value("document.documentElement.scrollWidth") <= width, (name, width)
    await no_complaint(browser)
