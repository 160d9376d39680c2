"""The guard of an address: whose requests may read the API, and whose may change something. Pure rules, no Twisted.

A foreign web page in a user's browser must neither change a simulation nor read it: neither directly (its Origin is
then not our Host) nor by a DNS name that points to this machine (our Host is then that name). Programs such as curl
send no Origin and connect by address, so they need nothing. A token, where one is set, is needed for all changes.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from fakedev.net.http.limits import BadRequest

#: What browsers send with requests of other web pages, also with a GET, which has no Origin.
_FOREIGN_SITES: Final = (b"cross-site", b"same-site")
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}
#: A name or IPv4 address, or an IPv6 address in brackets; and a port (RFC 9112, 3.2; RFC 3986, 3.2.2).
_HOST: Final = re.compile(rb"(?:([A-Za-z0-9._~!$&'()*+,;=%-]*)|\[([0-9A-Fa-f:.]{2,45})\])(?::([0-9]{0,5}))?")


class AccessGuard:
    """Decides on the requests to one address.

    :param names: allowed names in the Host header, beside loopback names and IP addresses.
    :param token: when set, every change must carry ``Authorization: Bearer TOKEN``.
    :param has_passwords: requests with a password get here only when it is right: they need no token.
    """

    def __init__(self, names: Iterable[str] = (), token: str | None = None, has_passwords: bool = False) -> None:
        self._names = frozenset(name.lower().rstrip(".") for name in names)
        self._token = None if token is None else token.encode()
        self._has_passwords = has_passwords

    def refusal_of_host(self, headers: Mapping[bytes, bytes], unix_socket: bool = False) -> BadRequest | None:
        """The refusal of a request that reads or changes the API, for its Host; None when it is allowed.

        :param headers: by names in lower case.
        :param unix_socket: the request came over a UNIX socket, where a Host means nothing.
        """
        host = split_host(headers.get(b"host", b"").strip())
        if unix_socket or (host is not None and self._is_ours(host[0])):
            return None
        if self._is_known(headers):
            return None
        return BadRequest(
            403,
            "the Host header is neither a loopback name, an IP address nor one of the names: of this address "
            "(web: names: in the configuration); with the token any Host is allowed",
        )

    def refusal_of_change(self, headers: Mapping[bytes, bytes], unix_socket: bool = False) -> BadRequest | None:
        """The refusal of a change, also for its Host; None when it is allowed."""
        refusal = self.refusal_of_host(headers, unix_socket) or refusal_of_page(headers)
        if refusal is not None:
            return refusal
        if self._token is not None and not self._is_known(headers):
            return BadRequest(401, "a token is needed: Authorization: Bearer TOKEN")
        return None

    def _is_ours(self, name: str) -> bool:
        name = name.rstrip(".")
        return name in ("", "localhost") or name.endswith(".localhost") or name in self._names or _is_address(name)

    def has_token(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether a request has the token; False where there is none."""
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        equal = hmac.compare_digest(given.strip(), self._token or b"")
        return self._token is not None and scheme.lower() == b"bearer" and equal

    def _is_known(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether a request has the token, or a password, which was checked then."""
        return self.has_token(headers) or (
            self._has_passwords and headers.get(b"authorization", b"")[:6].lower() == b"basic "
        )


def refusal_of_page(headers: Mapping[bytes, bytes]) -> BadRequest | None:
    """The refusal of a change that another web page asks for; None for those of our pages and of programs."""
    origin = headers.get(b"origin")
    is_foreign = origin is not None and not _same_host(origin.strip(), headers.get(b"host", b"").strip())
    if is_foreign or headers.get(b"sec-fetch-site") in _FOREIGN_SITES:
        return BadRequest(403, "this is asked for by another web page (Origin, Sec-Fetch-Site), which changes nothing")
    return None


@lru_cache(maxsize=256)
def split_host(host: bytes) -> tuple[str, str] | None:
    """Name in lower case and port (empty for none) of a Host header; an IPv6 address without its brackets.

    :returns: None for what is neither HOST nor HOST:PORT, such as ``localhost:80@other`` or ``[::1]other``.
    """
    found = _HOST.fullmatch(host)
    if found is None:
        return None
    name, address, port = (part and part.decode().lower() for part in found.groups())
    if address is not None:
        try:
            IPv6Address(address)
        except ValueError:
            return None
    return address or name or "", port or ""


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _same_host(origin: bytes, host: bytes) -> bool:
    """Whether ``origin`` (SCHEME://HOST:PORT, or ``null``) is ``host``; the default port may be missing."""
    try:
        parts = urlsplit(origin)
        default = _DEFAULT_PORTS[parts.scheme.decode("latin-1")]
    except (KeyError, ValueError):
        return False
    ours, theirs = split_host(host), split_host(parts.netloc)
    if ours is None or theirs is None or not ours[0]:
        return False
    return (theirs[0], theirs[1] or default) == (ours[0], ours[1] or default)
