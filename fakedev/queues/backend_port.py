"""The backend port of the work queue: jobs go out, reports of their runs come in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from zope.interface import implementer

from fakedev.base.errors import Refused
from fakedev.lines.framing import WORDS
from fakedev.lines.grammar import ProtocolError, Request
from fakedev.lines.json_lines import Reply
from fakedev.queues.bare import (
    LARGEST_EXIT_CODE,
    encode_bare_no_work,
    encode_bare_work,
    parse_bare_ask,
    parse_bare_result,
)
from fakedev.queues.job import IWorker, Job, Report
from fakedev.queues.port import (
    MAX_ID,
    MAX_JOBS,
    QueuePortFactory,
    QueueProtocol,
    describe_work,
    job_id_of,
    seconds_of,
    whole_of,
    work_in_words,
)
from fakedev.queues.verbs import QUEUE_BACKEND_GRAMMAR, job_withdrawn

#: Maximum bytes of jobs in the answer to one `take`, whatever count it requests.
_MAX_TAKEN_BYTES: Final = 2**20
_MAX_KEPT_CHARACTERS: Final = 1024


@implementer(IWorker)
class QueueBackendProtocol(QueueProtocol):
    """A connection of a backend: the jobs that it holds are lost to it when the connection ends.

    Its verbs are in ``QUEUE_BACKEND_GRAMMAR`` and doc/protocol-queue.txt. A backend of the original sends two bare
    objects: it requests a job, and later reports its result.

    :ivar pod, node, device: where it runs, as far as it has reported.
    """

    grammar = QUEUE_BACKEND_GRAMMAR
    pod = node = device = ""
    _bare_job: int | None = None  # the job of a backend of the original

    def object_received(self, message: bytes) -> None:
        if self._bare_job is None:
            self._take_bare(message)
        else:
            self._finish_bare(self._bare_job, message)
        self._hub.logs.hold_changed(self)

    def encode_bare_error(self, error: ProtocolError) -> bytes:
        """The text of the error; nothing where the original expects no answer."""
        return encode_bare_no_work(error.text) if self._bare_job is None else b""

    def is_working(self) -> bool:
        return bool(self.pending) or self._hub.broker.is_owner(self)

    def peer_left(self) -> None:
        self._hub.broker.worker_left(self, self._hub.now())

    # For the broker

    def offered(self, job: Job, ticket: object) -> None:
        request: Any = ticket
        self._hub.logs.hold_for(job, self)
        self.reply(request, self._give(request, [job]))

    def wait_expired(self, queue: str, ticket: object) -> None:
        request: Any = ticket
        self.reply(request, self._give(request, []))

    def withdrawn(self, job: Job, reason: str) -> None:
        self.notify(job_withdrawn(job.id, reason))

    # Verbs about jobs

    def do_quit(self, request: Request) -> None:
        self._hub.broker.worker_quits(self, self._hub.now())
        super().do_quit(request)

    def do_hello(self, request: Request) -> Reply:
        for name in ("node", "pod", "device"):
            setattr(self, name, _short(request.arguments, name, getattr(self, name)))
        return Reply()

    def do_take(self, request: Request) -> Reply | None:
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
        return self._finish(request, Report(_exit_code_of(request), "", 0.0, _run_seconds_of(request.arguments)))

    def do_fail(self, request: Request) -> Reply:
        exit_code = _exit_code_of(request)
        timeout_seconds = seconds_of(request.arguments, "timeout")
        reason = str(request.arguments.get("reason", ""))
        if not (reason or exit_code or timeout_seconds):
            reason = "failed"  # without a reason it would be a success
        run_seconds = _run_seconds_of(request.arguments)
        return self._finish(request, Report(exit_code, reason, timeout_seconds, run_seconds))

    def do_touch(self, request: Request) -> Reply:
        self._hub.broker.touch(self, job_id_of(request), self._hub.now())
        return Reply()

    def do_release(self, request: Request) -> Reply:
        self._hub.broker.release(self, job_id_of(request), self._hub.now())
        return Reply()

    def do_bury(self, request: Request) -> Reply:
        job_id = job_id_of(request)
        self._hub.broker.bury(self, job_id, _short(request.arguments, "reason", ""), self._hub.now())
        return Reply()

    # Verbs about queues

    def do_kick(self, request: Request) -> Reply:
        count = whole_of(request.arguments, "count", 1, MAX_ID)
        kicked = self._hub.broker.kick(str(request.arguments["queue"]), count, self._hub.now())
        return Reply(f"kicked {len(kicked)}", data={"kicked": [job.id for job in kicked]})

    def do_pause(self, request: Request) -> Reply:
        hub = self._hub
        seconds = seconds_of(request.arguments, "duration")
        hub.broker.pause(str(request.arguments["queue"]), hub.now() + seconds if seconds else None)
        return Reply()

    def do_drain(self, request: Request) -> Reply:
        queue: Any = request.arguments.get("queue")
        self._hub.broker.drain(queue)
        return Reply()

    def do_resume(self, request: Request) -> Reply:
        queue: Any = request.arguments.get("queue")
        self._hub.broker.resume(queue, self._hub.now())
        return Reply()

    # Backends of the original

    def _take_bare(self, message: bytes) -> None:
        bare = parse_bare_ask(message)
        self.log_notes(bare.notes)
        job = self._hub.broker.take(self, bare.queue, self._hub.now(), small_only=True)
        if job is None:
            self.answer_bare(encode_bare_no_work(f"Queue '{bare.queue}' is empty", empty=True))
            return
        self._bare_job = job.id
        self.answer_bare(encode_bare_work(job.arguments, job.limit_seconds), last=False)

    def _finish_bare(self, job_id: int, message: bytes) -> None:
        result = parse_bare_result(message)
        self.log_notes(result.notes)
        report = Report(
            result.exit_code, result.error, result.timeout_seconds, result.run_seconds,
            result.pod, result.node, result.device,
        )  # fmt: skip
        try:
            self._hub.broker.finish(self, job_id, report, self._hub.now())
        except Refused as refused:
            self.log.info("{peer}: a result is dropped: {reason}", peer=self.describe(), reason=refused.text)
        self.close()

    def _give(self, request: Request, jobs: list[Job]) -> Reply:
        if self.dialect is not WORDS:
            return Reply("", {"jobs": [describe_work(job) for job in jobs]})
        lines = [work_in_words(job) for job in jobs]
        return Reply(lines=lines) if "count" in request.arguments else Reply(lines[0] if lines else "empty")

    def _finish(self, request: Request, report: Report) -> Reply:
        outcome = self._hub.broker.finish(self, job_id_of(request), report, self._hub.now()).outcome.text
        return Reply(outcome, {"outcome": outcome})


class QueueBackendFactory(QueuePortFactory):
    """Serves a backend port."""

    protocol = QueueBackendProtocol


def _exit_code_of(request: Request) -> int:
    return whole_of(request.arguments, "exit-code", -LARGEST_EXIT_CODE, LARGEST_EXIT_CODE) or 0


def _run_seconds_of(arguments: Mapping[str, object]) -> float | None:
    return seconds_of(arguments, "run") if "run" in arguments else None


def _short(arguments: Mapping[str, object], name: str, default: str) -> str:
    text = str(arguments.get(name, default))
    if len(text) > _MAX_KEPT_CHARACTERS:
        raise ProtocolError("bad-argument", f"{name}: is longer than {_MAX_KEPT_CHARACTERS} characters")
    return text
