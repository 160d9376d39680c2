"""The keys under ``tester``."""

from __future__ import annotations

from typing import Final

from fakedev.config.schema.schema import Key, Section
from fakedev.config.schema.shapes import ListOf
from fakedev.config.schema.types import Choice, Duration, Integer, Text
from fakedev.tester.plan import ClosedLoad, OpenLoad, Spacing
from fakedev.tester.report import FORMS

_DURATION_UNITS = "ms, s, m, h or d"

#: As far as parallelism may be raised when nothing is said.
MOST_PARALLEL: Final = 1_000_000
#: Keys of the closed model, and of the open one: a plan has either.
CLOSED_KEYS = ("parallel", "most-parallel", "delay")
OPEN_KEYS = ("arrivals", "seed", "most-outstanding", "most-waiting")

PLAN = Section(
    "tester.plans",
    (
        Key("queue", Text(), "The queue that requests are put into.", required=True),
        Key("name", Text(), "Name of the plan.", default_words="that of the queue"),
        Key(
            "frontend",
            Text("address"),
            "Where the queue's clients connect: HOST:PORT or the path of a UNIX socket.",
            default_words="the first of queues.listen-clients, where this file has it; localhost:9997",
        ),
        Key("arguments", ListOf(Text()), "Arguments of each request.", default=(), default_words="none"),
        Key(
            "limit",
            Duration(none=True),
            "Run-time limit that each request brings.",
            default=0.0,
            default_words="none",
            unit=_DURATION_UNITS,
        ),
        Key(
            "protocol",
            Choice(("json", "bare")),
            "json: all requests on one connection; bare: a connection for each, as the original.",
            default="json",
        ),
        Key(
            "parallel",
            Integer(0, MOST_PARALLEL),
            "Closed model: requests under way at once, at the start.",
            default_words=str(ClosedLoad.parallel),
        ),
        Key(
            "most-parallel",
            Integer(0, MOST_PARALLEL),
            "As far as that may be raised.",
            default_words=str(MOST_PARALLEL),
        ),
        Key(
            "delay",
            Duration(0, 86_400),
            "Between the end of a request and the begin of the one after it.",
            default_words="0",
            unit=_DURATION_UNITS,
        ),
        Key(
            "rate",
            Text("rate"),
            "Open model: 20/s, ramp:5/s:50/s:60s, steps:5/s,10/s:30s, sine:20/s:10/s:60s, spike:10/s:100/s:30s:5s "
            "or csv:FILE; see [tester.md](tester.md).",
            default_words="none: the closed model",
        ),
        Key(
            "arrivals",
            Choice(tuple(spacing.value for spacing in Spacing)),
            "How arrivals are spread.",
            default_words=Spacing.EVEN.value,
        ),
        Key("seed", Integer(0, 2**63 - 1), "Of Poisson arrivals.", default_words=str(OpenLoad.seed)),
        Key(
            "most-outstanding",
            Integer(1, 1_000_000),
            "Requests under way at once; further arrivals wait.",
            default_words=str(OpenLoad.most_outstanding),
        ),
        Key(
            "most-waiting",
            Integer(0, 1_000_000),
            "Arrivals that wait; further ones are dropped.",
            default_words=str(OpenLoad.most_waiting),
        ),
    ),
    doc="A load on a queue; it begins when fakedev does.",
)

TESTER = Section(
    "tester",
    (
        Key("plans", ListOf(PLAN, words="list of plans"), "What load there is.", default=(), default_words="none"),
        Key(
            "reports",
            ListOf(Text("file")),
            f"Written when fakedev ends; each name ends with {', '.join(FORMS)}.",
            default=(),
            default_words="none",
        ),
    ),
    doc="Load on work queues; [tester.md](tester.md) explains it.",
)
