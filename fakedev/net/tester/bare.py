"""The tester's requests in bare JSON: a connection for each, as the original programs have it."""

from __future__ import annotations

from functools import partial

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from fakedev.net.lines.client import BareClient, FrontendConnector, FrontendLost
from fakedev.net.tester.driver import PlanDriver, Reconnection, Requests, lost, report_failure
from fakedev.tester.plan import Plan
from fakedev.wire.bare_queue import BareRequest, BareResult, parse_bare_result
from fakedev.wire.bare_queue_encoding import encode_bare_request
from fakedev.wire.errors import ProtocolError
from fakedev.workqueue.outcome import Answer, Outcome, Report, outcome_of, refusal


class BareRequests(Requests):
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
