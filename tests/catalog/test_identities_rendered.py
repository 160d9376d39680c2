"""The built-in identities over all built-in devices, rendered: good pages, as those of the exporters.

test_identities_golden.py compares the identities as data; here it is their pages. The reference texts
are not part of the project: they are in a folder beside it on the developers' machines.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from operator import itemgetter
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fakedev.config.load import load
from fakedev.exporters.identity import UNITS, FamilySpec, Identity, PageLayout, RowSpec
from fakedev.exporters.labels import Template
from fakedev.exporters.numbers import number_of
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.row_levels import PAGE
from fakedev.exporters.sources import DeviceSource, Entity
from fakedev.fleet.entities.roster import RosterNode
from fakedev.fleet.entities.state import Level
from fakedev.fleet.events import StartWorkload
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.workload_fields import workload_from_fields
from fakedev.schema.files import Files
from tests.support.examples import share_of
from tests.support.fleet.fleets import stop
from tests.support.identities import TITLES
from tests.support.paths import GOLDEN

DEVICES = tuple(name.removesuffix(".yaml") for name in Files(environ={}).catalog_names("devices"))
IDENTITIES = tuple(name.removesuffix(".yaml") for name in Files(environ={}).catalog_names("identities"))
#: Numbers that the formats hold to so many digits: what is read again may differ by half of the last.
DIGITS = {
    "int": 0.5, "fixed6": 5e-7, "go": 0, "go-whole": 0.5, "go-fixed2": 5e-3, "go-fixed6": 5e-7, "python": 0,
    "python-whole": 0.5, "digits15": 0,
}  # fmt: skip
#: Likewise, as a share of the number.
SHARES = {"digits15": 5e-15}

needs_golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"the reference texts are not at hand ({GOLDEN})")


def made(pools: str, busy: str = "odd", namespace: str = "ml") -> tuple[Fleet, Identity]:
    """A fleet of configured pools after two ticks, with a pod on some devices; and the identity of its first pool."""
    text = f"fleet: {{epoch: 1700000000, pools: [{pools}]}}\nweb: []\nworkloads: {{listen: []}}"
    configuration = load(None, Files(environ={}), text=text)
    fleet = Fleet(configuration.fleet)
    fields = {"name": "train", "devices": f"*/{busy}", "profile": "70:20:0"}
    fields |= {"pod": "train-0", "namespace": namespace, "container": "main"}
    fleet.advance()
    fleet.apply(StartWorkload(workload_from_fields(fields)))
    fleet.advance()
    return fleet, configuration.identities[configuration.fleet.pools[0].name]


@cache
def every_device(title: str) -> tuple[Fleet, Identity]:
    """A node of each built-in device type, in one identity."""
    return made(", ".join(
        f"{{name: {name}, nodes: 1, device: {name}, devices-per-node: 2, identity: {title}}}" for name in DEVICES
    ))  # fmt: skip


@cache
def one_node(device: str) -> Fleet:
    """A node of a device type."""
    return made(f"{{name: p, nodes: 1, device: {device}, devices-per-node: 2}}")[0]


def value_of(level: Level, quantity: str, device: int) -> float:
    """A quantity of a device; 0 where the device does not have it."""
    return float(level.arrays[quantity][device]) if level.has(quantity, device) else 0.0


def fact_of(row: RowSpec, facts: Mapping[str, str]) -> float:
    """The number that a row makes of facts."""
    return number_of(Template.parse(row.fact).value(facts))


def has_row(row: RowSpec, level: Level, device: int, facts: Mapping[str, str]) -> bool:
    """Whether a device has what the row shows, and the row is not left out for what is 0 or no number."""
    is_left_out = row.where and not any(value_of(level, name, device) for name in row.where)
    is_left_out = is_left_out or any(value_of(level, name, device) for name in row.unless)
    is_left_out = is_left_out or any(level.has(name, device) for name in row.without)
    is_left_out = is_left_out or (bool(row.fact) and math.isnan(fact_of(row, facts)))
    return row.is_of(facts) and all(level.has(name, device) for name in row.needed) and not is_left_out


def shown(row: RowSpec, level: Level, device: int, facts: Mapping[str, str], kind: str) -> float:
    """What a row of a family of a kind shows of a device."""
    if row.fact and not row.is_per_fact:
        return fact_of(row, facts)
    value = sum(value_of(level, name, device) for name in (row.quantity, *row.plus)) if row.quantity else row.constant
    if row.bits:
        return float(int(value) & row.bits != 0) * UNITS[row.unit]
    whole = (value_of(level, row.per, device) if row.per else 1.0) * (fact_of(row, facts) if row.is_per_fact else 1.0)
    value = value * row.times * UNITS[row.unit] / whole if whole else 0.0
    # Of a counter only what is complete counts.
    return math.floor(value + 1e-6) if row.times != 1.0 and kind == "counter" else value


def sorted_rows(
    family: FamilySpec, entities: Callable[[str, RosterNode], Sequence[Entity]], node: RosterNode
) -> list[tuple[RowSpec, Entity]]:
    """The rows of a family that a node's entities may have: entity by entity, row by row; of a page, only once."""
    found = [
        (place, number, row, entity)
        for number, row in enumerate(family.rows)
        for place, entity in enumerate(entities(row.level, node))
        if row.level != PAGE or not node.first
    ]
    return [(row, entity) for _, _, row, entity in sorted(found, key=itemgetter(0, 1))]


def page_of(fleet: Fleet, identity: Identity) -> str:
    """The page of a whole fleet."""
    return Page(LabelCache(identity, DeviceSource.of(fleet, identity)), fleet.roster.nodes).render(fleet.state).decode()


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.parametrize("title", TITLES)
def test_the_page_parses_and_has_no_series_twice(title: str) -> None:
    """Of each identity and release, on a node of each device: with the declared types; a family is declared once."""
    fleet, identity = every_device(title)
    for node in share_of(fleet.roster.nodes, TITLES.index(title)):
        page = Page(LabelCache(identity, DeviceSource.of(fleet, identity)), [node]).render(fleet.state).decode()
        seen = [
            (sample.name, *sorted(sample.labels.items()))
            for family in text_string_to_metric_families(page)
            for sample in family.samples
        ]
        assert len(seen) == len(set(seen)) >= 2 * 3
        for word in ("HELP", "TYPE"):
            names = re.findall(rf"^# {word} (\S+) ", page, re.MULTILINE)
            assert len(names) == len(set(names))


@pytest.mark.parametrize("title", IDENTITIES)
class TestEveryDevice:
    """Each identity works on each device."""

    @pytest.mark.slow
    def test_the_numbers_are_the_arrays(self, title: str) -> None:
        """Each row shows its quantity of its entity, in its unit, to the digits of its format; there are no others.

        The rows of a node are in the order of its entities, of a level each.
        """
        fleet, identity = every_device(title)
        source = DeviceSource.of(fleet, identity)
        levels, entities = source.completed(fleet.state).levels, cache(source.entities)
        lines = iter(page_of(fleet, replace(identity, layout=PageLayout.FAMILIES)).splitlines())
        for family in identity.families:
            expected = [
                shown(row, levels[row.state_level], at, facts, family.kind)
                for node in fleet.roster.nodes
                for row, (at, facts) in sorted_rows(family, entities, node)
                if has_row(row, levels[row.state_level], at, facts)
            ]
            if not expected:
                continue
            assert next(lines).startswith(f"# HELP {family.name} ")
            assert next(lines) == f"# TYPE {family.name} {family.kind}"
            for value in expected:
                line = re.fullmatch(r"(\w+)(?:\{.*\})? (\S+)(?: \d+)?", next(lines))
                assert line is not None
                assert line[1] == family.name
                number = float(line[2])
                digits = family.number.value
                assert abs(number - value) <= DIGITS[digits] + abs(value) * SHARES.get(digits, 0) + 1e-9
        assert list(lines) == []

    @pytest.mark.slow
    @pytest.mark.deep
    def test_absent_families_are_known(self, title: str) -> None:
        """Exactly the families known in advance are not on the page of one device type."""
        identity = every_device(title)[1]
        for name in share_of(DEVICES, IDENTITIES.index(title)):
            fleet = one_node(name)
            shown = set(re.findall(r"^# TYPE (\S+) ", page_of(fleet, identity), re.MULTILINE))
            absent = set(identity.absent_families(fleet.quantity_names()))
            at_times = set(identity.conditional_families(fleet.quantity_names()))
            assert shown - at_times == {family.name for family in identity.families} - absent - at_times

    @pytest.mark.slow
    def test_pods(self, title: str) -> None:
        """Labels of the pod only on devices that one has, where the exporter shows them at all."""
        fleet, identity = every_device(title)
        of_pods = tuple(f"{family.name}{{" for family in identity.families if family.rows[0].level == "held")
        shows_pods = any("{pod}" in label.value for label in identity.labels_on("device"))
        others = ("node", "page", "process")
        of_no_device = tuple(family.name for family in identity.families if family.rows[0].level in others)
        every = [
            line for line in page_of(fleet, identity).splitlines() if not line.startswith(("#", *of_no_device))
        ]
        assert all('"train-0"' in line for line in every if line.startswith(of_pods))
        rows = [line for line in every if not line.startswith(of_pods)]
        with_pod = [line for line in rows if '"train-0"' in line]
        assert len(with_pod) == (len(rows) // 2 if shows_pods else 0)
        files = {"card0": False, "card1": shows_pods, 'gpu="0"': False, 'gpu="1"': shows_pods}
        for text, has_pod in files.items():
            assert {line in with_pod for line in rows if text in line} <= {has_pod}


def lines_without_numbers(page: str, names: set[str]) -> list[str]:
    """The lines of some families, each number replaced by the kind of number it is."""
    found = []
    for line in page.splitlines():
        name = line.split(" ")[2] if line.startswith("#") else line.partition("{")[0]
        if name not in names:
            continue
        text, separator, numbers = line.rpartition("} ")
        if not separator:
            found.append(line)
            continue
        kinds = [re.sub(r"^-?\d+$", "INT", re.sub(r"^-?\d+\.\d{6}$", "FIXED6", number)) for number in numbers.split()]
        found.append(f"{text}}} {' '.join(kind if kind.isalnum() else 'FLOAT' for kind in kinds)}")
    return found


def declared(page: str) -> set[str]:
    """The families of a page."""
    return set(re.findall(r"^# TYPE (\S+) ", page, re.MULTILINE))


@needs_golden
class TestDcgm:
    """dcgm@4.8.2 over the two H100s of the reference page."""

    golden = "dcgm-exporter-4.8.2.DERIVED-default-2xH100.prom"

    def test_all_but_the_numbers_is_the_page_of_the_exporter(self) -> None:
        """Families in their order, HELP, TYPE, labels with their values, formats of numbers: byte for byte."""
        ours = page_of(*made(
            "{name: p, nodes: [node-1], device: h100, identity: dcgm@4.8.2, devices: ["
            "{index: 0, uuid: 927d7444-b45a-7c49-8402-5e686e46a026, pci: '0000:1b:00.0'}, "
            "{index: 1, uuid: 11111111-2222-3333-4444-555555555555, pci: '0000:43:00.0'}], devices-per-node: 2}"
        ))  # fmt: skip
        theirs = (GOLDEN / self.golden).read_text(encoding="utf-8")
        names = declared(ours)
        assert len(names) > 15
        assert names <= declared(theirs)
        assert lines_without_numbers(ours, names) == lines_without_numbers(theirs, names)


@needs_golden
class TestNvidiaGpuExporter:
    """nvidia-gpu-exporter@1 over an H100, beside captures of one."""

    @pytest.mark.parametrize("state", ["idle", "load"])
    def test_settings_and_facts(self, state: str) -> None:
        """They are the captured board's, but for those that tell boards and drivers apart."""
        name = f"nvidia_gpu_exporter.linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01__{state}.prom"
        capture = (GOLDEN / name).read_text(encoding="utf-8")
        pool = "{name: p, nodes: 1, device: h100, devices-per-node: 1, identity: nvidia-gpu-exporter}"
        fleet, identity = made(pool, "all")
        own = {f"nvidia_smi_{each}" for each in (
            "pci_device", "pci_bus", "serial", "driver_version", "kmd_version", "pcie_link_gen_hostmax",
            "platform_module_id", "clocks_throttle_reasons_supported",
        )}  # fmt: skip
        facts = {family.name for family in identity.families if family.rows[0].fact} - own - {"nvidia_smi_name"}
        assert len(facts) > 25
        ours, theirs = (
            {name: float(value) for name, value in re.findall(r"^(\w+)\{.*\} (\S+)$", page, re.MULTILINE)}
            for page in (page_of(fleet, identity), capture)
        )
        assert {name: ours[name] for name in facts} == {name: theirs[name] for name in facts}

    @pytest.mark.parametrize(("driver", "reasons", "others"), [
        ("471.11", "throttle", (False, False)), ("525.60.13", "throttle", (True, False)),
        ("535.129.03", "event", (True, True)),
    ])  # fmt: skip
    def test_columns_follow_from_the_driver(self, driver: str, reasons: str, others: tuple[bool, bool]) -> None:
        """A release of 2022 ran with all of these."""
        pool = f"{{name: p, nodes: 1, device: t4, identity: nvidia-gpu-exporter@0.4, driver: {driver}}}"
        names = set(re.findall(r"^# TYPE nvidia_smi_(\w+) ", page_of(*made(pool)), re.MULTILINE))
        assert {each for each in ("throttle", "event") if f"clocks_{each}_reasons_active" in names} == {reasons}
        assert ("memory_reserved_bytes" in names, "utilization_encoder_ratio" in names) == others

    def test_what_a_pool_says(self) -> None:
        """It takes the place of the type's; what is no number has no row."""
        labels = 'labels: {persistence_mode: "0", vbios_version: "1.2.3", ecc_mode: "[N/A]"}'
        page = page_of(*made(
            "{name: p, nodes: 1, device: h100, devices-per-node: 2, identity: nvidia-gpu-exporter, " + labels + "}"
        ))  # fmt: skip
        assert re.findall(r"^nvidia_smi_persistence_mode\{.*\} (\S+)$", page, re.MULTILINE) == ["0", "0"]
        assert page.count('vbios_version="1.2.3"') == 2
        assert "ecc_mode" not in page


@needs_golden
class TestCollectd:
    """collectd@6 over the DG1 of the reference page."""

    def test_lines(self) -> None:
        """Job, an empty instance, then labels by name, the number, and the time in milliseconds."""
        ours = page_of(*made(
            "{name: p, nodes: [node-1], device: dg1, identity: collectd@6, devices-per-node: 1, "
            "devices: [{index: 0, pci: '0000:03:00.0'}]}",
            busy="all",
        ))  # fmt: skip
        theirs = (GOLDEN / "collectd-gpu-sysman.DERIVED.prom").read_text(encoding="utf-8")
        names = declared(theirs)
        assert names <= declared(ours)

        def shape(page: str) -> set[str]:
            # Any number will do: the reference has fractions, an idle DG1 has whole watts.
            return {re.sub(r"\} \S+ \d{13}$", "} N T", line) for line in lines_of(page, names)}

        assert shape(ours) == shape(theirs)
        times = {line.rpartition(" ")[2] for line in ours.splitlines() if not line.startswith("#")}
        assert times == {"1700000002000"}


def lines_of(page: str, names: set[str]) -> list[str]:
    """The lines of some families as they are."""
    return [
        line
        for line in page.splitlines()
        if (line.split(" ")[2] if line.startswith("#") else line.partition("{")[0]) in names
    ]


@needs_golden
class TestXpumanager:
    """xpumanager@1.3 over the Max 1550 of the reference page, which shows each of its two tiles."""

    def series(self, page: str, names: set[str]) -> set[tuple[str, ...]]:
        """Names with their labels."""
        lines = [line for line in lines_of(page, names) if not line.startswith("#")]
        return {line.rpartition("} ")[0].partition("{")[::2] for line in lines}

    def test_series(self) -> None:
        """Those of the exporter, but for an engine that the board of the catalog has not."""
        ours = page_of(*made(
            "{name: p, nodes: [node-1], device: max-1550, identity: xpumanager@1.3, devices-per-node: 2, devices: ["
            "{index: 1, pci: '0000:4d:00.0', uuid: 01000000-0000-0000-0000-004d00000000}]}",
            namespace="default",
        ))  # fmt: skip
        ours = "\n".join(line for line in ours.splitlines() if 'dev_file="card0"' not in line)
        theirs = (GOLDEN / "intel-xpumanager-1.3.DERIVED.prom").read_text(encoding="utf-8")
        names = declared(ours) & declared(theirs)
        assert len(names) > 15
        lacking = self.series(theirs, names) - self.series(ours, names)
        assert {(name, re.findall(r'type="\w+"', labels)[0]) for name, labels in lacking} == {
            ("xpum_engine_group_ratio", 'type="media"')
        }
        more = self.series(ours, names) - self.series(theirs, names)
        assert all('location="mem"' in labels or 'type="copy"' in labels for _, labels in more), more
        declarations = [line for line in lines_of(ours, names) if line.startswith("#")]
        assert set(declarations) <= set(theirs.splitlines())

    @pytest.mark.slow
    def test_declarations_first_and_lines_sorted(self) -> None:
        """As the exporter of this version does."""
        lines = page_of(*every_device("xpumanager@1.3")).splitlines()
        first = next(number for number, line in enumerate(lines) if not line.startswith("#"))
        assert not any(line.startswith("#") for line in lines[first:])
        assert lines[first:] == sorted(lines[first:])


def test_devices_that_a_pod_has() -> None:
    """Families of containers have a row while a container has the device, and their own labels."""
    fleet, identity = made("{name: p, nodes: [node-1], device: h100, devices-per-node: 2, identity: tpu}", "1")
    names = {line.partition("{")[0] for line in page_of(fleet, identity).splitlines() if not line.startswith("#")}
    assert {"duty_cycle", "duty_cycle_node"} <= names
    for workload in list(fleet.workloads.by_id):
        stop(fleet, workload)
    fleet.advance()
    fleet.advance()
    names = {line.partition("{")[0] for line in page_of(fleet, identity).splitlines() if not line.startswith("#")}
    assert "duty_cycle_node" in names
    assert "duty_cycle" not in names


def test_the_host_of_run_ai() -> None:
    """The operator names its exporters by a hash of the node's name."""
    fleet, identity = made("{name: p, nodes: [node-1], device: h100, devices-per-node: 1, identity: run-ai}", "0")
    assert 'Hostname="nvidia-dcgm-exporter-b36828"' in page_of(fleet, identity)


def test_the_host_of_run_ai_under_kwok(tmp_path: Path) -> None:
    """The operator's exporter for KWOK shows the name of the node."""
    file = tmp_path / "kwok.yaml"
    file.write_text("name: kwok\nbased-on: run-ai@0.2\nquirks: [hostname.kwok]\n")
    pool = f"{{name: p, nodes: [kwok-1], device: h100, devices-per-node: 1, identity: {file}}}"
    fleet, identity = made(pool, "0")
    assert 'Hostname="kwok-1"' in page_of(fleet, identity)
