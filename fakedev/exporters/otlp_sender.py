"""Posts the boards of each node to a collector of OpenTelemetry, one after the other, at intervals."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any, Final

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.client import FileBodyProducer
from twisted.web.http_headers import Headers

from fakedev.base.errors import install_extra
from fakedev.exporters.otlp_message import HAS_MESSAGES, message
from fakedev.exporters.settings.otlp import Otlp
from fakedev.fleet.fleet import Fleet
from fakedev.runtime.http_client import ApiError, error_of_answer, make_agent, no_answer, read_whole
from fakedev.runtime.listening import CannotStart
from fakedev.runtime.part import Part
from fakedev.runtime.reactor import IReactor
from fakedev.runtime.tls import CannotConnect
from fakedev.runtime.tls_settings import ApiServer

_HEADERS: Final = {"Content-Type": ["application/x-protobuf"]}
_ANSWER_SECONDS: Final = 10.0
_MOST_ANSWER_BYTES: Final = 65536


class OtlpPart(Part):
    """Sends while it runs. What cannot be sent is dropped: the next message has newer values of the same series.

    :raises CannotStart: without the packages that it needs.
    """

    log = Logger()

    def __init__(self, settings: Otlp, fleet: Fleet, reactor: IReactor) -> None:
        super().__init__("otlp")
        if not HAS_MESSAGES:
            raise CannotStart(f"otlp needs opentelemetry-proto, which is not installed: {install_extra('otlp')}")
        try:
            self._agent, self._pool = make_agent(reactor, ApiServer(settings.url), 1)
        except CannotConnect as error:
            raise CannotStart(f"otlp.url: {settings.url}: {error}") from None
        self._settings, self._fleet, self._reactor = settings, fleet, reactor
        self._sending: Deferred[None] | None = None
        self._calls = LoopingCall(self._send)
        self._calls.clock = reactor
        self._problem = ""

    def problems(self) -> Mapping[str, str]:
        return {"otlp": self._problem and f"{self._settings.url} takes no metrics: {self._problem}"}

    def startService(self) -> None:
        super().startService()
        self._calls.start(self._settings.every_seconds, now=False)

    async def _stopped(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
        await self._pool.closeCachedConnections()

    def stopService(self) -> Deferred[Any]:
        self._calls.stop()
        return gatherResults([super().stopService(), Deferred.fromCoroutine(self._stopped())])

    def _send(self) -> Deferred[None]:
        self._sending = Deferred.fromCoroutine(self._send_all())
        return self._sending.addErrback(self._failed)

    async def _send_all(self) -> None:
        """All nodes at one tick; a reload ends it."""
        compiled, state = self._fleet.compiled, self._fleet.shown
        for node in self._fleet.roster.shown:
            if self._fleet.compiled is not compiled or not self.running:
                return
            body = message(node.name, list(zip(node.devices, self._fleet.labels.facts(node), strict=True)), state)
            await self._post(body)
        self._tell("")

    async def _post(self, body: bytes) -> None:
        """
        :raises ApiError: when the collector does not take it.
        """
        url = self._settings.url
        try:
            asked = self._agent.request(b"POST", url.encode(), Headers(_HEADERS), FileBodyProducer(BytesIO(body)))
            response = await asked.addTimeout(_ANSWER_SECONDS, self._reactor)
            reading = read_whole(response, url, _MOST_ANSWER_BYTES)
            answer = await reading.addTimeout(_ANSWER_SECONDS, self._reactor)
        except Exception as error:
            raise no_answer(error, url) from None
        if response.code // 100 != 2:
            raise error_of_answer(response.code, "", answer)

    def _failed(self, failure: Failure) -> None:
        if not failure.check(ApiError):
            self.log.failure("sending to {url} failed", failure, url=self._settings.url)
        elif self.running:
            self._tell(str(failure.value))

    def _tell(self, problem: str) -> None:
        """Log a problem when it is new, and its end."""
        if problem and problem != self._problem:
            self.log.warn("{url} takes no metrics: {problem}", url=self._settings.url, problem=problem)
        elif self._problem and not problem:
            self.log.info("{url} takes metrics again", url=self._settings.url)
        self._problem = problem
