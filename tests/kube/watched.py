"""A fleet whose health is followed, as a cluster sees it."""

from __future__ import annotations

from fakedev.kube.devices import NodeDevices
from fakedev.kube.health import HealthWatch, NodeHealth
from fakedev.spec.fleet import PoolSpec
from fakedev.spec.kubernetes import Recovery
from tests.support.faulty_fleets import boards_of, cleared, inject
from tests.support.fleets import make_fleet


class Watched:
    """A fleet whose health is followed, tick by tick."""

    def __init__(self, spec: PoolSpec | None = None, recovery: Recovery = Recovery.AUTO) -> None:
        self.fleet = make_fleet(spec or boards_of("h100", nodes=3, devices=2))
        pools = self.fleet.spec.pools
        self.devices = {
            each.name: NodeDevices.of(self.fleet.spec.seed, own, each) for own in pools for each in own.nodes
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
