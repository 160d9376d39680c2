"""The catalog's YAML files, read by themselves: complete, consistent, and each value with its source."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import fakedev.catalog
from fakedev.base.names import COMPUTED_FACTS
from fakedev.base.units import parse_size
from fakedev.config.sample_page import sample_page
from fakedev.exporters.samples import read_page
from fakedev.fleet.spec.quantities import DIRECT_QUANTITIES

CATALOG = Path(fakedev.catalog.__file__).parent
DEVICES = sorted(path for path in (CATALOG / "devices").glob("*.yaml") if not path.stem.startswith("grid-"))
#: Virtual GPUs, which show little.
GUESTS = sorted((CATALOG / "devices").glob("grid-*.yaml"))
IDENTITIES = sorted((CATALOG / "identities").glob("*.yaml"))

DEVICE_KEYS = {"name", "aliases", "facts", "memory", "capability", "connections", "ranges", "dynamics", "sources"}
OPTIONAL_DEVICE_KEYS = {"counts-errors", "lacks", "mig", "tiles"}
#: What every device type says of its dynamics, and the columns of the table in doc/devices.md, in this order.
DYNAMICS = {
    "power-limit-watts", "clock-step-mhz", "inlet-celsius", "slowdown-celsius", "resume-celsius",
    "pcie-bytes-per-second", "memory-bytes-per-second",
}  # fmt: skip
DYNAMICS_COLUMNS = (
    "power-limit-watts", "clocked-power-share", "matrix-clock-mhz", "memory-bound-watts", "clock-power-exponent",
    "clock-step-mhz", "thermal-seconds", "inlet-celsius", "resume-celsius", "slowdown-celsius",
    "hardware-slowdown-celsius", "shutdown-celsius", "pcie-bytes-per-second", "fabric-bytes-per-second",
    "memory-bytes-per-second", "idle-performance-state", "spread",
)  # fmt: skip
#: Keys of dynamics that are the same for all types that have them.
ALIKE = {
    "power-noise": 0.01, "power-step-watts": 0.001, "inlet-spread-celsius": 1.5, "inlet-drift-celsius": 1,
    "compute-performance-state": 2, "power-average-seconds": 0,
}  # fmt: skip
DEVICE_FACTS = {"product_name", "vendor", "pci_device_id", "driver_version", "architecture", "memory_type"}
SOURCE = re.compile(r"\[(?:C|S|P|L|D|F|V|X|M)\]|derived|chosen|guess|by definition|not known")

#: What the facts that this project was built on say of the boards: PCI device, memory in MiB.
BOARDS = {
    "a10-24gb": (0x2236, 23028),
    "a100-sxm4-40gb": (0x20B0, 40960),
    "a100-sxm4-80gb": (0x20B2, 81920),
    "a10g-24gb": (0x2237, 23028),
    "a30-24gb": (0x20B7, 24576),
    "a40-48gb": (0x2235, 46068),
    "a800-sxm4-80gb": (0x20F3, 81920),
    "amd-mi250x": (0x7408, 131072),
    "amd-mi300a": (0x74A0, 131072),
    "amd-mi300x": (0x74A1, 196608),
    "amd-mi325x": (0x74A5, 262144),
    "amd-mi350x": (0x75A0, 294912),
    "amd-mi355x": (0x75A3, 294912),
    "amd-radeon-pro-v710": (0x7460, 28672),
    "amd-radeon-pro-w7900": (0x7448, 49152),
    "ascend-910b3": (0xD802, 65536),
    "aws-trainium2": (0x7364, 98304),
    "aws-trainium3": (0x7564, 147456),
    "b200-sxm-180gb": (0x2901, 183359),
    "b300-sxm-270gb": (0x3182, 275040),
    "gb10-120gb": (0x2E12, 124610),
    "gb200-186gb": (0x2941, 189471),
    "gb300-277gb": (0x31C2, 284208),
    "gh200-96gb": (0x2342, 97871),
    "h100-sxm5-80gb": (0x2330, 81559),
    "h20-96gb": (0x2329, 97871),
    "h200-sxm-141gb": (0x2335, 143771),
    "h800-sxm5-80gb": (0x2324, 81559),
    "intel-arc-pro-b60": (0xE211, 24480),
    "intel-dg1": (0x4905, 3822),
    "intel-flex-170": (0x56C0, 14248),
    "intel-gaudi-3": (0x1060, 131072),
    "intel-max-1550": (0x0BD5, 131072),
    "l20-48gb": (0x26BA, 46068),
    "l4-24gb": (0x27B8, 23034),
    "l40-48gb": (0x26B5, 46068),
    "l40s-48gb": (0x26B9, 46068),
    "p100-sxm2-16gb": (0x15F9, 16384),
    "rtx-2080-super-8gb": (0x1E81, 8192),
    "rtx-4000-ada-20gb": (0x27B2, 20475),
    "rtx-4080-super-16gb": (0x2702, 16376),
    "rtx-4090-24gb": (0x2684, 24564),
    "rtx-pro-4500-32gb": (0x2C31, 32623),
    "rtx-pro-6000-server-96gb": (0x2BB5, 97887),
    "t4-16gb": (0x1EB8, 15360),
    "tpu-7x": (0x0076, 194040),
    "tpu-v5e": (0x0063, 16384),
    "tpu-v6e": (0x006F, 32768),
    "v100-sxm2-16gb": (0x1DB1, 16384),
    "v100-sxm2-32gb": (0x1DB5, 32768),
}
SHORT_NAMES = {
    "h100", "a100", "h200", "l40s", "t4", "v100", "dg1", "0x4905", "max-1550", "flex-170", "mi300x",
    "l4", "a10", "a30", "rtx-4000-ada", "rtx-4090", "p100", "v100-32gb", "a800", "h800", "b200", "gb200",
    "mi250x", "mi325x", "gaudi-3", "a10g", "l40", "a40", "h20", "l20", "b300", "rtx-pro-6000", "gh200",
    "gb300", "gb10", "rtx-pro-4500", "rtx-2080-super", "rtx-4080-super", "mi350x", "mi355x", "mi300a", "w7900", "v710",
    "arc-pro-b60", "v5e", "v6e", "tpu7x", "trainium2", "trainium3",
    "910b",
}  # fmt: skip


@cache
def load(path: Path) -> dict[str, Any]:
    """One YAML file, unchanged."""
    data = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    assert isinstance(data, dict)
    return data


def number(quantity: str, value: object) -> float:
    """A bound of a range as a number; sizes may be written with a unit."""
    if isinstance(value, str):
        assert quantity.endswith("_bytes"), f"{quantity}: {value!r} is no number"
        return float(parse_size(value))
    assert isinstance(value, int | float)
    assert not isinstance(value, bool)
    return float(value)


@pytest.fixture(params=DEVICES, ids=lambda path: path.stem)
def device(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Each device type in turn."""
    return load(request.param)


class TestCatalog:
    """What is in the folders."""

    def test_devices(self) -> None:
        """The device types are those of the issue, in files of their names."""
        assert [path.stem for path in DEVICES] == sorted(BOARDS)
        assert all(load(path)["name"] == path.stem for path in DEVICES)

    def test_aliases(self) -> None:
        """The short names are there, are texts, and no name means two device types."""
        names = [name for path in DEVICES for name in (path.stem, *load(path)["aliases"])]
        assert all(isinstance(name, str) for name in names)
        assert len(names) == len(set(names))
        assert set(names) >= SHORT_NAMES

    def test_identities(self) -> None:
        """Files are NAME@VERSION.yaml, or NAME.yaml with releases, and each name has one default version."""
        loaded = [load(path) for path in IDENTITIES]
        stems = [data["name"] + ("" if "releases" in data else f"@{data['version']}") for data in loaded]
        assert stems == [path.stem for path in IDENTITIES]
        defaults = [data["name"] for data in loaded if data.get("default") or "default-release" in data]
        assert sorted(defaults) == sorted({data["name"] for data in loaded})


class TestDevices:
    """One device type."""

    def test_keys(self, device: dict[str, Any]) -> None:
        """All keys are there and no others, and facts are texts."""
        assert set(device) - OPTIONAL_DEVICE_KEYS == DEVICE_KEYS
        assert set(device["memory"]) == {"total", "reserved", "page"}
        assert set(device["facts"]) >= DEVICE_FACTS
        assert not set(device["facts"]) & {*COMPUTED_FACTS, "uuid", "pci_address", "device_file"}
        assert all(isinstance(value, str) and value for name, value in device["facts"].items() if name != "serial")
        assert device["facts"].get("serial", "") == "", "GeForce boards have none; others get one each"

    def test_board(self, device: dict[str, Any]) -> None:
        """PCI device and memory are the board's."""
        pci, total_mib = BOARDS[device["name"]]
        text = device["facts"]["pci_device_id"]
        assert re.fullmatch(r"0x[0-9a-f]{3,4}", text)
        assert int(text, 16) == pci
        assert parse_size(device["memory"]["total"]) == total_mib * 2**20

    def test_intel_drops_leading_zeros(self, device: dict[str, Any]) -> None:
        """Intel's exporters print the PCI device as C's %#x does."""
        text = device["facts"]["pci_device_id"]
        if device["facts"]["vendor"].startswith("Intel"):
            assert text == f"{int(text, 16):#x}"
        else:
            assert len(text) == 6

    def test_ranges(self, device: dict[str, Any]) -> None:
        """Ranges are of known quantities, from low to high, ratios within 0 to 1, nothing negative."""
        assert list(device["ranges"]) == [name for name in DIRECT_QUANTITIES if name in device["ranges"]]
        for quantity, bounds in device["ranges"].items():
            low, high = (number(quantity, bound) for bound in bounds)
            assert 0 <= low <= high, quantity
            assert not quantity.endswith("_ratio") or high <= 1, quantity

    def test_has_the_ranges_of_every_board(self, device: dict[str, Any]) -> None:
        """Usage, memory, clock, power and temperature exist on all boards."""
        assert set(device["ranges"]) >= {
            "usage_ratio", "memory_used_bytes", "core_frequency_mhz", "power_watts", "temperature_celsius",
        }  # fmt: skip
        assert device["ranges"]["usage_ratio"] == [0, 1]

    def test_memory(self, device: dict[str, Any]) -> None:
        """Reserved and used memory fit into the total at load 100; bounds are whole pages."""
        total, reserved, page = (parse_size(device["memory"][key]) for key in ("total", "reserved", "page"))
        used = [number("memory_used_bytes", bound) for bound in device["ranges"]["memory_used_bytes"]]
        assert reserved + used[1] <= total
        assert all(bound % page == 0 for bound in used)

    def test_memory_kind(self, device: dict[str, Any]) -> None:
        """GDDR boards of NVIDIA show no memory temperature and drop the memory clock, HBM ones since Volta neither."""
        if device["facts"]["vendor"] != "NVIDIA" or device["name"] == "gb10-120gb":  # this one shows no memory clock
            return
        low, high = device["ranges"]["memory_frequency_mhz"]
        hbm = device["facts"]["memory_type"] == "HBM"
        has_sensor = hbm and device["facts"]["architecture"] != "pascal"
        assert has_sensor == ("memory_temperature_celsius" in device["ranges"])
        assert hbm == (low == high)

    def test_dynamics(self, device: dict[str, Any]) -> None:
        """What differs from board to board is given, the limits are over what plain full load reaches."""
        dynamics, ranges = device["dynamics"], device["ranges"]
        assert set(dynamics) - {"work"} >= DYNAMICS
        assert set(dynamics) - {"work", "compute-memory-mhz", *ALIKE} <= set(DYNAMICS_COLUMNS)
        assert all(dynamics.get(key, value) == value for key, value in ALIKE.items())
        assert dynamics["power-limit-watts"] >= ranges["power_watts"][1]
        assert dynamics["resume-celsius"] > ranges["temperature_celsius"][1]
        heat = [dynamics[key] for key in DYNAMICS_COLUMNS[8:12] if key in dynamics]
        assert heat == sorted(set(heat))

    def test_inlet(self, device: dict[str, Any]) -> None:
        """At no power a board would be as warm as its air."""
        low, high = device["ranges"]["power_watts"]
        cold, warm = device["ranges"]["temperature_celsius"]
        line = cold - (warm - cold) / (high - low) * low
        assert device["dynamics"]["inlet-celsius"] == pytest.approx(line, abs=0.1)

    def test_time_constant(self, device: dict[str, Any]) -> None:
        """Thermal resistance times 0.56 J/K per watt of the power limit."""
        low, high = device["ranges"]["power_watts"]
        cold, warm = device["ranges"]["temperature_celsius"]
        seconds = (warm - cold) / (high - low) * 0.56 * device["dynamics"]["power-limit-watts"]
        assert device["dynamics"]["thermal-seconds"] == pytest.approx(seconds, rel=0.05)

    def test_links(self, device: dict[str, Any]) -> None:
        """A board has traffic to other boards, and counts their errors, when it has links, and not else."""
        has_links = "fabric-bytes-per-second" in device["dynamics"]
        assert ("fabric_tx_bytes_per_second" in device["ranges"]) == has_links
        assert ("fabric_rx_bytes_per_second" in device["ranges"]) == has_links
        assert ("link_errors" in device.get("lacks", [])) == (not has_links)

    def test_energy(self, device: dict[str, Any]) -> None:
        """Boards before Volta do not count it."""
        is_old = device["facts"]["architecture"] in ("maxwell", "pascal")
        assert ("energy_joules" in device.get("lacks", [])) == is_old

    def test_pcie(self, device: dict[str, Any]) -> None:
        """The link's bytes are transfers x lanes x 128 / 130 bits of its generation, to three digits."""
        match = re.search(r"PCIe (\d)\.0 x(\d+)", device["sources"]["pcie-bytes-per-second"])
        assert match is not None
        generation, lanes = int(match[1]), int(match[2])
        computed = 8e9 * 2 ** (generation - 3) * lanes * 128 / 130 / 8
        assert device["dynamics"]["pcie-bytes-per-second"] == pytest.approx(computed, rel=0.005)
        pcie = device["connections"]["pcie"]
        assert (pcie["generation"], pcie["width"]) == (generation, lanes)

    def test_links_are_told_apart(self, device: dict[str, Any]) -> None:
        """A board with links says how many; they carry together what its links do."""
        links = device["connections"].get("links")
        assert (links is not None) == ("fabric-bytes-per-second" in device["dynamics"])
        if links is not None:
            match = re.search(r"(\d+) (?:NVLink|Xe Link|xGMI link)s? of ([\d.]+) GB/s each way|(\d+) links of ([\d.]+)",
                              device["sources"]["fabric-bytes-per-second"])  # fmt: skip
            assert match is not None
            count, speed = match[1] or match[3], match[2] or match[4]
            assert int(count) == links["count"]
            assert device["dynamics"]["fabric-bytes-per-second"] == pytest.approx(float(speed) * 1e9 * links["count"])

    def test_sources(self, device: dict[str, Any]) -> None:
        """Each fact, size, range and value of the dynamics says where it is from, and no source is of nothing."""
        parts = ("facts", "memory", "connections", "ranges", "dynamics")
        values = {"capability", *(key for part in parts for key in device[part])}
        values |= {"mig", "tiles"} & set(device)
        assert set(device["sources"]) == values
        for name, text in device["sources"].items():
            assert SOURCE.search(text), f"{name}: {text}"


@pytest.mark.parametrize("path", GUESTS, ids=lambda path: path.stem)
def test_virtual_gpus(path: Path) -> None:
    """A guest sees neither power nor heat, no errors and no profiling; each value has its source."""
    guest = load(path)
    assert guest["name"] == path.stem
    assert not {"power_watts", "temperature_celsius"} & set(guest["ranges"])
    assert guest["counts-errors"] is False
    assert set(guest["sources"]) == {*guest["facts"], *guest["memory"], *guest["ranges"]}
    assert all(SOURCE.search(text) for text in guest["sources"].values())


class TestDocumentation:
    """doc/devices.md, and doc/topology.md, say what the files say."""

    columns = (
        "power_watts", "temperature_celsius", "memory_temperature_celsius", "core_frequency_mhz",
        "memory_frequency_mhz", "memory_used_bytes",
    )  # fmt: skip

    def test_connections(self, device: dict[str, Any]) -> None:
        """The table of connections has the device's row."""
        lines = (CATALOG.parent.parent / "doc" / "topology.md").read_text(encoding="utf-8").splitlines()
        found = device["connections"]
        pcie, links = found["pcie"], found.get("links")
        idle = f", idle {pcie['idle-generation']}" if "idle-generation" in pcie else ""
        leads = "-"
        if links:
            leads = f"{links['switches']} switches" if links["layout"] == "switches" else links["layout"]
            leads += ", a table for 8" if "peers" in links else ""
        cells = [device["name"], f"{pcie['generation']} x{pcie['width']}{idle}", str(links["count"] if links else "-"),
                 leads, found.get("server", {}).get("name", "-")]  # fmt: skip
        assert f"| {' | '.join(cells)} |" in lines

    def test_tables(self, device: dict[str, Any]) -> None:
        """Both tables have the device's row, with its values."""
        lines = (CATALOG.parent.parent / "doc" / "devices.md").read_text(encoding="utf-8").splitlines()
        facts = device["facts"]
        total, reserved = (device["memory"][key].removesuffix("MiB") for key in ("total", "reserved"))
        names = [device["name"], ", ".join(device["aliases"]), facts["product_name"], facts["pci_device_id"]]
        assert f"| {' | '.join([*names, f'{total} ({reserved})', facts['driver_version']])} |" in lines
        ranges = [
            " .. ".join(str(bound).removesuffix("MiB") for bound in device["ranges"].get(column, [])) or "-"
            for column in self.columns
        ]
        assert f"| {' | '.join([device['name'], *ranges])} |" in lines


@pytest.mark.slow
def test_a_board_without_memory_of_its_own() -> None:
    """A GB10 has the thirteen families of a page of dcgm-exporter 3.3.5 that was described."""
    families = read_page(sample_page("dcgm@3.3.5", "gb10")[1]).families
    assert {name.removeprefix("DCGM_FI_DEV_") for name in families} == {
        "SM_CLOCK", "MEMORY_TEMP", "GPU_TEMP", "POWER_USAGE", "TOTAL_ENERGY_CONSUMPTION", "PCIE_REPLAY_COUNTER",
        "GPU_UTIL", "MEM_COPY_UTIL", "ENC_UTIL", "DEC_UTIL", "XID_ERRORS", "NVLINK_BANDWIDTH_TOTAL",
        "VGPU_LICENSE_STATUS",
    }  # fmt: skip
    assert not [name for name in read_page(sample_page("dcgm@4.9.0", "gb10")[1]).families if "_FB_" in name]


@pytest.mark.parametrize("board", ["rtx-2080-super", "rtx-4080-super"])
def test_geforce_boards_without_ecc_count_replays(board: str) -> None:
    """As a GeForce under dcgm-exporter 4.4.1 does; rows and errors of memory they have not."""
    names = " ".join(read_page(sample_page("dcgm@4.8.2", board)[1]).families)
    assert "PCIE_REPLAY_COUNTER" in names
    assert "REMAP" not in names
