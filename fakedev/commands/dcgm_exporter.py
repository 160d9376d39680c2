"""fakedev-dcgm-exporter: stands in for the images of dcgm-exporter and of dcgm-fake-gpu-exporter.

It takes the flags and variables that their manifests have, needs no file, and listens on port 9400. A variable of
dcgm-fake-gpu-exporter makes it show the names of that program.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from fakedev.commands.dcgm_profiles import profiles_of, workloads
from fakedev.commands.go_flags import Flag, FlagSet, Values
from fakedev.commands.go_values import parse_boolean, parse_integer
from fakedev.config.files import Files
from fakedev.config.load import load
from fakedev.config.problems import ConfigurationError

T = TypeVar("T")

#: How the configuration calls the text that the options stand for, and where the identity in it is.
_OPTIONS: Final = "options"
_IDENTITY: Final = "/fakedev-dcgm-exporter/identity.yaml"
#: The files of the image: without them its own counters are shown.
_OF_THE_IMAGE: Final = ("/etc/dcgm-exporter/default-counters.csv", "/etc/dcgm-exporter/dcp-metrics-included.csv")
_PREFIX: Final = "DCGM_EXPORTER_"
_KNOWN: Final = {f"{_PREFIX}{name}" for name in ("LISTEN", "COLLECTORS", "INTERVAL", "KUBERNETES")}
#: Variables of dcgm-fake-gpu-exporter: one of them, and it is that program that is meant.
_FAKE: Final = (
    "NUM_FAKE_GPUS", "METRIC_PROFILE", "GPU_PROFILES", "METRIC_UPDATE_INTERVAL", "GPU_START_INDEX", "EXPORTER_PORT",
    "ENABLE_UDS", "UDS_SOCKET_PATH",
)  # fmt: skip
_MOST_GPUS: Final = 1024


class UsageProblem(Exception):
    """A flag or variable cannot be used; the text says why."""


class DcgmOptions:
    """The flags and variables, and the configuration that they stand for.

    :param environ: the environment variables.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        flags = self.flags = FlagSet("fakedev-dcgm-exporter", "looks like dcgm-exporter, of simulated GPUs")
        self._address = self._pair("a", "address", ":9400", "where metrics are served", "HOST:PORT")
        self._collectors = self._pair("f", "collectors", _OF_THE_IMAGE[0], "which fields are shown", "FILE")
        self._interval = (
            flags.integer("c", 30000, "milliseconds for which the numbers stay as they are"),
            flags.integer("collect-interval", 30000, "the same"),
        )
        self._kubernetes = (flags.boolean("k", "show the pods of GPUs"), flags.boolean("kubernetes", "the same"))
        self._no_hostname = (flags.boolean("n", "show no host"), flags.boolean("no-hostname", "the same"))
        self._identity = flags.text("identity", "", "version to look like (not in the original)", "NAME@VERSION")
        self._device = flags.text("device", "", "GPU to simulate (not in the original)", "TYPE")

    def _pair(self, short: str, long: str, default: str, text: str, kind: str) -> tuple[Flag[str], Flag[str]]:
        return self.flags.text(short, default, text, kind), self.flags.text(long, default, "the same", kind)

    @property
    def is_fake(self) -> bool:
        """Whether a variable of dcgm-fake-gpu-exporter is set."""
        return any(name in self._environ for name in _FAKE)

    def notes(self) -> list[str]:
        """Variables that are set and not used."""
        names = sorted(name for name in self._environ if name.startswith(_PREFIX) and name not in _KNOWN)
        return [f"{name} is not used" for name in names]

    def texts(self, values: Values) -> tuple[str, str]:
        """The configuration and the identity that are meant, both YAML (for they are JSON).

        :raises UsageProblem: when a value cannot be used.
        """
        count = self._number("NUM_FAKE_GPUS", 4 if self.is_fake else 8, 1, _MOST_GPUS)
        first = self._number("GPU_START_INDEX", 1, 0, 10**6)
        pool: dict[str, object] = {
            "name": "gpus",
            "nodes": [self._environ.get("NODE_NAME") or os.uname().nodename],
            "device": values[self._device] or ("v100" if self.is_fake else "h100"),
            "devices-per-node": count,
            "identity": _IDENTITY,
        }
        if self.is_fake:
            pool["devices"] = [
                {"index": index, "labels": {"gpu_number": str(first + index)}} for index in range(count)
            ]
        tree = {
            "version": 1,
            "fleet": {"pools": [pool]},
            "web": self._web(values),
            "workloads": {"listen": [], "base": self._base(count)},
        }
        identity = self._fake_identity(values) if self.is_fake else self._dcgm_identity(values)
        return _text(tree), _text(identity)

    def _web(self, values: Values) -> list[dict[str, object]]:
        address = self._said(values, self._address, f"{_PREFIX}LISTEN", str)
        if "EXPORTER_PORT" in self._environ and not any(values.given(flag) for flag in self._address):
            address = f":{self._number('EXPORTER_PORT', 9400, 1, 65535)}"
        web: list[dict[str, object]] = [
            {"listen": f"*{address}" if address.startswith(":") else address, "serve": "exporter"}
        ]
        if self._variable("ENABLE_UDS", False, parse_boolean):
            path = self._environ.get("UDS_SOCKET_PATH") or "/var/run/dcgm/metrics.sock"
            web.append({"listen": os.path.abspath(path), "mode": "660", "serve": "exporter"})
        return web

    def _base(self, count: int) -> list[dict[str, object]]:
        if not self.is_fake:
            pods = [{"pod": f"train-{index}", "namespace": "ml", "container": "main"} for index in range(count)]
            return [wave | pod for wave, pod in zip(workloads(["wave"] * count), pods, strict=True)]
        one = self._environ.get("METRIC_PROFILE") or "static"
        try:
            return workloads(profiles_of(count, one, self._environ.get("GPU_PROFILES", "")))
        except ValueError as error:
            raise UsageProblem(f"METRIC_PROFILE or GPU_PROFILES: {error}") from None

    def _dcgm_identity(self, values: Values) -> dict[str, object]:
        interval = self._said(values, self._interval, f"{_PREFIX}INTERVAL", parse_integer)
        if interval < 0:
            raise UsageProblem(f"an interval of {interval} milliseconds is none")
        identity: dict[str, object] = {
            "name": "dcgm",
            "based-on": values[self._identity] or "dcgm",
            "hold": f"{interval}ms",
            "known-quirks": [
                {"name": "no-pods", "issue": _OPTIONS, "doc": "-k is off.",
                 "without-labels": ["container", "namespace", "pod"]},
                {"name": "no-hostname", "issue": _OPTIONS, "doc": "-n is on.",
                 "without-labels": ["Hostname", "hostname"]},
            ],
        }  # fmt: skip
        quirks = [] if self._said(values, self._kubernetes, f"{_PREFIX}KUBERNETES", parse_boolean) else ["no-pods"]
        if any(values[flag] for flag in self._no_hostname):
            quirks.append("no-hostname")
        identity["quirks"] = quirks
        collectors = self._said(values, self._collectors, f"{_PREFIX}COLLECTORS", str)
        if collectors not in _OF_THE_IMAGE or os.path.exists(collectors):
            identity["counters"] = os.path.abspath(collectors)
        return identity

    def _fake_identity(self, values: Values) -> dict[str, object]:
        return {
            "name": "dcgm-fake",
            "based-on": values[self._identity] or "dcgm-fake",
            "hold": f"{self._number('METRIC_UPDATE_INTERVAL', 30, 0, 86400)}s",
            "labels": [{"name": "gpu", "value": "{gpu_number}"}, {"name": "device", "value": "nvidia{gpu_number}"}],
        }

    def _said(self, values: Values, flags: tuple[Flag[T], Flag[T]], variable: str, parse: Callable[[str], T]) -> T:
        """What a flag says, by its short name or its long one; else a variable; else the default."""
        for flag in flags:
            if values.given(flag):
                return values[flag]
        return self._variable(variable, flags[0].default, parse)

    def _variable(self, variable: str, default: T, parse: Callable[[str], T]) -> T:
        text = self._environ.get(variable, "")
        try:
            return parse(text) if text else default
        except ValueError as error:
            raise UsageProblem(f"{variable}: {error}") from None

    def _number(self, variable: str, default: int, least: int, most: int) -> int:
        text = self._environ.get(variable) or str(default)
        if not text.isdecimal() or not least <= int(text) <= most:
            raise UsageProblem(f"{variable}: {text[:40]!r} is no whole number of {least} to {most}")
        return int(text)


def _text(tree: object) -> str:
    """A tree as text; a dollar in a path is a dollar: options are not expanded."""
    return json.dumps(tree, indent=1).replace("$", "$$")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the exporter until SIGTERM or SIGINT.

    :returns: 0 after such an end; 2 when a flag, variable or file cannot be used.
    """
    options = DcgmOptions(os.environ)
    values = options.flags.parse_or_exit(sys.argv[1:] if arguments is None else arguments)
    try:
        text, identity = options.texts(values)
    except UsageProblem as problem:
        options.flags.refuse(str(problem))
    files = Files(environ=os.environ, made={_IDENTITY: identity})
    try:
        configuration = load(_OPTIONS, files, text=text)
    except ConfigurationError as error:
        for problem_of_file in error.problems:
            print(f"fakedev-dcgm-exporter: {problem_of_file}", file=sys.stderr)
        return 2
    for note in options.notes():
        print(f"fakedev-dcgm-exporter: {note}", file=sys.stderr)
    from fakedev.tap import run_program  # noqa: PLC0415 - a usage error need not wait for Twisted
    from fakedev.tap_options import Run, record_head  # noqa: PLC0415

    run_program(configuration, Run(record_head(configuration, files, config=_OPTIONS, text=text)))
    return 0
