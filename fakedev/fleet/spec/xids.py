"""XIDs: the error codes of NVIDIA's driver that the simulation reports by itself, or that have effects.

The code of a lost board is :attr:`Xid.FALLEN_OFF`. The effect of a code is in ``fleet/faults/effects.py``. The texts
that exporters show for all codes are data: ``err_msg`` in ``catalog/fields/dcgm.yaml``. XIDs that leave a device
healthy for Kubernetes are in ``kubernetes/devices/health.py``.

Source: https://docs.nvidia.com/deploy/xid-errors/
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Xid(IntEnum):
    """A code with effects; all other codes are only reported."""

    GRAPHICS_EXCEPTION = 13
    PAGE_FAULT = 31
    CHANNEL_STOPPED = 43
    CLEANED_UP = 45
    DOUBLE_BIT = 48
    BREAKPOINT = 61
    HALT = 62
    ROW_REMAPPED = 63
    REMAP_FAILED = 64
    LINK = 74
    FALLEN_OFF = 79
    MANY_SINGLE_BIT = 92
    CONTAINED = 94
    UNCONTAINED = 95
    GSP_TIMEOUT = 119
    GSP_ERROR = 120
    SAW = 144
    RLW = 145
    TLW = 146
    TREX = 147
    NVLPW_CTRL = 148
    NETIR = 149
    MSE = 150


#: Errors of NVLink 5 and its switches.
XIDS_OF_FABRIC: Final = (Xid.SAW, Xid.RLW, Xid.TLW, Xid.TREX, Xid.NVLPW_CTRL, Xid.NETIR, Xid.MSE)
#: The errors that concern only the work that made them, and so one part of a device.
XIDS_OF_APPLICATIONS: Final = (
    Xid.GRAPHICS_EXCEPTION, Xid.PAGE_FAULT, Xid.CHANNEL_STOPPED, Xid.CLEANED_UP, Xid.CONTAINED,
)  # fmt: skip
