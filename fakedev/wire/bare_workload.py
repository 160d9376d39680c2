"""Bare JSON of the workload port, as the original workload program sends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fakedev.wire.bare_fields import known_fields, list_field, number_field, text_field, texts_field, whole_field
from fakedev.wire.errors import ProtocolError
from fakedev.wire.strict_json import kind_of, load_object

_NAMES = ("Name", "Repeat", "Profile", "Devices", "Limits")
_ACTIVITY_NAMES = ("Load", "Fluctuation", "Seconds")


@dataclass(frozen=True)
class BareWorkload:
    """A workload as an object of the original program describes it. Missing fields are empty or 0.

    :param profile: (load, fluctuation, seconds) of each activity.
    :param notes: fields that were ignored, in words, for the log.
    """

    name: str
    repeat: int
    profile: tuple[tuple[float, float, float], ...]
    devices: tuple[str, ...]
    limits: Mapping[str, float]
    notes: tuple[str, ...] = ()

    def arguments(self) -> dict[str, object]:
        """The arguments of the equivalent ``run`` request."""
        return {
            "name": self.name,
            "repeat": self.repeat,
            "profile": [list(activity) for activity in self.profile],
            "devices": list(self.devices),
            "limits": dict(self.limits),
        }


def parse_bare_workload(message: bytes) -> BareWorkload:
    """Parse a workload.

    Names match in any letter case, and the last of several counts, as in Go.

    :raises ProtocolError: ``bad-argument``, naming the field at fault.
    """
    notes: list[str] = []
    fields = known_fields(load_object(message, last_one_counts=True), _NAMES, "", notes)
    return BareWorkload(
        name=text_field("Name", fields["Name"]),
        repeat=whole_field("Repeat", fields["Repeat"]),
        profile=tuple(
            _activity(f"Profile[{position}]", entry, notes)
            for position, entry in enumerate(list_field("Profile", fields["Profile"]))
        ),
        devices=texts_field("Devices", fields["Devices"]),
        limits=_limits(fields["Limits"]),
        notes=tuple(notes),
    )


def _activity(where: str, entry: object, notes: list[str]) -> tuple[float, float, float]:
    if not isinstance(entry, dict):
        raise ProtocolError("bad-argument", f"{where}: must be an object, not {kind_of(entry)}")
    fields = known_fields(entry, _ACTIVITY_NAMES, f"{where}.", notes)
    load, fluctuation, seconds = (number_field(f"{where}.{name}", fields[name]) for name in _ACTIVITY_NAMES)
    return load, fluctuation, seconds


def _limits(value: object) -> dict[str, float]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ProtocolError("bad-argument", f"Limits: must be metrics, each with a number, not {kind_of(value)}")
    return {metric: number_field(f"Limits.{metric[:100]}", limit) for metric, limit in value.items()}
