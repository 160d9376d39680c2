"""The section ``nvml``: the file that the NVML library reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from fakedev.config.configuration import Nvml
from fakedev.config.listen import RUNTIME
from fakedev.config.schema.nodes import Report
from fakedev.config.schema.schema import Key, Section, Values, did_you_mean
from fakedev.config.schema.types import ListOf, Mode, Text
from fakedev.spec.fleet import PoolSpec
from fakedev.spec.nvml_layout import FILE_NAME, MAX_BOARDS

#: All users may read the file.
_MODE: Final = 0o644

NVML = Section(
    "nvml",
    (
        Key(
            "file",
            Text("path", longest=4096),
            "The file; runtime:NAME is in the default folder of sockets.",
            default=f"{RUNTIME}{FILE_NAME}",
        ),
        Key(
            "nodes",
            ListOf(Text(), 1, words="list of nodes"),
            f"The nodes whose boards are in it, at most {MAX_BOARDS} boards.",
            default_words="all nodes",
        ),
        Key(
            "setters",
            ListOf(Text(), 1, words="list of users"),
            "Users of this machine who may set power limits and lock clocks through NVML; root must be named, too.",
            default_words="nobody",
        ),
        Key("mode", Mode(), "Permissions of the file.", default_words="644", unit="octal"),
    ),
    doc="A file from which nvitop, nvtop and other programs read the boards of nodes, through the NVML library "
    "([nvml.md](nvml.md)). `nvml: {}` is enough.",
)


def load_nvml(
    values: Values | None,
    pools: Sequence[PoolSpec],
    nodes: Mapping[str, object],
    folder: str,
    runtime_folder: Callable[[], str],
    report: Report,
) -> Nvml | None:
    """The file for NVML; None without. Problems are reported.

    :param nodes: all nodes by name.
    :param folder: where a relative path begins.
    """
    if values is None:
        return None
    has_others = any(pool.has_cluster_nodes for pool in pools)
    chosen: Iterable[str] = values["nodes"] or nodes
    for name in values["nodes"] or ():
        if nodes and name not in nodes and not has_others:
            hint = did_you_mean(name, nodes, "; ")
            report.problem(values.place_of("nodes"), f"nvml.nodes: no node {name!r}{hint}")
    devices = {node.name: pool.devices_per_node for pool in pools for node in pool.nodes}
    count = sum(devices.get(name, 0) for name in chosen)
    if count > MAX_BOARDS:
        text = f"nvml: the file has room for {MAX_BOARDS} boards, and these nodes have {count}: name some in nodes:"
        report.problem(values.place_of("nodes") if values["nodes"] else values.place, text)
    path: str = values["file"]
    if path.startswith(RUNTIME):
        try:
            path = os.path.join(runtime_folder(), path.removeprefix(RUNTIME))
        except ValueError as error:
            report.problem(values.place_of("file"), f"nvml.file: {error}")
    mode = _MODE if values["mode"] is None else values["mode"]
    return Nvml(os.path.join(folder, path), tuple(values["nodes"] or ()), mode, tuple(values["setters"] or ()))
