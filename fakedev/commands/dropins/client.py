"""fakedev-client: puts load on a queue, serves statistics, and checks expectations at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from fakedev.base.console import ProgressLine, write_text
from fakedev.commands.dropins.addresses import CONTROL_ADDRESS
from fakedev.queues.job import Outcome
from fakedev.schema.addresses import ListenAddress
from fakedev.schema.go_flags import Flag, FlagError, FlagSet, Values, address_with_tls, all_interfaces
from fakedev.schema.peer_addresses import NO_FILES
from fakedev.tester.plan import REPORT_SUFFIXES, ClosedLoad, OpenLoad, Plan, Spacing

if TYPE_CHECKING:
    from fakedev.tester.expectation import Expectation
    from fakedev.tester.statistics import Statistics

_PROGRAM: Final = "fakedev-client"
#: The exit code when an expectation is not met.
NOT_MET: Final = 3


@dataclass(frozen=True)
class Order:
    """The run that the options describe.

    :param title: of the report.
    :param control: the address of the statistics; None for none.
    :param headless: no control, but progress on the terminal.
    :param reports: files to write; their extensions select the form.
    """

    title: str
    plans: tuple[Plan, ...]
    control: ListenAddress | None
    headless: bool
    duration_seconds: float
    grace_seconds: float
    expectations: tuple[Expectation, ...]
    reports: tuple[str, ...]
    verbose: bool


class ClientOptions:
    """The original's options and ours, and the run that they describe."""

    def __init__(self) -> None:
        flags = FlagSet("fakedev-client", "puts load on a queue and measures the results", "[ARGUMENT...]")
        self.flags = flags
        ours, duration = " (not in the original)", "DURATION"
        self._caddr = flags.text("caddr", CONTROL_ADDRESS, "address of statistics and control", "HOST:PORT")
        self._faddr = flags.address("faddr", "localhost:9997", "where the frontend listens")
        self._name = flags.text("name", "sleep", "queue that requests are put into", "QUEUE")
        self._limit = flags.seconds("limit", 0.0, "run-time limit of each request; 0: none")
        self._req_max = flags.unsigned("req-max", 2, "most parallel requests")
        self._req_now = flags.unsigned("req-now", 1, "parallel requests at the start")
        self._verbose = flags.boolean("verbose", "log all messages")
        self._delay = flags.seconds("delay", 0.0, f"between the end of a request and the next{ours}", duration)
        self._rate = flags.text(
            "rate", "", f"open model: requests arrive at this rate, as 20/s or ramp:5/s:50/s:60s{ours}", "RATE"
        )
        self._arrivals = flags.choice(
            "arrivals", [each.value for each in Spacing], f"how arrivals are spread: even or poisson{ours}", "WORD"
        )
        self._seed = flags.unsigned("seed", 1, f"of poisson arrivals{ours}")
        self._max_outstanding = flags.unsigned(
            "most-outstanding", OpenLoad.max_outstanding, f"open model: most pending requests{ours}"
        )
        self._plans = flags.text(
            "plans", "", f"a file with several plans, instead of -name and the other options of one plan{ours}", "FILE"
        )
        self._protocol = flags.choice(
            "protocol", ("bare", "json"), f"protocol: bare, the original's; json, of fakedev's frontend{ours}"
        )
        self._token_file = flags.token_file(f"; needs -protocol json{ours}")
        self._tls_files = flags.tls_files(ours)
        self._headless = flags.boolean("headless", f"serve no control; show progress on the terminal{ours}")
        self._duration = flags.seconds("duration", 0.0, f"how long; 0: until stopped{ours}", duration)
        self._grace = flags.seconds(
            "grace", 5.0, f"wait this long for pending requests after -duration{ours}", duration
        )
        self._expect = flags.each(
            "expect", f"an expectation of the results, as p99<2s or failures<1%; else exit 3{ours}", "TEXT",
            _expectation,
        )  # fmt: skip
        self._report = flags.each(
            "report", f"write a report to a file with the extension {', '.join(REPORT_SUFFIXES)}{ours}", "FILE",
            _report_path,
        )  # fmt: skip

    def order(self, values: Values) -> Order:
        """The run that these arguments describe.

        :raises FlagError: when something cannot be used.
        """
        if values[self._plans]:
            plans = self._plans_of_file(values)
            title = f"Requests of {values[self._plans]}"
        else:
            plans = (self._plan(values),)
            title = f"Requests to {plans[0].queue} of {plans[0].frontend}"
        return Order(
            title,
            plans,
            None if values[self._headless] else self._control(values),
            values[self._headless],
            values[self._duration],
            values[self._grace],
            values[self._expect],
            values[self._report],
            values[self._verbose],
        )

    def _plans_of_file(self, values: Values) -> tuple[Plan, ...]:
        flags_of_one_plan: tuple[Flag[object], ...] = (
            *(self._faddr, self._name, self._limit, self._req_max, self._req_now, self._delay, self._rate),
            *(self._arrivals, self._seed, self._max_outstanding, self._protocol, self._token_file),
            *self._tls_files.values(),
        )
        _refuse(values, flags_of_one_plan, "belongs in the file of plans, in each plan")
        if values.operands:
            raise FlagError(f"arguments ({values.operands[0]!r}) belong in the file of plans, in each plan")
        # -help and a single plan of the closed model need none of these.
        from fakedev.schema.files import Files  # noqa: PLC0415
        from fakedev.schema.places import ConfigurationError  # noqa: PLC0415
        from fakedev.tester.settings import load_plans  # noqa: PLC0415

        try:
            return load_plans(values[self._plans], Files(environ=os.environ))
        except ConfigurationError as error:
            raise FlagError(str(error)) from None

    def _plan(self, values: Values) -> Plan:
        queue = values[self._name]
        if not queue:
            raise FlagError("-name must name a queue")
        load = self._open(values) if values[self._rate] else self._closed(values)
        is_lines = values[self._protocol] == "json"
        limit, token_file = values[self._limit], values[self._token_file]
        if token_file and not is_lines:
            raise FlagError("-token-file needs -protocol json: bare JSON cannot give a token")
        frontend = address_with_tls(values[self._faddr], values, self._tls_files)
        return Plan(
            queue, queue, load, frontend.shown, values.operands, limit, is_lines, token_file,
            frontend.tls or NO_FILES,
        )  # fmt: skip

    def _closed(self, values: Values) -> ClosedLoad:
        _refuse(values, (self._arrivals, self._seed, self._max_outstanding), "needs -rate")
        now, most = values[self._req_now], values[self._req_max]
        if now > most and values.given(self._req_max):
            raise FlagError(f"-req-now {now} is more than -req-max {most}")
        return ClosedLoad(now, max(now, most), values[self._delay])

    def _open(self, values: Values) -> OpenLoad:
        closed_flags = (self._req_now, self._req_max, self._delay)
        _refuse(values, closed_flags, "cannot be used with -rate: requests arrive when they are due")
        from fakedev.schema.files import Files  # noqa: PLC0415
        from fakedev.tester.rates import parse_open_load  # noqa: PLC0415

        try:
            load = parse_open_load(values[self._rate], lambda path: Files().read(os.path.abspath(path)))
        except ValueError as error:
            raise FlagError(f"-rate: {error}") from None
        if not values[self._max_outstanding]:
            raise FlagError("-most-outstanding: at least 1")
        return replace(
            load,
            spacing=Spacing(values[self._arrivals]),
            seed=values[self._seed],
            max_outstanding=values[self._max_outstanding],
        )

    def _control(self, values: Values) -> ListenAddress:
        from fakedev.schema.addresses import parse_listen  # noqa: PLC0415 - not for -help

        try:
            return parse_listen(all_interfaces(values[self._caddr]))
        except ValueError as error:
            raise FlagError(f"-caddr: {error}") from None


def _refuse(values: Values, flags: Sequence[Flag[object]], reason: str) -> None:
    """Refuse the first of these options that is given."""
    for flag in flags:
        if values.given(flag):
            raise FlagError(f"-{flag.name} {reason}")


def _expectation(text: str) -> Expectation:
    from fakedev.tester.rates import parse_expectation  # noqa: PLC0415 - most runs have none

    return parse_expectation(text)


def _report_path(path: str) -> str:
    if os.path.splitext(path)[1] not in REPORT_SUFFIXES:
        *others, last = REPORT_SUFFIXES
        raise ValueError(f"{path!r} does not end with {', '.join(others)} or {last}")
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    options = ClientOptions()
    with options.flags.usage_errors_exit():
        order = options.order(options.flags.parse(arguments))
    return run(order)


def run(order: Order) -> int:
    """Run the load, report, check the expectations; returns the exit code."""
    from fakedev.tester.expectation import judge  # noqa: PLC0415
    from fakedev.tester.load_run import save_report  # noqa: PLC0415 - a usage error does not need Twisted
    from fakedev.tester.part import run_client  # noqa: PLC0415 - likewise

    progress = ProgressLine(sys.stderr)
    tester = run_client(
        order.plans,
        order.control,
        duration_seconds=order.duration_seconds,
        grace_seconds=order.grace_seconds,
        tell=progress.tell if order.headless else None,
        tell_seconds=progress.seconds,
        verbose=order.verbose,
    )
    progress.end()
    findings = [judge(expectation, tester.total, tester.now) for expectation in order.expectations]
    report = tester.report(order.title, findings)
    write_text(sys.stdout, report.text())
    problems = [problem for path in order.reports if (problem := save_report(report, path))]
    for problem in problems:
        write_text(sys.stderr, f"{_PROGRAM}: the report cannot be written: {problem}\n")
    drivers = tester.drivers.values()
    # A run that a signal ends before it begins has looked for none.
    away = dict.fromkeys(str(each.plan.frontend) for each in drivers if each.was_refused and not each.was_reached)
    for frontend in away:
        write_text(sys.stderr, f"{_PROGRAM}: no frontend was reached at {frontend}: start it, or give its address\n")
    if problems or away:
        return 1
    if order.headless and not findings and not tester.total.successes:
        # A test without expectations must not pass because nobody answered.
        write_text(sys.stderr, f"{_PROGRAM}: no request succeeded: {reason_of_none(tester.total)}\n")
        return 1
    return 0 if all(finding.is_met for finding in report.findings) else NOT_MET


def reason_of_none(total: Statistics) -> str:
    """Why no request succeeded, or what to do: of those that the frontend refused, its own words, the most frequent."""
    if total.failures[Outcome.REFUSED]:
        return f"the frontend says: {max(total.errors.items(), key=lambda error: error[1].value)[0]}"
    return "start a frontend and backends, or name the frontend with -faddr"


if __name__ == "__main__":
    raise SystemExit(main())
