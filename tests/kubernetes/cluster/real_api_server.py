"""A real kube-apiserver with its etcd, from the folder of ``KUBEBUILDER_ASSETS``: the custom of envtest.

There is no scheduler, controller manager or KWOK: tests bind pods, as with the API server in memory.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.kube.control_plane import ADMIN, ControlPlane
from tests.support.programs.asynchronous import eventually
from tests.support.programs.processes import AsyncProgram, StartAsync, run


class RealApiServer:
    """etcd and kube-apiserver; they end with the test.

    :param assets: the folder with the programs.
    :param folder: for data, keys and the kubeconfig.
    """

    def __init__(self, start_async: StartAsync, assets: Path, folder: Path) -> None:
        self._start_async = start_async
        self._plane = ControlPlane(assets, folder)
        self._programs: list[AsyncProgram] = []
        self.kubeconfig = self._plane.kubeconfig

    async def start(self) -> None:
        """Start both; returns when the API server is ready."""
        self._programs = [self._start_async(each) for each in (self._plane.etcd(), self._plane.api_server())]
        await eventually(self._is_ready, "the API server is ready", 120.0)

    async def _is_ready(self) -> bool:
        for program in self._programs:
            assert program.exit_code is None, f"{program.command[0]} has ended: {program.stderr[-2000:]}"
        asked = await run(
            self._start_async, "curl", "-sk", "-H", f"Authorization: Bearer {ADMIN}", f"{self._plane.url}/readyz"
        )
        return asked.stdout.strip() == "ok"
