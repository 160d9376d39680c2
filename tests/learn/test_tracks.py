"""Which series are of which device and owner, by the labels of an exporter."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from fakedev.exporters.identity import Identity
from fakedev.exporters.settings.catalog import Catalog, named_identity
from fakedev.learn.tracks import MEMORY, POWER, USAGE, Owner, Seen, Tracks
from fakedev.schema.files import Files
from fakedev.schema.places import Report

BOARD = {"gpu": "3", "UUID": "GPU-1532df63-264c-5fa5-a906-4925e2447891", "Hostname": "dgx-0"}


@cache
def identity(name: str) -> Identity:
    """One of the catalog."""
    report = Report()
    return named_identity(name, Catalog(Files(environ={}), report), report)


def tracks(name: str = "dcgm@4.8.2") -> Tracks:
    """For pages with all families of an identity."""
    return Tracks([identity(name)], {family.name for family in identity(name).families})


def seen(name: str, labels: dict[str, str], numbers: list[float], first: float = 0.0) -> Seen:
    times = first + 60.0 * np.arange(len(numbers), dtype=np.float64)
    return Seen(name, tuple(sorted(labels.items())), times, np.array(numbers))


@pytest.mark.parametrize(("name", "families"), [
    ("dcgm@4.8.2", {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_FB_USED"}),
    ("amd-device-metrics@1", {"gpu_gfx_activity", "gpu_average_package_power", "gpu_used_visible_vram"}),
])  # fmt: skip
def test_one_family_tells_a_quantity(name: str, families: set[str]) -> None:
    """That of whole boards: not an XCC's, of several that of the fewest labels."""
    assert families <= set(tracks(name).names)
    assert len(tracks(name).names) <= 4


def test_a_device_with_two_owners() -> None:
    """Each time with an owner is a track; units are the simulation's, and pieces are joined in the order of time."""
    found = tracks()
    pod = {**BOARD, "namespace": "ml", "pod": "train-0", "container": "main"}
    found.take(seen("DCGM_FI_DEV_GPU_UTIL", pod, [80, 90], first=120))
    found.take(seen("DCGM_FI_DEV_GPU_UTIL", pod, [70, np.nan]))
    found.take(seen("DCGM_FI_DEV_FB_USED", pod, [100], first=60))
    found.take(seen("DCGM_FI_DEV_GPU_UTIL", BOARD, [0], first=240))
    found.take(seen("DCGM_FI_DEV_POWER_USAGE", BOARD, [61], first=240))
    idle, busy = sorted(found.found(), key=lambda track: -float(track.seconds[0]))
    assert (idle.owner, idle.index) == (Owner(), "3")
    assert {name: values.tolist() for name, values in idle.numbers.items()} == {USAGE: [0], POWER: [61]}
    assert busy.owner == Owner("ml", "train-0")
    assert busy.seconds.tolist() == [0, 120, 180]
    assert busy.numbers[USAGE].tolist() == pytest.approx([0.7, 0.8, 0.9])
    assert busy.numbers[MEMORY].tolist() == [100 * 2**20] * 3


def test_boards_by_the_numbers_of_units() -> None:
    """AMD numbers units; without partitions these are the boards."""
    found = tracks("amd-device-metrics@1")
    found.take(seen("gpu_gfx_activity", {"gpu_id": "3", "serial_number": "131", "hostname": "amd-0"}, [80]))
    assert [track.index for track in found.found()] == ["3"]


def test_batch_jobs() -> None:
    found = tracks()
    found.take(seen("DCGM_FI_DEV_GPU_UTIL", {**BOARD, "hpc_job": "4711"}, [50]))
    (track,) = found.found()
    assert track.owner == Owner(batch_job="4711")


def test_what_says_nothing() -> None:
    """Another family, a line without a device, power of an instance, and a device without a usage."""
    found = tracks()
    found.take(seen("up", BOARD, [1]))
    found.take(seen("DCGM_FI_DEV_GPU_UTIL", {"Hostname": "dgx-0"}, [1]))
    found.take(seen("DCGM_FI_DEV_POWER_USAGE", {**BOARD, "GPU_I_ID": "1", "GPU_I_PROFILE": "1g.10gb"}, [1]))
    found.take(seen("DCGM_FI_DEV_POWER_USAGE", BOARD, [60]))
    assert list(found.found()) == []


def test_instances() -> None:
    """Each is a device with the activity of its engines as usage; its number is its place among those of its board."""
    shown = {family.name for family in identity("dcgm@4.8.2").families}
    found = Tracks([identity("dcgm@4.8.2")], shown, is_divided=True)
    for mig_id, active in (("10", 0.5), ("9", 0.25)):
        labels = {**BOARD, "GPU_I_ID": mig_id, "GPU_I_PROFILE": "1g.10gb", "pod": f"nb-{mig_id}"}
        found.take(seen("DCGM_FI_PROF_GR_ENGINE_ACTIVE", labels, [active]))
    found.take(seen("DCGM_FI_PROF_GR_ENGINE_ACTIVE", {**BOARD, "gpu": "4", "UUID": "GPU-4"}, [1]))
    units = {track.index: (track.owner.pod, track.numbers[USAGE].tolist()) for track in found.found()}
    assert units == {"3/0": ("nb-9", [0.25]), "3/1": ("nb-10", [0.5])}


def test_engines_tell_the_usage_where_nothing_else_does() -> None:
    found = Tracks([identity("dcgm@4.8.2")], {"DCGM_FI_PROF_GR_ENGINE_ACTIVE"})
    found.take(seen("DCGM_FI_PROF_GR_ENGINE_ACTIVE", BOARD, [0.75]))
    (track,) = found.found()
    assert track.numbers[USAGE].tolist() == [0.75]


def test_a_page_without_the_name_of_its_node() -> None:
    """It has the name of the target."""
    found = tracks("nvidia-gpu-exporter@1")
    labels = {"uuid": "1532df63-264c-5fa5-a906-4925e2447891"}
    found.take(Seen("nvidia_smi_utilization_gpu_ratio", tuple(labels.items()), np.zeros(1), np.ones(1), "a:9835"))
    (track,) = found.found()
    assert track.device[0] == "a:9835"


def test_errors_that_end_work() -> None:
    """An XID comes with another owner, or with nothing else of a board that is lost."""
    found = tracks()
    pod = {**BOARD, "namespace": "ml", "pod": "train-0"}
    found.take(seen("DCGM_FI_DEV_GPU_UTIL", pod, [80, 90]))
    found.take(seen("DCGM_FI_DEV_XID_ERRORS", {**pod, "err_code": "0"}, [0, 0]))
    found.take(seen("DCGM_FI_DEV_XID_ERRORS", {**BOARD, "err_code": "95"}, [95, 95], first=120))
    found.take(seen("DCGM_FI_DEV_XID_ERRORS", {**BOARD, "err_code": "79"}, [79], first=240))
    found.take(seen("DCGM_FI_DEV_XID_ERRORS", {**BOARD, "err_code": "0"}, [0], first=300))
    found.take(seen("DCGM_FI_DEV_XID_ERRORS", {**BOARD, "UUID": "GPU-2", "err_code": "0"}, [0, 0]))
    assert len(list(found.found())) == 1
    assert (found.xid_count, found.lost_seconds) == (2, [])


def test_errors_that_are_shown_only_while_there_are_any() -> None:
    """As by dcgm-exporter 4: the first value is a new one, but at the beginning; so is one after a pause."""
    found = tracks()
    found.take(seen("DCGM_FI_DEV_GPU_UTIL", BOARD, [0] * 60))
    for first in (0, 900, 1800):
        found.take(seen("DCGM_FI_DEV_XID_ERRORS", {**BOARD, "err_code": "79"}, [79, 79], first=first))
    assert len(list(found.found())) == 1
    assert found.xid_count == 2
    assert found.lost_seconds == [60, 60, 60]
