"""What may be said on the backend port of the work queue; doc/protocol-queue.txt tells it in full."""

from __future__ import annotations

from typing import Final

from fakedev.wire.arguments import Argument, Kind
from fakedev.wire.grammar import Grammar, Verb
from fakedev.wire.queue_verbs import ANY_QUEUE, COMMON_VERBS, JOB, QUEUE
from fakedev.wire.replies import News

_EXIT_CODE: Final = Argument("exit-code", Kind.WHOLE, "EXITCODE", "of the command; 128 + N for signal N", required=True)
_RUN: Final = Argument("run", Kind.DURATION, "DURATION", "how long it ran; measured here when not given")
_REASON: Final = Argument("reason", Kind.TEXT, "REASON", "in words")

QUEUE_BACKEND_VERBS: Final = (
    Verb(
        "hello",
        "Say who this backend is.",
        options=[
            Argument("node", Kind.TEXT, "TEXT", "the node it runs on"),
            Argument("pod", Kind.TEXT, "TEXT", "the pod it runs in"),
            Argument("device", Kind.TEXT, "TEXT", "the device it uses"),
        ],
        answers=["ok"],
    ),
    Verb(
        "take",
        "Take the oldest job.",
        positionals=[QUEUE],
        options=[
            Argument("wait", Kind.DURATION, "DURATION", "for one, when there is none"),
            Argument("count", Kind.WHOLE, "N", "up to so many, as are there"),
        ],
        answers=["ok ID limit-seconds=S attempt=N ARG ...", "ok empty", "with count=: ok N lines"],
    ),
    Verb(
        "done",
        "The command ended.",
        positionals=[JOB, _EXIT_CODE],
        options=[_RUN],
        answers=["ok OUTCOME"],
    ),
    Verb(
        "fail",
        "The command failed, or could not be run.",
        positionals=[JOB, _EXIT_CODE],
        rest=_REASON,
        options=[_RUN, Argument("timeout", Kind.DURATION, "DURATION", "the time limit, when it ended the command")],
        answers=["ok OUTCOME"],
    ),
    Verb("touch", "The time limit of a job counts from now.", positionals=[JOB], answers=["ok"]),
    Verb("release", "Give a job back, at its old place.", positionals=[JOB], answers=["ok"]),
    Verb("bury", "Put a job aside; its client is told lost.", positionals=[JOB], rest=_REASON, answers=["ok"]),
    Verb(
        "kick",
        "Put buried jobs in again.",
        positionals=[QUEUE, Argument("count", Kind.WHOLE, "COUNT", "up to so many; all when not given")],
        answers=["ok kicked N"],
    ),
    Verb(
        "pause",
        "Hand no jobs out.",
        positionals=[QUEUE, Argument("duration", Kind.DURATION, "DURATION", "until resume when not given")],
        answers=["ok"],
    ),
    Verb("drain", "Take no requests in.", positionals=[ANY_QUEUE], answers=["ok"]),
    Verb("resume", "End pause and drain.", positionals=[ANY_QUEUE], answers=["ok"]),
    *COMMON_VERBS,
)

QUEUE_BACKEND_GRAMMAR: Final = Grammar(QUEUE_BACKEND_VERBS)


def job_withdrawn(job_id: int, reason: str) -> News:
    """The news that nothing is wanted any more of a job that the backend holds."""
    return News(f"withdrawn {job_id} {reason}", {"event": "withdrawn", "job": job_id, "reason": reason})
