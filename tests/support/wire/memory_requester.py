"""A client of an application in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fakedev.client.http import Reply
from tests.support.application import MemoryApplication


class MemoryRequester:
    """Sends the requests of a client to an application in memory, and lets the reactor turn until they are answered.

    :ivar asked: the requests, as method and path.
    """

    def __init__(self, app: MemoryApplication) -> None:
        self._app = app
        self.asked: list[str] = []

    def ask(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], still: Callable[[], object] | None
    ) -> Reply:
        """The answer to a request."""
        self.asked.append(f"{method} {path}")
        lines = ["Host: localhost", *(f"{name}: {value}" for name, value in headers.items())]
        answer = self._app.ask(method, path, body, headers="".join(f"{line}\r\n" for line in lines))
        return Reply(answer.status, answer.headers, answer.body)
