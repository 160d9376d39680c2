"""The section ``tester``, in the configuration or in a separate file: its keys, and the plans that it describes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from fakedev.schema.files import Files, absolute
from fakedev.schema.peer_addresses import NO_FILES, TLS_OPTIONS, TLS_SCHEME, ClientTls, parse_address
from fakedev.schema.places import Report, Scalar
from fakedev.schema.reader import read_settings
from fakedev.schema.sections import INVALID, Key, Section, Values
from fakedev.schema.types import Choice, ListOf, Path, Text, keys_from
from fakedev.tester.plan import MAX_PARALLEL, REPORT_SUFFIXES, ClosedLoad, OpenLoad, Plan
from fakedev.web.settings import LineListen

#: Where the original's client connects.
FRONTEND: Final = "localhost:9997"
_FILE: Final = Path("file", optional=True)
#: Keys of the closed model and of the open one: a plan has one of the two.
_CLOSED: Final = keys_from(ClosedLoad)
_OPEN: Final = keys_from(OpenLoad)

PLAN = Section(
    "tester.plans",
    (
        *keys_from(Plan, "queue", "name", "frontend", "arguments", "limit_seconds"),
        Key(
            "protocol",
            Choice(("json", "bare")),
            "json: all requests on one connection; bare: a connection for each, as the original.",
            default="json",
        ),
        *keys_from(Plan, "token_file"),
        *(Key(name, _FILE, f"{text[0].upper()}{text[1:]}.") for name, text in TLS_OPTIONS.items()),
        *_CLOSED,
        Key(
            "rate",
            Text("rate"),
            "Open model: 20/s, ramp:5/s:50/s:60s, steps:5/s,10/s:30s, sine:20/s:10/s:60s, spike:10/s:100/s:30s:5s "
            "or csv:FILE; see [tester.md](tester.md).",
            default_words="none: the closed model",
        ),
        *_OPEN,
    ),
    doc="A load on a queue; it starts with fakedev.",
)

TESTER = Section(
    "tester",
    (
        Key("plans", ListOf(PLAN, words="list of plans"), "The loads.", default=()),
        Key(
            "reports",
            ListOf(Path("file")),
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
    report = Report(os.path.dirname(os.path.abspath(path)))
    plans: tuple[Plan, ...] = ()
    node = read_settings(path, report, files)
    if node is not None:
        values = TESTER.read(node, "", report)
        if values is not INVALID:
            plans = tester_plans(values, files, report)
            if not values["plans"]:
                report.problem(values.place, "plans: there are none")
            if values["reports"]:
                report.problem(values.place_of("reports"), "reports: are given here by -report FILE")
    report.raise_if_any()
    return plans


def own_frontend(entries: Iterable[LineListen]) -> str:
    """The frontend of plans that name none: the first of some addresses that a client can connect to."""
    for entry in entries:
        address, scheme = entry.listen, TLS_SCHEME if entry.tls is not None else ""
        if address.kind == "unix":
            return address.path
        if address.kind == "tcp" and address.port:
            host = address.host or "localhost"
            return f"{scheme}[{host}]:{address.port}" if ":" in host else f"{scheme}{host}:{address.port}"
    return FRONTEND


def tester_plans(values: Values, files: Files, report: Report, frontend: str = FRONTEND) -> tuple[Plan, ...]:
    """The plans of a section ``tester``; problems are reported.

    :param frontend: of plans that name none.
    """
    plans: dict[str, Plan] = {}
    for plan in values["plans"]:
        name = plan["name"] or plan["queue"]
        load = _load(plan, files, report)
        _check(plan, name, plans, report)
        if name and load is not None:
            where = plan["frontend"] or frontend
            plans[name] = plan.build(
                Plan, name=name, queue=plan["queue"], load=load, frontend=where,
                json_lines=plan["protocol"] == "json", tls=_tls(plan, where, report),
            )  # fmt: skip
    return tuple(plans.values())


def _tls(values: Values, frontend: str, report: Report) -> ClientTls:
    """The files of TLS with the frontend; problems are reported."""
    place = next((values.place_of(name) for name in TLS_OPTIONS if values.given(name)), values.place)
    tls = report.tried(place, "", ClientTls, *(values[name] or "" for name in TLS_OPTIONS))
    if tls is None:
        return NO_FILES
    if tls and not frontend.startswith(TLS_SCHEME):
        report.problem(place, f"frontend: {frontend} has no TLS, which the files are for: give {TLS_SCHEME}HOST:PORT")
    return tls


def tester_reports(values: Values, report: Report) -> tuple[str, ...]:
    """The files that the tester writes at the end; problems are reported."""
    paths: tuple[str, ...] = values["reports"]
    for path, node in zip(paths, values.items_of("reports"), strict=False):
        if isinstance(node, Scalar) and os.path.splitext(path)[1] not in REPORT_SUFFIXES:
            text = f"reports: {node.text!r} does not end with {', '.join(REPORT_SUFFIXES)}"
            report.problem(values.place_of("reports"), text)
    if paths and not values["plans"]:
        report.problem(values.place_of("reports"), "reports: there are no plans")
    return paths


def _check(values: Values, name: str, others: dict[str, Plan], report: Report) -> None:
    if name in others:
        report.problem(values.place, f"two plans are called {name!r}: give each its own name")
    if name and (not name.isprintable() or "/" in name or len(name) > 128):
        report.problem(values.place, f"{name[:60]!r} is no name of a plan: at most 128 printable characters, no /")
    if values["token-file"] is not None and values["protocol"] == "bare":
        report.problem(values.place_of("token-file"), "token-file: bare JSON cannot give a token: use protocol: json")
    if values["frontend"] is not None:
        report.tried(values.place_of("frontend"), "frontend: ", parse_address, values["frontend"])


def _load(values: Values, files: Files, report: Report) -> ClosedLoad | OpenLoad | None:
    rate = values["rate"]
    for key in _CLOSED if rate is not None else _OPEN:
        if values.given(key.name):
            model = "is not for plans with a rate" if rate is not None else "is for plans with a rate"
            report.problem(values.place_of(key.name), f"{key.name}: {model}")
    if rate is None:
        return _closed(values, report)
    from fakedev.tester.rates import parse_open_load  # noqa: PLC0415 - drop-ins without a load must start fast

    place = values.place_of("rate")
    load = report.tried(place, "rate: ", parse_open_load, rate, lambda path: files.read(absolute(path, report.folder)))
    return None if load is None else replace(load, **values.fields_of(OpenLoad))


def _closed(values: Values, report: Report) -> ClosedLoad | None:
    if values.given("rate"):
        return None  # a wrong one, which was reported
    most = MAX_PARALLEL if values["most-parallel"] is None else values["most-parallel"]
    load = values.build(ClosedLoad, max_parallel=most)
    if load.parallel > most:
        report.problem(values.place_of("parallel"), f"parallel: {load.parallel} is more than most-parallel, {most}")
    return load
