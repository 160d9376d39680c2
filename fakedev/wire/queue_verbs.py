"""What may be said on both ports of the work queue, and the arguments that both have.

What may be said on the client port of the work queue; doc/protocol-queue.txt tells it in full.

What may be said on the backend port of the work queue; doc/protocol-queue.txt tells it in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fakedev.wire.grammar import EVERYWHERE, Argument, Grammar, Kind, Verb
from fakedev.wire.replies import News
from fakedev.wire.words import quote_word

QUEUE: Final = Argument("queue", Kind.TEXT, "QUEUE", "its name", required=True)
ANY_QUEUE: Final = Argument("queue", Kind.TEXT, "QUEUE", "its name; all queues when not given")
JOB: Final = Argument("job", Kind.WHOLE, "ID", "of the job", required=True)

COMMON_VERBS: Final = (
    Verb("stats", "How the queues are.", positionals=[ANY_QUEUE], answers=["ok N lines"]),
    Verb(
        "list",
        "The queues, or the jobs of one.",
        positionals=[Argument("queue", Kind.TEXT, "QUEUE", "its jobs; the names of the queues when not given")],
        answers=["ok N lines"],
    ),
    *EVERYWHERE,
)

QUEUE_CLIENT_VERBS: Final = (
    Verb(
        "put",
        "Put a request in.",
        positionals=[QUEUE],
        rest=Argument("args", Kind.WORDS, "ARG", "of the command; one like NAME=VALUE comes after --"),
        options=[
            Argument("limit", Kind.DURATION, "DURATION", "of the run, as 90s or 5m; the queue's when not given"),
            Argument("answer", Kind.TEXT, "accepted|ended", "when this is answered; in words accepted when not given"),
        ],
        answers=["ok ID; later: ended ID OUTCOME key=value ...", "with answer=ended: ok ID OUTCOME key=value ..."],
    ),
    Verb("cancel", "End a request of this connection.", positionals=[JOB], answers=["ok"]),
    *COMMON_VERBS,
)

QUEUE_CLIENT_GRAMMAR: Final = Grammar(QUEUE_CLIENT_VERBS)


def result_text(result: Mapping[str, object]) -> str:
    """A result in words: job, outcome, and the rest as key=value, without texts that are empty.

    :param result: ``job``, ``outcome`` and the other keys of a result, in their order; seconds are numbers.
    """
    words = [str(result["job"]), str(result["outcome"])]
    words += [f"{key}={_shown(result[key])}" for key in result if key not in ("job", "outcome") and result[key] != ""]
    return " ".join(words)


def request_ended(result: Mapping[str, object]) -> News:
    """The news that a request is over."""
    return News(f"ended {result_text(result)}", {"event": "ended", **result})


def _shown(value: object) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else quote_word(str(value))

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
