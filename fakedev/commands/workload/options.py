"""From the command line of fakedev-workload to the workload it asks for, and its devices.

Its devices are named, or follow from files that are mapped into its container. The JSON file of -json wins over the
options.
"""

from __future__ import annotations

import json
import re
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final, NoReturn

from fakedev.base.errors import FieldError, plain_reason
from fakedev.base.given_files import read_given
from fakedev.commands.workload.exchange import run_message
from fakedev.fleet.spec.workload_fields import WORKLOAD_FIELDS, workload_from_fields
from fakedev.fleet.spec.workload_spec import WorkloadSpec
from fakedev.schema.go_flags import Flag, FlagError, FlagSet, Values, address_with_tls, parse_number
from fakedev.schema.peer_addresses import Address

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


#: A metric, and a number or what must be a size.
Limit = tuple[str, float | str]

_VARIABLES: Final = {
    "node": "NODE_NAME",
    "pod": "POD_NAME",
    "namespace": "POD_NAMESPACE",
    "container": "CONTAINER_NAME",
}
#: Options that are named otherwise than the field they give.
_OPTIONS: Final = {"profile": "activity", "limits": "limit", "run-time-limit": "runtime-limit", "metrics": "use"}


@dataclass(frozen=True)
class Order:
    """What the arguments ask for.

    :param remarks: what the user should know, for the log.
    :param token_file: has the server's token; empty for none.
    """

    address: Address
    workload: WorkloadSpec
    message: bytes
    remarks: tuple[str, ...] = ()
    token_file: str = ""

    def read_token(self) -> str:
        """The server's token; empty for none.

        :raises ValueError: with the reason.
        """
        if not self.token_file:
            return ""
        from fakedev.schema.files import read_token  # noqa: PLC0415 - most workloads need no token

        return read_token(self.token_file)


def find_files(pattern: str) -> list[str]:
    """Files that match a pattern as Go reads it: hidden ones too, ``[^a]`` for all but a."""
    import glob  # noqa: PLC0415 - most workloads name their devices

    return glob.glob(pattern.replace("[^", "[!"), include_hidden=True)


def read_text(path: str) -> str:
    """A file's text."""
    return read_given(path).decode()


def parse_limit(text: str) -> Limit:
    """``METRIC=VALUE``: a metric's name and a number, or what must be a size such as 40GiB."""
    metric, equals, value = text.partition("=")
    if not metric.strip() or not equals:
        raise ValueError(f"{text!r} is no METRIC=VALUE, as memory=40GiB")
    try:
        return metric.strip(), parse_number(value)
    except ValueError:
        return metric.strip(), value


def parse_use(text: str) -> tuple[str, str]:
    """``METRIC=PROFILE``: a metric that is requested in addition to the load."""
    metric, equals, profile = text.partition("=")
    if not metric.strip() or not equals:
        raise ValueError(f"{text!r} is no METRIC=VALUE:FLUCTUATION:SECONDS, as memory=40GiB")
    return metric.strip(), profile


def _once(uses: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """What is asked of metrics, each once."""
    metrics: dict[str, str] = {}
    for metric, profile in uses:
        if metric in metrics:
            raise FlagError(f"-use: {metric} is given twice")
        metrics[metric] = profile
    return metrics


class WorkloadOptions:
    """The options, and what becomes of them.

    :param environ: where the defaults of pod and node come from.
    :param find: glob pattern to paths.
    :param read: path to the file's text.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        find: Callable[[str], Sequence[str]] = find_files,
        read: Callable[[str], str] = read_text,
    ) -> None:
        self._environ = environ
        self._find = find
        self._read = read
        flags = FlagSet("fakedev-workload", "put a load on simulated devices until it ends, or this program does")
        self.flags = flags
        fields = WORKLOAD_FIELDS
        #: The options that are fields of a workload as they are.
        self._plain: dict[str, Flag[Any]] = {
            "name": flags.text("name", "Workload", fields["name"].help, "NAME"),
            "repeat": flags.unsigned("repeat", 1, fields["repeat"].help),
            "profile": flags.text("activity", "98:1:0", fields["profile"].help, fields["profile"].shown),
            "run-time-limit": flags.seconds("runtime-limit", 0.0, fields["run-time-limit"].help, "DURATION"),
        }
        for field in (fields["seconds-of"], fields["kind"], fields["service"]):
            self._plain[field.name] = flags.text(field.name, str(field.default), field.help, field.shown)
        self._intensity = flags.text("intensity", "", fields["intensity"].help, fields["intensity"].shown)
        for field in (fields["measured-frequency"], fields["measured-capability"]):
            self._plain[field.name] = flags.number(field.name, 0.0, field.help)
        self._devices = flags.text(
            "devices", "/dev/dri/card*", "files of the devices; their base names are the devices", "PATTERN"
        )
        self._devregex = flags.text(
            "devregex", "", "take index N of device cardN from the files that match; its first group is N", "REGEX"
        )
        self._devnames = flags.text("devnames", "", "devices, in place of matching files", "NAME,...")
        self._max_index = flags.integer(
            "max-index", 0, "replace INDEX in -devnames by $JOB_COMPLETION_INDEX modulo N; 0: do not"
        )
        self._socket = flags.address("socket", "/tmp/fakedev-exporter", "where the server listens", "PATH|[tls://]HOST:PORT")
        self._token_file = flags.token_file()
        self._tls_files = flags.tls_files()
        self._json = flags.text("json", "", "JSON file with name, repeat, profile; it wins over the options", "FILE")
        self._uses = flags.each(
            "use", f"{fields['metrics'].help}: memory=40GiB, fabric-tx=30%:0:60,60%:0:60",
            "METRIC=VALUE:FLUCTUATION:SECONDS,...", parse_use,
        )  # fmt: skip
        self._where = {
            name: flags.text(name, "", f"{fields[name].help} (default ${variable})", "NAME")
            for name, variable in _VARIABLES.items()
        }
        self._limits = flags.each("limit", fields["limits"].help, "METRIC=VALUE", parse_limit)

    def order(self, values: Values) -> Order:
        """The workload that was asked for, checked as the server checks it, and where to take it.

        :raises FlagError: when something cannot be used.
        """
        path = values[self._json]
        from_file, unknown = self._from_file(path)
        fields = self._from_options(values)
        for name in ("limits", "metrics"):
            given, said = fields[name], from_file.get(name)
            if isinstance(given, dict) and isinstance(said, dict):
                from_file[name] = {**given, **said}
        fields |= from_file
        try:
            if "devices" not in fields:
                fields["devices"] = self._device_names(values)
            workload = workload_from_fields(fields)
            message = run_message(workload)
        except FieldError as error:
            option = f"-{_OPTIONS.get(error.field, error.field)}"
            source = f"{path}: {error.field}" if error.field in from_file else option
            raise FlagError(f"{source}: {error.reason}") from None
        except ValueError as error:
            raise FlagError(str(error)) from None
        remarks = [f"{path}: {key!r} means nothing here" for key in unknown]
        if workload.node and "node" not in from_file and not values.given(self._where["node"]):
            remarks.append(f"Node {workload.node!r} is from {_VARIABLES['node']}; -node= for none")
        address = address_with_tls(values[self._socket], values, self._tls_files)
        return Order(address, workload, message, tuple(remarks), values[self._token_file])

    def _from_options(self, values: Values) -> dict[str, object]:
        fields: dict[str, object] = {name: values[flag] for name, flag in self._plain.items()}
        fields |= {"limits": dict(values[self._limits]), "metrics": _once(values[self._uses])}
        fields["intensity"] = values[self._intensity] or None
        for name, flag in self._where.items():
            fields[name] = values[flag] if values.given(flag) else self._environ.get(_VARIABLES[name], "")
        return fields

    def _from_file(self, path: str) -> tuple[dict[str, object], list[str]]:
        if not path:
            return {}, []
        try:
            return fields_from_json(self._read(path))
        except UnicodeDecodeError:
            raise FlagError(f"-json: {path} is not UTF-8 text") from None
        except OSError as error:
            raise FlagError(f"-json: cannot read {path}: {plain_reason(error)}") from None
        except ValueError as error:
            raise FlagError(f"-json: {path} {error}") from None

    def _device_names(self, values: Values) -> list[str]:
        if not values[self._devnames]:
            return matched_names(values[self._devices], values[self._devregex], self._find)
        if values[self._devregex]:
            raise ValueError("-devregex looks at the files of -devices; with -devnames there are none")
        return indexed_names(values[self._devnames], values[self._max_index], self._environ)
