"""The backend port of the work queue: jobs go out, reports of their runs come in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from twisted.logger import Logger

from fakedev.net.queues.hub import QueueHub
from fakedev.net.queues.port import (
    MAX_JOBS,
    QueuePeer,
    QueuePortFactory,
    describe_work,
    seconds_of,
    whole_of,
    work_in_words,
)
from fakedev.wire.bare_queue import LARGEST_EXIT_CODE, parse_bare_ask, parse_bare_result
from fakedev.wire.bare_queue_encoding import encode_bare_no_work, encode_bare_work
from fakedev.wire.errors import ProtocolError
from fakedev.wire.framing import Dialect
from fakedev.wire.grammar import Request
from fakedev.wire.queue_verbs import QUEUE_BACKEND_GRAMMAR, job_withdrawn
from fakedev.wire.replies import Reply
from fakedev.workqueue.job import Job
from fakedev.workqueue.outcome import Report
from fakedev.workqueue.spec import Refused

_MAX_ID: Final = 2**63
#: Of the jobs of one answer: then it has enough, whatever it asked for.
_MAX_GIVEN_BYTES: Final = 2**20
_MAX_KEPT_CHARACTERS: Final = 1024


class QueueBackendPeer(QueuePeer):
    """A peer of the backend port; the jobs it holds are lost to it when it leaves.

    :ivar pod, node, device: where it is, as far as it has said.
    """

    log = Logger()
    factory: QueueBackendFactory

    def __init__(self) -> None:
        super().__init__()
        self.pod = self.node = self.device = ""
        self._held: set[int] = set()
        self._bare_job: int | None = None  # that was given to a backend of the original

    def peerQuits(self) -> None:
        """The jobs that the peer holds wait again."""
        hub = self.factory.hub
        hub.broker.worker_quits(self, hub.now())
        self.factory.fair_share.afterwards(hub)

    def peerLeft(self) -> None:
        """The jobs that the peer holds are lost to it, and it waits for none."""
        hub = self.factory.hub
        hub.broker.worker_left(self, hub.now())
        self.factory.fair_share.afterwards(hub)

    def is_working(self) -> bool:
        """Whether the peer holds a job, or waits for one."""
        return bool(self._held or self.pending_requests)

    def offered(self, job: Job, ticket: Any) -> None:
        """The broker gives a job for which a request of the peer waited."""
        self.reply(ticket, self._given(ticket, [job]))

    def wait_expired(self, queue: str, ticket: Any) -> None:
        """The broker says that a request has waited long enough."""
        self.reply(ticket, self._given(ticket, []))

    def withdrawn(self, job: Job, reason: str) -> None:
        """The broker says that nothing is wanted any more of a job that the peer holds."""
        self._held.discard(job.id)
        self.tell(job_withdrawn(job.id, reason))

    # -- the verbs about jobs ----------------------------------------------------------------------

    def do_hello(self, request: Request) -> Reply:
        """Note who the peer is."""
        for name in ("node", "pod", "device"):
            setattr(self, name, _short(request.arguments, name, getattr(self, name)))
        return Reply()

    def do_take(self, request: Request) -> Reply | None:
        """Give jobs, or let the request wait for one."""
        hub = self.factory.hub
        queue = str(request.arguments["queue"])
        wait_seconds = seconds_of(request.arguments, "wait")
        count = whole_of(request.arguments, "count", 1, MAX_JOBS) or 1
        now = hub.now()
        jobs: list[Job] = []
        given_bytes = 0
        try:
            while len(jobs) < count and given_bytes < _MAX_GIVEN_BYTES:
                job = hub.broker.take(self, queue, now)
                if job is None:
                    break
                jobs.append(job)
                given_bytes += job.size_bytes
        except Refused:
            if not jobs:  # those that it has got already must be told
                raise
        if jobs or not wait_seconds:
            return self._given(request, jobs)
        hub.broker.wait(self, queue, request, now + wait_seconds)
        return None

    def do_done(self, request: Request) -> Reply:
        """A run has ended by itself."""
        return self._run_over(request, Report(_exit_code(request), "", 0.0, _run_seconds(request.arguments)))

    def do_fail(self, request: Request) -> Reply:
        """A run has failed."""
        exit_code = _exit_code(request)
        timeout_seconds = seconds_of(request.arguments, "timeout")
        reason = str(request.arguments.get("reason", ""))
        if not (reason or exit_code or timeout_seconds):
            reason = "failed"  # or else it would be a success
        run_seconds = _run_seconds(request.arguments)
        return self._run_over(request, Report(exit_code, reason, timeout_seconds, run_seconds))

    def do_touch(self, request: Request) -> Reply:
        """The limit of a job counts from now."""
        self.factory.hub.broker.touch(self, _job_id(request), self.factory.hub.now())
        return Reply()

    def do_release(self, request: Request) -> Reply:
        """A job waits again."""
        job_id = _job_id(request)
        self.factory.hub.broker.release(self, job_id, self.factory.hub.now())
        self._held.discard(job_id)
        return Reply()

    def do_bury(self, request: Request) -> Reply:
        """A job is put aside."""
        job_id = _job_id(request)
        reason = _short(request.arguments, "reason", "")
        self.factory.hub.broker.bury(self, job_id, reason, self.factory.hub.now())
        self._held.discard(job_id)
        return Reply()

    # -- the verbs about queues --------------------------------------------------------------------

    def do_kick(self, request: Request) -> Reply:
        """Put buried jobs in again."""
        count = whole_of(request.arguments, "count", 1, _MAX_ID)
        kicked = self.factory.hub.broker.kick(str(request.arguments["queue"]), count, self.factory.hub.now())
        return Reply(f"kicked {len(kicked)}", data={"kicked": [job.id for job in kicked]})

    def do_pause(self, request: Request) -> Reply:
        """Hand nothing out."""
        hub = self.factory.hub
        seconds = seconds_of(request.arguments, "duration")
        hub.broker.control.pause(str(request.arguments["queue"]), hub.now() + seconds if seconds else None)
        return Reply()

    def do_drain(self, request: Request) -> Reply:
        """Take nothing in."""
        self.factory.hub.broker.control.drain(_any_queue(request))
        return Reply()

    def do_resume(self, request: Request) -> Reply:
        """End pause and drain."""
        self.factory.hub.broker.control.resume(_any_queue(request), self.factory.hub.now())
        return Reply()

    # -- the original's backend --------------------------------------------------------------------

    def bare_asked(self, message: bytes) -> None:
        """Give work to a backend of the original, or take its result."""
        if self._bare_job is None:
            self._bare_take(message)
        else:
            self._bare_finish(self._bare_job, message)

    def bare_failed(self, error: ProtocolError) -> bytes:
        """The error in words; nothing where the original expects no answer."""
        return encode_bare_no_work(error.text) if self._bare_job is None else b""

    def _bare_take(self, message: bytes) -> None:
        asked = parse_bare_ask(message)
        self.note(asked.notes)
        job = self.factory.hub.broker.take(self, asked.queue, self.factory.hub.now(), small_only=True)
        if job is None:
            self.answer_bare(encode_bare_no_work(f"Queue '{asked.queue}' is empty", empty=True))
            return
        self._held.add(job.id)
        self._bare_job = job.id
        self.answer_bare(encode_bare_work(job.arguments, job.limit_seconds), last=False)

    def _bare_finish(self, job_id: int, message: bytes) -> None:
        result = parse_bare_result(message)
        self.note(result.notes)
        report = Report(
            result.exit_code, result.error, result.timeout_seconds, result.run_seconds,
            result.pod, result.node, result.device,
        )  # fmt: skip
        try:
            self.factory.hub.broker.finish(self, job_id, report, self.factory.hub.now())
        except Refused as refused:
            self.log.info("{peer}: a result is dropped: {reason}", peer=self.describe(), reason=refused.text)
        self._held.discard(job_id)
        self.close()

    # -- what follows ------------------------------------------------------------------------------

    def _given(self, request: Request, jobs: list[Job]) -> Reply:
        self._held.update(job.id for job in jobs)
        if self.way is not Dialect.WORDS:
            return Reply("", {"jobs": [describe_work(job) for job in jobs]})
        lines = [work_in_words(job) for job in jobs]
        return Reply(lines=lines) if "count" in request.arguments else Reply(lines[0] if lines else "empty")

    def _run_over(self, request: Request, report: Report) -> Reply:
        job_id = _job_id(request)
        outcome = self.factory.hub.broker.finish(self, job_id, report, self.factory.hub.now()).outcome.value
        self._held.discard(job_id)
        return Reply(outcome, {"outcome": outcome})


class QueueBackendFactory(QueuePortFactory):
    """The peers of one backend port."""

    protocol = QueueBackendPeer

    def __init__(self, hub: QueueHub, clock: Any, **options: Any) -> None:
        super().__init__(QUEUE_BACKEND_GRAMMAR, hub, clock, **options)


def _job_id(request: Request) -> int:
    return whole_of(request.arguments, "job", 1, _MAX_ID) or 0


def _exit_code(request: Request) -> int:
    return whole_of(request.arguments, "exit-code", -LARGEST_EXIT_CODE, LARGEST_EXIT_CODE) or 0


def _run_seconds(arguments: Mapping[str, object]) -> float | None:
    return seconds_of(arguments, "run") if "run" in arguments else None


def _short(arguments: Mapping[str, object], name: str, default: str) -> str:
    """A text that is kept."""
    text = str(arguments.get(name, default))
    if len(text) > _MAX_KEPT_CHARACTERS:
        raise ProtocolError("bad-argument", f"{name}: is longer than {_MAX_KEPT_CHARACTERS} characters")
    return text


def _any_queue(request: Request) -> str | None:
    queue = request.arguments.get("queue")
    return None if queue is None else str(queue)
