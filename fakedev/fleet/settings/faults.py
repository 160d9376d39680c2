"""The section ``faults``: its keys, and the faults that it describes."""

from __future__ import annotations

from collections.abc import Iterable

from fakedev.base.errors import FieldError, Refused
from fakedev.fleet.faults.rules import FaultRules
from fakedev.fleet.spec.fault_kinds import FAULT_FIELDS, KINDS, PARAMETERS, fault_from_fields
from fakedev.fleet.spec.fleet_spec import FaultSpec
from fakedev.schema.places import Place, Report
from fakedev.schema.sections import Key, Section, Type, Values
from fakedev.schema.types import Choice, Integer, ListOf, Number, OneOf, Text, key_of

#: Device words, as a list or as a text with commas.
DEVICE_WORDS = OneOf((ListOf(Text(), 1, words="list of device words"), Text("device words with commas")))


def _parameter_key(name: str) -> Key:
    """The key of a number that some kinds take."""
    takers = list(PARAMETERS[name].values())
    defaults = {f"{taker.default:g}" for taker in takers if taker.default is not None}
    words = defaults.pop() if len(defaults) == 1 else "the kind's" if defaults else "none; it must be given"
    low, high = min(taker.low for taker in takers), max(taker.high for taker in takers)
    kind: Type = Integer(int(low), int(high)) if takers[0].whole else Number(low, high)
    return key_of(FAULT_FIELDS[name], kind, default=None, default_words=words)


#: The keys of a fault without those for its devices.
_KEYS = (
    key_of(FAULT_FIELDS["kind"], Choice(tuple(KINDS)), "What goes wrong; doc/faults.md explains each.", required=True),
    key_of(FAULT_FIELDS["start"], doc="How long after tick 0 it begins."),
    key_of(FAULT_FIELDS["duration"]),
    key_of(FAULT_FIELDS["every"], default_words="once; once a tick with a probability under 1"),
    key_of(FAULT_FIELDS["probability"]),
    key_of(FAULT_FIELDS["metric"], default_words="all"),
    *map(_parameter_key, PARAMETERS),
)

FAULT = Section(
    "faults",
    (
        _KEYS[0],
        key_of(
            FAULT_FIELDS["devices"],
            DEVICE_WORDS,
            "Devices: all, even, odd, card0, dgx-0/3, dgx-[0-3]/*, dgx-0/3/1. It or node must be given.",
            default_words="all of the node",
        ),
        key_of(FAULT_FIELDS["node"]),
        *_KEYS[1:],
    ),
    doc="What goes wrong. Each has an id such as config-xid-k7w2m ([faults.md](faults.md#names-of-faults)).",
)

BROUGHT = Section(
    "workloads.base.faults",
    _KEYS,
    doc="What goes wrong on the devices of a workload while it runs; the keys of faults.",
)


def load_faults(entries: Iterable[Values], rules: FaultRules | None, report: Report) -> tuple[FaultSpec, ...]:
    """The faults; problems are reported.

    :param rules: which faults the fleet can have; None when the fleet is not known.
    """
    faults = []
    for values in entries:
        fault = _fault(values, report)
        if fault is not None:
            faults.append(fault)
            if rules is not None:
                _check(fault, values, rules, report)
    return tuple(faults)


def _check(fault: FaultSpec, values: Values, rules: FaultRules, report: Report) -> None:
    try:
        rules.made("config", fault)
    except Refused as error:
        report.problem(_place(values, error.where), f"{error.where}: {error.text}")


def _fault(values: Values, report: Report) -> FaultSpec | None:
    fields = {key: values[key] for key in values if values.given(key) and values[key] is not None}
    if values["kind"] is None:
        return None  # it was missing or wrong, and that was reported
    try:
        return fault_from_fields(fields)
    except FieldError as error:
        report.problem(_place(values, error.field), f"{error.field}: {error.reason}")
        return None


def _place(values: Values, field: str) -> Place:
    return values.place_of(field) if values.given(field) else values.place
