"""Writes the configuration of a fleet that lives like the one whose metrics it reads."""

from __future__ import annotations

import math
import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from time import time
from typing import Final

import numpy as np

from fakedev.base.atomic_files import own_folder
from fakedev.base.console import Progress, table, write_text
from fakedev.base.errors import plain_reason, printable
from fakedev.base.given_files import read_given
from fakedev.base.units import parse_duration
from fakedev.clone.cloning import Cloning, Wanted
from fakedev.clone.prometheus_pages import OWN_SERIES, moment, own_labels, pages_of_series, read_prometheus
from fakedev.clone.scraped import SourcePage
from fakedev.commands.prometheus_access import PROMETHEUS_ACCESS, reached_prometheus
from fakedev.exporters.samples import Labels, Row, WrongLine, is_openmetrics, read_lines
from fakedev.exporters.settings.families import LABEL_NAME
from fakedev.learn.kept_answers import KeptAnswers
from fakedev.learn.learnt import Learnt, Series
from fakedev.learn.learnt import learn as learnt_fleet
from fakedev.learn.likeness import FAR, QUANTILES
from fakedev.learn.pace import MOST_SAMPLES, MOST_SERIES, History
from fakedev.learn.range_history import history
from fakedev.learn.tracks import OWNERS, QUANTITIES, Seen, selector
from fakedev.learn.usage_fit import Window
from fakedev.schema.options import Failed, Operand, Option, WrongUsage, command, write_file

_LAST_SECONDS: Final = 300.0
_STEP_SECONDS: Final = 60.0
#: More values than these, half a gigabyte, are read less often.
_MOST_VALUES: Final = 60_000_000
#: Samples of files that are collected.
_MANY_SAMPLES: Final = 200_000


@command(
    "fakedev learn",
    __doc__,
    Operand("files", "FILE", "OpenMetrics with times, or pages, of which each is of the time at which its file was "
            "written; a folder: all of its files, and those in its folders", count="*"),
    Option("prometheus", "URL", "read this Prometheus instead of files"),
    Option("match", "SELECTOR", "which of its series, needed with it, as '{job=\"dcgm\"}'", ""),
    *PROMETHEUS_ACCESS,
    Option("for", "DURATION", "how much of its past, default 7d", 7 * 86_400.0, parse_duration, value="past"),
    Option("to", "TIME", "until then (ISO 8601); default now", value="last"),
    Option("step", "DURATION", "of the values, default 1m; longer for much data", None, parse_duration),
    Option("resume", "FOLDER", "keep the answers of the Prometheus there, and take those that are there already"),
    Option("keep", "LABELS", "labels whose texts stay, as namespace,pod; names: all of them, with UUIDs and serial "
           "numbers; else others stand in their place"),
    Option("identity", "NAME", "identity of the catalog or a file; else the most similar"),
    Option("device", "TYPE", "device type of all boards; default: by each node's labels"),
    Option("trace", "FOLDER", "also write the jobs there, one by one, for fakedev replay jobs FOLDER"),
    Option("output", "FILE", "the configuration, default fleet.yaml"),
    failures={ValueError: 2, ConnectionError: 1},
)  # fmt: skip
def learn(options: Namespace) -> None:
    """Write the configuration, and say how like it is.

    :raises ConfigurationError: when the named identity or device cannot be used.
    """
    kept, path, end = _checked(options)
    wanted = Wanted(
        path, path.with_name(f"{path.stem}-identity.yaml"), options.identity or "", options.device or "",
        is_anonymous="names" not in kept,
    )  # fmt: skip
    Cloning(wanted, lambda share: None).check()
    server, sent = reached_prometheus(options), None
    with Progress("fakedev learn", sys.stderr) as progress:
        if server is None:
            pages, series, history, window = _of_files(options)
        else:
            ask = KeptAnswers(server.ask, Path(options.resume) if options.resume else None)
            sent = ask.sent
            until = ask.until(end)
            if options.last and abs(until - end) > 1:
                raise WrongUsage(f"--to: {options.resume} has answers until another time: leave --to out to go on "
                                 "with it, or name a new folder")
            pages, series, history, window = _of_prometheus(options, server.url, ask, until, progress.show)
        found = learnt_fleet(pages, series, history, window, wanted, progress.show, kept)
    for identity, text in found.identities.items():
        write_file(identity, text)
    write_file(path, found.text)
    for name, lines in found.trace.files() if options.trace else ():
        write_file(Path(options.trace) / name, "".join(lines))
    if sent is not None:
        queries = ", ".join(f"{count} of /api/v1/{what}" for what, count in sorted(sent.items()))
        write_text(sys.stderr, f"fakedev learn: queries: {queries or 'none'}\n")
    _tell(found)
    shown = shlex.quote(options.output or "fleet.yaml")
    write_text(sys.stderr, f"fakedev learn: {shown} is written: fakedev serve --config {shown} shows the fleet\n")


def _checked(options: Namespace) -> tuple[list[str], Path, float]:
    """The labels that are kept, the file to write, and the end of the time: before anything is read.

    :raises WrongUsage: for options that cannot be used.
    :raises Failed: for a file that cannot be written.
    """
    if bool(options.files) == bool(options.prometheus):
        raise WrongUsage("give either files or --prometheus URL")
    kept = [part.strip() for part in (options.keep or "").split(",") if part.strip()]
    for each in kept:
        if not LABEL_NAME.fullmatch(each):
            raise WrongUsage(f"--keep: {each!r} is no label, as namespace or pod; names stands for all of them")
    path = Path(options.output or "fleet.yaml").absolute()
    if path.exists():
        raise Failed(f"{path}: is there: name another file with --output")
    if not path.parent.is_dir():
        raise Failed(f"{path.parent}: there is no such folder")
    if options.trace:
        own_folder(options.trace)
        if any(Path(options.trace).iterdir()):
            raise Failed(f"{options.trace}: has files already: name another folder with --trace")
    if options.step is not None and options.step < 1:
        raise WrongUsage("--step: at least 1s")
    for name in ("match", "last", "resume") if options.files else ():
        if getattr(options, name):
            raise WrongUsage(f"--{'to' if name == 'last' else name} is for a Prometheus: files are read whole")
    end = moment("--to", options.last, time())
    selector(options.match, "__name__", "")
    return kept, path, end


def _tell(found: Learnt) -> None:
    for note in found.notes:
        write_text(sys.stderr, f"fakedev learn: note: {note}\n")
    rows = []
    for row in found.rows:
        for title, values in (("read", row.read), ("learnt", row.learnt)):
            shown = {f"p{100 * share:g}": f"{value:.4g}" for share, value in zip(QUANTILES, values, strict=True)}
            if len(set(values.tolist())) == 1 and len(set(row.read.tolist())) == 1:  # it has no distribution
                shown |= dict.fromkeys(list(shown)[1:], "")
            apart = f"{row.distance:.3f}{' (far)' * (row.distance > FAR)}" if title == "learnt" else ""
            rows.append({"": row.what if title == "read" else "", " ": title, **shown, "distance": apart})
    if rows:
        write_text(sys.stdout, table(rows))


_Found = tuple[Sequence[SourcePage], Series, History, Window]


def _of_prometheus(
    options: Namespace, url: str, ask: KeptAnswers, end: float, show: Callable[[float], None]
) -> _Found:
    """The last page and the series of a Prometheus.

    :raises ValueError: for an option that cannot be used.
    :raises ConnectionError: when the server does not answer as a Prometheus.
    """
    begin = end - options.past
    pages = read_prometheus(
        url, ask, options.match, np.datetime_as_string(np.datetime64(round(end - _LAST_SECONDS), "s")),
        np.datetime_as_string(np.datetime64(round(end), "s")),
    )  # fmt: skip
    devices = sum(max(len(family.samples) for family in source.page.families.values()) for source in pages)
    values = devices * len(QUANTITIES) * options.past / _STEP_SECONDS
    step = options.step or _STEP_SECONDS * math.ceil(values / _MOST_VALUES)

    def series(names: Sequence[str], every: int) -> Iterable[Seen]:
        return history(ask, options.match, names, begin, end, every * step, own_labels,
                       lambda share: show(0.2 + 0.4 * share))

    def one_family(name: str) -> Iterable[tuple[str, Seen]]:
        """Of some targets, so that there are not too many series; the last samples."""
        having = [source for source in pages if name in source.page.families]
        rows = {source.name: len(source.page.families[name].samples) for source in having}
        first = max(begin, end - MOST_SAMPLES * step)
        for target in list(rows)[: max(MOST_SERIES // max(rows.values(), default=1), 1)]:
            match = selector(options.match, "instance", target)
            for seen in history(ask, match, (name,), first, end, step, own_labels, lambda _share: None):
                yield target, seen

    return pages, series, one_family, Window(begin, end, step)


def _of_files(options: Namespace) -> _Found:
    """The last page and the series of files.

    :raises ValueError: for a file that cannot be used, naming it and the line.
    """
    found = _files(options.files)
    # A board has one owner at a time: of its series the one that goes on.
    newest: dict[tuple[str, Labels], tuple[float, str, Labels, int]] = {}
    declared: _Declared = {}
    begins: dict[str, float] = {}
    for file, (row, seconds) in ((each, sample) for each in found for sample in _samples(each, declared)):
        begins[file] = min(begins.get(file, seconds), seconds)
        board = tuple(label for label in row.labels if label[0] not in OWNERS)
        latest, number, labels, count = newest.get((row.name, board), (seconds, "", (), 0))
        newer = (seconds, row.number, row.labels) if seconds >= latest else (latest, number, labels)
        newest[row.name, board] = (*newer, count + 1)
    files = sorted(found, key=begins.__getitem__)
    shown = [seconds for (name, _), (seconds, *_) in newest.items() if name not in OWN_SERIES]
    if not shown:
        raise ValueError(f"{files[0]}: has only series that Prometheus makes itself, and none of an exporter")
    begin, end = begins[files[0]], max(shown)
    if begin == end:
        raise ValueError(f"{files[0]}: all samples are of one moment. For a single page use fakedev clone; a copy of "
                         "pages needs their times: copy them with cp -p")
    pages = pages_of_series(
        ({"metric": {"__name__": name, **dict(labels)}, "value": (seconds, number)}
         for (name, _), (seconds, number, labels, _) in newest.items() if seconds > end - _LAST_SECONDS), declared
    )  # fmt: skip
    names = {name for source in pages for name in source.page.families}
    usual = (end - begin) / max(max(count for *_, count in newest.values()) - 1, 1)

    def every_family(_name: str) -> Iterable[tuple[str, Seen]]:
        """All of them at once: the files are long."""
        return ((seen.target, seen) for seen in _series(files, sorted(names)))

    def series(names: Sequence[str], _every: int) -> Iterable[Seen]:
        return _series(files, names)

    return pages, series, every_family, Window(begin, end, options.step or max(_STEP_SECONDS, float(round(usual))))


def _files(words: Sequence[str]) -> list[str]:
    """The files that were named, and those in folders and in the folders there.

    :raises ValueError: for a file that cannot be used, and for a folder without any.
    """
    found: list[str] = []
    for word in words:
        folder = Path(word)
        inside = sorted(path for pattern in ("*", "*/*") for path in folder.glob(pattern) if path.is_file())
        if folder.is_dir() and not inside:
            raise ValueError(f"{word}: there is no file in this folder")
        found += [str(path) for path in inside or [folder]]
    return found


#: What a file says of families by the names of their samples, as ``/api/v1/metadata`` has it.
_Declared = dict[str, list[dict[str, str]]]


def _samples(name: str, declared: _Declared) -> Iterator[tuple[Row, float]]:
    """The samples of a file with their times; at least one.

    :param declared: takes the types and texts of its families.
    :raises ValueError: for a file that cannot be used, naming it and the line.
    """
    rows = _rows(name, declared)
    first = next(rows, None)
    if first is None:
        raise ValueError(f"{name}: there is no sample in it")
    yield first
    yield from rows


def _series(files: Sequence[str], names: Sequence[str]) -> Iterator[Seen]:
    """The samples of some families, in parts of some files: a page has one of each series."""
    found: dict[tuple[str, Labels], list[tuple[float, float]]] = {}
    count = 0
    for name in files:
        for row, seconds in _rows(name, {}, names):
            found.setdefault((row.name, row.labels), []).append((seconds, float(row.number)))
            count += 1
        if count >= _MANY_SAMPLES or name is files[-1]:
            for (family, labels), points in found.items():
                values = np.array(points)
                own = dict(labels)
                yield Seen(family, own_labels(own), values[:, 0], values[:, 1], own.get("instance", "target"))
            found.clear()
            count = 0


def _rows(name: str, declared: _Declared, names: Sequence[str] | None = None) -> Iterator[tuple[Row, float]]:
    """The samples of a file with their times.

    :param names: of the families that are wanted, when all lines were read before; None: all.
    :raises ValueError: for a file that cannot be used, naming it and the line.
    """
    try:
        page = read_given(name)
        written = os.stat(name).st_mtime
    except OSError as error:
        raise ValueError(f"{name}: {plain_reason(error)}") from None
    per_second = 1.0 if is_openmetrics(page) else 1000.0
    if names is not None:  # to read a line takes far longer than to look at how it begins
        begins = tuple(each.encode() for each in names)
        page = b"\n".join(line for line in page.split(b"\n") if line.startswith(begins))
    wanted = {*names} if names is not None else None
    is_page: bool | None = None
    try:
        for number, row in read_lines(page):
            if isinstance(row, Row):
                if is_page is None:
                    is_page = row.time is None
                if is_page != (row.time is None):
                    raise ValueError(f"{name}:{number}: some samples have a time, and some have none")
                if wanted is not None and row.name not in wanted:
                    continue
                if row.time is None:
                    yield row._replace(labels=(*row.labels, ("instance", Path(name).parent.name or "target"))), written
                else:
                    yield row, float(row.time) / per_second
            else:
                known = declared.setdefault(row.name, [{}])
                known[0][row.word.lower()] = row.text
                declared.setdefault(f"{row.name}_total", known)  # the samples of a counter of OpenMetrics
    except WrongLine as error:
        is_cut = error.number == page.count(b"\n") + 1
        what = "the file ends within a line: is it whole?" if is_cut else f"no sample: {printable(error.shown)[:60]}"
        raise ValueError(f"{name}:{error.number}: {what}") from None
