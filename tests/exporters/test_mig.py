"""Pages of GPUs that are divided into instances."""

from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fakedev.config.load import load
from fakedev.config.sample_page import sample_page
from fakedev.exporters.identity import without_parts
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.samples import Sample, read_page
from fakedev.exporters.sources import DeviceSource
from fakedev.fleet.fleet import Fleet
from fakedev.schema.files import Files
from tests.support.fleet.faulty_fleets import inject
from tests.support.fleet.fleets import advance, start
from tests.support.paths import GOLDEN

MIG = GOLDEN / "dcgm-exporter-3.0-a100-mig-active-1g5gb.prom"
POOL = """
version: 1
fleet:
  exact-sensors: true
  pools:
    - {name: dgx, nodes: [n], device: a100, devices-per-node: 3, mig: [1g.5gb, 3g.20gb],
       devices: [{index: 1, mig: []}], identity: IDENTITY, attribution: ATTRIBUTION}
"""
#: Families that instances have not, as their exporter leaves them out.
OF_WHOLE_BOARDS = {
    "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_DEV_ENC_UTIL", "DCGM_FI_DEV_DEC_UTIL",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_ROW_REMAP_FAILURE",
    "DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES",
}  # fmt: skip


def page_of(identity: str, mig: bool = True, attribution: str = "as-vendor") -> tuple[Fleet, Page]:  # type: ignore[type-arg]
    """A node of three A100s, of which the second is whole."""
    text = POOL.replace("IDENTITY", identity).replace("ATTRIBUTION", attribution)
    configuration = load(None, Files(environ={}), text=text if mig else text.replace("[1g.5gb, 3g.20gb]", "[]"))
    fleet, shown = Fleet(configuration.fleet), configuration.identities["dgx"]
    return fleet, Page(LabelCache(shown, DeviceSource(fleet, shown.shared_devices)), fleet.roster.nodes)


#: What nvidia-smi does not have of a board in MIG mode, by captures of H100s and H200s without instances.
NOT_IN_MIG_MODE = {name for name in OF_WHOLE_BOARDS if name.startswith("DCGM_FI_DEV_")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("identity", "missing"),
    [
        ("dcgm@4.8.2", NOT_IN_MIG_MODE),
        ("nvidia-gpu-exporter@1", {"nvidia_smi_utilization_gpu_ratio", "nvidia_smi_remapped_rows_failure"}),
    ],
)
def test_mig_mode_without_instances(identity: str, missing: set[str]) -> None:
    """Such a board shows neither utilization nor remapped rows, and else what it always does."""
    off, on = (
        read_page(sample_page(identity, "h100", facts={"mig_mode": mode})[1]).families.keys()
        for mode in "01"
    )
    assert missing <= off - on
    assert not on - off


def samples(page: str) -> dict[str, list[Sample]]:
    return {name: list(family.samples) for name, family in read_page(page).families.items()}


@pytest.mark.parametrize("version", ["3.0", "4.8.2", "4.8.3"])
def test_instances_in_place_of_their_gpu(version: str) -> None:
    """A GPU that is divided has a line for each instance, in order of GPUs; some families only whole GPUs have."""
    fleet, page = page_of(f"dcgm@{version}")
    start(fleet, "n/0/1", "100:0:0", kind="memory", pod="p")
    advance(fleet, 30)
    text = page.render(fleet.state).decode()
    list(text_string_to_metric_families(text))
    found = samples(text)
    for lines in found.values() if version == "4.8.3" else ():  # whose rows are in the order of the UUIDs
        lines.sort(key=lambda line: (dict(line.labels)["gpu"], dict(line.labels).get("GPU_I_ID", "")))
    for name, lines in found.items():
        labels = [dict(line.labels) for line in lines]
        shown = [(label["gpu"], label.get("GPU_I_PROFILE"), label.get("GPU_I_ID")) for label in labels]
        if name in OF_WHOLE_BOARDS:
            assert shown == [("1", None, None)], name
            continue
        instances = [(gpu, *of) for gpu in "02" for of in (("3g.20gb", "2"), ("1g.5gb", "7"))]
        assert shown == [*instances[:2], ("1", None, None), *instances[2:]], name
        assert [label.get("pod", "") for label in labels] == ["", "p", "", "", ""]
        assert len({label["UUID"] for label in labels}) == 3
        names = lines[0].label_names
        assert names[names.index("modelName") + 1 :][:3] == (
            "GPU_I_PROFILE", "GPU_I_ID", "hostname" if version == "4.8.3" else "Hostname",
        )  # fmt: skip
    assert set(found) > OF_WHOLE_BOARDS
    busy = [float(line.number) for line in found["DCGM_FI_PROF_GR_ENGINE_ACTIVE"]]
    assert busy == [0, 0.9956, 0, 0, 0]
    power = [float(line.number) for line in found["DCGM_FI_DEV_POWER_USAGE"]]
    assert power[0] == power[1] > power[2] > 0
    used, free = ([int(float(line.number)) for line in found[f"DCGM_FI_DEV_FB_{each}"]] for each in ("USED", "FREE"))
    assert [a + b for a, b in zip(used, free, strict=True)] == [19968, 4864, 40340, 19968, 4864]


def test_no_parts_no_difference() -> None:
    """Where no GPU is divided the pages are the same, whether rows are of GPUs or of what work is on."""
    fleet, page = page_of("dcgm@4.8.2", mig=False)
    start(fleet, "n/0", "50:0:0", pod="p")
    advance(fleet, 2)
    shown = without_parts(page.identity)
    assert {row.level for family in page.identity.families for row in family.rows} == {"unit", "whole"}
    assert {row.level for family in shown.families for row in family.rows} == {"device"}
    simple = Page(LabelCache(shown, DeviceSource(fleet)), fleet.roster.nodes)
    assert page.render(fleet.state) == simple.render(fleet.state)
    assert without_parts(shown) is shown


def test_pods_that_share_an_instance() -> None:
    """Honest attribution gives a shared instance to none of its pods."""
    for attribution, pods in (("as-vendor", ["", "p", "", "", ""]), ("honest", [""] * 5)):
        fleet, page = page_of("dcgm@3.0", attribution=attribution)
        start(fleet, "n/0/1", pod="p")
        start(fleet, "n/0/1", pod="q")
        advance(fleet, 1)
        lines = samples(page.render(fleet.state).decode())["DCGM_FI_DEV_SM_CLOCK"]
        assert [dict(line.labels)["pod"] for line in lines] == pods


def test_lost_instance() -> None:
    """The lines of an instance that is lost are gone, and those of the others stay."""
    fleet, page = page_of("dcgm@4.8.2")
    inject(fleet, kind="lost", devices="n/0/0")
    advance(fleet, 1)
    lines = samples(page.render(fleet.state).decode())["DCGM_FI_DEV_FB_USED"]
    assert [(dict(line.labels)["gpu"], dict(line.labels).get("GPU_I_ID")) for line in lines] == [
        ("0", "7"), ("1", None), ("2", "2"), ("2", "7"),
    ]  # fmt: skip


def test_xid_of_an_instance() -> None:
    """Its error code is a label only of its line."""
    fleet, page = page_of("dcgm@4.8.2")
    advance(fleet, 1)
    assert "DCGM_FI_DEV_XID_ERRORS{" not in page.render(fleet.state).decode()
    inject(fleet, kind="xid", code=31, devices="n/2/1")
    advance(fleet, 1)
    lines = [line for line in page.render(fleet.state).decode().splitlines() if line.startswith("DCGM_FI_DEV_XID_")]
    assert len(lines) == 1
    assert 'gpu="2"' in lines[0]
    assert 'GPU_I_ID="7"' in lines[0]
    assert 'err_code="31"' in lines[0]


def test_what_the_exporter_counts() -> None:
    """Counts of a divided GPU are on the lines of each of its instances; health and pairs are the GPU's."""
    identity = "etc/dcgm-exporter/identity.yaml"
    fleet, page = page_of(identity)
    inject(fleet, kind="xid", code=63, devices="n/0")
    advance(fleet, 1)
    shown = samples(page.render(fleet.state).decode())
    instances = [(gpu, of, str(count)) for gpu, count in (("0", 1), ("2", 0)) for of in ("2", "7")]
    for name, wanted in {
        "DCGM_EXP_XID_ERRORS_COUNT": [*instances[:2], ("1", None, "0"), *instances[2:]],
        "DCGM_EXP_CLOCK_EVENTS_COUNT": [(gpu, of, "1") for gpu, of in (
            ("0", "2"), ("0", "7"), ("1", None), ("2", "2"), ("2", "7")
        )],
    }.items():  # fmt: skip
        lines = [(dict(line.labels)["gpu"], dict(line.labels).get("GPU_I_ID"), line.number) for line in shown[name]]
        assert sorted(lines, key=str) == sorted(wanted, key=str), name
    for name in ("DCGM_EXP_GPU_HEALTH_STATUS", "DCGM_EXP_P2P_STATUS"):
        assert not any("GPU_I_ID" in dict(line.labels) for line in shown[name]), name


def test_lost_instance_is_no_lost_board() -> None:
    """An instance that is removed is no XID 79 of its board; the other instances keep what was counted."""
    fleet, page = page_of("etc/dcgm-exporter/identity.yaml")
    inject(fleet, kind="lost", devices="n/0/0")
    advance(fleet, 1)
    lines = samples(page.render(fleet.state).decode())["DCGM_EXP_XID_ERRORS_COUNT"]
    assert {line.number for line in lines} == {"0"}
    inject(fleet, kind="lost", devices="n/0")
    advance(fleet, 1)
    lines = samples(page.render(fleet.state).decode())["DCGM_EXP_XID_ERRORS_COUNT"]
    assert [dict(line.labels).get("GPU_I_ID") for line in lines if dict(line.labels).get("xid") == "79"] == ["2", "7"]


@pytest.mark.slow
@pytest.mark.skipif(not MIG.is_file(), reason=f"the reference texts are not at hand ({MIG})")
def test_as_the_real_one() -> None:
    """Families, declarations, labels and their order, and the format of numbers are those of a real scrape."""
    real = MIG.read_text(encoding="utf-8")
    _, ours = sample_page("dcgm@3.0", "a100", ("1g.5gb",))

    def shape(text: str) -> list[str]:
        plain = re.sub(r'="[^"]*"', '=""', text)
        numbered = re.sub(r" \d+\.\d{6}$", " FIXED6", plain, flags=re.MULTILINE)
        return list(dict.fromkeys(re.sub(r" \d+$", " INT", numbered, flags=re.MULTILINE).splitlines()))

    assert shape(ours) == shape(real)
