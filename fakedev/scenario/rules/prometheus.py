"""A Prometheus of our own: started on an empty folder and a free port, asked and written to, stopped and removed."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import orjson
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from twisted.web.client import Agent, FileBodyProducer, HTTPConnectionPool
from twisted.web.http_headers import Headers

from fakedev.base.errors import plain_reason, printable
from fakedev.runtime.http_client import read_whole
from fakedev.runtime.processes import GroupWatchdog, ProcessGroups
from fakedev.runtime.reactor import IReactor

#: It has no targets and no rules.
_CONFIGURATION: Final = "scrape_configs: []\n"
_READY_SECONDS: Final = 60.0
_ASK_AGAIN_SECONDS: Final = 0.05
#: Longer than Prometheus's own limit for a query.
_ANSWER_SECONDS: Final = 150.0
_MOST_ANSWER_BYTES: Final = 256 * 2**20
_CONNECTIONS: Final = 4
_LISTENS: Final = b'msg="Listening on"'
#: How much of what it last said is kept, and shown.
_KEPT_BYTES: Final = 8192
_SHOWN_LINES: Final = 3
_SHOWN: Final = 1000
_WRITE_HEADERS: Final = {
    "Content-Encoding": ["snappy"],
    "Content-Type": ["application/x-protobuf"],
    "X-Prometheus-Remote-Write-Version": ["0.1.0"],
}


class PrometheusError(Exception):
    """Prometheus is missing, does not start, has died, or refuses what it must take; ``str`` of it says why."""


class QueryError(Exception):
    """An expression that Prometheus cannot evaluate; ``str`` of it is what it says.

    :ivar is_wrong_expression: the expression is wrong; else its evaluation fails, perhaps only at some times.
    """

    def __init__(self, text: str, *, is_wrong_expression: bool) -> None:
        super().__init__(text)
        self.is_wrong_expression = is_wrong_expression


class Result(NamedTuple):
    """A series of the result of a query.

    :ivar points: milliseconds since 1970, and the value as a text.
    """

    labels: Mapping[str, str]
    points: Sequence[tuple[int, str]]


def prometheus_path(given: str) -> str:
    """The path of the program.

    :param given: by the user; empty: the one on the PATH.
    :raises PrometheusError: when there is none.
    """
    path = shutil.which(given or "prometheus")
    if path is None and given:
        raise PrometheusError(f"{given} is no program that can be started: give Prometheus with --prometheus FILE")
    if path is None:
        raise PrometheusError("Prometheus is needed, and it is not on the PATH: install it, or use --prometheus FILE")
    return os.path.abspath(path)


class _Process(ProcessProtocol):
    """The process: what it says, and its end."""

    def __init__(self) -> None:
        self.said = b""
        self.address: Deferred[str] = Deferred()
        self.ended: Deferred[None] = Deferred()
        self.is_ended = False

    def outReceived(self, data: bytes) -> None:
        self.said += data
        line = next((said_line for said_line in self.said.splitlines(keepends=True) if _LISTENS in said_line), b"")
        if line.endswith(b"\n") and not self.address.called:
            self.address.callback(line.rpartition(b"address=")[2].split()[0].decode())
        self.said = self.said[-_KEPT_BYTES:]

    errReceived = outReceived

    def processEnded(self, reason: Failure) -> None:
        self.is_ended = True
        if not self.address.called:
            self.address.errback(PrometheusError(f"Prometheus does not start: {self.last_words()}"))
        self.ended.callback(None)

    def last_words(self) -> str:
        lines = [line for line in self.said.decode(errors="replace").splitlines() if line.strip()]
        bad = [line for line in lines if "level=error" in line.lower() or "level=info" not in line.lower()]
        return printable(" / ".join((bad or lines)[-_SHOWN_LINES:]))[-_SHOWN:] or "it said nothing"


class Prometheus:
    """A Prometheus with an empty storage, for as long as we need it.

    :param program: its path.
    """

    def __init__(self, reactor: IReactor, program: str) -> None:
        self._reactor = reactor
        self._program = program
        self._folder = ""
        self._process = _Process()
        self._leader = 0
        self._groups = ProcessGroups()
        self._watchdog: GroupWatchdog | None = None
        self._pool = HTTPConnectionPool(reactor)
        self._pool.maxPersistentPerHost = _CONNECTIONS
        self._pool.retryAutomatically = False
        self._agent = Agent(reactor, pool=self._pool)
        self._address = ""
        self._waiting: set[Deferred[Any]] = set()

    @property
    def folder(self) -> str:
        """Where its data are, while it runs."""
        return self._folder

    @property
    def process_id(self) -> int:
        """Its process; 0 before it was started."""
        return self._leader

    async def start(self) -> None:
        """Start it; returns when it can be asked. Call :meth:`stop` afterwards, also after an error.

        :raises PrometheusError: when it does not start, with its last words.
        """
        setsid = shutil.which("setsid")
        if setsid is None:
            raise PrometheusError("the program setsid (of util-linux) is not installed: Prometheus is started by it")
        self._watchdog = GroupWatchdog(self._reactor, setsid)
        try:
            self._folder = tempfile.mkdtemp(prefix="fakedev-prometheus-")
            with open(os.path.join(self._folder, "prometheus.yml"), "w", encoding="utf-8") as stream:
                stream.write(_CONFIGURATION)
            words = [
                setsid, self._program, f"--config.file={self._folder}/prometheus.yml",
                f"--storage.tsdb.path={self._folder}/data", "--storage.tsdb.retention.time=100y",
                "--web.listen-address=127.0.0.1:0", "--web.enable-remote-write-receiver", "--log.level=info",
            ]  # fmt: skip
            self._watchdog.start()
            process = self._reactor.spawnProcess(self._process, setsid, words, env=None)
        except OSError as error:
            raise PrometheusError(f"cannot start {self._program}: {plain_reason(error)}") from None
        self._leader = process.pid
        self._watchdog.add(self._leader)
        self._process.ended.addCallback(lambda _: self._give_up())
        deadline = self._reactor.seconds() + _READY_SECONDS
        self._address = await self._within(self._process.address, _READY_SECONDS, "it does not listen")
        while (await self._ask(b"GET", "/-/ready", None, {}))[0] != 200:
            if self._reactor.seconds() > deadline:
                raise PrometheusError(f"Prometheus does not get ready: {self._process.last_words()}")
            await deferLater(self._reactor, _ASK_AGAIN_SECONDS)

    async def stop(self) -> None:
        """Stop it, and remove its folder. There is nothing in it that is needed later, so it is killed."""
        if self._leader and not self._process.is_ended:
            with suppress(ProcessLookupError):
                self._groups.signal(self._leader, signal.SIGKILL)
            await self._process.ended
        if self._watchdog is not None and self._leader:
            self._watchdog.remove(self._leader)
        await self._pool.closeCachedConnections()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""

    async def query_range(self, expression: str, begin_ms: int, end_ms: int, step_ms: int) -> list[Result]:
        """The results of an expression from ``begin_ms`` to ``end_ms``, both included.

        :raises QueryError: when the expression is wrong, or cannot be evaluated.
        :raises PrometheusError: when Prometheus does not answer.
        """
        form = {"query": expression, "start": _seconds(begin_ms), "end": _seconds(end_ms), "step": _seconds(step_ms)}
        headers = {"Content-Type": ["application/x-www-form-urlencoded"]}
        status, body = await self._ask(b"POST", "/api/v1/query_range", urlencode(form).encode(), headers)
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError:
            raise PrometheusError(f"Prometheus answers a query with {status}: {_shown(body)}") from None
        if answer.get("status") != "success":
            is_wrong_expression = answer.get("errorType") == "bad_data"
            raise QueryError(printable(str(answer.get("error", "")))[:_SHOWN], is_wrong_expression=is_wrong_expression)
        return [
            Result(row["metric"], [(round(1000 * seconds), value) for seconds, value in row["values"]])
            for row in answer["data"]["result"]
        ]

    async def write(self, message: bytes) -> None:
        """Store samples.

        :param message: a write request of remote write 1.0, compressed.
        :raises PrometheusError: when Prometheus does not take it.
        """
        status, body = await self._ask(b"POST", "/api/v1/write", message, _WRITE_HEADERS)
        if status // 100 != 2:
            raise PrometheusError(f"Prometheus refuses samples with {status}: {_shown(body)}")

    async def _ask(
        self, method: bytes, path: str, content: bytes | None, headers: Mapping[str, Sequence[str]]
    ) -> tuple[int, bytes]:
        if self._process.is_ended:
            raise self._has_died()
        producer = None if content is None else FileBodyProducer(BytesIO(content))
        url = f"http://{self._address}{path}".encode()
        answer = self._agent.request(method, url, Headers(dict(headers)), producer)
        try:
            response = await self._within(answer, _ANSWER_SECONDS, "it does not answer")
            body = read_whole(response, self._address, _MOST_ANSWER_BYTES)
            return response.code, await self._within(body, _ANSWER_SECONDS, "its answer does not end")
        except PrometheusError:
            raise
        except Exception as error:
            # Connections end before the process is known to have ended.
            await deferLater(self._reactor, 10 * _ASK_AGAIN_SECONDS)
            if self._process.is_ended:
                raise self._has_died() from None
            raise PrometheusError(f"Prometheus does not answer: {printable(str(error))[:_SHOWN]}") from None

    async def _within(self, waited: Deferred[Any], seconds: float, problem: str) -> Any:
        """What a Deferred fires with; it is cancelled when that takes too long, and when Prometheus ends."""
        self._waiting.add(waited)
        try:
            return await waited.addTimeout(seconds, self._reactor)
        except (CancelledError, TimeoutError):
            if self._process.is_ended:
                raise self._has_died() from None
            raise PrometheusError(f"Prometheus: {problem} for {seconds:.0f} s: {self._process.last_words()}") from None
        finally:
            self._waiting.discard(waited)

    def _give_up(self) -> None:
        for waited in list(self._waiting):
            waited.cancel()

    def _has_died(self) -> PrometheusError:
        return PrometheusError(f"Prometheus has died: {self._process.last_words()}")


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds // 1000}.{milliseconds % 1000:03d}"


def _shown(body: bytes) -> str:
    return printable(body.decode(errors="replace").strip())[:_SHOWN]
