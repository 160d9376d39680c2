"""The -json file of fakedev-workload: the original's, whose fields are named in any letter case."""

from __future__ import annotations

import json
from typing import Final, NoReturn

from fakedev.spec.workload_fields import FIELDS

_ACTIVITY_NAMES: Final = ("load", "fluctuation", "seconds", "time", "utilization")


def fields_from_json(text: str) -> tuple[dict[str, object], list[str]]:
    """The fields of a workload in a JSON text, by their lower-case names, and the keys that mean nothing.

    A null is as good as a field left out, as for Go's reader.

    :raises ValueError: when the text is no JSON object, and no list.
    """
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from None
    if isinstance(document, list):
        # The list of a schedule, or of activities, alone.
        document = {"schedule": document}
    if not isinstance(document, dict):
        raise ValueError("is not a JSON object with Name, Repeat and Profile, nor a list of activities")
    fields, unknown = _folded(document, (*FIELDS, "schedule"))
    if "schedule" in fields:
        # A schedule of utilization may be the whole file.
        fields.setdefault("profile", fields.pop("schedule"))
    profile = fields.get("profile")
    if isinstance(profile, list):
        activities: list[object] = []
        for position, entry in enumerate(profile, 1):
            if not isinstance(entry, dict):
                activities.append(entry)
                continue
            activity, strange = _folded(entry, _ACTIVITY_NAMES)
            activities.append(activity)
            unknown += [f"{key} (activity {position})" for key in strange]
        fields["profile"] = activities
    return fields, unknown


def _folded(entry: dict[str, object], names: tuple[str, ...]) -> tuple[dict[str, object], list[str]]:
    known: dict[str, object] = {}
    unknown: list[str] = []
    for key, value in entry.items():
        if key.lower() not in names:
            unknown.append(key)
        elif value is not None:
            known[key.lower()] = value
    return known, unknown


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")
