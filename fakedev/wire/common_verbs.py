"""What may be said on every line port."""

from __future__ import annotations

from typing import Final

from fakedev.wire.arguments import Argument, Kind
from fakedev.wire.grammar import Verb

EVERYWHERE: Final = (
    Verb(
        "help",
        "What can be said here, or all about one verb.",
        positionals=[Argument("verb", Kind.TEXT, "VERB", "a verb")],
        answers=["ok N lines"],
    ),
    Verb("quit", "Close this connection.", answers=["ok"]),
)
