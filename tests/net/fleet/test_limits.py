"""The limits of workloads and faults on all ways into the fleet: words, JSON lines, bare JSON, the API."""

from __future__ import annotations

import json

from fakedev.spec.limits import Limits
from tests.support.workload_ports import OF_NODE_B, WorkloadPortCase, bare


class TestPorts(WorkloadPortCase):
    """Four devices, of which one peer may take five, and all together twelve."""

    def limit(self, **limits: int) -> None:
        """Use these limits."""
        self.app.fleet.budget.limits = Limits(**limits)

    def used(self, key: str) -> int:
        """What is used of a limit, as /-/metrics shows it."""
        text = self.app.get("/-/metrics").body.decode()
        (line,) = [each for each in text.splitlines() if each.startswith(f'fakedev_limit_used{{limit="{key}"}}')]
        return int(float(line.split()[-1]))

    def test_each_connection(self) -> None:
        """Each has its own part; an error names the key, and the connection lives."""
        self.limit(peer_workload_devices=5)
        assert self.peer.say("run x devices=all profile=10")[0].startswith("ok")
        text = self.error("run y devices=a/* profile=10", "full")
        assert text == (
            "limits.peer-workload-devices is 5: 2 more are needed, and 1 remain: stop workloads, or name fewer devices "
            "or metrics, or raise limits.peer-workload-devices"
        )
        other = self.app.connect()
        answer = other.ask(op="run", name="y", devices="all", profile="10")
        assert answer["ok"]
        answer = other.ask(op="run", name="y", devices="all", profile="10")
        assert not answer["ok"]
        assert "limits.peer-workload-devices is 5: 4 more are needed" in json.dumps(answer)
        assert (self.used("workload-devices"), self.used("peer-workload-devices")) == (8, 4)
        other.leave()
        self.app.tick()
        assert (self.used("workload-devices"), self.used("peer-workload-devices")) == (4, 4)

    def test_bare(self) -> None:
        """The original's client gets its digit."""
        self.limit(workload_devices=0)
        other = self.app.connect()
        other.send(bare())
        assert other.heard() == b"1"
        assert self.workloads == []

    def test_what_stays_when_the_peer_leaves(self) -> None:
        """Detached workloads, the API's and faults count for the host: to connect again gives no new part."""
        self.limit(peer_workload_devices=6, peer_fault_devices=6)
        for _ in range(2):
            other = self.app.connect()
            answer = other.say("run x devices=all profile=10 detach")
            other.leave()
        assert answer[0].startswith("error full limits.peer-workload-devices is 6: 4 more are needed, and 2 remain")
        wanted = {"name": "x", "devices": ["a/*"], "profile": "10"}
        assert [self.app.ask("POST", "/api/v1/workloads", wanted).status for _ in range(4)] == [201] * 3 + [503]
        assert self.peer.say("run x devices=all profile=10")[0].startswith("ok")
        for _ in range(2):
            posted = self.app.ask("POST", "/api/v1/faults", {"kind": "nan", "devices": ["all"]})
        assert posted.status == 503
        error = json.loads(posted.body)["error"]
        assert (error["code"], error["where"]) == ("full", "limits.peer-fault-devices")
        other = self.app.connect(OF_NODE_B)
        answers = other.say(*["fault nan devices=all node=b"] * 4)
        assert [each.split()[0] for each in answers] == ["ok"] * 3 + ["error"]
        assert answers[3].startswith("error full limits.peer-fault-devices is 6: 2 more are needed, and 0 remain")

    def test_metrics(self) -> None:
        """Each limit is shown with what is used and what it allows."""
        text = self.app.get("/-/metrics").body.decode()
        shown = [line for line in text.splitlines() if line.startswith("fakedev_limit_allowed{")]
        assert 'fakedev_limit_allowed{limit="workloads"} 100000.0' in shown
        assert len(shown) == len(Limits.__dataclass_fields__)
