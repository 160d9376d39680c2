"""Racks on the web page: trays, links, heat, and the health of the fabric, while a switch tray is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_twisted

from tests.support.programs.browser import Browser
from tests.support.programs.page import Stand, no_complaint
from tests.support.programs.processes import StartAsync

pytestmark = pytest.mark.real

_RACKS = """
version: 1
fleet:
  seed: 7
  tick: 250ms
  pools: [{name: nvl, nodes: 36, device: gb200-nvl72, identity: dcgm}]
web: ["127.0.0.1:%(port)d"]
workloads:
  listen: ["%(folder)s/workload.sock"]
  base: [{name: training, devices: "nvl-[0-17]/*", profile: "90:5:0", metrics: {fabric-tx: 40%%}}]
"""
_BOARDS = "document.querySelectorAll('.slots .board')"


@pytest_twisted.ensureDeferred
async def test_a_rack_is_drawn_as_a_rack(start_async: StartAsync, tmp_path: Path, browser: Browser) -> None:
    stand = Stand(start_async, tmp_path, browser, _RACKS)
    await stand.serve()
    await stand.open("#fleet?view=Racks")
    await browser.until(f"{_BOARDS}.length === 72 && document.querySelectorAll('.slots .switch').length === 18")
    assert await browser.value("document.querySelectorAll('.slots .grace').length") == 36
    # The boards of the first rack work: their colour is that of the map, and their text the usage.
    await browser.until(f"[...{_BOARDS}].every((each) => parseInt(each.textContent) > 60)")
    await browser.value("document.querySelector('input[value=temperature]').click()")
    await browser.until(f"[...{_BOARDS}].every((each) => each.textContent.includes('°C'))")
    assert await browser.value("document.querySelector('.rack-facts').textContent.includes('Fabric: 72 healthy')")
    fault = '{"kind": "switch-tray", "devices": "nvl-3/0", "tray": 4}'
    await browser.value(f"fetch('/api/v1/faults', {{method: 'POST', body: '{fault}'}}).then(() => 1)")
    await browser.until("document.querySelectorAll('.slots .switch.bad').length === 2")
    await browser.until(f"[...{_BOARDS}].every((each) => each.dataset.fabric === 'unhealthy')")
    assert await browser.value(f"{_BOARDS}[0].title.includes('16 of 18 links up, fabric unhealthy, clique 0')")
    # The other rack is idle and well.
    await browser.value("document.querySelector('[data-rack=nvl-rack-1]').click()")
    await browser.until(f"[...{_BOARDS}].every((each) => each.dataset.fabric === 'healthy')")
    # A board shows its charts.
    await browser.value(f"{_BOARDS}[0].click()")
    await browser.until("location.hash.startsWith('#fleet/nvl-35/0')")
    await no_complaint(browser)
