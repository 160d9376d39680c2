"""Collections of any length: searched, sorted and cut into pages, in steps that leave the reactor free."""

from __future__ import annotations

import heapq
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar

import orjson

from fakedev.base.steps import Steps
from fakedev.web.http_limits import HttpError
from fakedev.web.paths import WebPath
from fakedev.web.query import ApiResource, argument, counted, shown, whole_number
from fakedev.web.request import Request
from fakedev.web.resource import Answer
from fakedev.web.response import Response, json_response

T = TypeVar("T")

#: Items of a collection in one answer.
MAX_ITEMS: Final = 500
#: The highest number of an item that an answer can begin with.
MAX_OFFSET: Final = 10**9 - 1
#: Items that are looked at in one step, and items that are sorted in one step.
_AT_ONCE: Final = 20
_SORTED_AT_ONCE: Final = 1000
#: The widest number in a name that counts as one.
_DIGITS: Final = 20
_NUMBER: Final = re.compile("[0-9]+")


@dataclass(frozen=True)
class Items(Generic[T]):
    """The items of a collection at one moment.

    :param every: all items, also those that are not asked for.
    :param describer: called once with the items that are asked for; the function that it returns describes each of
        them, perhaps in a later tick.
    :param texts: where a search looks in an item.
    :param key_of: returns, for a declared key of ``sort``, the function that an item is sorted by, or steps that make
        it. Texts are sorted by ``in_order``.
    :param more: further values of the answer, before the items; called at the moment of ``describer``.
    :param exists: whether an item is still there: some may end, or the fleet may be reloaded, while a list is sorted.
    """

    every: Sequence[T]
    describer: Callable[[list[T]], Callable[[T], object]]
    texts: Callable[[T], Iterable[str]]
    key_of: Callable[[str], Callable[[T], Any] | Steps[Callable[[T], Any]]]
    more: Callable[[], Mapping[str, object]] = dict
    exists: Callable[[T], bool] = lambda _: True


@dataclass(frozen=True)
class _Choice:
    """What a request asks for: a text to search for, a key to sort by, and a part of the rest."""

    search: str
    sort: str
    is_descending: bool
    places: slice

    @classmethod
    def of(cls, request: Request, path: WebPath) -> _Choice:
        """The choice in the query of a request.

        :raises HttpError: when a number is none, or the key is not one of the declared ones.
        """
        sort = argument(request, "sort")
        key = sort.removeprefix("-")
        if key and key not in path.sort:
            text = f"unknown key {shown(key)!r}: {counted(path.sort, len(path.sort))}, and -KEY for the reverse order"
            raise HttpError(400, text, "bad-argument", "sort")
        return cls(argument(request, "search").strip().lower(), key, sort != key, page_of(request))


def page_of(request: Request, most: int = MAX_ITEMS) -> slice:
    """The part of a collection that ``limit`` and ``offset`` in the query ask for.

    :param most: the limit of items in one answer.
    :raises HttpError: when one is not a whole number in its range.
    """
    offset = whole_number(request, "offset", 0, MAX_OFFSET)
    return slice(offset, offset + whole_number(request, "limit", most, most))


def in_order(text: str | None) -> str:
    """A key that sorts names as people do: without regard to case, ``dgx-9`` before ``dgx-10``."""
    return _NUMBER.sub(_padded, (text or "").lower())


@lru_cache(maxsize=4096)
def _wide(digits: str) -> str:
    return digits.zfill(_DIGITS)


def _padded(found: re.Match[str]) -> str:
    return _wide(found[0])


def described_key(describe: Callable[[T], Mapping[str, Any]], name: str) -> Callable[[T], Any]:
    """A function that an item is sorted by: a value of its description, texts as by ``in_order``, null as the most."""

    def key(item: T) -> Any:
        value = describe(item)[name]
        return in_order(value) if isinstance(value, str) else float("inf") if value is None else value

    return key


class ItemsResource(ApiResource, ABC):
    """A resource that answers GET with its items, or those that the query asks for, and how many a search found.

    :ivar path: has the keys of ``sort``; its last word is the key of the items in the answer.
    """

    path: WebPath

    @abstractmethod
    def items(self, request: Request) -> Items[Any]:
        """The items at this moment; asked for again where some have ended meanwhile."""

    def get(self, request: Request) -> Answer:
        """Made in slices: a list may be of any length."""
        return request.answer_in_slices(self._steps(request))

    def _steps(self, request: Request) -> Steps[Response]:
        choice = _Choice.of(request, self.path)
        items = self.items(request)
        yield  # HEAD ends here: nothing is described
        chosen, total = yield from _chosen(items, choice)
        if not all(map(items.exists, chosen)):  # ended meanwhile, or of a fleet before a reload: try once more
            items = self.items(request)
            chosen, total = yield from _chosen(items, choice)
            chosen = [name for name in chosen if items.exists(name)]
        return (yield from _described(items, chosen, self.path.template.rpartition("/")[2], total))


def _described(items: Items[T], chosen: list[T], key: str, total: int) -> Steps[Response]:
    describe, more, described = items.describer(chosen), items.more(), []
    yield
    for name in chosen:
        described.append(orjson.Fragment(orjson.dumps(describe(name), option=orjson.OPT_NON_STR_KEYS)))
        yield
    return json_response({**more, key: described, "total": total})


def _chosen(items: Items[T], choice: _Choice) -> Steps[tuple[list[T], int]]:
    """The items to describe, and the number of all that the search finds."""
    found = items.every
    if choice.search:
        found = yield from _found(items, choice.search)
    if not choice.sort:
        return list(found[choice.places]), len(found)
    key = items.key_of(choice.sort)
    if isinstance(key, Generator):
        key = yield from key
    chosen = yield from _first(found, key, choice.is_descending, choice.places.stop)
    return chosen[choice.places], len(found)


def _found(items: Items[T], search: str) -> Steps[list[T]]:
    found = []
    for begin in range(0, len(items.every), _AT_ONCE):
        for item in items.every[begin : begin + _AT_ONCE]:
            if any(search in text.lower() for text in items.texts(item)):
                found.append(item)
        yield
    return found


def _first(found: Sequence[T], key: Callable[[T], Any], is_descending: bool, count: int) -> Steps[list[T]]:
    """The first ``count`` in the order of a key; those that are equal stay in their order."""
    runs = []
    for start in range(0, len(found), _SORTED_AT_ONCE):
        run: list[tuple[Any, T]] = []
        for begin in range(start, min(start + _SORTED_AT_ONCE, len(found)), _AT_ONCE):
            run += [(key(item), item) for item in found[begin : begin + _AT_ONCE]]
            yield
        run.sort(key=itemgetter(0), reverse=is_descending)
        runs.append(run)
        yield
    first = []
    merged = heapq.merge(*runs, key=itemgetter(0), reverse=is_descending)
    for _, item in islice(merged, count):
        first.append(item)
        if len(first) % _AT_ONCE == 0:
            yield
    del merged
    while runs:
        runs.pop()  # also to free 100,000 keys takes long
        yield
    return first
