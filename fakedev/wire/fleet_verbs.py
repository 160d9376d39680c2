"""What may be said on the workload port; doc/protocol-workload.txt tells it in full."""

from __future__ import annotations

from typing import Final

from fakedev.wire.arguments import Argument, Kind
from fakedev.wire.common_verbs import EVERYWHERE
from fakedev.wire.fault_verbs import FAULT_VERBS
from fakedev.wire.grammar import Flag, Grammar, Verb
from fakedev.wire.replies import News
from fakedev.wire.words import quote_word

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
