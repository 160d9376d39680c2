"""``dmon`` and ``pmon``: a line for each board or process, again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fakedev.nvml.smi import values
from fakedev.nvml.smi.columns_of_errors import BY_NAME
from fakedev.nvml.smi.failures import bad_argument, not_supported
from fakedev.nvml.smi.snapshot import Board, View
from fakedev.nvml.smi.values import Read, mib_of

_WIDTH: Final = 7
_NOTHING: Final = "-"


def _rounded(name: str, divisor: int) -> Read:
    def read(board: Board) -> str | None:
        number = board.view.number(name)
        return None if number is None else str((number + divisor // 2) // divisor)

    return read


def _field(name: str) -> Read:
    return BY_NAME[name].read


#: The groups of ``dmon -s``: the columns of each with title, unit and value.
_OF_BOARDS: Final[dict[str, tuple[tuple[str, str, Read], ...]]] = {
    "p": (
        ("pwr", "W", _rounded("power", 1000)),
        ("gtemp", "C", _field("temperature.gpu")),
        ("mtemp", "C", _field("temperature.memory")),
    ),
    "u": tuple(
        (title, "%", _field(f"utilization.{name}"))
        for title, name in (("sm", "gpu"), ("mem", "memory"), ("enc", "encoder"), ("dec", "decoder"),
                            ("jpg", "jpeg"), ("ofa", "ofa"))
    ),
    "c": (("mclk", "MHz", _field("clocks.mem")), ("pclk", "MHz", _field("clocks.sm"))),
    "m": (
        ("fb", "MB", _field("memory.used")), ("bar1", "MB", values.absent),
        ("ccpm", "MB", _field("protected_memory.used")),
    ),
    "e": (
        ("sbecc", "errs", _field("ecc.errors.corrected.aggregate.total")),
        ("dbecc", "errs", _field("ecc.errors.uncorrected.aggregate.total")),
        ("pci", "errs", values.whole("pcie_replays")),
    ),
    "t": (("rxpci", "MB/s", _rounded("pcie_received", 1 << 20)), ("txpci", "MB/s", _rounded("pcie_sent", 1 << 20))),
}  # fmt: skip
_USAGES: Final = ("usage", "memory_usage", "encoder_usage", "decoder_usage")


def _groups(given: str, known: str) -> str:
    """The groups that ``-s`` names.

    :raises Failure: for an unknown one.
    """
    if not given or set(given) - set(known):
        raise bad_argument(f"ERROR: -s takes letters of {known}, not {given!r}.\n")
    return given


def board_monitor(given: str) -> tuple[tuple[str, ...], tuple[Read, ...]]:
    """The two lines of titles of ``dmon``, and what reads its columns.

    :param given: the groups.
    :raises Failure: for an unknown one, and for violations.
    """
    if "v" in given:
        raise not_supported("dmon -s v")
    columns = [column for group in _groups(given, "".join(_OF_BOARDS)) for column in _OF_BOARDS[group]]
    titles = (
        "# gpu" + "".join(f"{title:>{_WIDTH}}" for title, _, _ in columns) + " ",
        "# Idx" + "".join(f"{unit:>{_WIDTH}}" for _, unit, _ in columns) + " ",
    )
    return titles, tuple(read for _, _, read in columns)


def board_lines(boards: Sequence[Board], reads: Sequence[Read]) -> Iterator[str]:
    """A line for each board."""
    for board in boards:
        yield f"{board.number:>5}" + "".join(f"{read(board) or _NOTHING:>{_WIDTH}}" for read in reads) + " "


def process_titles(given: str) -> tuple[str, str]:
    """The two lines of titles of ``pmon``.

    :raises Failure: for an unknown group.
    """
    groups = _groups(given, "um")
    usage = ("     sm    mem    enc    dec    jpg    ofa", "      %      %      %      %      %      %")
    memory = ("     fb   ccpm", "     MB     MB")
    first, second = (
        (usage[line] if "u" in groups else "") + (memory[line] if "m" in groups else "") for line in (0, 1)
    )
    return f"# gpu         pid   type{first}    command ", f"# Idx           #    C/G{second}    name "


def process_lines(boards: Sequence[Board], given: str) -> Iterator[str]:
    """A line for each process; one for a board without any."""
    for board in boards:
        for process in board.processes or (None,):
            cells = [*(_usages(process) if "u" in given else ()), *(_memory(process) if "m" in given else ())]
            pid, kind, name = _NOTHING, _NOTHING, _NOTHING
            if process is not None:
                pid, name = str(process.count("pid")), process.text("name")
                kind = "G" if process.number("is_graphics") == 1 else "C"
            yield (
                f"{board.number:>5}{pid:>11}{kind:>6}" + "".join(f"{each:>{_WIDTH}}" for each in cells)
                + f"    {name:<15.15}"
            )  # fmt: skip


def _usages(process: View | None) -> list[str]:
    """Shares of JPEG and optical flow engines are not simulated; a process of a MIG instance has none."""
    numbers = [process.number(name) for name in _USAGES] if process and process.number("part") is None else [None] * 4
    return [*(_NOTHING if each is None else str(each) for each in numbers), _NOTHING, _NOTHING]


def _memory(process: View | None) -> list[str]:
    return [(mib_of(process, "memory_used") or _NOTHING) if process else _NOTHING, "0" if process else _NOTHING]
