"""What may be said on the client port of the work queue; doc/protocol-queue.txt tells it in full."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fakedev.wire.arguments import Argument, Kind
from fakedev.wire.grammar import Grammar, Verb
from fakedev.wire.queue_verbs import COMMON_VERBS, JOB, QUEUE
from fakedev.wire.replies import News
from fakedev.wire.words import quote_word

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
