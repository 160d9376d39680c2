"""Makes the pictures of the web page in doc/pictures.

Run as ``python -m tests.support.documents.page_pictures [large] [loop] [parts]``.

It takes seven minutes. They are of 10,000 GPUs, of a run of etc/loop.sh in which the fans of all boards fail for a
while, and of divided boards and of links.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT
from tests.support.programs.browser import Browser
from tests.support.programs.ports import free_port
from tests.support.programs.processes import clean_environment, console

PICTURES = ROOT / "doc" / "pictures"
WIDE, NARROW = (1280, 860), (390, 844)
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


@contextmanager
def running(command: list[str], folder: Path, port: int, **environment: str) -> Iterator[str]:
    """A program that serves the page at a port; its address."""
    program = subprocess.Popen(
        command, env=clean_environment(**environment), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder
    )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                ask(f"{address}/health")
                break
            except OSError:
                time.sleep(0.1)
        yield address
    finally:
        program.terminate()
        program.wait()


def ask(address: str, body: Any = None) -> Any:
    """What an address answers, by JSON."""
    content = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(address, content), timeout=30) as answer:
        return json.loads(answer.read())


def picture(
    browser: Browser, name: str, place: str, size: tuple[int, int] = WIDE, theme: str = "light", below: str = ""
) -> None:
    """Show a place of the page, and keep what is to be seen.

    :param below: an element that is scrolled to; empty for none.
    """
    browser.resize(*size)
    browser.theme(theme)
    browser.value(f"location.hash = '{place}'")
    time.sleep(3)
    if below:
        browser.value(f"document.querySelector('{below}').scrollIntoView({{block: 'end'}})")
    browser.value("scrollTo(0, 0)")
    time.sleep(0.5)
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / f"{name}.png").write_bytes(browser.picture())


def programs(folder: Path) -> Path:
    """A folder with our console programs, as an installation has them."""
    for name in ("fakedev", "fakedev-backend", "fakedev-workload"):
        file = folder / name
        file.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.join(console(name))} "$@"\n')
        file.chmod(0o755)
    return folder


def of_the_loop(browser: Browser, folder: Path) -> None:
    """The loop, while all is well, while the fans are stopped, and afterwards."""
    port = free_port()
    web = f'web=["127.0.0.1:{port}"]'
    command = ["sh", str(ROOT / "etc" / "loop.sh"), "--set", web]
    with running(command, folder, port, FAKEDEV_BIN=str(programs(folder)), PATH=os.environ["PATH"]) as address:
        browser.open(f"{address}/#queues")
        time.sleep(CALM_SECONDS)
        fault = ask(f"{address}/api/v1/faults", {"kind": "fan", "devices": "dgx-0/*", "resistance": 8})
        time.sleep(FAULT_SECONDS)
        picture(browser, "device-dark", "fleet/dgx-0/3", theme="dark")
        picture(browser, "faults-light", "faults")
        picture(browser, "fleet-narrow-dark", "fleet", NARROW, "dark")
        over = urllib.request.Request(f"{address}/api/v1/faults/{fault['id']}", method="DELETE")
        urllib.request.urlopen(over, timeout=30).close()
        time.sleep(AFTER_SECONDS)
        picture(browser, "loop", "queues", (1280, 560))
        picture(browser, "tester-light", "tester")
        picture(browser, "workloads-narrow-light", "workloads", NARROW)
        picture(browser, "metrics-dark", "metrics", theme="dark")


def of_ten_thousand(browser: Browser, folder: Path) -> None:
    """The map of a large fleet."""
    port = free_port()
    (folder / "large.yaml").write_text(LARGE % (port, folder))
    with running([*console("fakedev"), "serve", "--config", str(folder / "large.yaml")], folder, port) as address:
        browser.open(f"{address}/#fleet")
        time.sleep(45)
        picture(browser, "fleet-light", "fleet")
        browser.value("document.querySelector('input[value=health]').click()")
        picture(browser, "health-dark", "fleet", theme="dark")


def of_parts(browser: Browser, folder: Path) -> None:
    """A divided GPU, and one with a link that is down."""
    port = free_port()
    (folder / "parts.yaml").write_text(PARTS % (port, folder))
    with running([*console("fakedev"), "serve", "--config", str(folder / "parts.yaml")], folder, port) as address:
        browser.open(f"{address}/#fleet")
        time.sleep(60)
        picture(browser, "parts-light", "fleet/mig-0/4")
        browser.value("document.querySelector('aside .why').parentElement.open = false")
        browser.value("document.querySelector('.links details').open = true")
        picture(browser, "links-dark", "fleet/dgx-0/3", theme="dark", below=".links")


def main() -> int:
    """Make all of them, or those named: ``large``, ``loop``, ``parts``."""
    names = sys.argv[1:] or ["large", "loop", "parts"]
    with tempfile.TemporaryDirectory() as name:
        browser = Browser("chromium", Path(name), *WIDE)
        try:
            if "large" in names:
                of_ten_thousand(browser, Path(name))
            if "loop" in names:
                of_the_loop(browser, Path(name))
            if "parts" in names:
                of_parts(browser, Path(name))
        finally:
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
