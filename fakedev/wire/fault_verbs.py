"""What may be said on the workload port about faults, and about why things are as they are."""

from __future__ import annotations

from typing import Final

from fakedev.wire.arguments import Argument, Kind
from fakedev.wire.grammar import Verb

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
