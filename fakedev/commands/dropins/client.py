"""fakedev-client: puts load on a queue, serves what it measures, and says whether it was good enough."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

from fakedev.commands.console import write_text
from fakedev.commands.dropins.client_options import ClientOptions, Order
from fakedev.commands.go_flags import FlagError
from fakedev.commands.progress_line import ProgressLine
from fakedev.config.schema.files import Files
from fakedev.config.schema.problems import ConfigurationError
from fakedev.tester.expectation import judge
from fakedev.tester.report import Report

_PROGRAM: Final = "fakedev-client"
#: The exit code that says that an expectation does not hold.
NOT_MET: Final = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    options = ClientOptions(Files(environ=os.environ))
    values = options.flags.parse_or_exit(sys.argv[1:] if arguments is None else arguments)
    try:
        order = options.order(values)
    except (FlagError, ConfigurationError) as error:
        options.flags.refuse(str(error))
    return run(order)


def run(order: Order) -> int:
    """Put the load on, report, judge; the exit code."""
    from fakedev.app.tester import ClientSettings, run_client  # noqa: PLC0415 - a usage error need not wait for it

    progress = ProgressLine(sys.stderr)
    settings = ClientSettings(
        order.plans,
        order.control,
        order.duration_seconds,
        order.grace_seconds,
        progress.tell if order.headless else None,
        progress.seconds,
        order.verbose,
    )
    tester = run_client(settings)
    progress.end()
    findings = [judge(expectation, tester.total, tester.now) for expectation in order.expectations]
    report = tester.report(order.title, findings)
    write_text(sys.stdout, report.text())
    if not _save(report, order.reports):
        return 1
    return 0 if all(finding.is_met for finding in report.findings) else NOT_MET


def _save(report: Report, paths: Sequence[str]) -> bool:
    """Write the report to all files; whether that went well."""
    good = True
    for path in paths:
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(report.as_file(path))
        except OSError as error:
            write_text(sys.stderr, f"{_PROGRAM}: the report {path} cannot be written: {error.strerror}\n")
            good = False
    return good


if __name__ == "__main__":
    raise SystemExit(main())
