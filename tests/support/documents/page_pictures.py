"""Makes the pictures of the web page in doc/pictures.

Run as ``python -m tests.support.documents.page_pictures [large] [loop] [parts] [day] [scenario] [racks] [night]``.

It takes eight minutes. They are of 10,000 GPUs, of a run of etc/loop.sh in which the fans of all boards fail for a
while, of divided boards and of links, of a day, of a scenario, of a rack, and of the night in which a switch tray dies;
in both themes, for windows of several sizes.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectError
from twisted.internet.task import deferLater, react

from tests.support.paths import ROOT
from tests.support.programs.asynchronous import eventually, fetch
from tests.support.programs.browser import Browser, Chromium
from tests.support.programs.ports import free_port
from tests.support.programs.processes import AsyncProgram, clean_environment, console, require_program

PICTURES = ROOT / "doc" / "pictures"
WIDE, MEDIUM, NARROW = (1120, 700), (768, 720), (390, 760)
#: The panel beside the devices.
SHOWN = "aside .card:not([hidden])"
#: The largest picture.
MAX_BYTES = 150_000
CALM_SECONDS, FAULT_SECONDS, AFTER_SECONDS = 60, 110, 110
LARGE = """
version: 1
fleet:
  seed: 3
  pools: [{name: train, nodes: 1250, node-name: "dgx-{}", device: h100, devices-per-node: 8, identity: dcgm}]
web: ["127.0.0.1:%d"]
workloads:
  listen: ["%s/workload.sock"]
  base:
    - {name: pretraining, devices: "dgx-[0-499]/*", profile: "97:2:50,55:10:4,97:2:50,12:4:15", kind: tensor}
    - {name: serving, devices: "dgx-[500-899]/*", profile: "45:28:0"}
    - {name: evaluation, devices: "dgx-[900-999]/[0-3]", profile: "80:8:0"}
faults:
  - {kind: fan, devices: "dgx-[0-899]/*", probability: 0.03, every: 1h}
  - {kind: hang, devices: all, probability: 0.004, every: 1h}
  - {kind: lost, devices: "dgx-[1000-1249]/*", probability: 0.02, every: 1h}
"""


PARTS = """
version: 1
fleet:
  seed: 7
  pools:
    - name: mig
      nodes: 4
      device: a100
      devices-per-node: 8
      mig: [3g.20gb, 2g.10gb, 1g.5gb]
      devices: [{index: 0, mig: []}, {index: 1, mig: []}, {index: 2, mig: [7g.40gb]}]
      identity: dcgm
    - {name: dgx, nodes: 4, device: h100, devices-per-node: 8, identity: dcgm}
web: ["127.0.0.1:%d"]
workloads:
  listen: ["%s/workload.sock"]
  base:
    - name: all-reduce
      devices: "dgx-*/*"
      profile: "70:10:0"
      kind: tensor
      metrics: {fabric-tx: "60%%", fabric-rx: "60%%"}
    - {name: pretraining, devices: "mig-*/[0-1]", profile: "97:2:0", kind: tensor}
    - {name: training, devices: "mig-*/[3-7]/0", profile: "90:5:0", pod: train-0, metrics: {memory: 12GiB}}
    - {name: chat, devices: "mig-*/[3-7]/2", profile: "40:25:0", pod: chat-0, metrics: {memory: 3GiB}}
faults:
  - {kind: link-down, devices: dgx-0/3, link: 5}
  - {kind: xid, code: 31, devices: mig-0/4/1}
"""
#: A day of work that begins and ends, in a few thousand ticks.
DAY = """
version: 1
fleet:
  seed: 7
  tick: 10s
  pools: [{name: dgx, nodes: 2, node-name: "dgx-{}", device: h100, devices-per-node: 8, identity: dcgm}]
web: ["127.0.0.1:%d"]
workloads:
  listen: ["%s/workload.sock"]
  base:
    - {name: training, devices: "dgx-0/[0-3]", profile: "95:3:7200,15:10:2400", kind: tensor}
    - {name: chat, devices: "dgx-1/*", profile: "25:15:9000,60:25:6000,40:20:5400"}
"""
#: Two racks: in one coolant leaks and a switch tray is lost.
RACKS = """
version: 1
fleet:
  seed: 7
  pools: [{name: nvl, nodes: 36, device: gb200-nvl72, racks: {kind: nvl72, power-limit: 132000}, identity: dcgm}]
web: ["127.0.0.1:%d"]
workloads:
  listen: ["%s/workload.sock"]
  base:
    - {name: training, devices: "nvl-[0-11]/*", profile: "95:3:0", kind: training, metrics: {fabric-tx: 40%%}}
    - {name: serving, devices: "nvl-[18-26]/*", profile: "45:25:0"}
faults:
  - {kind: coolant-leak, devices: nvl-4/0, resistance: 3}
  - {kind: switch-tray, devices: nvl-0/0, tray: 5, start: 20s}
  - {kind: imex-down, devices: nvl-9/0, start: 25s}
"""
#: An hour, in which four boards have trouble.
SCENARIO = """
config:
  fleet:
    seed: 7
    speed: 0
    pools: [{name: dgx, nodes: 2, node-name: "dgx-{}", device: h100, devices-per-node: 8, identity: dcgm}]
  limits: {faults: 4}
  web: ["127.0.0.1:%d"]
  workloads: {listen: ["%s/workload.sock"]}
scenario: {for: 1h, seed: 3}
timeline:
  - {as: training, at: 2m, for: 50m, run: {name: training, devices: "dgx-0/*", profile: "95:2:0", kind: tensor}}
  - {as: chat, at: 5m, run: {name: chat, devices: "dgx-1/[0-3]", profile: "40:20:0"}}
  - {as: night, at: 12m, run: {name: night, devices: "dgx-1/[4-7]", profile: "80:5:0"}, for: 15m}
  - {as: hot, at: 10m, fault: {kind: fan, devices: dgx-0/2, duration: 12m}}
  - {as: cable, at: 25m, fault: {kind: link-down, devices: dgx-0/5, link: 3}}
  - {at: 8m, every: 9m, fault: {kind: xid, code: 94, devices: dgx-1/any}}
  - {as: gone, at: 33m, fault: {kind: lost, devices: dgx-1/6, duration: 10m}}
  - {as: brake, at: 20m, fault: {kind: power-brake, devices: "dgx-0/[0-1]", duration: 20m}}
  - {as: air, at: 28m, fault: {kind: inlet, devices: "dgx-0/*", celsius: 45, duration: 4m}}
  - {as: full, at: 29m, fault: {kind: hang, devices: dgx-0/7}}
  - {as: repair, at: 44m, clear: cable}
  - {at: 47m, stop: chat}
"""


@asynccontextmanager
async def running(command: list[str], folder: Path, port: int, **environment: str) -> AsyncIterator[str]:
    """A program that serves the page at a port; its address."""
    program = AsyncProgram(command, environment=clean_environment(**environment), folder=folder)
    address = f"127.0.0.1:{port}"

    async def answers() -> bool:
        try:
            return (await fetch(address, "/health")).status == 200
        except ConnectError:
            return False

    try:
        await eventually(answers, "the page is served")
        yield address
        await program.stop()
    finally:
        await program.kill()


async def let_pass(seconds: float) -> None:
    """Wait until the page shows so much of the past."""
    await deferLater(reactor, seconds)


async def picture(
    browser: Browser, name: str, place: str, size: tuple[int, int] = WIDE, theme: str = "light", below: str = "",
    block: str = "end",
) -> None:
    """Show a place of the page, and keep what is to be seen.

    :param below: an element that is scrolled to, with its ``block``; empty for none.
    """
    await browser.resize(*size)
    await browser.theme(theme)
    await browser.value(f"location.hash = '{place}'")
    await let_pass(3)
    await browser.value("scrollTo(0, 0)")
    if below:
        await browser.value(f"document.querySelector('{below}').scrollIntoView({{block: '{block}'}})")
    await let_pass(0.5)
    PICTURES.mkdir(exist_ok=True)
    found = await browser.picture()
    assert len(found) <= MAX_BYTES, (name, len(found))
    (PICTURES / f"{name}.png").write_bytes(found)


def programs(folder: Path) -> Path:
    """A folder with our console programs, as an installation has them."""
    for name in ("fakedev", "fakedev-backend", "fakedev-workload"):
        file = folder / name
        file.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.join(console(name))} "$@"\n')
        file.chmod(0o755)
    return folder


async def of_the_loop(browser: Browser, folder: Path) -> None:
    """The loop, while all is well, while the fans are stopped, and afterwards."""
    port = free_port()
    web = f'web=["127.0.0.1:{port}"]'
    command = ["sh", str(ROOT / "etc" / "loop.sh"), "--set", web]
    async with running(command, folder, port, FAKEDEV_BIN=str(programs(folder)), PATH=os.environ["PATH"]) as address:
        await browser.open(f"http://{address}/#queues")
        await let_pass(CALM_SECONDS)
        fault = json.dumps({"kind": "fan", "devices": "dgx-0/*", "resistance": 8})
        answer = await fetch(address, "/api/v1/faults", fault, "POST")
        await let_pass(FAULT_SECONDS)
        await picture(browser, "device-dark", "fleet/dgx-0/3", theme="dark")
        await picture(browser, "faults-light", "faults")
        await picture(browser, "fleet-narrow-dark", "fleet", NARROW, "dark")
        await fetch(address, f"/api/v1/faults/{json.loads(answer.body)['id']}", method="DELETE")
        await let_pass(AFTER_SECONDS)
        await picture(browser, "loop", "queues", (1120, 520))
        await picture(browser, "tester-light", "tester")
        await picture(browser, "workloads-narrow-light", "workloads", NARROW)
        await picture(browser, "metrics-dark", "metrics", theme="dark")


async def of_ten_thousand(browser: Browser, folder: Path) -> None:
    """The map of a large fleet."""
    port = free_port()
    (folder / "large.yaml").write_text(LARGE % (port, folder))
    async with running([*console("fakedev"), "serve", "--config", str(folder / "large.yaml")], folder, port) as address:
        await browser.open(f"http://{address}/#fleet")
        await let_pass(45)
        await picture(browser, "fleet-light", "fleet")
        await browser.value("document.querySelector('input[value=health]').click()")
        await picture(browser, "health-dark", "fleet", theme="dark")


async def of_parts(browser: Browser, folder: Path) -> None:
    """The cards of a small fleet; a divided GPU, and one with a link that is down."""
    port = free_port()
    (folder / "parts.yaml").write_text(PARTS % (port, folder))
    async with running([*console("fakedev"), "serve", "--config", str(folder / "parts.yaml")], folder, port) as address:
        await browser.open(f"http://{address}/#fleet")
        await let_pass(60)
        await picture(browser, "cards-light", "fleet")
        await picture(browser, "parts-light", "fleet/mig-0/4")
        await browser.value("document.querySelector('aside .why').parentElement.open = false")
        await browser.value("document.querySelector('.links details').open = true")
        await picture(browser, "links-dark", "fleet/dgx-0/3", (1120, 620), "dark", ".links")
        await picture(browser, "why-medium-light", "why/dgx-0%2F3", MEDIUM)


async def of_a_day(browser: Browser, folder: Path) -> None:
    """Charts of a day, and of several devices over each other."""
    port = free_port()
    (folder / "day.yaml").write_text(DAY % (port, folder))
    async with running([*console("fakedev"), "serve", "--config", str(folder / "day.yaml")], folder, port) as address:
        for _ in range(12):
            await fetch(address, "/api/v1/clock", json.dumps({"advance": "2h"}), "POST")
        await browser.open(f"http://{address}/#fleet")
        await let_pass(3)
        several, one = "fleet/dgx-0/0,dgx-0/7,dgx-1/0?view=Table&span=21600", "fleet/dgx-1/2?view=Cards&span=86400"
        await picture(browser, "compare-light", several)
        await picture(browser, "compare-medium-dark", several, MEDIUM, "dark", SHOWN, "start")
        await browser.value("document.querySelector('aside .why').parentElement.open = false")
        await picture(browser, "day-dark", one, theme="dark")
        await picture(browser, "day-narrow-light", one, NARROW, "light", SHOWN, "start")


async def of_a_scenario(browser: Browser, folder: Path) -> None:
    """The timeline of a scenario after half of its time."""
    port = free_port()
    (folder / "hour.yaml").write_text(SCENARIO % (port, folder))
    command = [*console("fakedev"), "serve", "--scenario", str(folder / "hour.yaml")]
    async with running(command, folder, port) as address:
        await fetch(address, "/api/v1/clock", json.dumps({"advance": "36m"}), "POST")
        await browser.open(f"http://{address}/#scenario")
        await let_pass(3)
        await picture(browser, "scenario-light", "scenario", (1120, 900))


async def of_racks(browser: Browser, folder: Path) -> None:
    """A rack with a switch tray that is lost, by usage and by temperature."""
    port = free_port()
    (folder / "racks.yaml").write_text(RACKS % (port, folder))
    async with running([*console("fakedev"), "serve", "--config", str(folder / "racks.yaml")], folder, port) as address:
        await browser.open(f"http://{address}/#fleet?view=Racks")
        await let_pass(75)
        whole = ".rack-names", "start"
        await picture(browser, "rack-light", "fleet?view=Racks", (880, 840), "light", *whole)
        await picture(browser, "rack-heat-dark", "fleet?view=Racks&colour=temperature", (880, 840), "dark", *whole)


async def of_a_night(browser: Browser, folder: Path) -> None:
    """An hour after a switch tray died: the rack, and a board of it before and after."""
    port, scenarios = free_port(), ROOT / "etc" / "scenarios"
    places = f"config:\n  web: ['127.0.0.1:{port}']\n  workloads: {{listen: [{folder}/workload.sock]}}\n"
    text = (scenarios / "switch-tray.yaml").read_text().replace("config:\n", places, 1)
    text = text.replace("tick: 5s", "tick: 5s\n    speed: 0").replace("../prometheus", str(ROOT / "etc" / "prometheus"))
    (folder / "night.yaml").write_text(text)
    command = [*console("fakedev"), "serve", "--scenario", str(folder / "night.yaml")]
    async with running(command, folder, port) as address:
        for _ in range(4):
            await fetch(address, "/api/v1/clock", json.dumps({"advance": "1h"}), "POST")
        await browser.open(f"http://{address}/#fleet")
        await let_pass(3)
        await picture(browser, "night-rack-light", "fleet?view=Racks", (880, 840), "light", ".rack-names", "start")
        board = "fleet/nvl-0/0?view=Racks&span=21600"
        await picture(browser, "night-board-dark", board, MEDIUM, "dark", SHOWN, "start")


async def make(names: list[str]) -> None:
    """Make the pictures with these names."""
    makers = {"large": of_ten_thousand, "loop": of_the_loop, "parts": of_parts}
    makers |= {"day": of_a_day, "scenario": of_a_scenario, "racks": of_racks, "night": of_a_night}
    with tempfile.TemporaryDirectory() as name:
        chromium = Chromium(require_program("chromium"), Path(name))
        try:
            browser = await chromium.tab(*WIDE)
            for each in names or makers:
                await makers[each](browser, Path(name))
        finally:
            await chromium.kill()


if __name__ == "__main__":
    react(lambda _: Deferred.fromCoroutine(make(sys.argv[1:])))
