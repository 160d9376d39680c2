"""The client port of the work queue: requests come in, results go back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from twisted.internet.interfaces import IReactorTime

from fakedev.net.lines.peer import Peer
from fakedev.net.queues.hub import QueueHub
from fakedev.net.queues.port import (
    QueuePortFactory,
    QueueSession,
    describe_result,
    job_id_of,
    seconds_of,
)
from fakedev.wire.bare_queue import BareResult, parse_bare_request
from fakedev.wire.bare_queue_encoding import encode_bare_answer, fits_bare_work
from fakedev.wire.errors import ProtocolError
from fakedev.wire.framing import Dialect
from fakedev.wire.grammar import Request
from fakedev.wire.queue_verbs import QUEUE_CLIENT_GRAMMAR, request_ended, result_text
from fakedev.wire.replies import Reply
from fakedev.workqueue.admission import ARGUMENT_BYTES
from fakedev.workqueue.job import Job
from fakedev.workqueue.outcome import Answer

_ANSWERS: Final = ("accepted", "ended")


class ClientSession(QueueSession):
    """One client: its requests live as long as it is connected, but for those that a durable queue has promised."""

    __slots__ = ("_factory", "_open_requests", "_sent_object")

    def __init__(self, factory: QueueClientFactory, peer: Peer) -> None:
        super().__init__(factory, peer)
        self._factory = factory
        self._open_requests = 0
        self._sent_object = False

    def object_received(self, message: bytes) -> None:
        """Accept the request of a client of the original."""
        if self._sent_object:
            raise ProtocolError("bad-argument", "a connection of the original carries one request", fatal=True)
        self._sent_object = True
        bare = parse_bare_request(message)
        self._peer.log_notes(bare.notes)
        self._put(bare.queue, bare.arguments, bare.limit_seconds)

    def encode_bare_error(self, error: ProtocolError) -> bytes:
        """A result with the text of the error."""
        return encode_bare_answer(BareResult(error=error.text, exit_code=1))

    def is_working(self) -> bool:
        """Whether a request of the client waits or runs."""
        return self._open_requests > 0

    def quit_received(self) -> None:
        """Nothing: requests end with the connection in any case."""

    def peer_left(self) -> None:
        """Cancel the requests of the client."""
        if self._open_requests:
            self._hub.broker.client_left(self, self._hub.now())

    def answered(self, job: Job, answer: Answer) -> None:
        """The broker has ended a request; the job's ticket is the message to answer now, if there is one."""
        self._open_requests -= 1
        if job.is_durable:
            self._hub.logs.hold_for(job, self._peer)
        if self._peer.dialect is Dialect.BARE:
            self._peer.answer_bare(_bare_answer(answer))
            return
        result = describe_result(job.id, answer)
        request = cast("Request | None", job.ticket)
        if request is None:
            self._peer.notify(request_ended(result))
        elif self._peer.dialect is Dialect.WORDS:
            self._peer.reply(request, Reply(result_text(result)))
        else:
            self._peer.reply(request, Reply("", result))

    def do_put(self, request: Request) -> Reply | None:
        """Accept a request."""
        arguments = request.arguments
        args = cast("Sequence[str]", arguments.get("args", ()))
        answer = arguments.get("answer", "accepted" if self._peer.dialect is Dialect.WORDS else "ended")
        if answer not in _ANSWERS:
            raise ProtocolError("bad-argument", "answer: must be accepted or ended")
        ticket = request if answer == "ended" else None
        job = self._put(
            str(arguments["queue"]), tuple(args), seconds_of(arguments, "limit"), ticket, is_promised=ticket is None
        )
        return None if ticket is not None else Reply(str(job.id), {"job": job.id})

    def do_cancel(self, request: Request) -> Reply:
        """End a request of this connection; the message that waits for it is answered first."""
        self._hub.broker.cancel(self, job_id_of(request), self._hub.now())
        return Reply()

    def _put(
        self,
        queue: str,
        arguments: tuple[str, ...],
        limit_seconds: float,
        ticket: Request | None = None,
        is_promised: bool = False,
    ) -> Job:
        size_bytes = len("".join(arguments).encode()) + ARGUMENT_BYTES * len(arguments)
        is_large = not fits_bare_work(arguments, limit_seconds or self._factory.run_time_limits.get(queue, 0.0))
        job = self._hub.broker.put(
            self, queue, arguments, limit_seconds, size_bytes, self._hub.now(),
            is_large=is_large, ticket=ticket, is_promised=is_promised,
        )  # fmt: skip
        self._open_requests += 1
        return job


class QueueClientFactory(QueuePortFactory):
    """Serves a client port.

    :ivar run_time_limits: seconds, by queue; 0 for none.
    """

    verbs = QUEUE_CLIENT_GRAMMAR
    session = ClientSession

    def __init__(self, hub: QueueHub, clock: IReactorTime, **options: Any) -> None:
        super().__init__(hub, clock, **options)
        self.read_limits()

    def read_limits(self) -> None:
        """Read the run-time limits of the queues from the broker, at the start and after a reload."""
        self.run_time_limits = {queue.name: queue.run_time_limit_seconds for queue in self.hub.broker.spec.queues}


def _bare_answer(answer: Answer) -> bytes:
    return encode_bare_answer(
        BareResult(
            answer.pod, answer.node, answer.device, answer.error,
            answer.timeout_seconds, answer.run_seconds, answer.wait_seconds, answer.exit_code,
        )
    )  # fmt: skip
