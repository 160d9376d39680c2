"""The owner of a device: the pod, namespace and container that its labels show."""

from __future__ import annotations

from fakedev.sim.fleet import Fleet
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
