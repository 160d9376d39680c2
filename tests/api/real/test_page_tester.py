"""The lists of the tester's tab in a real Chromium: who answered the requests of a plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import pytest_twisted

from tests.support.programs.asynchronous import connected
from tests.support.programs.browser import Browser
from tests.support.programs.page import Stand, column, no_complaint, panel, press, refreshed
from tests.support.programs.processes import StartAsync

pytestmark = pytest.mark.real

#: Two plans, each with one request at a time, which waits until the test answers it.
CONFIG = """
version: 1
fleet:
  seed: 7
  tick: 250ms
  pools: [{name: p, nodes: [dgx-0], device: h100, devices-per-node: 1, identity: dcgm}]
web: ["127.0.0.1:%(port)d"]
workloads: {listen: []}
queues:
  names: [many, few]
  listen-clients: ["%(folder)s/clients.sock"]
  listen-backends: ["%(folder)s/backends.sock"]
tester:
  plans: [{queue: many, parallel: 1}, {queue: few, parallel: 1}]
"""
#: More nodes than a page of a list has; the first has no name.
NODES = ("", *(f"n-{number}" for number in range(60)))


async def answer(folder: Path, queue: str, *nodes: str) -> None:
    """Answer a request from each of these nodes; each takes a millisecond longer, those of 7 fail."""
    async with await connected(str(folder / "backends.sock")) as backend:
        for place, node in enumerate(nodes):
            assert await backend.say(f'hello node="{node}" pod=pod-{place} device=gpu0') == "ok"
            found, job, *_ = (await backend.say(f"take {queue} wait=30s")).split()
            assert found == "ok"
            end = f"fail {job} 1 no memory" if node.endswith("7") else f"done {job} 0"
            assert (await backend.say(f"{end} run={place + 1}ms")).startswith("ok")


async def search(browser: Browser, number: int, text: str) -> None:
    """Search in one of the lists."""
    await browser.value(
        f"(() => {{ const field = document.querySelectorAll('#panel-tester input[type=search]')[{number}];"
        f"field.value = '{text}'; field.dispatchEvent(new Event('input')); }})()"
    )


@pytest_twisted.ensureDeferred
async def test_who_answered(start_async: StartAsync, tmp_path: Path, browser: Browser) -> None:
    """All nodes, devices and pods, in the order and part that the user asks for; of another plan only its own."""
    stand = Stand(start_async, tmp_path, browser, CONFIG)
    await stand.serve()
    await stand.open("#tester")
    await browser.until(f"{panel('tester')}.split('No answers yet.').length === 4")
    await browser.until(f"!{panel('tester')}.includes('Loading…')")
    await answer(tmp_path, "many", *NODES)
    await answer(tmp_path, "few", "n-1", "alone")
    nodes, devices, pods = (column("tester", 0, table) for table in (1, 2, 3))
    await browser.until(f"{panel('tester')}.split('1-50 of 61').length === 4")  # of each list
    assert await browser.value(f"{nodes}[0]") == "(not named)"
    await press(browser, "tester", "Next")
    await browser.until(f"{panel('tester')}.includes('51-61 of 61') && {nodes}.length === 11")
    await press(browser, "tester", "Node")
    await browser.until(f"{nodes}.slice(0, 4).join() === '(not named),n-0,n-1,n-2'")
    await press(browser, "tester", "p99")  # of numbers the highest come first
    await browser.until(f"{nodes}[0] === 'n-59' && {nodes}[49] === 'n-10'")
    await browser.press("/")
    await browser.until("document.activeElement === document.querySelector('#panel-tester input[type=search]')")
    for letter in "N-1":
        await browser.press(letter)
    await browser.until(f"{panel('tester')}.includes('1-11 of 11 found')")
    await refreshed(browser, "/nodes?limit=50&search=N-1&sort=-run-p99")
    assert await browser.value(nodes) == [f"n-{number}" for number in (*range(19, 9, -1), 1)]
    await search(browser, 1, "n-5/gpu")
    await browser.until(f"{devices}.join() === 'n-5/gpu0'")
    await search(browser, 2, "no memory")
    await browser.until(f"{pods}.join() === 'pod-18,pod-28,pod-38,pod-48,pod-58,pod-8'")
    # Another plan: nothing of this one is shown with it, and what was searched for stays.
    shown = await browser.value(
        "(() => { const choice = document.querySelector('#panel-tester select'); choice.value = 'few';"
        f"choice.dispatchEvent(new Event('change')); return {panel('tester')}; }})()"
    )
    assert shown.count("Loading…") >= 4 and "n-19" not in shown and "pod-18" not in shown
    await browser.until(f"{nodes}.join() === 'n-1' && {panel('tester')}.includes('1-1 of 1 found')")
    await browser.until(f"{panel('tester')}.split('Nothing is found.').length === 3")
    for number in range(3):
        await search(browser, number, "")
    await browser.until(f"{nodes}.join() === 'alone,n-1' && {pods}.join() === 'pod-0,pod-1'")  # each in its order
    await press(browser, "tester", "Reset the statistics")
    await browser.until(f"{panel('tester')}.split('No answers yet.').length === 4")
    await no_complaint(browser)
    assert browser.refused == []
    # Without an answer no list claims that nobody has answered.
    refuse = json.dumps(json.dumps({"error": {"message": "the disk is full", "where": ""}}))
    await browser.value(f"window.fetch = () => Promise.resolve(new Response({refuse}, {{status: 503}})), 0")
    await browser.until(f"{panel('tester')}.split('Cannot be loaded: the disk is full').length === 5")
    assert not await browser.value(f"{panel('tester')}.includes('No answers yet.')")
