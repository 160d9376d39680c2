"""Sends a history by remote write while it is simulated: one message after the other.

The next message follows when the server has taken or refused the one before. A note of the progress lets the history
go on later. The run ends when the history is at the server, when it is refused, or by a signal.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from random import random
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

import orjson
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from twisted.web.client import FileBodyProducer
from twisted.web.http_headers import Headers

from fakedev import __version__
from fakedev.base.backoff import Backoff
from fakedev.base.errors import CannotWrite, Refused, install_extra, plain_reason, printable, shortened
from fakedev.base.given_files import read_given
from fakedev.base.units import format_duration
from fakedev.runtime.application import run_task
from fakedev.runtime.clock import no_op
from fakedev.runtime.disk import replace_file
from fakedev.runtime.http_client import LONGEST_PAUSE_SECONDS, ApiError, make_agent, no_answer, read_whole
from fakedev.runtime.reactor import IReactor
from fakedev.runtime.threads import TaskService
from fakedev.runtime.tls import CannotConnect
from fakedev.runtime.tls_settings import ApiServer
from fakedev.scenario.samples.remote_write import Message, Messages, snappy
from fakedev.scenario.samples.series import Stored

#: A server that accepts no message for this time is given up.
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


class RemoteWriteError(ValueError):
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
        reactor: IReactor,
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
            raise RemoteWriteError(f"{self.url}: {needed}: {install_extra('kubernetes')}") from None

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


#: How long the reactor may wait for a turn.
_TURN_SECONDS: Final = 0.01


@dataclass(frozen=True)
class SendProgress:
    """How far a history has been sent; a file has it after each message.

    :ivar path: of the file; empty for none.
    :ivar history: a word that differs for each history: of the scenario and what it uses.
    :ivar url: where it is sent.
    :ivar begin_seconds: when it begins, in seconds since 1970: a run that goes on begins at the same time.
    :ivar sent_milliseconds: all instants up to this time have been taken; None: not even the first.
    """

    path: str
    history: str
    url: str
    begin_seconds: float
    sent_milliseconds: int | None = None

    def of_file(self) -> SendProgress:
        """The progress that the file has; this one without a file.

        :raises ValueError: when the file cannot be read, or is of another history.
        """
        try:
            found = orjson.loads(read_given(self.path)) if self.path else None
        except FileNotFoundError:
            return self
        except OSError as error:
            raise ValueError(f"{self.path}: {plain_reason(error)}") from None
        except orjson.JSONDecodeError:
            found = {}
        if found is None:
            return self
        try:
            begin, sent = float(found["begin_seconds"]), found["sent_milliseconds"]
            known = found["history"], found["url"]
        except (TypeError, KeyError, ValueError):
            raise ValueError(f"{self.path}: has no progress of a history: remove it, or give another file") from None
        if known != (self.history, self.url):
            what = "another history" if known[0] != self.history else f"{known[1]}, not of {self.url}"
            raise ValueError(f"{self.path}: is the progress of {what}: remove it to begin again") from None
        return replace(self, begin_seconds=begin, sent_milliseconds=None if sent is None else int(sent))

    def save(self) -> None:
        """Write the file in one step.

        :raises CannotWrite: when that is not possible.
        """
        if self.path:
            names = ("history", "url", "begin_seconds", "sent_milliseconds")
            values = {name: getattr(self, name) for name in names}
            replace_file(self.path, orjson.dumps(values, option=orjson.OPT_APPEND_NEWLINE).decode())

    def remove(self) -> None:
        """Remove the file: all is sent."""
        if self.path:
            Path(self.path).unlink(missing_ok=True)


@dataclass(eq=False)
class HistorySender(TaskService):
    """Sends a history to its end, then calls ``over``. One message is sent while the next is made.

    :param history: what a server stores of each instant; None for a tick without one. It is made from the beginning
        also when a part of it was sent already.
        A ValueError or Refused of it ends it, with its words.
    :ivar samples: how many samples the server has taken, with markers.
    """

    expected = (Refused, CannotWrite, ValueError)
    what = "The sending of a history"

    history: Iterable[Stored | None]
    writer: RemoteWriter
    compress: Callable[[bytes], bytes]
    progress: SendProgress
    reactor: IReactor
    over: Callable[[], None]
    samples: int = field(default=0, init=False)
    _sending: Deferred[None] | None = field(default=None, init=False)
    #: The first message of a run that goes on may have been stored by the one before.
    _may_be_stored: bool = field(default=False, init=False)

    async def clean_up(self) -> None:
        await self.writer.close()

    async def run_to_end(self) -> None:
        messages, sent = Messages(self.compress), self.progress.sent_milliseconds
        self._may_be_stored = self.progress.path != "" and Path(self.progress.path).exists()
        self.progress.save()
        turn = self.reactor.seconds()
        for stored in self.history:
            if stored is not None and (sent is None or stored.milliseconds > sent):
                for message in messages.add(stored):
                    await self._send(message)
            if self.reactor.seconds() - turn > _TURN_SECONDS:
                await deferLater(self.reactor, 0)
                turn = self.reactor.seconds()
        for message in messages.end():
            await self._send(message)
        await self._sent()
        self.progress.remove()

    async def _send(self, message: Message) -> None:
        """Send a message when the one before is taken; returns when it is on its way."""
        await self._sent()
        self._sending = Deferred.fromCoroutine(self._deliver(message))

    async def _sent(self) -> None:
        sending, self._sending = self._sending, None
        if sending is not None:
            await sending

    async def _deliver(self, message: Message) -> None:
        await self.writer.send(message.body, may_be_stored=self._may_be_stored)
        self._may_be_stored = False
        self.samples += message.samples
        self.progress = replace(self.progress, sent_milliseconds=message.whole_milliseconds)
        self.progress.save()

    def failed(self, failure: Failure) -> None:
        if self._sending is not None:
            self._sending.addErrback(no_op)
            self._sending.cancel()
        super().failed(failure)


def send_history(
    history: Iterable[Stored | None],
    progress: SendProgress,
    url: str,
    *,
    token: str = "",
    on_wait: Callable[[str, float], None] = lambda problem, seconds: None,
) -> tuple[int, str]:
    """Send a history by remote write, from where its progress is.

    :param history: made from the beginning, which is the one of the progress; None for a tick without an instant.
    :param url: with user and password if the server wants them; that of the progress is without them.
    :param token: of a Bearer authorization; empty for none.
    :param on_wait: called with what is wrong, and the seconds until a message is sent again.
    :returns: how many samples and markers the server has taken, and the signal that stopped it; empty for none.
    :raises ValueError: when it cannot be sent.
    """
    compress = snappy()

    def make(reactor: IReactor, over: Callable[[], None]) -> HistorySender:
        writer = RemoteWriter(url, reactor, random=random, token=token, on_wait=on_wait)
        return HistorySender(history, writer, compress, progress, reactor, over)

    sender, signal_name = run_task(make)
    if sender.problem and not signal_name:
        raise ValueError(sender.problem)
    return sender.samples, signal_name
