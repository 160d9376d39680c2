"""The verbs and notifications of the two queue ports (client and backend).

doc/protocol-queue.txt describes the verbs and notifications in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fakedev.lines.grammar import SHARED_VERBS, Argument, Grammar, Kind, Verb
from fakedev.lines.json_lines import Notification
from fakedev.lines.words import quote_word

QUEUE: Final = Argument("queue", Kind.TEXT, "QUEUE", "name of the queue", required=True)
ANY_QUEUE: Final = Argument("queue", Kind.TEXT, "QUEUE", "name of the queue; default: all queues")
JOB: Final = Argument("job", Kind.WHOLE, "ID", "id of the job", required=True)
_EXIT_CODE: Final = Argument("exit-code", Kind.WHOLE, "EXITCODE", "exit code; 128 + N for signal N", required=True)
_RUN: Final = Argument("run", Kind.DURATION, "DURATION", "how long the command ran; default: measured by the frontend")
_REASON: Final = Argument("reason", Kind.TEXT, "REASON", "the reason, as text")

COMMON_VERBS: Final = (
    Verb("stats", "Show the state of the queues.", positionals=[ANY_QUEUE], answers=["ok N lines"]),
    Verb(
        "list",
        "List the queues, or the jobs of one.",
        positionals=[Argument("queue", Kind.TEXT, "QUEUE", "list the jobs of this queue; default: list the queues")],
        answers=["ok N lines"],
    ),
    *SHARED_VERBS,
)

QUEUE_CLIENT_VERBS: Final = (
    Verb(
        "put",
        "Put a request into a queue.",
        positionals=[QUEUE],
        rest=Argument("args", Kind.WORDS, "ARG", "argument of the command; write -- before one like NAME=VALUE"),
        options=[
            Argument("limit", Kind.DURATION, "DURATION", "time limit, e.g. 90s or 5m; default: the queue's"),
            Argument("answer", Kind.TEXT, "accepted|ended", "when put is answered; default in words: accepted"),
        ],
        answers=["ok ID; later: ended ID OUTCOME key=value ...", "with answer=ended: ok ID OUTCOME key=value ..."],
    ),
    Verb("cancel", "End a request of this connection.", positionals=[JOB], answers=["ok"]),
    *COMMON_VERBS,
)

QUEUE_CLIENT_GRAMMAR: Final = Grammar(QUEUE_CLIENT_VERBS)

QUEUE_BACKEND_VERBS: Final = (
    Verb(
        "hello",
        "Identify this backend.",
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
            Argument("wait", Kind.DURATION, "DURATION", "how long to wait for a job if there is none"),
            Argument("count", Kind.WHOLE, "N", "up to N jobs"),
        ],
        answers=["ok ID limit-seconds=S attempt=N ARG ...", "ok empty", "with count=: ok N lines"],
    ),
    Verb(
        "done",
        "Report that the command ended.",
        positionals=[JOB, _EXIT_CODE],
        options=[_RUN],
        answers=["ok OUTCOME"],
    ),
    Verb(
        "fail",
        "Report that the command failed, or could not run.",
        positionals=[JOB, _EXIT_CODE],
        rest=_REASON,
        options=[_RUN, Argument("timeout", Kind.DURATION, "DURATION", "the time limit, if it ended the command")],
        answers=["ok OUTCOME"],
    ),
    Verb("touch", "Restart the time limit of a job.", positionals=[JOB], answers=["ok"]),
    Verb("release", "Return a job to its old place in the queue.", positionals=[JOB], answers=["ok"]),
    Verb("bury", "Bury a job; its client receives lost.", positionals=[JOB], rest=_REASON, answers=["ok"]),
    Verb(
        "kick",
        "Return buried jobs to the queue.",
        positionals=[QUEUE, Argument("count", Kind.WHOLE, "COUNT", "up to COUNT jobs; default: all")],
        answers=["ok kicked N"],
    ),
    Verb(
        "pause",
        "Stop handing out jobs.",
        positionals=[QUEUE, Argument("duration", Kind.DURATION, "DURATION", "how long; default: until resume")],
        answers=["ok"],
    ),
    Verb("drain", "Stop accepting requests.", positionals=[ANY_QUEUE], answers=["ok"]),
    Verb("resume", "End pause and drain.", positionals=[ANY_QUEUE], answers=["ok"]),
    *COMMON_VERBS,
)

QUEUE_BACKEND_GRAMMAR: Final = Grammar(QUEUE_BACKEND_VERBS)


def result_text(result: Mapping[str, object]) -> str:
    """A result in words: job, outcome, and the rest as key=value, without empty texts.

    :param result: ``job``, ``outcome`` and the other keys of a result, in order; seconds are numbers.
    """
    words = [str(result["job"]), str(result["outcome"])]
    words += [f"{key}={_shown(result[key])}" for key in result if key not in ("job", "outcome") and result[key] != ""]
    return " ".join(words)


def request_ended(result: Mapping[str, object]) -> Notification:
    return Notification(f"ended {result_text(result)}", {"event": "ended", **result})


def job_withdrawn(job_id: int, reason: str) -> Notification:
    """The notification that the frontend withdrew a job that the backend holds."""
    return Notification(f"withdrawn {job_id} {reason}", {"event": "withdrawn", "job": job_id, "reason": reason})


def _shown(value: object) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else quote_word(str(value))
