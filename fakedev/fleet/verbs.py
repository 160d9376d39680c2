"""The verbs of the workload port, and bare JSON as the original workload program sends it.

doc/protocol-workload.txt explains the verbs in full.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from fakedev.base.steps import Steps, result_of
from fakedev.fleet.spec.fault_kinds import FAULT_FIELDS, KINDS
from fakedev.fleet.spec.value_functions import FORMS
from fakedev.fleet.spec.workload_fields import WORKLOAD_FIELDS
from fakedev.lines.bare_fields import known_fields, list_field, number_field, text_field, texts_field, whole_field
from fakedev.lines.grammar import SHARED_VERBS, Argument, Flag, Grammar, Kind, ProtocolError, Verb
from fakedev.lines.json_lines import Notification, kind_of, load_object
from fakedev.lines.words import quote_word
from fakedev.schema.declare import Field


def _argument(field: Field, *, required: bool = False) -> Argument:
    """The argument for a field."""
    kind = Kind[field.kind.name]
    summary = field.help
    if kind in (Kind.MAPPING, Kind.SERIES_MAPPING, Kind.TEXT_MAPPING):
        summary += "; may be repeated"
    elif field.default and not isinstance(field.default, str):
        summary += f"; {field.default:g} when not given"
    return Argument(field.name, kind, field.shown, summary, required, field.word)


def _rows(words: Iterable[str], length: int) -> list[list[str]]:
    """The words in rows of a length, for notes."""
    every = list(words)
    return [every[place : place + length] for place in range(0, len(every), length)]


_WORKLOAD: Final = Argument("workload", Kind.TEXT, "ID|NAME", "the id that run answered, or the name", required=True)

FAULT_VERBS: Final = (
    Verb(
        "fault",
        "Inject a fault.",
        positionals=[_argument(FAULT_FIELDS["kind"], required=True)],
        options=[_argument(field) for field in FAULT_FIELDS.values() if field.name != "kind"],
        notes=["KIND is one of", *(f"  {' '.join(kinds)}" for kinds in _rows(KINDS, 8))],
        answers=["ok ID"],
    ),
    Verb(
        "clear",
        "End a fault.",
        positionals=[Argument("fault", Kind.TEXT, "ID|all", "the id that fault answered, or all", required=True)],
        answers=["ok cleared N"],
    ),
    Verb("faults", "List the faults that wait or are active.", answers=["ok N lines"]),
    Verb("past-faults", "List the last faults that are over, newest first.", answers=["ok N lines"]),
    Verb(
        "explain",
        "Explain why a device shows its values.",
        positionals=[
            Argument("device", Kind.TEXT, "WORD", "one device, as dgx-0/3", required=True),
            Argument("metric", Kind.TEXT, "METRIC", "as in a limit of run; the most important ones when not given"),
        ],
        answers=["ok N lines"],
    ),
    Verb(
        "journal",
        "Show the latest events.",
        positionals=[Argument("count", Kind.WHOLE, "N", "number of lines, 1 to 1000; 20 when not given")],
        options=[
            Argument("kind", Kind.LIST, "KIND,...", "only events of these kinds, as xid,lost,ended; -KIND: all but it"),
            Argument("devices", Kind.LIST, "WORD,...", "only events of these devices, as in run"),
            Argument("since", Kind.TEXT, "TIME", "only events since then: 10m of simulated time, or a time of day"),
        ],
        answers=["ok N lines"],
    ),
)

WORKLOAD_VERBS: Final = (
    Verb(
        "run",
        "Start a workload.",
        positionals=[_argument(WORKLOAD_FIELDS["name"], required=True)],
        options=[
            _argument(field, required=field.name in ("devices", "profile"))
            for field in WORKLOAD_FIELDS.values()
            if field.name != "name"
        ],
        flags=[Flag("detach", "the workload continues when this connection closes")],
        notes=[
            "LOAD and VALUE are a number or one of",
            *(f"  {' '.join(usages)}" for usages in _rows([form.usage for form in FORMS.values()], 4)),
        ],
        answers=["ok ID; later, unless it is detached: ended NAME CODE TEXT"],
    ),
    Verb("stop", "End a workload with code 0.", positionals=[_WORKLOAD], answers=["ok stopped N"]),
    Verb("list", "List the running workloads.", aliases=["workloads"], answers=["ok N lines"]),
    Verb("ended", "List the workloads that ended last, newest first.", answers=["ok N lines"]),
    Verb("show", "Show everything about a workload.", positionals=[_WORKLOAD], answers=["ok N lines"]),
    Verb(
        "devices",
        "List all devices, or some.",
        positionals=[Argument("devices", Kind.LIST, "WORD,...", "as in run")],
        answers=["ok N lines"],
    ),
    Verb(
        "advance",
        "Advance the simulated clock, or stop an advance.",
        positionals=[
            Argument("duration", Kind.DURATION, "DURATION|stop", "a time such as 15m or 90s", required=True),
        ],
        answers=[
            "ok TEXT, when the clock is there, or was stopped",
            "before that, once a second: advancing PERCENT tick N target N",
        ],
    ),
    Verb(
        "speed",
        "Change the speed of the simulated clock.",
        positionals=[
            Argument("speed", Kind.NUMBER, "NUMBER", "simulated seconds per second; 0 stops the clock", required=True)
        ],
        answers=["ok TEXT"],
    ),
    Verb("reset", "Let the fleet begin again with its configuration.", answers=["ok tick N"]),
    *FAULT_VERBS,
    *SHARED_VERBS,
)

WORKLOAD_GRAMMAR: Final = Grammar(WORKLOAD_VERBS)


def clock_advancing(percent: float, tick: int, target: int) -> Notification:
    """The notification of how far an advance is."""
    return Notification(
        f"advancing {percent:g} tick {tick} target {target}",
        {"event": "advancing", "percent": percent, "tick": tick, "target-tick": target},
    )


def workload_ended(workload_id: str, name: str, code: int, text: str) -> Notification:
    return Notification(
        f"ended {quote_word(name)} {code} {text}",
        {"event": "ended", "workload": workload_id, "name": name, "code": code, "text": text},
    )


_NAMES = ("Name", "Repeat", "Profile", "Devices", "Limits")
_ACTIVITY_NAMES = ("Load", "Fluctuation", "Seconds")
#: Activities that are read in one step.
_ACTIVITIES_AT_ONCE: Final = 100


class BareWorkload(NamedTuple):
    """A workload as an object of the original program describes it.

    :param arguments: of the equivalent ``run`` request; missing fields are empty or 0.
    :param notes: fields that were ignored, in words, for the log.
    """

    arguments: dict[str, object]
    notes: tuple[str, ...] = ()


def parse_bare_workload(message: bytes) -> BareWorkload:
    """Parse a workload.

    Names match in any letter case, and the last of several counts, as in Go.

    :raises ProtocolError: ``bad-argument``, naming the field at fault.
    """
    return result_of(bare_workload_steps(message))


def bare_workload_steps(message: bytes) -> Steps[BareWorkload]:
    """The steps of :func:`parse_bare_workload`: a profile may have thousands of activities."""
    notes: list[str] = []
    fields = known_fields(load_object(message, last_one_counts=True), _NAMES, "", notes)
    profile: list[list[float]] = []
    arguments = {
        "name": text_field("Name", fields["Name"]),
        "repeat": whole_field("Repeat", fields["Repeat"]),
        "profile": profile,
    }
    for position, entry in enumerate(list_field("Profile", fields["Profile"])):
        profile.append(_activity(f"Profile[{position}]", entry, notes))
        if not position % _ACTIVITIES_AT_ONCE:
            yield
    arguments |= {
        "devices": list(texts_field("Devices", fields["Devices"])),
        "limits": _limits(fields["Limits"]),
    }
    return BareWorkload(arguments, tuple(notes))


def _activity(where: str, entry: object, notes: list[str]) -> list[float]:
    if not isinstance(entry, dict):
        raise ProtocolError("bad-argument", f"{where}: must be an object, not {kind_of(entry)}")
    fields = known_fields(entry, _ACTIVITY_NAMES, f"{where}.", notes)
    return [number_field(f"{where}.{name}", fields[name]) for name in _ACTIVITY_NAMES]


def _limits(value: object) -> dict[str, float]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ProtocolError("bad-argument", f"Limits: must be metrics, each with a number, not {kind_of(value)}")
    return {metric: number_field(f"Limits.{metric[:100]}", limit) for metric, limit in value.items()}
