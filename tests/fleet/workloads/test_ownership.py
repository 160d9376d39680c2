"""Labels that change: the pod, namespace and container that have a device, and the code of its last error."""

from __future__ import annotations

import numpy as np

from fakedev.exporters.identity import FamilySpec, Identity, LabelSpec, NumberFormat, RowSpec
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.sources import DeviceSource
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.entities.state import Level
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.workloads.owners import DeviceLabels, value_facts
from tests.support.configurations import loaded
from tests.support.fleet.divided_devices import ROUND_PARTS
from tests.support.fleet.faulty_fleets import boards_of, inject
from tests.support.fleet.fleets import labels_of, make_fleet, pool_of, start, stop


def pods(fleet: Fleet) -> list[list[str]]:
    """For each device of dgx-0 all containers on it, as pod/container."""
    shared = fleet.labels.shared_facts(fleet.roster.nodes[0])
    return [[f"{facts['pod']}/{facts['container']}" for facts in each] for each in shared]


class TestAttribution:
    LABELS = ("pod", "namespace", "container")

    def test_the_labels_of_a_workload_with_a_pod(self) -> None:
        """On its devices, from its first tick to its last; without a pod there are none."""
        fleet = make_fleet()
        start(fleet, namespace="n", container="c")
        workload_id = start(fleet, "card1", pod="p", namespace="n", container="c")
        free = ("", "", "")
        assert labels_of(fleet, "dgx-0", self.LABELS) == [free] * 4
        fleet.advance()
        assert labels_of(fleet, "dgx-0", self.LABELS) == [free, ("p", "n", "c"), free, free]
        stop(fleet, workload_id)
        fleet.advance()
        assert labels_of(fleet, "dgx-0", self.LABELS) == [free] * 4

    def test_all_who_share_a_device(self) -> None:
        """In the order in which they came, the first of them owns it; two workloads of one container are one."""
        fleet = make_fleet()
        first = start(fleet, "card0", pod="first", container="a")
        for container in ("a", "b", "b"):
            start(fleet, "card0,card1", pod="second", container=container)
        start(fleet, "card2")
        fleet.advance()
        assert pods(fleet) == [["first/a", "second/a", "second/b"], ["second/a", "second/b"], ["/"], ["/"]]
        assert labels_of(fleet, "dgx-0", ["pod"])[:2] == [("first",), ("second",)]
        stop(fleet, first)
        fleet.advance()
        assert pods(fleet) == [["second/a", "second/b"], ["second/a", "second/b"], ["/"], ["/"]]
        assert labels_of(fleet, "dgx-0", ["pod"])[:2] == [("second",), ("second",)]

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
            seen.append((fleet.labels.version(one), fleet.labels.version(one, is_shared=True)))
        firsts, shared = zip(*seen, strict=True)
        assert len(set(firsts)) == 1
        assert len(set(shared)) == 3
        assert fleet.labels.version(two, is_shared=True) == 0

    def test_a_node_has_a_new_version_when_a_label_changed(self) -> None:
        """Only that node, and only when what is shown changed: label texts are kept by this."""
        fleet = make_fleet(pool_of(nodes=3))
        one, two, three = fleet.roster.nodes
        start(fleet, "dgx-1/0", pod="first")
        fleet.advance()
        assert [fleet.labels.version(node) for node in (one, two, three)] == [0, fleet.state.labels_version, 0]
        version = fleet.labels.version(two)
        second = start(fleet, "dgx-1/0", pod="second")
        fleet.advance()
        stop(fleet, second)
        fleet.advance()
        assert fleet.labels.version(two) == version


class TestLabelsOfWorkloads:
    def test_they_come_and_go_with_the_pod(self) -> None:
        fleet = make_fleet()
        node = fleet.roster.nodes[0]
        before = fleet.labels.facts(node)
        workload_id = start(fleet, "card1", pod="p", labels={"dra_claim_name": "one", "uuid": "stolen"})
        fleet.advance()
        after = fleet.labels.facts(node)
        assert after[1] == {**before[1], "pod": "p", "dra_claim_name": "one"}
        assert [after[0], *after[2:]] == [before[0], *before[2:]]
        stop(fleet, workload_id)
        fleet.advance()
        assert fleet.labels.facts(node) == before

    def test_each_container_on_a_shared_device_has_its_own(self) -> None:
        """No label of the first is shown with the second; several workloads of a container are one, as the first."""
        fleet = make_fleet()
        start(fleet, "card0", pod="p", container="a", labels={"dra_claim_name": "one"})
        start(fleet, "card0", pod="p", container="a", labels={"dra_claim_name": "two"})
        start(fleet, "card0", pod="p", container="b", labels={"team": "ml"})
        fleet.advance()
        shared = fleet.labels.shared_facts(fleet.roster.nodes[0])[0]
        assert [(each["container"], each.get("dra_claim_name"), each.get("team")) for each in shared] == [
            ("a", "one", None), ("b", None, "ml"),
        ]  # fmt: skip

    def test_parts_have_them(self) -> None:
        fleet = make_fleet(pool_of(parts=ROUND_PARTS, devices_per_node=1))
        start(fleet, "dgx-0/0/1", pod="p", labels={"dra_mig_profile": "1g.10gb"})
        fleet.advance()
        node = fleet.roster.nodes[0]
        profiles = [facts.get("dra_mig_profile") for _, facts in fleet.labels.part_facts(node)]
        assert profiles == [None, "1g.10gb", None]
        shared_profiles = [
            [fact.get("dra_mig_profile") for fact in facts] for _, facts in fleet.labels.shared_part_facts(node)
        ]
        assert shared_profiles == [[None], ["1g.10gb"], [None]]


CODE = LabelSpec("err_code", "{xid}")
TEXT = LabelSpec("err_msg", "{xid}", texts=(("63", "row remapped"),), otherwise="unknown")
ERRORS = FamilySpec(
    "errors", "gauge", "Last error.", NumberFormat.INT, (RowSpec("xid", labels=(CODE, TEXT), where=("xid",)),)
)


def rows(page: bytes) -> list[str]:
    return [line for line in page.decode().splitlines() if not line.startswith("#")]


def test_on_a_page() -> None:
    """No row before the first error; then number, code and text are of one tick, whatever was kept of the page."""
    fleet = make_fleet(boards_of("h100", nodes=2, devices=1))
    identity = Identity("test", "", (ERRORS,), (LabelSpec("node", "{node}"),))
    page = Page(LabelCache(identity, DeviceSource(fleet)), fleet.roster.nodes)
    assert rows(page.render(fleet.state)) == []
    inject(fleet, kind="xid", devices="dgx-0/0", code=63)
    inject(fleet, kind="xid", devices="dgx-1/0", code=16)
    fleet.advance()
    assert rows(page.render(fleet.state)) == [
        'errors{node="dgx-0",err_code="63",err_msg="row remapped"} 63',
        'errors{node="dgx-1",err_code="16",err_msg="unknown"} 16',
    ]
    inject(fleet, kind="reset", devices="dgx-0/0")
    fleet.advance()
    assert rows(page.render(fleet.state)) == ['errors{node="dgx-1",err_code="16",err_msg="unknown"} 16']


def test_the_words_of_dcgm_exporter() -> None:
    """Codes and texts are among the pod's labels, by name; a code without a text is an error too."""
    fleet = make_fleet(boards_of("h100", nodes=1, devices=4))
    dcgm = loaded("fleet: {pools: [{name: p, device: h100, identity: dcgm}]}").identities["p"]
    page = Page(LabelCache(dcgm, DeviceSource(fleet)), fleet.roster.nodes)
    start(fleet, "all", pod="train", namespace="ml", container="main")
    for device, code in ((0, 63), (1, 74), (3, 999)):
        inject(fleet, kind="xid", devices=f"dgx-0/{device}", code=code)
    fleet.advance()
    found = [
        (text_of.partition('",container=')[2], int(number))
        for text_of, number in (row.rsplit(" ", 1) for row in rows(page.render(fleet.state)) if "XID_ERRORS{" in row)
    ]
    pod = 'namespace="ml",pod="train"}'
    assert found == [
        (f'"main",err_code="63",err_msg="ECC page retirement or row remapping recording event",{pod}', 63),
        (f'"main",err_code="74",err_msg="NVLINK Error",{pod}', 74),
        (f'"main",err_code="999",err_msg="Unknown Error",{pod}', 999),
    ]


def test_only_nodes_where_it_changed() -> None:
    roster = Roster([pool_of(nodes=3, devices_per_node=2)])
    labels = DeviceLabels(roster, 0)

    def level(*codes: float) -> Level:
        return Level(6, {"xid": np.array(codes)}, {})

    before = level(0, 0, 0, 0, 0, 0)
    for after, changed in (
        (before, []),
        (level(0, 0, 0, 0, 0, 0), []),
        (level(0, 13, 0, 0, 31, 48), [0, 2]),
        (level(0, 13, 0, 0, 31, 79), [2]),
    ):
        seen = [labels.version(node) for node in roster.nodes]
        labels.note(before, after)
        assert [i for i, node in enumerate(roster.nodes) if labels.version(node) != seen[i]] == changed
        before = after


def test_devices_without_it() -> None:
    level = Level(2, {"xid": np.array([48.0, 0.0])}, {"xid": np.array([True, False])})
    assert [value_facts(level, position) for position in (0, 1)] == [{"xid": "48"}, {}]
    assert value_facts(Level(1, {}, {}), 0) == {}
