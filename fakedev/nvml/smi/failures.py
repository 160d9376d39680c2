"""How the command ends when it cannot answer: the exit codes of its manual, and the words that scripts look for."""

from __future__ import annotations

from typing import Final

BAD_ARGUMENT: Final = 2
NOT_SUPPORTED: Final = 3
NO_PERMISSION: Final = 4
NOT_FOUND: Final = 6
NO_DRIVER: Final = 9
LOST: Final = 15
#: Of a command that is interrupted.
INTERRUPTED: Final = 130

_NO_DRIVER_TEXT: Final = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running."
)


class Failure(Exception):
    """The command ends.

    :param code: its exit code.
    :param text: printed on standard output, where the real command writes it.
    :param reason: printed on standard error: what the simulation knows beyond that; empty for nothing.
    """

    def __init__(self, code: int, text: str, reason: str = "") -> None:
        super().__init__(text)
        self.code, self.text, self.reason = code, text, reason


def no_driver(reason: str) -> Failure:
    """No service writes the file, or the node is not known."""
    return Failure(NO_DRIVER, f"{_NO_DRIVER_TEXT}\n", reason)


def not_supported(what: str) -> Failure:
    """The real command can do it, and the simulated one cannot."""
    return Failure(NOT_SUPPORTED, f"{what}: not supported by the simulation")


def bad_argument(text: str) -> Failure:
    """The arguments are wrong."""
    return Failure(BAD_ARGUMENT, text)
