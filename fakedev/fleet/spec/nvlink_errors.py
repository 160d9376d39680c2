"""XIDs 144 to 150, the errors of NVLink 5: what each says besides its code, and what NVIDIA advises.

Source: the table "XID 144-150 Decode" of NVIDIA's Xid catalog (https://docs.nvidia.com/deploy/xid-errors/), in the form
of drivers since R575. An error names its subcode (a unit of the link), an error status, and for a link that went down
a reason; each combination has a severity and an action.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fakedev.fleet.spec.xids import XIDS_OF_FABRIC, Xid

#: Code, subcode, name, and the error statuses in hexadecimal. R: fatal, reset the GPU; E: the application ends;
#: none: counted only.
_ERRORS: Final = """\
144 1 SAW_MVB 1 2R 4 8 10R 20
145 3 RLW_CTRL 80000000
145 4 RLW_REMAP 1E 2E 4E 8E 10E 20E 40R 80R 100 200 80000000
145 5 RLW_RSPCOL 1 2R 80000000
145 6 RLW_RXPIPE 1 2 4 8 80000000
145 7 RLW_SRC_TRACK 1R 2 4E 8E 10R 20R 80000000
145 8 RLW_TAGSTATE 1 2R 10000 20000R 100000R 80000000
146 9 TLW_CTRL 1 2 4R 80000000
146 10 TLW_RX_PIPE0 1 2 4R 80000000
146 11 TLW_RX_PIPE1 1 2 4R 80000000
146 12 TLW_TX_PIPE0 1 2 4R 80000000
146 13 TLW_TX_PIPE1 1 2 4R 80000000
147 14 TREX 1 80000000
148 15 NVLPW 80000000
149 24 NETIR_INT 0R
149 19 NETIR_BER_EVENT 0 1 2 3
149 20 NETIR_MFDE_EVENT 1R 3 4R 5R 7R
150 0 MSE_WATCHDOG 0R
"""
#: The subcode of links that went down, and its reasons; two of them need no reset.
LINK_DOWN: Final = 17
_REASONS: Final = (0, 1, 2, 4, 10, 15, 16, 17, 18, 21, 22, *range(32, 39), 40, 42, 43)
_WITHOUT_RESET: Final = (38, 40)
#: Reasons for which NVIDIA advises to look at the signal of the link, and at the device at its other end.
BAD_SIGNAL: Final = 4
PEER_DOWN: Final = 32
#: The subcode and status of a code when none is given: those that end work, where the catalog has any. Chosen.
_USUAL: Final = {
    Xid.SAW: (1, 2), Xid.RLW: (7, 4), Xid.TLW: (10, 4), Xid.TREX: (14, 1), Xid.NVLPW_CTRL: (15, 1 << 31),
    Xid.NETIR: (LINK_DOWN, 0), Xid.MSE: (0, 0),
}  # fmt: skip
#: Where the reason and the link are in the first word: the reason by the catalog, the link as in published messages.
_REASON_BIT, _LINK_BIT = 20, 13
#: Words of a message: the first two are below, the others are for NVIDIA.
_OTHER_WORDS: Final = 4


class NvlinkError(NamedTuple):
    """An error of NVLink 5.

    :ivar name: of its subcode.
    :ivar status: the error status, bits.
    :ivar reason: of a link that went down; 0 for others.
    :ivar is_fatal: traffic of the link is lost, and the GPU needs a reset unless ``action`` says otherwise.
    :ivar action: R, E or nothing, as in the table above.
    """

    code: int
    subcode: int
    name: str
    status: int
    reason: int
    is_fatal: bool
    action: str

    def message(self, link: int) -> str:
        """The driver's words after the code."""
        severity = "Fatal" if self.is_fatal else "Nonfatal"
        words = [self.reason << _REASON_BIT | link << _LINK_BIT | self.subcode, self.status, *[0] * _OTHER_WORDS]
        return f"{self.name:<15} {severity:<8} XC0 i0 Link {link:02} ({' '.join(f'0x{word:08x}' for word in words)})"


def _table() -> list[NvlinkError]:
    found = [
        NvlinkError(Xid.NETIR, LINK_DOWN, "NETIR_LINK_DOWN", 0, reason, True, "" if reason in _WITHOUT_RESET else "R")
        for reason in _REASONS
    ]
    for line in _ERRORS.splitlines():
        code, subcode, name, *statuses = line.split()
        for each in statuses:
            status, action = each.rstrip("RE"), each[-1] if each[-1] in "RE" else ""
            found.append(NvlinkError(int(code), int(subcode), name, int(status, 16), 0, action == "R", action))
    return found


ERRORS: Final = tuple(_table())


def link_down(reason: int, link: int) -> str:
    """The driver's words for a link that went down."""
    return next(error for error in ERRORS if error.reason == reason).message(link)


def nvlink_error(code: int, subcode: int = 0, status: int = 0, reason: int = 0) -> NvlinkError | None:
    """The error of a code, with the usual subcode and status of the code where they are 0; None for other codes.

    :raises ValueError: when NVIDIA's catalog has no such error.
    """
    if code not in XIDS_OF_FABRIC:
        if subcode or status or reason:
            raise ValueError(f"only XIDs 144 to 150 have a subcode, a status and a reason, not {code}")
        return None
    usual, usual_status = _USUAL[Xid(code)]
    of_unit = [error for error in ERRORS if error.code == code and error.subcode == (subcode or usual)]
    if not of_unit:
        known = {error.subcode: error.name for error in ERRORS if error.code == code}
        names = ", ".join(f"{number} {name}" for number, name in sorted(known.items()))
        raise ValueError(f"XID {code} has no subcode {subcode} in NVIDIA's catalog, but {names}")
    wanted = status or (usual_status if subcode in (0, usual) else of_unit[0].status)
    for each in of_unit:
        if (each.status, each.reason) == (wanted, reason):
            return each
    statuses = " ".join(f"{number:#x}" for number in sorted({each.status for each in of_unit}))
    reasons = " ".join(str(number) for number in sorted({each.reason for each in of_unit}))
    text = f"has no status {wanted:#x} with reason {reason}; it has statuses {statuses} and reasons {reasons}"
    raise ValueError(f"XID {code} subcode {of_unit[0].subcode} {text}")
