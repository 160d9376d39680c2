"""What a resource answers with: a status, headers and a body; and the counts of requests (statistics).

Counts are plain numbers: counting a request must cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from http import HTTPStatus
from typing import Final

import orjson

from fakedev.base.errors import Refused
from fakedev.base.histograms import REQUEST_BUCKETS, Histogram
from fakedev.web.encoding import Body
from fakedev.web.http_limits import HttpError

PLAIN: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
#: Reason phrases; twisted.web's take long to import and do not include 431.
_REASONS: Final = {status.value: status.phrase.encode() for status in HTTPStatus}
#: The API's error codes for the statuses of errors without a code.
_CODES: Final = {
    400: "bad-request",
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    408: "timeout",
    409: "conflict",
    413: "too-long",
    500: "internal",
    503: "busy",
}

#: The statuses of refusals by the rules; 400 for other codes.
_REFUSALS: Final = {"busy": 503, "full": 503, "internal": 500}


#: Of every HTML page without a policy of its own: nothing is loaded, no script runs, and no page frames it.
_POLICY: Final = (
    "Content-Security-Policy",
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'",
)


class Response:
    """A status, a body and headers; sending adds Content-Length and similar headers.

    A Response never changes, so one may be kept and sent to many requests.

    :param has_length: whether the head has a Content-Length; the answer to HEAD may do without, where nobody has made
        the body.
    """

    __slots__ = ("_blocks", "_has_length", "body", "content_type", "headers", "status")

    def __init__(
        self,
        status: int = 200,
        body: bytes | Body = b"",
        content_type: str = PLAIN,
        headers: Iterable[tuple[str, str]] = (),
        *,
        has_length: bool = True,
    ) -> None:
        self.status = status
        self._has_length = has_length
        self.body = body if isinstance(body, Body) else Body(body)
        self.content_type = content_type
        self.headers = tuple(headers)
        self._blocks: dict[Body, bytes] = {}

    def block(self, body: Body) -> bytes:
        """Status and headers, after the version and without the blank line; made once for each body.

        :param body: the body to send: ``self.body``, or that by gzip.
        """
        block = self._blocks.get(body)
        if block is not None:
            return block
        fields = list(self.headers)
        # Prometheus refuses a page without a Content-Type, also an empty page.
        if self.body.length or self.status == 200:
            fields.append(("Content-Type", self.content_type))
            fields.append(("Vary", "Accept-Encoding"))
        if self.content_type.startswith("text/html") and _POLICY[0] not in dict(self.headers):
            fields.append(_POLICY)
        if body is not self.body:
            fields.append(("Content-Encoding", "gzip"))
        if self._has_length and self.status not in (204, 304):
            fields.append(("Content-Length", str(body.length)))
        for name, value in fields:
            if not (name + value).isprintable():
                raise ValueError(f"a header cannot be {name}: {value!r}")
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
        reason = _REASONS.get(self.status, b"Unknown Status")
        block = self._blocks[body] = b" %d %b\r\n%b" % (self.status, reason, lines.encode())
        return block


def as_http_error(refusal: Refused, is_item: bool = False) -> HttpError:
    """A refusal by the rules as an answer.

    :param is_item: the path itself names what the refusal is about, so an unknown name is 404.
    """
    status = 404 if is_item and refusal.code == "unknown-name" else _REFUSALS.get(refusal.code, 400)
    return HttpError(status, refusal.text, refusal.code, refusal.where)


def json_response(value: object, status: int = 200, headers: Iterable[tuple[str, str]] = ()) -> Response:
    """``value`` as JSON with a line end, for terminals."""
    body = orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS)
    return Response(status, body, JSON, headers)


def error_response(error: HttpError, as_json: bool) -> Response:
    """``error`` as the API's JSON, or as one line of text."""
    if as_json:
        code = error.code or _CODES.get(error.status, "error")
        content = {"error": {"code": code, "message": error.message, "where": error.where}}
        return json_response(content, error.status, error.headers)
    return Response(error.status, f"{error.message}\n".encode(), PLAIN, error.headers)


class Dropped(Enum):
    """Why a connection was closed that its peer would have kept."""

    FULL = "full"  # there are too many connections
    REFUSED = "refused"  # what it sent is no valid request, or too large
    LATE = "late"  # its request did not arrive in time
    UNREAD = "unread"  # it did not read its answer, or too slowly
    HANDSHAKE = "handshake"  # its TLS handshake failed, or was not done in time
    PLAIN = "plain"  # it does not speak TLS, and the address does


@dataclass(eq=False, slots=True)
class PageStatistics:
    """The requests to one page, or to one group of resources.

    :ivar codes: answers by status; 499: the client left or was dropped before it had its answer.
    :ivar in_flight: requests that are not answered yet.
    """

    codes: dict[int, int] = field(default_factory=dict)
    in_flight: int = 0
    durations: Histogram = field(default_factory=lambda: Histogram(REQUEST_BUCKETS))

    def begun(self) -> None:
        """A request arrived."""
        self.in_flight += 1

    def ended(self, code: int, seconds: float) -> None:
        """A request was answered with ``code``."""
        self.in_flight -= 1
        self.codes[code] = self.codes.get(code, 0) + 1
        self.durations.observe(seconds)


@dataclass
class ScrapeStatistics:
    """The statistics of all pages of an application, by name."""

    pages: dict[str, PageStatistics] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All requests that were answered."""
        return sum(sum(page.codes.values()) for page in self.pages.values())

    def page(self, name: str) -> PageStatistics:
        """The statistics of the page ``name``, made at the first call."""
        return self.pages.setdefault(name, PageStatistics())
