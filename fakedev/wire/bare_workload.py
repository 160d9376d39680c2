"""Bare JSON of the workload port, as the original workload program sends it."""

from __future__ import annotations

from typing import NamedTuple

from fakedev.wire.bare_fields import known_fields, list_field, number_field, text_field, texts_field, whole_field
from fakedev.wire.errors import ProtocolError
from fakedev.wire.strict_json import kind_of, load_object

_NAMES = ("Name", "Repeat", "Profile", "Devices", "Limits")
_ACTIVITY_NAMES = ("Load", "Fluctuation", "Seconds")


class BareWorkload(NamedTuple):
    """A workload as an object of the original program describes it.

    :param arguments: those of the equivalent ``run`` request; missing fields are empty or 0.
    :param notes: fields that were ignored, in words, for the log.
    """

    arguments: dict[str, object]
    notes: tuple[str, ...] = ()


def parse_bare_workload(message: bytes) -> BareWorkload:
    """Parse a workload.

    Names match in any letter case, and the last of several counts, as in Go.

    :raises ProtocolError: ``bad-argument``, naming the field at fault.
    """
    notes: list[str] = []
    fields = known_fields(load_object(message, last_one_counts=True), _NAMES, "", notes)
    arguments = {
        "name": text_field("Name", fields["Name"]),
        "repeat": whole_field("Repeat", fields["Repeat"]),
        "profile": [
            _activity(f"Profile[{position}]", entry, notes)
            for position, entry in enumerate(list_field("Profile", fields["Profile"]))
        ],
        "devices": list(texts_field("Devices", fields["Devices"])),
        "limits": _limits(fields["Limits"]),
    }
    return BareWorkload(arguments, tuple(notes))


def _activity(where: str, entry: object, notes: list[str]) -> list[float]:
    if not isinstance(entry, dict):
        raise ProtocolError("bad-argument", f"{where}: must be an object, not {kind_of(entry)}")
    fields = known_fields(entry, _ACTIVITY_NAMES, f"{where}.", notes)
    return [number_field(f"{where}.{name}", fields[name]) for name in _ACTIVITY_NAMES]


def _limits(value: object) -> dict[str, float]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ProtocolError("bad-argument", f"Limits: must be metrics, each with a number, not {kind_of(value)}")
    return {metric: number_field(f"Limits.{metric[:100]}", limit) for metric, limit in value.items()}
