"""The options of fakedev-node."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fakedev import __version__
from fakedev.fleet.spec.offers import Resources
from fakedev.schema.files import read_token
from fakedev.schema.peer_addresses import TLS_OPTIONS, TLS_SCHEME, Address, ClientTls, parse_address, with_tls

#: The root of a kubelet's folders, unless it has the option --root-dir, and the folder that stays there even then
#: (kubernetes/kubernetes, staging/src/k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/constants.go).
KUBELET_ROOT: Final = "/var/lib/kubelet"
KUBELET_FOLDER: Final = f"{KUBELET_ROOT}/device-plugins"
#: Where container runtimes look (SPEC.md of the Container Device Interface).
CDI_FOLDER: Final = "/var/run/cdi"
_LEVELS: Final = ("debug", "info", "warn", "error")


@dataclass(frozen=True)
class Settings:
    """The options of the program.

    :param service: a host and a port, with TLS or without.
    :param token_file: empty: the port needs no token.
    :param kubelet_folder: of the sockets of device plugins.
    :param kubelet_root: the folder with plugins and plugins_registry.
    :param pod_resources: the kubelet's socket.
    :param nvml_folder: of the node, for what containers get of NVML; empty: they get nothing of it.
    :param cdi_folder: where the container runtime finds what it gives to containers with claims.
    """

    node: str
    service: Address
    token_file: str
    kubelet_folder: str
    pod_resources: str
    resources: Resources
    log_level: str
    kubelet_root: str = KUBELET_ROOT
    nvml_folder: str = ""
    cdi_folder: str = CDI_FOLDER

    @property
    def has_device_plugin(self) -> bool:
        return self.resources is not Resources.DRA

    @property
    def has_dra(self) -> bool:
        return self.resources is not Resources.DEVICE_PLUGIN

    def read_token(self) -> str:
        """The token, as the file has it now; empty without a file.

        :raises ValueError: when the file cannot be used.
        """
        try:
            return read_token(self.token_file) if self.token_file else ""
        except ValueError as error:
            raise ValueError(f"no token from {error}") from None


def parse(arguments: Sequence[str] | None, environment: Mapping[str, str]) -> Settings:
    """The settings. A wrong option ends the program with 2, and a line that says what is wrong."""
    parser = argparse.ArgumentParser(
        prog="fakedev-node",
        description="Offers the simulated devices of one node to its kubelet, and reports which container has which.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"fakedev-node {__version__}")
    parser.add_argument(
        "--node", metavar="NAME", default=environment.get("NODE_NAME", ""), help="default: the variable NODE_NAME"
    )
    parser.add_argument("--service", metavar="[tls://]HOST:PORT", required=True, help="the service's node port")
    parser.add_argument("--token-file", metavar="FILE", default="", help="the token of that port")
    for name, text in TLS_OPTIONS.items():
        parser.add_argument(f"--{name}", metavar="FILE", default="", help=text)
    parser.add_argument(
        "--kubelet-folder", metavar="FOLDER", default=KUBELET_FOLDER,
        help="where device plugins have their sockets; default: %(default)s, also of a kubelet with --root-dir",
    )  # fmt: skip
    parser.add_argument(
        "--kubelet-root", metavar="FOLDER", default="",
        help="the kubelet's --root-dir, with plugins, plugins_registry and pod-resources; "
        "default: the folder above --kubelet-folder",
    )  # fmt: skip
    parser.add_argument(
        "--pod-resources", metavar="SOCKET", default="",
        help="where the kubelet says who has what; default: pod-resources/kubelet.sock of --kubelet-root",
    )  # fmt: skip
    parser.add_argument(
        "--resources", choices=[Resource.value for Resource in Resources], default=Resources.DEVICE_PLUGIN.value,
        help="how devices are offered; default: %(default)s",
    )  # fmt: skip
    parser.add_argument(
        "--nvml-folder", metavar="FOLDER", default="",
        help="a folder of the node, with the same path here: containers get the NVML library and nvidia-smi from it",
    )  # fmt: skip
    parser.add_argument(
        "--cdi-folder", metavar="FOLDER", default=CDI_FOLDER,
        help="with --nvml-folder and DRA: where the container runtime reads devices; default: %(default)s",
    )  # fmt: skip
    parser.add_argument("--log-level", choices=_LEVELS, default="info", help="default: %(default)s")
    given = parser.parse_args(arguments)
    if not given.node:
        parser.error("--node: missing; name the node, or set NODE_NAME")
    for name in ("nvml_folder", "cdi_folder"):
        path = getattr(given, name)
        if path and not os.path.isabs(path):
            parser.error(f"--{name.replace('_', '-')}: must be a whole path, as /run/fakedev-nvml, not {path[:200]!r}")
    try:
        service = _service_address(given.service, ClientTls(given.ca_file, given.cert_file, given.key_file))
    except ValueError as error:
        parser.error(f"--{error}")
    root = given.kubelet_root or os.path.dirname(given.kubelet_folder.rstrip("/"))
    return Settings(
        node=given.node,
        service=service,
        token_file=given.token_file,
        kubelet_folder=given.kubelet_folder,
        kubelet_root=root,
        pod_resources=given.pod_resources or os.path.join(root, "pod-resources", "kubelet.sock"),
        resources=Resources(given.resources),
        log_level=given.log_level,
        nvml_folder=given.nvml_folder,
        cdi_folder=given.cdi_folder,
    )


def _service_address(text: str, tls: ClientTls) -> Address:
    """Where the service listens.

    :raises ValueError: with the option, for a text that is no TCP address, or for files of TLS without TLS.
    """
    try:
        address = parse_address(text)
    except ValueError:
        address = Address(text, path=text)
    if address.path:
        shown = f"HOST:PORT or {TLS_SCHEME}HOST:PORT, as fakedev.monitoring:9510"
        raise ValueError(f"service: must be {shown}, not {text[:200]!r}")
    try:
        return with_tls(address, tls)
    except ValueError as error:
        raise ValueError(f"service: {error}") from None
