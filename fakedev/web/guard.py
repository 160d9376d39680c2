"""The guard of an HTTP address: which requests may read or change: Host, Origin, token, passwords, rate.

A foreign web page in a user's browser must neither change a simulation nor read it: neither directly (its Origin is
then not our Host) nor by a DNS name that points to this machine (our Host is then that name). Programs such as curl
send no Origin and connect by address, so they need nothing. A token, where one is set, is needed for all changes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from twisted.internet.defer import Deferred

from fakedev.base.errors import install_extra
from fakedev.runtime.tls_settings import WebConfig
from fakedev.web.heads import split_host
from fakedev.web.http_limits import HttpError

#: What browsers send with requests of other web pages, also with a GET, which has no Origin.
_FOREIGN_SITES: Final = (b"cross-site", b"same-site")
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}
#: Reads a header of a request: its value, or None.
ReadHeader = Callable[[bytes], bytes | None]


class AccessGuard:
    """Decides on the requests to one address.

    :param names: allowed names in the Host header, besides loopback names and IP addresses. A request without Host may
        read metrics only.
    :param token: when set, every change must carry ``Authorization: Bearer TOKEN``.
    :param has_passwords: requests with a password get here only when it is right: they need no token.
    """

    def __init__(self, names: Iterable[str] = (), token: str | None = None, has_passwords: bool = False) -> None:
        self._names = frozenset(name.lower().rstrip(".") for name in names)
        self._token = None if token is None else token.encode()
        self._has_passwords = has_passwords

    def refusal_of_host(self, header: ReadHeader, unix_socket: bool = False) -> HttpError | None:
        """The refusal of a request that reads or changes the API, for its Host; None when it is allowed.

        :param unix_socket: the request came over a UNIX socket, where a Host means nothing.
        """
        host = split_host((header(b"host") or b"").strip())
        if unix_socket or (host is not None and self._is_ours(host[0])):
            return None
        if self._is_known(header):
            return None
        return HttpError(
            403,
            "the Host header is neither a loopback name, an IP address nor one of the names: of this address "
            "(web: names: in the configuration); with the token any Host is allowed",
        )

    def refusal_of_change(self, header: ReadHeader, unix_socket: bool = False) -> HttpError | None:
        """The refusal of a change, also for its Host; None when it is allowed."""
        refusal = self.refusal_of_host(header, unix_socket) or refusal_of_page(header)
        if refusal is not None:
            return refusal
        if self._token is not None and not self._is_known(header):
            ask = (("WWW-Authenticate", "Bearer"),)
            return HttpError(401, "a token is needed: Authorization: Bearer TOKEN", headers=ask)
        return None

    def _is_ours(self, name: str) -> bool:
        name = name.rstrip(".")
        if name == "localhost" or name.endswith(".localhost") or name in self._names:
            return True
        try:
            ip_address(name)
        except ValueError:
            return False
        return True

    def has_token(self, header: ReadHeader) -> bool:
        """Whether a request has the token; False where there is none."""
        scheme, _, given = (header(b"authorization") or b"").partition(b" ")
        equal = hmac.compare_digest(given.strip(), self._token or b"")
        return self._token is not None and scheme.lower() == b"bearer" and equal

    def _is_known(self, header: ReadHeader) -> bool:
        """Whether a request has the token, or a password, which was checked then."""
        return self.has_token(header) or (
            self._has_passwords and (header(b"authorization") or b"")[:6].lower() == b"basic "
        )


def refusal_of_page(header: ReadHeader) -> HttpError | None:
    """The refusal of a change that a foreign web page requests; None for our pages and for programs."""
    origin = header(b"origin")
    is_foreign = origin is not None and not _same_host(origin.strip(), (header(b"host") or b"").strip())
    if is_foreign or header(b"sec-fetch-site") in _FOREIGN_SITES:
        text = "another web page requested this (Origin, Sec-Fetch-Site), and foreign pages may not change anything"
        return HttpError(403, text)
    return None


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


#: Whether a password has a hash; takes some hundredths of a second to some seconds.
CheckPassword = Callable[[str, bytes], Deferred[bool]]
_Decision = Deferred[HttpError | None]
#: Good credentials that are remembered.
_REMEMBERED: Final = 100
#: Requests of all hosts, and of one host, that wait for a check; each takes as long as the cost of its hash says.
_MOST_WAITING: Final = 100
_MOST_OF_A_HOST: Final = 50
#: Only this much of a password counts (bcrypt), also in the original.
PASSWORD_BYTES: Final = 72
#: Salt and hash of a random text, behind a cost: an unknown name takes as long as a wrong password.
_DUMMY_HASH: Final = "68EpNNsCHhvTD2pjnqcL5.xZIEcXlm9ZMedjkCbQoU.2rQQTgYUiC"


class Authentication:
    """Decides whether a request gets to its resource at all.

    One password is checked at a time. The hosts that wait take turns, each with its newest request. A peer that guesses
    sends the next guess when the last one is refused, so the refusals of a host are held until none of its requests
    waits: a right password, e.g. of another program behind the same proxy, is then the newest one and waits for one
    check only. Where too many wait, the oldest request of the host with the most is answered.

    :param config: its ``users`` and its rate.
    :param guard: a request with the token of the address needs no password.
    :param seconds: a clock that never goes back.
    :param check: runs bcrypt, not in the reactor.
    """

    def __init__(
        self, config: WebConfig, guard: AccessGuard, seconds: Callable[[], float], check: CheckPassword
    ) -> None:
        self._users = config.users
        self._interval = config.interval_seconds
        self._burst = config.burst
        self._guard = guard
        self._seconds = seconds
        self._check = check
        self._left, self._counted_at = float(config.burst), seconds()
        #: Digests of good credentials: the passwords themselves are not kept.
        self._good: OrderedDict[bytes, None] = OrderedDict()
        self._is_checking = False
        #: By host: the credentials of requests that wait for their check, the oldest first; and refused requests.
        self._waiting: OrderedDict[str, dict[_Decision, tuple[str, bytes]]] = OrderedDict()
        self._refused: dict[str, deque[_Decision]] = {}

    def refusal(self, header: ReadHeader, host: str) -> HttpError | _Decision | None:
        """The refusal of a request; None when it is allowed. A password that was not checked yet takes time.

        :param host: of the peer.
        :returns: cancel a Deferred when the peer disconnects: a check that has not begun is then dropped.
        """
        if not self._is_within_rate():
            return HttpError(429, "Too Many Requests")
        is_good = self.is_good(header)
        if is_good is not None:
            return None if is_good else unauthorized()
        credentials = _credentials(header)
        assert credentials is not None
        decision: _Decision = Deferred(lambda cancelled: self._take(host, cancelled))
        self._waiting.setdefault(host, {})[decision] = credentials
        self._refused.setdefault(host, deque())
        if self._is_checking:
            self._answer_if_too_many(host)
        else:
            Deferred.fromCoroutine(self._check_waiting())
        return decision

    def is_good(self, header: ReadHeader) -> bool | None:
        """Whether the credentials of a request are good; None: they must be checked first."""
        if not self._users or self._guard.has_token(header):
            return True
        credentials = _credentials(header)
        if credentials is None:
            return False
        return True if _digest(*credentials) in self._good else None

    def _is_within_rate(self) -> bool:
        """Take one of the requests that may come now: a bucket of ``burst``, one more each interval."""
        if not self._interval:
            return True
        now = self._seconds()
        self._left = min(self._burst, self._left + (now - self._counted_at) / self._interval)
        self._counted_at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def _answer_if_too_many(self, host: str) -> None:
        sizes = {name: len(waiting) + len(self._refused[name]) for name, waiting in self._waiting.items()}
        if sizes[host] <= _MOST_OF_A_HOST and sum(sizes.values()) <= _MOST_WAITING:
            return
        fullest = max(sizes, key=lambda name: sizes[name])
        if self._refused[fullest]:
            _decide(self._refused[fullest].popleft(), unauthorized())
        else:
            oldest = next(iter(self._waiting[fullest]))
            self._take(fullest, oldest)
            _decide(oldest, HttpError(503, "too many passwords wait for their check"))

    async def _check_waiting(self) -> None:
        self._is_checking = True
        while self._waiting:
            host, requests = next(iter(self._waiting.items()))
            self._waiting.move_to_end(host)
            newest, (name, password) = next(reversed(requests.items()))
            self._take(host, newest)
            try:
                is_right = await self._is_right(name, password)
            except Exception:
                if not newest.called:
                    newest.errback()
                continue
            if not is_right and host in self._waiting:
                self._refused[host].append(newest)
            else:
                _decide(newest, None if is_right else unauthorized())
        self._is_checking = False

    def _take(self, host: str, decision: _Decision) -> None:
        """Let a request wait no longer for its check; with the last one of a host the refused ones are answered."""
        waiting = self._waiting.get(host, {})
        if waiting.pop(decision, None) is not None and not waiting:
            del self._waiting[host]
            for refused in self._refused.pop(host):
                _decide(refused, unauthorized())

    async def _is_right(self, name: str, password: bytes) -> bool:
        key = _digest(name, password)
        if key in self._good:  # since a moment ago, by another request
            return True
        hashed = self._users.get(name) or self._hash_of_nobody(name)
        if not await self._check(hashed, password[:PASSWORD_BYTES]) or name not in self._users:
            return False
        self._good[key] = None
        if len(self._good) > _REMEMBERED:
            self._good.popitem(last=False)
        return True

    def _hash_of_nobody(self, name: str) -> str:
        """A hash for a name that is unknown, with the cost of some user's: always the same for a name."""
        hashes = sorted(self._users.values())
        digest = hashlib.sha256("\n".join((name, *hashes)).encode()).digest()
        cost = hashes[int.from_bytes(digest[:8]) % len(hashes)].split("$")[2]
        return f"$2b${cost}${_DUMMY_HASH}"


def _decide(decision: _Decision, refusal: HttpError | None) -> None:
    if not decision.called:  # else its peer has left
        decision.callback(refusal)


def unauthorized() -> HttpError:
    """The refusal of a request without a right password, in the words of exporter-toolkit."""
    return HttpError(401, "Unauthorized", headers=(("WWW-Authenticate", "Basic"),))


def _credentials(header: ReadHeader) -> tuple[str, bytes] | None:
    """Name and password of basic authentication (RFC 7617); None without, or when they cannot be read."""
    scheme, _, text = (header(b"authorization") or b"").partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        name, colon, password = base64.b64decode(text.strip(), validate=True).partition(b":")
        return (name.decode(), password) if colon else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def _digest(name: str, password: bytes) -> bytes:
    return hashlib.sha256(b"%d:%b:%b" % (len(name.encode()), name.encode(), password)).digest()


def check_passwords_can_be_used() -> None:
    """Check that the package for bcrypt is there.

    :raises ImportError: with the remedy.
    """
    try:
        import bcrypt  # noqa: F401, PLC0415 - an optional package
    except ImportError:
        raise ImportError(f"passwords need bcrypt, which is not installed: {install_extra('tls')}") from None


def has_hash(hashed: str, password: bytes) -> bool:
    """Whether a password has a hash of bcrypt; blocks for as long as the cost of the hash says.

    :param password: at most :data:`PASSWORD_BYTES`.
    """
    import bcrypt  # noqa: PLC0415 - an optional package

    try:
        return bcrypt.checkpw(password, hashed.encode())
    except ValueError:
        return False  # a NUL, which no password of bcrypt has
