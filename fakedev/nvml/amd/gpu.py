"""A GPU as AMD's driver shows it: a board, or one of its compute partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from fakedev.nvml.amd.amdsmi_names import NOT_SUPPORTED, AmdSmiLibraryException
from fakedev.nvml.smi.boards import Board, View

NA: Final = "N/A"
#: Compute dies (XCC) of an MI300X.
DIES: Final = 8


def unsupported() -> AmdSmiLibraryException:
    return AmdSmiLibraryException(NOT_SUPPORTED)


class Gpu(NamedTuple):
    """What a handle names, in one tick.

    :ivar number: among the GPUs of the node.
    :ivar partition: of its board; 0 for an undivided board.
    :ivar addresses: on PCI, of the node's boards by their place.
    """

    board: Board
    number: int
    partition: int
    addresses: Mapping[int, str]

    @property
    def view(self) -> View:
        """The record of its memory and engines: of the partition, or of the board."""
        return self.board.part or self.board.view

    def has(self, name: str) -> int | str:
        """A number of its board; "N/A" if there is none, or if another partition shows it."""
        found = None if self.partition else self.board.view.number(name)
        return NA if found is None else found

    def must(self, name: str) -> int:
        """A number of its board.

        :raises AmdSmiLibraryException: without one.
        """
        found = self.has(name)
        if isinstance(found, str):
            raise unsupported()
        return found

    @property
    def bdf(self) -> str:
        """The PCI address; its function is the partition."""
        return f"{self.board.view.text('pci_bus_id')[4:-1].lower()}{self.partition}"

    @property
    def serial(self) -> int:
        """The number of its chip, of 64 bits: in its UUID as the driver puts it there."""
        digits = self.board.view.text("uuid").replace("-", "")
        try:
            return int(digits[:2] + digits[18:32], 16)
        except ValueError:
            return 0

    @property
    def dies(self) -> int:
        """Compute dies that it has."""
        return DIES // max(1, len(self.board.parts))

    def text(self, name: str, otherwise: str = NA) -> str:
        return self.board.view.text(name) or otherwise
