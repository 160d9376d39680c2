"""Remote write to a server: one message after the other, each until the server takes or refuses it."""

from __future__ import annotations

import base64
from collections.abc import Callable
from io import BytesIO
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from twisted.internet.task import deferLater
from twisted.web.client import FileBodyProducer
from twisted.web.http_headers import Headers

from fakedev import __version__
from fakedev.kube.backoff import Backoff
from fakedev.net.kube.api_error import LONGEST_PAUSE_SECONDS, ApiError
from fakedev.net.kube.body import read_whole
from fakedev.net.kube.transport import make_agent, no_answer
from fakedev.net.system.tls_client import CannotConnect
from fakedev.spec.api_server import ApiServer
from fakedev.spec.errors import printable, shortened
from fakedev.spec.units import format_duration

#: A server that takes no message for so long is given up.
GIVE_UP_SECONDS: Final = 600.0
_ANSWER_SECONDS: Final = 60.0
_FIRST_WAIT_SECONDS: Final = 0.2
_LONGEST_WAIT_SECONDS: Final = 30.0
#: The longest answer that is read; servers answer with a sentence.
_MOST_ANSWER_BYTES: Final = 2**20
#: What waiting does not help against.
_LASTING: Final = frozenset(("Certificate", "Garbled"))
#: How servers say that they have samples, or newer ones: of a message that was stored although its answer was lost.
_STORED_WORDS: Final = ("out of order", "out-of-order", "duplicate sample", "too old sample")


class RemoteWriteError(Exception):
    """The server refuses samples, or has not taken any for too long; ``str`` of it has its words."""


class RemoteWriter:
    """Sends messages to a server, one at a time.

    - 2xx: it is taken.
    - 429, 5xx, no connection, no answer: it is sent again, after the time that the server asks for or 0.1 s to 30 s.
    - All else is the server's last word. One case is none: a message that may have been stored before its answer was
      lost, and is out of order now, has been stored, for all earlier ones were taken.

    :param url: http or https, with user and password if the server wants them.
    :param reactor: with connections and time, as Twisted's.
    :param random: gives a number from 0 to 1, for the jitter of waits.
    :param token: of a Bearer authorization; empty for none.
    :param on_wait: called with what is wrong and the seconds until the message is sent again.
    :raises RemoteWriteError: for a URL that cannot be used.
    """

    def __init__(
        self,
        url: str,
        reactor: Any,
        *,
        random: Callable[[], float],
        token: str = "",
        on_wait: Callable[[str, float], None] = lambda problem, seconds: None,
        give_up_seconds: float = GIVE_UP_SECONDS,
    ) -> None:
        self._clock = reactor
        self._on_wait = on_wait
        self._give_up_seconds = give_up_seconds
        self.url, authorization = without_credentials(url)
        if token:
            authorization = f"Bearer {token}"
        self._headers = {
            "Content-Encoding": ["snappy"],
            "Content-Type": ["application/x-protobuf"],
            "User-Agent": [f"fakedev/{__version__}"],
            "X-Prometheus-Remote-Write-Version": ["0.1.0"],
            **({"Authorization": [authorization]} if authorization else {}),
        }
        self._random = random
        try:
            self._agent, self._pool = make_agent(reactor, ApiServer(self.url), 1)
        except CannotConnect:
            needed = "https needs pyOpenSSL and service-identity, which are not installed"
            raise RemoteWriteError(f"{self.url}: {needed}: pip install 'fakedev[kubernetes]'") from None

    async def send(self, body: bytes, *, may_be_stored: bool = False) -> None:
        """Send a message; returns when the server has taken it.

        :param may_be_stored: it may have been stored by a run whose end is not known.
        :raises RemoteWriteError: when the server refuses it, or takes none for too long.
        """
        backoff = Backoff(_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS, self._random)
        began = self._clock.seconds()
        while True:
            pause: float | None = None
            try:
                code, words, pause = await self._post(body)
            except ApiError as error:
                if error.reason in _LASTING:
                    raise RemoteWriteError(error.message) from None
                problem = error.message
                may_be_stored = may_be_stored or error.reason != "NoConnection"
            else:
                if code // 100 == 2:
                    return
                problem = f"{self.url} answers {code}: {words}"
                if code // 100 == 4 and may_be_stored and any(each in words.lower() for each in _STORED_WORDS):
                    return
                if code != 429 and code // 100 != 5:
                    raise RemoteWriteError(problem)
                may_be_stored = may_be_stored or code // 100 == 5
            seconds = backoff.next_seconds() if pause is None else pause
            if self._clock.seconds() + seconds - began > self._give_up_seconds:
                taken = format_duration(self._give_up_seconds)
                raise RemoteWriteError(f"no samples were taken for {taken}: {problem}")
            self._on_wait(problem, seconds)
            await deferLater(self._clock, seconds)

    async def close(self) -> None:
        """Close the connection."""
        await self._pool.closeCachedConnections()

    async def _post(self, body: bytes) -> tuple[int, str, float | None]:
        """Code and words of the answer, and how long the server asks to wait.

        :raises ApiError: without an answer.
        """
        answer = self._agent.request(
            b"POST", self.url.encode(), Headers(self._headers), FileBodyProducer(BytesIO(body))
        )
        answer.addTimeout(_ANSWER_SECONDS, self._clock)
        try:
            response = await answer
            reading = read_whole(response, self.url, _MOST_ANSWER_BYTES)
            reading.addTimeout(_ANSWER_SECONDS, self._clock)
            text = await reading
        except Exception as error:
            raise no_answer(error, self.url) from None
        words = shortened(printable(text.decode(errors="replace").strip())) or "no words"
        given = (response.headers.getRawHeaders("Retry-After") or [""])[0].strip()
        pause = min(float(given), LONGEST_PAUSE_SECONDS) if given.isascii() and given.isdigit() else None
        return response.code, words, pause


def without_credentials(url: str) -> tuple[str, str]:
    """A URL without user and password, and the authorization that they make.

    :raises RemoteWriteError: for what is no URL.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or not url.isascii() or not url.isprintable() or " " in url:
        raise RemoteWriteError(f"{printable(url)[:200]!r} is no URL such as http://127.0.0.1:9090/api/v1/write")
    at = parts.netloc.rpartition("@")[2]
    plain = urlunsplit((parts.scheme, at, parts.path or "/", parts.query, ""))
    if parts.username is None:
        return plain, ""
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return plain, "Basic " + base64.b64encode(pair.encode()).decode()
