"""The devices of fakedev-workload, by name or by files that are mapped into its container, and its -json file."""

from __future__ import annotations

import json
import re
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

from fakedev.spec.workload_fields import WORKLOAD_FIELDS

#: CPU time in which an expression of the user must have looked at all paths.
_MAX_SEARCH_SECONDS: Final = 2.0
_ACTIVITY_NAMES: Final = ("load", "fluctuation", "seconds", "spread", "once", "time", "utilization")


def indexed_names(names: str, max_index: int, environ: Mapping[str, str]) -> list[str]:
    """Comma separated device names; with ``max_index`` the Job's index modulo it replaces INDEX in them.

    :param environ: has JOB_COMPLETION_INDEX, which Kubernetes sets in the pods of an indexed Job.
    :raises ValueError: when the index is needed and missing, or a name is empty.
    """
    if max_index < 0:
        raise ValueError(f"-max-index: {max_index} is negative")
    if max_index:
        index = environ.get("JOB_COMPLETION_INDEX", "")
        if not (index.isascii() and index.isdigit()):
            has = f"is {index!r}, no whole number from 0 up" if index else "is not set"
            raise ValueError(f"-max-index: JOB_COMPLETION_INDEX {has}: is the Job's completionMode Indexed?")
        names = names.replace("INDEX", str(int(index) % max_index))
    split = [name.strip() for name in names.split(",")]
    if not all(split):
        raise ValueError(f"-devnames: {names!r} has an empty name")
    return split


def matched_names(pattern: str, expression: str, find: Callable[[str], Sequence[str]]) -> list[str]:
    """Names of the devices whose files match a glob pattern.

    Without an expression they are the files' base names. An expression is searched in each base name, or else in the
    whole path; its first group is the index N of device ``cardN``, and files without a match are left out.
    Python's expressions may take exponential time, where the original's cannot: the search has a limit of CPU time.

    :param find: returns the paths that match a glob pattern.
    :raises ValueError: when the expression cannot be used, or no name is left.
    """
    paths = sorted(find(pattern))
    if not paths:
        raise ValueError(f"-devices: no file matches {pattern!r}")
    if not expression:
        return [_base_name(path) for path in paths]
    try:
        with _cpu_limit(f"-devregex: {expression!r} takes too long"), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # for what Python may read otherwise one day
            compiled = re.compile(expression)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"-devregex: {expression!r} is no regular expression: {error}") from None
    if not compiled.groups:
        raise ValueError(f"-devregex: {expression!r} has no group for the device index, as card([0-9]+) has")
    with _cpu_limit(f"-devregex: {expression!r} takes too long: it repeats something that is repeated"):
        names = [_card(compiled, path) for path in paths]
    unique = list(dict.fromkeys(name for name in names if name))
    if not unique:
        raise ValueError(f"-devregex: {expression!r} is found in none of the {len(paths)} files of {pattern!r}")
    return unique


@contextmanager
def _cpu_limit(text: str) -> Iterator[None]:
    """Raises ValueError with this text when what is done takes too much CPU time; for the main thread only."""

    def end(number: int, frame: FrameType | None) -> None:
        raise ValueError(text)

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, _MAX_SEARCH_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _card(expression: re.Pattern[str], path: str) -> str:
    """``cardN`` with the index in a path; empty when the expression does not match."""
    match = expression.search(_base_name(path)) or expression.search(path)
    if match is None:
        return ""
    index = match[1] or ""
    if not (index.isascii() and index.isdigit()):
        raise ValueError(f"-devregex: its first group gives {index!r} in {path!r}, no device index")
    return f"card{int(index)}"


def _base_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def fields_from_json(text: str) -> tuple[dict[str, object], list[str]]:
    """The fields of a workload in a JSON text, by their lower-case names, and the unknown keys.

    The file is the original's: names are in any letter case, and a null is a missing field, as in Go.

    :raises ValueError: when the text is no JSON object, and no list.
    """
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from None
    if isinstance(document, list):
        # A list alone is a schedule, or a list of activities.
        document = {"schedule": document}
    if not isinstance(document, dict):
        raise ValueError("is not a JSON object with Name, Repeat and Profile, nor a list of activities")
    fields, unknown = _folded(document, (*WORKLOAD_FIELDS, "schedule"))
    if "schedule" in fields:
        # A schedule of utilization may be the whole file.
        fields.setdefault("profile", fields.pop("schedule"))
    profile = fields.get("profile")
    if isinstance(profile, list):
        activities: list[object] = []
        for position, entry in enumerate(profile, 1):
            if not isinstance(entry, dict):
                activities.append(entry)
                continue
            activity, strange = _folded(entry, _ACTIVITY_NAMES)
            activities.append(activity)
            unknown += [f"{key} (activity {position})" for key in strange]
        fields["profile"] = activities
    return fields, unknown


def _folded(entry: dict[str, object], names: tuple[str, ...]) -> tuple[dict[str, object], list[str]]:
    known: dict[str, object] = {}
    unknown: list[str] = []
    for key, value in entry.items():
        if key.lower() not in names:
            unknown.append(key)
        elif value is not None:
            known[key.lower()] = value
    return known, unknown


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")
