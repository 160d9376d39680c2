"""What a test lets the API server in memory do wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.support.kube.kinds import Address
from tests.support.kube.statuses import StatusError, forbidden

_REASONS = {
    401: ("Unauthorized", "Unauthorized"),
    409: ("Conflict", "the object has been modified; please apply your changes to the latest version and try again"),
    410: ("Expired", "The resourceVersion for the provided watch is too old."),
    429: ("TooManyRequests", "Too many requests, please try again later."),
    500: ("InternalError", "Internal error occurred: etcdserver: request timed out"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: ("Timeout", "Timeout: request did not complete within the allotted timeout"),
}


@dataclass
class Failure:
    """Requests that fail.

    :param verb: empty: every verb.
    :param resource: as rules of roles name it (``nodes/status``); empty: every one.
    :param times: how many requests still fail; -1: all.
    :param code: of the answer; 0: none, the connection is cut.
    """

    verb: str
    resource: str
    code: int
    times: int = 1
    retry_after_seconds: int | None = None
    message: str = ""

    def error(self, verb: str, address: Address) -> StatusError:
        """The answer."""
        if self.code == 403:
            return forbidden(verb, address)
        reason, message = _REASONS.get(self.code, ("Unknown", "failed by the test"))
        headers = {"Retry-After": str(self.retry_after_seconds)} if self.retry_after_seconds is not None else {}
        # API priority and fairness answers in plain text.
        text = f"{message}\n" if self.code == 429 else ""
        return StatusError(self.code, reason, self.message or message, {}, headers, text)


class Failures:
    """All failures that are switched on."""

    def __init__(self) -> None:
        self._active: list[Failure] = []
        self.token: str | None = None
        self.slow_seconds = 0.0

    def add(self, failure: Failure) -> Failure:
        """Switch a failure on."""
        self._active.append(failure)
        return failure

    def clear(self) -> None:
        """Everything works again; the token is not changed."""
        self._active.clear()
        self.slow_seconds = 0.0

    def remove(self, failure: Failure) -> None:
        """Switch a failure off, if it is on."""
        if failure in self._active:
            self._active.remove(failure)

    def check_token(self, authorization: str | None) -> None:
        """
        :raises StatusError: 401 without the right token.
        """
        if self.token is not None and authorization != f"Bearer {self.token}":
            raise StatusError(401, "Unauthorized", "Unauthorized")

    def next_for(self, verb: str, address: Address) -> Failure | None:
        """The failure of a request; it counts as used."""
        for failure in self._active:
            if failure.verb in ("", verb) and failure.resource in ("", address.resource):
                failure.times -= 1
                if not failure.times:
                    self._active.remove(failure)
                return failure
        return None


def error_event(error: StatusError) -> dict[str, Any]:
    """An error as an event within a watch."""
    return {"type": "ERROR", "object": error.status}
