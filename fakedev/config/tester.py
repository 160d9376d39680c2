"""The section ``tester``, in the configuration or in a separate file: its keys, and the plans that it describes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from fakedev.config.configuration import QueueListen
from fakedev.config.peer_address import parse_address
from fakedev.config.schema.documents import Variables, read_document
from fakedev.config.schema.files import Files, Unreadable, absolute
from fakedev.config.schema.nodes import Place, Report
from fakedev.config.schema.schema import INVALID, Key, Section, Values
from fakedev.config.schema.types import Choice, Duration, Integer, ListOf, Text
from fakedev.spec.client_tls import NO_FILES, TLS_OPTIONS, TLS_SCHEME, ClientTls
from fakedev.tester.plan import REPORT_SUFFIXES, ClosedLoad, OpenLoad, Plan, Spacing

#: Where the original's client connects.
FRONTEND: Final = "localhost:9997"
#: The highest parallelism when a plan gives none.
MAX_PARALLEL: Final = 1_000_000
#: Keys of the closed model and of the open one: a plan has one of the two.
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
            "Where the queue's clients connect: HOST:PORT, tls://HOST:PORT or the path of a UNIX socket.",
            default_words="the first of queues.listen-clients, where this file has it; localhost:9997",
        ),
        Key("arguments", ListOf(Text()), "Arguments of each request.", default=()),
        Key("limit", Duration(none=True), "Run-time limit of each request.", default=0.0),
        Key(
            "protocol",
            Choice(("json", "bare")),
            "json: all requests on one connection; bare: a connection for each, as the original.",
            default="json",
        ),
        Key(
            "token-file",
            Text("file"),
            "File with the frontend's token, read for each connection; with protocol: json.",
            default_words="none: no token",
        ),
        *(Key(name, Text("file"), f"{text[0].upper()}{text[1:]}.") for name, text in TLS_OPTIONS.items()),
        Key(
            "parallel",
            Integer(0, MAX_PARALLEL),
            "Closed model: requests under way at once, at the start.",
            default_words=str(ClosedLoad.parallel),
        ),
        Key(
            "most-parallel",
            Integer(0, MAX_PARALLEL),
            "The highest number to which that may be raised.",
            default_words=str(MAX_PARALLEL),
        ),
        Key(
            "delay",
            Duration(0, 86_400),
            "Time between the end of a request and the start of the next.",
            default_words="0",
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
            Choice.of(Spacing),
            "The spacing of arrivals.",
            default_words=Spacing.EVEN.value,
            field="spacing",
        ),
        Key("seed", Integer(0, 2**63 - 1), "Seed of Poisson arrivals.", default_words=str(OpenLoad.seed)),
        Key(
            "most-outstanding",
            Integer(1, 1_000_000),
            "Requests under way at once; further arrivals wait.",
            default_words=str(OpenLoad.max_outstanding),
            field="max_outstanding",
        ),
        Key(
            "most-waiting",
            Integer(0, 1_000_000),
            "Arrivals that wait; further ones are dropped.",
            default_words=str(OpenLoad.max_waiting),
            field="max_waiting",
        ),
    ),
    doc="A load on a queue; it starts with fakedev.",
)

TESTER = Section(
    "tester",
    (
        Key("plans", ListOf(PLAN, words="list of plans"), "The loads.", default=()),
        Key(
            "reports",
            ListOf(Text("file")),
            f"Files written when fakedev stops; each name ends with {', '.join(REPORT_SUFFIXES)}.",
            default=(),
        ),
    ),
    doc="Load on work queues; [tester.md](tester.md) explains it.",
)


def load_plans(path: str, files: Files) -> tuple[Plan, ...]:
    """The plans of a file: YAML or JSON with the same keys as ``tester`` in the configuration.

    :raises ConfigurationError: with every problem.
    """
    report = Report()
    plans: tuple[Plan, ...] = ()
    try:
        node = read_document(files.read(os.path.abspath(path)), path, report, Variables(files).expand)
    except Unreadable as error:
        report.problem(Place(path, error.line), str(error))
        node = None
    if node is not None:
        values = TESTER.read(node, "", report)
        if values is not INVALID:
            plans = tester_plans(values, os.path.dirname(os.path.abspath(path)), files, report)
            if not values["plans"]:
                report.problem(values.place, "plans: there are none")
            if values["reports"]:
                report.problem(values.place_of("reports"), "reports: are given here by -report FILE")
    report.raise_if_any()
    return plans


def own_frontend(entries: Iterable[QueueListen]) -> str:
    """The frontend of plans that name none: the first of some addresses that a client can connect to."""
    for entry in entries:
        address, scheme = entry.listen, TLS_SCHEME if entry.tls is not None else ""
        if address.kind == "unix":
            return address.path
        if address.kind == "tcp" and address.port:
            host = address.host or "localhost"
            return f"{scheme}[{host}]:{address.port}" if ":" in host else f"{scheme}{host}:{address.port}"
    return FRONTEND


def tester_plans(
    values: Values, folder: str, files: Files, report: Report, frontend: str = FRONTEND
) -> tuple[Plan, ...]:
    """The plans of a section ``tester``; problems are reported.

    :param folder: where relative paths begin.
    :param frontend: of plans that name none.
    """
    plans: dict[str, Plan] = {}
    for each in values["plans"]:
        name = each["name"] or each["queue"]
        load = _load(each, folder, files, report)
        _check(each, name, plans, report)
        if name and load is not None:
            json_lines = each["protocol"] == "json"
            where = each["frontend"] or frontend
            token_file = absolute(each["token-file"], folder) if each["token-file"] else ""
            plans[name] = each.build(
                Plan, name=name, queue=each["queue"], load=load, frontend=where, json_lines=json_lines,
                token_file=token_file, tls=_tls(each, where, folder, report),
            )  # fmt: skip
    return tuple(plans.values())


def _tls(values: Values, frontend: str, folder: str, report: Report) -> ClientTls:
    """The files of TLS with the frontend; problems are reported."""
    files = [values[name] and absolute(values[name], folder) for name in TLS_OPTIONS]
    place = next((values.place_of(name) for name in TLS_OPTIONS if values.given(name)), values.place)
    tls = report.tried(place, "", ClientTls, *(path or "" for path in files))
    if tls is None:
        return NO_FILES
    if tls and not frontend.startswith(TLS_SCHEME):
        report.problem(place, f"frontend: {frontend} has no TLS, which the files are for: give {TLS_SCHEME}HOST:PORT")
    return tls


def tester_reports(values: Values, folder: str, report: Report) -> tuple[str, ...]:
    """The files that the tester writes at the end; problems are reported."""
    paths = tuple(values["reports"] or ())
    for path in paths:
        if os.path.splitext(path)[1] not in REPORT_SUFFIXES:
            text = f"reports: {path!r} does not end with {', '.join(REPORT_SUFFIXES)}"
            report.problem(values.place_of("reports"), text)
    if paths and not values["plans"]:
        report.problem(values.place_of("reports"), "reports: there are no plans")
    return tuple(absolute(path, folder) for path in paths)


def _check(values: Values, name: str, others: dict[str, Plan], report: Report) -> None:
    if name in others:
        report.problem(values.place, f"two plans are called {name!r}: give each its own name")
    if name and (not name.isprintable() or "/" in name or len(name) > 128):
        report.problem(values.place, f"{name[:60]!r} is no name of a plan: at most 128 printable characters, no /")
    if values["token-file"] is not None and values["protocol"] == "bare":
        report.problem(values.place_of("token-file"), "token-file: bare JSON cannot give a token: use protocol: json")
    if values["frontend"] is not None:
        report.tried(values.place_of("frontend"), "frontend: ", parse_address, values["frontend"])


def _load(values: Values, folder: str, files: Files, report: Report) -> ClosedLoad | OpenLoad | None:
    rate = values["rate"]
    for key in CLOSED_KEYS if rate is not None else OPEN_KEYS:
        if values.given(key):
            model = "is not for plans with a rate" if rate is not None else "is for plans with a rate"
            report.problem(values.place_of(key), f"{key}: {model}")
    if rate is None:
        return _closed(values, report)
    from fakedev.config.rates import parse_open_load  # noqa: PLC0415 - drop-ins without a load must start fast

    place = values.place_of("rate")
    load = report.tried(place, "rate: ", parse_open_load, rate, lambda path: files.read(absolute(path, folder)))
    return None if load is None else replace(load, **values.fields_of(OpenLoad))


def _closed(values: Values, report: Report) -> ClosedLoad | None:
    if values.given("rate"):
        return None  # a wrong one, which was reported
    parallel = ClosedLoad.parallel if values["parallel"] is None else values["parallel"]
    most = MAX_PARALLEL if values["most-parallel"] is None else values["most-parallel"]
    if parallel > most:
        report.problem(values.place_of("parallel"), f"parallel: {parallel} is more than most-parallel, {most}")
    return values.build(ClosedLoad, max_parallel=most)
