"""The tester's requests as JSON lines: all requests of a plan share one connection."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from fakedev.net.lines.client import FrontendConnector, FrontendRefused, JsonClient
from fakedev.net.tester.driver import PlanDriver, Reconnection, Requests, lost
from fakedev.tester.plan import Plan
from fakedev.wire.queue_messages import (
    Accepted,
    ClientMessage,
    Ended,
    PutForm,
    Refusal,
    encode_cancel,
    parse_client_message,
)
from fakedev.workqueue.outcome import Answer, Outcome, refusal


class LineRequests(Requests):
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
