"""``fakedev calibrate``: fits the coefficients of a device type to a recorded run of a real board."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fakedev.calibration.coefficients import dynamics_of
from fakedev.calibration.csv_runs import read_csv
from fakedev.calibration.device_file import device_yaml
from fakedev.calibration.fit import calibrate as fit
from fakedev.calibration.plan import plan_text
from fakedev.calibration.report import difference_lines, picture, rows
from fakedev.calibration.runs import CLOCK, KINDS, Run, RunError
from fakedev.calibration.series_runs import Series, read_openmetrics, run_of_series
from fakedev.commands.console import table, tell_notes, write_text
from fakedev.commands.parser import Parser
from fakedev.commands.prometheus_range import raw_samples
from fakedev.config.catalog import Catalog
from fakedev.config.devices.devices import load_device
from fakedev.config.identities.choice import likely_identities, named_identity
from fakedev.config.schema.documents import read_document
from fakedev.config.schema.files import Files, Unreadable
from fakedev.config.schema.nodes import Place, Report
from fakedev.spec.device_types import DeviceType
from fakedev.spec.errors import printable
from fakedev.spec.fleet import MetricName
from fakedev.spec.os_errors import plain_reason
from fakedev.spec.units import parse_duration

_WHERE = "fakedev calibrate"
_CATALOG = "catalog:devices/"


class _Base(NamedTuple):
    """The type that is calibrated, and the text of its file."""

    board: DeviceType
    text: str


def calibrate(arguments: Sequence[str]) -> int:
    """Print the device type with the coefficients that the run tells.

    :returns: 0; 1 when the run cannot be used or the picture cannot be written; 3 without SciPy.
    :raises ConfigurationError: when there is no such device type or identity.
    """
    options = _parser().parse_args(list(arguments))
    report = Report()
    files = Files(environ=os.environ)
    catalog = Catalog(files, report)
    base = _base(options.device, files, catalog, report)
    try:
        dynamics = dynamics_of(base.board)
        if options.plan:
            text = plan_text(options.device, base.board.ranges[CLOCK].high, dynamics.clock_step_mhz)
            write_text(sys.stdout, text)
            return 0
        run, source = _run(options, catalog, report)
        tell_notes(report.notes)
        calibration = fit(base.board, run.with_work(options.work))
        name = options.name or f"my-{base.board.name}"
        text, notes = device_yaml(base.text, name, calibration, source)
        if options.picture is not None:
            Path(options.picture).write_text(picture(calibration, source), encoding="utf-8")
        _check(text)
    except ValueError as error:
        print(f"{_WHERE}: {error}", file=sys.stderr)
        return 1
    except ImportError:
        print(f"{_WHERE}: this needs SciPy: pip install 'fakedev[calibrate]'", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"{_WHERE}: {error.filename or 'the run'}: {plain_reason(error)}", file=sys.stderr)
        return 1
    write_text(sys.stderr, table(rows(calibration)) + "".join(f"{line}\n" for line in difference_lines(calibration)))
    tell_notes(notes)
    write_text(sys.stdout, text)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(_WHERE, description=__doc__)
    parser.add_argument("--device", required=True, metavar="NAME", help="the device type to begin with, or its file")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--from", dest="file", metavar="FILE", help="a run: CSV, or OpenMetrics with times")
    source.add_argument("--prometheus", metavar="URL", help="take the run from the samples of this Prometheus")
    source.add_argument("--plan", action="store_true", help="print what to run on the real board, in ten minutes")
    parser.add_argument(
        "--range", default=1800.0, type=_duration, metavar="DURATION",
        help="with --prometheus: so far back, default 30m",
    )  # fmt: skip
    parser.add_argument("--identity", metavar="NAME", help="the exporter of the series; default: recognized, else dcgm")
    parser.add_argument(
        "--only", action="append", default=[], type=_label, metavar="LABEL=VALUE",
        help="take only series with this label; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--work", action="append", default=[], type=_work, metavar="SECONDS=KIND",
        help=f"from this second of the run on the work is {', '.join(KINDS[:-1])} or {KINDS[-1]}; may be repeated",
    )  # fmt: skip
    parser.add_argument("--name", metavar="NAME", help="the name of the new type; default my- and the old one")
    parser.add_argument("--picture", metavar="FILE", help="write a page with plots of measured and simulated values")
    return parser


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not LABEL=VALUE, as gpu=0")
    return name, value


def _work(text: str) -> tuple[float, str]:
    seconds, _, kind = text.partition("=")
    if kind not in KINDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not SECONDS=KIND, as 120=tensor; kinds: {', '.join(KINDS)}")
    return _duration(seconds if not seconds.isdigit() else f"{seconds}s"), kind


def _base(name: str, files: Files, catalog: Catalog, report: Report) -> _Base:
    """The type to begin with.

    :raises ConfigurationError: when there is none, or it has problems.
    """
    place = Place(f"{_WHERE}: --device")
    found = catalog.device(name, place)
    report.raise_if_any()
    assert found is not None, "a missing type is a problem"
    text = next(text for path, text in reversed(files.texts.items()) if _is_device(path, name))
    return _Base(found.type, text)


def _is_device(path: str, name: str) -> bool:
    return path.startswith(_CATALOG) or os.path.basename(path) == os.path.basename(name)


def _run(options: argparse.Namespace, catalog: Catalog, report: Report) -> tuple[Run, str]:
    """The run, and what it was read from."""
    only = dict(options.only)
    if options.prometheus is not None:
        names = _names_of(options.identity or "dcgm", catalog, report)
        source = f"{options.prometheus}, the last {options.range:g} s"
        series = raw_samples(options.prometheus, names, only, options.range)
        return run_of_series(series, names, only, options.prometheus), source
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
    identity = options.identity or _likely(series, catalog, report)
    return run_of_series(series, _names_of(identity, catalog, report), only, file), source


def _is_openmetrics(text: str) -> bool:
    """Whether it begins with a comment, or with a name and labels: CSV does neither."""
    first = text.lstrip()[:200].partition("\n")[0]
    return first.startswith("#") or "{" in first


def _likely(series: Sequence[Series], catalog: Catalog, report: Report) -> str:
    return next(iter(likely_identities({each.family for each in series}, catalog, report)), "dcgm")


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
