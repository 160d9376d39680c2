"""Addresses to listen on, as users write them: ``9400``, ``*:9400``, ``[::1]:9400``, ``/path``, an endpoint string."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from ipaddress import IPv4Network
from typing import Final

from fakedev.base.sockets import BACKLOG, LONGEST_SOCKET_PATH


@dataclass(frozen=True)
class ListenAddress:
    """An address to listen on.

    :param kind: ``tcp`` (host, port), ``unix`` (path, mode, group) or ``endpoint`` (description).
    :param host: an address or name; empty for every IPv4 and IPv6 address.
    :param mode: permissions of a UNIX socket; 600 unless given, 660 with a group.
    :param description: a Twisted endpoint string; empty for ``unix``, as Twisted has none with a group.
    :param display: in messages: a URL's host and port, a path, or the endpoint string.
    :param local: only this machine can connect: loopback or a UNIX socket.
    """

    kind: str
    host: str = ""
    port: int = 0
    path: str = ""
    mode: int | None = None
    group: str | None = None
    description: str = ""
    display: str = ""
    local: bool = False


#: ``runtime:NAME`` is the socket NAME in the default socket folder.
RUNTIME: Final = "runtime:"

_ENDPOINTS: Final = ("tcp", "tcp4", "tcp6", "unix", "systemd", "ssl", "tls", "haproxy", "fd")
#: Endpoints with TLS of their own: it could neither be limited nor follow a new certificate.
_TLS_SCHEMES: Final = ("ssl", "tls")
#: Of the sockets that systemd passes.
_DOMAINS: Final = ("INET", "INET6", "UNIX")
_FORMS: Final = "9400, *:9400, HOST:PORT, [::1]:9400, /path or a Twisted endpoint string"
_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
_UNESCAPED_COLON: Final = re.compile(r"(?<!\\):")


def parse_listen(
    text: str,
    *,
    folder: str = ".",
    runtime_folder: Callable[[], str] = str,
    mode: int | None = None,
    group: str | None = None,
) -> ListenAddress:
    """The address that a text names.

    :param folder: where relative paths begin.
    :param runtime_folder: finds where ``runtime:NAME`` is.
    :raises ValueError: with the correct form.
    """
    if not text or any(character.isspace() or not character.isprintable() for character in text):
        raise ValueError(f"{text!r} is no address: give {_FORMS}")
    if text.startswith(RUNTIME):
        name = text.removeprefix(RUNTIME)
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            raise ValueError(f"{text!r} is no address: after {RUNTIME} comes a file name, as {RUNTIME}metrics.sock")
        return _unix(os.path.join(runtime_folder(), name), mode, group)
    if "/" in text and text[0] in "/.":
        if text.endswith(("/", "/.", "/..")):
            raise ValueError(f"{text!r} is a folder: give the path of a socket in it")
        return _unix(os.path.normpath(os.path.join(os.path.abspath(folder), text)), mode, group)
    if text.isdecimal() and text.isascii():
        return _tcp("127.0.0.1", _port(text))
    if text.partition(":")[0] in _TLS_SCHEMES:
        remedy = "as listen: *:9400 with tls_server_config: {cert_file: FILE, key_file: FILE}"
        raise ValueError(f"{text!r}: give the address and TLS on their own, {remedy}; on HTTP addresses in web-config:")
    if text.partition(":")[0] in _ENDPOINTS:
        return _endpoint(text, mode, group)
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal():
        raise ValueError(f"{text!r} is no address: give {_FORMS}")
    return _tcp(_host(host, text), _port(port))


def with_port(text: str, port: str) -> str:
    """An address of TCP with another port.

    :param text: empty: there is none.
    :raises ValueError: when the address has no port.
    """
    host, colon, _ = text.rpartition(":")
    has_port = "/" not in text and text.partition(":")[0] not in (*_ENDPOINTS, RUNTIME.strip(":"))
    if has_port and (colon or text.isdecimal()):
        return f"{host}:{port}" if colon else port
    reason = f"web.0 listens on {text}, which has no port" if text else "the configuration has no web.0 that listens"
    raise ValueError(f"{reason}: give the whole address, as --set web.0.listen=127.0.0.1:{port}")


def parse_per_node(text: str) -> tuple[IPv4Network, ListenAddress]:
    """The network in which each node has an address, and the one address to listen on for all of them.

    :param text: as ``127.64.0.0/16:9400``.
    :raises ValueError: with the correct form.
    """
    network, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or "/" not in network:
        raise ValueError(f"{text!r} is no network and port: give them as 127.64.0.0/16:9400")
    try:
        found = IPv4Network(network)
        if found.num_addresses < 4:
            raise ValueError("it has no addresses for nodes")
    except ValueError as error:
        raise ValueError(f"{network!r} is no IPv4 network: {error}") from None
    wild = _tcp("0.0.0.0", _port(port))
    return found, replace(wild, display=f"{found[1]}:{wild.port}", local=found.is_loopback)


def same_address(one: ListenAddress, other: ListenAddress) -> bool:
    """Whether two addresses cannot both be listened on."""
    if one.path or other.path:
        return one.path == other.path
    if one.port and one.port == other.port:
        wild = ("", "0.0.0.0", "::")
        return one.host == other.host or one.host in wild or other.host in wild
    return one.kind == other.kind == "endpoint" and not one.port and one.description == other.description


def _unix(path: str, mode: int | None, group: str | None) -> ListenAddress:
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        raise ValueError(f"{path!r} is too long for a socket: at most {LONGEST_SOCKET_PATH} bytes")
    if mode is None:
        mode = 0o660 if group else 0o600
    return ListenAddress("unix", path=path, mode=mode, group=group, display=path, local=True)


def _tcp(host: str, port: int) -> ListenAddress:
    escaped = re.sub(r"([\\:=])", r"\\\1", host)  # as an argument of an endpoint string
    interface = f":interface={escaped}" if host else ""
    shown = f"[{host}]" if ":" in host else host or "*"
    return ListenAddress(
        "tcp",
        host=host,
        port=port,
        description=f"tcp:{port}{interface}:backlog={BACKLOG}",
        display=f"{shown}:{port}",
        local=_is_loopback(host),
    )


def _host(host: str, text: str) -> str:
    if host in ("*", ""):
        return ""
    if host.startswith("[") and host.endswith("]"):
        try:
            return str(ipaddress.IPv6Address(host[1:-1]))
        except ValueError:
            raise ValueError(f"{text!r} has no IPv6 address in its brackets: as [::1]:9400") from None
    if ":" in host:
        raise ValueError(f"{text!r} is no address: an IPv6 address is put in brackets, as [::1]:9400")
    if re.fullmatch(r"[0-9.]+", host):
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            raise ValueError(f"{text!r}: {host} is no IPv4 address, as 127.0.0.1") from None
    if not _HOST.fullmatch(host):
        raise ValueError(f"{text!r} is no address: give {_FORMS}")
    return host


def _port(text: str) -> int:
    if len(text) > 5 or not text.isascii() or int(text) > 65535:
        raise ValueError(f"{text[:20]} is no port: from 0 (any free one) to 65535")
    return int(text)


def _endpoint(text: str, mode: int | None, group: str | None) -> ListenAddress:
    """A Twisted endpoint string, parsed as far as needed to know whether other machines can connect."""
    kind, *parts = [re.sub(r"\\(.)", r"\1", part) for part in _UNESCAPED_COLON.split(text)]
    named = dict(part.split("=", 1) for part in parts if "=" in part)
    plain = [part for part in parts if "=" not in part]
    if kind == "unix":
        path = named.get("address", plain[0] if plain else "")
        if not path.startswith("/"):
            raise ValueError(f"{text!r} needs an absolute path, as unix:/run/fakedev/control.sock")
        return _unix(os.path.normpath(path), _endpoint_mode(named, text) if mode is None else mode, group)
    if kind in ("tcp", "tcp4", "tcp6"):
        port = named.get("port", plain[0] if plain else "")
        if not port.isdecimal():
            raise ValueError(f"{text!r} needs a port, as tcp:9400:interface=127.0.0.1")
        host = named.get("interface", "::" if kind == "tcp6" else "")
        return ListenAddress("endpoint", host, _port(port), description=text, display=text, local=_is_loopback(host))
    if kind == "systemd":
        is_one = ("name" in named) != named.get("index", "x").isdecimal()
        if named.get("domain") not in _DOMAINS or not is_one:
            raise ValueError(f"{text!r} needs {' or '.join(_DOMAINS)} and a name, as systemd:domain=INET:name=web")
    local = kind == "systemd" and named["domain"] == "UNIX"
    return ListenAddress("endpoint", description=text, display=text, local=local)


def _endpoint_mode(named: dict[str, str], text: str) -> int | None:
    digits = named.get("mode")
    if digits is None:
        return None
    if not re.fullmatch(r"0?[0-7]{3}", digits):
        raise ValueError(f"{text!r}: mode must be three octal digits, as mode=660")
    return int(digits, 8)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
