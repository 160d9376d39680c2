"""Programs of others, unmodified: gpustat, nvitop-exporter, a program in C, and zeus, which looks for a power limit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Final

import pytest
import pytest_twisted
from twisted.internet.threads import deferToThread

from tests.nvml.real.test_nvml import environment, started
from tests.support.driver.nvml import compiled, skip_without
from tests.support.programs.asynchronous import eventually
from tests.support.programs.ports import free_port
from tests.support.programs.processes import StartAsync, run, skip_or_fail

pytestmark = [pytest.mark.real, pytest.mark.slow]

#: The variable with a Python of an environment that has zeus, which is too large for that of the tests.
ZEUS: Final = "FAKEDEV_TEST_ZEUS"

#: A program as NVIDIA's header wants it.
IN_C: Final = r"""
#include <stdio.h>
#include <nvml.h>
int main(void)
{
    nvmlDevice_t device;
    nvmlUtilization_t usage;
    unsigned count = 0, power = 0;
    char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE], uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
    if (nvmlInit() != NVML_SUCCESS || nvmlDeviceGetCount(&count) != NVML_SUCCESS)
        return 1;
    for (unsigned index = 0; index < count; index++) {
        if (nvmlDeviceGetHandleByIndex(index, &device) || nvmlDeviceGetName(device, name, sizeof name) ||
            nvmlDeviceGetUUID(device, uuid, sizeof uuid) || nvmlDeviceGetUtilizationRates(device, &usage) ||
            nvmlDeviceGetPowerUsage(device, &power))
            return 2;
        printf("%u: %s, %s, %u %%, %u W\n", index, name, uuid, usage.gpu, power / 1000);
    }
    return nvmlShutdown();
}
"""

#: A training loop whose steps take as long as the board's clock lets them. There is no CUDA, so that a stand-in for
#: torch does what zeus asks of it: to wait for work that was given to the board, and whether there are other processes.
TRAINING: Final = """
import sys, time, types
torch = types.ModuleType("torch")
torch.cuda = types.SimpleNamespace(is_available=lambda: True, synchronize=lambda device: None)
torch.distributed = types.SimpleNamespace(is_available=lambda: False, is_initialized=lambda: False)
torch.Tensor = torch.Generator = type("Nothing", (), {})
sys.modules["torch"] = torch
from pynvml import *
from zeus.monitor import ZeusMonitor
from zeus.optimizer.power_limit import Energy, GlobalPowerLimitOptimizer
optimizer = GlobalPowerLimitOptimizer(
    ZeusMonitor(gpu_indices=[1]), optimum_selector=Energy(), warmup_steps=2, profile_steps=5, pl_step=100
)
board = nvmlDeviceGetHandleByIndex(1)
highest = nvmlDeviceGetMaxClockInfo(board, NVML_CLOCK_SM)
optimizer.on_epoch_begin()
while type(optimizer.state).__name__ != "Done":
    optimizer.on_step_begin()
    time.sleep(0.2 * highest / nvmlDeviceGetClockInfo(board, NVML_CLOCK_SM))
    optimizer.on_step_end()
time.sleep(0.3)
limit = nvmlDeviceGetEnforcedPowerLimit(board)
print("limit", limit // 1000)
for each in optimizer.measurements:
    print("measured", each.power_limit, each.energy)
"""


@pytest_twisted.ensureDeferred
async def test_gpustat(start_async: StartAsync, tmp_path: Path) -> None:
    """Names and usage; a lost board as hardware does."""
    skip_without("gpustat")
    service, file = await started(start_async, tmp_path)
    peer = await service.connect(1)
    assert (await peer.say("run train devices=a/1 profile=80:0:0")).startswith("ok")

    async def shown() -> str:
        done = await run(
            start_async, sys.executable, "-m", "gpustat", "--no-color", environment=environment(file, "a")
        )
        return done.stdout

    async def is_busy() -> bool:
        return re.search(r"\[1\] NVIDIA H100 80GB HBM3 \| +\d+°C, +80 % \|", await shown()) is not None

    async def is_lost() -> bool:
        return "[1] ((GPU is lost))" in await shown()

    await eventually(is_busy, "the work")
    assert (await peer.say("fault lost devices=a/1")).startswith("ok")
    await eventually(is_lost, "the lost board")


@pytest_twisted.ensureDeferred
async def test_nvitop_exporter(start_async: StartAsync, tmp_path: Path) -> None:
    """Its page has the usage of the boards, by their UUIDs."""
    skip_without("nvitop_exporter")
    _, file = await started(start_async, tmp_path)
    port = free_port()
    words = [sys.executable, "-m", "nvitop_exporter", "--bind-address", "127.0.0.1", "--port", str(port)]
    exporter = start_async(words, environment=environment(file, "a"))

    async def page() -> str:
        return (await run(start_async, "curl", "-s", f"http://127.0.0.1:{port}/metrics")).stdout

    async def has_both() -> bool:
        usages = re.findall(r'^gpu_utilization_Percentage{.*uuid="(GPU-[^"]*)"} \d', await page(), re.MULTILINE)
        return len({*usages}) == 2

    await eventually(has_both, "the usage of both boards")
    await exporter.kill()


@pytest_twisted.ensureDeferred
async def test_a_program_in_c(start_async: StartAsync, tmp_path: Path) -> None:
    """Compiled against NVIDIA's header and linked with the library, as any program of users."""
    if shutil.which("cc") is None:
        skip_or_fail("there is no C compiler")
    try:
        header = next(Path(str(file.locate())) for file in files("nvidia-nvml-dev") or () if file.name == "nvml.h")
    except (PackageNotFoundError, StopIteration):
        skip_or_fail("nvidia-nvml-dev, with NVIDIA's header, is not installed")
    (tmp_path / "boards.c").write_text(IN_C)
    words = ["cc", f"-I{header.parent}", "boards.c", "-o", "boards", str(compiled("plain"))]
    await deferToThread(lambda: subprocess.run(words, cwd=tmp_path, check=True))
    _, file = await started(start_async, tmp_path)
    done = await run(start_async, str(tmp_path / "boards"), environment=environment(file, "a"))
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all(re.fullmatch(r"\d: NVIDIA H100 80GB HBM3, GPU-[0-9a-f-]{36}, \d+ %, \d+ W", line) for line in lines)


@pytest.mark.long
@pytest.mark.alone
@pytest_twisted.ensureDeferred
async def test_zeus_finds_a_power_limit(start_async: StartAsync, tmp_path: Path) -> None:
    """It sets one limit after another, measures the energy of the same work with each, and sets that of the least."""
    python = os.environ.get(ZEUS)
    if not python:
        pytest.skip(f"{ZEUS} names no Python with zeus (pip install zeus, in an environment of its own)")
    service, file = await started(start_async, tmp_path, f', setters: ["{os.getuid()}"]')
    peer = await service.connect(0)
    assert (await peer.say("run train devices=a/1 profile=90:0:0")).startswith("ok")
    done = await run(start_async, python, "-c", TRAINING, environment=environment(file, "a"))
    assert done.exit_code == 0, done.stderr
    measured = {int(limit): float(energy) for limit, energy in re.findall(r"measured (\d+) (\S+)", done.stdout)}
    assert sorted(measured) == [200, 300, 400, 500, 600, 700]
    best = min(measured, key=measured.__getitem__)
    assert f"limit {best}\n" in done.stdout
    assert best < 500
