"""What the fleet describes as lines of text: answers of the workload port, and of commands that use the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fakedev.lines.words import quote_word

#: Lines of the journal in an answer: the most, and those when neither a number nor a time is given.
MAX_ENTRIES: Final = 1000
_DEFAULT_ENTRIES: Final = 20
#: Characters of one value in a line of `list` and `faults`.
_MAX_VALUE_CHARACTERS: Final = 400
#: What `devices` shows of each device.
DEVICE_QUANTITIES: Final = (
    "usage_ratio", "power_watts", "temperature_celsius", "core_frequency_mhz", "memory_used_bytes",
)  # fmt: skip
_WORKLOAD_KEYS: Final = (
    "state", "device-count", "load-percent", "run-seconds", "remaining-seconds", "profile", "metrics", "repeat", "pod",
)  # fmt: skip
#: Of a fault that is over; the other fields are parameters of its kind.
_COMMON_FAULT_FIELDS: Final = frozenset((
    "id", "state", "kind", "devices", "node", "start", "duration", "every", "probability", "affected", "since-seconds",
    "ended-tick", "ended-seconds", "ended-at",
))  # fmt: skip


def default_entries(since: str) -> int:
    """How many lines of the journal an answer has when no number is given.

    :param since: the time from which they are; empty: none is given.
    """
    return MAX_ENTRIES if since else _DEFAULT_ENTRIES


def workload_line(described: Mapping[str, Any]) -> str:
    keys = [key for key in _WORKLOAD_KEYS if described.get(key) is not None]
    return " ".join([described["id"], quote_word(described["name"]), *_pairs(described, keys)])


def field_lines(described: Mapping[str, Any]) -> list[str]:
    """A line for each field that has a value."""
    return [f"{key}: {_as_word(value)}" for key, value in described.items() if value is not None]


def device_line(described: Mapping[str, Any]) -> str:
    """A device in a list: ``device``, and what else it has."""
    name, *pairs = (f"{key}={_as_word(value)}" for key, value in described.items())
    return " ".join([name.removeprefix("device="), *pairs])


def fault_line(described: Mapping[str, Any]) -> str:
    first = ("state", "device-count", "active-devices")
    others = (key for key in described if key not in ("id", "kind", *first))
    keys = [key for key in (*first, *others) if described[key] is not None]
    return " ".join([described["id"], described["kind"], *_pairs(described, keys)])


def explanation_line(described: Mapping[str, Any]) -> str:
    """Why a metric has its value."""
    return f"{described['metric']} {_number(described['value'])}: {described['text']}"


def journal_line(fields: Mapping[str, Any]) -> str:
    """An entry of the journal."""
    cause = f" ({fields['cause']})" if fields["cause"] else ""
    line = f"{fields['tick']} {fields['seconds']:g} {fields['kind']} {fields['scope']}: {fields['text']}{cause}"
    return f"{line} at {fields['at']}"


def ended_line(fields: Mapping[str, Any]) -> str:
    """A workload that has ended, in a list."""
    cause = f" (fault {fields['cause']})" if fields["cause"] else ""
    name = " ".join(quote_word(fields[key]) for key in ("name", "pod") if fields[key])
    detail = f": {fields['detail']}" if fields["detail"] else ""
    end = f"{fields['code']} {fields['text']}{detail}{cause} in tick {fields['ended-tick']} at {fields['ended-at']}"
    return f"{fields['id']} {name} on {fields['devices']}: {end}"


def past_fault_line(fields: Mapping[str, Any]) -> str:
    """A fault that is over, in a list."""
    began = "" if fields["since-seconds"] is None else f"from {fields['since-seconds']:g} s "
    end = f"to {fields['ended-seconds']:g} s, over in tick {fields['ended-tick']}"
    where = fields["affected"] or "no device"
    own = _pairs(fields, [key for key in fields if key not in _COMMON_FAULT_FIELDS])
    return f"{' '.join([fields['id'], fields['kind'], *own])} on {where}: {began}{end} at {fields['ended-at']}"


def _pairs(described: Mapping[str, Any], keys: Sequence[str]) -> list[str]:
    """``key=value`` of these keys; long values are cut."""
    words = [(key, _as_word(described[key])) for key in keys]
    most = _MAX_VALUE_CHARACTERS
    return [f"{key}={word if len(word) <= most else word[:most] + '...'}" for key, word in words]


def _as_word(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        return ",".join(f"{key}:{_as_word(item)}" for key, item in value.items())
    return quote_word(str(value)) if isinstance(value, str) else str(value)


def _number(value: float | None) -> str:
    return "not shown" if value is None else f"{value:g}"
