"""The web page of a real service, in a browser that looks at it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.programs.asynchronous import AsyncService, eventually, ready
from tests.support.programs.browser import Browser
from tests.support.programs.ports import free_port
from tests.support.programs.processes import StartAsync, console

#: Two nodes, one whose device is divided, a queue with its load without a backend, one address with a token.
CONFIG = """
version: 1
fleet:
  seed: 7
  tick: 250ms
  pools:
    - {name: p, nodes: 2, node-name: "dgx-{}", device: h100, devices-per-node: 4, identity: dcgm}
    - {name: m, nodes: [mig-0], device: a100, devices-per-node: 1, mig: [3g.20gb, 1g.5gb], identity: dcgm}
web: ["127.0.0.1:%(port)d", {listen: "127.0.0.1:0", token: open-sesame}]
workloads:
  listen: ["%(folder)s/workload.sock"]
  base: [{name: training, devices: "dgx-0/*", profile: "90:5:0"}]
queues:
  names: [sleep]
  listen-clients: ["%(folder)s/clients.sock"]
  listen-backends: ["%(folder)s/backends.sock"]
tester:
  plans: [{queue: sleep, parallel: 2, most-parallel: 50}]
"""


class Stand:
    """A service, and a browser that looks at it.

    :ivar service: the one that runs, after ``serve``.
    """

    service: AsyncService

    def __init__(
        self, start: StartAsync, folder: Path, browser: Browser, config: str = CONFIG, options: Sequence[str] = ()
    ) -> None:
        """
        :param options: further options of ``fakedev serve``.
        """
        self.port = free_port()
        self._start = start
        self._folder = folder
        self._options = options
        self.configure(config)
        self.browser = browser

    def configure(self, config: str) -> None:
        """The next ``serve`` takes this configuration, at the same address."""
        (self._folder / "page.yaml").write_text(config % {"port": self.port, "folder": self._folder})

    async def serve(self) -> None:
        """Start the service."""
        file = self._folder / "ready.json"
        file.unlink(missing_ok=True)
        config = str(self._folder / "page.yaml")
        command = [*console("fakedev"), "serve", "--config", config, "--ready-file", str(file), *self._options]
        self.service = await ready(self._start(command, folder=self._folder), file)

    async def open(self, place: str = "", web: int = 0, host: str = "") -> Browser:
        """Open the page and wait until it is live."""
        address = self.service.web[web]
        await self.browser.open(f"http://{address.replace('127.0.0.1', host) if host else address}/{place}")
        await self.browser.until("document.getElementById('link')?.textContent === 'live'")
        return self.browser

    async def get(self, path: str) -> Any:
        """What the API has."""
        return await self.service.get_json(path)

    async def number(self, of: str) -> int:
        """How many workloads or faults the API has."""
        return len((await self.get(f"/api/v1/{of}"))[of])

    async def becomes(self, of: str, number: int) -> None:
        """Wait until the API has so many workloads or faults."""

        async def is_so() -> bool:
            return await self.number(of) == number

        await eventually(is_so, f"there are {number} {of}")


async def fill(browser: Browser, panel: str, **values: str) -> None:
    """Fill fields of the form of a tab, and send it as its button does."""
    await browser.value(
        f"(() => {{ const form = document.querySelector('#panel-{panel} form');"
        f"for (const [name, value] of Object.entries({json.dumps(values)})) {{"
        "  form.elements[name].value = value;"
        "  form.elements[name].dispatchEvent(new Event('change', {bubbles: true})); }"
        "form.requestSubmit(); return true; })()"
    )


async def press(browser: Browser, panel: str, text: str) -> None:
    """Press the button of a tab with this text, as soon as it is there."""
    await browser.until(
        f"[...document.querySelectorAll('#panel-{panel} button')].filter((each) => each.textContent === '{text}')"
        ".slice(0, 1).map((each) => each.click() ?? true)[0]"
    )


async def unfold(browser: Browser, place: str) -> None:
    """Show what is folded away at a place, also of each part of a device."""
    has_parts = "mig-0" in place
    if has_parts:
        await browser.until("document.querySelector('.parts li') !== null")
    await browser.value("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    if has_parts:
        await browser.until("document.querySelector('.parts .why li') !== null")


async def no_complaint(browser: Browser) -> None:
    """Nothing is in the console, nothing came from another host, and no data was run as a script."""
    assert await browser.value("document.title") == "fakedev: simulated fleet"
    assert browser.complaints == []
    hosts = {address.split("/")[2] for address in browser.asked if address.startswith(("http", "ws"))}
    assert len(hosts) == 1, hosts


async def show_map(browser: Browser) -> None:
    """Show the map of a fleet that has cards."""
    await browser.value("document.querySelector('input[name=view][value=Map]').click()")
    await browser.until("document.querySelector('.map canvas').height > 100")


def panel(name: str) -> str:
    """The text of the tables and of the pages of lists in a tab."""
    return f"document.getElementById('panel-{name}').innerText"


def column(tab: str, number: int = 0, table: int = 0) -> str:
    """The texts of a column of a table."""
    rows = f"document.querySelectorAll('#panel-{tab} table')[{table}].tBodies[0].rows"
    return f"[...{rows}].map((row) => row.cells[{number}].innerText)"


async def refreshed(browser: Browser, path: str, times: int = 2) -> None:
    """Wait until the page has asked for a path some more times: it has then shown an answer."""
    before = len([each for each in browser.asked if path in each])
    await eventually(lambda: len([each for each in browser.asked if path in each]) >= before + times, path)
