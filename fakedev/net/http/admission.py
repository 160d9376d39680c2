"""What comes before each request to a site with a web configuration: the limit of requests, and passwords."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

from twisted.internet.defer import Deferred, DeferredLock

from fakedev.net.http.access_guard import AccessGuard
from fakedev.net.http.response import HttpError
from fakedev.spec.web_config import WebConfig

#: Whether a password has a hash; takes some hundredths of a second to some seconds.
CheckPassword = Callable[[str, bytes], Deferred[bool]]

#: Good credentials that are remembered.
_REMEMBERED: Final = 100
#: Checks that wait; each takes as long as the cost of its hash says.
_MOST_WAITING: Final = 100
#: Only this much of a password counts (bcrypt), also in the original.
PASSWORD_BYTES: Final = 72
#: The hash of a random text that nobody knows: an unknown name takes as long as a wrong password.
_OF_NOBODY: Final = "$2b$10$68EpNNsCHhvTD2pjnqcL5.xZIEcXlm9ZMedjkCbQoU.2rQQTgYUiC"


class Admission:
    """Decides whether a request gets to its resource at all.

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
        self._lock = DeferredLock()

    def early_refusal(self, headers: Mapping[bytes, bytes]) -> HttpError | None:
        """The refusal of a request before its body is read; None when it is allowed, or that is not yet known."""
        return _unauthorized() if self._is_good(headers) is False else None

    def is_decided(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether it is known at once if a request is allowed."""
        return self._is_good(headers) is not None

    def refusal(self, headers: Mapping[bytes, bytes]) -> HttpError | Deferred[HttpError | None] | None:
        """The refusal of a request; None when it is allowed. A password that is not known yet takes time.

        :param headers: by names in lower case.
        """
        if not self._is_within_rate():
            return HttpError(429, "Too Many Requests")
        is_good = self._is_good(headers)
        if is_good is not None:
            return None if is_good else _unauthorized()
        if len(self._lock.waiting) >= _MOST_WAITING:
            return HttpError(503, "too many passwords wait for their check")
        return Deferred.fromCoroutine(self._checked(headers))

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

    def _is_good(self, headers: Mapping[bytes, bytes]) -> bool | None:
        """Whether the credentials are good; None: they must be checked first."""
        if not self._users or self._guard.has_token(headers):
            return True
        credentials = _credentials(headers)
        if credentials is None:
            return False
        return True if _digest(*credentials) in self._good else None

    async def _checked(self, headers: Mapping[bytes, bytes]) -> HttpError | None:
        credentials = _credentials(headers)
        assert credentials is not None
        name, password = credentials
        key = _digest(name, password)
        await self._lock.acquire()
        try:
            if key in self._good:
                return None  # another request had the same credentials, and was first
            fits = await self._check(self._users.get(name, _OF_NOBODY), password[:PASSWORD_BYTES])
            if not fits or name not in self._users:
                return _unauthorized()
            self._good[key] = None
            if len(self._good) > _REMEMBERED:
                self._good.popitem(last=False)
            return None
        finally:
            self._lock.release()


def _unauthorized() -> HttpError:
    return HttpError(401, "Unauthorized", headers=(("WWW-Authenticate", "Basic"),))


def _credentials(headers: Mapping[bytes, bytes]) -> tuple[str, bytes] | None:
    """Name and password of basic authentication (RFC 7617); None without, or when they cannot be read."""
    scheme, _, text = headers.get(b"authorization", b"").partition(b" ")
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
        raise ImportError("passwords need bcrypt, which is not installed: pip install 'fakedev[tls]'") from None


def has_hash(hashed: str, password: bytes) -> bool:
    """Whether a password has a hash of bcrypt; blocks for as long as the cost of the hash says.

    :param password: at most :data:`PASSWORD_BYTES`.
    """
    import bcrypt  # noqa: PLC0415 - an optional package

    try:
        return bcrypt.checkpw(password, hashed.encode())
    except ValueError:
        return False  # a NUL, which no password of bcrypt has
