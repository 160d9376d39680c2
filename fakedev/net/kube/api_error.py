"""The one error of requests to an API server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from fakedev.spec.errors import printable, shortened

#: The code of an error without an answer.
NO_ANSWER: Final = 0
#: A server that asks for a longer pause is asked again after this time.
LONGEST_PAUSE_SECONDS: Final = 300.0


class ApiError(Exception):
    """A request that the API server refuses, or that has no answer.

    :param code: of HTTP (404, 409, 422, ...); 0: there was no answer.
    :param reason: the API's word for it: ``NotFound``, ``Conflict``, ``Expired``, ...; ``NoConnection``, ``NoAnswer``,
        ``Certificate``, ``Token``, ``Garbled``, ``TooLarge``, ``Broken``, ``Silent``, ``Full`` for what has no code.
    :param message: on one line.
    :param retry_after_seconds: how long the server asks to wait; None: it does not say.
    :param details: of the API's Status: ``name``, ``kind``, ``causes``.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        retry_after_seconds: float | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        self.code = code
        self.reason = reason
        self.message = shortened(printable(message))
        self.retry_after_seconds = retry_after_seconds
        self.details = details or {}
        super().__init__(f"{code} {reason}: {self.message}" if code else self.message)

    @property
    def is_expired(self) -> bool:
        """Whether a resource version is too old: list anew."""
        return self.code == 410 or self.reason in ("Expired", "Gone")


def error_of_status(status: object, code: int = 500, retry_after_seconds: float | None = None) -> ApiError:
    """The error that an object of the kind Status describes; what is missing or wrong in it is left out."""
    if not isinstance(status, Mapping):
        return ApiError(code, "Unknown", "the answer is no Status", retry_after_seconds)
    told = status.get("code")
    details = status.get("details")
    return ApiError(
        told if isinstance(told, int) and told > 0 else code,
        str(status.get("reason") or "Unknown"),
        str(status.get("message") or "no message"),
        retry_after_seconds,
        details if isinstance(details, Mapping) else None,
    )


def error_of_answer(code: int, retry_after: str, body: bytes) -> ApiError:
    """The error that an answer is, whether its body is a Status or a text.

    :param retry_after: the header of this name; only seconds are understood, as API servers write them.
    """
    is_number = retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 10
    seconds = min(float(retry_after), LONGEST_PAUSE_SECONDS) if is_number else None
    try:
        status = orjson.loads(body)
    except ValueError:
        text = body[:1000].decode(errors="replace").strip()
        return ApiError(code, "TooManyRequests" if code == 429 else "Unknown", text or "no message", seconds)
    return error_of_status(status, code, seconds)
