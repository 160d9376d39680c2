"""Boards of fake-gpu-operator's topologies by their product names, NUMA nodes, names of workloads."""

from __future__ import annotations

import pytest

from fakedev.config.schema.files import Files
from fakedev.config.topology_tree import known_boards
from fakedev.kube.topology import Board, GpuUse, TopologyGpu, TopologyNode, nearest_board, numa_nodes

KNOWN = known_boards(Files())


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("NVIDIA-A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm4-40gb"),
        ("NVIDIA-H100-80GB-HBM3", "h100-sxm5-80gb"),
        ("Tesla-T4", "t4-16gb"),
        ("nvidia_l40s", "l40s-48gb"),
    ],
)
def test_the_same_product(product: str, name: str) -> None:
    """Any spelling of a product of the catalog is that board."""
    nearest = nearest_board(Board(product, 1), KNOWN)
    assert (nearest.board.name, nearest.is_same) == (name, True)


@pytest.mark.parametrize(
    ("product", "memory_mib", "name"),
    [
        ("NVIDIA-A100-PCIE-40GB", 40960, "a100-sxm4-40gb"),
        ("NVIDIA-A100-PCIE-80GB", 81920, "a100-sxm4-80gb"),
        ("NVIDIA-H200-141GB-HBM3e", 143360, "h200-sxm-141gb"),
        ("Custom H100", 0, "h100-sxm5-80gb"),
        ("Tesla-V100", 16160, "v100-sxm2-16gb"),
        ("Tesla-V100", 32510, "v100-sxm2-32gb"),
        ("NVIDIA-B200-192GB-HBM3e", 196608, "b200-sxm-180gb"),
    ],
)
def test_the_same_model(product: str, memory_mib: int, name: str) -> None:
    """Another form of a model is the board of that model, with the nearest memory."""
    nearest = nearest_board(Board(product, memory_mib), KNOWN)
    assert (nearest.board.name, nearest.is_model, nearest.is_same) == (name, True, False)


@pytest.mark.parametrize(
    ("product", "memory_mib", "name"),
    [
        ("NVIDIA-B300-288GB-HBM3e", 294912, "gb200-186gb"),
        ("NVIDIA RTX A6000", 49140, "l40s-48gb"),
        ("NVIDIA B300", 0, "gb200-186gb"),
    ],
)
def test_an_unknown_product(product: str, memory_mib: int, name: str) -> None:
    """It is NVIDIA's board with the nearest memory; with the most, where no memory is given."""
    nearest = nearest_board(Board(product, memory_mib), KNOWN)
    assert (nearest.board.name, nearest.is_model, nearest.is_same) == (name, False, False)


def test_a_profile() -> None:
    """A profile of the newer form names a model."""
    assert nearest_board(Board(profile="h100"), KNOWN).board.name == "h100-sxm5-80gb"
    assert nearest_board(Board(profile="a100"), KNOWN).is_model


def test_the_whole_catalog_is_known() -> None:
    """Every device type with a product name is found, with its memory."""
    assert {board.name for board in KNOWN} >= {"h100-sxm5-80gb", "amd-mi300x", "t4-16gb"}
    assert all(board.memory_mib > 1000 and board.vendor for board in KNOWN)


def test_numa_nodes() -> None:
    """Blocks of GPUs, the first ones larger; or as given."""
    assert numa_nodes(8, 2) == (0, 0, 0, 0, 1, 1, 1, 1)
    assert numa_nodes(5, 2) == (0, 0, 0, 1, 1)
    assert numa_nodes(4, 2, [3, 1]) == (0, 0, 0, 1)
    assert numa_nodes(4, 0) == ()
    for per_zone in ([4], [3, 2]):
        with pytest.raises(ValueError, match="2 numbers with the sum 4"):
            numa_nodes(4, 2, per_zone)


def test_names_of_workloads() -> None:
    """Pods that share a GPU under one owner are told apart by a number; a pod on two GPUs keeps its name."""
    one, two = (GpuUse("ns", "p", "c", (0, 10), 100, uid) for uid in ("uid-1", "uid-2"))
    node = TopologyNode("a", Board("x"), (TopologyGpu(uses=(one, two)), TopologyGpu(uses=(one,)), TopologyGpu()))
    assert [(index, name) for index, name, _ in node.workloads()] == [(0, "ns/p/c"), (0, "ns/p/c#2"), (1, "ns/p/c")]
    assert GpuUse(uid="uid-1").name == "uid-1"
