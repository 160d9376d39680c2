"""The client port of the work queue: requests come in, results go back."""

from __future__ import annotations

from typing import Any, Final

from zope.interface import implementer

from fakedev.lines.framing import BARE, WORDS
from fakedev.lines.grammar import ProtocolError, Request
from fakedev.lines.json_lines import Reply
from fakedev.queues.bare import BareResult, encode_bare_answer, fits_bare_work, parse_bare_request
from fakedev.queues.job import Answer, IClient, Job
from fakedev.queues.job_ends import ARGUMENT_BYTES
from fakedev.queues.port import QueuePortFactory, QueueProtocol, describe_result, job_id_of, seconds_of
from fakedev.queues.verbs import QUEUE_CLIENT_GRAMMAR, request_ended, result_text

_ANSWERS: Final = ("accepted", "ended")


@implementer(IClient)
class QueueClientProtocol(QueueProtocol):
    """A connection of a client.

    Its requests live as long as it is connected, but for those that a durable queue has promised. Its verbs are in
    ``QUEUE_CLIENT_GRAMMAR`` and doc/protocol-queue.txt. A bare object is the request of a client of the original.
    """

    grammar = QUEUE_CLIENT_GRAMMAR
    _sent_object = False

    def object_received(self, message: bytes) -> None:
        if self._sent_object:
            raise ProtocolError("bad-argument", "a connection of the original carries one request", fatal=True)
        self._sent_object = True
        bare = parse_bare_request(message)
        self.log_notes(bare.notes)
        self._put(bare.queue, bare.arguments, bare.limit_seconds)

    def encode_bare_error(self, error: ProtocolError) -> bytes:
        return encode_bare_answer(BareResult(error=error.text, exit_code=1))

    def is_working(self) -> bool:
        return self._hub.broker.is_owner(self)

    def peer_left(self) -> None:
        if self.is_working():
            self._hub.broker.client_left(self, self._hub.now())

    def answered(self, job: Job, answer: Answer) -> None:
        """The broker has ended a request; the job's ticket is the message to answer now, if there is one."""
        self._hub.logs.hold_for(job, self)
        if self.dialect is BARE:
            self.answer_bare(encode_bare_answer(BareResult(
                answer.pod, answer.node, answer.device, answer.error,
                answer.timeout_seconds, answer.run_seconds, answer.wait_seconds, answer.exit_code,
            )))  # fmt: skip
            return
        result = describe_result(job.id, answer)
        request: Any = job.ticket
        if request is None:
            self.notify(request_ended(result))
        elif self.dialect is WORDS:
            self.reply(request, Reply(result_text(result)))
        else:
            self.reply(request, Reply("", result))

    def do_put(self, request: Request) -> Reply | None:
        arguments = request.arguments
        args: Any = arguments.get("args", ())
        answer = arguments.get("answer", "accepted" if self.dialect is WORDS else "ended")
        if answer not in _ANSWERS:
            raise ProtocolError("bad-argument", "answer: must be accepted or ended")
        ticket = request if answer == "ended" else None
        job = self._put(
            str(arguments["queue"]), tuple(args), seconds_of(arguments, "limit"), ticket, is_promised=ticket is None
        )
        return None if ticket is not None else Reply(str(job.id), {"job": job.id})

    def do_cancel(self, request: Request) -> Reply:
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
        is_large = not fits_bare_work(arguments, limit_seconds or self._hub.broker.run_time_limit_seconds(queue))
        return self._hub.broker.put(
            self, queue, arguments, limit_seconds, size_bytes, self._hub.now(),
            is_large=is_large, ticket=ticket, is_promised=is_promised,
        )  # fmt: skip


class QueueClientFactory(QueuePortFactory):
    """Serves a client port."""

    protocol = QueueClientProtocol
