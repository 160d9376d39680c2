"""Records of errors of AMD's boards (CPER), as their driver writes them, and the AFIDs that stand for them.

A record has a header and one section with the registers of the error (ACA), from which AMD's library finds the AFID.
The layout is that of ``amd_cper.h`` of Linux; registers and AFIDs follow the tables of AMD's ``amd-smi`` (aca-decode of
7.1, ras-decode later). Its own decoder finds the same AFIDs in the records of this module, as tried by hand.
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, Final, NamedTuple

from fakedev.nvml.amd.amdsmi_names import NAMES


class Afid(IntEnum):
    """AMD Field IDs: what went wrong. The names are short for AMD's categories, types and severities."""

    LINK_CORRECTED = 17
    LINK_FATAL = 18
    MEMORY_FATAL = 20
    MEMORY_UNCORRECTED = 22
    MEMORY_CORRECTED = 24
    DEVICE_UNCORRECTED = 28
    DEVICE_CORRECTED = 29
    DEVICE_FATAL = 30
    MALFORMED = 31
    UNIDENTIFIED = 34


class Severity(IntEnum):
    """Of a record."""

    UNCORRECTED = 0
    FATAL = 1
    CORRECTED = 2


#: The first of a severity's names is in tables, the second in names of files.
SEVERITY_NAMES: Final = {
    Severity.UNCORRECTED: ("NONFATAL-UNCORRECTED", "uncorrected"), Severity.FATAL: ("FATAL", "fatal"),
    Severity.CORRECTED: ("NONFATAL-CORRECTED", "corrected"),
}  # fmt: skip
#: Bits of the status register: valid, enabled, syndrome valid; uncorrected, context corrupt, corrected, ...
_VALID: Final = 1 << 63 | 1 << 60 | 1 << 53
_UNCORRECTED, _CORRUPT, _CORRECTED, _DEFERRED, _POISON, _TASK = 1 << 61, 1 << 57, 1 << 46, 1 << 44, 1 << 43, 1 << 55
_CODE_AT: Final = 16
#: Banks of the chip by the number of their hardware in the IPID register (bits 32 to 43): memory, management, links.
_UMC, _SMU, _XGMI = 0x96, 0x01, 0x50
_HARDWARE_AT, _TYPE_AT, _HARDWARE_BITS = 32, 48, 0xFFF
#: The management's bank reports errors of the graphics engine, here of the first die, with these codes.
_GFX: Final = 1 << _TYPE_AT | _SMU << _HARDWARE_AT | 0x36430400
_GFX_CORRECTED, _GFX_FATAL = 0x3A << _CODE_AT, 0x3B << _CODE_AT
#: Status and IPID register of each AFID that boards report.
_REGISTERS: Final = {
    Afid.MEMORY_CORRECTED: (_CORRECTED, _UMC << _HARDWARE_AT),
    Afid.MEMORY_FATAL: (_UNCORRECTED | _CORRUPT, _UMC << _HARDWARE_AT),
    Afid.DEVICE_CORRECTED: (_CORRECTED | _GFX_CORRECTED, _GFX),
    Afid.DEVICE_FATAL: (_UNCORRECTED | _CORRUPT | _GFX_FATAL, _GFX),
    Afid.LINK_FATAL: (_UNCORRECTED | _CORRUPT, _XGMI << _HARDWARE_AT),
}  # fmt: skip
#: The AFIDs that boards of the simulation report.
REPORTED: Final = frozenset(map(int, _REGISTERS))
#: The AFIDs of a bank by severity; all others are the device's.
_AFIDS: Final = {
    _UMC: (Afid.MEMORY_UNCORRECTED, Afid.MEMORY_FATAL, Afid.MEMORY_CORRECTED),
    _XGMI: (Afid.UNIDENTIFIED, Afid.LINK_FATAL, Afid.LINK_CORRECTED),
}
_AFIDS_OF_DEVICE: Final = (Afid.DEVICE_UNCORRECTED, Afid.DEVICE_FATAL, Afid.DEVICE_CORRECTED)
#: Signature, revision, its end, sections, severity, what is valid, length, time, platform, partition, creator, type of
#: the notification, number of the record, flags, persistence.
_HEADER: Final = struct.Struct("<4sHIHIII8s16s16s16s16s8sIQ12x")
#: Place and length of the section, revision, what is valid, flags, type, FRU, severity, FRU in words.
_SECTION: Final = struct.Struct("<IIBBBxI16s16sI20s")
#: A section of a crash: type and size of the registers at byte 128; then status, address, IPID and syndrome.
_CRASH: Final = struct.Struct("<128xHH12x4Q32x")
#: A section of an error at run time: counts of what follows; type and size of 16 registers, of which 1, 2, 5 and 6 are
#: those.
_RUNTIME: Final = struct.Struct("<Q120xHH12x16Q")
_COUNTS_OF_ONE: Final = 1 << 2 | 1 << 8
_REVISION, _SECTION_REVISION, _CRASH_CONTEXT = 0x100, (1, 0x22), 1
_SIGNATURE, _END = b"CPER", 0xFFFFFFFF
#: What is valid in a header: platform, time, partition; of a section: the words for its FRU.
_HEADER_VALID, _SECTION_VALID, _PRIMARY = 0b111, 0b10, 1
_CRASH_TYPE: Final = bytes.fromhex("780cac322326f648b0d07365725fd6ae")
_RUNTIME_TYPE: Final = bytes.fromhex("780cac322326f64881a2ac691780551d")
#: Types of the notification: of a machine check and of a corrected one.
_MCE: Final = bytes.fromhex("fe6ff5e89c91c54cba8865abe14913bb")
_CMC: Final = bytes.fromhex("b18bce2dd7bd0e45b9ad9cf4ebd4f890")
_TYPE_BYTES: Final = 8
#: In 2112.
_LAST_US: Final = 2**52


class Source(NamedTuple):
    """The board of a record.

    :ivar vendor: on PCI, as ``device``.
    :ivar place: of its module in the node.
    """

    vendor: int
    device: int
    place: int


def severity_of(afid: int) -> Severity:
    """The severity of an error that boards report."""
    corrected = (Afid.MEMORY_CORRECTED, Afid.DEVICE_CORRECTED, Afid.LINK_CORRECTED)
    return Severity.CORRECTED if afid in corrected else Severity.FATAL


def cper_of(afid: int, source: Source, wall_us: int, number: int) -> bytes:
    """The record of an error.

    :param afid: one of ``REPORTED``.
    :param wall_us: microseconds since 1970; of a damaged file it may be any number.
    :param number: of the record.
    """
    status, ipid = _REGISTERS[Afid(afid)]
    severity = severity_of(afid)
    if severity is Severity.FATAL:
        section = _CRASH.pack(_CRASH_CONTEXT, 32, _VALID | status, 0, ipid, 0)
    else:
        registers = [0] * 16
        registers[1], registers[5] = _VALID | status, ipid
        section = _RUNTIME.pack(_COUNTS_OF_ONE, _CRASH_CONTEXT, 128, *registers)
    begin = _HEADER.size + _SECTION.size
    when = datetime.fromtimestamp(min(max(0, wall_us), _LAST_US) // 1_000_000, UTC)
    time = bytes([
        when.second, when.minute, when.hour, 0, when.day, when.month, when.year % 100, when.year // 100,
    ])  # fmt: skip
    header = _HEADER.pack(
        _SIGNATURE, _REVISION, _END, 1, severity, _HEADER_VALID, begin + len(section), time,
        f"0x{source.vendor:04X}:0x{source.device:04X}".encode(), b"", b"amdgpu",
        _CMC if severity is Severity.CORRECTED else _MCE, f"{source.place}:{number:X}".encode(), 0, 0,
    )  # fmt: skip
    description = _SECTION.pack(
        begin, len(section), *_SECTION_REVISION, _SECTION_VALID, _PRIMARY,
        _CRASH_TYPE if severity is Severity.FATAL else _RUNTIME_TYPE, b"", severity, f"OAM{source.place}".encode(),
    )  # fmt: skip
    return header + description + section


def header_of(record: bytes) -> dict[str, Any]:
    """What ``amdsmi_get_gpu_cper_entries`` returns of a record."""
    (signature, revision, end, count, severity, _, length, time, platform, _, creator, kind, number, flags, persistence
     ) = _HEADER.unpack_from(record)  # fmt: skip
    second, minute, hour, _, day, month, year, _ = time
    kinds = {int(each): each.name for each in NAMES.enumerations["AmdSmiCperNotifyType"]}
    return {
        "error_severity": f"non_fatal_{Severity(severity).name}".lower() if severity != Severity.FATAL else "fatal",
        "notify_type": kinds.get(int.from_bytes(kind[:_TYPE_BYTES], "little"), "Unknown"),
        "timestamp": f"{2000 + year:04}/{month:02}/{day:02} {hour:02}:{minute:02}:{second:02}",
        "signature": signature, "revision": revision, "signature_end": hex(end), "sec_cnt": count,
        "record_length": length, "platform_id": platform.rstrip(b"\0"), "creator_id": creator.rstrip(b"\0"),
        "record_id": number.rstrip(b"\0"), "flags": flags, "persistence_info": persistence,
    }  # fmt: skip


def afids_of(record: bytes) -> list[int]:
    """The AFID of each section of a record.

    Those of boards' types of errors that the simulation does not have are found by bank and severity alone.

    :raises ValueError: for other bytes.
    """
    try:
        signature, _, end, count, *_ = _HEADER.unpack_from(record)
        if (signature, end) != (_SIGNATURE, _END):
            raise ValueError("no CPER record")
        return [_afid_at(record, _HEADER.size + number * _SECTION.size) for number in range(count)]
    except struct.error:
        raise ValueError("a CPER record that is cut") from None


def _afid_at(record: bytes, place: int) -> int:
    begin, _, _, _, _, _, kind, *_ = _SECTION.unpack_from(record, place)
    if kind == _CRASH_TYPE:
        _, _, status, _, ipid, _ = _CRASH.unpack_from(record, begin)
    elif kind == _RUNTIME_TYPE:
        _, _, _, _, status, _, _, _, ipid, *_ = _RUNTIME.unpack_from(record, begin)
    else:
        return Afid.MALFORMED
    return _AFIDS.get(ipid >> _HARDWARE_AT & _HARDWARE_BITS, _AFIDS_OF_DEVICE)[_severity(status)]


def _severity(status: int) -> Severity:
    """By the bits of the status register, in the order in which AMD's decoder reads them."""
    if status & _POISON:
        return Severity.UNCORRECTED
    if status & _CORRUPT or (status & _UNCORRECTED and status & _TASK):
        return Severity.FATAL
    return Severity.UNCORRECTED if status & (_UNCORRECTED | _DEFERRED) else Severity.CORRECTED
