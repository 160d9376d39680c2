"""Single links and switches on pages of dcgm-exporter, in the configuration, and in the API."""

from __future__ import annotations

import re

import pytest

from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.sources import DeviceSource
from fakedev.fleet.fleet import Fleet
from tests.support.application import application
from tests.support.configurations import loaded, problems
from tests.support.fleet.faulty_fleets import inject
from tests.support.fleet.fleets import advance, start

COUNTERS = """\
name: mine
based-on: dcgm@{}
counters: |
  DCGM_FI_DEV_GPU_TEMP, gauge, t
  DCGM_FI_DRIVER_VERSION, label, d
"""
LINE = re.compile(r"(\w+)\{(.*)\} (\S+)")


def page_of(*fields: str, version: str = "4.8.2", pool: str = "") -> tuple[Fleet, Page[object]]:
    """The page of a node of two H100s at work, with the fields of a counters file."""
    identity = COUNTERS.format(version) + "".join(f"  {field}, gauge, x\n" for field in fields)
    dgx = f"{{name: dgx, devices-per-node: 2, identity: mine.yaml{pool}}}"
    text = f"fleet: {{exact-sensors: true, pools: [{dgx}]}}\nweb: []"
    found = loaded(text, {"mine.yaml": identity})
    fleet = Fleet(found.fleet)
    start(fleet, "all", "10:0:0", metrics={"fabric-tx": "54%", "fabric-rx": "54%"}, pod="train")
    advance(fleet, 2)
    page = Page(LabelCache(found.identities["dgx"], DeviceSource(fleet)), fleet.roster.nodes)
    return fleet, page  # type: ignore[return-value]


def lines_of(fleet: Fleet, page: Page[object], field: str) -> list[tuple[str, float]]:
    """The labels and the number of each line of a field."""
    text = page.render(fleet.shown).decode()
    found = [LINE.fullmatch(line) for line in text.splitlines() if line.startswith(field + "{")]
    return [(match[2], float(match[3])) for match in found if match]


class TestDcgm:
    """What a counters file can ask for."""

    def test_links_of_a_gpu_by_number(self) -> None:
        """The fields of single links are those of their GPU, and add up to that of all."""
        fields = [f"DCGM_FI_DEV_NVLINK_BANDWIDTH_L{link}" for link in range(18)]
        fleet, page = page_of("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", *fields)
        total = lines_of(fleet, page, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL")
        each = [lines_of(fleet, page, field) for field in fields]
        assert [[labels for labels, _ in field] for field in each] == [[labels for labels, _ in total]] * 18
        # KiB / 1000, which DCGM calls MB: of 27 GB/s, and of all links.
        assert each[3][1][1] == round(27e9 / 1024 / 1000)
        assert total[1][1] == round(18 * 27e9 / 1024 / 1000) == pytest.approx(sum(field[1][1] for field in each), abs=9)
        inject(fleet, kind="link-down", devices="dgx-0/1", link=3)
        advance(fleet, 1)
        each = [lines_of(fleet, page, field) for field in fields]
        assert (each[3][1][1], each[4][1][1]) == (0, round(28_588e6 / 1024 / 1000))
        # The other GPU uses the switch of that link less: 3 of 17 parts, over four links.
        assert (each[3][0][1], each[4][0][1]) == (pytest.approx(20_939, abs=1), 27_918)

    def test_errors(self) -> None:
        names = ("CRC_FLIT", "REPLAY", "RECOVERY")
        fields = [f"DCGM_FI_DEV_NVLINK_{name}_ERROR_COUNT_L{link}" for name in names for link in (4, 5)]
        fleet, page = page_of(*fields)
        inject(fleet, kind="link-down", devices="dgx-0/0", link=5, duration=2)
        advance(fleet, 5)
        assert [lines_of(fleet, page, field)[0][1] for field in fields] == [0, 1, 0, 1, 0, 1]

    @pytest.mark.parametrize(
        ("version", "of_links", "of_switches"),
        [("4.8.2", "hostname", "Hostname"), ("4.8.3", "hostname", "hostname"), ("3.0", "Hostname", "Hostname")],
    )
    def test_entities(self, version: str, of_links: str, of_switches: str) -> None:
        """Links as GPUs and as switches see them, and switches, have different labels, and none of a pod."""
        fields = ("DCGM_FI_DEV_NVLINK_GET_STATE", "DCGM_FI_DEV_NVSWITCH_LINK_STATUS", "DCGM_FI_DEV_NVSWITCH_PHYS_ID")
        fleet, page = page_of(*fields, version=version)
        inject(fleet, kind="link-down", devices="dgx-0/1", link=5)
        advance(fleet, 1)
        links, ports, switches = (lines_of(fleet, page, field) for field in fields)
        assert len(links) == len(ports) == 36
        uuid = fleet.labels.facts(fleet.roster.nodes[0])[1]["uuid"]
        address = 'pci_bus_id="00000000:43:00.0",' if version != "3.0" else ""
        assert [labels for labels, up in links if up == 0] == [
            f'nvlink="5",gpu="1",gpu_uuid="GPU-{uuid}",{address}device="nvidia1",model_name="NVIDIA H100 80GB HBM3",'
            f'{of_links}="dgx-0"'
        ]
        assert [port for port in ports if port[1] != 2] == [(f'nvlink="6",nvswitch="nvswitch1",{of_links}="dgx-0"', 3)]
        places = [[int(number) for number in re.findall(r"\d+", labels)][1::-1] for labels, _ in ports]
        # From 4.8.3 on by their labels, nvlink before nvswitch.
        assert places == sorted(places, key=lambda each: each[::-1] if version == "4.8.3" else each)
        assert switches == [(f'nvswitch="{number}",{of_switches}="dgx-0"', number) for number in range(4)]

    def test_quirks(self) -> None:
        """A label that has another name, or is missing, has and is so on these lines too."""
        shown = []
        for quirks in ("quirks: [hostname.lower]", "known-quirks: [{name: n, issue: a/b#1, doc: d, without-labels: "
                       "[Hostname, hostname]}]\nquirks: [n]"):  # fmt: skip
            identity = f"{COUNTERS.format('4.8.2')}  DCGM_FI_DEV_NVSWITCH_PHYS_ID, gauge, x\n{quirks}\n"
            found = loaded("fleet: {pools: [{name: a, identity: m.yaml}]}\nweb: []", {"m.yaml": identity})
            (label, *others) = found.identities["a"].labels_on("switch")
            shown.append((label.name, [other.name for other in others]))
        assert shown == [("nvswitch", ["hostname"]), ("nvswitch", [])]

    def test_switches(self) -> None:
        """What a switch sends its boards receive; it gets warm by that."""
        fleet, page = page_of("DCGM_FI_DEV_NVSWITCH_THROUGHPUT_TX", "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT")
        sent = [number for _, number in lines_of(fleet, page, "DCGM_FI_DEV_NVSWITCH_THROUGHPUT_TX")]
        assert sum(sent) == pytest.approx(fleet.fabric_rx_bytes.sum() / 1024, abs=4)
        assert sent[0] / sent[3] == pytest.approx(5 / 4)
        warm = [number for _, number in lines_of(fleet, page, "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT")]
        assert warm == [46] * 4

    def test_what_exporters_make_of_it(self) -> None:
        """Series that are missing, or no numbers, of a board are so of its links; switches are well."""
        field = "DCGM_FI_DEV_NVLINK_BANDWIDTH_L7"
        switch = "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT"
        fleet, page = page_of(field, switch, "DCGM_FI_DEV_NVLINK_GET_STATE")
        inject(fleet, kind="absent", devices="dgx-0/0")
        inject(fleet, kind="nan", devices="dgx-0/1")
        advance(fleet, 1)
        assert [str(number) for _, number in lines_of(fleet, page, field)] == ["nan"]
        assert len(lines_of(fleet, page, "DCGM_FI_DEV_NVLINK_GET_STATE")) == 18
        assert [number for _, number in lines_of(fleet, page, switch)] == [46] * 4

    def test_lost(self) -> None:
        """A GPU that is lost has no lines of links; the switch sees its ports off."""
        fleet, page = page_of("DCGM_FI_DEV_NVLINK_GET_STATE", "DCGM_FI_DEV_NVSWITCH_LINK_STATUS")
        inject(fleet, kind="lost", devices="dgx-0/0")
        advance(fleet, 1)
        assert len(lines_of(fleet, page, "DCGM_FI_DEV_NVLINK_GET_STATE")) == 18
        ports = lines_of(fleet, page, "DCGM_FI_DEV_NVSWITCH_LINK_STATUS")
        assert sorted(number for _, number in ports) == [0] * 18 + [2] * 18


class TestConfiguration:
    """The topology of a pool."""

    def test_another(self) -> None:
        fleet, _ = page_of("DCGM_FI_DEV_PCIE_LINK_GEN", pool=", topology: ring")
        assert fleet.state.levels["switch"].count == 0
        assert fleet.roster.links.remotes[0] == 18
        fleet, _ = page_of("DCGM_FI_DEV_PCIE_LINK_GEN", pool=", topology: none")
        assert set(fleet.roster.links.remotes.tolist()) == {-1}

    @pytest.mark.parametrize(
        ("pool", "problem"),
        [
            ("topology: star", "fleet.pools.0.topology: must be one of switches, mesh, ring, none, not 'star'"),
            ("topology: ring, device: l40s", "topology: the device type 'l40s-48gb' has no individual links"),
            ("topology: switches, device: v100", "topology: the device type 'v100-sxm2-16gb' has no switches"),
        ],
    )
    def test_problems(self, pool: str, problem: str) -> None:
        found = problems(f"fleet: {{pools: [{{name: a, {pool}}}]}}\nweb: []")
        assert [each for each in found if problem in each], found


OWN = """\
name: own
labels: [{name: host, value: "{node}"}, {name: card, value: "{index}"}]
labels-of-levels: {switch: [{name: host, value: "{node}"}, {name: switch, value: "{switch}"}]}
families:
  - {name: up, type: gauge, help: "", format: int, quantity: links_up}
  - name: link_up
    type: gauge
    help: ""
    format: int
    rows:
      - level: link
        quantity: link_up
        labels: [{name: to, value: "{peer_device_file}"}, {name: link, value: "{link}"}]
  - {name: ports, type: gauge, help: "", format: int, rows: [{level: switch, quantity: links_up}]}
"""


class TestOwnIdentity:
    """Links and switches in an identity of one's own."""

    def test_rows(self) -> None:
        text = "fleet: {pools: [{name: m, device: DEVICE, devices-per-node: 2, identity: own.yaml}]}\nweb: []"
        pages = []
        for device in ("mi300x", "h100", "l40s"):
            found = loaded(text.replace("DEVICE", device), {"own.yaml": OWN})
            fleet = Fleet(found.fleet)
            page = Page(LabelCache(found.identities["m"], DeviceSource(fleet)), fleet.roster.nodes)
            pages.append([line for line in page.render(fleet.state).decode().splitlines() if line[0] != "#"])
        assert pages[0][:3] == [
            'up{host="m-0",card="0"} 7',
            'up{host="m-0",card="1"} 7',
            'link_up{host="m-0",card="0",to="card1",link="0"} 1',
        ]  # fmt: skip
        assert [len(page) for page in pages] == [2 + 14, 2 + 36 + 4, 0]
        assert pages[1][-1] == 'ports{host="m-0",switch="3"} 8'

    @pytest.mark.parametrize(
        ("old", "new", "problem"),
        [
            ("quantity: link_up", "quantity: link_upp", "no quantity 'link_upp'; did you mean 'link_up'?"),
            ("level: switch", "level: link/x", "level: 'link/x' is none of device,"),
            ("{switch: [", "{swich: [", "labels-of-levels: no level 'swich'; did you mean 'switch'?"),
            ("name: switch", "name: host", "'host' is given 2 times"),
        ],
    )  # fmt: skip
    def test_problems(self, old: str, new: str, problem: str) -> None:
        assert old in OWN
        text = "fleet: {pools: [{name: m, device: mi300x, identity: own.yaml}]}\nweb: []"
        found = problems(text, {"own.yaml": OWN.replace(old, new)})
        assert [each for each in found if problem in each and each.startswith("own.yaml:")], found

    def test_names_for_limits(self) -> None:
        """What shows a link is no metric of its device."""
        found = loaded("fleet: {pools: [{name: m, device: mi300x, identity: own.yaml}]}\nweb: []", {"own.yaml": OWN})
        assert list(found.identities["m"].metric_names()) == ["up"]
        assert found.identities["m"].absent_families(["links_up"]) == []
        assert found.identities["m"].absent_families(["power_watts"]) == ["up", "link_up", "ports"]


class TestApi:
    """The topology of a node, and the links of a device."""

    def test_node(self) -> None:
        """Devices with addresses and links, switches with what they carry."""
        with application() as app:
            app.ask("POST", "/api/v1/faults", {"kind": "link-down", "devices": ["a/1"], "link": 2})
            app.tick()
            topology = app.json("/api/v1/nodes/a")["topology"]
            assert (topology["server"], topology["layout"], topology["link-count"]) == ("DGX H100", "switches", 36)
            device = topology["devices"][1]
            links = device.pop("links")
            assert device == {
                "device": "a/1", "pci-address": "0000:43:00.0", "numa-node": 0, "cpu-affinity": "0-55,112-167",
                "pcie": {"generation": 5, "generation-max": 5, "width": 16, "width-max": 16}, "links-up": 17,
            }  # fmt: skip
            assert links[2] == {
                "link": "a/1/link/2", "to": "a/switch/2/port/4", "state": "error", "tx-bytes-per-second": 0,
                "rx-bytes-per-second": 0, "errors": 1, "recoveries": 0,
            }  # fmt: skip
            assert [(each["switch"], each["links-up"]) for each in topology["switches"]] == [
                ("a/switch/0", 10), ("a/switch/1", 10), ("a/switch/2", 7), ("a/switch/3", 8),
            ]  # fmt: skip
            assert app.json("/api/v1/devices/a/1")["links"] == links

    def test_many_links(self) -> None:
        """A node of very many links tells of them device by device only."""
        fleet = "fleet: {pools: [{name: p, nodes: [a], devices-per-node: 60}]}"
        text = f'{fleet}\nweb: ["127.0.0.1:9400"]\nworkloads: {{listen: []}}'
        with application(text) as app:
            topology = app.json("/api/v1/nodes/a")["topology"]
            assert topology["link-count"] == 1080
            assert "links" not in topology["devices"][0]
            assert len(app.json("/api/v1/devices/a/59")["links"]) == 18
