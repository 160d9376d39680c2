"""The scenario of a service on the web page, in a real Chromium: its timeline as a drawing and as a table."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted

from tests.support.programs.browser import Browser
from tests.support.programs.page import Stand, column, no_complaint, panel
from tests.support.programs.processes import StartAsync, skip_or_fail

pytestmark = pytest.mark.real

#: The clock stands: only the tests move it. There is room for two faults.
CONFIG = """
version: 1
fleet:
  seed: 7
  speed: 0
  pools: [{name: p, nodes: [dgx-0], device: h100, devices-per-node: 4, identity: dcgm}]
limits: {faults: 2}
web: ["127.0.0.1:%(port)d"]
workloads: {listen: []}
"""
MARKUP = "<img src=x onerror=alert(1)>"
STORY = f"""
scenario: {{for: 10m, seed: 7}}
timeline:
  - {{as: train, at: 1m, for: 5m, run: {{name: job, devices: "dgx-0/[0-1]", profile: "80:0:0"}}}}
  - {{as: hot, at: 2m, fault: {{kind: fan, devices: dgx-0/2, duration: 1m}}}}
  - {{as: "{MARKUP}", at: 2m, fault: {{kind: fan, devices: dgx-0/3}}}}
  - {{as: full, at: 130s, fault: {{kind: fan, devices: dgx-0/any}}}}
  - {{at: 4m, clear: all}}
"""
#: Two entries, 1,002 occurrences.
MANY = """
scenario: {for: 1000s, seed: 7}
timeline:
  - {as: base, at: 0s, run: {name: base, devices: dgx-0/0, profile: "50:0:0"}}
  - {as: often, at: 0s, every: 1s, fault: {kind: reset, devices: dgx-0/3}}
  - {at: 999s, clear: all}
"""
TAB = "document.getElementById('tab-scenario')"
#: The state of each occurrence that is drawn, by its number.
STATES = (
    "Object.fromEntries([...document.querySelectorAll('.timeline [data-number]')]"
    ".map((each) => [each.dataset.number, each.getAttribute('class')]))"
)
NOW = "Number(document.querySelector('.timeline .now').getAttribute('transform').match(/[0-9.]+/)[0])"


async def playing(
    start: StartAsync, folder: Path, browser: Browser, story: str, place: str = "#scenario"
) -> Stand:
    """A page of a service that plays this."""
    (folder / "story.yaml").write_text(story)
    stand = Stand(start, folder, browser, CONFIG, ("--scenario", str(folder / "story.yaml")))
    await stand.serve()
    await stand.open(place)
    return stand


async def advance(stand: Stand, seconds: int) -> None:
    """Move the clock on."""
    await stand.service.fetch("/api/v1/clock", {"advance": seconds})


async def becomes(browser: Browser, states: dict[str, str]) -> None:
    """Wait until exactly these occurrences are drawn with these states."""
    await browser.until(f"JSON.stringify({STATES}) === {json.dumps(json.dumps(states, separators=(',', ':')))}")


def width_of(number: int) -> str:
    """The width of the bar of an occurrence."""
    return f"document.querySelector('.timeline rect[data-number=\"{number}\"]').getBoundingClientRect().width"


def asked(browser: Browser) -> int:
    """How often the page has asked for the timeline."""
    return len([each for each in browser.asked if each.endswith("/api/v1/scenario")])


@pytest_twisted.ensureDeferred
async def test_a_timeline(start_async: StartAsync, tmp_path: Path, browser: Browser) -> None:
    """Bars and marks change their state as the clock moves, and the line of now moves on; the table has the same."""
    stand = await playing(start_async, tmp_path, browser, STORY)
    # The numbers of the occurrences, by time: the run, two faults, the refused one, the clear, the end of the run.
    await becomes(browser, dict.fromkeys(map(str, range(5)), "waiting"))
    labels = "[...document.querySelectorAll('.timeline g > g > text')].map((each) => each.firstChild.data)"
    assert await browser.value(labels) == ["train", "hot", f"{MARKUP[:24]}…", "full", "clear"]
    text = await browser.value(panel("scenario"))
    assert all(each in text for each in ("Scenario story", "0:00 of 10:00 (0 %); 0 of 6 played", "paused"))
    assert "Next in 1 min 0 s, at 1:00: run job on dgx-0/[0-1]" in text
    await browser.until(f"{column('scenario', 0)}.join() === '1:00,2:00,2:00,2:10,4:00,6:00'")
    begin = await browser.value(NOW)
    await advance(stand, 90)
    await becomes(browser, {"0": "active", "1": "waiting", "2": "waiting", "3": "waiting", "4": "waiting"})
    await browser.until(f"{NOW} > {begin} + 50")
    assert await browser.value("document.querySelector('.timeline desc').textContent.startsWith('Going on: train.')")
    width = await browser.value(width_of(0))
    await advance(stand, 10)  # nothing changes its state: the bar grows with the frames
    asked_before = asked(browser)
    await browser.until(f"{width_of(0)} > {width}")
    assert asked(browser) == asked_before
    await advance(stand, 40)
    await becomes(browser, {"0": "active", "1": "active", "2": "active", "3": "refused", "4": "waiting"})
    # In the table: what goes on, then what is next, then the others; a refused one says why.
    states = column("scenario", 4)
    await browser.until(f"{states}.join() === 'active,active,active,waiting,waiting,refused'")
    assert await browser.value(column("scenario", 1)) == [
        "train: run job on dgx-0/[0-1]", "hot: fault fan on dgx-0/2", f"{MARKUP}: fault fan on dgx-0/3", "clear all",
        "stop train", "full: fault fan on dgx-0/any",
    ]  # fmt: skip
    assert (await browser.value(column("scenario", 3)))[:3] == ["6:00", "3:00", "4:00"]
    assert "limits.faults" in (await browser.value(column("scenario", 5)))[5]
    await advance(stand, 60)
    await becomes(browser, {"0": "active", "1": "done", "2": "active", "3": "refused", "4": "waiting"})
    await advance(stand, 200)
    await becomes(browser, {"0": "done", "1": "done", "2": "done", "3": "refused", "4": "done"})
    await advance(stand, 250)
    await browser.until(f"{panel('scenario')}.includes('10:00 of 10:00 (100 %); 6 of 6 played')")
    assert "The simulation goes on." in await browser.value(panel("scenario"))
    # A device of the table is a link to its charts.
    links = "[...document.querySelectorAll('#panel-scenario td a')]"
    await browser.value(f"{links}.find((each) => each.text === 'dgx-0/2').click()")
    await browser.until("location.hash === '#fleet/dgx-0/2' && document.getElementById('panel-scenario').hidden")
    assert await browser.value("document.querySelectorAll('img[src=x]').length") == 0
    await no_complaint(browser)
    assert browser.refused == []


@pytest_twisted.ensureDeferred
async def test_only_where_one_is_played(start_async: StartAsync, tmp_path: Path, browser: Browser) -> None:
    """Without a scenario there is no such tab, and the page asks for none; another service may play one."""
    stand = Stand(start_async, tmp_path, browser, CONFIG)
    await stand.serve()
    await stand.open()
    await browser.until("!document.getElementById('clock').hidden")
    assert await browser.value(f"{TAB}.hidden")
    await browser.press("7")
    await browser.press("?")
    keys = "document.querySelector('dialog[open]')?.innerText"
    assert "Metrics" in await browser.until(keys) and "Scenario" not in await browser.value(keys)
    await browser.press("Escape", 27)
    await browser.value("location.hash = '#scenario'")
    await browser.until(f"{panel('scenario')}.includes('No scenario is played: start the service with --scenario')")
    await browser.value("location.hash = '#fleet'")
    await browser.until(f"{TAB}.hidden")
    assert browser.refused == [] and asked(browser) == 0
    await no_complaint(browser)
    # The next service at this address plays one: it has the tab, which keys open.
    assert await stand.service.program.stop() == 0
    again = Stand(start_async, tmp_path, browser, CONFIG, ("--scenario", str(tmp_path / "story.yaml")))
    (tmp_path / "story.yaml").write_text(STORY)
    again.port = stand.port
    again.configure(CONFIG)
    await again.serve()
    await browser.until(f"!{TAB}.hidden")
    assert asked(browser) == 0  # nothing while another tab is open
    await browser.press("5")
    await becomes(browser, dict.fromkeys(map(str, range(5)), "waiting"))
    await browser.press("/")
    for letter in "hot":
        await browser.press(letter)
    await browser.until(f"{column('scenario', 1)}.join() === 'hot: fault fan on dgx-0/2'")


async def nodes_of(browser: Browser) -> list[dict[str, Any]]:
    """What a screen reader finds on the page."""
    found: list[dict[str, Any]] = (await browser.call("Accessibility.getFullAXTree"))["nodes"]
    return [node for node in found if not node["ignored"]]


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.long)])
@pytest_twisted.ensureDeferred
async def test_a_thousand(start_async: StartAsync, tmp_path: Path, browser: Browser, theme: str) -> None:
    """A thousand occurrences at every width: nothing is outside of the window, axe finds nothing, the rest is paged."""
    stand = await playing(start_async, tmp_path, browser, MANY)
    await browser.theme(theme)
    await advance(stand, 500)
    await browser.until(f"Object.values({STATES}).filter((each) => each === 'done').length > 480")
    assert await browser.value(f"Object.keys({STATES}).length") == 1002
    await browser.until(f"{panel('scenario')}.includes('1-50 of 1,002')")
    await browser.until(f"{column('scenario', 4)}[0] === 'active'")
    for width in (1400, 800, 390):
        await browser.resize(width, 800)
        await browser.until(f"document.querySelector('.timeline').getBoundingClientRect().right <= {width}")
        await browser.until("document.querySelector('.timeline').getBoundingClientRect().width > 300")
        assert await browser.value("document.documentElement.scrollWidth") <= width
        assert await browser.value(f"Object.keys({STATES}).length") == 1002
        images = [node for node in await nodes_of(browser) if node["role"]["value"] in ("image", "img")]
        named = [(node["name"]["value"], node.get("description", {}).get("value", "")) for node in images]
        (drawing,) = [each for each in named if each[0].startswith("Timeline")]
        assert drawing[0] == "Timeline of the scenario story, 16:40 long"
        assert drawing[1].startswith("Going on: base") and "The table of occurrences" in drawing[1]
        await has_no_fault(browser, width)
    await no_complaint(browser)


async def has_no_fault(browser: Browser, width: int) -> None:
    """Axe finds nothing."""
    try:
        axe = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    except ModuleNotFoundError:
        skip_or_fail("axe-core-python is not installed")
    await browser.value(f"{axe}; true")
    found = json.loads(await browser.value("axe.run().then((found) => JSON.stringify(found.violations))"))
    wrong = [(each["id"], [node["html"][:150] for node in each["nodes"]]) for each in found]
    assert wrong == [], (width, wrong)
