"""PCIe switches: boards behind one share its link to the host, which is as wide as the link of one board."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fakedev.base.groups import grouped
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import Positions

#: Traffic of boards with the host, in both directions.
_WAYS = ("pcie_tx_bytes_per_second", "pcie_rx_bytes_per_second")


class PcieSwitches:
    """The PCIe switches of B boards.

    A switch serves its boards in turn, round robin, as is usual (the PCI Express Base Specification leaves the
    arbitration of ports to the hardware): each gets what it asks for, up to an equal share of what the others leave.

    :param numbers: the switch of each board, -1: it has a link of its own to the host; shape (B,).
    """

    def __init__(self, numbers: Positions) -> None:
        members = grouped((number, board) for board, number in enumerate(numbers.tolist()) if number >= 0)
        alike = grouped((len(boards), boards) for boards in members.values())
        #: The boards of switches with as many boards each: a row for each board of a switch, a column for each switch.
        self._groups: list[Positions] = [np.array(groups).T for size, groups in alike.items() if size > 1]

    def __bool__(self) -> bool:
        """Whether any boards share a switch."""
        return bool(self._groups)

    def limit(self, traffic: dict[str, Floats], most: Mapping[str, Floats]) -> bool:
        """Limit the traffic of boards to what the links of their switches carry; return whether that is less.

        :param traffic: by quantity, each of shape (B,).
        :param most: what the link of each board carries, likewise.
        """
        is_less = False
        for name in _WAYS:
            for boards in self._groups:
                asked, carried = traffic[name][boards], most[name][boards].max(axis=0)
                if not (asked.sum(axis=0) > carried).any():
                    continue
                left, share = carried, carried
                for others, least in zip(range(len(boards), 0, -1), np.sort(asked, axis=0), strict=True):
                    share = left / others
                    left = left - np.minimum(least, share)
                traffic[name] = traffic[name].copy()
                traffic[name][boards] = np.minimum(asked, share)
                is_less = True
        return is_less
