"""The guard of changes: who may POST and DELETE. Pure rules, no Twisted.

A foreign web page in a user's browser must not change a simulation: neither directly (its Origin is then not our Host)
nor by a DNS name that points to this machine (our Host is then that name). Programs such as curl send no Origin and
connect by address, so they need nothing. A token, where one is set, is needed by all.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from fakedev.net.http.limits import BadRequest

_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}


class ChangeGuard:
    """Decides on changes for one endpoint.

    :param names: allowed names in the Host header, beside loopback names and IP addresses.
    :param token: when set, every change must carry ``Authorization: Bearer TOKEN``.
    """

    def __init__(self, names: Iterable[str] = (), token: str | None = None) -> None:
        self._names = frozenset(name.lower().rstrip(".") for name in names)
        self._token = None if token is None else token.encode()

    def refusal(
        self, host: bytes | None, origin: bytes | None, authorization: bytes | None, unix_socket: bool = False
    ) -> BadRequest | None:
        """The refusal of a change with these headers, or None when it is allowed.

        :param unix_socket: the request came over a UNIX socket, where a Host means nothing.
        """
        called = (host or b"").decode("latin-1").strip().lower()
        if not unix_socket and called and not self._is_ours(split_host(called)[0]):
            return BadRequest(403, "the Host header is neither a loopback name, an IP address nor a configured name")
        if origin is not None and not _same_host(origin.decode("latin-1").strip().lower(), called):
            return BadRequest(403, "the Origin header is not this host: changes from other web pages are refused")
        if self._token is not None and not self._has_token(authorization or b""):
            return BadRequest(401, "a token is needed: Authorization: Bearer TOKEN")
        return None

    def _is_ours(self, name: str) -> bool:
        name = name.rstrip(".")
        return name == "localhost" or name.endswith(".localhost") or name in self._names or _is_address(name)

    def _has_token(self, authorization: bytes) -> bool:
        scheme, _, given = authorization.partition(b" ")
        equal = hmac.compare_digest(given.strip(), self._token or b"")
        return scheme.lower() == b"bearer" and equal


def split_host(host: str) -> tuple[str, str]:
    """Name and port (empty for none) of a Host header; an IPv6 address without its brackets."""
    if host.startswith("["):
        name, _, rest = host[1:].partition("]")
        return name, rest.removeprefix(":")
    name, _, port = host.partition(":")
    return name, port


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _same_host(origin: str, host: str) -> bool:
    """Whether ``origin`` (SCHEME://HOST:PORT, or ``null``) is ``host``; the default port may be missing."""
    try:
        parts = urlsplit(origin)
        default = _DEFAULT_PORTS[parts.scheme]
    except (KeyError, ValueError):
        return False
    origin_name, origin_port = split_host(parts.netloc)
    name, port = split_host(host)
    return bool(name) and (origin_name, origin_port or default) == (name, port or default)
