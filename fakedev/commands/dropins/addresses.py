"""The addresses that the command line of a drop-in names, so that it can listen before it loads its modules.

Imports nothing that takes time, and reports no error: the program itself does. Each function returns addresses of TCP,
and absolute paths of UNIX sockets with their mode.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: The defaults of options.
EXPORTER_ADDRESS = ":9999"
EXPORTER_SOCKET = "/tmp/fakedev-exporter"
CLIENTS_ADDRESS = "localhost:9997"
METRICS_ADDRESS = "localhost:9998"
BACKENDS_ADDRESS = "localhost:9999"
CONTROL_ADDRESS = "localhost:9996"
DCGM_ADDRESS = ":9400"
DCGM_SOCKET = "/var/run/dcgm/metrics.sock"
#: The words for true, as Go has them.
TRUE = ("1", "t", "T", "true", "TRUE", "True")
#: The options with which a program prints a text and ends.
QUESTIONS = frozenset(("-h", "--h", "-help", "--help", "-v", "--v", "-version", "--version"))
#: The options of the drop-ins that take no value; then the same of dcgm-exporter.
SWITCHES = (
    "h", "help", "verbose", "since-scrape", "headless", "ignore", "null-in", "null-out", "once", "v", "version",
    "k", "kubernetes", "kubernetes-virtual-gpus", "n", "no-hostname", "o", "use-old-namespace", "rbmn",
    "replace-blanks-in-model-name", "kubernetes-enable-pod-uid", "kubernetes-enable-pod-labels", "debug",
    "container-labels", "disable-startup-validate", "dump-compression", "dump-enabled", "enable-dcgm-log",
    "enable-gpu-bind-unbind-watch", "enable-pprof", "fake-gpus", "kubernetes-enable-dra", "web-systemd-socket",
)  # fmt: skip


def option_values(arguments: Sequence[str]) -> dict[str, str]:
    """The last value of each option, by the rules of Go (``fakedev/schema/go_flags.py``)."""
    values = {}
    rest = list(arguments)
    while rest and len(rest[0]) > 1 and rest[0].startswith("-") and rest[0] != "--":
        name, equals, value = rest.pop(0).removeprefix("-").removeprefix("-").partition("=")
        if not equals:
            value = "true" if name in SWITCHES or not rest else rest.pop(0)
        values[name] = value
    return values


def exporter(arguments: Sequence[str], environ: Mapping[str, str]) -> list[tuple[str, int]]:
    """fakedev-exporter: its metrics and its workload port."""
    values = option_values(arguments)
    path = os.path.abspath(values.get("socket", EXPORTER_SOCKET))
    return [(values.get("address", EXPORTER_ADDRESS), 0), (path, 0o600)]


def dcgm_exporter(arguments: Sequence[str], environ: Mapping[str, str]) -> list[tuple[str, int]]:
    """fakedev-dcgm-exporter, also with the variables of dcgm-fake-gpu-exporter."""
    values = option_values(arguments)
    address = values.get("address", values.get("a"))
    if address is None:
        port = environ.get("EXPORTER_PORT")
        address = environ.get("DCGM_EXPORTER_LISTEN") or DCGM_ADDRESS if port is None else f":{port or 9400}"
    path = os.path.abspath(environ.get("UDS_SOCKET_PATH") or DCGM_SOCKET)
    is_asked = environ.get("ENABLE_UDS", "") in TRUE
    return [(address, 0)] + [(path, 0o666)] * is_asked


def frontend(arguments: Sequence[str], environ: Mapping[str, str]) -> list[tuple[str, int]]:
    """fakedev-frontend: metrics, clients, backends."""
    defaults = {"maddr": METRICS_ADDRESS, "caddr": CLIENTS_ADDRESS, "waddr": BACKENDS_ADDRESS}
    values = defaults | option_values(arguments)
    return [(values[name], 0) for name in defaults]


def client(arguments: Sequence[str], environ: Mapping[str, str]) -> list[tuple[str, int]]:
    """fakedev-client: control, unless there is none."""
    values = option_values(arguments)
    return [] if values.get("headless", "false") in TRUE else [(values.get("caddr", CONTROL_ADDRESS), 0)]


#: By the module of a drop-in that listens.
ADDRESSES: Mapping[str, Callable[[Sequence[str], Mapping[str, str]], list[tuple[str, int]]]] = {
    "exporter": exporter, "dcgm_exporter": dcgm_exporter, "frontend": frontend, "client": client,
}  # fmt: skip


def addresses_of(module: str, arguments: Sequence[str], environ: Mapping[str, str]) -> list[tuple[str, int]]:
    """The addresses of a drop-in; none for one that only prints its help or version.

    :param module: of the drop-in, in this folder.
    """
    if module not in ADDRESSES or not QUESTIONS.isdisjoint(arguments):
        return []
    return ADDRESSES[module](arguments, environ)
