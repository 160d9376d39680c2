"""The lease of a shard: one of several fakedev holds it."""

from __future__ import annotations

from typing import Any

from fakedev.kubernetes.client.api_client import ApiClient
from fakedev.kubernetes.client.lease import Lease
from tests.support.deferreds import success_result_of
from tests.support.kube.api_server import ClusterApi
from tests.support.kube.memory_reactor import LinkedReactor


class Candidate:
    """A fakedev that wants a lease, and what it was told."""

    def __init__(self, api: ClusterApi, holder: str, shard: int = 0, shards: int = 1) -> None:
        self.client = ApiClient(api.server, api.reactor, random=lambda: 1.0)
        self.told: list[tuple[str, str]] = []
        self.lease = Lease(
            self.client, shard=shard, shards=shards, holder=holder, namespace="gpus",
            acquired=lambda: self.told.append(("acquired", "")),
            lost=lambda reason: self.told.append(("lost", reason)),
            waiting=lambda text: self.told.append(("waiting", text)),
        )  # fmt: skip
        self.lease.start()

    @property
    def words(self) -> list[str]:
        """What was told, without the texts."""
        return [word for word, _ in self.told]


def spec_of(api: ClusterApi, name: str = "fakedev-0-of-1") -> dict[str, Any]:
    """What the lease says."""
    return api.get("leases", name, "gpus")["spec"]  # type: ignore[no-any-return]


def test_a_new_lease_is_made(api: ClusterApi, reactor: LinkedReactor) -> None:
    one = Candidate(api, "one")
    reactor.settle()
    assert one.words == ["acquired"]
    assert spec_of(api) == {
        "holderIdentity": "one", "leaseDurationSeconds": 30, "leaseTransitions": 0,
        "acquireTime": "1970-01-12T13:46:40.000000Z", "renewTime": "1970-01-12T13:46:40.000000Z",
    }  # fmt: skip


def test_it_is_renewed_every_two_seconds(api: ClusterApi, reactor: LinkedReactor) -> None:
    Candidate(api, "one")
    reactor.settle()
    before = api.requests.copy()
    reactor.pass_seconds(100.5)
    assert api.requests_since(before) == {("update", "leases", 200): 50}
    assert spec_of(api)["renewTime"] == "1970-01-12T13:48:20.000000Z"


def test_a_second_holder_waits_and_says_so(api: ClusterApi, reactor: LinkedReactor) -> None:
    one = Candidate(api, "one")
    reactor.settle()
    two = Candidate(api, "two")
    reactor.pass_seconds(300, 0.5)
    text = "one holds the lease gpus/fakedev-0-of-1: this one waits until it is free"
    assert two.told == [("waiting", text)]
    assert one.words == ["acquired"]


def test_a_lease_that_is_given_back_is_taken_soon(api: ClusterApi, reactor: LinkedReactor) -> None:
    one = Candidate(api, "one")
    reactor.settle()
    two = Candidate(api, "two")
    reactor.settle()
    stopped = one.lease.stop()
    reactor.settle()
    success_result_of(stopped)
    assert spec_of(api)["holderIdentity"] == ""
    reactor.pass_seconds(5.1)
    assert two.words == ["waiting", "acquired"]
    assert spec_of(api)["leaseTransitions"] == 1


def test_a_dead_holder_loses_it_after_thirty_seconds(api: ClusterApi, reactor: LinkedReactor) -> None:
    api.add({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "fakedev-0-of-1", "namespace": "gpus"},
        "spec": {"holderIdentity": "dead", "leaseDurationSeconds": 30, "renewTime": "2035-01-01T00:00:00.000000Z"},
    })  # fmt: skip
    two = Candidate(api, "two")
    reactor.pass_seconds(29)
    assert two.words == ["waiting"]
    reactor.pass_seconds(6)
    assert two.words == ["waiting", "acquired"]


def test_the_same_holder_goes_on_at_once(api: ClusterApi, reactor: LinkedReactor) -> None:
    first = Candidate(api, "shard-0")
    reactor.settle()
    first.client.stop()
    reactor.settle()
    second = Candidate(api, "shard-0")
    reactor.settle()
    assert second.words == ["acquired"]


def test_another_number_of_shards_is_a_mistake(api: ClusterApi, reactor: LinkedReactor) -> None:
    Candidate(api, "one", 0, 2)
    reactor.settle()
    two = Candidate(api, "two", 0, 3)
    reactor.pass_seconds(20)
    assert two.told == [(
        "waiting",
        "one holds the lease gpus/fakedev-0-of-2, of a fleet in 2 shards, and this one is of a fleet in 3: stop it, "
        "give both the same number of shards, or use another namespace",
    )]  # fmt: skip


def test_shards_of_one_fleet_do_not_wait_for_each_other(api: ClusterApi, reactor: LinkedReactor) -> None:
    both = [Candidate(api, f"pod-{number}", number, 2) for number in range(2)]
    reactor.settle()
    assert [each.words for each in both] == [["acquired"], ["acquired"]]


def test_a_lease_that_cannot_be_renewed_is_lost_before_another_one_begins(
    api: ClusterApi, reactor: LinkedReactor
) -> None:
    """After 25 of 30 s; it is acquired again when the server is back."""
    one = Candidate(api, "one")
    reactor.settle()
    api.stop()
    reactor.pass_seconds(24.8)
    assert one.words == ["acquired"]
    reactor.pass_seconds(0.4)
    assert one.words[:2] == ["acquired", "lost"]
    assert "cannot renew the lease gpus/fakedev-0-of-1 for 25 s" in one.told[1][1]
    api.start()
    reactor.pass_seconds(45)
    assert one.words[-1] == "acquired"


def test_a_lease_that_another_one_took_is_lost(api: ClusterApi, reactor: LinkedReactor) -> None:
    one = Candidate(api, "one")
    reactor.settle()
    api.modify("leases", "fakedev-0-of-1", {"spec": {"holderIdentity": "two"}}, "gpus")
    reactor.pass_seconds(2.1)
    assert one.words == ["acquired", "lost"]
    reactor.pass_seconds(10)
    assert one.words == ["acquired", "lost", "waiting"]


def test_a_lost_answer_does_not_lose_the_lease(api: ClusterApi, reactor: LinkedReactor) -> None:
    """The server made our change and its answer was lost: then the next change is a conflict with ourselves."""
    one = Candidate(api, "one")
    reactor.settle()
    api.modify("leases", "fakedev-0-of-1", {"spec": {"renewTime": "1970-01-12T13:46:45.000000Z"}}, "gpus")
    reactor.pass_seconds(30)
    assert one.words == ["acquired"]
    assert api.requests["update", "leases", 409] == 1


def test_a_missing_rule_is_told(api: ClusterApi, reactor: LinkedReactor) -> None:
    """The fleet goes on without the cluster; the lease is acquired when the rule is there."""
    failure = api.forbid("", "leases")
    one = Candidate(api, "one")
    reactor.pass_seconds(30)
    assert one.words == ["waiting"]
    text = one.client.open_problems.texts[0]
    assert 'apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["list"]' in text
    api.works(failure)
    reactor.pass_seconds(11)
    assert one.words == ["waiting", "acquired"]
