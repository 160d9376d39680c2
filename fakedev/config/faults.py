"""The faults of the configuration.

The keys of faults: under ``faults``.
"""

from __future__ import annotations

from collections.abc import Iterable

from fakedev.config.schema.nodes import Place, Report
from fakedev.config.schema.schema import Key, Section, Type, Values
from fakedev.config.schema.types import Choice, Duration, Integer, ListOf, Number, OneOf, Text
from fakedev.sim.devices.relations import Relations
from fakedev.sim.entities.roster import Roster
from fakedev.sim.faults.fields import VALUES, fault_from_fields
from fakedev.sim.faults.kinds import KINDS, Parameter
from fakedev.sim.faults.rules import FaultRules
from fakedev.sim.workloads.admission import Admission
from fakedev.spec.errors import FieldError, Refused
from fakedev.spec.fault import FaultSpec


def fault_rules(tick_seconds: float, roster: Roster, relations: Relations, admission: Admission) -> FaultRules:
    """Which faults the fleet can have."""
    present = {name: roster.parts.units(has) for name, has in relations.quantities.items()}
    return FaultRules(roster, roster.unit_keys, present, admission.metric, present, tick_seconds)


def load_faults(entries: Iterable[Values], rules: FaultRules | None, report: Report) -> tuple[FaultSpec, ...]:
    """The faults; what is wrong is reported.

    :param rules: which faults the fleet can have; None when it is not known.
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

_DURATION = Duration(none=True)
_UNITS = "ms, s, m, h or d"


def _value_key(name: str) -> Key:
    """The key of a number that some kinds take."""
    takers = {kind.name: each for kind in KINDS.values() for each in kind.parameters if each.name == name}
    words = "; ".join(f"{each.summary} ({kind})" for kind, each in takers.items())
    defaults = {f"{each.default:g}" for each in takers.values() if each.default is not None}
    default = defaults.pop() if len(defaults) == 1 else "the kind's" if defaults else "none; it must be given"
    return Key(name, _type(list(takers.values())), f"{words[:1].upper()}{words[1:]}.", default_words=default)


def _type(parameters: list[Parameter]) -> Type:
    low, high = min(each.low for each in parameters), max(each.high for each in parameters)
    return Integer(int(low), int(high)) if parameters[0].whole else Number(low, high)


FAULT = Section(
    "faults",
    (
        Key("kind", Choice(tuple(KINDS)), "What goes wrong; doc/faults.md tells of each.", required=True),
        Key(
            "devices",
            OneOf((ListOf(Text(), 1, words="list of device words"), Text("device words with commas"))),
            "Devices: all, even, odd, card0, dgx-0/3, dgx-[0-3]/*, dgx-0/3/1. It or node must be given.",
            default_words="all of the node",
        ),
        Key("node", Text(), "The node whose devices are meant by bare names.", default_words="none"),
        Key("start", _DURATION, "How long after tick 0 it begins.", default=0.0, default_words="0", unit=_UNITS),
        Key(
            "duration",
            _DURATION,
            "How long it lasts; none: until it is cleared.",
            default=0.0,
            default_words="none",
            unit=_UNITS,
        ),
        Key(
            "every",
            _DURATION,
            "It happens again, and whether it lasts on is decided anew, so often.",
            default=0.0,
            default_words="once; once a tick with a probability under 1",
            unit=_UNITS,
        ),
        Key("probability", Number(0, 1), "Of each device, how likely it is to be concerned, each time.", default=1.0,
            default_words="1"),
        Key("metric", Text(), "The metric concerned, of kinds that concern series.", default_words="all"),
        *(_value_key(name) for name in VALUES),
    ),
    doc="What goes wrong. Each has the id config-N, N counted from 1.",
)  # fmt: skip

BROUGHT = Section(
    "workloads.base.faults",
    tuple(key for key in FAULT.keys if key.name not in ("devices", "node")),
    doc="What goes wrong on the devices of a workload while it runs; the keys of faults.",
)
