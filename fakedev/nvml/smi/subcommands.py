"""The subcommands: their options, and what they print of a tick."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from fakedev.nvml.smi.connections import link_states, matrix
from fakedev.nvml.smi.failures import not_supported
from fakedev.nvml.smi.instances import compute_instances, gpu_instance_profiles, gpu_instances
from fakedev.nvml.smi.monitors import board_lines, board_monitor, process_lines, process_titles
from fakedev.nvml.smi.options import COMMON, FLAG, VALUE, Option
from fakedev.nvml.smi.snapshot import Board, Snapshot

#: The lines for a tick: of some boards of a node, the first time or again.
Lines = Callable[[Snapshot, Sequence[Board], bool], Iterable[str]]

_HELP: Final = Option("help", "-h", FLAG, "Print this text.")
_ID, _FILE = COMMON[0], COMMON[1]
_MONITOR: Final = (
    _HELP, _ID, _FILE,
    Option("select", "-s", VALUE, "The groups of columns."),
    Option("count", "-c", VALUE, "So often; else until Ctrl+C."),
    Option("delay", "-d", VALUE, "Again after so many seconds (1)."),
)  # fmt: skip


class Subcommand(NamedTuple):
    """A subcommand.

    :ivar lines: what prints a tick, for the given options.
    :ivar repeats: whether it prints again and again by itself.
    """

    doc: str
    options: tuple[Option, ...]
    lines: Callable[[Mapping[str, str]], Lines]
    repeats: bool = False


def _dmon(given: Mapping[str, str]) -> Lines:
    titles, reads = board_monitor(given.get("select", "puc"))
    return lambda snapshot, boards, is_first: (*(titles if is_first else ()), *board_lines(boards, reads))


def _pmon(given: Mapping[str, str]) -> Lines:
    groups = given.get("select", "u")
    titles = process_titles(groups)
    return lambda snapshot, boards, is_first: (*(titles if is_first else ()), *process_lines(boards, groups))


def _topo(given: Mapping[str, str]) -> Lines:
    if "matrix" not in given:
        raise not_supported("topo without -m")
    return lambda snapshot, boards, is_first: matrix(boards)


def _nvlink(given: Mapping[str, str]) -> Lines:
    if "status" not in given:
        raise not_supported("nvlink without -s")
    return lambda snapshot, boards, is_first: link_states(boards)


def _mig(given: Mapping[str, str]) -> Lines:
    found = [lines for name, lines in _OF_INSTANCES.items() if name in given]
    if len(found) != 1:
        raise not_supported("mig without one of -lgip, -lgi and -lci")
    return lambda snapshot, boards, is_first: found[0](boards)


_OF_INSTANCES: Final = {
    "list-gpu-instance-profiles": gpu_instance_profiles,
    "list-gpu-instances": gpu_instances,
    "list-compute-instances": compute_instances,
}


SUBCOMMANDS: Final[Mapping[str, Subcommand]] = {
    "dmon": Subcommand("A line for each board: -s with p power, u usage, c clocks, m memory, e errors, t PCIe.",
                       _MONITOR, _dmon, True),
    "pmon": Subcommand("A line for each process: -s with u usage, m memory.", _MONITOR, _pmon, True),
    "topo": Subcommand("How boards are connected.",
                       (_HELP, _ID, Option("matrix", "-m", FLAG, "Each pair of boards.")), _topo),
    "mig": Subcommand("Instances of boards in MIG mode.", (
        _HELP, _ID, Option("list-gpu-instance-profiles", "-lgip", FLAG, "Kinds of GPU instances."),
        Option("list-gpu-instances", "-lgi", FLAG, "GPU instances."),
        Option("list-compute-instances", "-lci", FLAG, "Compute instances."),
    ), _mig),
    "nvlink": Subcommand("Links.", (_HELP, _ID, Option("status", "-s", FLAG, "Their speeds.")), _nvlink),
}  # fmt: skip
#: Subcommands of the real command that the simulated one does not have.
NOT_SIMULATED: Final = frozenset((
    *("daemon", "replay", "drain", "c2c", "clocks", "encodersessions", "fbcsessions", "vgpu", "compute-policy"),
    *("boost-slider", "power-hint", "base-clocks", "conf-compute", "gpm", "pci", "power-smoothing", "power-profiles"),
    *("rusd", "prm", "soc"),
))  # fmt: skip


def found(arguments: Sequence[str]) -> Subcommand | None:
    """The subcommand that the arguments begin with; None for none.

    :raises Failure: for one that is not simulated.
    """
    if arguments and arguments[0] in NOT_SIMULATED:
        raise not_supported(arguments[0])
    return SUBCOMMANDS.get(arguments[0]) if arguments else None
