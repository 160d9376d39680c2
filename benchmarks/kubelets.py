"""fakedev-node: its memory, its processor time, and how soon a kubelet has its devices."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import monotonic, sleep
from typing import TYPE_CHECKING

from clusters import cluster_server, following
from programs import HERE, cpu_seconds_of, fakedev, resident_bytes
from results import Section, Target, ms

if TYPE_CHECKING:
    from tests.support.kube.kubelet import Kubelet

_GPU = "nvidia.com/gpu"
_NODE = "node-0"
_QUIET_SECONDS = 30.0
_STARTS = 10
_PODS = 8


def node_program() -> Section:
    """One node with a kubelet."""
    section = Section(
        "Kubernetes: fakedev-node",
        f"""
One node of 8 H100s with a kubelet: its half of the device plugin API and of PodResources is the one of the tests
(tests/support/kube/kubelet.py, grpcio over UNIX sockets); no real kubelet was measured. *Registered*: it starts
while fakedev-node is connected with the service; the time from its socket until 8 GPUs are allocatable, over {_STARTS}
starts, of which each but the first is a restart. *Idle*: {_QUIET_SECONDS:.0f} s with {_PODS} pods that have a GPU each
and do not change.
""",
        ["measured"],
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        cluster_server() as server,
        fakedev(following(server, more=f', listen: ["127.0.0.1:{port}"]')) as (service,),
        _kubelet() as (kubelet, changed),
    ):
        server.do("nodes", count=1, has_kubelet=True)
        while b"fakedev_kubernetes_nodes 1.0" not in service.get("/-/metrics"):
            sleep(0.1)
        with _node(kubelet, port) as process:
            _until(lambda: b"fakedev_kubernetes_attached 1.0" in service.get("/-/metrics"))
            seconds = [_registration(kubelet, changed) for _ in range(_STARTS)]
            figures = f"median {ms(median(seconds))}, longest {ms(max(seconds))}"
            section.add("registered after", figures, judged=max(seconds), target=Target(1, unit=" s"))
            devices = list(kubelet.plugins[_GPU].lists[-1])
            kubelet.pods = {("research", f"pod-{n}", "main"): {_GPU: [devices[n]]} for n in range(_PODS)}
            sleep(5.0)
            used = cpu_seconds_of(process)
            sleep(_QUIET_SECONDS)
            share = (cpu_seconds_of(process) - used) / _QUIET_SECONDS
            section.add("idle: CPU", f"{share:.2%} of a core", judged=share, target=Target(0.01))
            resident = resident_bytes(process) / 1e6
            section.add("resident memory", f"{resident:.0f} MB", judged=resident, target=Target(80, unit=" MB"))
    return section


@contextmanager
def _kubelet() -> Iterator[tuple[Kubelet, threading.Event]]:
    """A kubelet that is not started, and what is set whenever something happens."""
    sys.path.insert(0, str(HERE.parent))
    from tests.support.kube.kubelet import Kubelet  # noqa: PLC0415 - gRPC, only here

    changed = threading.Event()
    with tempfile.TemporaryDirectory(prefix="fd-") as folder:
        kubelet = Kubelet(Path(folder), changed.set)
        kubelet.folder.mkdir()
        yield kubelet, changed
        kubelet.stop()


@contextmanager
def _node(kubelet: Kubelet, port: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        sys.executable, "-m", "fakedev.node", "--node", _NODE, "--service", f"127.0.0.1:{port}", "--kubelet-folder",
        str(kubelet.folder), "--pod-resources", str(kubelet.pod_resources),
    ]  # fmt: skip
    process = subprocess.Popen(command, cwd=HERE.parent, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _registration(kubelet: Kubelet, changed: threading.Event) -> float:
    """Start the kubelet (again); how long until it can give 8 GPUs to pods."""
    kubelet.stop()
    sleep(1.0)
    began = monotonic()
    kubelet.start()
    while kubelet.allocatable(_GPU) != 8:
        if monotonic() > began + 60:
            raise RuntimeError("fakedev-node does not register")
        changed.wait(0.1)
        changed.clear()
    return monotonic() - began


def _until(is_so: Callable[[], bool]) -> None:
    end = monotonic() + 60
    while not is_so():
        if monotonic() > end:
            raise RuntimeError("fakedev-node does not connect")
        sleep(0.1)
