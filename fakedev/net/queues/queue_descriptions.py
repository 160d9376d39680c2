"""Queues and jobs as peers and people are told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fakedev.wire.words import quote_word
from fakedev.workqueue.broker import Broker
from fakedev.workqueue.job import Job, JobState
from fakedev.workqueue.outcome import Answer, Outcome

#: Of the arguments of a job that is only shown: a list tells of many jobs, and each may have 64 KiB of them.
_SHOWN_CHARACTERS: Final = 100
_DOTS: Final = "..."


def describe_queue(broker: Broker, queue: str, now: float) -> dict[str, Any]:
    """How a queue is, by the names of the protocol.

    :raises Refused: ``unknown-name``.
    """
    snapshot = broker.snapshot(queue, now)
    counted = broker.statistics(queue)
    return {
        "queue": snapshot.name,
        "state": snapshot.state,
        "waiting": snapshot.waiting,
        "running": snapshot.running,
        "buried": snapshot.buried,
        "waiting-bytes": snapshot.waiting_bytes,
        "oldest-seconds": _to_microseconds(snapshot.oldest_seconds),
        "workers-idle": snapshot.workers_idle,
        "workers-busy": snapshot.workers_busy,
        "put": counted.puts,
        **{outcome.value: counted.outcomes[outcome] for outcome in Outcome},
        "disconnect": counted.disconnects,
        "buried-total": counted.burials,
    }


def describe_job(job: Job, now: float) -> dict[str, Any]:
    """A job that is not over, by the names of the protocol."""
    described: dict[str, Any] = {
        "job": job.id,
        "state": job.state.value,
        "age-seconds": _to_microseconds(now - job.put_seconds),
        "attempt": job.attempts,
    }
    if job.worker is not None:
        described |= {"node": job.worker.node, "pod": job.worker.pod}
    if job.state is JobState.BURIED:
        (described["reason"],) = _beginning([job.reason])
    return {**described, "args": _beginning(job.arguments)}


def describe_work(job: Job) -> dict[str, Any]:
    """A job that is handed out, for a backend that speaks in JSON lines."""
    return {
        "job": job.id,
        "queue": job.queue,
        "args": job.arguments,
        "limit-seconds": job.limit_seconds,
        "attempt": job.attempts,
        "wait-seconds": _to_microseconds(job.wait_seconds),
    }


def work_in_words(job: Job) -> str:
    """A job that is handed out, for a backend that speaks in words."""
    words = [str(job.id), f"limit-seconds={job.limit_seconds:g}", f"attempt={job.attempts}"]
    return " ".join([*words, *map(quote_word, job.arguments)])


def describe_result(job_id: int, answer: Answer) -> dict[str, Any]:
    """What a client is told of a request that is over."""
    return {
        "job": job_id,
        "outcome": answer.outcome.value,
        "exit-code": answer.exit_code,
        "error": answer.error,
        "timeout-seconds": answer.timeout_seconds,
        "run-seconds": _to_microseconds(answer.run_seconds),
        "wait-seconds": _to_microseconds(answer.wait_seconds),
        "pod": answer.pod,
        "node": answer.node,
        "device": answer.device,
    }


def in_words(described: Mapping[str, Any]) -> str:
    """A name, and what is known of it as key=value, without texts that are empty."""
    (_, name), *others = described.items()
    return " ".join([str(name), *(f"{key}={_shown(value)}" for key, value in others if value != "")])


def job_in_words(described: Mapping[str, Any]) -> str:
    """What describe_job() says."""
    known = {key: value for key, value in described.items() if key != "args"}
    return " ".join([in_words(known), "--", *map(quote_word, described["args"])])


def _beginning(arguments: Sequence[str]) -> list[str]:
    """The arguments, or as many characters of them as are shown, and dots."""
    room = _SHOWN_CHARACTERS
    for place, argument in enumerate(arguments):
        if len(argument) > room:
            return [*arguments[:place], argument[:room] + _DOTS]
        room = max(0, room - len(argument))
    return list(arguments)


def _to_microseconds(seconds: float) -> float:
    """Seconds as they are told; round() takes three times as long."""
    return int(seconds * 1e6 + 0.5) / 1e6


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else quote_word(str(value))
