"""What all resources of the API share: bodies, queries, errors."""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

from fakedev.net.http_request import GuardedRequest
from fakedev.net.http_resource import GuardedResource
from fakedev.net.http_response import HttpError
from fakedev.sim.errors import Refused

#: Items of a collection in one answer: about 20 ms of work for devices.
_MOST_ITEMS: Final = 500
_STATUS: Final = {"unknown-name": 404, "busy": 503, "full": 503}


class ApiResource(GuardedResource):
    """A resource of the API: its errors are JSON."""

    errors_as_json = True


def as_http_error(refusal: Refused, is_item: bool = False) -> HttpError:
    """A refusal of the rules as an answer; a name that is unknown is 404 where the path is that name."""
    status = _STATUS.get(refusal.code, 400)
    if status == 404 and not is_item:
        status = 400
    return HttpError(status, refusal.text, refusal.code, refusal.where)


def json_body(body: bytes) -> dict[str, Any]:
    """The object that a body holds.

    :raises HttpError: when it is none.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise HttpError(400, f"the body is not JSON: {error}", "bad-argument", "body") from None
    if not isinstance(value, dict):
        raise HttpError(400, "the body must be a JSON object", "bad-argument", "body")
    return value


def _whole(request: GuardedRequest, name: str, default: int, most: int) -> int:
    """A whole number of the query."""
    text = request.args.get(name.encode(), [b""])[0].decode("utf-8", "replace")
    if not text:
        return default
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) > most:
        raise HttpError(400, f"{name} must be a whole number from 0 to {most}", "bad-argument", name)
    return int(text)


def page_of(request: GuardedRequest, count: int, most: int = _MOST_ITEMS) -> range:
    """Which items of a collection of ``count`` a query with limit and offset asks for.

    :param most: items in one answer.
    """
    limit = _whole(request, "limit", most, most)
    offset = _whole(request, "offset", 0, 10**9 - 1)
    return range(min(offset, count), min(offset + limit, count))
