"""GPU instances and compute instances (MIG), asked by NVIDIA's bindings as its tools for Kubernetes ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.application import application
from tests.support.driver.nvml import bindings, boards, error_of, number_of

pytestmark = pytest.mark.slow


@pytest.fixture
def divided(file: Path) -> Iterator[tuple[Any, Any]]:
    """The bindings, and a board with an instance of 3g.40gb and one of 1g.10gb."""
    with bindings(file) as pynvml, application(boards(file, more="mig: [3g.40gb, 1g.10gb]")):
        pynvml.nvmlInit()
        yield pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)


def _kinds(pynvml: Any, board: Any) -> dict[str, Any]:
    """The profiles of a board by name, as go-nvlib looks for them: one kind after another."""
    found = {}
    for kind in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        if error_of(pynvml, "nvmlDeviceGetGpuInstanceProfileInfo", board, kind):
            continue
        info = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(board, kind)
        plain = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(board, kind, version=1)
        for name, _ in plain._fields_:
            assert getattr(plain, name) == getattr(info, name), name
        found[info.name.decode() if isinstance(info.name, bytes) else info.name] = info
    return found


def test_profiles(divided: tuple[Any, Any]) -> None:
    """All kinds of an H100, each with its number, engines, memory and places."""
    pynvml, board = divided
    kinds = _kinds(pynvml, board)
    assert {name: info.id for name, info in kinds.items()} == {
        "MIG 1g.10gb": 19, "MIG 1g.10gb+me": 20, "MIG 1g.20gb": 15, "MIG 2g.20gb": 14, "MIG 3g.40gb": 9,
        "MIG 4g.40gb": 5, "MIG 7g.80gb": 0,
    }  # fmt: skip
    half = kinds["MIG 3g.40gb"]
    assert (half.sliceCount, half.instanceCount, half.multiprocessorCount, half.memorySizeMB) == (3, 2, 60, 40448)
    assert error_of(pynvml, "nvmlDeviceGetGpuInstanceProfileInfo", board, 99) == 2
    # One half is taken, and an eighth of the other one.
    remaining = {name: pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(board, info.id) for name, info in kinds.items()}
    assert remaining == {
        "MIG 1g.10gb": 3, "MIG 1g.10gb+me": 1, "MIG 1g.20gb": 1, "MIG 2g.20gb": 1, "MIG 3g.40gb": 0,
        "MIG 4g.40gb": 0, "MIG 7g.80gb": 0,
    }  # fmt: skip


def test_instances(divided: tuple[Any, Any]) -> None:
    """From a MIG device to its GPU instance, to its compute instance and back, as gpu-feature-discovery goes."""
    pynvml, board = divided
    kinds = _kinds(pynvml, board)
    for index, name in enumerate(("MIG 3g.40gb", "MIG 1g.10gb")):
        device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(board, index)
        number = pynvml.nvmlDeviceGetGpuInstanceId(device)
        instance = pynvml.nvmlDeviceGetGpuInstanceById(board, number)
        info = pynvml.nvmlGpuInstanceGetInfo(instance)
        assert (info.id, info.profileId, number_of(info.device)) == (number, kinds[name].id, number_of(board))
        assert info.placement.size == {"MIG 3g.40gb": 4, "MIG 1g.10gb": 1}[name]
        compute = pynvml.nvmlGpuInstanceGetComputeInstanceById(instance, 0)
        whole = pynvml.nvmlComputeInstanceGetInfo(compute)
        assert (whole.id, number_of(whole.gpuInstance), whole.placement.size) == (
            0, number_of(instance), kinds[name].sliceCount,
        )  # fmt: skip
        kind = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, whole.profileId, 0)
        attributes = pynvml.nvmlDeviceGetAttributes(device)
        assert kind.multiprocessorCount == attributes.multiprocessorCount == kinds[name].multiprocessorCount
        bar1 = pynvml.nvmlDeviceGetBAR1MemoryInfo(device)
        assert bar1.bar1Total == (128 * info.placement.size // 8 * 1024 - 1) << 20
        assert error_of(pynvml, "nvmlGpuInstanceDestroy", instance) == 4
        assert error_of(pynvml, "nvmlComputeInstanceDestroy", compute) == 4
        # A handle of another kind is none.
        for function in ("nvmlDeviceGetName", "nvmlComputeInstanceGetInfo"):
            assert error_of(pynvml, function, instance) == 2
    assert error_of(pynvml, "nvmlDeviceGetGpuInstanceById", board, 99) == 6
    assert error_of(pynvml, "nvmlDeviceCreateGpuInstance", board, 19) == 4


def test_whole_boards(app: Any, pynvml: Any) -> None:
    """Kinds are there without MIG mode, instances are not."""
    board = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert len(_kinds(pynvml, board)) == 7
    assert error_of(pynvml, "nvmlDeviceGetGpuInstanceById", board, 1) == 3
    assert error_of(pynvml, "nvmlDeviceGetGpuInstanceRemainingCapacity", board, 19) == 3
    memory = pynvml.nvmlDeviceGetBAR1MemoryInfo(board)
    assert (memory.bar1Total, memory.bar1Used + memory.bar1Free) == (128 << 30, 128 << 30)
