"""fakedev-node between a kubelet's half, over real UNIX sockets, and the node port."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
import pytest_twisted
from twisted.internet.threads import deferToThread

from fakedev.kubernetes.nodes.node_port import NodeSlot
from fakedev.kubernetes.nodes.node_view import Allocation, NodeView, PreparedDevice, ViewedSlot
from fakedev.node.nvml import VISIBLE
from fakedev.nvml.image import SlotImage
from fakedev.nvml.library import SONAME, library_folder
from tests.support.application import application
from tests.support.driver.nvml import boards, compiled
from tests.support.kube.node_program import NodeProgram
from tests.support.kube.node_service import GPU, VIEW, struck
from tests.support.programs.asynchronous import eventually
from tests.support.programs.processes import (
    clean_environment,
)

pytestmark = [pytest.mark.real, pytest.mark.slow]

MIG = "nvidia.com/mig-1g.10gb"


@pytest_twisted.ensureDeferred
async def test_from_the_start_to_the_end(node: NodeProgram) -> None:
    """It registers, tells of faults, allocates, reports; SIGTERM ends it with 0, and its socket is gone."""
    program = await node.running()
    assert node.sockets == {"kubelet.sock", "nvidia-gpu.sock"}
    assert node.kubelet.plugins[GPU].lists[-1]["GPU-2"] == ("Healthy", (1,))
    await node.until(lambda: node.service.restarts == ["a"], "told of the start")
    await node.until(lambda: node.service.registrations == {"a": [GPU]}, "told of the registration")
    node.service.change(struck(VIEW, 2))
    await node.until_allocatable(3)
    assert node.kubelet.plugins[GPU].lists[-1]["GPU-2"] == ("Unhealthy", (1,))
    node.service.change(VIEW)
    await node.until_allocatable(4)
    assert await program.stop() == 0
    await node.until_allocatable(0)
    assert node.sockets == {"kubelet.sock"}
    assert [line for line in program.stderr.splitlines() if " info " not in line] == []


@pytest_twisted.ensureDeferred
async def test_who_has_what(node: NodeProgram) -> None:
    """An allocation is reported as soon as the kubelet shows it, and not again before it changes."""
    await node.running()
    node.kubelet.pods["ns", "train", "main"] = {GPU: ["GPU-1", "GPU-3"]}
    environments = await deferToThread(node.kubelet.allocate, GPU, ["GPU-1", "GPU-3"])
    assert environments[0]["NVIDIA_VISIBLE_DEVICES"] == "GPU-1,GPU-3"
    allocation = Allocation("ns", "train", "main", GPU, ("GPU-1", "GPU-3"))
    await node.until(lambda: node.service.reports.get("a", [])[-1:] == [[allocation]], "a report")
    listings = len(node.kubelet.listings)
    await deferToThread(node.kubelet.allocate, GPU, ["GPU-1"])
    await node.until(lambda: len(node.kubelet.listings) > listings, "asked again")
    assert node.service.reports["a"].count([allocation]) == 1


@pytest_twisted.ensureDeferred
async def test_the_service_prefers(node: NodeProgram) -> None:
    await node.running()
    available = ["GPU-0", "GPU-1", "GPU-2"]
    assert await deferToThread(node.kubelet.preferred, GPU, available, ["GPU-0"], 2) == ["GPU-0", "GPU-2"]
    await node.stop_service()
    assert await deferToThread(node.kubelet.preferred, GPU, available, ["GPU-1"], 2) == ["GPU-1", "GPU-0"]


@pytest_twisted.ensureDeferred
async def test_unknown_devices_and_large_messages(node: NodeProgram) -> None:
    await node.running()
    with pytest.raises(grpc.RpcError) as refused:
        await deferToThread(node.kubelet.allocate, GPU, ["GPU-9"])
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert refused.value.details() == "nvidia.com/gpu on a has no device GPU-9; it has 4 others"
    with pytest.raises(grpc.RpcError) as refused:
        await deferToThread(node.kubelet.allocate, GPU, ["x" * (4 << 20)])
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert len(await deferToThread(node.kubelet.allocate, GPU, ["GPU-1"], ["GPU-2"])) == 2


@pytest_twisted.ensureDeferred
async def test_a_kubelet_that_comes_later_and_restarts(node: NodeProgram) -> None:
    """It registers when the kubelet is there, and again with each kubelet, which deletes its socket."""
    program = node.start()
    await program.wait_for_text("node a has 4 nvidia.com/gpu")
    for count in (1, 2, 3):
        await deferToThread(node.kubelet.restart)
        await node.until_allocatable(4)
        assert node.kubelet.registrations == [GPU] * count
        await node.until(lambda count=count: node.service.restarts == ["a"] * count, f"told of {count} starts")


@pytest_twisted.ensureDeferred
async def test_our_socket_is_deleted(node: NodeProgram) -> None:
    await node.running()
    (node.kubelet.folder / "nvidia-gpu.sock").unlink()
    await node.until(lambda: node.kubelet.registrations == [GPU] * 2, "registered again")
    await node.until_allocatable(4)


@pytest_twisted.ensureDeferred
async def test_a_registration_that_is_refused(node: NodeProgram) -> None:
    node.kubelet.refusal = "unsupported API version"
    await deferToThread(node.kubelet.start)
    program = node.start()
    await node.until(lambda: node.kubelet.refused >= 3, "tried three times")
    node.kubelet.refusal = ""
    await node.until_allocatable(4)
    warnings = [line for line in program.stderr.splitlines() if " warn " in line]
    text = "nvidia.com/gpu: the kubelet does not take the plugin: UNKNOWN: unsupported API version"
    assert [line.partition(" warn  ")[2] for line in warnings] == [text]


@pytest_twisted.ensureDeferred
async def test_pod_resources_that_are_limited(node: NodeProgram) -> None:
    node.kubelet.is_limited = True
    program = await node.running()
    await node.until(lambda: len(node.kubelet.listings) >= 3, "asked three times")
    assert node.service.reports == {}
    node.kubelet.pods["ns", "p", "c"] = {GPU: ["GPU-0"]}
    node.kubelet.is_limited = False
    allocation = Allocation("ns", "p", "c", GPU, ("GPU-0",))
    await node.until(lambda: node.service.reports.get("a") == [[allocation]], "reported")
    (warning,) = [line for line in program.stderr.splitlines() if " warn " in line]
    assert "PodResources: RESOURCE_EXHAUSTED: rejected by rate limit; it retries" in warning


@pytest_twisted.ensureDeferred
async def test_the_fault_plugin_down(node: NodeProgram) -> None:
    """The socket is closed while it lasts; then the plugin is registered again, and counts as restarted."""
    await node.running()
    node.service.change(replace(VIEW, is_plugin_down=True))
    await node.until_allocatable(0)
    await node.until(lambda: node.sockets == {"kubelet.sock"}, "no socket")
    await node.until(lambda: node.service.registrations == {"a": []}, "told of it")
    node.service.change(VIEW)
    await node.until_allocatable(4)
    await node.until(lambda: node.service.restarts == ["a", "a"], "told of the start")


@pytest_twisted.ensureDeferred
async def test_several_resources(node: NodeProgram) -> None:
    node.service.views["a"] = NodeView("a", {**VIEW.resources, MIG: (ViewedSlot("MIG-1", 0),)})
    await node.running()
    await node.until_allocatable(1, MIG)
    assert node.sockets == {"kubelet.sock", "nvidia-gpu.sock", "nvidia-mig-1g.10gb.sock"}
    node.service.change(VIEW)
    await node.until_allocatable(0, MIG)
    assert node.kubelet.plugins[MIG].lists[-1] == {}
    assert node.kubelet.allocatable(GPU) == 4


@pytest_twisted.ensureDeferred
async def test_another_plugin_serves_the_socket(node: NodeProgram) -> None:
    await deferToThread(node.kubelet.start)
    path = node.kubelet.folder / "nvidia-gpu.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        program = node.start()
        line = await program.wait_for_text("another program serves")
        assert f"another program serves {path}: remove that device plugin from this node" in line
        assert node.kubelet.registrations == []
    assert path.exists()
    await node.until_allocatable(4)


@pytest_twisted.ensureDeferred
async def test_dra(node: NodeProgram) -> None:
    """Both sockets are served; claims are prepared as the service says, and reported."""
    driver = "gpu.nvidia.com"
    claimable = ViewedSlot("gpu-0"), ViewedSlot("gpu-1", unhealthy="XID 79")
    node.service.views["a"] = replace(VIEW, driver=driver, claimable=claimable)
    node.service.claims["ns", "claim", "uid-1"] = [
        PreparedDevice("gpu", "a", "gpu-0", "GPU-1"), PreparedDevice("gpu", "a", "gpu-1", "GPU-2"),
    ]  # fmt: skip
    node.kubelet.claims["ns", "p", "c"] = ("claim", driver, "a", ["gpu-0"])
    await deferToThread(node.kubelet.start)
    cdi = node.kubelet.root / "cdi"
    cdi.mkdir()
    folder = node.kubelet.root / "nvml"
    program = node.start("--resources", "dra", "--nvml-folder", str(folder), "--cdi-folder", str(cdi))
    registration = node.kubelet.root / "plugins_registry"
    registration.mkdir()
    await program.wait_for_file(registration / f"{driver}-reg.sock")
    endpoint = await deferToThread(node.kubelet.find_dra_plugin, driver)
    assert endpoint == str(node.kubelet.root / "plugins" / driver / "dra.sock")
    await node.until(lambda: node.service.registrations == {"a": [driver]}, "told of the registration")
    prepared = await deferToThread(node.kubelet.prepare, endpoint, "ns", "claim", "uid-1")
    assert prepared == ([("gpu", "a", "gpu-0"), ("gpu", "a", "gpu-1")], "")
    # The containers of the claim see its boards alone; the rest is the same for all.
    names = ["fakedev/claim=uid-1-gpu-0", "fakedev/nvml=node"], ["fakedev/claim=uid-1-gpu-1"]
    assert node.kubelet.cdi_devices == [*names]
    of_claim = json.loads((cdi / "fakedev-claim-uid-1.json").read_text())
    environments = {f"{of_claim['kind']}={each['name']}": each["containerEdits"]["env"] for each in of_claim["devices"]}
    visible = [f"{name}=GPU-1,GPU-2" for name in ("FAKEDEV_DEVICES", *VISIBLE.values())]
    assert environments == {names[0][0]: visible, names[1][0]: visible}
    health = await deferToThread(node.kubelet.dra_health, endpoint, "XID 79")
    assert health == {("a", "gpu-0"): (1, ""), ("a", "gpu-1"): (2, "XID 79")}
    devices, error = await deferToThread(node.kubelet.prepare, endpoint, "ns", "claim", "uid-2")
    text = "claim: no ns/claim with uid uid-2 is allocated on a"
    assert (devices, error) == ([], f"claim ns/claim: the service refuses: unknown-name: {text}")
    assert await deferToThread(node.kubelet.unprepare, endpoint, "ns", "claim", "uid-1") == {"uid-1": ""}
    assert [each.name for each in cdi.iterdir()] == ["fakedev-nvml.json"]
    expected = [Allocation("ns", "p", "c", driver, ("gpu-0",), "claim", "a")]
    await node.until(lambda: node.service.reports.get("a", [])[-1:] == [expected], "a report")
    assert node.kubelet.registrations == []
    assert await program.stop() == 0
    assert list(registration.iterdir()) == []
    assert not Path(endpoint).exists()


@pytest_twisted.ensureDeferred
async def test_tools_in_a_container(node: NodeProgram, tmp_path: Path) -> None:
    """A container gets nvidia-smi, the library and the file; they show the boards of the service, a lost one too."""
    library = tmp_path / "cache" / "fakedev" / library_folder() / SONAME
    library.parent.mkdir(parents=True)
    shutil.copy(compiled("plain"), library)
    folder = tmp_path / "nvml"
    with application(boards(tmp_path / "other.map").replace("dgx-0", "a")) as app:
        image = SlotImage(app.fleet, [app.fleet.roster.nodes[0]])

        def show() -> None:
            image.update()
            node.service.slots["a"] = NodeSlot(image.counts, bytes(image.content))

        show()
        await deferToThread(node.kubelet.start)
        with_cache = clean_environment(XDG_CACHE_HOME=str(tmp_path / "cache"))
        program = node.start("--nvml-folder", str(folder), environment=with_cache)
        await node.until_allocatable(4)
        await eventually((folder / "nvml.map").exists, "the file")
        mounts = await deferToThread(node.kubelet.mounts, GPU, ["GPU-1"])
        (environment,) = await deferToThread(node.kubelet.allocate, GPU, ["GPU-1"])
        inside, outside = "/run/fakedev-nvml", mounts["/run/fakedev-nvml"]
        assert environment["FAKEDEV_NVML_FILE"].startswith(inside)
        environment["FAKEDEV_NVML_FILE"] = environment["FAKEDEV_NVML_FILE"].replace(inside, outside)
        environment["PATH"] = os.environ["PATH"]
        # The board that the kubelet gave is none of the file.
        assert environment["NVIDIA_VISIBLE_DEVICES"] == "GPU-1"
        environment["NVIDIA_VISIBLE_DEVICES"] = "all"

        def smi() -> subprocess.CompletedProcess[str]:
            words = [mounts["/bin/nvidia-smi"], "-L"]
            return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)

        assert (await deferToThread(smi)).stdout.count("GPU-") == 8
        app.connect().say("fault lost devices=a/3")
        app.tick(2)
        show()
        await eventually(lambda: smi().returncode == 15, "the board is lost")
        (path,) = {host for inside, host in mounts.items() if inside.endswith(SONAME)}
        code = "from pynvml import *; nvmlInit(); print(nvmlDeviceGetCount())"
        words = [sys.executable, "-c", code]
        found_there = {**environment, "LD_LIBRARY_PATH": str(Path(path).parent)}
        done = subprocess.run(words, env=found_there, text=True, capture_output=True, timeout=300, check=False)
        assert (done.stdout, done.stderr) == ("8\n", "")
    assert await program.stop() == 0
    assert not (folder / "nvml.map").exists()


@pytest_twisted.ensureDeferred
async def test_what_it_costs(node: NodeProgram) -> None:
    program = await node.running("--resources", "both")
    status = Path(f"/proc/{program.pid}/status").read_text()
    (resident,) = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")]
    assert resident < 80_000
