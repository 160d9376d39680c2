"""Clusters of simulated nodes in memory, and services that follow them, each a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from programs import HERE, Program


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
    """How often the reactor of a service was held for more than 20 ms, by its own metric."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._before = self._now()

    def since(self) -> tuple[int, str]:
        """How often since the last call, and an upper bound of the longest."""
        before, self._before = self._before, self._now()
        grown = {bound: count - before[bound] for bound, count in self._before.items()}
        looks = grown[float("inf")]
        longest = min((bound for bound, count in grown.items() if count == looks), default=0.0)
        return looks - grown[0.02], f"<= {longest * 1000:.0f} ms"

    def _now(self) -> dict[float, int]:
        page = self._program.get("/-/metrics").decode()
        found = re.findall(r'^fakedev_reactor_delay_seconds_bucket\{le="(\S+)"\} (\S+)$', page, re.MULTILINE)
        return {float(bound.replace("+Inf", "inf")): int(float(count)) for bound, count in found}
