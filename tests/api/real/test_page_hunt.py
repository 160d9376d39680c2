"""The web page for people who hunt a problem: the table of devices, charts, the tab that says why, and links."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import pytest_twisted

from tests.support.programs.asynchronous import eventually
from tests.support.programs.browser import Browser
from tests.support.programs.page import Stand, no_complaint, press
from tests.support.programs.processes import StartAsync

pytestmark = pytest.mark.real

CONFIG = """
version: 1
fleet:
  seed: 7
  tick: 250ms
  pools: [{name: p, nodes: 2, node-name: "dgx-{}", device: h100, devices-per-node: 4, identity: dcgm}]
web: ["127.0.0.1:%(port)d"]
workloads: {listen: [], base: [{name: training, devices: "dgx-0/*", profile: "90:5:0"}]}
"""
TABLE = "document.querySelector('table[aria-label=Devices]')"
ROWS = f"[...{TABLE}.tBodies[0].rows].map((row) => row.cells[1].innerText)"
#: Lets the test see the charts, and what each draws.
SEE_CHARTS = (
    "import('/page/chart.js').then(({Chart}) => { const old = Chart.prototype.draw; window.charts = new Map();"
    "Chart.prototype.draw = function () { old.call(this); if (this.plot) charts.set(this.title, this); }; })"
)
MAKE_IT_FIRE = "[...document.querySelectorAll('#panel-why .row button.small')]"
ACTIVE = "document.getElementById('active').innerText"


async def opened(start_async: StartAsync, folder: Path, browser: Browser, place: str = "") -> Stand:
    """A service with eight boards, and its page."""
    stand = Stand(start_async, folder, browser, CONFIG)
    await stand.serve()
    await stand.open(place)
    await browser.value(SEE_CHARTS)
    return stand


@pytest_twisted.ensureDeferred
async def test_the_table(start_async: StartAsync, tmp_path: Path, browser: Browser) -> None:
    """It is sorted and searched; what is chosen fills the forms; faults of the chosen devices are cleared at once."""
    stand = await opened(start_async, tmp_path, browser, "#fleet?view=Table&sort=-temperature_celsius")
    await stand.service.fetch("/api/v1/faults", {"kind": "overheat", "devices": ["dgx-1/2"]})
    await browser.until(f"{ACTIVE}.includes('overheat on dgx-1/2')")
    await browser.until(f"{ROWS}[0] === 'dgx-1/2' && {ROWS}.length === 8")
    await browser.value("document.querySelector('[aria-label=\"Search: Devices\"]').value = 'dgx-1'")
    await browser.value("document.querySelector('[aria-label=\"Search: Devices\"]').dispatchEvent(new Event('input'))")
    await browser.until(f"{ROWS}.length === 4")
    press = "[...document.querySelectorAll('#panel-fleet button')].find((each) => each.innerText === {})?.click() ?? 1"
    await browser.value(press.format("'Choose this page'"))
    await browser.until("document.querySelector('#panel-fleet').innerText.includes('4 chosen')")
    await browser.value(press.format("'Clear their faults'"))

    async def is_clear() -> bool:
        return not (await stand.get("/api/v1/faults"))["faults"]

    await eventually(is_clear, "the fault is cleared")
    await browser.value(press.format("'Put work on them'"))
    given = "document.querySelector('#panel-workloads [name=devices]').value"
    names = {"dgx-1/0", "dgx-1/1", "dgx-1/2", "dgx-1/3"}
    await browser.until(f"{given} !== '' && location.hash === '#workloads'")
    assert set((await browser.value(given)).split(", ")) == names
    await browser.value("location.hash = '#faults'")
    await browser.until("document.querySelector('table[aria-label=\"Past faults\"]').innerText.includes('overheat')")
    await no_complaint(browser)


@pytest_twisted.ensureDeferred
async def test_charts(start_async: StartAsync, tmp_path: Path, browser: Browser) -> None:
    """Limits are lines and events are marks; a drag zooms all charts, which share the crosshair; a link has it all."""
    stand = await opened(start_async, tmp_path, browser, "#fleet/dgx-0/1")
    await stand.service.fetch("/api/v1/clock", {"advance": "2m"})
    await stand.service.fetch("/api/v1/faults", {"kind": "power-cap", "watts": 300, "devices": ["dgx-0/1"]})
    await browser.until("charts.get('Power')?.lines.length === 2")
    lines = "charts.get('Power').lines.map(([name, value]) => `${name} ${value}`).join()"
    await browser.until(f"{lines} === 'limit 300,usual limit 700'")
    await browser.until("charts.get('Power').time.marks.some(({text}) => text.includes('power-cap'))")
    await browser.value("charts.get('Usage').element.scrollIntoView({block: 'center'})")
    over = "charts.get('Usage').place.querySelector('.u-over').getBoundingClientRect()"
    box = json.loads(await browser.value(f"JSON.stringify({over})"))
    middle = box["y"] + box["height"] / 2
    times = "[...charts.values()].filter(({element}) => element.offsetParent).map(({when}) => when.innerText)"
    await browser.point(box["x"] + box["width"] / 2, middle)
    pointed = await browser.until(f"{times}.every((text) => text.endsWith('ago')) && {times}")
    assert len(pointed) == 5 and len(set(pointed)) == 1
    drag = {"button": "left", "clickCount": 1, "y": middle}
    await browser.call("Input.dispatchMouseEvent", type="mousePressed", x=box["x"] + box["width"] / 2, **drag)
    for share in (0.6, 0.7, 0.8):
        await browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=box["x"] + box["width"] * share, **drag)
    await browser.call("Input.dispatchMouseEvent", type="mouseReleased", x=box["x"] + box["width"] * 0.8, **drag)
    shown = "[...charts.values()].filter(({element}) => element.offsetParent)"
    spans = f"{shown}.map(({{plot: {{scales: {{x}}}}}}) => [x.min, x.max])"
    await browser.until("charts.get('Usage').time.range !== null")
    zoomed = await browser.until(f"new Set({spans}.map(String)).size === 1 && {spans}")
    assert 0 < zoomed[0][1] - zoomed[0][0] < 60
    await browser.value("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    buttons = "[...document.querySelectorAll('#panel-fleet button')]"
    await browser.value(f"{buttons}.find((each) => each.innerText === 'Link').click()")
    link = await browser.until("window.copied")
    assert "/#fleet/dgx-0/1?" in link and "from=" in link
    await browser.value("document.querySelector('[aria-label=\"Follow the present\"]').click()")
    await browser.until("charts.get('Usage').time.range === null")
    await browser.value(f"location.hash = {json.dumps(link.partition('#')[2])}")
    await browser.until(f"String({spans}[0]) === {json.dumps(','.join(map(str, zoomed[0])))}")
    await no_complaint(browser)


@pytest_twisted.ensureDeferred
async def test_several_devices(start_async: StartAsync, tmp_path: Path, browser: Browser) -> None:
    """Devices chosen in the table are in one chart, with colour and value, by keyboard; a link has the same."""
    await opened(start_async, tmp_path, browser, "#fleet?view=Table")
    box = "document.querySelector('[aria-label=\"Choose {}\"]')"
    compare = (
        "[...document.querySelectorAll('#panel-fleet button')].find((each) => each.innerText === 'Compare in charts')"
    )
    await browser.until(f"{ROWS}.length === 8 && {compare}.disabled")
    for device in ("dgx-0/0", "dgx-1/3"):
        await browser.value(f"{box.format(device)}.focus()")
        await browser.press(" ", 32)
    await browser.until(f"!{compare}.disabled")
    await browser.value(f"{compare}.focus()")
    await browser.press("Enter", 13)
    await browser.until("location.hash === '#fleet/dgx-0/0,dgx-1/3'")
    label = "String(charts.get('Usage')?.canvas?.getAttribute('aria-label'))"
    pattern = r"/Usage: dgx-0\/0 [89][0-9.]* %, dgx-1\/3 0 %/"
    await browser.until(f"{pattern}.test({label})")
    colours = "[...charts.get('Usage').element.querySelectorAll('.swatch')].map((each) => each.style.background)"
    assert len(set(await browser.value(colours))) == 2
    await browser.press("Escape", 27)
    await browser.until("location.hash === '#fleet'")
    await browser.value("location.hash = '#fleet/dgx-0/1,nowhere/1,dgx-1/2?view=Table&span=60'")
    await browser.until(f"{label}.includes('dgx-0/1') && {label}.includes('dgx-1/2')")
    assert await browser.value(f"[{box.format('dgx-0/1')}, {box.format('dgx-0/0')}].map((each) => each.checked)") == [
        True,
        False,
    ]
    await no_complaint(browser)


@pytest_twisted.ensureDeferred
async def test_a_day(start_async: StartAsync, tmp_path: Path, browser: Browser) -> None:
    """What is older than an hour is thinned, which the page says; the lines of the cards are full at once."""
    stand = Stand(start_async, tmp_path, browser, CONFIG.replace("tick: 250ms", "tick: 10s"))
    await stand.serve()
    await stand.service.fetch("/api/v1/clock", {"advance": "4h"})
    await stand.open()
    painted = (
        "(() => { const line = document.querySelector('.spark'), {width, height} = line; if (width < 50) return false;"
        # Of a copy: Chromium complains of a canvas that is read more than once.
        "const copy = Object.assign(document.createElement('canvas'), {width, height}).getContext('2d');"
        "copy.drawImage(line, 0, 0); const {data} = copy.getImageData(Math.round(width / 10), 0, 1, height);"
        "return data.some((value) => value > 0); })()"
    )
    await browser.until(painted)
    await browser.value(SEE_CHARTS)
    await browser.value("location.hash = '#fleet/dgx-0/1?span=86400'")
    await browser.until("document.querySelector('aside').innerText.includes('a line of means of 1 min')")
    chart = "charts.get('Usage')"
    assert await browser.until(f"{chart}?.all[0].length > 500 && {chart}.plot.bands.length") == 1
    first, *_, last = await browser.value(f"{chart}.all[0]")
    assert first < 60 and last >= 4 * 3600
    await browser.value(f"{chart}.element.scrollIntoView({{block: 'center'}})")
    over = json.loads(
        await browser.value(f"JSON.stringify({chart}.place.querySelector('.u-over').getBoundingClientRect())")
    )
    await browser.point(over["x"] + over["width"] / 4, over["y"] + over["height"] / 2)
    await browser.until(f"/\\(\\d.* to \\d.*\\) %/.test({chart}.element.innerText)")
    await no_complaint(browser)


@pytest_twisted.ensureDeferred
async def test_documents(start_async: StartAsync, tmp_path: Path, browser: Browser) -> None:
    """Each tab links to documents that are there."""
    stand = await opened(start_async, tmp_path, browser)
    for tab in ("fleet", "workloads", "faults", "metrics", "why"):
        await browser.value(f"document.getElementById('tab-{tab}').click()")
        await browser.until(f"!document.getElementById('panel-{tab}').hidden")
        links = await browser.value(
            "[...document.querySelectorAll('#documents a')].map((each) => each.getAttribute('href'))"
        )
        assert len(links) >= 2
        for link in links:
            answer = await stand.service.fetch(link)
            assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8"), link


@pytest_twisted.ensureDeferred
async def test_why(start_async: StartAsync, tmp_path: Path, browser: Browser) -> None:
    """A pasted rule: what is missing, a fault that makes it fire, when it fired; and the clock that is paused."""
    rule = "- alert: Hot expr: DCGM_FI_DEV_GPU_TEMP > 90 for: 5m"
    stand = await opened(start_async, tmp_path, browser, "#why/DCGM_FI_DEV_GPU_TMP")
    panel = "document.getElementById('panel-why').innerText"
    await browser.until(f"{panel}.includes('did you mean DCGM_FI_DEV_GPU_TEMP?')")
    await browser.value(f"document.querySelector('#panel-why textarea').value = {json.dumps(rule)}")
    await browser.value("document.querySelector('#panel-why button.main').click()")
    await browser.until(f"{panel}.includes('> 90 is true of none')")
    await browser.until(f"{MAKE_IT_FIRE}[0]?.innerText === 'overheat celsius=93'")
    await browser.value(f"{MAKE_IT_FIRE}[0].click()")
    await browser.until("document.querySelector('#panel-faults [name=value-celsius]')?.value === '93'")
    # A rule that fired is marked in the charts.
    rule = "{alert: Warm, expr: DCGM_FI_DEV_GPU_TEMP > 40}"
    await browser.value(f"location.hash = '#why/' + encodeURIComponent({json.dumps(rule)})")
    await browser.until(f"{panel}.includes('Show when it fired')")
    await press(browser, "why", "Show when it fired in the charts")
    await browser.until("location.hash.startsWith('#fleet/dgx-0/')")
    await browser.until("charts.get('Usage')?.time.marks.some(({text, tint}) => text.endsWith('Warm fires') && tint)")
    await stand.service.fetch("/api/v1/clock", {"speed": 0}, method="PATCH")
    await browser.until(f"{ACTIVE}.includes('The clock is paused')")
    await no_complaint(browser)
