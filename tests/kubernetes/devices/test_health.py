"""The health of devices as a cluster sees it, and what a service leaves of it to the next one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.events import ChangeNodes, Reload
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.fleet_spec import FleetSpec, NodeSpec, PoolSpec
from fakedev.fleet.spec.limits import RecordHead
from fakedev.fleet.spec.offers import MigStrategy, Recovery
from fakedev.kubernetes.devices.health import (
    HARMLESS_XIDS,
    HealthWatch,
    NodeHealth,
    NoHealth,
    health_record,
    read_health,
)
from fakedev.kubernetes.devices.offered_devices import NodeDevices
from tests.kubernetes.objects import node_of, pool
from tests.support.calls import calls_in
from tests.support.examples import examples
from tests.support.fleet.calibration import catalog_type
from tests.support.fleet.faulty_fleets import boards_of, cleared, inject
from tests.support.fleet.fleets import advance, make_fleet


class Watched:
    """A fleet whose health is followed, tick by tick."""

    def __init__(self, spec: PoolSpec | None = None, recovery: Recovery = Recovery.AUTO) -> None:
        self.fleet = make_fleet(spec or boards_of("h100", nodes=3, devices=2))
        pools = self.fleet.spec.pools
        self.devices = {
            node.name: NodeDevices(self.fleet.spec.seed, own, node) for own in pools for node in own.nodes
        }
        self.watch = HealthWatch(self.devices.get, recovery)
        assert self.tick() == {}

    def tick(self, count: int = 1) -> dict[str, NodeHealth]:
        """What has changed after some ticks."""
        found: dict[str, NodeHealth] = {}
        for _ in range(count):
            self.fleet.advance()
            found |= self.watch.observe(self.fleet)
        return found

    def inject(self, **fields: object) -> dict[str, NodeHealth]:
        """What has changed after a fault."""
        inject(self.fleet, **fields)
        return self.tick()

    def clear(self) -> dict[str, NodeHealth]:
        """What has changed after all faults are cleared."""
        for each in list(self.fleet.faults.by_id):
            cleared(self.fleet, each, ticks=0)
        return self.tick()

    def reasons(self, node: str = "dgx-1") -> dict[str, str]:
        """The word of each unhealthy slot, with the reason."""
        by_id = {slot.device_id: slot.word(node) for slot in self.devices[node].slots}
        return {by_id[each]: reason for each, reason in self.watch.of(node).unhealthy.items()}


def nowhere(_node: str) -> NodeDevices | None:
    """A cluster without nodes."""
    return None


class TestXids:
    def test_board(self) -> None:
        watched = Watched()
        assert set(watched.inject(kind="xid", code=48, devices="dgx-1/1")) == {"dgx-1"}
        assert watched.reasons() == {"dgx-1/1": "XID 48"}
        assert watched.tick(3) == {}
        assert list(watched.watch.ill) == ["dgx-1"]

    @pytest.mark.parametrize("code", HARMLESS_XIDS)
    def test_of_applications(self, code: int) -> None:
        assert Watched().inject(kind="xid", code=code, devices="all") == {}

    def test_one_after_the_other(self) -> None:
        watched = Watched()
        watched.inject(kind="xid", code=48, devices="dgx-1/1")
        assert watched.inject(kind="xid", code=31, devices="dgx-1/1") == {}
        assert watched.reasons() == {"dgx-1/1": "XID 48"}
        watched.inject(kind="xid", code=63, devices="dgx-1/1")
        assert watched.reasons() == {"dgx-1/1": "XID 63"}

    def test_reset(self) -> None:
        watched = Watched()
        watched.inject(kind="xid", code=48, devices="dgx-1/1")
        assert watched.inject(kind="reset", devices="dgx-1/1") == {"dgx-1": NodeHealth()}
        assert watched.watch.ill == {}

    @pytest.mark.parametrize("fields", [{"kind": "xid", "code": 79}, {"kind": "lost"}, {"kind": "xid", "code": 119}])
    def test_lasting(self, fields: dict[str, object]) -> None:
        watched = Watched()
        watched.inject(devices="dgx-1/0", **fields)
        assert watched.reasons() == {"dgx-1/0": f"XID {fields.get('code', 79)}"}
        watched.clear()
        assert watched.reasons() == {}

    def test_links(self) -> None:
        """A link that is up again heals, although its XID is shown until reset; the next time counts again."""
        watched = Watched()
        for _ in range(2):
            watched.inject(kind="link-down", devices="dgx-1/0")
            assert watched.reasons() == {"dgx-1/0": "XID 74"}
            assert watched.clear() == {"dgx-1": NodeHealth()}
            assert watched.tick(2) == {}

    def test_hang(self) -> None:
        watched = Watched()
        watched.inject(kind="hang", devices="dgx-1/0")
        assert watched.reasons() == {"dgx-1/0": "hangs"}
        watched.clear()
        assert watched.reasons() == {}

    def test_hang_leaves_an_xid(self) -> None:
        watched = Watched()
        watched.inject(kind="xid", code=48, devices="dgx-1/0")
        hang = inject(watched.fleet, kind="hang", devices="dgx-1/0")
        watched.tick()
        cleared(watched.fleet, hang, ticks=0)
        watched.tick(2)
        assert watched.reasons() == {"dgx-1/0": "XID 48"}

    def test_other_vendors(self) -> None:
        watched = Watched(boards_of("amd-mi300x", nodes=2, devices=2))
        watched.inject(kind="lost", devices="dgx-1/0")
        assert watched.reasons() == {"dgx-1/0": "lost"}


class TestVendor:
    """Recovery as NVIDIA's plugin does it: not at all."""

    def test_stays(self) -> None:
        watched = Watched(recovery=Recovery.VENDOR)
        watched.inject(kind="lost", devices="dgx-1/0")
        assert watched.clear() == {}
        assert watched.reasons() == {"dgx-1/0": "XID 79"}
        assert watched.watch.restart_plugin("dgx-1") == NodeHealth()
        assert watched.watch.restart_plugin("dgx-1") is None
        assert watched.tick() == {}

    def test_plugin_sees_what_is(self) -> None:
        """A plugin that is started does not know of older XIDs, but sees that a device is lost."""
        watched = Watched(recovery=Recovery.VENDOR)
        watched.inject(kind="xid", code=48, devices="dgx-1/0")
        watched.inject(kind="lost", devices="dgx-1/1")
        watched.watch.restart_plugin("dgx-1")
        assert watched.reasons() == {"dgx-1/1": "lost"}
        assert watched.tick() == {}
        watched.inject(kind="xid", code=48, devices="dgx-1/0")
        assert watched.reasons()["dgx-1/0"] == "XID 48"

    def test_with_its_node(self) -> None:
        watched = Watched(recovery=Recovery.VENDOR)
        watched.inject(kind="xid", code=48, devices="dgx-1/0")
        down = inject(watched.fleet, kind="node-down", devices="dgx-1/0")
        watched.tick()
        cleared(watched.fleet, down, ticks=0)
        assert watched.tick() == {"dgx-1": NodeHealth()}


class TestInstances:
    def watched(self, strategy: MigStrategy) -> Watched:
        """A node of two A100 in two instances each."""
        return Watched(pool("a100", 2, "3g.20gb", "3g.20gb", strategy=strategy))

    def test_board(self) -> None:
        watched = self.watched(MigStrategy.SINGLE)
        watched.inject(kind="xid", code=48, devices="dgx-0/1")
        assert watched.reasons("dgx-0") == {"dgx-0/1/0": "XID 48", "dgx-0/1/1": "XID 48"}
        watched.inject(kind="reset", devices="dgx-0/1")
        assert watched.reasons("dgx-0") == {}

    def test_part(self) -> None:
        watched = self.watched(MigStrategy.MIXED)
        watched.inject(kind="xid", code=94, devices="dgx-0/1/1")
        assert watched.reasons("dgx-0") == {"dgx-0/1/1": "XID 94"}

    def test_lost(self) -> None:
        watched = self.watched(MigStrategy.SINGLE)
        watched.inject(kind="lost", devices="dgx-0/1/0")
        assert watched.reasons("dgx-0") == {"dgx-0/1/0": "lost"}
        watched.inject(kind="lost", devices="dgx-0/0")
        assert set(watched.reasons("dgx-0")) == {"dgx-0/0/0", "dgx-0/0/1", "dgx-0/1/0"}
        watched.clear()
        assert watched.reasons("dgx-0") == {}

    def test_offered_whole(self) -> None:
        watched = self.watched(MigStrategy.NONE)
        watched.inject(kind="xid", code=94, devices="dgx-0/1/1")
        assert watched.reasons("dgx-0") == {"dgx-0/1": "XID 94"}


class TestNodes:
    def test_down(self) -> None:
        watched = Watched()
        watched.inject(kind="xid", code=48, devices="dgx-1/0")
        found = watched.inject(kind="node-down", devices="dgx-1/0,dgx-2/0")
        assert {name: health.is_down for name, health in found.items()} == {"dgx-1": True, "dgx-2": True}
        assert watched.reasons() == {"dgx-1/0": "XID 48"}
        assert watched.clear() == {"dgx-1": NodeHealth(), "dgx-2": NodeHealth()}

    def test_plugin_down(self) -> None:
        watched = Watched()
        watched.inject(kind="xid", code=48, devices="dgx-1/0")
        (found,) = watched.inject(kind="plugin-down", devices="dgx-1/1").values()
        assert (found.plugin_is_down, found.is_down, len(found.unhealthy)) == (True, False, 1)
        assert watched.clear() == {"dgx-1": NodeHealth()}

    def test_kubelet_restart(self) -> None:
        watched = Watched()
        for count in (1, 2):
            (found,) = watched.inject(kind="kubelet-restart", devices="dgx-1/1").values()
            assert found == NodeHealth(kubelet_is_down=True, kubelet_restarts=count)
            assert watched.clear() == {"dgx-1": NodeHealth(kubelet_restarts=count)}

    def test_not_in_the_cluster(self) -> None:
        watched = Watched()
        known = watched.devices.pop("dgx-1")
        assert watched.inject(kind="lost", devices="dgx-1/0") == {}
        watched.devices["dgx-1"] = known
        assert watched.watch.refresh("dgx-1") is not None
        assert watched.reasons() == {"dgx-1/0": "XID 79"}

    def test_unknown(self) -> None:
        assert HealthWatch(nowhere).of("other") == NodeHealth()
        assert HealthWatch(nowhere).restart_plugin("other") is None


def reload(fleet: Fleet, *pools: PoolSpec) -> None:
    """Reload with other pools."""
    fleet.apply(Reload(CompiledFleet(FleetSpec(pools)), RecordHead("1", 0.0)))


def test_reload() -> None:
    watched = Watched()
    watched.inject(kind="link-down", devices="dgx-1/0")
    watched.clear()
    watched.inject(kind="xid", code=48, devices="dgx-1/1")
    watched.inject(kind="xid", code=31, devices="dgx-1/1")
    reload(watched.fleet, pool("t4", 3, name="aaa"), watched.fleet.spec.pools[0])
    assert watched.tick() == {}
    assert watched.reasons() == {"dgx-1/1": "XID 48"}


def test_nodes_come_and_go() -> None:
    """From an empty fleet on: what is known moves with its node, and a node that returns is as new."""
    spec = PoolSpec("gpu", (), catalog_type("h100"), 2, has_cluster_nodes=True)
    fleet = make_fleet(spec)
    watch = HealthWatch(lambda name: NodeDevices(1, spec, NodeSpec(name)), Recovery.VENDOR)

    def change(*joined: str, left: tuple[str, ...] = ()) -> dict[str, NodeHealth]:
        if joined or left:
            fleet.apply(ChangeNodes(tuple((name, "gpu") for name in joined), left))
        fleet.advance()
        return watch.observe(fleet)

    assert change() == {}
    assert change("m") == {}
    inject(fleet, kind="xid", code=48, devices="m/1")
    assert list(change()) == ["m"]
    assert change("a", "z") == {}
    assert list(watch.of("m").unhealthy.values()) == ["XID 48"]
    assert change(left=("m",)) == {}
    assert watch.ill == {}
    assert change("m") == {}
    assert watch.ill == {}


def test_ten_thousand() -> None:
    """A tick in which nothing changes costs the same for 10,000 boards as for 80: no board is looked at by itself."""

    def calls(nodes: int) -> int:
        fleet = make_fleet(boards_of("h100", nodes=nodes, devices=8))
        watch = HealthWatch(nowhere)
        inject(fleet, kind="xid", code=48, devices="dgx-7/*")
        advance(fleet, 1)
        watch.observe(fleet)
        advance(fleet, 1)
        return calls_in(lambda: watch.observe(fleet))

    assert calls(1250) == calls(10)


def test_devices_of_replicas() -> None:
    """A shared board is unhealthy once, for all its replicas."""
    spec = pool("t4", 2, replicas=4)
    fleet = make_fleet(spec)
    watch = HealthWatch({"dgx-0": node_of(spec)}.get)
    inject(fleet, kind="xid", code=48, devices="dgx-0/1")
    advance(fleet, 1)
    assert len(watch.observe(fleet)["dgx-0"].unhealthy) == 1


NODES = st.sampled_from(("dgx-0/0", "dgx-1/1"))
DEVICES = st.sampled_from(("dgx-0/0", "dgx-1/1", "dgx-1/0", "dgx-2/*"))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("xid", "lost", "hang", "link-down", "reset")), DEVICES),
        st.tuples(st.sampled_from(("node-down", "plugin-down", "kubelet-restart", "plugin restarted")), NODES),
        st.tuples(st.sampled_from(("clear", "tick")), st.just("")),
    ),
    max_size=12,
)


@settings(max_examples=examples(100), deadline=None)
@given(STEPS, st.sampled_from(Recovery), st.data())
def test_one_that_goes_on_tells_the_same(steps: list[tuple[str, str]], recovery: Recovery, data: st.DataObject) -> None:
    """After any restarts, in each tick, whatever has happened, with what is in no state of a fleet."""
    watched = Watched(recovery=recovery)
    other = gone_on(watched, watched.watch, recovery)
    for what, where in steps:
        if what == "plugin restarted":
            node = where.partition("/")[0]
            assert watched.watch.restart_plugin(node) == other.restart_plugin(node)
        else:
            if what == "clear":
                told = watched.clear()
            elif what == "tick":
                told = watched.tick()
            else:
                fields = {"code": 48} if what == "xid" else {}
                told = watched.inject(kind=what, devices=where, **fields)
            is_killed_before = data.draw(st.booleans())
            if is_killed_before:  # the service was killed when it had not looked at the tick
                other = gone_on(watched, other, recovery)
            else:
                assert other.observe(watched.fleet) == told
        assert other.ill == watched.watch.ill
        if data.draw(st.booleans()):
            other = gone_on(watched, other, recovery)
            assert other.ill == watched.watch.ill


def gone_on(watched: Watched, watch: HealthWatch, recovery: Recovery) -> HealthWatch:
    """A watch that goes on from the text of another one."""
    following = HealthWatch(watched.devices.get, recovery)
    following.go_on(watched.fleet, read_health(health_record(watch.known(), {}, {}), watched.fleet.roster))
    return following


def test_what_is_known_stays() -> None:
    """Nothing that comes later changes it: so whoever has written it sees that there is something to write."""
    watched = Watched()
    watched.inject(kind="xid", code=48, devices="dgx-1/1")
    known = watched.watch.known()
    text = health_record(known, {}, {})
    watched.watch.restart_plugin("dgx-1")
    assert health_record(known, {}, {}) == text != health_record(watched.watch.known(), {}, {})


def test_parts() -> None:
    watched = Watched(pool("a100", 2, "3g.20gb", "3g.20gb", strategy=MigStrategy.MIXED))
    watched.inject(kind="xid", code=94, devices="dgx-0/1/1")
    assert gone_on(watched, watched.watch, Recovery.AUTO).ill == watched.watch.ill != {}


def test_nodes_that_have_left() -> None:
    watched, fewer = Watched(), Watched(boards_of("h100", nodes=2, devices=1))
    watched.inject(kind="xid", code=48, devices="all")
    known = read_health(health_record(watched.watch.known(), {}, {}), fewer.fleet.roster)
    assert (list(known.nodes), known.codes.tolist()) == (["dgx-0", "dgx-1"], [48, 48])


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"form": 2}',
        '{"form":1,"tick":1,"units":{"a":[1,1,1]},"nodes":{}}',
        '{"form":1,"tick":1,"units":{"dgx-0/0":[1]},"nodes":[]}',
        '{"form":1,"tick":1,"units":{},"nodes":{"dgx-0":{"x":1}}}',
    ],
)  # fmt: skip
def test_another_text(text: str) -> None:
    with pytest.raises(NoHealth, match=r"it is no record of the health of devices|its form is 2"):
        read_health(text, Watched().fleet.roster)
