"""Fits the coefficients of a device type to a recorded run of a real board."""

from __future__ import annotations

import os
import sys
from argparse import Namespace

from fakedev.base.console import table, tell_notes, write_text
from fakedev.base.errors import install_extra, plain_reason, printable
from fakedev.base.units import parse_duration
from fakedev.calibrate.fit import calibrate as fit
from fakedev.calibrate.model import dynamics_of
from fakedev.calibrate.range_query import raw_samples
from fakedev.calibrate.report import device_yaml, difference_lines, picture, plan_text, rows
from fakedev.calibrate.runs import CLOCK, KINDS, Run, RunError, read_csv, read_openmetrics, run_of_series
from fakedev.clone.recognition import likely_identities
from fakedev.commands.prometheus_access import PROMETHEUS_ACCESS, reached_prometheus
from fakedev.exporters.settings.catalog import Catalog, named_identity
from fakedev.fleet.settings.devices import load_device
from fakedev.fleet.spec.device_types import DeviceType
from fakedev.fleet.spec.fleet_spec import MetricName
from fakedev.schema.files import Files, Unreadable
from fakedev.schema.options import Failed, OnlyOne, Option, command, write_file
from fakedev.schema.places import Place, Report
from fakedev.schema.reader import read_document

_WHERE = "fakedev calibrate"
_CATALOG = "catalog:devices/"


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError(f"{text!r} is not LABEL=VALUE, as gpu=0")
    return name, value


def _work(text: str) -> tuple[float, str]:
    seconds, _, kind = text.partition("=")
    if kind not in KINDS:
        raise ValueError(f"{text!r} is not SECONDS=KIND, as 120=tensor; kinds: {', '.join(KINDS)}")
    return parse_duration(seconds if not seconds.isdigit() else f"{seconds}s"), kind


@command(
    _WHERE,
    __doc__,
    Option("device", "NAME", "the device type to start from, or its file", is_required=True),
    OnlyOne(
        (
            Option("from", "FILE", "a run: CSV, or OpenMetrics with times", value="file"),
            Option("prometheus", "URL", "take the run from the samples of this Prometheus"),
            Option("plan", "", "print what to run on the real board, in ten minutes"),
        ),
        is_required=True,
    ),
    *PROMETHEUS_ACCESS,
    Option("range", "DURATION", "with --prometheus: how far back it reads, default 30m", 1800.0, parse_duration),
    Option("identity", "NAME", "the exporter of the series; default: recognized, else dcgm"),
    Option(
        "only", "LABEL=VALUE", "take only series with this label; may be repeated", parse=_label, is_repeated=True
    ),
    Option(
        "work", "SECONDS=KIND",
        f"kind of work from this second of the run on: {', '.join(KINDS[:-1])} or {KINDS[-1]}; may be repeated",
        parse=_work, is_repeated=True,
    ),
    Option("name", "NAME", "name of the new device type; default: my- and the old name"),
    Option("picture", "FILE", "write a page with plots of measured and simulated values"),
    failures={ValueError: 1},
)  # fmt: skip
def calibrate(options: Namespace) -> None:
    """Print the device type with the coefficients that the run determines; the exit code is 3 without SciPy.

    :raises ConfigurationError: when there is no such device type or identity.
    """
    report = Report()
    files = Files(environ=os.environ)
    catalog = Catalog(files, report)
    board, base_text = _base(options.device, files, catalog, report)
    dynamics = dynamics_of(board)
    if options.plan:
        write_text(sys.stdout, plan_text(options.device, board.ranges[CLOCK].high, dynamics.clock_step_mhz))
        return
    try:
        run, source = _run(options, catalog, report)
        tell_notes(report.notes)
        calibration = fit(board, run.with_work(options.work))
    except ImportError:
        raise Failed(f"this needs SciPy: {install_extra('calibrate')}", 3) from None
    except OSError as error:
        raise Failed(f"{error.filename or 'the run'}: {plain_reason(error)}") from None
    text, notes = device_yaml(base_text, options.name or f"my-{board.name}", calibration, source)
    if options.picture is not None:
        write_file(options.picture, picture(calibration, source))
    _check(text)
    write_text(sys.stderr, table(rows(calibration)) + "".join(f"{line}\n" for line in difference_lines(calibration)))
    tell_notes(notes)
    write_text(sys.stdout, text, is_document=True)


def _base(name: str, files: Files, catalog: Catalog, report: Report) -> tuple[DeviceType, str]:
    """The type to begin with, and the text of its file.

    :raises ConfigurationError: when there is none, or it has problems.
    """
    place = Place(f"{_WHERE}: --device")
    found = catalog.device(name, place)
    report.raise_if_any()
    assert found is not None, "a missing type is a problem"
    base = os.path.basename(name)
    read = reversed(files.texts.items())
    text = next(text for path, text in read if path.startswith(_CATALOG) or os.path.basename(path) == base)
    return found.type, text


def _run(options: Namespace, catalog: Catalog, report: Report) -> tuple[Run, str]:
    """The run, and what it was read from."""
    only = dict(options.only)
    server = reached_prometheus(options)
    if server is not None:
        names = _names_of(options.identity or "dcgm", catalog, report)
        source = f"{server.url}, the last {options.range:g} s"
        series = raw_samples(server, names, only, options.range)
        return run_of_series(series, names, only, server.url), source
    file = options.file
    try:
        text = Files(environ={}).read(os.path.abspath(file))
    except Unreadable as error:
        raise RunError(f"{file}{f':{error.line}' if error.line else ''}: {error}") from None
    source = printable(os.path.basename(file))
    if not _is_openmetrics(text):
        run, unused = read_csv(text, file)
        if unused:
            report.note(Place(file, 1), f"columns that are not used: {', '.join(unused)}")
        return run, source
    series = read_openmetrics(text, file)
    identity = options.identity or next(
        iter(likely_identities({row.family for row in series}, catalog, report)), "dcgm"
    )
    return run_of_series(series, _names_of(identity, catalog, report), only, file), source


def _is_openmetrics(text: str) -> bool:
    """Whether it begins with a comment, or with a name and labels: CSV does neither."""
    first = text.lstrip()[:200].partition("\n")[0]
    return first.startswith("#") or "{" in first



def _names_of(identity: str, catalog: Catalog, report: Report) -> dict[str, MetricName]:
    """Quantity and unit of the families of an identity."""
    return named_identity(identity, catalog, report, f"{_WHERE}: --identity").metric_names()


def _check(text: str) -> None:
    """The new file is read as users will read it.

    :raises RunError: when the fitted values make no device type.
    """
    report = Report()
    node = read_document(text, "the calibrated type", report)
    if node is not None:
        load_device(node, report)
    for problem in report.sorted_problems():
        raise RunError(f"the run gives values that no device can have: {problem.text}")
