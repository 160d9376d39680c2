"""What a resource answers with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import orjson
from twisted.web.http import RESPONSES

from fakedev.net.http.http_body import Body

PLAIN: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"

#: Error codes of the API for statuses that the guard itself answers with.
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


class Response:
    """A status, a body and headers; Content-Length and the like are added when it is sent.

    A Response is not changed after it was made, so one may be kept and given to many requests.
    """

    __slots__ = ("_blocks", "body", "content_type", "headers", "status")

    def __init__(
        self,
        status: int = 200,
        body: bytes | Body = b"",
        content_type: str = PLAIN,
        headers: Iterable[tuple[str, str]] = (),
    ) -> None:
        self.status = status
        self.body = body if isinstance(body, Body) else Body(body)
        self.content_type = content_type
        self.headers = tuple(headers)
        self._blocks: dict[bool, bytes] = {}

    def block(self, body: Body, gzip: bool) -> bytes:
        """Status and headers, after the version and without the blank line.

        :param body: what is sent: ``self.body``, or that by gzip.
        """
        block = self._blocks.get(gzip)
        if block is None:
            block = self._blocks[gzip] = self._make_block(body.length, gzip)
        return block

    def _make_block(self, length: int, gzip: bool) -> bytes:
        fields = list(self.headers)
        # Prometheus refuses a page without a Content-Type, also one that happens to be empty.
        if self.body.length or self.status == 200:
            fields.append(("Content-Type", self.content_type))
            fields.append(("Vary", "Accept-Encoding"))
        if gzip:
            fields.append(("Content-Encoding", "gzip"))
        if self.status not in (204, 304):
            fields.append(("Content-Length", str(length)))
        for name, value in fields:
            if not (name + value).isprintable():
                raise ValueError(f"a header cannot be {name}: {value!r}")
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
        reason = RESPONSES.get(self.status, b"Unknown Status")
        return b" %d %b\r\n%b" % (self.status, reason, lines.encode())


class HttpError(Exception):
    """Raised by a resource to answer with an error.

    :param code: the API's word for it; from the status when empty.
    :param where: which part of the request is wrong.
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


def json_response(value: object, status: int = 200, headers: Iterable[tuple[str, str]] = ()) -> Response:
    """``value`` as JSON, with a line end so that a terminal stays in order."""
    body = orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS)
    return Response(status, body, JSON, headers)


def error_response(error: HttpError, as_json: bool) -> Response:
    """``error`` for programs (the API's JSON) or for people (one line of text)."""
    if as_json:
        code = error.code or _CODES.get(error.status, "error")
        content = {"error": {"code": code, "message": error.message, "where": error.where}}
        return json_response(content, error.status, error.headers)
    return Response(error.status, f"{error.message}\n".encode(), PLAIN, error.headers)
