"""The web page in a real Chromium: people open it, watch, start, inject, change, and lose the server for a while."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs.browser import Browser
from tests.support.programs.ports import free_port
from tests.support.programs.processes import Program, console, require_program, skip_or_fail
from tests.support.programs.service import Service, eventually, ready

pytestmark = pytest.mark.real

#: Two nodes, one whose device is divided, a queue with its load and nobody who works, one address with a token.
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
MARKUP = "<script>document.title='taken'</script>"
#: Every tab, a device, and one that is divided.
TABS = ("fleet", "fleet/dgx-0/1", "fleet/mig-0/0", "workloads", "faults", "queues", "tester", "metrics")
#: Roles of what must have a name.
NAMED = {
    *("button", "textbox", "combobox", "link", "radio", "slider", "spinbutton", "searchbox"),
    *("tab", "tabpanel", "table", "image", "application"),
}
USAGE = "document.querySelector('.tiles').innerText"


class Stand:
    """A service, and a browser that looks at it."""

    def __init__(self, start: Callable[..., Program], folder: Path, browser: Browser) -> None:
        self.port = free_port()
        self._start = start
        self._folder = folder
        (folder / "page.yaml").write_text(CONFIG % {"port": self.port, "folder": folder})
        self.browser = browser
        self.service = self.serve()

    def serve(self) -> Service:
        """Start the service."""
        file = self._folder / "ready.json"
        file.unlink(missing_ok=True)
        config = str(self._folder / "page.yaml")
        command = [*console("fakedev"), "serve", "--config", config, "--ready-file", str(file)]
        return ready(self._start(command, folder=self._folder), file)

    def open(self, place: str = "", web: int = 0) -> Browser:
        """Open the page and wait until it is live."""
        self.browser.open(f"http://{self.service.web[web]}/{place}")
        self.browser.until("document.getElementById('link')?.textContent === 'live'")
        return self.browser

    def get(self, path: str) -> Any:
        """What the API has."""
        return self.service.get_json(path)


@pytest.fixture
def stand(start_program: Callable[..., Program], tmp_path: Path) -> Iterator[Stand]:
    """A service and a browser with an empty profile; whatever happens the browser ends."""
    browser = Browser(require_program("chromium"), tmp_path)
    try:
        yield Stand(start_program, tmp_path, browser)
    finally:
        browser.close()


def fill(browser: Browser, panel: str, **values: str) -> None:
    """Fill fields of the form of a tab, and send it as its button does."""
    browser.value(
        f"(() => {{ const form = document.querySelector('#panel-{panel} form');"
        f"for (const [name, value] of Object.entries({json.dumps(values)})) {{"
        "  form.elements[name].value = value;"
        "  form.elements[name].dispatchEvent(new Event('change', {bubbles: true})); }"
        "form.requestSubmit(); return true; })()"
    )


def press(browser: Browser, panel: str, text: str) -> None:
    """Press the button of a tab with this text, as soon as it is there."""
    browser.until(
        f"[...document.querySelectorAll('#panel-{panel} button')].filter((each) => each.textContent === '{text}')"
        ".slice(0, 1).map((each) => each.click() ?? true)[0]"
    )


def unfold(browser: Browser, place: str) -> None:
    """Show what is folded away at a place, also of each part of a device."""
    has_parts = "mig-0" in place
    if has_parts:
        browser.until("document.querySelector('.parts li') !== null")
    browser.value("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    if has_parts:
        browser.until("document.querySelector('.parts .why li') !== null")


def no_complaint(browser: Browser) -> None:
    """Nothing in the console, nothing from another host, and no script of ours was made from data."""
    assert browser.value("document.title") == "fakedev: simulated fleet"
    assert browser.complaints == []
    hosts = {address.split("/")[2] for address in browser.asked if address.startswith(("http", "ws"))}
    assert len(hosts) == 1, hosts


def test_open_and_watch(stand: Stand) -> None:
    """From an empty profile: the page is live, says that it is simulated, its numbers move, every tab opens."""
    browser = stand.open()
    assert "simulated" in browser.value("document.querySelector('header').innerText").lower()
    before = browser.until(f"{USAGE}.includes('Mean usage') && {USAGE}.match(/[0-9]/) && {USAGE}")
    assert "on 3 nodes" in before
    browser.until(f"{USAGE} !== {json.dumps(before)}")
    drawn = "(() => { const c = document.querySelector('.map canvas'); return c.width && c.getContext('2d')"
    painted = drawn + ".getImageData(0, 0, c.width, c.height).data.some((value) => value > 0); })()"
    assert browser.value(painted)
    for name in ("workloads", "faults", "queues", "tester", "metrics", "fleet"):
        browser.value(f"document.getElementById('tab-{name}').click()")
        browser.until(f"!document.getElementById('panel-{name}').hidden && location.hash === '#{name}'")
    browser.value("document.getElementById('tab-metrics').click()")
    browser.until("document.getElementById('panel-metrics').innerText.includes('/nodes/dgx-1/metrics')")
    scrape = browser.value("document.querySelector('#panel-metrics pre').innerText")
    assert f"http://127.0.0.1:{stand.port}/sd" in scrape
    no_complaint(browser)


def test_start_and_stop_a_workload(stand: Stand) -> None:
    """A form starts it, the table shows it, whatever its name is; a button stops it."""
    browser = stand.open("#workloads")
    fill(browser, "workloads", name=MARKUP, devices="dgx-1/2", load="70", swing="0", seconds="0")
    browser.until(f"document.querySelector('#panel-workloads tbody').innerText.includes({json.dumps(MARKUP)})")
    browser.until(f"document.getElementById('said').innerText.includes({json.dumps(MARKUP)})")
    (found,) = [each for each in stand.get("/api/v1/workloads")["workloads"] if each["name"] == MARKUP]
    eventually(lambda: stand.get("/api/v1/devices/dgx-1/2")["quantities"]["usage_ratio"] > 0.5, "the device works")
    browser.until(
        "[...document.querySelectorAll('#panel-workloads tbody tr')]"
        f".filter((row) => row.innerText.includes('{found['id']}'))"
        ".slice(0, 1).map((row) => row.querySelector('button').click() ?? true)[0]"
    )
    eventually(lambda: len(stand.get("/api/v1/workloads")["workloads"]) == 1, "it is stopped")
    browser.until("document.querySelectorAll('#panel-workloads tbody tr').length === 1")
    fill(browser, "workloads", name="x", devices="nowhere/1")
    browser.until("document.querySelector('#said .bad')?.innerText.includes('nowhere')")
    # A refused change is an error of the network to the console; that is all it says.
    assert all("400" in complaint for complaint in browser.complaints), browser.complaints


def test_a_device_by_keyboard(stand: Stand) -> None:
    """Arrows go over the map, Enter opens a device: its charts, its values, and why they are so."""
    eventually(lambda: stand.get("/api/v1/clock")["seconds"] > 6, "there is a past to show")
    browser = stand.open()
    browser.until("document.querySelector('.map canvas').height > 100")
    browser.value("document.querySelector('.map canvas').focus()")
    for key in ("ArrowRight", "ArrowRight"):
        browser.press(key)
    browser.press("Enter", 13)
    browser.until("location.hash === '#fleet/dgx-0/2'")
    panel = "[...document.querySelectorAll('aside .card')].find((each) => !each.hidden).innerText"
    browser.until(f"{panel}.includes('Core clock') && {panel}.includes('training')")
    why = browser.value(panel)
    assert why.startswith("dgx-0/2")
    assert "work: base-training" in why
    label = "document.querySelector('aside .card:not([hidden]) .chart canvas').getAttribute('aria-label')"
    past = f"Number({label}.match(/last ([0-9]+) s/)?.[1] ?? 0)"
    begun = browser.until(f"{past} >= 6 && {past}")
    for _ in range(5):  # it only grows, although frames and answers come in any order
        begun = browser.until(f"{past} > {begun} && {past}")
    browser.value("document.getElementById('tab-fleet').focus()")
    browser.press("ArrowRight")
    browser.until("location.hash === '#workloads' && document.activeElement.id === 'tab-workloads'")
    no_complaint(browser)


def test_parts_of_a_device(stand: Stand) -> None:
    """Instances with their load, memory, pod and state, asked for only while they are looked at."""
    work = {"name": "train", "devices": ["mig-0/0/1"], "profile": "50:0:0", "pod": "train-0"}
    stand.service.fetch("/api/v1/workloads", work)
    stand.service.fetch("/api/v1/faults", {"kind": "xid", "code": 31, "devices": ["mig-0/0/0"]})
    browser = stand.open("#fleet/mig-0/0/1")  # the device is shown, with all of its parts
    rows = "[...document.querySelectorAll('.parts > li')].map((row) => row.innerText.replace(/\\s+/g, ' '))"
    found = browser.until(f"{rows}[1]?.includes('train-0') && {rows}[0].includes('XID 31') && {rows}")
    assert found[0].startswith("mig-0/0/0 3g.20gb, id 2 XID 31 Load 0.0 % Memory 0 B of 19.5 GiB no pod")
    assert found[1].startswith("mig-0/0/1 1g.5gb, id 7 well Load 50.0 % Memory")
    assert "divided (MIG) 1" in browser.value("document.querySelector('.legend').innerText")
    browser.value("document.querySelectorAll('.parts details')[1].open = true")
    browser.until(f"{rows}[1].includes('of the whole device mig-0/0')")
    browser.value("document.querySelector('.parts').parentElement.open = false")
    settled = "document.getElementById('clock').textContent"

    def asked() -> int:
        """How often parts were asked for, after some ticks in which a question on its way could come to an end."""
        for _ in range(3):
            browser.until(f"{settled} !== {json.dumps(browser.value(settled))}")
        return sum("/parts" in address for address in browser.asked)

    before = asked()
    assert (before > 0, asked()) == (True, before)
    press(browser, "fleet", "Put work on it")
    browser.until("document.querySelector('#panel-workloads form').elements.devices.value === 'mig-0/0'")
    no_complaint(browser)


def test_links_of_a_device(stand: Stand) -> None:
    """Which of them are up, where they lead and what they carry; one that is down, and why."""
    stand.service.fetch("/api/v1/faults", {"kind": "link-down", "link": 5, "devices": ["dgx-0/1"]})
    browser = stand.open("#fleet/dgx-0/1")
    panel = "document.querySelector('.links').innerText"
    browser.until(f"{panel}.includes('NVLink: 17 of 18 up')")
    browser.value("document.querySelector('.links details').open = true")
    row = "document.querySelectorAll('.links tbody tr')[5].innerText.split(/[\\t\\n]+/).map((text) => text.trim())"
    assert browser.value(row)[:3] == ["5", "switch 1, port 6", "down, 1 error"]
    assert "down: 5 (to dgx-0/switch/1)" in browser.until("document.querySelector('aside .why').innerText")
    facts = browser.value("document.querySelector('.links').parentElement.innerText")
    assert "generation 5, x16" in facts
    assert "NUMA node" in facts
    stand.service.fetch("/api/v1/faults", method="DELETE")
    browser.until(f"{panel}.includes('NVLink: all 18 up')")
    no_complaint(browser)


def test_inject_and_clear_a_fault(stand: Stand) -> None:
    """It is in the list, in the journal and on the map's count; a button clears it."""
    browser = stand.open("#faults")
    browser.until("document.querySelector('#panel-faults select').options.length > 20")
    fill(browser, "faults", kind="hang", devices="dgx-0/[0-2]")
    rows = "document.querySelectorAll('#panel-faults table')[0].innerText"
    browser.until(f"{rows}.includes('hang') && {rows}.includes('3 of 3')")
    browser.until("document.querySelectorAll('#panel-faults table')[1].innerText.includes('hung')")
    browser.value("document.getElementById('tab-fleet').click()")
    browser.until(f"{USAGE}.replace(/\\s+/g, ' ').includes('In trouble 3')")
    browser.value("document.getElementById('tab-faults').click()")
    press(browser, "faults", "Clear")
    eventually(lambda: stand.get("/api/v1/faults")["total"] == 0, "it is cleared")
    browser.until("document.getElementById('panel-faults').innerText.includes('No faults')")
    no_complaint(browser)


def test_queues_and_parallelism(stand: Stand) -> None:
    """The queue's figures are there; the number in parallel is changed, and the statistics are reset."""
    browser = stand.open("#queues")
    browser.until("document.querySelector('#panel-queues tbody').innerText.startsWith('sleep')")
    browser.value("document.getElementById('tab-tester').click()")
    browser.until("document.querySelector('#panel-tester input[type=number]').value === '2'")
    browser.value(
        "(() => { const panel = document.getElementById('panel-tester');"
        "panel.querySelector('input[type=number]').value = '9'; panel.querySelector('form').requestSubmit(); })()"
    )
    eventually(lambda: stand.get("/api/v1/tester")["plans"][0]["parallel"] == 9, "it is set")
    eventually(lambda: stand.get("/api/v1/queues/sleep")["waiting"] == 9, "there are as many requests")
    browser.until("document.getElementById('said').innerText.includes('9 requests in parallel')")
    press(browser, "tester", "Reset the statistics")
    eventually(lambda: stand.get("/api/v1/tester")["statistics"]["pending"] == 0, "they begin anew")
    no_complaint(browser)


def test_a_token_is_asked_for(stand: Stand) -> None:
    """Where the address has one: looking needs none, the first change asks, and then it is known."""
    browser = stand.open("#workloads", web=1)
    fill(browser, "workloads", name="one", devices="dgx-1/0")
    browser.until("document.getElementById('ask-token').open")
    assert len(stand.get("/api/v1/workloads")["workloads"]) == 1
    browser.value("(() => { document.getElementById('token').value = 'open-sesame';"
                  "document.querySelector('#ask-token .main').click(); })()")  # fmt: skip
    eventually(lambda: len(stand.get("/api/v1/workloads")["workloads"]) == 2, "it is started")
    fill(browser, "workloads", name="two", devices="dgx-1/1")
    eventually(lambda: len(stand.get("/api/v1/workloads")["workloads"]) == 3, "so is the next, unasked")
    assert all("401" in complaint for complaint in browser.complaints), browser.complaints


def test_pages_of_others_change_nothing(stand: Stand) -> None:
    """A page from elsewhere can send a form here, as any page can; it is refused, and reads no answer."""
    body = json.dumps({"name": "foreign", "devices": ["dgx-1/0"], "profile": "50:0:0"})
    address = f"http://{stand.service.web[0]}/api/v1/workloads"
    sent = f"fetch('{address}', {{method: 'POST', mode: 'no-cors', body: {json.dumps(body)}}})"
    assert stand.browser.value(f"{sent}.then((answer) => answer.type)") == "opaque"
    assert [each["name"] for each in stand.get("/api/v1/workloads")["workloads"]] == ["training"]
    stand.open()  # the same from our own page is taken
    assert stand.browser.value(f"{sent.replace('no-cors', 'cors')}.then((answer) => answer.status)") == 201


def test_lose_and_regain_the_server(stand: Stand) -> None:
    """The page says that it has no connection, keeps what it showed, and is live again by itself."""
    browser = stand.open()
    browser.until(f"{USAGE}.match(/[0-9]/)")
    assert stand.service.program.stop() == 0
    browser.until("document.getElementById('link').textContent.includes('no connection')")
    assert browser.value(f"{USAGE}.includes('Mean usage')")
    stand.service = stand.serve()
    browser.until("document.getElementById('link').textContent === 'live'")
    clock = browser.until("document.getElementById('clock').textContent")
    browser.until(f"document.getElementById('clock').textContent !== '{clock}'")
    # That a server is away is told by the browser itself; scripts have nothing to say.
    assert all("ERR_" in complaint for complaint in browser.complaints), browser.complaints


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_accessible(stand: Stand, theme: str) -> None:
    """axe finds nothing on any tab: contrast, names, roles, order."""
    try:
        axe = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    except ModuleNotFoundError:
        skip_or_fail("axe-core-python is not installed")
    browser = stand.open()
    browser.theme(theme)
    browser.until(f"document.documentElement.dataset.theme === '{theme}'")
    stand.service.fetch("/api/v1/faults", {"kind": "fan", "devices": "dgx-0/0"})
    browser.value(f"{axe}; true")
    for name in TABS:
        browser.value(f"location.hash = '#{name}'")
        browser.until(f"!document.getElementById('panel-{name.split('/')[0]}').hidden")
        browser.until("!document.querySelector('#said p')")
        unfold(browser, name)
        found = json.loads(browser.value("axe.run().then((found) => JSON.stringify(found.violations))"))
        wrong = [(each["id"], [node["html"][:150] for node in each["nodes"]]) for each in found]
        assert wrong == [], (name, wrong)


def test_everything_has_a_name(stand: Stand) -> None:
    """Whatever can be pressed or filled in has a name for those who do not see it, wide and narrow."""
    browser = stand.open()
    browser.until("document.querySelector('#panel-faults select').options.length > 20")
    for width in (1280, 390):
        browser.resize(width, 800)
        for name in TABS:
            browser.value(f"location.hash = '#{name}'")
            browser.until(f"!document.getElementById('panel-{name.split('/')[0]}').hidden")
            unfold(browser, name)
            nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
            shown = [node for node in nodes if not node["ignored"] and node["role"]["value"] in NAMED]
            nameless = [node for node in shown if not node["name"]["value"]]
            assert nameless == [], name
            # Nothing is wider than the window.
            assert browser.value("document.documentElement.scrollWidth") <= width, (name, width)
    no_complaint(browser)
