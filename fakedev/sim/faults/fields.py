"""One way from the fields of a request to a fault: line ports, web, configuration and record share it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final

from fakedev.sim.faults.kinds import KINDS, FaultKind, Parameter
from fakedev.spec.errors import FieldError
from fakedev.spec.fault import FaultSpec
from fakedev.spec.profiles import number_of
from fakedev.spec.units import parse_duration

#: What the kinds take, by name.
VALUES: Final = tuple(dict.fromkeys(each.name for kind in KINDS.values() for each in kind.parameters))
_TIMES: Final = ("start", "duration", "every")
#: The fields a fault may be given, as they are spelled everywhere.
FIELDS: Final = ("kind", "devices", "node", *_TIMES, "probability", "metric", *VALUES)
_LONGEST_TEXT: Final = 1024
_LONGEST_SECONDS: Final = 1e10


def fault_from_fields(fields: Mapping[str, object]) -> FaultSpec:
    """The fault that the fields describe (FIELDS; doc/faults.md says what each kind takes).

    :raises FieldError: naming the field at fault.
    """
    kind = _kind(fields.get("kind"))
    allowed = ["kind", "devices", "node", *_TIMES, "probability", *(each.name for each in kind.parameters)]
    if kind.takes_metric:
        allowed.append("metric")
    for field in fields:
        if field not in allowed:
            near = difflib.get_close_matches(field, allowed, 1)
            reason = f"is nothing that the fault {kind.name} takes"
            raise FieldError(field, reason + (f"; did you mean {near[0]}?" if near else ""))
    values = {}
    for parameter in kind.parameters:
        if parameter.name in fields or parameter.default is None:
            values[parameter.name] = _value(parameter, fields.get(parameter.name))
        if parameter.name in fields and parameter.instead_of in fields:
            raise FieldError(parameter.name, f"does not go with {parameter.instead_of}: give one of the two")
    node = _text(fields, "node")
    if "devices" not in fields and not node:
        raise FieldError("devices", "say which devices: all, dgx-0/3, dgx-[0-3]/*; or give node=")
    probability = number_of(fields.get("probability", 1.0))
    if probability is None or not 0 <= probability <= 1:
        raise FieldError("probability", "must be a number from 0 to 1")
    start, duration, every = (_seconds(fields, name) for name in _TIMES)
    return FaultSpec(
        kind=kind.name,
        devices=_devices(fields.get("devices", "all")),
        node=node,
        start_seconds=start,
        duration_seconds=duration,
        every_seconds=every,
        probability=probability,
        metric=_text(fields, "metric"),
        values=values,
    )


def fields_of_fault(spec: FaultSpec) -> dict[str, object]:
    """The fields that :func:`fault_from_fields` turns into just this fault; defaults left out."""
    fields: dict[str, object] = {"kind": spec.kind, "devices": list(spec.devices)}
    for name, value, default in (
        ("node", spec.node, ""),
        ("start", spec.start_seconds, 0.0),
        ("duration", spec.duration_seconds, 0.0),
        ("every", spec.every_seconds, 0.0),
        ("probability", spec.probability, 1.0),
        ("metric", spec.metric, ""),
    ):
        if value != default:
            fields[name] = value
    return fields | dict(spec.values)


def _kind(value: object) -> FaultKind:
    if not isinstance(value, str) or value not in KINDS:
        near = difflib.get_close_matches(str(value)[:100], KINDS, 1)
        hint = f"; did you mean {near[0]}?" if near else f": give one of {', '.join(KINDS)}"
        raise FieldError("kind", f"no kind of fault {str(value)[:100]!r}{hint}")
    return KINDS[value]


def _value(parameter: Parameter, value: object) -> float:
    number = number_of(value)
    if number is None or not parameter.low <= number <= parameter.high or (parameter.whole and number % 1):
        noun = "a whole number" if parameter.whole else "a number"
        reason = f"must be {noun} from {parameter.low:g} to {parameter.high:g}: {parameter.summary}"
        raise FieldError(parameter.name, "missing: it " + reason if value is None else reason)
    if parameter.among and number not in parameter.among:
        raise FieldError(parameter.name, f"must be one of {', '.join(map(str, parameter.among))}: {parameter.summary}")
    return number


def _text(fields: Mapping[str, object], field: str) -> str:
    value = fields.get(field, "")
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise FieldError(field, f"must be a text of at most {_LONGEST_TEXT} characters")
    return value


def _devices(value: object) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not words or not all(isinstance(word, str) and word for word in words):
        raise FieldError("devices", "must be a list of device words, as card0 or dgx-[0-3]/*")
    return tuple(words)


def _seconds(fields: Mapping[str, object], field: str) -> float:
    value = fields.get(field, 0)
    try:
        number = parse_duration(value) if isinstance(value, str) else number_of(value)
    except ValueError as error:
        raise FieldError(field, str(error)) from None
    if number is None or not 0 <= number <= _LONGEST_SECONDS:
        raise FieldError(field, "must be a duration, as 90s or 5m, or seconds from 0 up")
    return number
