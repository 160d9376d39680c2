"""The keys of faults: under ``faults``."""

from __future__ import annotations

from fakedev.config.schema.schema import Key, Section, Type
from fakedev.config.schema.shapes import ListOf, OneOf
from fakedev.config.schema.types import Choice, Duration, Integer, Number, Text
from fakedev.sim.faults.fields import VALUES
from fakedev.sim.faults.kinds import KINDS, Parameter

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
