"""The options of dcgm-exporter: long and short flags, and their environment variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fakedev.commands.go_flags import Flag, FlagError, FlagSet, Values, parse_boolean, parse_integer

#: The files of counters in the image: when they are missing, the identity's counters are shown.
OF_THE_IMAGE: Final = ("/etc/dcgm-exporter/default-counters.csv", "/etc/dcgm-exporter/dcp-metrics-included.csv")
_PREFIX: Final = "DCGM_EXPORTER_"
_UNUSED: Final = "accepted, and not used"
_FIVE_MINUTES: Final = 300_000


@dataclass(frozen=True)
class Option:
    """An option of the exporter.

    :param default: its type is that of the value: a text, a whole number, or a boolean.
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
    Option("address", ":9400", f"{_PREFIX}LISTEN", "where metrics are served", "a", "HOST:PORT"),
    Option("collectors", OF_THE_IMAGE[0], f"{_PREFIX}COLLECTORS", "which fields are shown", "f", "FILE"),
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


class DcgmFlags:
    """The values of the options, from flags and variables.

    :param environ: the environment variables.
    """

    def __init__(self, flags: FlagSet, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._options = {option.name: option for option in OPTIONS}
        self._flags = {option.name: _declared(flags, option) for option in OPTIONS}

    def value(self, name: str, values: Values) -> Any:
        """The value of an option, of the type of its default: from a flag, short or long; else from the variable."""
        for flag in self._flags[name]:
            if values.given(flag):
                return values[flag]
        option = self._options[name]
        text = self._environ.get(option.variable, "")
        try:
            return _parser(option)(text) if text else option.default
        except ValueError as error:
            raise FlagError(f"{option.variable}: {error}") from None

    def is_given(self, name: str, values: Values) -> bool:
        """Whether a flag of the option is given."""
        return any(values.given(flag) for flag in self._flags[name])

    def notes(self, values: Values) -> list[str]:
        """A line for each flag and variable that is given, and not used."""
        unused = [option for option in OPTIONS if not option.text]
        found = [f"--{option.name} is not used" for option in unused if self.is_given(option.name, values)]
        used = {option.variable for option in OPTIONS if option.text}
        of_others = {option.variable for option in unused}
        names = {name for name in self._environ if name.startswith(_PREFIX) or name in of_others} - used
        return found + [f"{name} is not used" for name in sorted(names)]


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
