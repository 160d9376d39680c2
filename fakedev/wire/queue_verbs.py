"""What may be said on both ports of the work queue, and the arguments that both have."""

from __future__ import annotations

from typing import Final

from fakedev.wire.arguments import Argument, Kind
from fakedev.wire.common_verbs import EVERYWHERE
from fakedev.wire.grammar import Verb

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
