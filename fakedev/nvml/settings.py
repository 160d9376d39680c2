"""The sections ``nvml``, the file that the NVML library reads, and ``kernel-log``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fakedev.fleet.spec.fleet_spec import PoolSpec
from fakedev.nvml.records import FILE_NAME, MAX_BOARDS
from fakedev.schema.addresses import RUNTIME
from fakedev.schema.declare import setting
from fakedev.schema.places import Report
from fakedev.schema.sections import Section, Values, did_you_mean
from fakedev.schema.types import ListOf, Mode, Path, Text, keys_from


@dataclass(frozen=True)
class Nvml:
    """The file that the NVML library reads.

    With setters, there is a UNIX socket in the folder of the file.
    """

    file: str = setting(
        "The file; runtime:NAME is in the default folder of sockets.", words="path", default=f"{RUNTIME}{FILE_NAME}"
    )
    nodes: tuple[str, ...] = setting(
        f"The nodes whose boards are in it, at most {MAX_BOARDS} boards.",
        default=(), absent="all nodes", type=ListOf(Text(), 1, words="list of nodes"),
    )  # fmt: skip
    mode: int = setting("Permissions of the file.", "octal", 0o644, absent="644", type=Mode())
    setters: tuple[str, ...] = setting(
        "Users of this machine who may set power limits and lock clocks through NVML; root must be named, too.",
        default=(), absent="nobody", type=ListOf(Text(), 1, words="list of users"),
    )  # fmt: skip

    @property
    def control_socket(self) -> str:
        """The UNIX socket for changes; empty for none."""
        return f"{self.file}.sock" if self.setters else ""


NVML = Section(
    "nvml",
    keys_from(Nvml, "file", "nodes", "setters", "mode"),
    doc="A file from which nvitop, nvtop and other programs read the boards of nodes, through the NVML library "
    "([nvml.md](nvml.md)). `nvml: {}` is enough.",
)


@dataclass(frozen=True)
class KernelLogFile:
    """Where messages of the kernel about boards are written."""

    file: str = setting(
        "A file like kern.log; or what is there: a pipe that is read as /dev/kmsg is, /dev/kmsg, the socket of the "
        "journal.",
        type=Path(),
    )
    nodes: tuple[str, ...] = setting(
        "The nodes whose boards are in it.", default=(), absent="all nodes",
        type=ListOf(Text(), 1, words="list of nodes"),
    )  # fmt: skip
    mode: int = setting("Permissions of the file, if it is one.", "octal", 0o640, absent="640", type=Mode())


KERNEL_LOG = Section(
    "kernel-log",
    keys_from(KernelLogFile),
    doc="XIDs as NVIDIA's driver writes them into the kernel's log, for gpud, node-problem-detector and other monitors "
    "of nodes ([faults.md](faults.md#in-the-kernels-log)). A path alone is enough.",
    shorthand="file",
)


def load_kernel_log(
    values: Values | None, pools: Sequence[PoolSpec], nodes: Mapping[str, object], report: Report
) -> KernelLogFile | None:
    """Where XIDs are written; None: nowhere. Problems are reported."""
    if values is None:
        return None
    _check_nodes("kernel-log", values, pools, nodes, report)
    return values.build(KernelLogFile)


def _check_nodes(
    section: str, values: Values, pools: Sequence[PoolSpec], nodes: Mapping[str, object], report: Report
) -> None:
    has_others = any(pool.has_cluster_nodes for pool in pools)
    for name in values["nodes"] or ():
        if nodes and name not in nodes and not has_others:
            hint = did_you_mean(name, nodes, "; ")
            report.problem(values.place_of("nodes"), f"{section}.nodes: no node {name!r}{hint}")


def load_nvml(
    values: Values | None,
    pools: Sequence[PoolSpec],
    nodes: Mapping[str, object],
    runtime_folder: Callable[[], str],
    report: Report,
) -> Nvml | None:
    """The file for NVML; None without. Problems are reported.

    :param nodes: all nodes by name.
    """
    if values is None:
        return None
    _check_nodes("nvml", values, pools, nodes, report)
    chosen: Iterable[str] = values["nodes"] or nodes
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
    return values.build(Nvml, file=os.path.join(report.folder, path))
