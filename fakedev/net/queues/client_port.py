"""The client port of the work queue: requests come in, results go back."""

from __future__ import annotations

from typing import Any, Final

from twisted.logger import Logger

from fakedev.net.queues.hub import QueueHub
from fakedev.net.queues.port import QueuePeer, QueuePortFactory, describe_result, seconds_of, whole_of
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

_MAX_ID: Final = 2**63


class QueueClientPeer(QueuePeer):
    """A peer of the client port; its requests live as long as it stays."""

    log = Logger()
    factory: QueueClientFactory

    def __init__(self) -> None:
        super().__init__()
        self._open = 0  # requests that are not over
        self._bare_asked = False

    def peerLeft(self) -> None:
        """The requests of the peer go with it."""
        if self._open:
            hub = self.factory.hub
            hub.broker.client_left(self, hub.now())
            self.factory.fair_share.afterwards(hub)

    def is_working(self) -> bool:
        """Whether a request of the peer waits or runs."""
        return self._open > 0

    def answered(self, job: Job, answer: Answer) -> None:
        """The broker says that a request is over; its ticket is what is answered then, if anything."""
        self._open -= 1
        if self.way is Dialect.BARE:
            self.answer_bare(_bare_answer(answer))
            return
        result = describe_result(job.id, answer)
        request: Any = job.ticket
        if request is None:
            self.tell(request_ended(result))
        elif self.way is Dialect.WORDS:
            self.reply(request, Reply(result_text(result)))
        else:
            self.reply(request, Reply("", result))

    # -- the verbs ---------------------------------------------------------------------------------

    def do_put(self, request: Request) -> Reply | None:
        """Put a request in."""
        arguments = request.arguments
        args: Any = arguments.get("args", ())
        answer = arguments.get("answer", "accepted" if self.way is Dialect.WORDS else "ended")
        if answer not in ("accepted", "ended"):
            raise ProtocolError("bad-argument", "answer: must be accepted or ended")
        ticket = request if answer == "ended" else None
        job = self._put(str(arguments["queue"]), tuple(args), seconds_of(arguments, "limit"), ticket)
        return None if ticket is not None else Reply(str(job.id), {"job": job.id})

    def do_cancel(self, request: Request) -> Reply:
        """End a request of this connection; what waits for it is told first."""
        job_id = whole_of(request.arguments, "job", 1, _MAX_ID) or 0
        self.factory.hub.broker.cancel(self, job_id, self.factory.hub.now())
        return Reply()

    def bare_asked(self, message: bytes) -> None:
        """Put in the request of a client of the original."""
        if self._bare_asked:
            raise ProtocolError("bad-argument", "a connection of the original carries one request", fatal=True)
        self._bare_asked = True
        asked = parse_bare_request(message)
        self.note(asked.notes)
        self._put(asked.queue, asked.arguments, asked.limit_seconds)

    def bare_failed(self, error: ProtocolError) -> bytes:
        """A result with the error in words."""
        return encode_bare_answer(BareResult(error=error.text, exit_code=1))

    def _put(
        self, queue: str, arguments: tuple[str, ...], limit_seconds: float, ticket: Request | None = None
    ) -> Job:
        hub = self.factory.hub
        size_bytes = len("".join(arguments).encode()) + ARGUMENT_BYTES * len(arguments)
        is_large = not fits_bare_work(arguments, limit_seconds or self.factory.run_time_limits.get(queue, 0.0))
        job = hub.broker.put(
            self, queue, arguments, limit_seconds, size_bytes, hub.now(), is_large=is_large, ticket=ticket
        )
        self._open += 1
        return job


class QueueClientFactory(QueuePortFactory):
    """The peers of one client port."""

    protocol = QueueClientPeer

    def __init__(self, hub: QueueHub, clock: Any, **options: Any) -> None:
        super().__init__(QUEUE_CLIENT_GRAMMAR, hub, clock, **options)
        self.read_limits()

    def read_limits(self) -> None:
        """Take the queues' run-time limits from the broker, when these have changed too."""
        self.run_time_limits = {queue.name: queue.run_time_limit_seconds for queue in self.hub.broker.spec.queues}


def _bare_answer(answer: Answer) -> bytes:
    return encode_bare_answer(
        BareResult(
            answer.pod, answer.node, answer.device, answer.error,
            answer.timeout_seconds, answer.run_seconds, answer.wait_seconds, answer.exit_code,
        )
    )  # fmt: skip
