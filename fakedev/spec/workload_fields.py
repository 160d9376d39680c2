"""One way from the fields of a request to a workload: line ports, web and configuration share it."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import Final

from fakedev.spec.errors import FieldError
from fakedev.spec.fleet import Activity, MetricUse, WorkloadSpec
from fakedev.spec.named_profiles import with_profile
from fakedev.spec.profiles import format_profile, number_of, profile_from, use_profile, use_word, uses_from
from fakedev.spec.quantities import is_in_bytes
from fakedev.spec.units import parse_duration, parse_size

#: The fields a workload may be given, as they are spelled everywhere.
FIELDS: Final = (
    "name", "devices", "profile", "repeat", "seconds-of", "kind", "node", "pod", "namespace", "container",
    "limits", "run-time-limit", "ttl", "metrics", "measured-frequency", "measured-capability",
    "faults",
)  # fmt: skip
_LONGEST_TEXT: Final = 1024
_MAX_LIMITS: Final = 64
#: Faults that one workload may bring.
MAX_FAULTS_BROUGHT: Final = 32
_MEASURED: Final = {"measured-frequency": "measured_frequency_mhz", "measured-capability": "measured_capability"}


def workload_from_fields(fields: Mapping[str, object]) -> WorkloadSpec:
    """The workload that the fields describe (FIELDS; doc/protocol-workload.txt says what each takes).

    :raises FieldError: naming the field at fault.
    """
    for field in fields:
        if field not in FIELDS:
            near = difflib.get_close_matches(field, FIELDS, 1)
            raise FieldError(field, "is not a field of a workload" + (f"; did you mean {near[0]}?" if near else ""))
    fields = with_profile(fields)
    name = _text(fields, "name")
    if not name:
        raise FieldError("name", "a workload needs a name")
    return WorkloadSpec(
        name=name,
        devices=_devices(fields.get("devices")),
        activities=_profile(fields.get("profile")),
        repeat=_repeat(fields.get("repeat", 1)),
        kind=_text(fields, "kind") or "compute",
        is_work=_is_work(_text(fields, "seconds-of")),
        node=_text(fields, "node"),
        pod=_text(fields, "pod"),
        namespace=_text(fields, "namespace"),
        container=_text(fields, "container"),
        limits=_limits(fields.get("limits")),
        run_time_limit_seconds=_duration(fields, "run-time-limit"),
        ttl_seconds=_duration(fields, "ttl"),
        uses=_uses(fields.get("metrics")),
        measured_frequency_mhz=_measured(fields, "measured-frequency"),
        measured_capability=_measured(fields, "measured-capability"),
        faults=_faults(fields.get("faults")),
    )


def fields_of_workload(spec: WorkloadSpec) -> dict[str, object]:
    """The fields that :func:`workload_from_fields` turns into just this workload; defaults left out."""
    fields: dict[str, object] = {
        "name": spec.name,
        "devices": list(spec.devices),
        "profile": format_profile(spec.activities),
        "repeat": spec.repeat,
    }
    if spec.is_work:
        fields["seconds-of"] = "work"
    if spec.kind != "compute":
        fields["kind"] = spec.kind
    for field in ("node", "pod", "namespace", "container"):
        if getattr(spec, field):
            fields[field] = getattr(spec, field)
    if spec.limits:
        fields["limits"] = dict(spec.limits)
    if spec.run_time_limit_seconds:
        fields["run-time-limit"] = spec.run_time_limit_seconds
    if spec.ttl_seconds:
        fields["ttl"] = spec.ttl_seconds
    if spec.uses:
        fields["metrics"] = {use_word(use): use_profile(use) for use in spec.uses}
    for field, name in _MEASURED.items():
        if getattr(spec, name):
            fields[field] = getattr(spec, name)
    if spec.faults:
        fields["faults"] = [dict(fault) for fault in spec.faults]
    return fields


def _text(fields: Mapping[str, object], field: str) -> str:
    value = fields.get(field, "")
    if not isinstance(value, str):
        raise FieldError(field, f"must be a text, not {_kind(value)}")
    if len(value) > _LONGEST_TEXT:
        raise FieldError(field, f"is longer than {_LONGEST_TEXT} characters")
    if "\0" in value:
        raise FieldError(field, "must not hold a NUL character")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise FieldError(field, "is not UTF-8: it holds half a surrogate pair")
    return value


def _devices(value: object) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        raise FieldError("devices", "must be a list of device words, as card0 or dgx-[0-3]/*")
    stripped = tuple(word.strip() for word in words)
    if not stripped or not all(stripped):
        raise FieldError("devices", "a workload needs at least one device, and no empty device word")
    return stripped


def _profile(value: object) -> tuple[Activity, ...]:
    try:
        return profile_from(value)
    except ValueError as error:
        raise FieldError("profile", str(error)) from None


def _uses(value: object) -> tuple[MetricUse, ...]:
    try:
        return uses_from(value)
    except ValueError as error:
        raise FieldError("metrics", str(error)) from None


def _faults(value: object) -> tuple[Mapping[str, object], ...]:
    """Faults as objects, or their kinds alone; what they say is looked at when the devices are known."""
    if value is None:
        return ()
    if isinstance(value, str):
        value = [{"kind": kind.strip()} for kind in value.split(",")]
    if not isinstance(value, list | tuple) or len(value) > MAX_FAULTS_BROUGHT:
        raise FieldError("faults", f"must be kinds of faults, or a list of at most {MAX_FAULTS_BROUGHT} faults")
    for position, fault in enumerate(value, 1):
        if not isinstance(fault, Mapping) or not all(isinstance(key, str) for key in fault):
            raise FieldError("faults", f'fault {position}: must be an object, as {{"kind": "hang"}}')
        for field in ("devices", "node"):
            if field in fault:
                raise FieldError("faults", f"fault {position}: {field}: it is on the devices of the workload")
    return tuple(value)


def _measured(fields: Mapping[str, object], field: str) -> float:
    number = number_of(fields.get(field, 0))
    if number is None or not 0 <= number <= 1e9:
        raise FieldError(field, "must be a number from 0 to 1e9, 0 for not measured")
    return number


def _repeat(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 2**53:
        raise FieldError("repeat", "must be a whole number, 0 for ever")
    return value


def _is_work(value: str) -> bool:
    if value not in ("", "time", "work"):
        raise FieldError("seconds-of", f"{value!r} is neither time nor work")
    return value == "work"


def _limits(value: object) -> tuple[tuple[str, float], ...]:
    if value is None:
        return ()
    if not isinstance(value, Mapping) or len(value) > _MAX_LIMITS:
        raise FieldError("limits", f"must be at most {_MAX_LIMITS} metrics, each with a number")
    return tuple(_limit(metric, limit) for metric, limit in value.items())


def _limit(metric: object, value: object) -> tuple[str, float]:
    number = number_of(value)
    if isinstance(metric, str) and isinstance(value, str):
        if not is_in_bytes(metric):
            raise FieldError("limits", f"the limit of {metric!r} must be a number, in the unit that it is shown in")
        try:
            number = float(parse_size(value))
        except ValueError as error:
            raise FieldError("limits", f"{metric}: {error}") from None
    if not isinstance(metric, str) or number is None or not math.isfinite(number):
        raise FieldError("limits", f"the limit of {metric!r} must be a finite number")
    return metric, number


def _duration(fields: Mapping[str, object], field: str) -> float:
    value = fields.get(field, 0)
    number = number_of(value)
    if number is not None:
        if not 0 <= number <= 1e10:
            raise FieldError(field, "must be a duration, as 90s or 5m, or seconds from 0 up")
        return number
    if not isinstance(value, str):
        raise FieldError(field, f"must be a duration, as 90s or 5m, not {_kind(value)}")
    try:
        return parse_duration(value)
    except ValueError as error:
        raise FieldError(field, str(error)) from None


def _kind(value: object) -> str:
    return {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}.get(
        type(value), "nothing"
    )
