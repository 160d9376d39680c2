"""Memory of a pool's devices in place of their type's: a board that the catalog lacks, or one with more memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fakedev.config.schema.nodes import Report
from fakedev.config.schema.schema import Values
from fakedev.spec.device_types import DeviceType, Range

_USED: Final = "memory_used_bytes"


def with_memory(device_type: DeviceType, values: Values, report: Report) -> DeviceType:
    """The device type with the memory of a pool, if that gives it; problems are reported.

    What plain work uses stays the same share of the memory.

    :param values: of the pool.
    """
    memory: Values | None = values["memory"]
    if memory is None or memory["total"] is None:
        return device_type
    total, reserved = memory["total"], memory["reserved"]
    usable = total - reserved
    if usable <= 0:
        text = f"memory: reserved {reserved:.0f} leaves nothing of total {total:.0f}: give a larger total"
        report.problem(values.place_of("memory"), text)
        return device_type
    if device_type.tiles:
        text = f"memory: the device type {device_type.name!r} has tiles with memory of their own: remove it"
        report.problem(values.place_of("memory"), text)
        return device_type
    ranges = dict(device_type.ranges)
    before = device_type.memory_total_bytes - device_type.memory_reserved_bytes
    if _USED in ranges:
        share = usable / before if before > 0 else 1.0
        low, high = (min(end * share, usable) for end in (ranges[_USED].low, ranges[_USED].high))
        ranges[_USED] = Range(low, high)
    return replace(
        device_type,
        ranges=ranges,
        memory_total_bytes=total,
        memory_reserved_bytes=reserved,
        memory_page_bytes=max(memory["page"], 1.0),
    )
