"""The backend port of the work queue: jobs go out, reports of their runs come in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from twisted.logger import Logger

from fakedev.net.lines.peer import Peer
from fakedev.net.queues.port import (
    MAX_ID,
    MAX_JOBS,
    QueuePortFactory,
    QueueSession,
    describe_work,
    job_id_of,
    seconds_of,
    whole_of,
    work_in_words,
)
from fakedev.spec.errors import Refused
from fakedev.wire.bare_queue import LARGEST_EXIT_CODE, parse_bare_ask, parse_bare_result
from fakedev.wire.bare_queue_encoding import encode_bare_no_work, encode_bare_work
from fakedev.wire.errors import ProtocolError
from fakedev.wire.framing import Dialect
from fakedev.wire.grammar import Request
from fakedev.wire.queue_verbs import QUEUE_BACKEND_GRAMMAR, job_withdrawn
from fakedev.wire.replies import Reply
from fakedev.workqueue.job import Job
from fakedev.workqueue.outcome import Report

#: A `take` is answered when its jobs have so many bytes, whatever count it asks for.
_MAX_TAKEN_BYTES: Final = 2**20
_MAX_KEPT_CHARACTERS: Final = 1024


class BackendSession(QueueSession):
    """One backend: the jobs that it holds are lost to it when its connection ends.

    :ivar pod, node, device: where it runs, as far as it has reported.
    """

    __slots__ = ("_bare_job", "_held", "device", "node", "pod")
    log = Logger()

    def __init__(self, factory: QueuePortFactory, peer: Peer) -> None:
        super().__init__(factory, peer)
        self.pod = self.node = self.device = ""
        self._held: set[int] = set()
        self._bare_job: int | None = None  # the job of a backend of the original

    def object_received(self, message: bytes) -> None:
        """Give a job to a backend of the original, or take its result."""
        if self._bare_job is None:
            self._take_bare(message)
        else:
            self._finish_bare(self._bare_job, message)
        self._hub.logs.hold_changed(self._peer)

    def encode_bare_error(self, error: ProtocolError) -> bytes:
        """The text of the error; nothing where the original expects no answer."""
        return encode_bare_no_work(error.text) if self._bare_job is None else b""

    def is_working(self) -> bool:
        """Whether the backend holds a job, or waits for one."""
        return bool(self._held or self._peer.pending)

    def quit_received(self) -> None:
        """Return the jobs that the backend holds to their queues."""
        self._hub.broker.worker_quits(self, self._hub.now())
        self._hub.logs.hold_changed(self._peer)

    def peer_left(self) -> None:
        """The backend loses the jobs that it holds, and waits for none."""
        self._hub.broker.worker_left(self, self._hub.now())

    # For the broker

    def offered(self, job: Job, ticket: object) -> None:
        """A `take` that waited gets a job."""
        request = cast("Request", ticket)
        if job.is_durable:
            self._hub.logs.hold_for(job, self._peer)
        self._peer.reply(request, self._give(request, [job]))

    def wait_expired(self, queue: str, ticket: object) -> None:
        """A `take` has waited long enough."""
        request = cast("Request", ticket)
        self._peer.reply(request, self._give(request, []))

    def withdrawn(self, job: Job, reason: str) -> None:
        """The result of a held job is not wanted any more."""
        self._held.discard(job.id)
        self._peer.notify(job_withdrawn(job.id, reason))

    # Verbs about jobs

    def do_hello(self, request: Request) -> Reply:
        """Note where the backend runs."""
        for name in ("node", "pod", "device"):
            setattr(self, name, _short(request.arguments, name, getattr(self, name)))
        return Reply()

    def do_take(self, request: Request) -> Reply | None:
        """Give jobs, or let the request wait for one."""
        hub, queue = self._hub, str(request.arguments["queue"])
        wait_seconds = seconds_of(request.arguments, "wait")
        count = whole_of(request.arguments, "count", 1, MAX_JOBS) or 1
        now = hub.now()
        jobs = hub.broker.take_some(self, queue, now, most=count, most_bytes=_MAX_TAKEN_BYTES)
        if jobs or not wait_seconds:
            return self._give(request, jobs)
        hub.broker.wait(self, queue, request, now + wait_seconds)
        return None

    def do_done(self, request: Request) -> Reply:
        """A run has ended with an exit code."""
        return self._finish(request, Report(_exit_code_of(request), "", 0.0, _run_seconds_of(request.arguments)))

    def do_fail(self, request: Request) -> Reply:
        """A run has failed."""
        exit_code = _exit_code_of(request)
        timeout_seconds = seconds_of(request.arguments, "timeout")
        reason = str(request.arguments.get("reason", ""))
        if not (reason or exit_code or timeout_seconds):
            reason = "failed"  # without a reason it would be a success
        run_seconds = _run_seconds_of(request.arguments)
        return self._finish(request, Report(exit_code, reason, timeout_seconds, run_seconds))

    def do_touch(self, request: Request) -> Reply:
        """Restart the time limit of a job."""
        self._hub.broker.touch(self, job_id_of(request), self._hub.now())
        return Reply()

    def do_release(self, request: Request) -> Reply:
        """Return a job to its queue."""
        job_id = job_id_of(request)
        self._hub.broker.release(self, job_id, self._hub.now())
        self._held.discard(job_id)
        return Reply()

    def do_bury(self, request: Request) -> Reply:
        """Put a job aside."""
        job_id = job_id_of(request)
        reason = _short(request.arguments, "reason", "")
        self._hub.broker.bury(self, job_id, reason, self._hub.now())
        self._held.discard(job_id)
        return Reply()

    # Verbs about queues

    def do_kick(self, request: Request) -> Reply:
        """Queue buried jobs again."""
        count = whole_of(request.arguments, "count", 1, MAX_ID)
        kicked = self._hub.broker.kick(str(request.arguments["queue"]), count, self._hub.now())
        return Reply(f"kicked {len(kicked)}", data={"kicked": [job.id for job in kicked]})

    def do_pause(self, request: Request) -> Reply:
        """Stop giving out jobs."""
        hub = self._hub
        seconds = seconds_of(request.arguments, "duration")
        hub.broker.control.pause(str(request.arguments["queue"]), hub.now() + seconds if seconds else None)
        return Reply()

    def do_drain(self, request: Request) -> Reply:
        """Stop accepting requests."""
        self._hub.broker.control.drain(_queue_of(request))
        return Reply()

    def do_resume(self, request: Request) -> Reply:
        """End a pause and a drain."""
        self._hub.broker.control.resume(_queue_of(request), self._hub.now())
        return Reply()

    # Backends of the original

    def _take_bare(self, message: bytes) -> None:
        bare = parse_bare_ask(message)
        self._peer.log_notes(bare.notes)
        job = self._hub.broker.take(self, bare.queue, self._hub.now(), small_only=True)
        if job is None:
            self._peer.answer_bare(encode_bare_no_work(f"Queue '{bare.queue}' is empty", empty=True))
            return
        self._held.add(job.id)
        self._bare_job = job.id
        self._peer.answer_bare(encode_bare_work(job.arguments, job.limit_seconds), last=False)

    def _finish_bare(self, job_id: int, message: bytes) -> None:
        result = parse_bare_result(message)
        self._peer.log_notes(result.notes)
        report = Report(
            result.exit_code, result.error, result.timeout_seconds, result.run_seconds,
            result.pod, result.node, result.device,
        )  # fmt: skip
        try:
            self._hub.broker.finish(self, job_id, report, self._hub.now())
        except Refused as refused:
            self.log.info("{peer}: a result is dropped: {reason}", peer=self._peer.describe(), reason=refused.text)
        self._held.discard(job_id)
        self._peer.close()

    def _give(self, request: Request, jobs: list[Job]) -> Reply:
        self._held.update(job.id for job in jobs)
        if self._peer.dialect is not Dialect.WORDS:
            return Reply("", {"jobs": [describe_work(job) for job in jobs]})
        lines = [work_in_words(job) for job in jobs]
        return Reply(lines=lines) if "count" in request.arguments else Reply(lines[0] if lines else "empty")

    def _finish(self, request: Request, report: Report) -> Reply:
        job_id = job_id_of(request)
        outcome = self._hub.broker.finish(self, job_id, report, self._hub.now()).outcome.text
        self._held.discard(job_id)
        return Reply(outcome, {"outcome": outcome})


class QueueBackendFactory(QueuePortFactory):
    """Serves a backend port."""

    verbs = QUEUE_BACKEND_GRAMMAR
    session = BackendSession


def _exit_code_of(request: Request) -> int:
    return whole_of(request.arguments, "exit-code", -LARGEST_EXIT_CODE, LARGEST_EXIT_CODE) or 0


def _run_seconds_of(arguments: Mapping[str, object]) -> float | None:
    return seconds_of(arguments, "run") if "run" in arguments else None


def _short(arguments: Mapping[str, object], name: str, default: str) -> str:
    text = str(arguments.get(name, default))
    if len(text) > _MAX_KEPT_CHARACTERS:
        raise ProtocolError("bad-argument", f"{name}: is longer than {_MAX_KEPT_CHARACTERS} characters")
    return text


def _queue_of(request: Request) -> str | None:
    queue = request.arguments.get("queue")
    return None if queue is None else str(queue)
