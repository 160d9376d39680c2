"""fakedev-dcgm-exporter: a replacement of the images of dcgm-exporter and of dcgm-fake-gpu-exporter.

It takes the flags and variables of their manifests, needs no file, and listens on port 9400. With a variable of
dcgm-fake-gpu-exporter it shows the names of that program. The options of dcgm-exporter are long and short flags, and
environment variables.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import NAMESPACE_DNS, uuid5

from fakedev import __version__
from fakedev.base import environment
from fakedev.base.console import write_text
from fakedev.base.names import is_path, without_variables
from fakedev.commands.dropins.addresses import DCGM_ADDRESS, DCGM_SOCKET
from fakedev.commands.dropins.container import FAKE_VARIABLES
from fakedev.fleet.spec.workload_fields import label_fact
from fakedev.schema.go_flags import Flag, FlagError, FlagSet, Values, all_interfaces, parse_boolean, parse_integer

#: The files of counters in the image: when they are missing, the identity's counters are shown.
IMAGE_COUNTERS: Final = ("/etc/dcgm-exporter/default-counters.csv", "/etc/dcgm-exporter/dcp-metrics-included.csv")
_PREFIX: Final = "DCGM_EXPORTER_"
_UNUSED: Final = "accepted, and not used"
_FIVE_MINUTES: Final = 300_000


@dataclass(frozen=True)
class Option:
    """An option of the exporter.

    :param default: of the value's type: a text, a whole number, or a boolean.
    :param variable: its environment variable; empty for none.
    :param text: what it does here; empty: it is not used.
    """

    name: str
    default: str | int | bool
    variable: str
    text: str = ""
    short: str = ""
    kind: str = "TEXT"


OPTIONS: Final = (
    Option("address", DCGM_ADDRESS, f"{_PREFIX}LISTEN", "where metrics are served", "a", "HOST:PORT"),
    Option("collectors", IMAGE_COUNTERS[0], f"{_PREFIX}COLLECTORS", "which fields are shown", "f", "FILE"),
    Option("collect-interval", 30000, f"{_PREFIX}INTERVAL", "milliseconds for which the numbers stay as they are", "c"),
    Option("kubernetes", False, f"{_PREFIX}KUBERNETES", "show the pods of GPUs", "k"),
    Option("kubernetes-virtual-gpus", False, "KUBERNETES_VIRTUAL_GPUS", "rows for each pod of a GPU that several have"),
    Option("no-hostname", False, f"{_PREFIX}NO_HOSTNAME", "show no host", "n"),
    Option("use-old-namespace", False, f"{_PREFIX}USE_OLD_NAMESPACE", "labels as 1.x named them", "o"),
    Option(
        "replace-blanks-in-model-name", False, f"{_PREFIX}REPLACE_BLANKS_IN_MODEL_NAME", "dashes in names of models",
        "rbmn",
    ),
    Option(
        "xid-count-window-size", _FIVE_MINUTES, f"{_PREFIX}XID_COUNT_WINDOW_SIZE",
        "milliseconds over which DCGM_EXP_XID_ERRORS_COUNT counts", "x",
    ),
    Option(
        "clock-events-count-window-size", _FIVE_MINUTES, f"{_PREFIX}CLOCK_EVENTS_COUNT_WINDOW_SIZE",
        "milliseconds over which DCGM_EXP_CLOCK_EVENTS_COUNT counts",
    ),
    Option("kubernetes-enable-pod-uid", False, f"{_PREFIX}KUBERNETES_ENABLE_POD_UID", "show the uids of pods"),
    Option("kubernetes-enable-pod-labels", False, f"{_PREFIX}KUBERNETES_ENABLE_POD_LABELS", "show the labels of pods"),
    Option(
        "kubernetes-pod-label-allowlist-regex", "", f"{_PREFIX}KUBERNETES_POD_LABEL_ALLOWLIST_REGEX",
        "which labels of pods are shown: expressions with commas", kind="REGEX,...",
    ),
    Option(
        "hpc-job-mapping-dir", "", "DCGM_HPC_JOB_MAPPING_DIR",
        "folder with a file for each GPU, named by its index, with a job on each line", kind="FOLDER",
    ),
    Option("log-format", "text", f"{_PREFIX}LOG_FORMAT", "text or json"),
    Option("debug", False, f"{_PREFIX}DEBUG", "log more"),
    Option("configmap-data", "none", f"{_PREFIX}CONFIGMAP_DATA", short="m"),
    Option("config-file", "", f"{_PREFIX}CONFIG_FILE"),
    Option("container-labels", False, f"{_PREFIX}CONTAINER_LABELS"),
    Option("container-runtime-socket", "", "DCGM_CONTAINER_RUNTIME_SOCKET"),
    Option("cpu-devices", "f", f"{_PREFIX}CPU_DEVICES_STR", short="p"),
    Option("dcgm-log-level", "NONE", f"{_PREFIX}DCGM_LOG_LEVEL"),
    Option("devices", "f", f"{_PREFIX}DEVICES_STR", short="d"),
    Option("disable-startup-validate", False, f"{_PREFIX}DISABLE_STARTUP_VALIDATE"),
    Option("dump-compression", True, f"{_PREFIX}DUMP_COMPRESSION"),
    Option("dump-directory", "/tmp/dcgm-exporter-debug", f"{_PREFIX}DUMP_DIRECTORY"),
    Option("dump-enabled", False, f"{_PREFIX}DUMP_ENABLED"),
    Option("dump-retention", 24, f"{_PREFIX}DUMP_RETENTION"),
    Option("enable-dcgm-log", False, f"{_PREFIX}ENABLE_DCGM_LOG"),
    Option("enable-gpu-bind-unbind-watch", False, f"{_PREFIX}ENABLE_GPU_BIND_UNBIND_WATCH"),
    Option("enable-pprof", False, f"{_PREFIX}ENABLE_PPROF"),
    Option("fake-gpus", False, f"{_PREFIX}USE_FAKE_GPUS"),
    Option("gpu-bind-unbind-poll-interval", "", f"{_PREFIX}GPU_BIND_UNBIND_POLL_INTERVAL"),
    Option("kubernetes-enable-dra", False, "KUBERNETES_ENABLE_DRA"),
    Option("kubernetes-gpu-id-type", "uid", f"{_PREFIX}KUBERNETES_GPU_ID_TYPE"),
    Option("nvidia-resource-names", "", "NVIDIA_RESOURCE_NAMES"),
    Option("pod-resources-kubelet-socket", "/var/lib/kubelet/pod-resources/kubelet.sock",
           "DCGM_POD_RESOURCES_KUBELET_SOCKET"),
    Option("remote-hostengine-info", "localhost:5555", "DCGM_REMOTE_HOSTENGINE_INFO", short="r"),
    Option("switch-devices", "f", f"{_PREFIX}OTHER_DEVICES_STR", short="s"),
    Option("web-config-file", "", f"{_PREFIX}WEB_CONFIG_FILE", "TLS and passwords, as in the original", kind="FILE"),
    Option("web-read-timeout", "10s", f"{_PREFIX}WEB_READ_TIMEOUT"),
    Option("web-systemd-socket", False, f"{_PREFIX}WEB_SYSTEMD_SOCKET"),
    Option("web-write-timeout", "10s", f"{_PREFIX}WEB_WRITE_TIMEOUT"),
)  # fmt: skip


def _declared(flags: FlagSet, option: Option) -> tuple[Flag[str | int | bool], ...]:
    """The long flag of an option, and the short one."""
    kind = "" if isinstance(option.default, bool) else "N" if isinstance(option.default, int) else option.kind
    names = [option.name, *filter(None, [option.short])]
    texts = [option.text or _UNUSED, f"the same as --{option.name}"]
    default: str | int | bool = option.default
    return tuple(
        flags.value(name, default, text, kind, _parser(option)) for name, text in zip(names, texts, strict=False)
    )


def _parser(option: Option) -> Callable[[str], str | int | bool]:
    if isinstance(option.default, bool):
        return parse_boolean
    return parse_integer if isinstance(option.default, int) else str


#: The name of the configuration's text in messages, and the path of the identity in it.
_OPTIONS: Final = "options"
_IDENTITY: Final = "/fakedev-dcgm-exporter/identity.yaml"
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
    names = [name.strip().lower() for name in several.split(",") if name.strip()] or [one.lower()]
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
        self._flags = {option.name: (option, _declared(flags, option)) for option in OPTIONS}
        self._identity = flags.text("identity", "", "identity of the page (not in the original)", "NAME@VERSION")
        self._device = flags.text("device", "", "GPU to simulate (not in the original)", "TYPE")
        self.version = [flags.boolean(name, "print the version and exit") for name in ("v", "version")]

    @property
    def is_fake(self) -> bool:
        """Whether a variable of dcgm-fake-gpu-exporter is set."""
        return not self._environ.keys().isdisjoint(FAKE_VARIABLES)

    def value(self, name: str, values: Values) -> Any:
        """The value of an option, of the type of its default: from a flag, short or long; else from the variable."""
        option, flags = self._flags[name]
        for flag in flags:
            if values.given(flag):
                return values[flag]
        text = self._environ.get(option.variable, "")
        try:
            return _parser(option)(text) if text else option.default
        except ValueError as error:
            raise FlagError(f"{option.variable}: {error}") from None

    def notes(self, values: Values) -> list[str]:
        """A line for each flag and variable that is given, and not used."""
        unused = [option for option in OPTIONS if not option.text]
        found = [f"--{option.name} is not used" for option in unused if self._is_given(option.name, values)]
        used = {option.variable for option in OPTIONS if option.text}
        of_others = {option.variable for option in unused}
        names = {name for name in self._environ if name.startswith(_PREFIX) or name in of_others} - used
        return found + [f"{name} is not used" for name in sorted(names)]

    def _is_given(self, name: str, values: Values) -> bool:
        return any(values.given(flag) for flag in self._flags[name][1])

    def texts(self, values: Values) -> tuple[str, str]:
        """The configuration and the identity, both as JSON, which is YAML.

        :raises FlagError: when a value cannot be used.
        """
        count = self._number("NUM_FAKE_GPUS", 4 if self.is_fake else 8, 1, _MAX_GPUS)
        first = self._number("GPU_START_INDEX", 1, 0, 10**6)
        pool: dict[str, object] = {
            "name": "gpus",
            "nodes": [self._environ.get("NODE_NAME") or os.uname().nodename],
            "device": values[self._device]
            or self._environ.get("FAKEDEV_DEVICE")
            or ("v100" if self.is_fake else "h100"),
            "devices-per-node": count,
            "identity": _IDENTITY,
        }
        if self.is_fake:
            pool["devices"] = [
                {"index": index, "labels": {"gpu_number": str(first + index)}} for index in range(count)
            ]
        tree = {
            "version": 1,
            # The original has no sensors, and rules of its users look for its highest values.
            "fleet": {"pools": [pool], "exact-sensors": self.is_fake},
            "web": self._web(values),
            "workloads": {"listen": [], "base": self._base(count)},
            "log": self._log(values),
        }
        web_config = self.value("web-config-file", values)
        if web_config:
            tree["web-config"] = os.path.abspath(web_config)
        if nvml := self._environ.get(environment.NVML_FILE):
            tree["nvml"] = {"file": os.path.abspath(nvml)}
        folder = self.value("hpc-job-mapping-dir", values)
        if folder and not self.is_fake:
            interval = max(self._milliseconds("collect-interval", values, least=0), _TICK_MILLISECONDS)
            tree["hpc-jobs"] = {"folder": os.path.abspath(folder), "every": f"{interval}ms"}
        identity = self._fake_identity(values) if self.is_fake else self._dcgm_identity(values)
        return without_variables(json.dumps(tree, indent=1)), without_variables(json.dumps(identity, indent=1))

    def _web(self, values: Values) -> list[dict[str, object]]:
        address = self.value("address", values)
        if "EXPORTER_PORT" in self._environ and not self._is_given("address", values):
            address = f":{self._number('EXPORTER_PORT', 9400, 1, 65535)}"
        web: list[dict[str, object]] = [
            {"listen": all_interfaces(address), "serve": "exporter"}
        ]
        if self._is_on("ENABLE_UDS"):
            path = self._environ.get("UDS_SOCKET_PATH") or DCGM_SOCKET
            web.append({"listen": os.path.abspath(path), "mode": "666", "serve": "exporter"})
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
            "format": self.value("log-format", values),
            "level": "debug" if self.value("debug", values) else "info",
        }

    def _dcgm_identity(self, values: Values) -> dict[str, object]:
        interval = self._milliseconds("collect-interval", values, least=0)
        identity: dict[str, object] = {
            "name": "dcgm",
            "based-on": self._named_identity(values) or "dcgm",
            "hold": f"{interval}ms",
            "sample-every": f"{max(interval, _TICK_MILLISECONDS)}ms",
            "windows": {
                "xids": f"{self._milliseconds('xid-count-window-size', values)}ms",
                "clock-events": f"{self._milliseconds('clock-events-count-window-size', values)}ms",
            },
            "known-quirks": [*_QUIRKS, *self._pod_labels(values)],
        }
        asked = {
            "pod-uid": self.value("kubernetes-enable-pod-uid", values),
            "pod-labels": self.value("kubernetes-enable-pod-labels", values)
            and self.value("kubernetes", values),
            "no-pods": not self.value("kubernetes", values),
            "no-hostname": self.value("no-hostname", values),
            "old-namespace": self.value("use-old-namespace", values),
            "dashes": self.value("replace-blanks-in-model-name", values),
        }
        identity["quirks"] = [name for name, is_asked in asked.items() if is_asked]
        if self.value("kubernetes-virtual-gpus", values) or self.value("hpc-job-mapping-dir", values):
            identity["shared-devices"] = "each"
        collectors = self.value("collectors", values)
        if collectors not in IMAGE_COUNTERS or os.path.exists(collectors):
            identity["counters"] = os.path.abspath(collectors)
        return identity

    def _pod_labels(self, values: Values) -> list[dict[str, object]]:
        """The quirk that shows labels of pods: all, or those in whose names one of the expressions is found."""
        allowed = self.value("kubernetes-pod-label-allowlist-regex", values)
        try:
            expressions = [re.compile(part) for part in allowed.split(",") if part]
        except re.error as error:
            raise FlagError(f"--kubernetes-pod-label-allowlist-regex: {error}") from None
        shown = [name for name in _POD_LABELS if not expressions or any(each.search(name) for each in expressions)]
        labels = [
            {"name": name, "value": f"{{{name}}}", "optional": True, "leading": True}
            for name in sorted(map(label_fact, shown))
        ]
        return [_quirk("pod-labels", "--kubernetes-enable-pod-labels", add_labels=labels)]

    def _milliseconds(self, name: str, values: Values, least: int = 1) -> int:
        milliseconds: int = self.value(name, values)
        if not least <= milliseconds <= _MAX_MILLISECONDS:
            raise FlagError(f"--{name}: {milliseconds} milliseconds is not within {least} to {_MAX_MILLISECONDS}")
        return milliseconds

    def _fake_identity(self, values: Values) -> dict[str, object]:
        return {
            "name": "dcgm-fake",
            "based-on": self._named_identity(values) or "dcgm-fake",
            "hold": f"{self._number('METRIC_UPDATE_INTERVAL', 30, 0, 86400)}s",
            "known-quirks": _QUIRKS,
            "quirks": ["numbers"],
        }

    def _named_identity(self, values: Values) -> str:
        """The name of the identity, or the absolute path of its file; empty for the default."""
        identity = values[self._identity] or self._environ.get("FAKEDEV_IDENTITY", "")
        return os.path.abspath(identity) if is_path(identity) else identity

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
    labels = {label_fact(key): text.format(index) for key, text in _POD_LABELS.items()}
    uid = str(uuid5(NAMESPACE_DNS, f"{name}.ml"))
    return {"pod": name, "namespace": "ml", "container": "main", "labels": {"pod_uid": uid, **labels}}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the exporter until SIGTERM or SIGINT.

    :returns: 0 after a signal; 2 when a flag, variable or file cannot be used.
    """
    # By this name the image starts the program that its variables configure, as the image of dcgm-fake-gpu-exporter.
    is_fake = os.path.basename(sys.argv[0]) == "docker-entrypoint.sh"
    options = DcgmOptions({"METRIC_PROFILE": "static", **os.environ} if is_fake else os.environ)
    with options.flags.usage_errors_exit():
        values = options.flags.parse(arguments)
        if any(values[flag] for flag in options.version):
            write_text(sys.stdout, f"fakedev-dcgm-exporter version {__version__} (simulated)\n")
            return 0
        text, identity = options.texts(values)
    # A usage error, -help and -version need none of these.
    from fakedev.config.load import load  # noqa: PLC0415
    from fakedev.schema.files import Files  # noqa: PLC0415
    from fakedev.schema.places import ConfigurationError  # noqa: PLC0415

    files = Files(environ=os.environ, made={_IDENTITY: identity})
    try:
        configuration = load(_OPTIONS, files, text=text)
        if options.value("web-config-file", values):
            from fakedev.web.web_configs import read_web_configs  # noqa: PLC0415

            read_web_configs(configuration.web_config_sources())
    except ConfigurationError as error:
        for problem in error.problems:
            # The user has no file of what the options mean.
            is_ours = problem.file in (_OPTIONS, _IDENTITY)
            text = re.sub("^listen:", "--address:", problem.text) if is_ours else str(problem)
            write_text(sys.stderr, f"fakedev-dcgm-exporter: {text}\n")
        return 2
    for note in options.notes(values):
        write_text(sys.stderr, f"fakedev-dcgm-exporter: {note}\n")
    from fakedev.config.start import record_head  # noqa: PLC0415
    from fakedev.service.program_run import Run  # noqa: PLC0415
    from fakedev.service.service import run_program  # noqa: PLC0415

    head = record_head(configuration, files, config=_OPTIONS, text=text)
    option_of = {"web.0.listen": "--address", "web.1.listen": "UDS_SOCKET_PATH"}
    run_program(configuration, Run(head, option_of=option_of, program="dcgm-exporter"))
    return 0
