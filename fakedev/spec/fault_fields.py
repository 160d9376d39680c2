"""The fields of a fault, declared once, and one way from a request's fields to a fault and back.

Line ports, web, configuration and record take what is declared here; the kinds are in
:mod:`fakedev.spec.fault_kinds`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fakedev.spec.errors import FieldError, did_you_mean
from fakedev.spec.fault import FaultSpec
from fakedev.spec.fault_kinds import KINDS, FaultKind, Parameter
from fakedev.spec.fields import LONGEST_SECONDS, Field, FieldKind
from fakedev.spec.profiles import number_of

#: The parameters of all kinds: name to the kinds that take it.
PARAMETERS: Final[Mapping[str, Mapping[str, Parameter]]] = {
    name: {kind.name: each for kind in KINDS.values() for each in kind.parameters if each.name == name}
    for name in dict.fromkeys(each.name for kind in KINDS.values() for each in kind.parameters)
}


def _purpose(takers: Mapping[str, Parameter]) -> str:
    """What a parameter is, with the kinds that take it: ``the limit (power-cap)``."""
    kinds: dict[str, list[str]] = {}
    for kind, parameter in takers.items():
        kinds.setdefault(parameter.summary, []).append(kind)
    return "; ".join(f"{summary} ({', '.join(names)})" for summary, names in kinds.items())


def _time(name: str, purpose: str, zero: str) -> Field:
    return Field(name, purpose, "DURATION", FieldKind.DURATION, 0.0, f"{name}_seconds", high=LONGEST_SECONDS, zero=zero)


#: The fields that faults take, by name; the last ones are parameters of kinds.
FAULT_FIELDS: Final[Mapping[str, Field]] = {
    field.name: field
    for field in (
        Field("kind", "what goes wrong", "KIND"),
        Field("devices", "devices, as of a workload; all of the node when not given", "WORD,...", FieldKind.LIST),
        Field("node", "node of the device words that name none", "NODE"),
        _time("start", "how long after the next tick it begins", ""),
        _time("duration", "how long it lasts", "until it is cleared"),
        _time("every", "how often it happens again, or is drawn again if it lasts", "for once"),
        Field(
            "probability", "0 to 1: how likely it is to affect a device, at each draw", "NUMBER",
            FieldKind.NUMBER, 1.0, high=1,
        ),
        Field("metric", "metric that it affects, of kinds that affect series; all when not given", "METRIC"),
        *(Field(name, _purpose(takers), "NUMBER", FieldKind.NUMBER, 0.0) for name, takers in PARAMETERS.items()),
    )
}  # fmt: skip
#: Fields whose value is that of an attribute of the specification.
_PLAIN: Final = tuple(
    FAULT_FIELDS[name] for name in ("node", "start", "duration", "every", "probability", "metric")
)


def fault_from_fields(fields: Mapping[str, object]) -> FaultSpec:
    """The fault that the fields describe (FAULT_FIELDS; doc/faults.md says what each kind takes).

    :raises FieldError: naming the field at fault.
    """
    kind = _kind(fields.get("kind"))
    taken = {each.name for each in kind.parameters} | ({"metric"} if kind.takes_metric else set())
    allowed = [name for name in FAULT_FIELDS if name in taken or (name not in PARAMETERS and name != "metric")]
    for field in fields:
        if field not in allowed:
            raise FieldError(field, f"is nothing that the fault {kind.name} takes{did_you_mean(field, allowed)}")
    values = {}
    for parameter in kind.parameters:
        if parameter.name in fields or parameter.default is None:
            values[parameter.name] = _value(parameter, fields.get(parameter.name))
        if parameter.name in fields and parameter.instead_of in fields:
            raise FieldError(parameter.name, f"does not go with {parameter.instead_of}: give one of the two")
    plain: dict[str, Any] = {field.spec_name: field.read(fields) for field in _PLAIN}
    if "devices" not in fields and not plain["node"]:
        raise FieldError("devices", "say which devices: all, dgx-0/3, dgx-[0-3]/*; or give node=")
    return FaultSpec(kind=kind.name, devices=_devices(fields.get("devices", "all")), values=values, **plain)


def fields_of_fault(spec: FaultSpec) -> dict[str, object]:
    """The fields that :func:`fault_from_fields` turns into this very fault; defaults left out."""
    fields: dict[str, object] = {"kind": spec.kind, "devices": list(spec.devices)}
    for field in _PLAIN:
        value = getattr(spec, field.spec_name)
        if value != field.default:
            fields[field.name] = value
    return fields | dict(spec.values)


def _kind(value: object) -> FaultKind:
    if not isinstance(value, str) or value not in KINDS:
        hint = did_you_mean(str(value), KINDS, f": give one of {', '.join(KINDS)}")
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


def _devices(value: object) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not words or not all(isinstance(word, str) and word for word in words):
        raise FieldError("devices", "must be a list of device words, as card0 or dgx-[0-3]/*")
    return tuple(words)
