"""fakedev-node and the service that it connects to: one that goes and comes, refuses it, or speaks TLS."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.threads import deferToThread

from fakedev.kubernetes.nodes.node_view import Allocation
from fakedev.node.agent import KEEP_SECONDS, Agent
from fakedev.runtime.tls import tls_context
from fakedev.runtime.tls_settings import ClientAuth, TlsServer
from tests.support.kube.node_program import NodeProgram
from tests.support.kube.node_service import GPU, VIEW, struck
from tests.support.wire.certificates import Authority

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest_twisted.ensureDeferred
async def test_the_service_goes_and_comes(node: NodeProgram) -> None:
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
async def test_the_service_is_gone_for_too_long(node: NodeProgram) -> None:
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
async def test_a_wrong_token(node: NodeProgram, short_folder: Path) -> None:
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
async def test_tls(node: NodeProgram, tmp_path: Path) -> None:
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
async def test_a_node_that_is_not_simulated(node: NodeProgram) -> None:
    del node.service.views["a"]
    await deferToThread(node.kubelet.start)
    program = node.start()
    await program.wait_for_text("it refuses: unknown-name: node: no 'a' is simulated")
    assert node.sockets == {"kubelet.sock"}
    node.service.views["a"] = VIEW
    await node.until_allocatable(4)
