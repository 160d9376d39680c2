"""fakedev-dcgm-exporter: a replacement of the images of dcgm-exporter and of dcgm-fake-gpu-exporter.

It takes the flags and variables of their manifests, needs no file, and listens on port 9400. With a variable of
dcgm-fake-gpu-exporter it shows the names of that program.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import NAMESPACE_DNS, uuid5

from fakedev import __version__
from fakedev.commands.console import write_text
from fakedev.commands.dropins.dcgm_flags import OF_THE_IMAGE, DcgmFlags
from fakedev.commands.go_flags import FlagError, FlagSet, Values, all_interfaces, parse_boolean
from fakedev.config.names import is_path

#: The name of the configuration's text in messages, and the path of the identity in it.
_OPTIONS: Final = "options"
_IDENTITY: Final = "/fakedev-dcgm-exporter/identity.yaml"
#: Variables of dcgm-fake-gpu-exporter: with one of them the program behaves as that one.
_FAKE: Final = (
    "NUM_FAKE_GPUS", "METRIC_PROFILE", "GPU_PROFILES", "METRIC_UPDATE_INTERVAL", "GPU_START_INDEX", "EXPORTER_PORT",
    "ENABLE_UDS", "UDS_SOCKET_PATH",
)  # fmt: skip
_MAX_GPUS: Final = 1024
#: The devices do not change more often.
_TICK_MILLISECONDS: Final = 1000
#: One day.
_MAX_MILLISECONDS: Final = 86_400_000
#: The metric profiles of dcgm-fake-gpu-exporter as workloads: the load over time, or a profile with faults by name.
PROFILES: Final[dict[str, dict[str, object]]] = {
    "static": {"profile": "50:0:0"},
    "stable": {"profile": "50:3:0"},
    # A spike is long enough for an alert that waits two minutes.
    "spike": {"profile": "spike(50,100,3m,10m):0:0"},
    "wave": {"profile": "sine(50,30,377s):1:0"},
    "degrading": {"profile": "degrading"},
    "faulty": {"profile": "faulty"},
    "chaos": {"profile": "chaos"},
}


def profiles_of(count: int, one: str, several: str) -> list[str]:
    """The profile of each GPU.

    :param one: METRIC_PROFILE: the profile of all GPUs, without ``several``.
    :param several: GPU_PROFILES: names with commas, repeated when there are fewer than GPUs.
    :raises ValueError: for an unknown name.
    """
    names = [name.strip() for name in several.split(",") if name.strip()] or [one]
    for name in names:
        if name not in PROFILES:
            raise ValueError(f"no profile {name!r}; there are {', '.join(PROFILES)}")
    return [names[index % len(names)] for index in range(count)]


def workloads(profiles: Sequence[str]) -> list[dict[str, object]]:
    """The workloads of the GPUs' profiles, in the form of the configuration."""
    return [
        {"name": f"{name}-{index}", "devices": f"*/{index}", **PROFILES[name]} for index, name in enumerate(profiles)
    ]


def _quirk(name: str, option: str, **changes: object) -> dict[str, object]:
    """A quirk that an option switches on, in the form of an identity's file."""
    return {"name": name, "issue": _OPTIONS, "doc": f"By {option}."} | {
        key.replace("_", "-"): value for key, value in changes.items()
    }


_PODS: Final = ("container", "namespace", "pod", "pod_uid")
#: The labels of the simulated pods of a GPU, as Kubernetes has them.
_POD_LABELS: Final = {"app.kubernetes.io/name": "train", "job-name": "train-{}"}
_QUIRKS: Final = [
    _quirk(
        "pod-uid", "--kubernetes-enable-pod-uid", without_labels=["pod_uid"],
        add_labels=[{"name": "pod_uid", "value": "{pod_uid}", "with": "pod"}],
    ),
    _quirk("no-pods", "the absence of -k", without_labels=_PODS),
    _quirk("no-hostname", "-n", without_labels=["Hostname", "hostname"]),
    _quirk(
        "old-namespace", "-o",
        rename_labels={"UUID": "uuid", "container": "container_name", "namespace": "pod_namespace", "pod": "pod_name"},
    ),
    _quirk("dashes", "-rbmn", labels=[{"name": "modelName", "value": "{product_name|dashed}"}]),
    _quirk(
        "numbers", "GPU_START_INDEX",
        labels=[{"name": "gpu", "value": "{gpu_number}"}, {"name": "device", "value": "nvidia{gpu_number}"}],
    ),
]  # fmt: skip


class DcgmOptions:
    """The flags and variables, and the configuration that they mean.

    :param environ: the environment variables.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        flags = self.flags = FlagSet("fakedev-dcgm-exporter", "shows simulated GPUs as dcgm-exporter does")
        self._flags = DcgmFlags(flags, environ)
        self._identity = flags.text("identity", "", "identity of the page (not in the original)", "NAME@VERSION")
        self._device = flags.text("device", "", "GPU to simulate (not in the original)", "TYPE")
        self.version = [flags.boolean(name, "print the version and exit") for name in ("v", "version")]

    @property
    def is_fake(self) -> bool:
        """Whether a variable of dcgm-fake-gpu-exporter is set."""
        return any(name in self._environ for name in _FAKE)

    def has_web_config(self, values: Values) -> bool:
        """Whether a web configuration file is given."""
        return bool(self._flags.value("web-config-file", values))

    def notes(self, values: Values) -> list[str]:
        """A line for each flag and variable that is given and not used."""
        return self._flags.notes(values)

    def texts(self, values: Values) -> tuple[str, str]:
        """The configuration and the identity, both as JSON, which is YAML.

        :raises FlagError: when a value cannot be used.
        """
        count = self._number("NUM_FAKE_GPUS", 4 if self.is_fake else 8, 1, _MAX_GPUS)
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
            "log": self._log(values),
        }
        web_config = self._flags.value("web-config-file", values)
        if web_config:
            tree["web-config"] = os.path.abspath(web_config)
        folder = self._flags.value("hpc-job-mapping-dir", values)
        if folder and not self.is_fake:
            interval = max(self._milliseconds("collect-interval", values, least=0), _TICK_MILLISECONDS)
            tree["hpc-jobs"] = {"folder": os.path.abspath(folder), "every": f"{interval}ms"}
        identity = self._fake_identity(values) if self.is_fake else self._dcgm_identity(values)
        return _text(tree), _text(identity)

    def _web(self, values: Values) -> list[dict[str, object]]:
        address = self._flags.value("address", values)
        if "EXPORTER_PORT" in self._environ and not self._flags.is_given("address", values):
            address = f":{self._number('EXPORTER_PORT', 9400, 1, 65535)}"
        web: list[dict[str, object]] = [
            {"listen": all_interfaces(address), "serve": "exporter"}
        ]
        if self._is_on("ENABLE_UDS"):
            path = self._environ.get("UDS_SOCKET_PATH") or "/var/run/dcgm/metrics.sock"
            web.append({"listen": os.path.abspath(path), "mode": "660", "serve": "exporter"})
        return web

    def _base(self, count: int) -> list[dict[str, object]]:
        if not self.is_fake:
            return [wave | _pod(index) for index, wave in enumerate(workloads(["wave"] * count))]
        one = self._environ.get("METRIC_PROFILE") or "static"
        try:
            return workloads(profiles_of(count, one, self._environ.get("GPU_PROFILES", "")))
        except ValueError as error:
            raise FlagError(f"METRIC_PROFILE or GPU_PROFILES: {error}") from None

    def _log(self, values: Values) -> dict[str, object]:
        return {
            "format": self._flags.value("log-format", values),
            "level": "debug" if self._flags.value("debug", values) else "info",
        }

    def _dcgm_identity(self, values: Values) -> dict[str, object]:
        interval = self._milliseconds("collect-interval", values, least=0)
        identity: dict[str, object] = {
            "name": "dcgm",
            "based-on": _named(values[self._identity]) or "dcgm",
            "hold": f"{interval}ms",
            "sample-every": f"{max(interval, _TICK_MILLISECONDS)}ms",
            "windows": {
                "xids": f"{self._milliseconds('xid-count-window-size', values)}ms",
                "clock-events": f"{self._milliseconds('clock-events-count-window-size', values)}ms",
            },
            "known-quirks": [*_QUIRKS, *self._pod_labels(values)],
        }
        asked = {
            "pod-uid": self._flags.value("kubernetes-enable-pod-uid", values),
            "pod-labels": self._flags.value("kubernetes-enable-pod-labels", values)
            and self._flags.value("kubernetes", values),
            "no-pods": not self._flags.value("kubernetes", values),
            "no-hostname": self._flags.value("no-hostname", values),
            "old-namespace": self._flags.value("use-old-namespace", values),
            "dashes": self._flags.value("replace-blanks-in-model-name", values),
        }
        identity["quirks"] = [name for name, is_asked in asked.items() if is_asked]
        if self._flags.value("kubernetes-virtual-gpus", values) or self._flags.value("hpc-job-mapping-dir", values):
            identity["shared-devices"] = "each"
        collectors = self._flags.value("collectors", values)
        if collectors not in OF_THE_IMAGE or os.path.exists(collectors):
            identity["counters"] = os.path.abspath(collectors)
        return identity

    def _pod_labels(self, values: Values) -> list[dict[str, object]]:
        """The quirk that shows labels of pods: all, or those in whose names one of the expressions is found."""
        allowed = self._flags.value("kubernetes-pod-label-allowlist-regex", values)
        try:
            expressions = [re.compile(each) for each in allowed.split(",") if each]
        except re.error as error:
            raise FlagError(f"--kubernetes-pod-label-allowlist-regex: {error}") from None
        shown = [name for name in _POD_LABELS if not expressions or any(each.search(name) for each in expressions)]
        labels = [
            {"name": name, "value": f"{{{name}}}", "optional": True, "leading": True}
            for name in sorted(map(sanitized, shown))
        ]
        return [_quirk("pod-labels", "--kubernetes-enable-pod-labels", add_labels=labels)]

    def _milliseconds(self, name: str, values: Values, least: int = 1) -> int:
        milliseconds: int = self._flags.value(name, values)
        if not least <= milliseconds <= _MAX_MILLISECONDS:
            raise FlagError(f"--{name}: {milliseconds} milliseconds is not within {least} to {_MAX_MILLISECONDS}")
        return milliseconds

    def _fake_identity(self, values: Values) -> dict[str, object]:
        return {
            "name": "dcgm-fake",
            "based-on": _named(values[self._identity]) or "dcgm-fake",
            "hold": f"{self._number('METRIC_UPDATE_INTERVAL', 30, 0, 86400)}s",
            "known-quirks": _QUIRKS,
            "quirks": ["numbers"],
        }

    def _is_on(self, variable: str) -> bool:
        try:
            return parse_boolean(self._environ.get(variable) or "false")
        except ValueError as error:
            raise FlagError(f"{variable}: {error}") from None

    def _number(self, variable: str, default: int, least: int, most: int) -> int:
        text = self._environ.get(variable) or str(default)
        if not text.isdecimal() or not least <= int(text) <= most:
            raise FlagError(f"{variable}: {text[:40]!r} is no whole number of {least} to {most}")
        return int(text)


def _pod(index: int) -> dict[str, object]:
    """The simulated pod of a GPU, in the form of the configuration; its labels have the names of pages."""
    name = f"train-{index}"
    labels = {sanitized(key): text.format(index) for key, text in _POD_LABELS.items()}
    uid = str(uuid5(NAMESPACE_DNS, f"{name}.ml"))
    return {"pod": name, "namespace": "ml", "container": "main", "labels": {"pod_uid": uid, **labels}}


def sanitized(label: str) -> str:
    """The name of a label of Kubernetes as the exporter shows it: what Prometheus does not allow becomes _."""
    return re.sub("[^a-zA-Z0-9_]", "_", label)


def _named(identity: str) -> str:
    """The name of an identity, or the absolute path of its file."""
    return os.path.abspath(identity) if is_path(identity) else identity


def _text(tree: object) -> str:
    """A tree as text, in which dollars are not expanded."""
    return json.dumps(tree, indent=1).replace("$", "$$")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the exporter until SIGTERM or SIGINT.

    :returns: 0 after a signal; 2 when a flag, variable or file cannot be used.
    """
    options = DcgmOptions(os.environ)
    with options.flags.usage_errors_exit():
        values = options.flags.parse(arguments)
        if any(values[flag] for flag in options.version):
            write_text(sys.stdout, f"fakedev-dcgm-exporter version {__version__} (simulated)\n")
            return 0
        text, identity = options.texts(values)
    # A usage error, -help and -version need none of these.
    from fakedev.config.load import load  # noqa: PLC0415
    from fakedev.config.schema.files import Files  # noqa: PLC0415
    from fakedev.config.schema.nodes import ConfigurationError  # noqa: PLC0415

    files = Files(environ=os.environ, made={_IDENTITY: identity})
    try:
        configuration = load(_OPTIONS, files, text=text)
        if options.has_web_config(values):
            from fakedev.app.web_config import read_web_configs, sources_of  # noqa: PLC0415 - few have one

            read_web_configs(sources_of(configuration))
    except ConfigurationError as error:
        for problem in error.problems:
            text = str(problem) if problem.file != _OPTIONS else re.sub("^listen:", "--address:", problem.text)
            print(f"fakedev-dcgm-exporter: {text}", file=sys.stderr)
        return 2
    for note in options.notes(values):
        print(f"fakedev-dcgm-exporter: {note}", file=sys.stderr)
    from fakedev.app.run import Run, record_head  # noqa: PLC0415
    from fakedev.app.service import run_program  # noqa: PLC0415

    head = record_head(configuration, files, config=_OPTIONS, text=text)
    run_program(configuration, Run(head, option_of={"web.0.listen": "--address"}))
    return 0
