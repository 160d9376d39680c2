"""Clusters of simulated nodes in memory, and services that follow them, each a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from programs import HERE, STEPS, Program


class ClusterServer:
    """The process of benchmarks/cluster_server.py.

    :ivar kubeconfig: the file that it wrote.
    """

    def __init__(self, folder: Path) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "cluster_server.py"), str(self.kubeconfig)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=HERE.parent,
        )  # fmt: skip
        self._read()

    def do(self, what: str, **arguments: object) -> Any:
        """One command, and its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, **arguments}).encode() + b"\n")
        self._process.stdin.flush()
        return self._read()

    def requests(self) -> dict[str, int]:
        """The requests so far by verb, resource and code, but those for the lease."""
        found = self.do("requests")
        return {key: count for key, count in found.items() if " leases " not in key}

    def wait_until_ready(self, count: int, seconds: float = 300.0) -> float:
        """Wait until so many nodes have GPUs; how long that took since they were added.

        :raises RuntimeError: when it takes too long.
        """
        end = monotonic() + seconds
        while monotonic() < end:
            found = self.do("ready")
            if found["count"] >= count:
                return float(found["seconds"])
            sleep(0.5)
        raise RuntimeError(f"{found['count']} of {count} nodes have GPUs after {seconds:.0f} s")

    def end(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


@contextmanager
def cluster_server() -> Iterator[ClusterServer]:
    """A cluster without nodes."""
    with tempfile.TemporaryDirectory(prefix="fakedev-bench-") as folder:
        server = ClusterServer(Path(folder))
        try:
            yield server
        finally:
            server.end()


def following(server: ClusterServer, more: str = "", fleet: str = "", rate: float = 50.0) -> str:
    """The configuration of a service that follows a cluster: nodes of 8 H100s.

    :param more: further keys of ``kubernetes:``, and ``fleet:`` of the fleet, each with a comma before it.
    :param rate: requests a second.
    """
    pool = "{name: h100, nodes: cluster, device: h100, devices-per-node: 8, identity: dcgm}"
    return f"""
version: 1
fleet: {{seed: 7, pools: [{pool}]{fleet}}}
web: ["127.0.0.1:0"]
workloads: {{listen: ["{{folder}}/workload.sock"]}}
kubernetes: {{kubeconfig: {server.kubeconfig}, requests-per-second: {rate:g}{more}}}
log: {{level: warn}}
"""


class Stalls:
    """How long the reactor of a watched service was held, by processor time."""

    def __init__(self, program: Program) -> None:
        self._file = program.folder / STEPS
        self._known = len(self._steps())

    def since(self) -> str:
        """The longest step since the last call, and how many took more than 20 ms."""
        steps = self._steps()[self._known :]
        self._known += len(steps)
        many = sum(seconds > 0.02 for seconds in steps)
        longest = f"{max(steps) * 1000:.0f} ms" if steps else "< 5 ms"
        return f"{longest}, {many} over 20 ms" if many else longest

    def _steps(self) -> list[float]:
        return [float(line) for line in self._file.read_text().splitlines()] if self._file.exists() else []
