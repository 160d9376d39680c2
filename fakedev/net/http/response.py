"""What a resource answers with: a status, headers and a body."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

import orjson
from twisted.internet.interfaces import IReactorTime

from fakedev import __version__
from fakedev.net.http.body import Body
from fakedev.spec.errors import Refused

PLAIN: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
#: Not those of twisted.web, which takes long to import and does not know 431.
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
    501: "not-implemented",
    503: "busy",
}

#: The statuses of refusals by the rules; 400 for other codes.
_REFUSALS: Final = {"busy": 503, "full": 503, "internal": 500}



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
        self._blocks: dict[bool, bytes] = {}

    def block(self, body: Body, gzip: bool) -> bytes:
        """Status and headers, after the version and without the blank line.

        :param body: the body to send: ``self.body``, or that by gzip.
        """
        block = self._blocks.get(gzip)
        if block is None:
            block = self._blocks[gzip] = self._make_block(body.length, gzip)
        return block

    def _make_block(self, length: int, gzip: bool) -> bytes:
        fields = list(self.headers)
        # Prometheus refuses a page without a Content-Type, also an empty page.
        if self.body.length or self.status == 200:
            fields.append(("Content-Type", self.content_type))
            fields.append(("Vary", "Accept-Encoding"))
        if gzip:
            fields.append(("Content-Encoding", "gzip"))
        if self._has_length and self.status not in (204, 304):
            fields.append(("Content-Length", str(length)))
        for name, value in fields:
            if not (name + value).isprintable():
                raise ValueError(f"a header cannot be {name}: {value!r}")
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
        reason = _REASONS.get(self.status, b"Unknown Status")
        return b" %d %b\r\n%b" % (self.status, reason, lines.encode())


@dataclass
class CommonHeaders:
    """The header lines that every answer has: the name of this program, the date, and further ones."""

    _reactor: IReactorTime
    _second: int = -1
    _lines: bytes = b""
    _more: bytes = b""

    def add(self, headers: Iterable[tuple[str, str]]) -> None:
        """Use these headers, in place of others that were added."""
        self._more = "".join(f"{name}: {value}\r\n" for name, value in headers).encode()
        self._second = -1

    def lines(self) -> bytes:
        """The lines, made once a second."""
        second = int(self._reactor.seconds())
        if second != self._second:
            self._second = second
            server = f"fakedev/{__version__} (simulated)".encode()
            date = formatdate(second, usegmt=True).encode()
            self._lines = b"Server: %b\r\nDate: %b\r\n%b" % (server, date, self._more)
        return self._lines


class HttpError(Exception):
    """Raised by a resource to answer with an error.

    :param code: the API's error code; by the status when empty.
    :param where: the part of the request that is wrong.
    """

    def __init__(
        self, status: int, message: str, code: str = "", where: str = "", headers: Iterable[tuple[str, str]] = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.where = where
        self.headers = tuple(headers)


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
