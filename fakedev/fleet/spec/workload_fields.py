"""The fields of a workload, declared once, and one way from a request's fields to a workload and back.

Line ports, web, configuration, record and ``fakedev-workload`` take what is declared here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from fakedev.base.errors import FieldError, did_you_mean
from fakedev.base.steps import Steps, result_of
from fakedev.base.units import number_of, parse_size
from fakedev.fleet.spec.named_profiles import with_profile
from fakedev.fleet.spec.profiles import (
    format_intensities,
    format_profile,
    intensity_steps,
    profile_steps,
    use_profile,
    use_word,
    uses_steps,
)
from fakedev.fleet.spec.quantities import is_in_bytes
from fakedev.fleet.spec.work_kinds import WORK_KINDS
from fakedev.fleet.spec.workload_spec import Activities, WorkloadSpec
from fakedev.schema.declare import Field, FieldKind, read_text

Read = TypeVar("Read")
_MAX_LIMITS: Final = 64
#: Faults that one workload may bring.
MAX_FAULTS_BROUGHT: Final = 32
_MAX_LABELS: Final = 64
#: As long as the key of a label in Kubernetes: 253 characters of a domain, a slash and 63 of a name.
_LABEL: Final = re.compile("[A-Za-z0-9_][A-Za-z0-9_./-]{0,316}")
_NOT_IN_FACTS: Final = re.compile("[^a-zA-Z0-9_]")
#: Labels that are fields.
OWNER_FIELDS: Final = ("pod", "namespace", "container")

_KINDS: Final = f"{', '.join(WORK_KINDS)}, or one that a device type adds"
_SCALED: Final = "of the device that it was measured on; times or values are scaled by it"

#: The fields that a workload takes, by name.
WORKLOAD_FIELDS: Final[Mapping[str, Field]] = {
    field.name: field
    for field in (
        Field("name", "name of the workload; quoted when it has spaces", "NAME"),
        Field("devices", "card0, dgx-0/3, dgx-[0-3]/*, dgx-0/3/1, all, even, odd", "WORD,...", FieldKind.LIST),
        Field(
            "profile", "activities in percent and seconds; 0 seconds in the last one: until stopped",
            "LOAD:FLUCTUATION:SECONDS,...", FieldKind.SERIES,
        ),
        Field("repeat", "how often the profile runs", "N", FieldKind.WHOLE, 1, high=2**53, zero="for ever"),
        Field(
            "seconds-of",
            "what the seconds are: time, or work at the highest clock, which takes a throttled board longer",
            "time|work", default="time", choices=("time", "work"),
        ),
        Field("kind", f"kind of work: {_KINDS}", "KIND", default="compute"),
        Field(
            "intensity",
            "how much of the engines its kernels use: load is the time with a kernel, load x intensity is how busy "
            "engines, memory and power are; one for all activities, or one each", "PERCENT:FLUCTUATION,...",
            FieldKind.SERIES,
        ),
        Field("node", "node of the device words that name none", "NODE"),
        Field(
            "service", "the service that it is a replica of: replicas share one demand, daily(...); default: its name"
        ),
        Field("pod", "pod shown on its devices"),
        Field("namespace", "namespace of the pod"),
        Field("container", "container of the pod"),
        Field(
            "labels", "further labels of its devices, where an identity shows them, as dra_claim_name", "NAME:TEXT",
            FieldKind.TEXT_MAPPING, word="label",
        ),
        Field(
            "limits", "crossing the value ends the workload with 1; of metrics in bytes also a size, as 40GiB",
            "METRIC:NUMBER", FieldKind.MAPPING, word="limit",
        ),
        Field(
            "run-time-limit", "simulated time after which it is ended with 1, as 5m or 90s", "DURATION",
            FieldKind.DURATION, 0.0, "run_time_limit_seconds", zero="for no limit",
        ),
        Field(
            "ttl", "simulated time after which it is ended with 0", "DURATION", FieldKind.DURATION, 0.0, "ttl_seconds",
            zero="for no limit",
        ),
        Field(
            "metrics", "what it requests of a metric in addition to the load, e.g. 40GiB of memory or 30% of fabric-tx",
            "METRIC:VALUE:FLUCTUATION:SECONDS,...", FieldKind.SERIES_MAPPING, word="use",
        ),
        Field(
            "measured-frequency", f"highest clock, in MHz, {_SCALED}", "MHZ", FieldKind.NUMBER, 0.0,
            "measured_frequency_mhz", "MHz", high=1e9, zero="for not measured",
        ),
        Field(
            "measured-capability", f"capability {_SCALED}", "NUMBER", FieldKind.NUMBER, 0.0, "measured_capability",
            high=1e9, zero="for not measured",
        ),
        Field("faults", "what goes wrong on its devices while it runs", "KIND,...", FieldKind.SERIES),
    )
}  # fmt: skip
#: Fields that :func:`fields_of_workload` always gives.
_ALWAYS: Final = frozenset(("name", "devices", "profile", "repeat"))
#: Fields whose value is that of an attribute of the specification.
_PLAIN: Final = tuple(
    WORKLOAD_FIELDS[name]
    for name in (
        "name", "repeat", "kind", "service", "node", "pod", "namespace", "container", "run-time-limit", "ttl",
        "measured-frequency", "measured-capability",
    )
)  # fmt: skip


#: The names that fields have in words, where they differ, and the names that they have elsewhere.
OTHER_NAMES: Final[Mapping[str, str]] = {field.word: field.name for field in WORKLOAD_FIELDS.values() if field.word}


def workload_from_fields(fields: Mapping[str, object]) -> WorkloadSpec:
    """The workload that the fields describe (WORKLOAD_FIELDS; doc/protocol-workload.txt says what each takes).

    A field that has another name in words, as ``use`` for ``metrics``, may have that.

    :raises FieldError: naming the field at fault.
    """
    return result_of(workload_steps(fields))


def workload_steps(fields: Mapping[str, object]) -> Steps[WorkloadSpec]:
    """The steps of :func:`workload_from_fields`: a message of 64 KiB takes some tens of milliseconds."""
    for word, name in OTHER_NAMES.items():
        if word in fields:
            if name in fields:
                raise FieldError(word, f"is the same as {name}: give one of the two")
            fields = {name if field == word else field: value for field, value in fields.items()}
    for field in fields:
        if field not in WORKLOAD_FIELDS:
            raise FieldError(field, f"is not a field of a workload{did_you_mean(field, WORKLOAD_FIELDS)}")
    fields = with_profile(fields)
    plain: dict[str, Any] = {field.spec_name: field.read(fields) for field in _PLAIN}
    if not plain["name"]:
        raise FieldError("name", "a workload needs a name")
    devices = _devices(fields.get("devices"))
    activities = Activities((yield from _read(profile_steps, fields, "profile")))
    yield
    intensities = yield from _read(lambda value: intensity_steps(value, activities), fields, "intensity")
    return WorkloadSpec(
        devices=devices,
        activities=activities,
        intensities=intensities,
        is_work=WORKLOAD_FIELDS["seconds-of"].read(fields) == "work",
        labels=_labels(fields.get("labels")),
        limits=_limits(fields.get("limits")),
        uses=(yield from _read(uses_steps, fields, "metrics")),
        faults=_faults(fields.get("faults")),
        **plain,
    )


def fields_of_workload(spec: WorkloadSpec) -> dict[str, object]:
    """The fields that :func:`workload_from_fields` turns into this very workload; defaults left out."""
    structured: dict[str, object] = {
        "devices": list(spec.devices),
        "profile": format_profile(spec.activities),
        "seconds-of": "work" if spec.is_work else "time",
        "intensity": format_intensities(spec.intensities),
        "labels": dict(spec.labels),
        "limits": dict(spec.limits),
        "metrics": {use_word(use): use_profile(use) for use in spec.uses},
        "faults": [dict(fault) for fault in spec.faults],
    }
    fields = {}
    for name, field in WORKLOAD_FIELDS.items():
        value = structured[name] if name in structured else getattr(spec, field.spec_name)
        if name in _ALWAYS or (value and value != field.default):
            fields[name] = value
    return fields


def _devices(value: object) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        raise FieldError("devices", "must be a list of device words, as card0 or dgx-[0-3]/*")
    stripped = tuple(word.strip() for word in words)
    if not stripped or not all(stripped):
        raise FieldError("devices", "a workload needs at least one device, and no empty device word")
    return stripped


def _read(read: Callable[[object], Steps[Read]], fields: Mapping[str, object], name: str) -> Steps[Read]:
    try:
        return (yield from read(fields.get(name)))
    except ValueError as error:
        raise FieldError(name, str(error)) from None


def _faults(value: object) -> tuple[Mapping[str, object], ...]:
    """Faults as objects, or only their kinds; they are checked when the devices are known."""
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


def label_fact(label: str) -> str:
    """The name of a label of Kubernetes as exporters show it: what Prometheus does not allow becomes _."""
    return _NOT_IN_FACTS.sub("_", label)


def _labels(value: object) -> tuple[tuple[str, str], ...]:
    if value is None:
        return ()
    if not isinstance(value, Mapping) or len(value) > _MAX_LABELS:
        raise FieldError("labels", f"must be at most {_MAX_LABELS} names, each with a text")
    return tuple(_label(name, text) for name, text in value.items())


def _label(name: object, text: object) -> tuple[str, str]:
    if not isinstance(name, str) or not _LABEL.fullmatch(name):
        shown = repr(name[:100]) if isinstance(name, str) else "what is no text"
        raise FieldError("labels", f"{shown} is no name of a label: at most 317 letters, digits, _ . / and -")
    if name in OWNER_FIELDS:
        raise FieldError("labels", f"{name} is a field of the workload: give it there")
    try:
        return name, read_text("labels", text)
    except FieldError as error:
        raise FieldError("labels", f"{name}: {error.reason}") from None


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
