"""Bare JSON: what the original's workload program sends."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fakedev.wire.errors import ProtocolError
from fakedev.wire.strict_json import kind_of, load_object

_NAMES = ("Name", "Repeat", "Profile", "Devices", "Limits")
_ACTIVITY_NAMES = ("Load", "Fluctuation", "Seconds")


@dataclass(frozen=True)
class BareWorkload:
    """A workload as the original's object describes it; what was missing is empty or 0.

    :param profile: (load, fluctuation, seconds) of each activity.
    :param notes: what was ignored, in words, for the log.
    """

    name: str
    repeat: int
    profile: tuple[tuple[float, float, float], ...]
    devices: tuple[str, ...]
    limits: Mapping[str, float]
    notes: tuple[str, ...] = ()

    def arguments(self) -> dict[str, object]:
        """The same as the arguments of a ``run`` request."""
        return {
            "name": self.name,
            "repeat": self.repeat,
            "profile": [list(activity) for activity in self.profile],
            "devices": list(self.devices),
            "limits": dict(self.limits),
        }


def parse_bare_workload(message: bytes) -> BareWorkload:
    """The workload that an object describes.

    Names are found in any letter case, and the last of several counts, as for Go.

    :raises ProtocolError: ``bad-argument``, naming the field at fault.
    """
    notes: list[str] = []
    fields = _known(load_object(message, last_one_counts=True), _NAMES, "", notes)
    return BareWorkload(
        name=_text("Name", fields["Name"]),
        repeat=_whole("Repeat", fields["Repeat"]),
        profile=tuple(
            _activity(f"Profile[{position}]", entry, notes)
            for position, entry in enumerate(_list("Profile", fields["Profile"]))
        ),
        devices=tuple(
            _text(f"Devices[{position}]", entry) for position, entry in enumerate(_list("Devices", fields["Devices"]))
        ),
        limits=_limits(fields["Limits"]),
        notes=tuple(notes),
    )


def _known(fields: Mapping[str, object], names: tuple[str, ...], where: str, notes: list[str]) -> dict[str, object]:
    """The fields by their proper names; None for those that are missing."""
    proper = {name.casefold(): name for name in names}
    found: dict[str, object] = dict.fromkeys(names)
    for key, value in fields.items():
        name = proper.get(key.casefold())
        if name is None:
            notes.append(f"{where}{key[:100]}: unknown, ignored")
        else:
            found[name] = value
    return found


def _activity(where: str, entry: object, notes: list[str]) -> tuple[float, float, float]:
    if not isinstance(entry, dict):
        raise ProtocolError("bad-argument", f"{where}: must be an object, not {kind_of(entry)}")
    fields = _known(entry, _ACTIVITY_NAMES, f"{where}.", notes)
    load, fluctuation, seconds = (_number(f"{where}.{name}", fields[name]) for name in _ACTIVITY_NAMES)
    return load, fluctuation, seconds


def _limits(value: object) -> dict[str, float]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ProtocolError("bad-argument", f"Limits: must be metrics, each with a number, not {kind_of(value)}")
    return {metric: _number(f"Limits.{metric[:100]}", limit) for metric, limit in value.items()}


def _list(where: str, value: object) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ProtocolError("bad-argument", f"{where}: must be a list, not {kind_of(value)}")
    return value


def _text(where: str, value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ProtocolError("bad-argument", f"{where}: must be a text, not {kind_of(value)}")
    return value


def _whole(where: str, value: object) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise ProtocolError("bad-argument", f"{where}: must be a whole number")
    return value


def _number(where: str, value: object) -> float:
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ProtocolError("bad-argument", f"{where}: must be a number, not {kind_of(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ProtocolError("bad-argument", f"{where}: is too large")
    return number
