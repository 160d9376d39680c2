"""The tester's requests to a queue: as JSON lines and in bare JSON.

JSON lines: all requests of a plan share one connection. Bare JSON: a connection for each request, as the original
programs have it.
"""

from __future__ import annotations

from functools import partial

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from fakedev.lines.grammar import ProtocolError
from fakedev.queues.bare import BareRequest, BareResult, encode_bare_request, parse_bare_result
from fakedev.queues.frontend_client import BareClient, FrontendConnector, FrontendLost, FrontendRefused, JsonClient
from fakedev.queues.job import Answer, Outcome, Report, outcome_of, refusal
from fakedev.queues.messages import (
    Accepted,
    ClientMessage,
    Ended,
    PutForm,
    Refusal,
    encode_cancel,
    parse_client_message,
)
from fakedev.tester.driver import IRequests, PlanDriver, Reconnection, lost, report_failure
from fakedev.tester.plan import Plan


@implementer(IRequests)
class LineRequests:
    """Sends all requests of a plan on one connection.

    :param verbose: log all messages.
    """

    log = Logger()

    def __init__(
        self, plan: Plan, connector: FrontendConnector, asker: PlanDriver, clock: IReactorTime, verbose: bool = False
    ) -> None:
        self._form = PutForm(plan.queue, plan.arguments, plan.limit_seconds)
        self._frontend = connector.shown
        self._asker = asker
        self._log = self.log.info if verbose else None
        self._reconnection = Reconnection(connector, self._make_client, self._connected, asker, clock)
        self._client: JsonClient[ClientMessage] | None = None
        self._stopped = False
        self._jobs: dict[int, int | None] = {}  # request to job; None until the frontend has sent its number
        self._requests: dict[int, int] = {}  # job to request
        self._cancelled: set[int] = set()  # requests whose job is cancelled as soon as its number is known

    @property
    def can_start(self) -> bool:
        return self._client is not None and not self._client.is_full

    def start(self) -> None:
        self._reconnection.connect()

    def send(self, number: int) -> None:
        self._jobs[number] = None
        self._send(self._form.encode(number))

    def cancel_request(self, number: int) -> None:
        job = self._jobs.pop(number)
        if job is None:
            self._cancelled.add(number)
        else:
            self._cancel_job(job)

    def stop(self) -> None:
        self._stopped = True
        self._reconnection.stop()
        if self._client is not None:
            self._client.abort()

    def _make_client(self) -> JsonClient[ClientMessage]:
        return JsonClient(parse_client_message, self._received, self._lost, writable=self._writable, log=self._log)

    def _connected(self, client: JsonClient[ClientMessage]) -> None:
        self._client = client
        self._asker.may_start()

    def _received(self, message: ClientMessage) -> None:
        if isinstance(message, Refusal) and message.request is None:
            assert self._client is not None
            self._client.fail(
                FrontendRefused(f"the frontend refuses the connection: {message.code}: {message.text}")
            )
            return
        self._reconnection.succeeded()
        match message:
            case Accepted(number, job) if number in self._cancelled:
                self._cancelled.discard(number)
                self._cancel_job(job)
            case Accepted(number, job) if number in self._jobs:
                self._jobs[number] = job
                self._requests[job] = number
            case Refusal(int(number), code, text) if number in self._jobs:
                del self._jobs[number]
                self._asker.answered(number, refusal(f"{code}: {text}"))
            case Refusal(int(number)):
                self._cancelled.discard(number)
            case Ended(job) if job in self._requests:
                number = self._requests.pop(job)
                if self._jobs.pop(number, None) is not None:
                    self._asker.answered(number, _answer(message))

    def _writable(self) -> None:
        if self.can_start:
            self._asker.may_start()

    def _lost(self, fault: Exception) -> None:
        if self._stopped:
            return
        self._client = None
        self.log.warn("{frontend}: {reason}", frontend=self._frontend, reason=str(fault))
        pending, self._jobs, self._requests, self._cancelled = self._jobs, {}, {}, set()
        for number in pending:
            self._asker.answered(number, lost(str(fault)))
        self._reconnection.retry()

    def _send(self, line: bytes) -> None:
        assert self._client is not None
        self._client.send(line)

    def _cancel_job(self, job: int) -> None:
        self._requests.pop(job, None)
        self._send(encode_cancel(job))


def _answer(ended: Ended) -> Answer:
    try:
        outcome = Outcome(ended.outcome)
    except ValueError:
        return lost(f"the frontend sent an unknown outcome: {ended.outcome}")
    return Answer(outcome, *ended[2:])


@implementer(IRequests)
class BareRequests:
    """Sends each request of a plan on its own connection.

    :param verbose: log all messages.
    """

    log = Logger()

    def __init__(
        self, plan: Plan, connector: FrontendConnector, asker: PlanDriver, clock: IReactorTime, verbose: bool = False
    ) -> None:
        self._message = encode_bare_request(BareRequest(plan.queue, plan.arguments, plan.limit_seconds))
        self._connector = connector
        self._asker = asker
        self._log = self.log.info if verbose else None
        self._reconnection = Reconnection(connector, self._make_client, self._found, asker, clock)
        self._connecting: dict[int, Deferred[None]] = {}
        self._clients: dict[int, BareClient[BareResult]] = {}
        self._spare: BareClient[BareResult] | None = None  # the connection that showed that the frontend is there
        self._is_away = True

    @property
    def can_start(self) -> bool:
        return not self._is_away

    def start(self) -> None:
        self._reconnection.connect()

    def send(self, number: int) -> None:
        spare, self._spare = self._spare, None
        if spare is not None and not spare.is_lost:
            self._ask(number, spare)
            return
        connecting = Deferred.fromCoroutine(self._connect(number))
        if not connecting.called:
            self._connecting[number] = connecting
        connecting.addErrback(report_failure, self.log)

    def cancel_request(self, number: int) -> None:
        connecting = self._connecting.pop(number, None)
        if connecting is not None:
            connecting.cancel()
        client = self._clients.pop(number, None)
        if client is not None:
            client.abort()

    def stop(self) -> None:
        self._reconnection.stop()
        for number in [*self._connecting, *self._clients]:
            self.cancel_request(number)
        if self._spare is not None:
            self._spare.abort()

    def _make_client(self) -> BareClient[BareResult]:
        return BareClient(parse_bare_result, log=self._log)

    async def _connect(self, number: int) -> None:
        try:
            client = await self._connector.connect(self._make_client)
        except FrontendLost as reason:
            self._connecting.pop(number, None)
            # Before the answer: its receiver must not start the next request while there is no frontend.
            if not self._is_away:
                self.log.warn("{reason}; trying again", reason=reason)
                self._is_away = True
                self._reconnection.retry()
            self._asker.answered(number, lost(str(reason)))
            return
        self._connecting.pop(number, None)
        self._ask(number, client)

    def _ask(self, number: int, client: BareClient[BareResult]) -> None:
        self._clients[number] = client
        client.request(self._message, partial(self._answered, number, client), partial(self._failed, number, client))

    def _answered(self, number: int, client: BareClient[BareResult], result: BareResult) -> None:
        del self._clients[number]
        self._asker.answered(number, answer_of(result))
        client.close()

    def _failed(self, number: int, client: BareClient[BareResult], fault: Exception) -> None:
        is_refusal = isinstance(fault, ProtocolError) and fault.code == "busy"
        del self._clients[number]
        self._asker.answered(number, refusal(str(fault)) if is_refusal else lost(str(fault)))
        client.abort()

    def _found(self, client: BareClient[BareResult]) -> None:
        self._reconnection.succeeded()
        self._is_away = False
        self._spare = client
        self._asker.may_start()
        if self._spare is not None:
            # A silent connection stops the original frontend.
            self._spare.abort()
            self._spare = None


def answer_of(result: BareResult) -> Answer:
    """The answer to a request whose frontend speaks bare JSON, which names no outcome.

    An answer without any backend's name is a refusal when the request did not wait; when it did, its backend was lost.
    """
    outcome = outcome_of(Report(result.exit_code, result.error, result.timeout_seconds))
    if outcome is Outcome.FAILURE and not (result.pod or result.node or result.device or result.run_seconds):
        outcome = Outcome.LOST if result.wait_seconds else Outcome.REFUSED
    pod, node, device, error, timeout_seconds, run_seconds, wait_seconds, exit_code, _ = result
    return Answer(outcome, exit_code, error, timeout_seconds, run_seconds, wait_seconds, pod, node, device)
