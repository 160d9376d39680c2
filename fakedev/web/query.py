"""What resources share that programs use: arguments after the ``?``, JSON bodies, and errors that say what exists."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from fakedev.base.errors import first_names, nearest_name
from fakedev.web.http_limits import HttpError
from fakedev.web.paths import DEVICE_HISTORY, WebPath
from fakedev.web.request import Request
from fakedev.web.resource import Resource
from fakedev.web.response import Response, json_response

#: Characters of a name from the peer that an error repeats.
_MAX_SHOWN: Final = 100


class ApiResource(Resource):
    """A resource of the API: its errors are JSON; a foreign Host, an unknown path and an unknown query key are refused.

    :ivar path: the one with the keys that GET takes after the ``?``, as other methods do not; None: it takes none.
    """

    errors_as_json = True
    is_guarded = True
    path: WebPath | None = None

    def refusal(self, request: Request) -> Response | None:
        """Also refused: a longer path, and a query with other keys."""
        if request.postpath:
            return self.error(404, f"nothing is at {shown(request.path)}")
        refused = super().refusal(request)
        if refused is not None:
            return refused
        known = self.path.query if self.path is not None and request.method in (b"GET", b"HEAD") else ()
        unknown = unknown_key(request, known)
        return None if unknown is None else self.error(unknown.status, str(unknown), unknown.code, unknown.where)


class ApiPage(ApiResource):
    """A resource of the API that only shows a value."""

    def __init__(self, make: Callable[[], dict[str, Any]]) -> None:
        self._make = make

    def get(self, request: Request) -> Response:
        return json_response(self._make())


class ApiHistory(ApiResource):
    """The past of something, for charts; ``seconds`` in the query chooses the time span, which ends now."""

    path = DEVICE_HISTORY

    def __init__(self, make: Callable[[float | None], dict[str, Any]]) -> None:
        self._make = make

    def get(self, request: Request) -> Response:
        """Without ``seconds`` the last ticks, each of them."""
        return json_response(self._make(seconds_of(request)))


class ApiItem(ApiPage):
    """An item of a collection, which can be deleted.

    :param remove: deletes it; returns what to answer.
    """

    is_item = True

    def __init__(self, make: Callable[[], dict[str, Any]], remove: Callable[[], dict[str, Any]]) -> None:
        super().__init__(make)
        self._remove = remove

    def delete(self, request: Request) -> Response:
        return json_response(self._remove())


class ApiCollection(ApiResource, ABC):
    """A resource of the API whose children are its items; its path may end with a slash."""

    def getChild(self, name: bytes, request: Request) -> Resource:
        """The item of that name, or the collection itself."""
        return self if not name and not request.postpath else self.item(name.decode("utf-8", "replace"))

    @abstractmethod
    def item(self, name: str) -> Resource:
        """The resource of one item; a MissingItem where there is none."""


class MissingItem(ApiResource):
    """404 with a reason, here and below.

    :param where: the part of the path at fault, in the error; empty for none.
    """

    isLeaf = True

    def __init__(self, text: str, where: str = "") -> None:
        self._text = text
        self._where = where

    def refusal(self, request: Request) -> Response:
        return self.error(404, self._text, "unknown-name" if self._where else "", self._where)


def missing(noun: str, name: bytes | str, there: str) -> MissingItem:
    """404 for an unknown name from the path.

    :param there: what exists instead.
    """
    return MissingItem(f"no {noun} {shown(name)!r}: {there}", noun)


def shown(name: bytes | str) -> str:
    """A name from the peer as errors repeat it: its beginning."""
    return (name.decode("utf-8", "replace") if isinstance(name, bytes) else name)[:_MAX_SHOWN]


def counted(names: Sequence[str], most: int = 8) -> str:
    """The first of some names, and the number of the others."""
    return f"there {'is' if len(names) == 1 else 'are'} {first_names(names, most)}"


def numbered(owner: str, count: int, none: str) -> str:
    """The number and range of an owner's things, which are numbered from 0.

    :param none: the text when it has none.
    """
    return f"{owner} has {count}: {'0' if count == 1 else f'0 to {count - 1}'}" if count else none


def json_body(body: bytes) -> dict[str, Any]:
    """The JSON object in a body.

    :raises HttpError: when it is none.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise HttpError(400, f"the body is not JSON: {error}", "bad-argument", "body") from None
    if not isinstance(value, dict):
        raise HttpError(400, "the body must be a JSON object", "bad-argument", "body")
    return value


def argument(request: Request, name: str) -> str:
    """An argument of the query, the first of several; empty when it is missing."""
    return request.args.get(name.encode(), [b""])[0].decode("utf-8", "replace")


def seconds_of(request: Request) -> float | None:
    """``seconds`` of the query, a time span; None if it is missing."""
    return whole_number(request, "seconds", 0, 10**6) if argument(request, "seconds") else None


def unknown_key(request: Request, known: Sequence[str]) -> HttpError | None:
    """The error for the first key of the query that is not ``known``; None when all are."""
    for key in request.args:
        name = shown(key)
        if name not in known:
            nearest = nearest_name(name, known)
            hint = f"did you mean {nearest}? " if nearest else ""
            text = f"{hint}{counted(known, len(known))}" if known else "nothing can be chosen here"
            return HttpError(400, f"unknown key {name!r} in the query: {text}", "bad-argument", name)
    return None


def whole_number(request: Request, name: str, default: int, most: int) -> int:
    """A whole number of the query.

    :raises HttpError: when it is none, or is above ``most``.
    """
    text = argument(request, name)
    if not text:
        return default
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) > most:
        raise HttpError(400, f"{name} must be a whole number from 0 to {most}", "bad-argument", name)
    return int(text)
