"""Requests of a peer whose answers come later."""

from __future__ import annotations

from typing import Final

from fakedev.wire.errors import ProtocolError
from fakedev.wire.grammar import Request

#: Requests of one peer that may wait for their answers.
MOST_OWED: Final = 256


class OwedAnswers:
    """Knows which requests were not answered yet, and whether one of them holds up those after it.

    A request with an id may be overtaken; one without must be answered before the next is looked at.
    """

    def __init__(self) -> None:
        self._requests: dict[int, Request] = {}
        #: The request that holds up those after it.
        self.blocking: Request | None = None

    def __bool__(self) -> bool:
        return bool(self._requests)

    def add(self, request: Request) -> None:
        """A request is to be answered.

        :raises ProtocolError: ``full``, when too many wait.
        """
        if len(self._requests) >= MOST_OWED:
            raise ProtocolError("full", f"{MOST_OWED} requests of this connection wait for their answers")
        self._requests[id(request)] = request

    def postpone(self, request: Request) -> bool:
        """The answer of a request comes later, unless it was settled already; whether those after it must wait."""
        if request.id is None and id(request) in self._requests:
            self.blocking = request
            return True
        return False

    def settle(self, request: Request) -> bool:
        """A request is answered now; False when it was before, or was never owed."""
        if self.blocking is request:
            self.blocking = None
        return self._requests.pop(id(request), None) is not None

    def clear(self) -> None:
        """Nobody waits for an answer any more."""
        self._requests.clear()
        self.blocking = None
