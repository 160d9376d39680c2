"""What a cluster sees of devices: XIDs, lost and hanging boards, nodes that are down, and how they recover."""

from __future__ import annotations

import time

import pytest

from fakedev.kube.devices import NodeDevices
from fakedev.kube.health import HARMLESS_XIDS, HealthWatch, NodeHealth
from fakedev.sim.compiled import CompiledFleet
from fakedev.sim.events import ChangeNodes, Reload
from fakedev.sim.fleet import Fleet
from fakedev.spec.fleet import FleetSpec, NodeSpec, PoolSpec
from fakedev.spec.kubernetes import MigStrategy, Recovery
from fakedev.spec.record_head import RecordHead
from tests.kube.objects import node_of, pool
from tests.kube.watched import Watched
from tests.support.calibration import catalog_type
from tests.support.faulty_fleets import boards_of, cleared, inject
from tests.support.fleets import advance, make_fleet


def nowhere(_node: str) -> NodeDevices | None:
    """A cluster without nodes."""
    return None


class TestXids:
    """Errors that drivers report."""

    def test_board(self) -> None:
        """One board of one node, once."""
        watched = Watched()
        assert set(watched.inject(kind="xid", code=48, devices="dgx-1/1")) == {"dgx-1"}
        assert watched.reasons() == {"dgx-1/1": "XID 48"}
        assert watched.tick(3) == {}
        assert list(watched.watch.ill) == ["dgx-1"]

    @pytest.mark.parametrize("code", HARMLESS_XIDS)
    def test_of_applications(self, code: int) -> None:
        """These leave a device healthy."""
        assert Watched().inject(kind="xid", code=code, devices="all") == {}

    def test_one_after_the_other(self) -> None:
        """A harmless one does not heal; another harmful one is told."""
        watched = Watched()
        watched.inject(kind="xid", code=48, devices="dgx-1/1")
        assert watched.inject(kind="xid", code=31, devices="dgx-1/1") == {}
        assert watched.reasons() == {"dgx-1/1": "XID 48"}
        watched.inject(kind="xid", code=63, devices="dgx-1/1")
        assert watched.reasons() == {"dgx-1/1": "XID 63"}

    def test_reset(self) -> None:
        """A reset clears it."""
        watched = Watched()
        watched.inject(kind="xid", code=48, devices="dgx-1/1")
        assert watched.inject(kind="reset", devices="dgx-1/1") == {"dgx-1": NodeHealth()}
        assert watched.watch.ill == {}

    @pytest.mark.parametrize("fields", [{"kind": "xid", "code": 79}, {"kind": "lost"}, {"kind": "xid", "code": 119}])
    def test_lasting(self, fields: dict[str, object]) -> None:
        """When the fault is cleared, the device returns."""
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
        """A board that hangs is unhealthy as long as it does."""
        watched = Watched()
        watched.inject(kind="hang", devices="dgx-1/0")
        assert watched.reasons() == {"dgx-1/0": "hangs"}
        watched.clear()
        assert watched.reasons() == {}

    def test_hang_leaves_an_xid(self) -> None:
        """The end of a hang does not heal an XID."""
        watched = Watched()
        watched.inject(kind="xid", code=48, devices="dgx-1/0")
        hang = inject(watched.fleet, kind="hang", devices="dgx-1/0")
        watched.tick()
        cleared(watched.fleet, hang, ticks=0)
        watched.tick(2)
        assert watched.reasons() == {"dgx-1/0": "XID 48"}

    def test_other_vendors(self) -> None:
        """Their boards may be lost, without an XID."""
        watched = Watched(boards_of("amd-mi300x", nodes=2, devices=2))
        watched.inject(kind="lost", devices="dgx-1/0")
        assert watched.reasons() == {"dgx-1/0": "lost"}


class TestVendor:
    """Recovery as NVIDIA's plugin does it: not at all."""

    def test_stays(self) -> None:
        """Until the plugin is started again."""
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
        """A node that returns has started its plugin."""
        watched = Watched(recovery=Recovery.VENDOR)
        watched.inject(kind="xid", code=48, devices="dgx-1/0")
        down = inject(watched.fleet, kind="node-down", devices="dgx-1/0")
        watched.tick()
        cleared(watched.fleet, down, ticks=0)
        assert watched.tick() == {"dgx-1": NodeHealth()}


class TestInstances:
    """Instances of divided boards."""

    def watched(self, strategy: MigStrategy) -> Watched:
        """A node of two A100 in two instances each."""
        return Watched(pool("a100", 2, "3g.20gb", "3g.20gb", strategy=strategy))

    def test_board(self) -> None:
        """An XID on a board concerns all its instances."""
        watched = self.watched(MigStrategy.SINGLE)
        watched.inject(kind="xid", code=48, devices="dgx-0/1")
        assert watched.reasons("dgx-0") == {"dgx-0/1/0": "XID 48", "dgx-0/1/1": "XID 48"}
        watched.inject(kind="reset", devices="dgx-0/1")
        assert watched.reasons("dgx-0") == {}

    def test_part(self) -> None:
        """One on an instance only that."""
        watched = self.watched(MigStrategy.MIXED)
        watched.inject(kind="xid", code=94, devices="dgx-0/1/1")
        assert watched.reasons("dgx-0") == {"dgx-0/1/1": "XID 94"}

    def test_lost(self) -> None:
        """A lost instance, and a lost board with all of them."""
        watched = self.watched(MigStrategy.SINGLE)
        watched.inject(kind="lost", devices="dgx-0/1/0")
        assert watched.reasons("dgx-0") == {"dgx-0/1/0": "lost"}
        watched.inject(kind="lost", devices="dgx-0/0")
        assert set(watched.reasons("dgx-0")) == {"dgx-0/0/0", "dgx-0/0/1", "dgx-0/1/0"}
        watched.clear()
        assert watched.reasons("dgx-0") == {}

    def test_offered_whole(self) -> None:
        """Where the board is offered as a whole, it is unhealthy with its instance."""
        watched = self.watched(MigStrategy.NONE)
        watched.inject(kind="xid", code=94, devices="dgx-0/1/1")
        assert watched.reasons("dgx-0") == {"dgx-0/1": "XID 94"}


class TestNodes:
    """Whole nodes."""

    def test_down(self) -> None:
        """The node is down; of its devices nothing new is known."""
        watched = Watched()
        watched.inject(kind="xid", code=48, devices="dgx-1/0")
        found = watched.inject(kind="node-down", devices="dgx-1/0,dgx-2/0")
        assert {name: health.is_down for name, health in found.items()} == {"dgx-1": True, "dgx-2": True}
        assert watched.reasons() == {"dgx-1/0": "XID 48"}
        assert watched.clear() == {"dgx-1": NodeHealth(), "dgx-2": NodeHealth()}

    def test_plugin_down(self) -> None:
        """The plugin is gone, and when it is back it knows of no older XID."""
        watched = Watched()
        watched.inject(kind="xid", code=48, devices="dgx-1/0")
        (found,) = watched.inject(kind="plugin-down", devices="dgx-1/1").values()
        assert (found.plugin_is_down, found.is_down, len(found.unhealthy)) == (True, False, 1)
        assert watched.clear() == {"dgx-1": NodeHealth()}

    def test_kubelet_restart(self) -> None:
        """Each is counted, and seen as long as it lasts."""
        watched = Watched()
        for count in (1, 2):
            (found,) = watched.inject(kind="kubelet-restart", devices="dgx-1/1").values()
            assert found == NodeHealth(kubelet_is_down=True, kubelet_restarts=count)
            assert watched.clear() == {"dgx-1": NodeHealth(kubelet_restarts=count)}

    def test_not_in_the_cluster(self) -> None:
        """Nodes that the cluster does not have are no matter, until it has them."""
        watched = Watched()
        known = watched.devices.pop("dgx-1")
        assert watched.inject(kind="lost", devices="dgx-1/0") == {}
        watched.devices["dgx-1"] = known
        assert watched.watch.refresh("dgx-1") is not None
        assert watched.reasons() == {"dgx-1/0": "XID 79"}

    def test_unknown(self) -> None:
        """A node without a fleet is healthy."""
        assert HealthWatch(nowhere).of("other") == NodeHealth()
        assert HealthWatch(nowhere).restart_plugin("other") is None


def reload(fleet: Fleet, *pools: PoolSpec) -> None:
    """Reload with other pools."""
    fleet.apply(Reload(CompiledFleet(FleetSpec(pools)), RecordHead("1", 0.0)))


def test_reload() -> None:
    """What is known follows the nodes to their new positions."""
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
    watch = HealthWatch(lambda name: NodeDevices.of(1, spec, NodeSpec(name)), Recovery.VENDOR)

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
    """A tick in which nothing changes takes less than a millisecond for 10,000 boards."""
    fleet = make_fleet(boards_of("h100", nodes=1250, devices=8))
    watch = HealthWatch(nowhere)
    inject(fleet, kind="xid", code=48, devices="dgx-7/*")
    advance(fleet, 1)
    watch.observe(fleet)
    advance(fleet, 1)
    times = []
    for _ in range(20):
        begin = time.process_time()
        watch.observe(fleet)
        times.append(time.process_time() - begin)
    assert min(times) < 0.001


def test_devices_of_replicas() -> None:
    """A shared board is unhealthy once, for all its replicas."""
    spec = pool("t4", 2, replicas=4)
    fleet = make_fleet(spec)
    watch = HealthWatch({"dgx-0": node_of(spec)}.get)
    inject(fleet, kind="xid", code=48, devices="dgx-0/1")
    advance(fleet, 1)
    assert len(watch.observe(fleet)["dgx-0"].unhealthy) == 1
