"""The options of nvidia-smi, and those that set power limits, locked clocks and modes.

The parser reads its options from the texts of ``-h``, ``catalog/nvidia-smi/help.txt``. Power limits and locked clocks
are set by the service's socket; modes are accepted if they are already so.

The words are like the words that users of the real command post; they are not verified with driver 590.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from fakedev.nvml.smi.boards import (
    BAD_ARGUMENT,
    NO_DRIVER,
    NO_PERMISSION,
    NOT_SUPPORTED,
    Board,
    Failure,
    bad_argument,
    not_supported,
)
from fakedev.nvml.smi.fields import blocks

#: Digits of a delay: no longer one has a meaning.
_DIGITS: Final = 9
#: The texts of the help by subcommand, and of the command itself; what the real command has besides.
HELP: Final = blocks("help.txt")
NOT_SIMULATED: Final = frozenset(word for line in HELP["not simulated"] for word in line.split())
#: Options whose value may be missing.
_MAYBE: Final = ("loop", "create-compute-instance")


def _spellings(lines: Sequence[str]) -> Iterator[tuple[str, tuple[str, bool]]]:
    """The spellings of the options of a help text, with the option's name and whether it takes a value."""
    for words in map(str.split, lines):
        if words and words[0].startswith("-"):
            long = next(word for word in words if word.startswith("--"))
            option = long[2:].removesuffix("="), long.endswith("=")
            yield long.removesuffix("="), option
            yield words[0].rstrip(",="), option


def parse(
    arguments: Sequence[str], command: str, texts: Mapping[str, Sequence[str]] = HELP, program: str = "nvidia-smi"
) -> dict[str, str]:
    """The given options, by their names; the value of a flag is empty.

    :param command: whose options there are: a name of ``texts``.
    :raises Failure: for what is no option, one without its value, and one that the simulation does not have.
    """
    known = dict(_spellings(texts[command]))
    found: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        given = rest.pop(0)
        word, equals, value = given.partition("=")
        if word not in known and word.startswith("-") and word in NOT_SIMULATED:
            raise not_supported(word)
        name, has_value = known.get(word, ("", False))
        if not name or (equals and not has_value):
            raise bad_argument(f"ERROR: Option {given} is not recognized. Please run '{program} -h'.\n")
        if has_value and not equals and (name not in _MAYBE or (rest and not rest[0].startswith("-"))):
            value = rest.pop(0) if rest else ""
            if not value:
                raise bad_argument(f"ERROR: Option {given} needs a value. Please run '{program} -h'.\n")
        found[name] = value
    return found


def number_of(given: Mapping[str, str], name: str, otherwise: int | None = None) -> int | None:
    """The value of an option that takes a positive whole number.

    :param otherwise: without the option, or without its value.
    :raises Failure: for another text.
    """
    text = given.get(name, "")
    if not text:
        return otherwise
    if not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS or not int(text):
        raise bad_argument(f"ERROR: --{name} needs a positive whole number, not {text!r}.\n")
    return int(text)


def delay_seconds(given: Mapping[str, str]) -> float | None:
    """After how many seconds the command does the same again; None for never.

    :raises Failure: for a text that is no positive number.
    """
    if "loop-ms" in given:
        return (number_of(given, "loop-ms") or 0) / 1000.0
    return number_of(given, "loop", 5) if "loop" in given else None


#: Seconds that the service may take for each step, as for the library.
_WAIT_SECONDS: Final = 1.0
#: Of the longest answer: 32 results.
_ANSWER_BYTES: Final = 512
#: Numbers of the service's answer.
_INVALID, _NO_PERMISSION, _TIMEOUT = 2, 4, 10
#: Exit code, words and reason for the others.
_FAILURES: Final = {
    NO_DRIVER: (NO_DRIVER, "Driver Not Loaded", "the service does not answer"),
    _INVALID: (BAD_ARGUMENT, "Invalid Argument", ""),
    _TIMEOUT: (255, "Unknown Error", "the service did not answer in time"),
}
#: Who may change boards.
NO_SETTER: Final = "the service lets users change boards whom nvml.setters of its configuration names"
_SUFFIX: Final = "Terminating early due to previous errors."


def changed(change: Callable[[str, Board], str], value: str, boards: Sequence[Board]) -> Iterator[str]:
    """Set a value, board by board; the lines to print.

    :raises Failure: at the first board that it cannot be set on.
    """
    for board in boards:
        yield change(value, board)
    yield "All done."


def _power_limit(value: str, board: Board) -> str:
    whole, _, rest = value.partition(".")
    if not (whole + rest).isdecimal() or not value.isascii() or not whole or len(value) > 12:
        raise bad_argument(f"ERROR: --power-limit needs a number of watts, not {value[:100]!r}.\n")
    watts, view = float(value), board.view
    present, low, high = (view.number(name) for name in ("power_limit", "power_limit_min", "power_limit_max"))
    if present is None or low is None or high is None:
        raise Failure(
            NOT_SUPPORTED, f"Changing the power limit is not supported for GPU: {_address(board)}.\n{_SUFFIX}"
        )
    number = round(watts * 1000)
    if not low <= number <= high:
        raise bad_argument(
            f"Provided power limit {watts:.2f} W is not a valid power limit which should be between {low / 1000:.2f} W "
            f"and {high / 1000:.2f} W for GPU {_address(board)}\n{_SUFFIX}"
        )
    answer = _asked(board, "power-limit", 0 if number == view.number("power_limit_default") else number)
    _check(answer, f"Failed to set power management limit for GPU {_address(board)}")
    return f"Power limit for GPU {_address(board)} was set to {watts:.2f} W from {present / 1000:.2f} W."


def _lock_clocks(value: str, board: Board) -> str:
    words = value.split(",")
    if len(words) > 2 or not all(word.isascii() and word.isdecimal() and len(word) < 7 for word in words):
        raise bad_argument(f"ERROR: --lock-gpu-clocks needs MIN,MAX or one number in MHz, not {value[:100]!r}.\n")
    low, high = int(words[0]), int(words[-1])
    if not high > 0 or low > high:
        raise bad_argument(f"ERROR: --lock-gpu-clocks needs a clock above 0, and MIN up to MAX, not {value!r}.\n")
    _set_clock("lock", high, board)
    return f'GPU clocks set to "(gpuClkMin {low}, gpuClkMax {high})" for GPU {_address(board)}'


def _reset_clocks(value: str, board: Board) -> str:
    _set_clock("reset", 0, board)
    return f"GPU clocks were reset for GPU {_address(board)}"


def _set_clock(verb: str, megahertz: int, board: Board) -> None:
    text = f"The current user does not have permission to change clocks for GPU {_address(board)}"
    _check(_asked(board, "locked-clock", megahertz), f"Failed to {verb} clocks for GPU {_address(board)}", text)


def _persistence_mode(value: str, board: Board) -> str:
    wanted = {"0": 0, "disabled": 0, "1": 1, "enabled": 1}.get(value.casefold())
    if wanted is None:
        raise bad_argument(f"ERROR: --persistence-mode needs 0 or 1, not {value[:100]!r}.\n")
    if board.view.number("persistence_mode") != wanted:
        _check(_NO_PERMISSION, f"Unable to set persistence mode for GPU {_address(board)}")
    return f"Persistence mode is already {('Disabled', 'Enabled')[wanted]} for GPU {_address(board)}."


#: The options that set something.
SETTINGS: Final[Mapping[str, Callable[[str, Board], str]]] = {
    "power-limit": _power_limit,
    "lock-gpu-clocks": _lock_clocks,
    "reset-gpu-clocks": _reset_clocks,
    "persistence-mode": _persistence_mode,
}


def _address(board: Board) -> str:
    return board.view.text("pci_bus_id")


def _check(answer: int, failed: str, no_permission: str = "") -> None:
    """Raise a Failure for each answer but 0."""
    if answer == _NO_PERMISSION:
        raise Failure(NO_PERMISSION, f"{no_permission or f'{failed}: Insufficient Permissions'}\n{_SUFFIX}", NO_SETTER)
    if answer:
        code, text, reason = _FAILURES.get(answer, (255, "Unknown Error", ""))
        raise Failure(code, f"{failed}: {text}\n{_SUFFIX}", reason)


def _asked(board: Board, what: str, number: int) -> int:
    """The service's answer to a setting: a number of NVML."""
    answer = asked(board, f"set {board.node.text('name')} {board.view.count('index')} {what} {number}", _WAIT_SECONDS)
    return int(answer) if answer.isdigit() else _TIMEOUT


def asked(board: Board, line: str, seconds: float) -> str:
    """The service's answer to a line, as the library asks it; a number of NVML without one.

    :param seconds: that it may take for each step.
    """
    if not board.control:
        return str(_NO_PERMISSION)
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(seconds)
            connection.connect(board.control)
            connection.sendall(f"{line}\n".encode())
            answer = connection.recv(_ANSWER_BYTES).strip().decode("ascii", "replace")
    except PermissionError:
        return str(_NO_PERMISSION)
    except TimeoutError:
        return str(_TIMEOUT)
    except OSError:
        return str(NO_DRIVER)
    return answer or str(_TIMEOUT)
