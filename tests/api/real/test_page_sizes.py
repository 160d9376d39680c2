"""The web page of fleets of all sizes, at all widths: cards and map, filters, search, charts, keys, fingers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import pytest_twisted

from tests.support.programs.asynchronous import eventually
from tests.support.programs.browser import Browser
from tests.support.programs.page import Stand, no_complaint, press, show_map
from tests.support.programs.processes import StartAsync

pytestmark = pytest.mark.real

WIDTHS = range(390, 1401, 50)
FLEET = """
version: 1
fleet:
  seed: 7
  tick: 250ms
  pools:
    - {name: p, nodes: %d, node-name: "dgx-{}", device: h100, devices-per-node: %d, identity: dcgm}
%s
web: ["127.0.0.1:%%(port)d"]
workloads: {listen: [], base: [{name: training, devices: "dgx-0/[0-1]", profile: "90:5:0", pod: train-0}]}
"""
#: Ten thousand boards, of which 200 could be divided and a quarter of those is not.
DIVIDED = """    - name: m
      nodes: 25
      node-name: "mig-{}"
      device: a100
      devices-per-node: 8
      mig: [3g.20gb, 2g.10gb, 1g.5gb]
      devices: [{index: 2, mig: []}, {index: 5, mig: []}]
      identity: dcgm"""
#: Lets the tests see where the map has its cells.
SEE_MAP = (
    "import('/page/map.js').then(({FleetMap}) => { const old = FleetMap.prototype.draw;"
    "FleetMap.prototype.draw = function () { window.map = this; return old.call(this); }; })"
)
TILES = "document.querySelector('.tiles').innerText.replace(/\\s+/g, ' ')"
SHOWN = "[...document.querySelectorAll('.cards .device')].filter((card) => !card.hidden).length"
#: Cells that are on the map.
PLACED = "[...map.cells].filter((each, at) => at % 2 === 0 && each >= 0).length"
FOUND = "document.querySelector('#panel-fleet header [role=status]').innerText"


#: Tabs, and what they have when their rows are there.
TABS = {
    "fleet?view=Table": "Put work on them", "workloads": "train-0", "faults": "Reset", "metrics": "dgx-0",
    "why": "Why?",
}  # fmt: skip
#: What can be pressed and is outside of the window, or of the place in which its table is scrolled; the titles of wide
#: tables may be there, except on phones.
OUTSIDE = (
    "[...document.querySelectorAll('a:not(.skip), button, input, select, textarea, summary, .now > *')]"
    ".filter((each) => each.checkVisibility() && !each.matches('.unseen, .choice input')"
    " && (innerWidth <= 780 || !each.matches('.sort')))"
    ".map((each) => [each, each.closest('.scroll') ?? document.body])"
    ".map(([each, place]) => [each, each.getBoundingClientRect(), place.getBoundingClientRect()])"
    ".filter(([, box, place]) => box.left < place.left - 2 || box.right > place.right + 2 || box.height < 10)"
    ".map(([each]) => each.innerText || each.name || each.ariaLabel)"
)


async def opened(
    start_async: StartAsync, folder: Path, browser: Browser, nodes: int, devices: int, more: str = ""
) -> Stand:
    """A service with so many devices, and the page of it with its first values."""
    stand = Stand(start_async, folder, browser, FLEET % (nodes, devices, more))
    await stand.serve()
    await stand.open()
    await browser.value(SEE_MAP)
    await browser.until(f"/Devices [0-9]/.test({TILES})")
    return stand


async def search(browser: Browser, text: str) -> None:
    """Put a text into the search of the fleet."""
    await browser.value(
        "(() => { const field = document.querySelector('#panel-fleet input[type=search]');"
        f"field.value = {json.dumps(text)}; field.dispatchEvent(new Event('input')); }})()"
    )


async def tile(browser: Browser, name: str) -> None:
    """Press a tile."""
    buttons = "[...document.querySelectorAll('.tile button')]"
    await browser.value(f"{buttons}.find((each) => each.innerText === '{name}').click()")


async def box_of(browser: Browser, element: str) -> dict[str, float]:
    """Where an element is in the window."""
    box: dict[str, float] = json.loads(await browser.value(f"JSON.stringify({element}.getBoundingClientRect())"))
    return box


@pytest_twisted.ensureDeferred
async def test_eight_devices(start_async: StartAsync, tmp_path: Path, browser: Browser) -> None:
    """Cards with what matters; tiles and the search choose some; charts share span and pointer; keys."""
    stand = await opened(start_async, tmp_path, browser, 1, 8)
    assert await browser.until(SHOWN) == 8
    card = "document.querySelector('.cards .device').innerText"
    text = await browser.until(f"{card}.includes('training') && {card}")
    assert all(each in text for each in ("dgx-0/0", "h100", "GiB", "W", "°C", "MHz")), text
    assert await browser.value("document.querySelector('.map').hidden")
    # Filters.
    await stand.service.fetch("/api/v1/faults", {"kind": "hang", "devices": ["dgx-0/5"]})
    await browser.until(f"{TILES}.includes('In trouble 1')")
    await tile(browser, "In trouble")
    await browser.until(f"{SHOWN} === 1 && {FOUND} === '1 of 8'")
    await tile(browser, "Devices")
    await browser.until(f"{SHOWN} === 8 && {FOUND} === ''")
    await browser.press("/")
    for letter in "train-":
        await browser.press(letter)
    await browser.until(f"{SHOWN} === 2 && {FOUND} === '2 of 8'")  # by the pod on them
    await search(browser, "")
    # Charts.
    await browser.value("document.querySelectorAll('aside .choice input')[3].click()")
    await eventually(lambda: any("history?seconds=3600" in each for each in browser.asked), "the hour is asked for")
    box = await box_of(browser, "document.querySelector('aside .chart canvas')")
    captions = "[...document.querySelectorAll('aside .card:not([hidden]) .chart figcaption')]"
    times = f"{captions}.map((each) => each.children[1].innerText)"
    await browser.point(box["x"] + box["width"] * 0.75, box["y"] + box["height"] / 2)
    pointed = await browser.until(f"{times}.every((each) => each.length) && {times}")
    assert len(pointed) == 3 and len(set(pointed)) == 1 and pointed[0].endswith(("ago", "now"))
    await browser.point(5, 5)
    await browser.until(f"{times}.every((each) => !each.length)")
    # Keys.
    await browser.value("document.activeElement.blur()")
    await browser.press("?")
    await browser.until("document.querySelector('dialog[open]')?.innerText.includes('search in the open tab')")
    await browser.press("Escape", 27)
    await browser.until("document.querySelector('dialog[open]') === null")
    for key, name in enumerate(("fleet", "workloads", "faults", "metrics", "why"), 1):
        await browser.press(str(key))
        await browser.until(f"!document.getElementById('panel-{name}').hidden")
    await browser.press("1")
    await browser.value("location.hash = '#fleet/dgx-0/3'")
    await browser.until("document.querySelector('aside .card:not([hidden]) h2').innerText === 'dgx-0/3'")
    await browser.press("Escape", 27)
    await browser.until("location.hash === '#fleet'")
    await no_complaint(browser)


@pytest_twisted.ensureDeferred
async def test_widths(start_async: StartAsync, tmp_path: Path, browser: Browser) -> None:
    """Whatever can be pressed is in the window at any width; on a phone a device's panel comes below the header."""
    stand = await opened(start_async, tmp_path, browser, 1, 8)
    await stand.service.fetch("/api/v1/faults", {"kind": "xid", "code": 31, "devices": ["dgx-0/5"]})
    await stand.service.fetch("/api/v1/faults", {"kind": "power-cap", "watts": 300, "devices": ["dgx-0/4"]})
    for tab, row in TABS.items():
        await browser.value(f"location.hash = '#{tab}'")
        await browser.until(f"document.querySelector('main').innerText.includes('{row}')")
        for width in WIDTHS:
            await browser.resize(width, 800)
            await browser.until(f"innerWidth === {width}")
            assert await browser.value(OUTSIDE) == [], (tab, width)
            assert await browser.value("document.querySelectorAll('[role=tab]:not([hidden])').length") == 5
            assert await browser.value("document.documentElement.scrollWidth") <= width
    await browser.value("location.hash = '#fleet?view=Cards'")
    await browser.until(SHOWN)
    await browser.resize(390, 800)
    await browser.value("document.getElementById('clock').click()")
    for name in ("dialog[open]", "dialog[open] .row"):
        box = await box_of(browser, f"document.querySelector('{name}')")
        assert box["left"] >= 0 and box["right"] <= 390, (name, box)
    await browser.press("Escape", 27)
    await browser.until("document.querySelector('dialog[open]') === null")
    card = "document.querySelector('.cards .device')"
    await browser.value(f"{card}.scrollIntoView({{block: 'center'}})")
    box = await box_of(browser, card)
    await browser.tap(box["x"] + 20, box["y"] + 20)
    await browser.until("location.hash === '#fleet/dgx-0/0'")
    shown = "document.querySelector('aside .card:not([hidden])')"
    await browser.until(f"{shown}.querySelector('h2').innerText === 'dgx-0/0' && scrollY > 0")
    above = "document.querySelector('.bar').getBoundingClientRect().bottom"
    panel = f"{shown}.getBoundingClientRect()"
    await browser.until(f"{panel}.top >= {above} - 1 && {panel}.top < innerHeight")
    await no_complaint(browser)


@pytest.mark.parametrize(("nodes", "devices", "cards"), [(8, 8, 64), (13, 5, 0)])
@pytest_twisted.ensureDeferred
async def test_cards_or_map(
    start_async: StartAsync, tmp_path: Path, browser: Browser, nodes: int, devices: int, cards: int
) -> None:
    """64 devices have cards, 65 the map alone; the map is enlarged, and shows what a search finds."""
    await opened(start_async, tmp_path, browser, nodes, devices)
    assert await browser.value(SHOWN) == cards
    choices = "[...document.querySelectorAll('fieldset[aria-label=Show] label')].filter((each) => !each.hidden)"
    assert await browser.value(f"{choices}.length") == (3 if cards else 2)
    if cards:
        await show_map(browser)
    height = "document.querySelector('.map canvas').clientHeight"
    before = await browser.until(f"{height} > 100 && window.map?.cells.length === {2 * nodes * devices} && {height}")
    await browser.value("document.querySelector('[aria-label=\"Smaller cells\"]').click()")
    assert await browser.value(height) == before  # they already fit
    await search(browser, "dgx-2/")
    await browser.until(f"{FOUND} === '{devices} of {nodes * devices}'")
    assert await browser.value(PLACED) == devices
    await search(browser, "")
    await browser.until(f"{FOUND} === ''")
    await no_complaint(browser)


@pytest_twisted.ensureDeferred
async def test_an_error_of_a_part(start_async: StartAsync, tmp_path: Path, browser: Browser) -> None:
    """A board is as healthy as its worst instance: on card, tile and map; the strip of the map tells them apart."""
    pool = '    - {name: m, nodes: [mig-0], device: a100, devices-per-node: 1, mig: [3g.20gb, 1g.5gb], identity: dcgm}'
    stand = await opened(start_async, tmp_path, browser, 1, 2, pool)
    await stand.service.fetch("/api/v1/faults", {"kind": "xid", "code": 31, "devices": ["mig-0/0/0"]})
    await browser.until(f"{TILES}.includes('In trouble 1')")
    assert await browser.value("document.querySelectorAll('.device .state')[2].dataset.health") == "error"
    await show_map(browser)
    await browser.value("document.querySelector('input[value=health]').click()")
    await browser.until("window.map?.scale === 'health' && map.drawn")
    colours = (
        "(() => { const side = map._side(), foot = Math.round(side / 7), [x, y] = map.cells.slice(4, 6);"
        "const at = (dx, dy) => [...map.paper.getImageData(x + dx, y + dy, 1, 1).data].slice(0, 3).join();"
        "return [at(4, 4), at(4, side - foot / 2), at(side - 4, side - foot / 2)]; })()"
    )
    board, first, second = await browser.value(colours)
    assert (board, first, second) == ("179,48,143", "179,48,143", "185,220,203")  # error, error, well
    # The fault is over; what stays is listed with a button that resets it.
    await stand.service.fetch("/api/v1/faults", method="DELETE")
    await browser.value("location.hash = '#faults'")
    await browser.until("document.getElementById('panel-faults').innerText.includes('error reported (XID)')")
    await press(browser, "faults", "Reset")
    await browser.until("document.getElementById('panel-faults').innerText.includes('No device is in trouble')")


@pytest.mark.long
@pytest_twisted.ensureDeferred
async def test_ten_thousand_devices(start_async: StartAsync, tmp_path: Path, browser: Browser) -> None:
    """Divided boards have a cut corner, whole ones have not, also after pointing and filters; a frame draws little."""
    stand = await opened(start_async, tmp_path, browser, 1225, 8, DIVIDED)
    await browser.until(f"{TILES}.includes('Devices 10,000')")
    await browser.value("document.querySelector('input[value=health]').click()")
    await browser.until("window.map?.cells.length === 20000 && map.scale === 'health' && map.drawn")
    wrong = (
        "(() => { const {paper, cells, canvas} = map, side = map._side(), {divided} = map.live.outline;"
        "const {data, width} = paper.getImageData(0, 0, canvas.width, canvas.height), ratio = devicePixelRatio;"
        "const at = (x, y) => { const pixel = 4 * (Math.floor(ratio * y) * width + Math.floor(ratio * x));"
        "  return data.slice(pixel, pixel + 3).join(); };"
        "const found = []; let count = 0;"
        "for (let place = 0; place < divided.length; place++) { const [x, y] = cells.slice(2 * place, 2 * place + 2);"
        "  if (x < 0 || map.mask && !map.mask[place]) continue; count++;"
        "  const isCut = at(x + 1.5, y + 1.5) !== at(x + side - 1, y + side - 1);"
        "  if (isCut !== divided[place] > 0) found.push(map.live.name(place)); }"
        "return [count, found]; })()"
    )
    assert await browser.value("map.live.outline.divided.filter((each) => each > 0).length") == 150
    assert await browser.value(wrong) == [10_000, []]
    # Pointing at boards draws a frame around them, which leaves with the pointer, at any number of pixels.
    for place, scale in ((0, 1), (5000, 1), (9801, 1), (9802, 1.5), (9999, 1.5), (9800, 1)):
        await browser.resize(1400 + place % 7, 800, scale)
        await browser.until(f"map.canvas.width === Math.round({scale} * map.element.clientWidth) && map.drawn")
        box = json.loads(await browser.value(
            f"(() => {{ const [x, y] = map.cells.slice({2 * place}), {{canvas}} = map;"
            "scrollTo(0, scrollY + canvas.getBoundingClientRect().y + y - 400);"
            "const box = canvas.getBoundingClientRect();"
            "return JSON.stringify([box.x + x + 2, box.y + y + 2]); })()"
        ))  # fmt: skip
        await browser.point(*box)
        await browser.until(f"map.pointed === {place}")
        await browser.point(3, 790)
        await browser.until("map.pointed === -1")
        assert await browser.value(wrong) == [10_000, []], (place, scale)
    await stand.service.fetch("/api/v1/faults", {"kind": "hang", "devices": ["mig-3/*", "dgx-7/*"]})
    await browser.until(f"{TILES}.includes('In trouble 16')")
    await tile(browser, "In trouble")
    await browser.until(f"{FOUND} === '16 of 10,000'")
    assert await browser.value(wrong) == [16, []]
    await tile(browser, "In trouble")
    await browser.until(f"{FOUND} === ''")
    assert await browser.value(wrong) == [10_000, []]
    await search(browser, "mig-")
    await browser.until(f"{FOUND} === '200 of 10,000'")
    assert await browser.value(PLACED) == 200
    await search(browser, "")
    await browser.until("map.mask === null")
    assert await browser.value(wrong) == [10_000, []]
    # The work of frames: cells that have not changed are not drawn, also with a filter, and with numbers in cells.
    await browser.value(
        "(() => { window.work = {cells: 0, names: 0, frames: 0}; const {paper, live} = map;"
        "const [fill, name] = [paper.fillRect, live.name];"
        "paper.fillRect = function (...box) { work.cells++; return fill.apply(paper, box); };"
        "live.name = (place) => { work.names++; return name.call(live, place); };"
        "live.on('frame', () => { work.frames++; }); })()"
    )
    for prepare in ("0", "document.querySelector('.tile [title*=trouble]').click()"):
        await browser.value(prepare)
        await browser.value("work.cells = work.names = work.frames = 0")
        await browser.until("work.frames >= 5")
        counted = await browser.value("work")
        assert counted["cells"] < 100 * counted["frames"] and counted["names"] < 100 * counted["frames"], counted
    await tile(browser, "In trouble")
    for _ in range(5):
        await browser.value("document.querySelector('[aria-label=\"Larger cells\"]').click()")
    await browser.value("work.cells = work.names = work.frames = 0")
    await browser.until("work.frames >= 5")
    assert await browser.value("work.cells < 1000 * work.frames")
    # The browser remarks that the test reads pixels, which the page never does.
    assert [complaint for complaint in browser.complaints if "getImageData" not in complaint] == []
