"""What may be said on the workload port; doc/protocol-workload.txt tells it in full.

What may be said on the workload port about faults, and about why things are as they are.
"""

from __future__ import annotations

from typing import Final

from fakedev.wire.grammar import EVERYWHERE, Argument, Flag, Grammar, Kind, Verb
from fakedev.wire.replies import News
from fakedev.wire.words import quote_word

#: The kinds of faults, as the rules spell them.
FAULT_KINDS: Final = (
    "xid", "ecc-single", "ecc-double", "inlet", "fan", "power-brake", "power-cap", "clock-lock", "hang", "link-down",
    "pcie-slow", "pcie-replays", "lost", "reset", "node-down", "absent", "nan", "sentinel", "frozen",
    "counter-reset", "stale-labels", "slow-page", "cut-page", "error-page", "wrong-type",
)  # fmt: skip
#: What kinds take, each with what it is.
FAULT_VALUES: Final = {
    "code": "of xid: the error code",
    "count": "of xid, ecc-single and ecc-double: how many errors",
    "rows": "of ecc-single: rows remapped, or pages retired",
    "celsius": "of inlet: how much warmer",
    "resistance": "of fan: thermal resistance, by that with the fan",
    "share": "of link-down, pcie-slow and cut-page: what is left, 0 to 1",
    "link": "of link-down: the one link that is down",
    "watts": "of power-cap: the limit",
    "megahertz": "of clock-lock: the highest that is left",
    "width": "of pcie-slow: lanes that are left",
    "generation": "of pcie-slow: generation that is left",
    "rate": "of pcie-replays: replays a second",
    "leave-sd": "of node-down: 1: it is missing from /sd too",
    "value": "of sentinel: what series show",
    "seconds": "of slow-page: how late it comes",
    "status": "of error-page: HTTP status",
}

FAULT_VERBS: Final = (
    Verb(
        "fault",
        "Make something go wrong.",
        positionals=[Argument("kind", Kind.TEXT, "KIND", "what goes wrong: see below", required=True)],
        options=[
            Argument("devices", Kind.LIST, "WORD,...", "as in run"),
            Argument("node", Kind.TEXT, "NODE", "as in run; alone: all devices of it"),
            Argument("start", Kind.DURATION, "DURATION", "how long after now"),
            Argument("duration", Kind.DURATION, "DURATION", "how long it lasts; until it is cleared when not given"),
            Argument("every", Kind.DURATION, "DURATION", "it happens anew, or not, so often"),
            Argument("probability", Kind.NUMBER, "NUMBER", "0 to 1: that a device is concerned, each time"),
            Argument("metric", Kind.TEXT, "METRIC", "of kinds that concern series; all when not given"),
            *(Argument(name, Kind.NUMBER, "NUMBER", summary) for name, summary in FAULT_VALUES.items()),
        ],
        notes=["KIND is one of", *(f"  {' '.join(FAULT_KINDS[place : place + 8])}" for place in range(0, 25, 8))],
        answers=["ok ID"],
    ),
    Verb(
        "clear",
        "End a fault.",
        positionals=[Argument("fault", Kind.TEXT, "ID|all", "what fault answered, or all", required=True)],
        answers=["ok cleared N"],
    ),
    Verb("faults", "The faults that wait or last.", answers=["ok N lines"]),
    Verb(
        "explain",
        "Why a device shows what it shows.",
        positionals=[
            Argument("device", Kind.TEXT, "WORD", "one device, as dgx-0/3", required=True),
            Argument("metric", Kind.TEXT, "METRIC", "as in a limit of run; the most important when not given"),
        ],
        answers=["ok N lines"],
    ),
    Verb(
        "journal",
        "What happened last.",
        positionals=[Argument("count", Kind.WHOLE, "N", "how many lines, 1 to 1000; 20 when not given")],
        options=[
            Argument("kind", Kind.LIST, "KIND,...", "of these kinds only, as xid,lost,ended"),
            Argument("devices", Kind.LIST, "WORD,...", "that concern these devices, as in run"),
        ],
        answers=["ok N lines"],
    ),
)

_WORKLOAD: Final = Argument("workload", Kind.TEXT, "ID|NAME", "what run answered, or a name", required=True)
#: The value functions, as the rules spell them.
FUNCTIONS: Final = (
    "ramp(FROM,TO)", "sine(MEAN,AMPLITUDE,PERIOD)", "square(LOW,HIGH,PERIOD[,DUTY])", "spike(BASE,PEAK,DURATION,EVERY)",
    "random(LOW,HIGH,EVERY)", "increase(LOW,HIGH,EVERY)", "steps(VALUE,...)",
)  # fmt: skip
#: The kinds of work that every device type knows.
KINDS: Final = ("compute", "tensor", "memory", "transfer", "exchange", "encode", "decode", "render")

WORKLOAD_VERBS: Final = (
    Verb(
        "run",
        "Start a workload.",
        positionals=[Argument("name", Kind.TEXT, "NAME", "any text; quoted when it has spaces", required=True)],
        options=[
            Argument(
                "devices",
                Kind.LIST,
                "WORD,...",
                "card0, dgx-0/3, dgx-[0-3]/*, dgx-0/3/1, all, even, odd",
                required=True,
            ),
            Argument(
                "profile",
                Kind.SERIES,
                "LOAD:FLUCTUATION:SECONDS,...",
                "activities in percent; 0 seconds in the last one: until stopped",
                required=True,
            ),
            Argument(
                "metrics",
                Kind.SERIES_MAPPING,
                "METRIC:VALUE:FLUCTUATION:SECONDS,...",
                "what it asks beside the load, as memory:40GiB or fabric-tx:30%; may be repeated",
                word="use",
            ),
            Argument("repeat", Kind.WHOLE, "N", "how often the profile runs: 0 for ever, default 1"),
            Argument("seconds-of", Kind.TEXT, "time|work", "work: seconds at the highest clock"),
            Argument("measured-frequency", Kind.NUMBER, "MHZ", "highest clock of the device it was measured on"),
            Argument("measured-capability", Kind.NUMBER, "NUMBER", "capability of the device it was measured on"),
            Argument("kind", Kind.TEXT, "KIND", f"of work: {' '.join(KINDS)}"),
            Argument("node", Kind.TEXT, "NODE", "the node that device words without one speak of"),
            Argument("pod", Kind.TEXT, "TEXT", "shown by identities that have such a label"),
            Argument("namespace", Kind.TEXT, "TEXT", "the same"),
            Argument("container", Kind.TEXT, "TEXT", "the same"),
            Argument(
                "limits",
                Kind.MAPPING,
                "METRIC:NUMBER",
                "ends it when passed, as memory:40GiB; may be repeated",
                word="limit",
            ),
            Argument(
                "faults", Kind.SERIES, "KIND,...", "what goes wrong on its devices while it runs; in JSON objects"
            ),
            Argument("run-time-limit", Kind.DURATION, "DURATION", "ends it with 1, as 5m or 90s"),
            Argument("ttl", Kind.DURATION, "DURATION", "ends it with 0"),
        ],
        flags=[Flag("detach", "it outlives this connection")],
        notes=["LOAD and VALUE are a number or one of", f"  {' '.join(FUNCTIONS[:4])}", f"  {' '.join(FUNCTIONS[4:])}"],
        answers=["ok ID; later, unless it is detached: ended NAME CODE TEXT"],
    ),
    Verb("stop", "End a workload with 0.", positionals=[_WORKLOAD], answers=["ok stopped N"]),
    Verb("list", "All workloads that run.", aliases=["workloads"], answers=["ok N lines"]),
    Verb("show", "All about a workload.", positionals=[_WORKLOAD], answers=["ok N lines"]),
    Verb(
        "devices",
        "The devices, all or some.",
        positionals=[Argument("devices", Kind.LIST, "WORD,...", "as in run")],
        answers=["ok N lines"],
    ),
    Verb(
        "advance",
        "Move the simulated clock on.",
        positionals=[Argument("duration", Kind.DURATION, "DURATION", "as 15m or 90s", required=True)],
        answers=["ok TEXT, when it has got there"],
    ),
    *FAULT_VERBS,
    *EVERYWHERE,
)

WORKLOAD_GRAMMAR: Final = Grammar(WORKLOAD_VERBS)


def workload_ended(workload_id: str, name: str, code: int, text: str) -> News:
    """The news that a workload ended."""
    return News(
        f"ended {quote_word(name)} {code} {text}",
        {"event": "ended", "workload": workload_id, "name": name, "code": code, "text": text},
    )
