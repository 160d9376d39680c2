"""Rows of the page itself, of its nodes, and of processes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fakedev.config.load import load
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.row_levels import MAX_PROCESSES
from fakedev.exporters.sources import DeviceSource
from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.entities.state import State
from fakedev.fleet.events import ClearFaults, Reload
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.limits import RecordHead
from fakedev.schema.files import Files
from fakedev.schema.places import ConfigurationError
from tests.support.fleet.faulty_fleets import inject
from tests.support.fleet.fleets import MIB, advance, start, stop

IDENTITY = """
name: own
labels: [{name: gpu, value: "{node}/{index}"}]
labels-of-levels: {page: [], node: [{name: host, value: "{node}"}]}
families:
  - {name: up, level: page, type: gauge, help: "Up.", constant: 1, format: go}
  - {name: seen_seconds, level: page, type: gauge, help: "Seen.", quantity: wall_seconds, format: go-whole}
  - name: modes
    type: gauge
    help: "Modes."
    format: go
    rows:
      - {level: page, constant: 1, labels: [{name: mode, value: a}]}
      - {level: page, constant: 2, labels: [{name: mode, value: b}]}
  - {name: gpus, level: node, type: gauge, help: "GPUs.", fact: "{device_count}", format: go}
  - {name: model, type: gauge, help: "Model.", fact: "{product_name|number}", format: go}
  - {name: dies, type: gauge, help: "Dies.", quantity: usage_ratio, format: go, numbered: {die: 2}}
  - {name: new, type: gauge, help: "New.", constant: 1, format: go, except: {architecture: [turing]}}
  - {name: old, type: gauge, help: "Old.", constant: 1, format: go, only: {architecture: [turing, volta]}}
  - {name: driven, type: gauge, help: "Driven.", constant: 0, format: go, drivers: ["550.0", "580.105"]}
  - {name: between, type: gauge, help: "Of 0.2.0.", fact: "{driver_version}", format: go, between: ["550.0", "580.105"]}
  - {name: used, type: gauge, help: "Used.", quantity: memory_used_bytes, format: go}
  - {name: processes, type: gauge, help: "Processes.", quantity: process_count, format: go}
  - name: process_used
    type: gauge
    help: "Used by a process."
    format: go
    rows:
      - level: process
        quantity: memory_used_bytes
        labels: [{name: pid, value: "{pid}"}, {name: name, value: "{process}"}]
"""


#: What processes do, by the host's numbers.
WORK = IDENTITY + """
  - name: usage
    type: gauge
    help: "Usage by a process."
    format: go
    rows: [{level: process, quantity: usage_ratio, labels: [{name: pid, value: "{pid}"}]}]
  - name: worked
    type: counter
    help: "Work of a process."
    format: go
    rows: [{level: process, quantity: worked_seconds, times: 1.01, labels: [{name: pid, value: "{pid}"}]}]
  - name: host
    type: gauge
    help: "Host."
    format: go-fixed6
    rows: [{level: node, quantity: usage_ratio, per: "{device_count}", times: 0.2}]
  - {name: whole, level: node, type: gauge, help: "No such fact.", constant: 1, per: "{no_such_fact}", format: go}
"""


class Own:
    """A fleet with that identity.

    :param pool: further keys of the pool.
    """

    def __init__(
        self, folder: Path, pool: str = "nodes: [n, m], device: h200, devices-per-node: 2", of: str = IDENTITY
    ) -> None:
        (folder / "own.yaml").write_text(of)
        text = f"fleet: {{epoch: 1700000000, pools: [{{name: p, identity: {folder}/own.yaml, {pool}}}]}}"
        self._configuration = load(None, Files(environ={}), text=text)
        self.fleet = Fleet(self._configuration.fleet)
        identity = self._configuration.identities["p"]
        self._page = Page(LabelCache(identity, DeviceSource.of(self.fleet, identity)), self.fleet.roster.nodes)

    def lines(self, family: str, state: State | None = None) -> list[str]:
        """The lines of a family on the page of all nodes, in their order; the state is the present one by default."""
        page = self._page.render(state or self.fleet.shown).decode()
        return re.findall(rf"^{family}[{{ ].*$", page, re.MULTILINE)

    def used(self, gpu: str) -> tuple[float, list[float]]:
        """The used memory of a device, and that of each process on it."""
        (device,) = [float(line.split()[-1]) for line in self.lines("used") if f'"{gpu}"' in line]
        return device, [float(line.split()[-1]) for line in self.lines("process_used") if f'"{gpu}"' in line]


def test_of_a_page(tmp_path: Path) -> None:
    """They are there once, whatever number of nodes the page has, all rows of a family."""
    own = Own(tmp_path)
    own.fleet.advance()
    assert own.lines("up") == ["up 1"]
    assert own.lines("seen_seconds") == ["seen_seconds 1.700000001e+09"]
    assert own.lines("modes") == ['modes{mode="a"} 1', 'modes{mode="b"} 2']


def test_a_page_as_a_whole_has_no_time(tmp_path: Path) -> None:
    """As the number of chips on pages of Huawei's exporter; other lines have one."""
    own = Own(tmp_path, of=IDENTITY.replace("families:", "timestamps: true\nfamilies:", 1))
    assert own.lines("up") == ["up 1"]
    assert own.lines("gpus")[0] == 'gpus{host="n"} 2 1700000000000'


def test_of_a_node(tmp_path: Path) -> None:
    """Once for each node, with the facts that all its devices have."""
    assert Own(tmp_path).lines("gpus") == ['gpus{host="n"} 2', 'gpus{host="m"} 2']


@pytest.mark.parametrize(("device", "number"), [("h200", " 200"), ("t4", " 4"), ("h100", None)])
def test_the_only_number_in_a_text(tmp_path: Path, device: str, number: str | None) -> None:
    """A text with none or several has no number, and its device no row."""
    found = Own(tmp_path, f"nodes: [n], device: {device}, devices-per-node: 1").lines("model")
    assert found == ([] if number is None else [f'model{{gpu="n/0"}}{number}'])


def test_numbered_rows(tmp_path: Path) -> None:
    """A row for each of several alike things, with the value of the device."""
    own = Own(tmp_path, "nodes: [n], device: h200, devices-per-node: 2")
    assert own.lines("dies") == [f'dies{{gpu="n/{gpu}",die="{die}"}} 0' for gpu in (0, 1) for die in (0, 1)]


@pytest.mark.parametrize(("device", "has"), [("t4", "old"), ("v100", "both"), ("h200", "new")])
def test_families_of_some_devices(tmp_path: Path, device: str, has: str) -> None:
    own = Own(tmp_path, f"nodes: [n], device: {device}, devices-per-node: 1")
    assert bool(own.lines("old")) == (has in ("old", "both"))
    assert bool(own.lines("new")) == (has in ("new", "both"))


@pytest.mark.parametrize(("driver", "has"), [("535.129.03", False), ("550.54.15", True), ("580.105.08", False)])
def test_families_of_some_drivers(tmp_path: Path, driver: str, has: bool) -> None:
    """In the form of 0.2.0, too."""
    own = Own(tmp_path, f'nodes: [n], device: h200, devices-per-node: 1, driver: "{driver}"')
    for family in ("driven", "between"):
        assert own.lines(family) == ([f'{family}{{gpu="n/0"}} 0'] if has else [])


FROZEN = WORK + """
  - {name: uptime, type: gauge, help: "Uptime.", quantity: uptime_seconds, format: go-whole}
"""


def test_what_a_frozen_exporter_derives_stands_still(tmp_path: Path) -> None:
    """Times and counts of processes, too, as at the tick before; then they jump to what is true."""
    own, untouched = Own(tmp_path, of=FROZEN), Own(tmp_path, of=FROZEN)
    families = ("uptime", "worked", "seen_seconds", "used")
    for each in (own, untouched):
        start(each.fleet, "n/0,m/1", "40:0:0")
        advance(each.fleet, 5)
    before = {family: own.lines(family) for family in families}
    fault = inject(own.fleet, kind="frozen", devices="n/*")
    for _ in range(10):
        own.fleet.advance()
        untouched.fleet.advance()
        for family in ("uptime", "worked"):
            now, true = own.lines(family), untouched.lines(family)
            assert [line for line in now if '"n/' in line] == [line for line in before[family] if '"n/' in line]
            assert [line for line in now if '"m/' in line] == [line for line in true if '"m/' in line]
        assert own.lines("seen_seconds") == before["seen_seconds"]
    own.fleet.apply(ClearFaults((fault,)))
    for each in (own, untouched):
        advance(each.fleet, 1)
    assert [own.lines(family) for family in families] == [untouched.lines(family) for family in families]


def test_a_node_with_a_device_that_is_not_frozen_is_collected(tmp_path: Path) -> None:
    """The time of the last collection goes on."""
    own = Own(tmp_path)
    inject(own.fleet, kind="frozen", devices="n/0")
    advance(own.fleet, 7)
    assert own.lines("seen_seconds") == ["seen_seconds 1.700000007e+09"]


class TestProcesses:
    """A workload on a device is a process there."""

    def test_they_hold_the_memory_of_their_device(self, tmp_path: Path) -> None:
        """Together all of it; with names, and numbers that stay when others come and go."""
        own = Own(tmp_path)
        start(own.fleet, "n/0,n/1", "40:0:0", name="a")
        second = start(own.fleet, "n/0", "30:0:0", name="b")
        own.fleet.advance()
        assert own.lines("processes") == [
            f'processes{{gpu="{gpu}"}} {count}' for gpu, count in (("n/0", 2), ("n/1", 1), ("m/0", 0), ("m/1", 0))
        ]
        device, processes = own.used("n/0")
        assert len(processes) == 2
        assert device - 4 * MIB < sum(processes) <= device
        before = {line.split()[0] for line in own.lines("process_used")}
        assert len({re.findall(r'pid="(\d+)"', line)[0] for line in before}) == 3
        stop(own.fleet, second)
        own.fleet.advance()
        assert {line.split()[0] for line in own.lines("process_used")} == {x for x in before if 'name="b"' not in x}

    def test_one_that_ends_on_another_node_moves_no_other(self, tmp_path: Path) -> None:
        """The rows of the others stay, with their values."""
        own = Own(tmp_path)
        first = start(own.fleet, "n/0", "20:0:0", name="a")
        start(own.fleet, "m/1", "60:0:0", name="b")
        own.fleet.advance()
        before = own.used("m/1")[1]
        stop(own.fleet, first)
        own.fleet.advance()
        assert own.used("n/0")[1] == []
        assert own.used("m/1")[1] == before
        assert len(before) == 1

    def test_on_instances_of_a_device(self, tmp_path: Path) -> None:
        """A workload on two instances is one process of their board."""
        own = Own(tmp_path, "nodes: [n], device: h200, devices-per-node: 1, mig: [1g.18gb, 1g.18gb]")
        start(own.fleet, "n/0/*", "50:0:0", name="a")
        own.fleet.advance()
        assert own.lines("processes") == ['processes{gpu="n/0"} 1']
        device, (process,) = own.used("n/0")
        assert device - 4 * MIB < process <= device

    def test_a_lost_device_lists_none(self, tmp_path: Path) -> None:
        own = Own(tmp_path, "nodes: [n], device: h200, devices-per-node: 2")
        start(own.fleet, "n/0", "50:0:0", name="a")
        start(own.fleet, "n/1", "50:0:0", name="b")
        own.fleet.advance()
        inject(own.fleet, kind="lost", devices="n/0")
        advance(own.fleet, 2)
        assert [re.findall('name="(.)"', line) for line in own.lines("process_used")] == [["b"]]
        assert own.lines("processes") == ['processes{gpu="n/1"} 1']

    def test_their_device(self, tmp_path: Path) -> None:
        """Their other quantities are those of their device; they were created when they began."""
        of = IDENTITY + """
  - name: process_watts
    type: gauge
    help: "Power of the device of a process."
    format: go
    rows: [{level: process, quantity: power_watts, labels: [{name: pid, value: "{pid}"}]}]
  - name: process_created
    type: gauge
    help: "Start of a process."
    format: go-whole
    rows: [{level: process, quantity: created_seconds, labels: [{name: pid, value: "{pid}"}]}]
  - {name: watts, type: gauge, help: "Power.", quantity: power_watts, format: go}
"""
        own = Own(tmp_path, of=of)
        advance(own.fleet, 5)
        start(own.fleet, "n/1", "40:0:0", name="a")
        advance(own.fleet, 3)
        (watts,) = [line.split()[-1] for line in own.lines("watts") if "n/1" in line]
        assert [line.split()[-1] for line in own.lines("process_watts")] == [watts]
        assert [line.split()[-1] for line in own.lines("process_created")] == ["1.700000005e+09"]

    def test_their_work(self, tmp_path: Path) -> None:
        """They share the usage of their device, and have counts of their own, which also a reload keeps."""
        own = Own(tmp_path, of=WORK)
        start(own.fleet, "n/1", "30:0:0", name="a")
        own.fleet.advance()
        start(own.fleet, "n/1", "20:0:0", name="b")
        advance(own.fleet, 10)
        usages = [float(line.split()[-1]) for line in own.lines("usage")]
        assert usages == pytest.approx([0.3, 0.2])
        assert [line.split()[-1] for line in own.lines("worked")] == ["3", "2"]
        assert own.lines("host") == ['host{host="n"} 0.05', 'host{host="m"} 0']
        assert own.lines("whole") == []
        own.fleet.apply(Reload(CompiledFleet(own.fleet.spec), RecordHead("", 0.0)))
        advance(own.fleet, 10)
        assert [line.split()[-1] for line in own.lines("worked")] == ["6", "4"]

    def test_on_a_page_that_holds(self, tmp_path: Path) -> None:
        """The page of an earlier tick has the present processes, with the memory that they hold now."""
        own = Own(tmp_path)
        held = own.fleet.shown
        start(own.fleet, "n/0", "50:0:0", name="a")
        own.fleet.advance()
        assert own.lines("process_used", held) == own.lines("process_used")
        assert own.lines("used", held) != own.lines("used")
        # Also when nothing but that page is rendered, and when more of them run on a device than ever before.
        for count, name in enumerate("bcd", 2):
            start(own.fleet, "n/0", "10:0:0", name=name)
            own.fleet.advance()
            used = own.lines("process_used", held)
            assert [float(line.split()[-1]) > 0 for line in used] == [True] * count

    def test_at_most_so_many(self, tmp_path: Path) -> None:
        """The oldest are listed, all are counted."""
        own = Own(tmp_path, "nodes: [n], device: h200, devices-per-node: 1")
        for _ in range(MAX_PROCESSES + 2):
            start(own.fleet, "n/0", "1:0:0", name="a")
        own.fleet.advance()
        assert len(own.lines("process_used")) == MAX_PROCESSES
        assert own.lines("processes") == [f'processes{{gpu="n/0"}} {MAX_PROCESSES + 2}']


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "  - {name: up, level: page, type: gauge, help: \"Up.\", constant: 1, format: go}",
            "  - {name: up, type: gauge, help: \"Up.\", format: go, rows: [{level: page, constant: 1}, {constant: 1}]}",
            "up: rows of the level page stand alone: put those of device elsewhere",
        ),
        ("quantity: wall_seconds", "quantity: power_watts", "the level page has no quantity 'power_watts'"),
        ("only: {architecture: [turing, volta]}", "only: {a: [A], b: [B]}", "old: only: give one fact, not a, b"),
        ("{pid}", "{serial}", "processes of a device would have the same series: own has no label"),
        ("numbered: {die: 2}", "numbered: {die: 65}", "numbered.die: 65 is not within 1 to 64"),
        ("numbered: {die: 2}", "numbered: {1die: 2}", "'1die' is no label name"),
        ('fact: "{device_count}"', 'fact: "{device_count}", per: "{index}"', "a fact is not divided by another"),
        ('fact: "{device_count}"', 'constant: 1, per: "{device_count"', "per: '{device_count' has a brace"),
        ("help: \"Used.\",", "help: \"Used.\", times: much,", "times: must be a number, not 'much'"),
        ('[{name: host, value: "{node}"}]', "[]", "has no label that distinguishes its 2 nodes"),
    ],
)
def test_what_is_refused(tmp_path: Path, old: str, new: str, problem: str) -> None:
    """Rows that would be the same series, or that would never be there."""
    assert old in IDENTITY
    with pytest.raises(ConfigurationError) as caught:
        Own(tmp_path, of=IDENTITY.replace(old, new))
    assert problem in str(caught.value)
