"""What the command sets: power limits and locked clocks by the service's socket, and modes that are so already.

The words are like those that users of the real command post; they are not verified with driver 590.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from fakedev.nvml.smi.failures import BAD_ARGUMENT, NO_DRIVER, NO_PERMISSION, NOT_SUPPORTED, Failure, bad_argument
from fakedev.nvml.smi.options import FLAG, VALUE, Option
from fakedev.nvml.smi.snapshot import Board, Snapshot

SETTINGS: Final = (
    Option("power-limit", "-pl", VALUE, "Set the power limit, in watts."),
    Option("lock-gpu-clocks", "-lgc", VALUE, "Lock the clock, in MHz: MIN,MAX or one number. MIN has no effect."),
    Option("reset-gpu-clocks", "-rgc", FLAG, "Give up a locked clock."),
    Option("persistence-mode", "-pm", VALUE, "Set persistence mode, 0 or 1: only to what it is."),
)
#: Seconds that the service may take for each step, as for the library.
_WAIT_SECONDS: Final = 1.0
#: Numbers of the service's answer.
_INVALID, _NO_PERMISSION, _TIMEOUT = 2, 4, 10
_SUFFIX: Final = "Terminating early due to previous errors."
#: Asks the service to set something of a board; the number of its answer.
_Ask = Callable[[Board, str, int], int]


def changed(given: Mapping[str, str], snapshot: Snapshot, boards: Sequence[Board]) -> Iterator[str]:
    """Set what the options say, board by board; the lines to print.

    :raises Failure: at the first board that it cannot be set on.
    """
    (name,) = (option.name for option in SETTINGS if option.name in given)
    change = _CHANGES[name]

    def ask(board: Board, what: str, number: int) -> int:
        return _asked(snapshot.control, snapshot.node.text("name"), board, what, number)

    for board in boards:
        yield change(given[name], board, ask)
    yield "All done."


def _power_limit(value: str, board: Board, ask: _Ask) -> str:
    watts = _number(value, "--power-limit")
    view = board.view
    present, low, high = (view.number(name) for name in ("power_limit", "power_limit_min", "power_limit_max"))
    if present is None or low is None or high is None:
        text = f"Changing the power limit is not supported for GPU: {_address(board)}.\n{_SUFFIX}"
        raise Failure(NOT_SUPPORTED, text)
    number = round(watts * 1000)
    if not low <= number <= high:
        text = (
            f"Provided power limit {watts:.2f} W is not a valid power limit which should be between {low / 1000:.2f} W "
            f"and {high / 1000:.2f} W for GPU {_address(board)}\n{_SUFFIX}"
        )
        raise Failure(BAD_ARGUMENT, text)
    answer = ask(board, "power-limit", 0 if number == view.number("power_limit_default") else number)
    _check(answer, f"Failed to set power management limit for GPU {_address(board)}")
    return f"Power limit for GPU {_address(board)} was set to {watts:.2f} W from {present / 1000:.2f} W."


def _lock_clocks(value: str, board: Board, ask: _Ask) -> str:
    words = value.split(",")
    if len(words) > 2 or not all(word.isascii() and word.isdecimal() and len(word) < 7 for word in words):
        raise bad_argument(f"ERROR: --lock-gpu-clocks needs MIN,MAX or one number in MHz, not {value[:100]!r}.\n")
    low, high = int(words[0]), int(words[-1])
    if not high > 0 or low > high:
        raise bad_argument(f"ERROR: --lock-gpu-clocks needs a clock above 0, and MIN up to MAX, not {value!r}.\n")
    text = f"The current user does not have permission to change clocks for GPU {_address(board)}"
    _check(ask(board, "locked-clock", high), f"Failed to lock clocks for GPU {_address(board)}", text)
    return f'GPU clocks set to "(gpuClkMin {low}, gpuClkMax {high})" for GPU {_address(board)}'


def _reset_clocks(value: str, board: Board, ask: _Ask) -> str:
    text = f"The current user does not have permission to change clocks for GPU {_address(board)}"
    _check(ask(board, "locked-clock", 0), f"Failed to reset clocks for GPU {_address(board)}", text)
    return f"GPU clocks were reset for GPU {_address(board)}"


def _persistence_mode(value: str, board: Board, ask: _Ask) -> str:
    wanted = {"0": 0, "disabled": 0, "1": 1, "enabled": 1}.get(value.casefold())
    if wanted is None:
        raise bad_argument(f"ERROR: --persistence-mode needs 0 or 1, not {value[:100]!r}.\n")
    if board.view.number("persistence_mode") != wanted:
        _check(_NO_PERMISSION, f"Unable to set persistence mode for GPU {_address(board)}")
    return f"Persistence mode is already {('Disabled', 'Enabled')[wanted]} for GPU {_address(board)}."


_CHANGES: Final[Mapping[str, Callable[[str, Board, _Ask], str]]] = {
    "power-limit": _power_limit,
    "lock-gpu-clocks": _lock_clocks,
    "reset-gpu-clocks": _reset_clocks,
    "persistence-mode": _persistence_mode,
}


def _address(board: Board) -> str:
    return board.view.text("pci_bus_id")


def _number(text: str, option: str) -> float:
    whole, _, rest = text.partition(".")
    if not (whole + rest).isdecimal() or not text.isascii() or not whole or len(text) > 12:
        raise bad_argument(f"ERROR: {option} needs a number of watts, not {text[:100]!r}.\n")
    return float(text)


def _check(answer: int, failed: str, no_permission: str = "") -> None:
    """Do nothing for a good answer.

    :raises Failure: for another one.
    """
    if answer == _NO_PERMISSION:
        remedy = "the service lets users change boards whom nvml.setters of its configuration names"
        raise Failure(NO_PERMISSION, f"{no_permission or f'{failed}: Insufficient Permissions'}\n{_SUFFIX}", remedy)
    if answer == NO_DRIVER:
        raise Failure(NO_DRIVER, f"{failed}: Driver Not Loaded\n{_SUFFIX}", "the service does not answer")
    if answer == _INVALID:
        raise Failure(BAD_ARGUMENT, f"{failed}: Invalid Argument\n{_SUFFIX}")
    if answer:
        reason = "the service did not answer in time" if answer == _TIMEOUT else ""
        raise Failure(255, f"{failed}: Unknown Error\n{_SUFFIX}", reason)


def _asked(path: str, node: str, board: Board, what: str, number: int) -> int:
    """The service's answer to a line, as the library asks it: a number of NVML."""
    if not path:
        return _NO_PERMISSION
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_WAIT_SECONDS)
            connection.connect(path)
            connection.sendall(f"set {node} {board.number} {what} {number}\n".encode())
            answer = connection.recv(16).strip()
    except PermissionError:
        return _NO_PERMISSION
    except TimeoutError:
        return _TIMEOUT
    except OSError:
        return NO_DRIVER
    return int(answer) if answer.isdigit() else _TIMEOUT
