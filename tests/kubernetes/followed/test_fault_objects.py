"""Objects DeviceFault in a followed cluster: they strike, their status says where it is seen, deletion clears them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from fakedev.fleet.spec.fault_kinds import KINDS
from fakedev.kubernetes.cleaning import proof
from fakedev.kubernetes.client.api_client import ApiClient
from fakedev.kubernetes.client.api_paths import Need
from fakedev.kubernetes.faults.device_fault import proof_rows, table
from tests.kubernetes.objects import GPU, device_fault
from tests.support.deferreds import success_result_of
from tests.support.kube.api_server import node, pod
from tests.support.kube.followed import LABEL, POOLS, FollowedCluster, followed
from tests.support.kube.permissions import not_allowed

FAULTS = "devicefaults"


@pytest.fixture
def cluster(tmp_path: Path) -> FollowedCluster:
    """Nodes ``a`` and ``b`` of eight boards, whose fakedev follows the objects."""
    return followed(tmp_path, "a", "b", more=", device-faults: true")


def status(cluster: FollowedCluster, name: str = "f") -> dict[str, Any]:
    found: dict[str, Any] = cluster.api.get(FAULTS, name).get("status", {})
    return found


def steps(cluster: FollowedCluster, name: str = "f", shard: str = "0") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = status(cluster, name)["shards"][shard]["steps"]
    return found


def condition(cluster: FollowedCluster, kind: str, name: str = "f") -> tuple[str, str, str]:
    each = next(each for each in status(cluster, name)["conditions"] if each["type"] == kind)
    return each["status"], each["reason"], each["message"]


def faults(cluster: FollowedCluster) -> list[str]:
    """The kinds of the fleet's faults."""
    return [fault.spec.kind for fault in cluster.app.fleet.faults.standing()]


def seen(step: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """How many were seen of how many, by mouth."""
    return {name: (pair["shown"], pair["of"]) for name, pair in step.items() if isinstance(pair, dict)}


class TestLanding:
    def test_an_xid_on_two_boards(self, cluster: FollowedCluster) -> None:
        """State, page, node and Event have it within two ticks; the table says so, and nothing is missing."""
        spec = {"nodes": ["a"], "devices": ["2-3"], "kind": "xid", "parameters": {"code": 79}}
        cluster.add(device_fault("f", spec), ticks=4)
        assert seen(steps(cluster)[0]) == {"state": (2, 2), "page": (2, 2), "node": (2, 2), "event": (2, 2)}
        assert cluster.counts("a") == ("8", "6")
        assert condition(cluster, "Landed") == ("True", "AllSeen", "")
        assert status(cluster)["phase"] == "Active"
        ((has_landed, cells),) = proof_rows([cluster.api.get(FAULTS, "f")])
        assert has_landed
        assert list(cells[:8]) == ["f", "xid", "2", "2/2", "2/2", "-", "2/2", "2/2"]
        assert next(iter(table([cells]))).split()[:3] == ["FAULT", "KIND", "DEVICES"]

    def test_it_ends_with_its_object(self, cluster: FollowedCluster) -> None:
        cluster.add(device_fault("f", {"kind": "hang", "nodeLabels": {LABEL: "h100"}, "devices": ["0"]}), ticks=3)
        assert cluster.counts("a") == cluster.counts("b") == ("8", "7")
        cluster.remove(FAULTS, "f", ticks=3)
        assert cluster.counts("a") == ("8", "8")
        assert faults(cluster) == []

    def test_what_a_kind_does_not_tell_is_not_asked(self, cluster: FollowedCluster) -> None:
        """A power limit is no matter of the cluster."""
        cluster.add(device_fault("f", {"kind": "power-cap", "parameters": {"watts": 300}}), ticks=4)
        assert seen(steps(cluster)[0])["state"] == (16, 16)
        assert not {"node", "event"} & seen(steps(cluster)[0]).keys()
        assert condition(cluster, "Landed")[0] == "True"

    def test_an_event_that_the_server_does_not_take(self, cluster: FollowedCluster) -> None:
        """The status says what is missing, and where, until it is there."""
        refused = cluster.api.fail(500, "create", "events", times=-1)
        cluster.add(device_fault("f", {"nodes": ["a"], "devices": ["1"], "kind": "lost"}), ticks=5)
        is_landed, reason, message = condition(cluster, "Landed")
        assert (is_landed, reason) == ("False", "NotSeen")
        assert message == "lost: 0 of 1 in Events at the node that the API server has taken"
        ((has_landed, cells),) = proof_rows([cluster.api.get(FAULTS, "f")])
        assert not has_landed
        assert "0 of 1 in Events" in cells[-1]
        cluster.api.works(refused)

    def test_a_node_that_is_down(self, cluster: FollowedCluster) -> None:
        cluster.add(device_fault("f", {"nodes": ["b"], "kind": "node-down"}), ticks=4)
        assert seen(steps(cluster)[0]) == {"state": (8, 8), "page": (8, 8), "node": (8, 8), "event": (8, 8)}

    @pytest.mark.parametrize("kind", ["plugin-down", "kubelet-restart", "error-page", "nan", "absent", "sentinel"])
    def test_others(self, cluster: FollowedCluster, kind: str) -> None:
        cluster.add(device_fault("f", {"nodes": ["a"], "kind": kind}), ticks=4)
        assert condition(cluster, "Landed")[0] == "True", steps(cluster)

    def test_only_what_the_roles_allow_is_asked(self, cluster: FollowedCluster) -> None:
        cluster.add(device_fault("f", {"nodes": ["a"], "kind": "lost"}), ticks=4)
        assert not_allowed(cluster.api.requests, Need.ALWAYS, Need.FAULTS) == []

    def test_a_status_is_not_written_again(self, cluster: FollowedCluster) -> None:
        """An object whose fault has landed costs no requests."""
        cluster.add(device_fault("f", {"nodes": ["a"], "kind": "lost"}), ticks=4)
        before = cluster.api.requests.copy()
        cluster.tick(20)
        assert {key[1] for key in cluster.api.requests_since(before)} <= {"leases"}


    def test_the_file_for_nvml(self, tmp_path: Path) -> None:
        """Where it has the nodes it is asked, too."""
        more = f", device-faults: true}}\nnvml: {{file: {tmp_path}/nvml/map"
        cluster = followed(tmp_path, "a", "b", more=more)
        cluster.add(device_fault("f", {"kind": "power-cap", "parameters": {"watts": 300}}), ticks=4)
        assert seen(steps(cluster)[0])["nvml"] == (16, 16)
        cluster.stop()

    def test_two_shards(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each strikes its own nodes and writes its part; the table has the sum."""
        numbers = iter(range(100, 200))
        monkeypatch.setattr("fakedev.kubernetes.part.os.getpid", lambda: next(numbers))
        first, second = (POOLS.replace("seed: 7", f"seed: 7\n  shard: {number}/2") for number in (0, 1))
        one = followed(tmp_path, *"abcd", ticks=3, text=first, more=", device-faults: true")
        other = FollowedCluster(tmp_path, text=second, more=", device-faults: true", beside=one)
        other.start()
        one.add(device_fault("f", {"kind": "lost", "devices": ["0"]}), ticks=5)
        assert sorted(status(one)["shards"]) == ["0", "1"]
        ((has_landed, cells),) = proof_rows([one.api.get(FAULTS, "f")])
        assert has_landed
        assert cells[2:5] == ("4", "4/4", "4/4")


class TestTimes:
    def test_from_for_then(self, cluster: FollowedCluster) -> None:
        """One after the other, as steps of one status."""
        spec = {
            "nodes": ["a"], "devices": ["3"], "from": "3s", "kind": "ecc-single", "parameters": {"count": 5},
            "for": "4s", "then": [{"kind": "xid", "parameters": {"code": 79}, "for": "5s"}, {"kind": "reset"}],
        }  # fmt: skip
        cluster.add(device_fault("f", spec), ticks=2)
        assert status(cluster)["phase"] == "Waiting"
        cluster.tick(4)
        assert [bool(step.get("began")) for step in steps(cluster)] == [True, False, False]
        cluster.tick(4)
        assert cluster.counts("a") == ("8", "7")
        cluster.tick(8)
        assert cluster.counts("a") == ("8", "8")
        assert [step["kind"] for step in steps(cluster)] == ["ecc-single", "xid", "reset"]
        assert status(cluster)["phase"] == "Over"
        assert condition(cluster, "Landed")[0] == "True", steps(cluster)

    @pytest.mark.parametrize("what", [{"kind": "ecc-double"}, {"kind": "xid", "parameters": {"code": 48}}])
    def test_what_happens_at_once(self, cluster: FollowedCluster, what: dict[str, Any]) -> None:
        """It has its time, too: until then nobody takes it for over. Its board stays as it is until a reset."""
        cluster.add(device_fault("f", {**what, "nodes": ["a"], "devices": ["3"], "for": "20s"}), ticks=4)
        assert condition(cluster, "Landed")[0] == "True", steps(cluster)
        cluster.tick(12)
        assert status(cluster)["phase"] == "Active"
        cluster.tick(8)
        assert status(cluster)["phase"] == "Over"
        assert cluster.counts("a") == ("8", "7")

    def test_what_happens_at_once_without_a_time(self, cluster: FollowedCluster) -> None:
        cluster.add(device_fault("f", {"kind": "ecc-double", "nodes": ["a"], "devices": ["3"]}), ticks=4)
        assert status(cluster)["phase"] == "Over"

    def test_a_node_that_joins_later(self, cluster: FollowedCluster) -> None:
        """It is struck too, for the time that is left."""
        cluster.add(device_fault("f", {"kind": "lost", "devices": ["0"], "for": "14s"}), ticks=4)
        cluster.api.add(node("c", {LABEL: "h100"}))
        cluster.tick(6)
        assert seen(steps(cluster)[0])["state"] == (3, 3)
        assert cluster.counts("c") == ("8", "7")
        cluster.tick(10)
        assert cluster.counts("c") == ("8", "8")

    def test_a_node_that_is_replaced(self, cluster: FollowedCluster) -> None:
        """A controller that deletes a node and makes it again gets healthy boards; other nodes keep the fault.

        The status keeps what was seen.
        """
        cluster.add(device_fault("f", {"kind": "lost", "devices": ["0"]}), ticks=4)
        cluster.remove("nodes", "a", ticks=3)
        cluster.add(node("a", {LABEL: "h100"}), ticks=4)
        assert cluster.counts("a") == ("8", "8")
        assert cluster.counts("b") == ("8", "7")
        assert seen(steps(cluster)[0])["state"] == (2, 2)

    @pytest.mark.parametrize("how", ["replaced", "booted"])
    def test_a_node_that_is_replaced_at_once(self, cluster: FollowedCluster, how: str) -> None:
        """It is made again within a tick, or booted: its boards are healthy, and its pod works on the same."""
        cluster.modify("nodes", "a", {"status": {"nodeInfo": {"bootID": "one"}}}, ticks=3)
        cluster.add(pod("train", "a", {GPU: "2"}), ticks=4)
        held = cluster.held("a")
        cluster.add(device_fault("f", {"kind": "xid", "devices": ["7"], "parameters": {"code": 79}}), ticks=4)
        assert cluster.counts("a") == ("8", "7")
        if how == "booted":
            cluster.api.modify("nodes", "a", {"status": {"nodeInfo": {"bootID": "two"}}})
        else:
            cluster.api.remove("nodes", "a")
            cluster.api.add(node("a", {LABEL: "h100"}))
        cluster.tick(16)
        assert cluster.counts("a") == ("8", "8")
        assert cluster.held("a") == held
        assert min(int(row["value"]) for row in cluster.rows("a") if row.get("pod")) >= 75

    def test_a_node_that_has_its_first_boot_id(self, cluster: FollowedCluster) -> None:
        """Its kubelet reports only now: nothing was started again."""
        cluster.add(device_fault("f", {"kind": "xid", "devices": ["7"], "parameters": {"code": 79}}), ticks=4)
        cluster.modify("nodes", "a", {"status": {"nodeInfo": {"bootID": "one"}}}, ticks=16)
        assert cluster.counts("a") == ("8", "7")

    def test_a_change_of_the_object(self, cluster: FollowedCluster) -> None:
        """What the earlier generation asked for is cleared."""
        cluster.add(device_fault("f", {"kind": "lost", "devices": ["0"]}), ticks=3)
        spec = {"kind": "hang", "devices": ["1"]}
        cluster.modify(FAULTS, "f", {"spec": spec, "metadata": {"generation": 2}}, ticks=4)
        assert faults(cluster) == ["hang"]
        assert status(cluster)["observedGeneration"] == 2


class TestMistakes:
    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            ({"kind": "xdi"}, "spec.kind: no kind of fault 'xdi'; did you mean xid?"),
            ({"kind": "xid"}, "spec.parameters.code: missing: it must be a whole number from 1 to 999: the error code"),
            ({"kind": "lost", "devices": ["gpu"]}, "spec.devices: 'gpu' is no device of a node: give its index, 3 or "),
            ({"kind": "lost", "frm": "1s"}, "spec.frm: there is no such field; did you mean from?"),
            ({"kind": "lost", "parameters": {"code": 79}}, "spec.parameters.code: is nothing that the fault lost"),
            ({"kind": "lost", "then": [{"kind": "reset"}]}, "spec.for: is missing: what follows begins when this is"),
            ({"kind": "lost", "for": "soon"}, "spec.for: "),
        ],
    )
    def test_it_is_told_in_the_status(self, cluster: FollowedCluster, spec: dict[str, Any], message: str) -> None:
        cluster.add(device_fault("f", spec), ticks=3)
        is_so, reason, text = condition(cluster, "Accepted")
        assert (is_so, reason) == ("False", "Refused")
        assert text.startswith(message)
        assert status(cluster)["phase"] == "Refused"
        assert faults(cluster) == []
        assert cluster.ready == ""

    def test_what_the_fleet_refuses(self, cluster: FollowedCluster) -> None:
        """An H100 takes no limit of 5 W; other objects are struck."""
        cluster.add(device_fault("f", {"kind": "power-cap", "parameters": {"watts": 5}}), ticks=1)
        cluster.add(device_fault("g", {"kind": "lost", "devices": ["0"]}), ticks=3)
        assert "no driver of the devices accepts a power limit of 5 W" in condition(cluster, "Accepted")[2]
        assert condition(cluster, "Landed", "g")[0] == "True"

    def test_no_such_node(self, cluster: FollowedCluster) -> None:
        cluster.add(device_fault("f", {"kind": "lost", "nodes": ["x*"]}), ticks=3)
        assert condition(cluster, "Landed") == ("False", "NoDevices", "no node has such devices")


class TestRestarts:
    @pytest.mark.slow
    def test_with_a_state(self, tmp_path: Path) -> None:
        """The fault goes on, is not struck again, and ends with its object, also while fakedev is away."""
        text = f"state: {tmp_path}/state"
        cluster = followed(tmp_path, "a", "b", more=f", device-faults: true}}\n{text}\nwatch: false #")
        cluster.add(device_fault("f", {"kind": "lost", "devices": ["0"], "nodes": ["a"]}), ticks=3)
        cluster.add(device_fault("g", {"kind": "lost", "devices": ["1"], "nodes": ["a"]}), ticks=3)
        cluster.stop()
        cluster.api.remove(FAULTS, "g")
        cluster.start()
        cluster.tick(4)
        assert faults(cluster) == ["lost"]
        assert cluster.counts("a") == ("8", "7")
        assert condition(cluster, "Landed")[0] == "True"

    @pytest.mark.parametrize("kind", ["lost", "ecc-double"])
    def test_it_ends_after_a_restart(self, tmp_path: Path, kind: str) -> None:
        """By its own time, whether it still acts or has left its traces at once."""
        cluster = followed(tmp_path, "a", "b", more=f", device-faults: true}}\nstate: {tmp_path}/state\nwatch: false #")
        cluster.add(device_fault("f", {"kind": kind, "devices": ["0"], "nodes": ["a"], "for": "20s"}), ticks=4)
        cluster.stop()
        cluster.start()
        cluster.tick(4)
        assert status(cluster)["phase"] == "Active"
        cluster.tick(16)
        assert status(cluster)["phase"] == "Over"

    def test_without_a_state(self, cluster: FollowedCluster) -> None:
        """The fleet begins anew: what lasts is struck again, what is over is not."""
        cluster.add(device_fault("f", {"kind": "lost", "devices": ["0"], "nodes": ["a"]}), ticks=3)
        cluster.add(device_fault("g", {"kind": "ecc-double", "devices": ["1"], "nodes": ["a"]}), ticks=3)
        cluster.start_again()
        cluster.tick(4)
        assert cluster.counts("a") == ("8", "7")
        assert status(cluster, "g")["phase"] == "Over"
        assert faults(cluster) == ["lost"]


def prove(cluster: FollowedCluster, seconds: float) -> tuple[int, list[str]]:
    """The exit code of ``fakedev kube proof``, and its lines."""
    lines: list[str] = []
    reactor: Any = cluster.reactor
    client = ApiClient(cluster.api.server, reactor, random=lambda: 0.5)
    running = Deferred.fromCoroutine(proof(client, lines.append, seconds))
    cluster.tick(4)
    return success_result_of(running), lines


def test_the_proof(cluster: FollowedCluster) -> None:
    """It waits until all have landed, and ends with 1 when one has not."""
    assert prove(cluster, 0) == (1, ["there is no DeviceFault"])
    cluster.api.add(device_fault("f", {"kind": "lost", "devices": ["0"]}))
    code, lines = prove(cluster, 10)
    assert (code, lines[1].split()[:5]) == (0, ["f", "lost", "2", "2/2", "2/2"])
    cluster.add(device_fault("g", {"kind": "lost", "nodes": ["z"]}), ticks=2)
    code, lines = prove(cluster, 0)
    assert (code, lines[2].split("  ")[-1]) == (1, "no node has such devices")


def test_the_definition_is_missing(tmp_path: Path) -> None:
    """The service says so, with the remedy; all else works."""
    cluster = FollowedCluster(tmp_path, more=", device-faults: true")
    cluster.api.fail(404, "list", FAULTS, times=-1)
    cluster.api.add(node("a", {LABEL: "h100"}))
    cluster.start()
    cluster.tick(4)
    assert cluster.counts("a") == ("8", "8")
    assert "apply etc/kubernetes/components/device-faults" in cluster.ready


@pytest.mark.slow
def test_each_kind_is_seen(cluster: FollowedCluster) -> None:
    """On a busy board every kind lands, wherever it is told of, but for those of racks."""
    numbers = {"code": 79, "watts": 300, "megahertz": 900}
    unseen = []
    for name, kind in KINDS.items():
        if kind.needs_racks:
            continue
        cluster.say("run train devices=a/4 profile=100 detach", ticks=2)
        wanted = {parameter.name: numbers[parameter.name] for parameter in kind.parameters if parameter.name in numbers}
        spec = {"kind": name, "nodes": ["a"], "devices": ["4"], "parameters": wanted}
        cluster.add(device_fault(name, spec), ticks=4)
        if condition(cluster, "Landed", name)[0] != "True":
            cluster.tick(20)  # heat takes its time
        if condition(cluster, "Landed", name)[0] != "True":
            unseen.append((name, condition(cluster, "Landed", name)[2]))
        cluster.remove(FAULTS, name, ticks=1)
        cluster.say("fault reset devices=a/4", ticks=2)
    assert unseen == []
