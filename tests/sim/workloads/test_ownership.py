"""The owner of a device: the pod, namespace and container that its labels show."""

from __future__ import annotations

from fakedev.sim.fleet import Fleet
from tests.support.divided_devices import ROUND_PARTS
from tests.support.fleets import labels_of, make_fleet, pool_of, start, stop


def pods(fleet: Fleet) -> list[list[str]]:
    """For each device of dgx-0 all containers on it, as pod/container."""
    shared = fleet.shared_facts(fleet.roster.nodes[0])
    return [[f"{facts['pod']}/{facts['container']}" for facts in each] for each in shared]


class TestAttribution:
    """The owner of a device."""

    LABELS = ("pod", "namespace", "container")

    def test_the_labels_of_a_workload_with_a_pod(self) -> None:
        """On its devices, from its first tick to its last."""
        fleet = make_fleet()
        workload_id = start(fleet, "card1", pod="p", namespace="n", container="c")
        free = ("", "", "")
        assert labels_of(fleet, "dgx-0", self.LABELS) == [free] * 4
        fleet.advance()
        assert labels_of(fleet, "dgx-0", self.LABELS) == [free, ("p", "n", "c"), free, free]
        stop(fleet, workload_id)
        fleet.advance()
        assert labels_of(fleet, "dgx-0", self.LABELS) == [free] * 4

    def test_a_workload_without_a_pod_has_no_labels(self) -> None:
        """It belongs to no pod, with any namespace."""
        fleet = make_fleet()
        start(fleet, namespace="n", container="c")
        fleet.advance()
        assert labels_of(fleet, "dgx-0", self.LABELS)[0] == ("", "", "")
        assert fleet.state.labels_version == 0

    def test_a_shared_device_is_of_who_has_been_there_longest(self) -> None:
        """And then of the next in line."""
        fleet = make_fleet()
        first = start(fleet, "card0", pod="first")
        start(fleet, "card0,card1", pod="second")
        fleet.advance()
        assert labels_of(fleet, "dgx-0", ["pod"])[:2] == [("first",), ("second",)]
        stop(fleet, first)
        fleet.advance()
        assert labels_of(fleet, "dgx-0", ["pod"])[:2] == [("second",), ("second",)]

    def test_all_who_share_a_device(self) -> None:
        """In the order in which they came; two workloads of one container are one."""
        fleet = make_fleet()
        first = start(fleet, "card0", pod="first", container="a")
        for container in ("a", "b", "b"):
            start(fleet, "card0,card1", pod="second", container=container)
        start(fleet, "card2")
        fleet.advance()
        assert pods(fleet) == [["first/a", "second/a", "second/b"], ["second/a", "second/b"], ["/"], ["/"]]
        stop(fleet, first)
        fleet.advance()
        assert pods(fleet) == [["second/a", "second/b"], ["second/a", "second/b"], ["/"], ["/"]]

    def test_versions_of_shared_labels(self) -> None:
        """They change with every workload that starts or ends; the first on each device changes only with the first."""
        fleet = make_fleet(pool_of(nodes=2))
        one, two = fleet.roster.nodes
        seen = []
        for happens in (
            lambda: start(fleet, "dgx-0/0", pod="first"),
            lambda: start(fleet, "dgx-0/0", pod="second"),
            lambda: stop(fleet, "w2"),
            lambda: None,
        ):
            happens()
            fleet.advance()
            seen.append((fleet.labels_version(one), fleet.labels_version(one, is_shared=True)))
        firsts, shared = zip(*seen, strict=True)
        assert len(set(firsts)) == 1
        assert len(set(shared)) == 3
        assert fleet.labels_version(two, is_shared=True) == 0

    def test_a_node_has_a_new_version_when_a_label_changed(self) -> None:
        """Only that node, and only when what is shown changed: label texts are kept by this."""
        fleet = make_fleet(pool_of(nodes=3))
        one, two, three = fleet.roster.nodes
        start(fleet, "dgx-1/0", pod="first")
        fleet.advance()
        assert [fleet.labels_version(node) for node in (one, two, three)] == [0, fleet.state.labels_version, 0]
        version = fleet.labels_version(two)
        second = start(fleet, "dgx-1/0", pod="second")
        fleet.advance()
        stop(fleet, second)
        fleet.advance()
        assert fleet.labels_version(two) == version


class TestLabelsOfWorkloads:
    """Further labels that a workload brings: facts of its devices while its pod has them."""

    def test_they_come_and_go_with_the_pod(self) -> None:
        """Like the pod's name; a fact that the device has of its own stays."""
        fleet = make_fleet()
        node = fleet.roster.nodes[0]
        before = fleet.facts(node)
        workload_id = start(fleet, "card1", pod="p", labels={"dra_claim_name": "one", "uuid": "stolen"})
        fleet.advance()
        after = fleet.facts(node)
        assert after[1] == {**before[1], "pod": "p", "dra_claim_name": "one"}
        assert [after[0], *after[2:]] == [before[0], *before[2:]]
        stop(fleet, workload_id)
        fleet.advance()
        assert fleet.facts(node) == before

    def test_each_container_on_a_shared_device_has_its_own(self) -> None:
        """No label of the first is shown with the second; several workloads of a container are one, as the first."""
        fleet = make_fleet()
        start(fleet, "card0", pod="p", container="a", labels={"dra_claim_name": "one"})
        start(fleet, "card0", pod="p", container="a", labels={"dra_claim_name": "two"})
        start(fleet, "card0", pod="p", container="b", labels={"team": "ml"})
        fleet.advance()
        shared = fleet.shared_facts(fleet.roster.nodes[0])[0]
        assert [(each["container"], each.get("dra_claim_name"), each.get("team")) for each in shared] == [
            ("a", "one", None), ("b", None, "ml"),
        ]  # fmt: skip

    def test_parts_have_them(self) -> None:
        """The instance that the workload is on, and no other one."""
        fleet = make_fleet(pool_of(parts=ROUND_PARTS, devices_per_node=1))
        start(fleet, "dgx-0/0/1", pod="p", labels={"dra_mig_profile": "1g.10gb"})
        fleet.advance()
        node = fleet.roster.nodes[0]
        profiles = [facts.get("dra_mig_profile") for _, facts in fleet.part_facts(node)]
        assert profiles == [None, "1g.10gb", None]
        assert [[each.get("dra_mig_profile") for each in facts] for _, facts in fleet.shared_part_facts(node)] == [
            [None], ["1g.10gb"], [None],
        ]  # fmt: skip
