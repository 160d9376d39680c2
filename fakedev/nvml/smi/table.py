"""The table of all boards, with the columns and widths that people know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fakedev.nvml.smi.columns_of_errors import BY_NAME
from fakedev.nvml.smi.snapshot import Board, Snapshot, View
from fakedev.nvml.smi.values import cuda_version, date, mib_of

_WIDTHS: Final = (41, 24, 22)
_INNER: Final = 89
_LINE: Final = "+" + "-" * _INNER + "+"
_BOARD_LINE: Final = "+" + "+".join("-" * width for width in _WIDTHS) + "+"
_NAME: Final = 27
_PROCESS_NAME: Final = 38
_PART_LINE: Final = "+------------------+----------------------------------+-----------+-----------------------+"
_ON: Final = {"Enabled": "On", "Disabled": "Off"}


def table(snapshot: Snapshot, boards: Sequence[Board]) -> Iterator[str]:
    """The lines of the table."""
    driver = snapshot.node.text("driver_version") or "N/A"
    yield f"{date(snapshot.slot)}       "
    yield _LINE
    title = f" NVIDIA-SMI {driver:<22} Driver Version: {driver:<14} CUDA Version: {cuda_version(snapshot.node):<9}"
    yield f"|{title:<{_INNER}.{_INNER}}|"
    yield _BOARD_LINE
    yield "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |"
    yield "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |"
    yield "|                                         |                        |               MIG M. |"
    yield _BOARD_LINE.replace("-", "=").replace("+", "|", 1)[:-1] + "|"
    for board in boards:
        yield from _board(board)
    yield ""
    if any(board.parts for board in boards):
        yield from _parts(boards)
    yield from _processes(boards)


def _value(board: Board, name: str) -> str:
    """A value without unit; ``N/A`` if there is none."""
    return BY_NAME[name].read(board) or "N/A"


def _with(text: str, unit: str) -> str:
    return text if text == "N/A" else text + unit


def _watts(board: Board, name: str) -> str:
    text = _value(board, name)
    return text if text == "N/A" else f"{float(text):.0f}W"


def _memory(view: View, name: str) -> str:
    return _with(mib_of(view, name) or "N/A", "MiB")


def _board(board: Board) -> Iterator[str]:
    view = board.view
    name = view.text("name")
    name = name if len(name) <= _NAME else f"{name[:_NAME - 3]}..."
    persistence = _ON.get(_value(board, "persistence_mode"), "N/A")
    display = _ON.get(_value(board, "display_active"), "N/A")
    errors = "Off" if view.number("ecc_mode") == 0 else _value(board, "ecc.errors.uncorrected.volatile.total")
    if board.is_divided:
        errors = "On"
    yield (
        f"|{board.number:>4}  {name:<{_NAME}}{persistence:>6}  "
        f"|{view.text('pci_bus_id') or 'N/A':>19} {display:>3} |{errors:>21} |"
    )
    fan, temperature = _with(_value(board, "fan.speed"), "%"), _with(_value(board, "temperature.gpu"), "C")
    cap = _watts(board, "enforced.power.limit")
    used, room = _memory(view, "memory_used"), _memory(view, "memory_total")
    usage = _with(_value(board, "utilization.gpu"), "%")
    yield (
        f"|{fan:>4}  {temperature:>4}    {_value(board, 'pstate'):<4}{_watts(board, 'power.draw'):>14} /{cap:>6} "
        f"|{used:>11} /{room:>10} |{usage:>8}{_value(board, 'compute_mode'):>13} |"
    )
    yield f"|{'':41}|{'':24}|{_value(board, 'mig.mode.current'):>21} |"
    yield _BOARD_LINE


def _parts(boards: Sequence[Board]) -> Iterator[str]:
    """The instances. Their engines and BAR1 memory are not simulated."""
    yield _LINE
    yield f"|{' MIG devices:':<{_INNER}}|"
    yield _PART_LINE
    yield "| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |"
    yield "|      ID  ID  Dev |                Shared BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |"
    yield "|                  |                                  |        ECC|                       |"
    yield _PART_LINE.replace("-", "=").replace("+", "|", 1)[:-1] + "|"
    for board in boards:
        for number, part in enumerate(board.parts):
            used, room = _memory(part, "memory_used"), _memory(part, "memory_total")
            yield (
                f"|{board.number:>3}{_whole(part, 'gpu_instance'):>5}   0 {number:>3}  |{used:>20} / {room:<11}"
                "|N/A   N/A | N/A N/A  N/A  N/A  N/A |"
            )
            yield f"|{'':18}|{'N/A':>20} / {'N/A':<11}|{'':11}|{'':23}|"
            yield _PART_LINE
    yield ""


def _whole(view: View, name: str) -> str:
    number = view.number(name)
    return "N/A" if number is None else str(number)


def _processes(boards: Sequence[Board]) -> Iterator[str]:
    yield _LINE
    yield f"|{' Processes:':<{_INNER}}|"
    yield "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |"
    yield "|        ID   ID                                                               Usage      |"
    yield "|" + "=" * _INNER + "|"
    found = [(board, process) for board in boards for process in board.processes]
    for board, process in found:
        part = board.part_number(process)
        instance = _whole(board.parts[part], "gpu_instance") if part is not None else "N/A"
        compute = "0" if part is not None else "N/A"
        name = process.text("name")
        name = name if len(name) <= _PROCESS_NAME else f"...{name[3 - _PROCESS_NAME:]}"
        kind = "G" if process.number("is_graphics") == 1 else "C"
        yield (
            f"|{board.number:>5}{instance:>6}{compute:>5}{process.count('pid'):>16}{kind:>7}   {name:<{_PROCESS_NAME}}"
            f"{_memory(process, 'memory_used'):>8} |"
        )
    if not found:
        yield f"|{'  No running processes found':<{_INNER}}|"
    yield _LINE
