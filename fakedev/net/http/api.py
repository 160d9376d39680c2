"""What all resources of the API share: bodies, queries, errors.

What is asked for after the ``?`` of an address.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import orjson

from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.resource import GuardedResource
from fakedev.net.http.response import HttpError, Response
from fakedev.sim.entities.roster import Roster
from fakedev.sim.entities.selectors import no_node
from fakedev.spec.errors import Refused

_LONGEST_SHOWN: Final = 100


def argument(request: GuardedRequest, name: str) -> str:
    """An argument of the query, the first of several; empty when it is not there."""
    return request.args.get(name.encode(), [b""])[0].decode("utf-8", "replace")


def unknown_key(request: GuardedRequest, known: Sequence[str]) -> HttpError | None:
    """What is wrong with a query that has another key than those that are known; None: nothing is."""
    for key in request.args:
        name = key.decode("utf-8", "replace")[:_LONGEST_SHOWN]
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}? " if near else ""
            text = f"{hint}there are {', '.join(known)}" if known else "nothing can be chosen here"
            return HttpError(400, f"unknown key {name!r} in the query: {text}", "bad-argument", name)
    return None

#: Items of a collection in one answer: about 20 ms of work for devices.
_MAX_ITEMS: Final = 500
_STATUS: Final = {"unknown-name": 404, "busy": 503, "full": 503}


class ApiResource(GuardedResource):
    """A resource of the API: its errors are JSON, and say what is not there.

    :cvar query: the keys that GET takes after the ``?``; other methods take none.
    """

    errors_as_json = True
    query: ClassVar[tuple[str, ...]] = ()

    def refusal(self, request: GuardedRequest) -> Response | None:
        """Also refused: a query with keys that nobody would look at."""
        if request.postpath:
            return self.error(404, _nothing_at(request))
        refused = super().refusal(request)
        if refused is not None:
            return refused
        unknown = unknown_key(request, self.query if request.method in (b"GET", b"HEAD") else ())
        return None if unknown is None else self.error(unknown.status, str(unknown), unknown.code, unknown.where)


class Missing(ApiResource):
    """404 that says what is not there, here and below.

    :param where: the piece of the path at fault; empty for what could not be named either.
    """

    def __init__(self, text: str, where: str = "") -> None:
        super().__init__()
        self._text = text
        self._where = where

    def refusal(self, request: GuardedRequest) -> Response:
        """What is not there."""
        return self.error(404, self._text, "unknown-name" if self._where else "", self._where)


def missing(noun: str, word: bytes | str, there: str) -> Missing:
    """404 for a name that is unknown.

    :param word: the name, from the path.
    :param there: what there is instead.
    """
    name = word.decode("utf-8", "replace") if isinstance(word, bytes) else word
    return Missing(f"no {noun} {name[:_LONGEST_SHOWN]!r}: {there}", noun)


def missing_node(roster: Roster, name: str) -> Missing:
    """404 for a node that is unknown."""
    return Missing(no_node(name[:_LONGEST_SHOWN], roster, "node").text, "node")


def counted(names: Sequence[str], most: int = 8) -> str:
    """Some names, of many the first and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"there {'is' if len(names) == 1 else 'are'} {', '.join(names[:most])}{more}"


def numbered(owner: str, count: int, none: str) -> str:
    """What an owner has of things that are numbered from 0.

    :param none: what is said when it has none.
    """
    return f"{owner} has {count}: {'0' if count == 1 else f'0 to {count - 1}'}" if count else none


def _nothing_at(request: GuardedRequest) -> str:
    return f"nothing is at {request.path.decode('utf-8', 'replace')[:_LONGEST_SHOWN]}"


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
    text = argument(request, name)
    if not text:
        return default
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) > most:
        raise HttpError(400, f"{name} must be a whole number from 0 to {most}", "bad-argument", name)
    return int(text)


def page_of(request: GuardedRequest, count: int, most: int = _MAX_ITEMS) -> range:
    """Which items of a collection of ``count`` a query with limit and offset asks for.

    :param most: items in one answer.
    """
    limit = _whole(request, "limit", most, most)
    offset = _whole(request, "offset", 0, 10**9 - 1)
    return range(min(offset, count), min(offset + limit, count))
