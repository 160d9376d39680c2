"""A real service, and programs that ask NVIDIA's driver: unmodified, in processes of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet.threads import deferToThread

from fakedev.nvml.library import built_command
from tests.support.driver.nvml import compiled, skip_without
from tests.support.paths import ROOT
from tests.support.programs.asynchronous import FLEET, AsyncService, eventually, serve
from tests.support.programs.processes import StartAsync, clean_environment, run

pytestmark = pytest.mark.real

FAST = FLEET.replace("seed: 7", "seed: 7\n  tick: 100ms\n  speed: 1")


def environment(file: Path, node: str) -> dict[str, str]:
    library = compiled("plain").parent
    return clean_environment(LD_LIBRARY_PATH=str(library), FAKEDEV_NVML_FILE=str(file), FAKEDEV_NODE=node)


def asked(file: Path, code: str, node: str = "a") -> str:
    """What a program prints that asks by NVIDIA's bindings."""
    wrapped = f"from pynvml import *\nnvmlInit()\n{code}"
    done = subprocess.run([sys.executable, "-c", wrapped], env=environment(file, node), capture_output=True, text=True,
                          timeout=300, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


async def started(start_async: StartAsync, folder: Path, more: str = "") -> tuple[AsyncService, Path]:
    """A service with the file of its two nodes."""
    file = folder / "nvml.map"
    return await serve(start_async, folder, fleet=f"nvml: {{file: {file}{more}}}\n{FAST.lstrip()}"), file


@pytest_twisted.ensureDeferred
async def test_nvitop(start_async: StartAsync, tmp_path: Path) -> None:
    """It shows the boards, their work, and the client of a workload by its pid; a lost board as hardware does."""
    skip_without("nvitop")
    service, file = await started(start_async, tmp_path)
    peer = await service.connect(0)
    assert (await peer.say("run train devices=a/1 profile=80:0:0")).startswith("ok")

    def screen() -> str:
        done = subprocess.run([sys.executable, "-m", "nvitop", "--once", "--ascii", "--colorful"],
                              env=environment(file, "a") | {"TERM": "dumb", "COLUMNS": "120"},
                              capture_output=True, text=True, timeout=300, check=False)  # fmt: skip
        return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)

    # Also %SM, for which it asks for samples of the last second by its own clock.
    process = rf"\b1 +{os.getpid()} .*MiB +80 "
    shown = await eventually(lambda: re.search(process, text := screen()) and text, "the process")
    assert "NVITOP" in shown
    assert shown.count("H100 80GB HBM3") == 2
    assert re.search(r"700W .* 80% ", shown)
    service_peer = await service.connect(1)
    assert (await service_peer.say("fault lost devices=a/1")).startswith("ok")
    await eventually(lambda: "GPU is Lost" in screen(), "the board is lost")


@pytest_twisted.ensureDeferred
async def test_the_life_of_a_service(start_async: StartAsync, tmp_path: Path) -> None:
    """A program that runs on sees the end of the service, and the next one; each node has boards of its own."""
    service, file = await started(start_async, tmp_path)
    one, other = (asked(file, "print(nvmlDeviceGetUUID(nvmlDeviceGetHandleByIndex(0)))", node) for node in "ab")
    assert one.startswith("GPU-")
    assert one != other
    code = (
        "import sys; h = nvmlDeviceGetHandleByIndex(1)\n"
        "    for line in sys.stdin:\n"
        "        try: print('power' if nvmlDeviceGetPowerUsage(h) > 50_000 else 'none', flush=True)\n"
        "        except NVMLError as error: print(error.value, flush=True)\n"
    )
    wrapped = f"from pynvml import *\nif True:\n    nvmlInit(); {code}"
    running = subprocess.Popen([sys.executable, "-c", wrapped], env=environment(file, "a"), text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip

    def ask() -> str:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write("\n")
        running.stdin.flush()
        return running.stdout.readline().strip()

    assert ask() == "power"
    assert await service.program.stop() == 0
    assert ask() == "9"
    assert not file.exists()
    await started(start_async, tmp_path)
    await eventually(lambda: ask() == "power", "the new service is seen")
    running.communicate()


@pytest_twisted.ensureDeferred
async def test_nvidia_smi(start_async: StartAsync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name on the PATH: a stopped fan, a lost board, and the end of the service."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = built_command().parent
    service, file = await started(start_async, tmp_path)
    words = {**environment(file, "a"), "PATH": f"{folder}:{os.environ['PATH']}"}

    def smi(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["nvidia-smi", *arguments], env=words, capture_output=True, text=True, timeout=300,
                              check=False)  # fmt: skip

    def temperature() -> int:
        return int(smi("--query-gpu=temperature.gpu", "--format=csv,noheader", "-i", "1").stdout)

    peer = await service.connect(1)
    assert (await peer.say("run train devices=a/1 profile=80:0:0")).startswith("ok")
    assert (await peer.say("fault fan devices=a/1")).startswith("ok")
    said = await peer.say("advance 3m")
    while not said.startswith("ok"):  # once a second it says how far it is
        said = await peer.line()
    await eventually(lambda: temperature() > 80, "the board gets hot without its fan")
    assert "| N/A " in smi().stdout
    assert (await peer.say("fault lost devices=a/1")).startswith("ok")
    await eventually(lambda: smi().returncode == 15, "the board is lost")
    assert "GPU is lost" in smi("-L").stderr
    assert smi("-L").stdout.count("\n") == 1
    code = "import fakedev.nvml.smi.main, sys; print({'numpy', 'twisted', 'argparse'} & set(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert loaded.stdout == "set()\n"
    assert await service.program.stop() == 0
    ended = smi()
    assert (ended.returncode, "couldn't communicate with the NVIDIA driver" in ended.stdout) == (9, True)


@pytest_twisted.ensureDeferred
@pytest.mark.parametrize(("user", "is_allowed"), [(os.getuid(), True), (54321, False)])
async def test_settings(
    start_async: StartAsync, tmp_path: Path, user: int, is_allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Power limit and locked clock are faults: set and given back by a user whom the configuration names."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    service, file = await started(start_async, tmp_path, f', setters: ["{user}"]')
    command, words = built_command(), environment(file, "a")

    async def smi(*arguments: str) -> tuple[int, str]:
        done = await run(start_async, str(command), "-i", "1", *arguments, environment=words)
        assert done.exit_code is not None
        return done.exit_code, done.stdout.splitlines()[0]

    async def kinds() -> list[str]:
        return [each["kind"] for each in (await service.get_json("/api/v1/faults"))["faults"]]

    settings = (("-pl", "300"), ("-lgc", "600,900"))
    for setting in settings:
        code, line = await smi(*setting)
        assert code == (0 if is_allowed else 4)
        if setting[0] == "-pl":
            set_to = r"Power limit for GPU \S+ was set to 300\.00 W from 700\.00 W\."
            assert re.fullmatch(set_to if is_allowed else r"Failed to .*: Insufficient Permissions", line)
    assert await kinds() == (["power-cap", "clock-lock"] if is_allowed else [])
    assert (await smi("-pl", "700"))[0] == (await smi("-rgc"))[0] == (0 if is_allowed else 4)

    async def is_over() -> bool:
        return await kinds() == []

    await eventually(is_over, "the board is as before")

    # By NVIDIA's bindings.
    limit = "print(nvmlDeviceGetEnforcedPowerLimit(nvmlDeviceGetHandleByIndex(1)))"
    code = "h = nvmlDeviceGetHandleByIndex(1)\ntry: nvmlDeviceSetPowerManagementLimit(h, {}); print(0)\n"
    code += "except NVMLError as error: print(error.value)"
    assert asked(file, code.format(300_000)) == ("0" if is_allowed else "4")
    if is_allowed:
        await eventually(lambda: asked(file, limit) == "300000", "the limit")
        assert await kinds() == ["power-cap"]
        assert asked(file, code.format(250_000)) == "0"
        await eventually(lambda: asked(file, limit) == "250000", "another limit")
        assert asked(file, code.format(700_000)) == "0"
    await eventually(lambda: asked(file, limit) == "700000", "the board's own limit")


#: As NVIDIA's MIG manager divides a board: by handles, which stay those of their instances.
DIVIDED = """
h = nvmlDeviceGetHandleByIndex(1)
nvmlDeviceSetMigMode(h, 1)
half = nvmlDeviceGetGpuInstanceProfileInfo(h, NVML_GPU_INSTANCE_PROFILE_3_SLICE)
one, other = (nvmlDeviceCreateGpuInstance(h, half.id) for _ in range(2))
kind = nvmlGpuInstanceGetComputeInstanceProfileInfo(other, NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE, 0)
compute = nvmlGpuInstanceCreateComputeInstance(other, kind.id)
device = nvmlDeviceGetMigDeviceHandleByIndex(h, 0)
found = [nvmlGpuInstanceGetInfo(other).id, nvmlDeviceGetGpuInstanceId(device)]
try: nvmlDeviceCreateGpuInstance(h, half.id)
except NVMLError as error: found.append(error.value)
try: nvmlGpuInstanceDestroy(other)
except NVMLError as error: found.append(error.value)
nvmlGpuInstanceDestroy(one)
found.append(nvmlGpuInstanceGetInfo(other).id)
nvmlComputeInstanceDestroy(compute)
nvmlGpuInstanceDestroy(other)
nvmlDeviceSetMigMode(h, 0)
print(*found)
"""


@pytest_twisted.ensureDeferred
async def test_boards_are_divided(start_async: StartAsync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By nvidia-smi and by NVML's callers, with the words and numbers of the real driver; each change takes a tick."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    service, file = await started(start_async, tmp_path, f', setters: ["{os.getuid()}"]')
    command, words = built_command(), environment(file, "a")

    async def smi(*arguments: str) -> tuple[int, str]:
        done = await run(start_async, str(command), *arguments, environment=words)
        assert done.exit_code is not None
        return done.exit_code, done.stdout

    assert (await smi("mig", "-cgi", "9"))[0] == 6  # no board is in MIG mode
    assert re.fullmatch(r"Enabled MIG Mode for GPU \S+\nAll done\.\n", (await smi("-i", "0", "-mig", "1"))[1])
    assert await smi("mig", "-cgi", "9,1g.10gb", "-C") == (0, (
        "Successfully created GPU instance ID  2 on GPU  0 using profile MIG 3g.40gb (ID  9)\n"
        "Successfully created compute instance ID  0 on GPU  0 GPU instance ID  2 using profile MIG 3g.40gb (ID  2)\n"
        "Successfully created GPU instance ID  7 on GPU  0 using profile MIG 1g.10gb (ID 19)\n"
        "Successfully created compute instance ID  0 on GPU  0 GPU instance ID  7 using profile MIG 1g.10gb (ID  0)\n"
    ))  # fmt: skip
    assert await smi("mig", "-cgi", "14,9") == (23, (
        "Successfully created GPU instance ID  4 on GPU  0 using profile MIG 2g.20gb (ID 14)\n"
        "Unable to create a GPU instance on GPU  0 using profile 9: Insufficient Resources\n"
        "Failed to create GPU instances: Insufficient Resources\n"
    ))  # fmt: skip
    assert len(re.findall("^  MIG ", (await smi("-L"))[1], re.MULTILINE)) == 2
    assert "MIG 1c.2g.20gb       0       2/2           16" in (await smi("mig", "-lcip", "-gi", "4"))[1]
    assert "GPU  0 Profile ID  9 Placements: {0,4}:4\n" in (await smi("mig", "-lgipp"))[1]
    assert (await smi("mig", "-cci"))[1] == (
        "Successfully created compute instance ID  0 on GPU  0 GPU instance ID  4 using profile MIG 2g.20gb (ID  1)\n"
    )
    assert await smi("mig", "-dgi", "-gi", "4") == (19, (
        "Unable to destroy GPU instance ID  4 from GPU  0: In use by another client\n"
        "Failed to destroy GPU instances: In use by another client\n"
    ))  # fmt: skip
    assert (await smi("mig", "-dci"))[1].count("Successfully destroyed compute instance ID  0 from GPU  0") == 3
    assert (await smi("mig", "-dgi"))[1].endswith("Successfully destroyed GPU instance ID  7 from GPU  0\n")
    assert await deferToThread(asked, file, DIVIDED) == "1 1 23 19 1"
    journal = (await service.get_json("/api/v1/journal?kind=mig"))["journal"]
    assert {each["scope"] for each in journal} == {"a/0", "a/1"}
