"""The devices that a node offers to pods: the ids and resources of the vendors' device plugins.

The ids contain the UUIDs that pages show. Sources: the plugins' documentation, as of 2026 (doc/kubernetes.md).

Where the strategy ``single`` cannot be followed NVIDIA's plugin refuses to start, so that the node has none of its
resources (NVIDIA/k8s-device-plugin, internal/rm/device_map.go: assertAllMigDevicesAreValid), and feature discovery
labels the node ``-MIG-INVALID`` (internal/lm/mig-strategy.go there).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from fakedev.fleet.entities.naming import device_facts, part_facts
from fakedev.fleet.spec.fleet_spec import NodeSpec, PoolSpec
from fakedev.fleet.spec.offers import MigStrategy

#: NVIDIA's resources.
GPU: Final = "nvidia.com/gpu"
MIG_PREFIX: Final = "nvidia.com/mig-"
_AMD: Final = "amd.com/gpu"
#: The resource of boards by how the name of their vendor begins.
_OF_VENDORS: Final[Mapping[str, str]] = {
    "NVIDIA": GPU, "AMD": _AMD, "Intel": "gpu.intel.com/xe", "Habana": "habana.ai/gaudi",
    "Amazon": "aws.amazon.com/neuron", "cloud-tpu": "google.com/tpu", "Google": "google.com/tpu",
    "Huawei": "huawei.com/Ascend910",
}  # fmt: skip
#: Intel's boards with the kernel's driver i915: Iris Xe MAX, Flex and Max.
_OF_I915: Final = "gpu.intel.com/i915"
_I915: Final = ("Iris", "Center GPU Flex", "Center GPU Max")
#: Between a device's id and the number of its replica.
REPLICA: Final = "::"
_SHARED: Final = ".shared"


@dataclass(frozen=True, slots=True)
class Slot:
    """One unit of a resource: what one pod can be given.

    :param resource: as in a container's limits: ``nvidia.com/gpu``, ``nvidia.com/mig-1g.10gb``.
    :param id: of the device plugin: ``GPU-UUID``, ``MIG-UUID``; ``GPU-UUID::2`` when it is shared.
    :param index: of the board on its node.
    :param part: of the board; None: the whole board.
    :param numa_node: of the board; None: unknown.
    """

    resource: str
    id: str
    index: int
    part: int | None = None
    numa_node: int | None = None

    @property
    def device_id(self) -> str:
        """The id without the number of a replica."""
        return self.id.partition(REPLICA)[0]

    def word(self, node: str) -> str:
        """The device word of workloads and faults: ``dgx-0/3``, ``dgx-0/3/1`` for a part."""
        return f"{node}/{self.index}" if self.part is None else f"{node}/{self.index}/{self.part}"


@dataclass(frozen=True)
class NodeDevices:
    """A node's devices with all their facts, as its pages show them.

    :param seed: of the fleet, which decides UUIDs and serial numbers.
    """

    seed: int
    pool: PoolSpec
    node: NodeSpec

    @property
    def name(self) -> str:
        return self.node.name

    @cached_property
    def boards(self) -> Sequence[Mapping[str, str]]:
        """The facts of each board, in order of index."""
        return [device_facts(self.seed, self.pool, self.node, index) for index in range(self.pool.devices_per_node)]

    @cached_property
    def parts(self) -> Sequence[Sequence[Mapping[str, str]]]:
        """The facts of each part of each board."""
        return [
            [part_facts(self.seed, self.name, index, number, part) for number, part in enumerate(of_board)]
            for index, of_board in enumerate(map(self.pool.parts_of, range(self.pool.devices_per_node)))
        ]

    def drop_facts(self) -> None:
        """Free the memory of the facts, 18 kB of 8 boards; they are made again when somebody needs them."""
        self.__dict__.pop("boards", None)
        self.__dict__.pop("parts", None)

    @property
    def is_nvidia(self) -> bool:
        return self._vendor.startswith("NVIDIA")

    @property
    def is_amd(self) -> bool:
        return self._vendor.startswith("AMD")

    def has_instances(self, index: int) -> bool:
        """Whether a board is divided into instances (MIG)."""
        return any(not part.is_tile for part in self.pool.parts_of(index))

    def is_mig_on(self, index: int) -> bool:
        """Whether a board is in MIG mode; one without instances is empty then, and of no use."""
        return self.has_instances(index) or self.boards[index].get("mig_mode") == "1"

    @cached_property
    def mig_problem(self) -> str:
        """Why the strategy ``single`` cannot be followed, in words; empty where it can, or is not wanted.

        All boards must be in MIG mode, none empty, with instances of one profile; how many of them may differ.
        """
        indices = range(len(self.boards))
        modes = {self.is_mig_on(index) for index in indices}
        if self.pool.in_cluster.mig_strategy is not MigStrategy.SINGLE or modes <= {False}:
            return ""
        if not all(map(self.has_instances, filter(self.is_mig_on, indices))):
            return "a GPU in MIG mode has no instances"
        if len(modes) > 1:
            return "some GPUs are in MIG mode, and some are not"
        profiles = sorted({facts.get("mig_profile", "") for parts in self.parts for facts in parts})
        return f"instances of several profiles: {', '.join(profiles)}" if len(profiles) > 1 else ""

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """All slots of the node: boards in order of index, instances and replicas below each."""
        strategy = self.pool.in_cluster.mig_strategy
        if self.problem:
            return ()
        found: list[Slot] = []
        for index in range(len(self.boards)):
            if (strategy is MigStrategy.NONE and self.is_nvidia) or not self.is_mig_on(index):
                found.append(self._board(index))  # with the strategy none a divided board is offered as a whole
            else:
                found += self._instances(index, strategy)
        return tuple(replica for slot in found for replica in self._replicas(slot))

    def _board(self, index: int) -> Slot:
        facts = self.boards[index]
        prefix = "GPU-" if self.is_nvidia else ""
        return Slot(self._resource, f"{prefix}{facts['uuid']}", index, None, numa_node(facts))

    def _instances(self, index: int, strategy: MigStrategy) -> list[Slot]:
        zone = numa_node(self.boards[index])
        found = []
        for number, facts in enumerate(self.parts[index]):
            of_profile = MIG_PREFIX + facts.get("mig_profile", "").replace("+", ".")
            if not self.is_nvidia:  # a partition is one more device of the usual kind
                found.append(Slot(self._resource, facts["part_uuid"], index, number, zone))
                continue
            resource = of_profile if strategy is MigStrategy.MIXED else GPU
            found.append(Slot(resource, f"MIG-{facts['part_uuid']}", index, number, zone))
        return found

    def _replicas(self, slot: Slot) -> list[Slot]:
        sharing = self.pool.in_cluster
        if sharing.replicas == 1:
            return [slot]
        resource = f"{slot.resource}{_SHARED}" if sharing.is_renamed else slot.resource
        return [
            Slot(resource, f"{slot.id}{REPLICA}{number}", slot.index, slot.part, slot.numa_node)
            for number in range(sharing.replicas)
        ]

    @property
    def _resource(self) -> str:
        """Empty: unknown."""
        if self.pool.in_cluster.resource:
            return self.pool.in_cluster.resource
        if self._vendor.startswith("Intel") and any(word in self.boards[0].get("product_name", "") for word in _I915):
            return _OF_I915
        return next((name for begin, name in _OF_VENDORS.items() if self._vendor.startswith(begin)), "")

    @property
    def _vendor(self) -> str:
        return self.pool.device_type.facts.get("vendor", "NVIDIA")

    @property
    def problem(self) -> str:
        """Why the node offers nothing to a device plugin, with the remedy; empty: it does."""
        if self.mig_problem:
            return f"mig-strategy single cannot be followed: {self.mig_problem}; it offers no devices"
        if self.pool.devices_per_node and not self._resource:
            remedy = "give its pool resource: DOMAIN/NAME"
            return f"no device plugin of {self._vendor} is known; it offers no devices: {remedy}"
        return ""


def is_nvidia_resource(resource: str) -> bool:
    """Whether NVIDIA's device plugin serves a resource: GPUs and MIG instances, not others of the same domain."""
    return resource.removesuffix(_SHARED) == GPU or resource.startswith(MIG_PREFIX)


def numa_node(facts: Mapping[str, str]) -> int | None:
    """The NUMA node of a board; None: unknown."""
    text = facts.get("numa_node", "")
    return int(text) if text.isdecimal() else None
