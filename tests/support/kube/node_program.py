"""fakedev-node as a program, with a kubelet's half and the node port of a service in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet import reactor
from twisted.internet.defer import maybeDeferred
from twisted.internet.interfaces import IListeningPort
from twisted.internet.threads import deferToThread

from fakedev.kubernetes.nodes.node_port import NodePortFactory
from fakedev.node.options import Settings, parse
from tests.support.kube.kubelet import Kubelet
from tests.support.kube.node_service import GPU, VIEW, MemoryNodeService
from tests.support.programs.processes import (
    PATIENCE_SECONDS,
    AsyncProgram,
    Changes,
    StartAsync,
    console,
)


class NodeProgram:
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
