"""The options of fakedev-node."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fakedev import __version__
from fakedev.config.peer_address import Address, parse_address, with_tls
from fakedev.config.schema.files import read_token
from fakedev.spec.client_tls import TLS_OPTIONS, TLS_SCHEME, ClientTls
from fakedev.spec.kubernetes import Resources

#: Where container runtimes look (SPEC.md of the Container Device Interface).
CDI_FOLDER: Final = "/var/run/cdi"
_LEVELS: Final = ("debug", "info", "warn", "error")


@dataclass(frozen=True)
class Settings:
    """What the program was told.

    :param service: a host and a port, with TLS or without.
    :param token_file: empty: the port asks for no token.
    :param kubelet_folder: of the sockets of device plugins.
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
    nvml_folder: str = ""
    cdi_folder: str = CDI_FOLDER

    @property
    def has_device_plugin(self) -> bool:
        """Whether devices are offered by device plugins."""
        return self.resources is not Resources.DRA

    @property
    def has_dra(self) -> bool:
        """Whether devices are offered by DRA."""
        return self.resources is not Resources.DEVICE_PLUGIN

    @property
    def kubelet_root(self) -> str:
        """The folder with all of the kubelet's folders."""
        return os.path.dirname(self.kubelet_folder.rstrip("/"))

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
        "--kubelet-folder", metavar="FOLDER", default="/var/lib/kubelet/device-plugins",
        help="where device plugins have their sockets; default: %(default)s",
    )  # fmt: skip
    parser.add_argument(
        "--pod-resources", metavar="SOCKET", default="/var/lib/kubelet/pod-resources/kubelet.sock",
        help="where the kubelet says who has what; default: %(default)s",
    )  # fmt: skip
    parser.add_argument(
        "--resources", choices=[each.value for each in Resources], default=Resources.DEVICE_PLUGIN.value,
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
    return Settings(
        node=given.node,
        service=service,
        token_file=given.token_file,
        kubelet_folder=given.kubelet_folder,
        pod_resources=given.pod_resources,
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
