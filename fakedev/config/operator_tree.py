"""A topology of fake-gpu-operator as a part of a configuration: its pools, and workloads for the pods on its GPUs.

What is made goes through the ordinary loader, so it is checked, printed and recorded like anything that is written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fakedev.base.units import parse_size
from fakedev.config.overrides import with_value
from fakedev.fleet.spec.known_boards import Board, KnownBoard, nearest_board
from fakedev.fleet.spec.offers import MigStrategy
from fakedev.kubernetes.runai.operator import MIB, GpuUse, Topology, TopologyGpu
from fakedev.kubernetes.runai.operator_files import LoadedTopology, read_topology
from fakedev.schema.files import Files, Unreadable, absolute
from fakedev.schema.places import Listing, Node, Place, Report, Scalar, Table

KEY: Final = "topology"
#: The exporter whose pages the nodes have: the operator's own.
_IDENTITY: Final = "run-ai@0.2"
_DEVICES: Final = "devices"
#: Lines of the catalog's device types; a whole reading of all of them takes ten times as long.
_FACT: Final = re.compile(r"^  (product_name|vendor): (.*)$", re.MULTILINE)
_TOTAL: Final = re.compile(r"^memory: \{total: ([0-9A-Za-z]{1,20})", re.MULTILINE)


def with_topology(tree: Node, path: str | None, files: Files, report: Report) -> tuple[Node, Topology | None]:
    """The tree with the pools and workloads of the topology that it names; the same tree when it names none.

    :param path: of the configuration; a relative path of a topology begins at its folder.
    """
    named = tree.get(KEY) if isinstance(tree, Table) else None
    if not isinstance(named, Scalar) or named.is_null or not named.text:
        return tree, None
    folder = os.path.dirname(os.path.abspath(path)) if path else os.getcwd()
    shown = os.path.normpath(os.path.join(os.path.dirname(path or ""), named.text))
    try:
        text = files.read(absolute(named.text, folder))
    except Unreadable as error:
        place = Place(shown, error.line) if error.line else named.place
        report.problem(place, f"{'' if error.line else f'topology {shown}: '}{error}")
        return tree, None
    loaded = read_topology(text, shown, report)
    if loaded is None:
        return tree, None
    parts = _Parts(loaded, known_boards(files), report)
    in_cluster = isinstance(tree, Table) and tree.get("kubernetes") is not None
    tree = with_value(tree, ("fleet", "pools"), _listing(parts.pools(in_cluster=in_cluster), shown))
    return with_value(tree, ("workloads", "base"), _listing(parts.workloads(), shown)), loaded.topology


def known_boards(files: Files) -> tuple[KnownBoard, ...]:
    """The device types of the catalog by product name, vendor and memory."""
    known = []
    for file in files.catalog_names(_DEVICES):
        text = files.peek_catalog(_DEVICES, file)
        # The sources at the end of a file have the same names.
        facts = {name: value.strip(" \"'") for name, value in reversed(_FACT.findall(text))}
        total = _TOTAL.search(text)
        if "product_name" in facts:
            memory = parse_size(total[1]) / MIB if total else 0.0
            name = file.removesuffix(".yaml")
            known.append(KnownBoard(name, facts["product_name"], memory, facts.get("vendor", "")))
    return tuple(known)


class _Parts:
    """Makes the parts of a configuration; each part has the place of what it was made from."""

    def __init__(self, loaded: LoadedTopology, known: Sequence[KnownBoard], report: Report) -> None:
        self._topology = loaded.topology
        self._places = {**loaded.pools, **{f"{name}/": place for name, place in loaded.nodes.items()}}
        self._known = known
        self._report = report

    def pools(self, *, in_cluster: bool) -> Iterator[Node]:
        """The pools of the topology, then one pool for each single node."""
        for pool in self._topology.pools:
            place = self._places[pool.name]
            devices = [_device(index, TopologyGpu(numa_node=zone)) for index, zone in enumerate(pool.numa)]
            nodes: str | list[str] = "cluster" if in_cluster else list(pool.nodes)
            yield _node(self._pool(pool.name, nodes, pool.board, pool.count, devices, place), place)
        names = {pool.name for pool in self._topology.pools}
        for node in self._topology.nodes:
            place = self._places[f"{node.name}/"]
            if node.name in names:
                self._report.problem(place, f"{node.name!r} is the name of a pool and of a node: rename the pool")
                continue
            own = [_device(index, gpu) for index, gpu in enumerate(node.gpus) if gpu.id or gpu.numa_node is not None]
            yield _node(self._pool(node.name, [node.name], node.board, len(node.gpus), own, place), place)

    def workloads(self) -> Iterator[Node]:
        """A workload for each pod on each GPU."""
        for node in self._topology.nodes:
            place = self._places[f"{node.name}/"]
            left: dict[int, float] = {}
            for index, name, use in node.workloads():
                memory = left.setdefault(index, node.board.memory_mib or float("inf"))
                used = self._fitting(use, index, memory, place)
                left[index] -= used
                yield _node(_workload(node.name, index, name, used, use), place)

    def _pool(
        self, name: str, nodes: str | list[str], board: Board, count: int, devices: list[dict[str, Any]], place: Place
    ) -> dict[str, Any]:
        strategy = self._topology.mig_strategy
        return {
            "name": name,
            "nodes": nodes,
            **self._board(board, place),
            "devices-per-node": count,
            **({} if strategy is MigStrategy.NONE else {"mig-strategy": strategy.value}),
            **({"devices": devices} if devices else {}),
        }

    def _board(self, board: Board, place: Place) -> dict[str, Any]:
        nearest = nearest_board(board, self._known)
        known, facts = nearest.board, {}
        product = board.product or ("" if nearest.is_model else f"NVIDIA {board.profile.upper()}")
        if product:
            facts["product_name"] = product
        if product and not nearest.is_same:
            text = f"{product!r} is not in the catalog: it behaves as {known.product} ({known.name}) does"
            self._report.note(place, text)
        if board.driver_version:
            facts["driver_version"] = board.driver_version
        if board.cuda_version:
            facts["cuda_version"] = board.cuda_version
        made: dict[str, Any] = {"device": known.name, "identity": _IDENTITY}
        if board.memory_mib:
            made["memory"] = f"{board.memory_mib}MiB"
        if facts:
            made["labels"] = facts
        return made

    def _fitting(self, use: GpuUse, index: int, left_mib: float, place: Place) -> float:
        """A pod's memory on a GPU, limited to the GPU's memory, as the operator shows it."""
        if use.fb_used_mib > left_mib:
            wish = f"{use.name} uses {use.fb_used_mib:g} MiB of GPU {index}"
            self._report.note(place, f"{wish}, which has {left_mib:g} MiB left: it gets these")
        return min(use.fb_used_mib, left_mib)


def _device(index: int, gpu: TopologyGpu) -> dict[str, Any]:
    # The id as a label, not as uuid: the design document's own ids are no UUIDs.
    facts = {"uuid": gpu.id} if gpu.id else {}
    if gpu.numa_node is not None:
        facts["numa_node"] = str(gpu.numa_node)
    return {"index": index, "labels": facts}


def _workload(node: str, index: int, name: str, used_mib: float, use: GpuUse) -> dict[str, Any]:
    low, high = (round(percent, 2) for percent in use.utilization)
    made: dict[str, Any] = {
        "name": name,
        "devices": f"{node}/{index}",
        "profile": f"{(low + high) / 2:.10g}:{(high - low) / 2:.10g}:0",
        "metrics": {"memory": f"{used_mib:.0f}MiB"},
    }
    owner = {"pod": use.pod or use.uid, "namespace": use.namespace, "container": use.container}
    return made | {key: text for key, text in owner.items() if text}


def _listing(nodes: Iterator[Node], file: str) -> Listing:
    return Listing(Place(file, 1), tuple(nodes))


def _node(value: Any, place: Place) -> Node:
    """Plain values as a node of a document, all of it at one place."""
    if isinstance(value, Mapping):
        entries = ((Scalar(place, key, quoted=True), _node(child, place)) for key, child in value.items())
        return Table(place, tuple(entries))
    if isinstance(value, list):
        return Listing(place, tuple(_node(child, place) for child in value))
    return Scalar(place, str(value), quoted=isinstance(value, str))
