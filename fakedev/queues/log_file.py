"""The folder, lock and log file of a durable queue, and the thread that writes the log.

Answers wait until the log is written, and are then released.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from fakedev.base.atomic_files import own_folder, replace_whole
from fakedev.base.errors import CannotWrite, plain_reason
from fakedev.base.given_files import open_given
from fakedev.base.histograms import Histogram
from fakedev.lines.grammar import ProtocolError
from fakedev.lines.outbox import Hold
from fakedev.lines.protocol import PortProtocol
from fakedev.queues.broker import Broker
from fakedev.queues.job import Job
from fakedev.queues.log import Batch, DamagedLog, Replayed, RequestLog, replay
from fakedev.runtime.clock import PatientCall
from fakedev.runtime.disk import PRIVATE, LineFile, open_own
from fakedev.runtime.memory import collector_paused

LOG_NAME = "requests.log"
LOCK_NAME = "lock"
#: A typical record has some hundred bytes, the longest 1 MiB.
_LINES_AT_ONCE: Final = 1000


class QueueLogFile:
    """Reads and writes the log of one queue. The writing methods block, and are called one at a time.

    :param folder: made if it is not there; nobody else may use it as long as this object is open.
    :raises CannotWrite: if it cannot be used.
    """

    log = Logger()

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, LOG_NAME)
        self._file: LineFile | None = None
        try:
            os.makedirs(os.path.dirname(os.path.abspath(folder)), 0o700, exist_ok=True)
            own_folder(folder)
            self._lock = open_own(os.path.join(folder, LOCK_NAME))
        except OSError as reason:
            raise CannotWrite(folder, reason) from None
        for unfinished in Path(folder).glob(f".{LOG_NAME}.????????"):  # of a service that was killed
            unfinished.unlink()

    def read(self, queue: str) -> Replayed:
        """The content of the log.

        :raises CannotWrite: if it cannot be read, is damaged, or belongs to another queue.
        """
        try:
            with open_given(self.path) as file:
                length = os.fstat(file.fileno()).st_size
                replayed = replay(file)
        except FileNotFoundError:
            return Replayed("", 0, (), 0)
        except OSError as reason:
            raise CannotWrite(self.path, reason) from None
        except DamagedLog as damage:
            raise CannotWrite(self.path, damage_text(damage, self.path)) from None
        if replayed.queue not in ("", queue):
            text = f"this is the log of the queue '{replayed.queue}', not of '{queue}': give another folder"
            raise CannotWrite(self.path, text)
        if replayed.good_bytes < length:
            self.log.warn(
                "{path}: the last record, at offset {offset}, is incomplete and is removed",
                path=self.path, offset=replayed.good_bytes,
            )  # fmt: skip
        return replayed

    def append(self, lines: Iterable[bytes]) -> None:
        """Add lines; they are on the disk when this returns.

        :raises OSError: and the lines must be written again, by :meth:`rewrite`.
        """
        assert self._file is not None
        self._file.append(_chunks(lines), synced=True)

    def rewrite(self, lines: Iterable[bytes]) -> None:
        """Replace all lines; they are on the disk when this returns.

        :raises OSError: and the file is as before.
        """
        replace_whole(Path(self.path), _chunks(lines), PRIVATE, synced=True)
        before, self._file = self._file, LineFile("log", self.path)
        if before is not None:
            before.close()

    @property
    def size(self) -> int:
        """Of the log, in bytes."""
        return 0 if self._file is None else self._file.size

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        os.close(self._lock)


def damage_text(damage: DamagedLog, path: str) -> str:
    """A damage with its remedy."""
    if damage.offset:
        remedy = f"restore the file, or lose what follows: truncate -s {damage.offset} {path}"
    else:
        remedy = "restore the file, or begin with an empty queue: move it away"
    return f"offset {damage.offset}: {damage.reason}: {remedy}"


def _chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines, joined a few at a time: copying all of a long log would stop the reactor, and take its memory again."""
    remaining = iter(lines)
    while chunk := b"".join(islice(remaining, _LINES_AT_ONCE)):
        yield chunk


#: After a failure the log is written again at this interval.
RETRY_SECONDS: Final = 1.0
#: Of the time that a write takes, with its fsync.
_WRITE_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

#: Calls a function in a thread.
InThread = Callable[[Callable[[], None]], Deferred[None]]


class LogWriter:
    """Writes the log of one queue, one batch at a time: records that come during a write are the next batch.

    :param log: filled by the broker.
    :param broker_changed: called after this writer has changed the broker.
    :ivar writes: the times of the writes.
    """

    logger = Logger()

    def __init__(
        self,
        log: RequestLog,
        file: QueueLogFile,
        broker: Broker,
        clock: IReactorTime,
        in_thread: InThread,
        broker_changed: Callable[[], None],
    ) -> None:
        self.log = log
        self.file = file
        self.writes = Histogram(_WRITE_BUCKETS)
        self._broker = broker
        self._clock = clock
        self._in_thread = in_thread
        self._broker_changed = broker_changed
        self._written = 0  # records
        self._writing: list[Hold] | None = None
        self._batch = Batch()
        self._holds: dict[PortProtocol, Hold] = {}
        self._retry: PatientCall | None = None
        self._idle: list[Deferred[None]] = []

    @property
    def pending_records(self) -> int:
        """Records that are not on the disk."""
        return self.log.records - self._written

    def hold(self, peer: PortProtocol) -> None:
        """Hold the answers of a peer until all records so far are on the disk."""
        if peer not in self._holds:
            self._holds[peer] = peer.hold()

    def flush(self) -> None:
        """Begin to write what is pending, unless a write is under way."""
        if self._writing is not None or self._retry is not None:
            return
        if not self.log.pending:
            self._release([])
            return
        if self.log.is_mostly_over(self.file.size):
            self._begin(self.file.rewrite, self.log.whole())
        else:
            self._begin(self.file.append, None)

    def when_idle(self) -> Deferred[None]:
        """Fires when all is written, or cannot be."""
        done: Deferred[None] = Deferred()
        self._idle.append(done)
        self.flush()
        self._check_idle()
        return done

    def restore(self, replayed: Replayed, now: float) -> None:
        """Restore the requests of the log, and write it again without what is over.

        :raises CannotWrite: if it cannot be written.
        """
        self._broker.restore(self.log, replayed, now)
        self.log.take_batch()
        try:
            self.file.rewrite(self.log.whole())
        except OSError as reason:
            raise CannotWrite(self.file.path, reason) from None
        self._written = self.log.records

    def close(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self.file.close()

    def _begin(self, write: Callable[[Iterable[bytes]], None], lines: list[bytes] | None) -> None:
        self._batch = self.log.take_batch()
        self._writing = list(self._holds.values())
        self._holds = {}
        for hold in self._writing:
            hold.seal()
        records, begun = self.log.records, self._clock.seconds()
        content = self._batch.lines if lines is None else lines

        def succeeded(_: None) -> None:
            self.writes.observe(self._clock.seconds() - begun)
            self._written = records
            self._succeeded()

        self._in_thread(lambda: write(content)).addCallbacks(succeeded, self._failed).addErrback(self._report)

    def _succeeded(self) -> None:
        writing, self._writing, self._batch = self._writing or [], None, Batch()
        if self.log.problem:
            self.logger.info("{path}: can be written again", path=self.file.path)
            self.log.problem = ""
            self._broker.log_works(self.log, self._clock.seconds())
        self._release(writing)
        self._broker_changed()
        self.flush()
        self._check_idle()

    def _release(self, holds: list[Hold]) -> None:
        """Send the answers that waited for a write, and those that no further write is needed for."""
        if not self.log.pending:
            holds = [*holds, *self._holds.values()]
            self._holds = {}
        for hold in holds:
            hold.release()

    def _failed(self, failure: Failure) -> None:
        assert failure.value is not None
        reason = plain_reason(failure.value)
        text = f"queue '{self.log.queue}': {self.file.path} cannot be written: {reason}"
        if not self.log.problem:
            self.logger.error("{text}; the queue accepts and hands out nothing until it can", text=text)
        self.log.problem = text
        holds = [*(self._writing or []), *self._holds.values()]
        self._writing, self._holds = None, {}
        for batch in (self._batch, self.log.take_batch()):
            self._broker.undo(self.log, batch, self._clock.seconds())
        self._batch = Batch()
        # The next write has all open requests, so that nothing of the failed one is missing or half there.
        self._retry = PatientCall(self._clock, RETRY_SECONDS, self._try_again)
        for hold in holds:
            hold.fail(ProtocolError("full", text, fatal=True))
        self._broker_changed()
        self._check_idle()

    def _try_again(self) -> None:
        self._retry = None
        self._begin(self.file.rewrite, self.log.whole())

    def _check_idle(self) -> None:
        if self._writing is None and (self.log.problem or not self.log.pending):
            idle, self._idle = self._idle, []
            for done in idle:
                done.callback(None)

    def _report(self, failure: Failure) -> None:
        self.logger.failure("writing {path}", failure=failure, path=self.file.path)


class LogWriters:
    """The writers of all durable queues; none in most services.

    :ivar by_queue: by the name of the queue.
    """

    def __init__(self) -> None:
        self.by_queue: dict[str, LogWriter] = {}

    def hold_changed(self, peer: PortProtocol) -> None:
        """Hold the answers of a peer until the changes that it has just made are on the disk."""
        for writer in self.by_queue.values():
            if writer.log.changed:
                writer.log.changed = False
                writer.hold(peer)

    def hold_for(self, job: Job, peer: PortProtocol) -> None:
        """Hold the answers of a peer until the changes of a job are on the disk."""
        if job.is_durable:
            self.by_queue[job.queue].hold(peer)

    def flush(self) -> None:
        for writer in self.by_queue.values():
            writer.log.changed = False
            writer.flush()

    @property
    def problem(self) -> str:
        """Why a log cannot be written; empty if all can."""
        return next((writer.log.problem for writer in self.by_queue.values() if writer.log.problem), "")

    def open(
        self,
        broker: Broker,
        clock: IReactorTime,
        unix_seconds: float,
        in_thread: InThread,
        broker_changed: Callable[[], None],
    ) -> None:
        """Open the logs of all durable queues, and restore their requests.

        :param unix_seconds: the time of day.
        :raises CannotWrite: if a log cannot be used.
        """
        now = clock.seconds()
        try:
            for spec in broker.spec.queues:
                if spec.durable:
                    log, file = RequestLog(spec.name, unix_seconds - now), QueueLogFile(spec.durable)
                    writer = LogWriter(log, file, broker, clock, in_thread, broker_changed)
                    self.by_queue[spec.name] = writer
                    with collector_paused():
                        writer.restore(file.read(spec.name), now)
        except CannotWrite:
            self.close()
            raise

    def when_idle(self) -> Deferred[Any]:
        return gatherResults([writer.when_idle() for writer in self.by_queue.values()])

    def close(self) -> None:
        for writer in self.by_queue.values():
            writer.close()
        self.by_queue.clear()
