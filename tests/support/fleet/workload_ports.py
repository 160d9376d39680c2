"""For tests of the workload port: an application with four of them, and peers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.application import LineClient, MemoryApplication, application
from tests.support.wire.original_bytes import go_workload

PORTS = """
version: 1
fleet:
  seed: 7
  pools: [{name: p, nodes: [a, b], device: h100, devices-per-node: 2, identity: dcgm}]
web: ["127.0.0.1:9400"]
workloads:
  listen:
    - {listen: "127.0.0.1:9500", allow: [workloads, clock]}
    - {listen: "127.0.0.1:9501", node: b}
    - {listen: "127.0.0.1:9502", allow: [clock]}
    - {listen: "127.0.0.1:9503", allow: [workloads]}
"""
#: Places of the ports above.
OPEN, OF_NODE_B, CLOCK_ONLY, WORKLOADS_ONLY = range(4)

#: What the original's client sends.
ORIGINAL = go_workload([(10, 1, 3), (0, 0, 2)], devices=("card0", "card1"))


def bare(**changes: object) -> bytes:
    """A bare object, good but for the changes."""
    fields: dict[str, object] = {
        "Name": "x", "Repeat": 1, "Profile": [{"Load": 10, "Fluctuation": 1, "Seconds": 3}], "Devices": ["a/0"],
    }  # fmt: skip
    return json.dumps(fields | changes, indent="\t").encode()


class WorkloadPortCase:
    """An application with four ports, and a peer of the first."""

    app: MemoryApplication
    peer: LineClient

    @pytest.fixture(autouse=True)
    def _started(self) -> Iterator[None]:
        with application(PORTS) as self.app:
            self.peer = self.app.connect()
            yield

    @property
    def workloads(self) -> list[str]:
        """Names of all workloads."""
        return [each["name"] for each in self.app.json("/api/v1/workloads")["workloads"]]

    def error(self, line: str, code: str) -> str:
        """The text of the error that a line is answered with; the connection must live."""
        (answer,) = self.peer.say(line)
        begin = f"error {code} "
        assert answer.startswith(begin), answer
        assert self.peer.say("list")[0].startswith("ok ")
        return answer.removeprefix(begin)
