"""fakedev-node between a kubelet's half, over real UNIX sockets, and the node port."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import maybeDeferred
from twisted.internet.interfaces import IListeningPort
from twisted.internet.threads import deferToThread

from fakedev.exposition.nvml.image import SlotImage
from fakedev.kube.node_view import Allocation, NodeView, PreparedDevice, ViewedSlot
from fakedev.net.kube.node_port import NodePortFactory
from fakedev.net.kube.node_slots import NodeSlot
from fakedev.net.system.tls_context import tls_context
from fakedev.node.agent import Agent
from fakedev.node.last_view import KEEP_SECONDS
from fakedev.node.options import Settings, parse
from fakedev.nvml.build import SONAME, library_folder
from fakedev.spec.web_config import ClientAuth, TlsServer
from tests.support.application import application
from tests.support.kube.certificates import Authority
from tests.support.kubelet import Kubelet
from tests.support.node_service import GPU, VIEW, MemoryNodeService, struck
from tests.support.nvml import boards, compiled
from tests.support.programs.asynchronous import eventually
from tests.support.programs.processes import (
    PATIENCE_SECONDS,
    AsyncProgram,
    Changes,
    StartAsync,
    clean_environment,
    console,
)

pytestmark = [pytest.mark.real, pytest.mark.slow]

MIG = "nvidia.com/mig-1g.10gb"


class Node:
    """A kubelet, the program, and the service that it connects to."""

    def __init__(self, root: Path, start_async: StartAsync) -> None:
        self._start_async = start_async
        self._changes = Changes()
        changed = self._changes.changed
        self.kubelet = Kubelet(root, lambda: reactor.callFromThread(changed))
        self.service = MemoryNodeService(VIEW, changed=changed)
        self.factory = NodePortFactory(self.service, reactor)
        self.port: IListeningPort = reactor.listenTCP(0, self.factory, interface="127.0.0.1")
        self.program: AsyncProgram | None = None

    def start(self, *options: str, environment: dict[str, str] | None = None) -> AsyncProgram:
        """Start the program."""
        self.program = self._start_async(
            [
                *console("fakedev-node"), "--node", "a", "--service", f"127.0.0.1:{self.port.getHost().port}",
                "--kubelet-folder", str(self.kubelet.folder), "--pod-resources", str(self.kubelet.pod_resources),
                *options,
            ],
            environment=environment,
        )  # fmt: skip
        return self.program

    def settings(self) -> Settings:
        """The same for a program in this process."""
        address = f"127.0.0.1:{self.port.getHost().port}"
        folder, pod_resources = str(self.kubelet.folder), str(self.kubelet.pod_resources)
        options = ["--kubelet-folder", folder, "--pod-resources", pod_resources]
        return parse(["--node", "a", "--service", address, *options], {})

    async def until(self, is_so: Any, what: str) -> None:
        """Wait until something is so."""
        if not await self._changes.until(is_so):
            written = self.program.stderr if self.program else ""
            pytest.fail(f"after {PATIENCE_SECONDS} s not: {what}; {self.kubelet.plugins}\n{written}")

    async def until_allocatable(self, count: int, resource: str = GPU) -> None:
        """Wait until the kubelet can give so many devices to pods."""
        await self.until(lambda: self.kubelet.allocatable(resource) == count, f"{count} {resource} allocatable")

    async def running(self, *options: str) -> AsyncProgram:
        """The program, registered with a kubelet that is there."""
        await deferToThread(self.kubelet.start)
        program = self.start(*options)
        await self.until_allocatable(4)
        return program

    @property
    def sockets(self) -> set[str]:
        """The files in the kubelet's folder."""
        return {path.name for path in self.kubelet.folder.iterdir()}

    async def stop_service(self) -> None:
        """Close the port and its connections."""
        await maybeDeferred(self.port.stopListening)
        for peer in list(self.factory.peers):
            peer.transport.abortConnection()
        await self.until(lambda: not self.service.attached, "no connection")

    async def close(self) -> None:
        """End the kubelet and the service."""
        await deferToThread(self.kubelet.stop)
        if self.program is not None and self.program.exit_code is None:
            await self.program.kill()
        await self.stop_service()


@pytest_twisted.async_yield_fixture
async def node(short_folder: Path, start_async: StartAsync) -> AsyncIterator[Node]:
    """A node whose kubelet does not run yet."""
    made = Node(short_folder, start_async)
    yield made
    await made.close()


@pytest_twisted.ensureDeferred
async def test_from_the_start_to_the_end(node: Node) -> None:
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
async def test_who_has_what(node: Node) -> None:
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
async def test_the_service_prefers(node: Node) -> None:
    """It is asked; when it refuses, devices are preferred in their order."""
    await node.running()
    available = ["GPU-0", "GPU-1", "GPU-2"]
    assert await deferToThread(node.kubelet.preferred, GPU, available, ["GPU-0"], 2) == ["GPU-0", "GPU-2"]
    await node.stop_service()
    assert await deferToThread(node.kubelet.preferred, GPU, available, ["GPU-1"], 2) == ["GPU-1", "GPU-0"]


@pytest_twisted.ensureDeferred
async def test_unknown_devices_and_large_messages(node: Node) -> None:
    """Both are refused, and the plugin goes on."""
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
async def test_a_kubelet_that_comes_later_and_restarts(node: Node) -> None:
    """It registers when the kubelet is there, and again with each kubelet, which deletes its socket."""
    program = node.start()
    await program.wait_for_text("node a has 4 nvidia.com/gpu")
    for count in (1, 2, 3):
        await deferToThread(node.kubelet.restart)
        await node.until_allocatable(4)
        assert node.kubelet.registrations == [GPU] * count
        await node.until(lambda count=count: node.service.restarts == ["a"] * count, f"told of {count} starts")


@pytest_twisted.ensureDeferred
async def test_our_socket_is_deleted(node: Node) -> None:
    """It is made anew, and registered."""
    await node.running()
    (node.kubelet.folder / "nvidia-gpu.sock").unlink()
    await node.until(lambda: node.kubelet.registrations == [GPU] * 2, "registered again")
    await node.until_allocatable(4)


@pytest_twisted.ensureDeferred
async def test_a_registration_that_is_refused(node: Node) -> None:
    """Is tried again, and told once."""
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
async def test_pod_resources_that_are_limited(node: Node) -> None:
    """It asks again, what was reported stays, and it is told once."""
    node.kubelet.is_limited = True
    program = await node.running()
    await node.until(lambda: len(node.kubelet.listings) >= 3, "asked three times")
    assert node.service.reports == {}
    node.kubelet.pods["ns", "p", "c"] = {GPU: ["GPU-0"]}
    node.kubelet.is_limited = False
    allocation = Allocation("ns", "p", "c", GPU, ("GPU-0",))
    await node.until(lambda: node.service.reports.get("a") == [[allocation]], "reported")
    (warning,) = [line for line in program.stderr.splitlines() if " warn " in line]
    assert "PodResources: RESOURCE_EXHAUSTED: rejected by rate limit; asks again" in warning


@pytest_twisted.ensureDeferred
async def test_the_fault_plugin_down(node: Node) -> None:
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
async def test_several_resources(node: Node) -> None:
    """Each has a socket; one that is there no more has no devices."""
    node.service.views["a"] = NodeView("a", {**VIEW.resources, MIG: (ViewedSlot("MIG-1", 0),)})
    await node.running()
    await node.until_allocatable(1, MIG)
    assert node.sockets == {"kubelet.sock", "nvidia-gpu.sock", "nvidia-mig-1g.10gb.sock"}
    node.service.change(VIEW)
    await node.until_allocatable(0, MIG)
    assert node.kubelet.plugins[MIG].lists[-1] == {}
    assert node.kubelet.allocatable(GPU) == 4


@pytest_twisted.ensureDeferred
async def test_the_service_goes_and_comes(node: Node) -> None:
    """Devices stay healthy meanwhile; then the view of now and the report of now are exchanged."""
    program = await node.running()
    node.kubelet.pods["ns", "p", "c"] = {GPU: ["GPU-0"]}
    await deferToThread(node.kubelet.allocate, GPU, ["GPU-0"])
    allocation = Allocation("ns", "p", "c", GPU, ("GPU-0",))
    await node.until(lambda: node.service.reports.get("a", [])[-1:] == [[allocation]], "reported")
    number = node.port.getHost().port
    await node.stop_service()
    await program.wait_for_text("tries again")
    assert node.kubelet.allocatable(GPU) == 4
    node.service.reports.clear()
    node.service.views["a"] = struck(VIEW, 0)
    node.port = reactor.listenTCP(number, node.factory, interface="127.0.0.1")
    await node.until_allocatable(3)
    await node.until(lambda: node.service.reports == {"a": [[allocation]]}, "reported again")
    assert node.service.restarts == ["a"]


@pytest_twisted.ensureDeferred
async def test_the_service_is_gone_for_too_long(node: Node) -> None:
    """After a minute all devices are unhealthy; the plugin stays, and the service makes them healthy again."""
    await deferToThread(node.kubelet.start)
    later_seconds = 0.0
    agent = Agent(node.settings(), lambda: time.monotonic() + later_seconds)
    running = deferToThread(agent.run)
    try:
        await node.until_allocatable(4)
        number = node.port.getHost().port
        await node.stop_service()
        later_seconds = KEEP_SECONDS - 30
        (node.kubelet.folder / "nvidia-gpu.sock").unlink()
        await node.until(lambda: node.kubelet.registrations == [GPU] * 2, "registered again")
        await node.until_allocatable(4)
        later_seconds = 2 * KEEP_SECONDS  # its last line may have been read since the first jump
        await node.until_allocatable(0)
        assert {health for health, _ in node.kubelet.plugins[GPU].lists[-1].values()} == {"Unhealthy"}
        node.port = reactor.listenTCP(number, node.factory, interface="127.0.0.1")
        await node.until_allocatable(4)
    finally:
        agent.stop()
        await running
    assert node.sockets == {"kubelet.sock"}


@pytest_twisted.ensureDeferred
async def test_a_wrong_token(node: Node, short_folder: Path) -> None:
    """Is told once; the file is read anew for each attempt."""
    node.factory.gate.change(["a-secret-token"])
    token = short_folder / "token"
    token.write_text("a-wrong-token\n")
    await deferToThread(node.kubelet.start)
    program = node.start("--token-file", str(token))
    line = await program.wait_for_text("it refuses: denied: the token is wrong")
    token.write_text("a-secret-token\n")
    await node.until_allocatable(4)
    assert "a-wrong-token" not in program.stderr.replace(line, "")
    assert "a-secret-token" not in program.stderr


@pytest_twisted.ensureDeferred
async def test_tls(node: Node, tmp_path: Path) -> None:
    """The port asks for a certificate, and has one of an authority that the program trusts by a file."""
    authority = Authority()
    own, key = authority.sign("node", "node")
    for name, text in (("ca.pem", Authority("another").pem), ("own.pem", own), ("own.key", key)):
        (tmp_path / name).write_text(text)
    server = TlsServer(*authority.sign("service", "127.0.0.1"), authority.pem, ClientAuth.REQUIRE_AND_VERIFY)
    node.factory.use_tls(tls_context(server))
    await deferToThread(node.kubelet.start)
    service = f"tls://127.0.0.1:{node.port.getHost().port}"
    pairs = (("ca", "ca.pem"), ("cert", "own.pem"), ("key", "own.key"))
    files = [f"--{name}-file={tmp_path}/{file}" for name, file in pairs]
    program = node.start("--service", service, *files)
    await program.wait_for_text(f"service {service}: the server's certificate is refused: ")
    (tmp_path / "ca.pem").write_text(authority.pem)
    await node.until_allocatable(4)
    node.service.change(struck(VIEW, 2))
    await node.until_allocatable(3)
    assert await program.stop() == 0


@pytest_twisted.ensureDeferred
async def test_another_plugin_serves_the_socket(node: Node) -> None:
    """It is left alone, and told once; a socket that nobody serves is replaced."""
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
async def test_a_node_that_is_not_simulated(node: Node) -> None:
    """Nothing is registered until it is."""
    del node.service.views["a"]
    await deferToThread(node.kubelet.start)
    program = node.start()
    await program.wait_for_text("it refuses: unknown-name: node: no 'a' is simulated")
    assert node.sockets == {"kubelet.sock"}
    node.service.views["a"] = VIEW
    await node.until_allocatable(4)


@pytest_twisted.ensureDeferred
async def test_dra(node: Node) -> None:
    """Both sockets are served; claims are prepared as the service says, and reported."""
    driver = "gpu.nvidia.com"
    node.service.views["a"] = replace(VIEW, driver=driver)
    node.service.claims["ns", "claim", "uid-1"] = [PreparedDevice("gpu", "a", "gpu-0")]
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
    assert prepared == ([("gpu", "a", "gpu-0")], "")
    assert node.kubelet.cdi_devices == [["fakedev/nvml=node"]]
    assert [each.name for each in cdi.iterdir()] == ["fakedev-nvml.json"]
    devices, error = await deferToThread(node.kubelet.prepare, endpoint, "ns", "claim", "uid-2")
    text = "claim: no ns/claim with uid uid-2 is allocated on a"
    assert (devices, error) == ([], f"claim ns/claim: the service refuses: unknown-name: {text}")
    assert await deferToThread(node.kubelet.unprepare, endpoint, "ns", "claim", "uid-1") == {"uid-1": ""}
    expected = [Allocation("ns", "p", "c", driver, ("gpu-0",), "claim", "a")]
    await node.until(lambda: node.service.reports.get("a", [])[-1:] == [expected], "a report")
    assert node.kubelet.registrations == []
    assert await program.stop() == 0
    assert list(registration.iterdir()) == []
    assert not Path(endpoint).exists()


@pytest_twisted.ensureDeferred
async def test_tools_in_a_container(node: Node, tmp_path: Path) -> None:
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

        def smi() -> subprocess.CompletedProcess[str]:
            words = [mounts["/bin/nvidia-smi"], "-L"]
            return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)

        assert (await deferToThread(smi)).stdout.count("GPU-") == 8
        app.connect().say("fault lost devices=a/3")
        app.tick(2)
        show()
        await eventually(lambda: smi().returncode == 15, "the board is lost")
        (path,) = {host for inside, host in mounts.items() if inside.endswith(SONAME)}
        code = "from pynvml import *; nvmlInit(); print(nvmlDeviceGetCount())"
        words = [sys.executable, "-c", code]
        found_there = {**environment, "LD_LIBRARY_PATH": str(Path(path).parent)}
        done = subprocess.run(words, env=found_there, text=True, capture_output=True, timeout=60, check=False)
        assert (done.stdout, done.stderr) == ("8\n", "")
    assert await program.stop() == 0
    assert not (folder / "nvml.map").exists()


@pytest_twisted.ensureDeferred
async def test_what_it_costs(node: Node) -> None:
    """Less than 80 MB."""
    program = await node.running("--resources", "both")
    status = Path(f"/proc/{program.pid}/status").read_text()
    (resident,) = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")]
    assert resident < 80_000
