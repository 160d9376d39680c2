"""A topology of run-ai's fake-gpu-operator as values: its node pools, its nodes, and who uses their GPUs.

Source: the ConfigMaps of fake-gpu-operator 0.0.4 to 0.2.0, and the design document of its first version.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from fakedev.spec.kubernetes import OPERATOR_NODE_LABEL, MigStrategy

#: Bytes of the unit of ``gpuMemory`` and ``fbUsed``.
MIB: Final = 2**20
#: GPUs of a pool that names a profile and no number: as the operator's own profiles have.
GPUS_OF_PROFILE: Final = 8
#: Words of product names that say nothing about the model.
_MAKERS: Final = frozenset(("nvidia", "tesla", "amd", "instinct", "intel", "gpu"))
_SEPARATORS: Final = re.compile(r"[\s_/-]+")
#: A model, as a100, l40s or gb200; not a size (80gb), a form (sxm5) or a kind of memory (hbm3).
_MODEL: Final = re.compile(r"(?!sxm|hbm|pcie|gddr)[a-z]{1,4}[0-9]{1,4}[a-z]{0,3}")


@dataclass(frozen=True)
class GpuUse:
    """What a pod does with a GPU.

    :param utilization: percent, the lowest and the highest.
    :param fb_used_mib: memory that it holds.
    :param uid: of the pod; empty: unknown.
    """

    namespace: str = ""
    pod: str = ""
    container: str = ""
    utilization: tuple[float, float] = (0.0, 0.0)
    fb_used_mib: float = 0.0
    uid: str = ""

    @property
    def name(self) -> str:
        """``NAMESPACE/POD/CONTAINER``, without parts that are unknown; else the UID."""
        return "/".join(filter(None, (self.namespace, self.pod, self.container))) or self.uid or "unknown"


@dataclass(frozen=True)
class TopologyGpu:
    """A GPU of a node.

    :param id: its UUID, or another text, without ``GPU-``; empty: none was given.
    """

    id: str = ""
    uses: tuple[GpuUse, ...] = ()
    numa_node: int | None = None


@dataclass(frozen=True)
class Board:
    """What kind of board GPUs are.

    :param product: as ``NVIDIA-A100-SXM4-80GB``; empty: see ``profile``.
    :param memory_mib: 0: that of the device type.
    :param profile: of the newer form: ``h100``, ``a100``; empty for none.
    """

    product: str = ""
    memory_mib: int = 0
    profile: str = ""
    driver_version: str = ""
    cuda_version: str = ""


@dataclass(frozen=True)
class TopologyPool:
    """A pool of nodes with the same GPUs.

    :param count: GPUs of each node.
    :param numa: the NUMA node of each GPU; empty: unknown.
    :param others: further resources of each node, by name, as ``rdma/hca``.
    :param nodes: the names of its nodes where there is no cluster.
    """

    name: str
    board: Board
    count: int
    numa: tuple[int, ...] = ()
    others: Mapping[str, int] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TopologyNode:
    """A single node with its GPUs."""

    name: str
    board: Board
    gpus: tuple[TopologyGpu, ...]
    others: Mapping[str, int] = field(default_factory=dict)

    def workloads(self) -> Iterator[tuple[int, str, GpuUse]]:
        """The index of a GPU, the name of a workload on it, and what that does.

        Pods that a file gives one owner, as those that share a GPU by a reservation, differ by a number.
        """
        numbers: dict[str, dict[str, int]] = {}
        for index, gpu in enumerate(self.gpus):
            for use in gpu.uses:
                own = numbers.setdefault(use.name, {})
                number = own.setdefault(use.uid, len(own))
                yield index, f"{use.name}#{number + 1}" if number else use.name, use


@dataclass(frozen=True)
class Topology:
    """All that a topology says.

    :param label_key: the node label whose value names the pool.
    """

    pools: tuple[TopologyPool, ...] = ()
    nodes: tuple[TopologyNode, ...] = ()
    label_key: str = OPERATOR_NODE_LABEL
    mig_strategy: MigStrategy = MigStrategy.NONE

    def others(self, pool: str) -> Mapping[str, int]:
        """The further resources of each node of a pool; a single node is a pool of its own."""
        return self._others.get(pool, {})

    @cached_property
    def _others(self) -> Mapping[str, Mapping[str, int]]:
        single = {node.name: node.others for node in self.nodes}
        return single | {pool.name: pool.others for pool in self.pools}


@dataclass(frozen=True)
class KnownBoard:
    """A device type of the catalog, by its name there."""

    name: str
    product: str
    memory_mib: float
    vendor: str = "NVIDIA"


@dataclass(frozen=True)
class NearestBoard:
    """The known board that is most like a wanted one.

    :param is_model: whether it is of the same model, perhaps in another form or with other memory.
    :param is_same: whether it is that very product.
    """

    board: KnownBoard
    is_model: bool
    is_same: bool


def nearest_board(wanted: Board, known: Iterable[KnownBoard]) -> NearestBoard:
    """The board of the catalog for a product name of any spelling, or for a profile.

    The same product comes first, then the same model, then NVIDIA's board with the nearest memory, or with the most
    where no memory is given: what the catalog lacks is mostly newer.

    :param known: at least one.
    """
    words = _words(wanted.product or wanted.profile)

    def likeness(board: KnownBoard) -> tuple[bool, int, bool, float, int, str]:
        own = _words(board.product)
        models = len(_models(words) & _models(own))
        distance = 0.0 if models else -board.memory_mib
        if wanted.memory_mib and board.memory_mib:
            distance = abs(math.log2(wanted.memory_mib / board.memory_mib))
        # The order of the last two is only for a choice that is always the same.
        return own != words, -models, board.vendor != "NVIDIA", distance, -len({*words} & {*own}), board.name

    best = min(known, key=likeness)
    own = _words(best.product)
    return NearestBoard(best, bool(_models(words) & _models(own)), own == words)


def numa_nodes(count: int, zones: int, per_zone: Sequence[int] = ()) -> tuple[int, ...]:
    """The NUMA node of each GPU: blocks in order, the first ones larger by one where they cannot be equal.

    :param per_zone: GPUs of each zone, if they are given.
    :raises ValueError: when these are not as many zones, or not as many GPUs.
    """
    if not zones:
        return ()
    if per_zone and (len(per_zone) != zones or sum(per_zone) != count):
        raise ValueError(f"gpusPerZone must have {zones} numbers with the sum {count}, as zones and GPUs are")
    sizes = per_zone or [count // zones + (zone < count % zones) for zone in range(zones)]
    return tuple(zone for zone, size in enumerate(sizes) for _ in range(size))


def _words(product: str) -> tuple[str, ...]:
    return tuple(word for word in _SEPARATORS.split(product.casefold()) if word and word not in _MAKERS)


def _models(words: Iterable[str]) -> frozenset[str]:
    return frozenset(word for word in words if _MODEL.fullmatch(word))
