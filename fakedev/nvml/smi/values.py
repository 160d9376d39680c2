"""How values of boards are read and written: each reader takes a board, and returns a text, or None for ``[N/A]``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from fakedev.nvml.smi.snapshot import Board, View

#: A value of a board as text, without its unit; None: the board does not have it.
Read = Callable[[Board], str | None]
MIB: Final = 1 << 20
_DEPRECATED: Final = "Requested functionality has been deprecated"
#: What NVML calls the actions by which a board recovers, by their numbers.
RECOVERY_ACTIONS: Final = ("None", "GPU Reset", "Node Reboot", "Drain P2P", "Drain and Reset")
COMPUTE_MODES: Final = ("Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process")
FABRIC_STATES: Final = ("N/A", "Not Started", "In Progress", "Completed")


def constant(text: str) -> Read:
    """The same for all boards."""
    return lambda board: text


def deprecated(board: Board) -> str | None:
    """Of what the driver no longer has."""
    return f"[{_DEPRECATED}]"


def absent(board: Board) -> str | None:
    """Of what is not simulated, or no simulated board has."""
    return None


def text(name: str) -> Read:
    """A text of the board."""
    return lambda board: board.view.text(name) or None


def whole(name: str) -> Read:
    """A number of the board."""
    return lambda board: _text(board.view.number(name))


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def usage(name: str) -> Read:
    """A usage in percent, which a board in MIG mode does not have."""
    return lambda board: None if board.is_divided else _text(board.view.number(name))


def hundredths(name: str, divisor: int = 100) -> Read:
    """A number with two decimals.

    :param divisor: of the number, a multiple of 100 or 100 itself.
    """

    def read(board: Board) -> str | None:
        number = board.view.number(name)
        return None if number is None else f"{number / divisor:.2f}"

    return read


def mib(name: str) -> Read:
    """Bytes as whole MiB, as the exporter's page has them."""
    return lambda board: mib_of(board.view, name)


def mib_of(view: View, name: str) -> str | None:
    """Bytes of a board, instance or process as whole MiB."""
    number = view.number(name)
    return None if number is None else str((number + MIB // 2) // MIB)


def microseconds(name: str) -> Read:
    """Nanoseconds as whole microseconds."""

    def read(board: Board) -> str | None:
        number = board.view.number(name)
        return None if number is None else str((number + 500) // 1000)

    return read


def kilobytes(name: str) -> Read:
    """Bytes as KB of 1024."""

    def read(board: Board) -> str | None:
        number = board.view.number(name)
        return None if number is None else str((number + 512) // 1024)

    return read


def hexadecimal(name: str, digits: int) -> Read:
    """A number such as ``0x1B``."""

    def read(board: Board) -> str | None:
        number = board.view.number(name)
        return None if number is None else f"0x{number:0{digits}X}"

    return read


def one_of(name: str, words: Sequence[str]) -> Read:
    """The word for a number."""

    def read(board: Board) -> str | None:
        number = board.view.number(name)
        return words[number] if number is not None and 0 <= number < len(words) else None

    return read


def enabled(name: str) -> Read:
    """``Enabled`` or ``Disabled``."""
    return one_of(name, ("Disabled", "Enabled"))


def yes(name: str) -> Read:
    """``Yes`` or ``No``."""
    return one_of(name, ("No", "Yes"))


def reason(bits: int) -> Read:
    """Whether a reason for lower clocks is there."""

    def read(board: Board) -> str | None:
        mask = board.view.number("throttle_reasons")
        return None if mask is None else "Active" if mask & bits else "Not Active"

    return read


def total(*names: str) -> Read:
    """The sum of some counters; None if one is missing."""

    def read(board: Board) -> str | None:
        numbers = [board.view.number(name) for name in names]
        return None if None in numbers else str(sum(each or 0 for each in numbers))

    return read


def while_none(what: str, *names: str) -> Read:
    """A text while some counters are 0: of what they count, the places and kinds are not simulated."""

    def read(board: Board) -> str | None:
        return what if all(board.view.number(name) == 0 for name in names) else None

    return read


def retired_pending(board: Board) -> str | None:
    """Of boards that take pages out of use."""
    return yes("retired_pending")(board) if board.view.number("retired_double_bit") is not None else None


def banks(board: Board) -> str | None:
    """The banks of which no row is remapped; None once one is."""
    is_whole = while_none("", *REMAPPED)(board) is not None
    return whole("remap_banks")(board) if is_whole else None


REMAPPED: Final = ("remapped_corrected", "remapped_uncorrected")


def divisible(name: str) -> Read:
    """A mode that only boards with MIG have."""
    return lambda board: enabled(name)(board) if board.view.count("max_part_count") else None


def of_fabric(what: str) -> Read:
    """A text of boards that are in a fabric."""
    return lambda board: what if board.view.number("fabric_state") == len(FABRIC_STATES) - 1 else None


def fabric_guid(board: Board) -> str | None:
    """With 16 digits, as the driver writes it."""
    number = board.view.number("platform_gpu_fabric_guid")
    return None if number is None else f"0x{number:016x}"


def peer_type(board: Board) -> str | None:
    """How NVLink connects a board to others."""
    if not board.view.text("part_number") and board.view.number("platform_host_id") is None:
        return None
    through_switch = any(link.number("switch_number") is not None for link in board.links)
    return "Switch Connected" if through_switch else "Direct Connected"


def compute_capability(board: Board) -> str | None:
    """As ``9.0``."""
    major, minor = board.view.number("compute_major"), board.view.number("compute_minor")
    return None if major is None or minor is None else f"{major}.{minor}"


def performance_state(board: Board) -> str | None:
    """As ``P0``."""
    number = board.view.number("performance_state")
    return None if number is None else f"P{number}"


def driver_version(board: Board) -> str | None:
    """The driver of the node."""
    return board.node.text("driver_version") or None


def cuda_version(node: View) -> str:
    """As ``13.1``."""
    number = node.number("cuda_version")
    return "N/A" if number is None else f"{number // 1000}.{number % 1000 // 10}"


def board_count(board: Board) -> str | None:
    """The boards of the node."""
    return str(board.node.count("board_count"))


def timestamp(slot: View) -> str:
    """When the tick was due, in local time: ``2026/07/14 08:12:53.500``."""
    seconds, microseconds_ = divmod(slot.count("wall_time"), 1_000_000)
    return f"{time.strftime('%Y/%m/%d %H:%M:%S', time.localtime(seconds))}.{microseconds_ // 1000:03}"


def date(slot: View) -> str:
    """When the tick was due, in local time: ``Tue Jul 14 08:12:53 2026``."""
    return time.asctime(time.localtime(slot.count("wall_time") // 1_000_000))
