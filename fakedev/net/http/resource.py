"""The base of every web resource: only implemented methods are allowed, and a failure is a status."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger
from twisted.python.failure import Failure

from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.response import HttpError, Response, as_http_error, error_response
from fakedev.net.http.statistics import PageStatistics
from fakedev.spec.errors import Refused, nearest_name

Answer = Response | Deferred[Response] | Coroutine[Any, Any, Response]

_WITH_BODY = (b"POST", b"PATCH")
_CHANGES = (*_WITH_BODY, b"DELETE")


class GuardedResource:
    """A resource that answers the methods its class implements, and refuses everything else.

    A subclass implements any of ``get(request)``, ``post(request, body)``, ``patch(request, body)``,
    ``delete(request)``. Each returns a Response, or a coroutine or Deferred of one (not shared: its result is used
    up), or raises HttpError or Refused. HEAD is answered as GET without the body, so ``get`` must change nothing.
    Children are added by ``put_child``, or found by ``find_child``. A resource that
    implements nothing, and every path without a resource, is 404.

    :ivar allow_head: whether HEAD is allowed where GET is.
    :ivar errors_as_json: whether errors are the API's JSON objects instead of a line of text.
    :ivar is_guarded: whether also reads need a Host of ours, or the token; changes always do.
    :ivar post_reads: whether POST changes nothing, so that it needs no more than GET.
    :ivar is_item: whether the path names an item, so that a refusal for an unknown name is 404 and not 400.
    :ivar statistics: the counts of requests to this resource, if they are counted.
    :ivar children: by name.
    """

    allow_head: bool = True
    errors_as_json: bool = False
    is_guarded: bool = False
    post_reads: bool = False
    is_item: bool = False
    statistics: PageStatistics | None = None
    children: Mapping[bytes, GuardedResource] = MappingProxyType({})
    log = Logger()

    _implemented: ClassVar[frozenset[bytes]] = frozenset()

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls._implemented = frozenset(
            method for method in (b"GET", *_CHANGES) if callable(getattr(cls, method.decode().lower(), None))
        )

    def put_child(self, name: str, child: GuardedResource) -> None:
        """Add a child."""
        self.children = {**self.children, name.encode(): child}

    def child(self, name: bytes, request: GuardedRequest) -> GuardedResource | None:
        """The child of that name, an added or a found one; None when there is none."""
        return self.children.get(name) or self.find_child(name, request)

    def find_child(self, name: bytes, request: GuardedRequest) -> GuardedResource | None:
        """Find a child that was not added; None when there is none."""
        return None

    def handle(self, request: GuardedRequest) -> None:
        """Answer ``request``, also when the resource fails."""
        answer: object
        try:
            answer = self.refusal(request) or self._answer(request)
        except Exception as error:
            answer = self._failed(error)
        if type(answer) is Response:
            request.respond(answer)
        else:
            self._wait(answer, request)

    def refusal(self, request: GuardedRequest) -> Response | None:
        """The refusal of ``request``, decided by its head alone; None when it is allowed."""
        method = request.method
        if method == b"GET" and b"GET" in self._implemented and not request.postpath and not request.head.has_body:
            return None
        if request.postpath or not self._implemented:
            return self.error(404, self.missing(request))
        if method not in self.allowed_methods():
            allowed = b", ".join(self.allowed_methods()).decode()
            return self.error(405, f"only {allowed} here", headers=(("Allow", allowed),))
        if method in _CHANGES and not (self.post_reads and method == b"POST"):
            refusal = request.refusal_of_change()
            if refusal is not None:
                ask = (("WWW-Authenticate", "Bearer"),) if refusal.status == 401 else ()
                return self.error(refusal.status, refusal.reason, headers=ask)
        if request.head.has_body and method not in _WITH_BODY:
            return self.error(400, f"{method.decode()} takes no body")
        return None

    def missing(self, request: GuardedRequest) -> str:
        """Why the path has no resource, and what there is instead."""
        if not self.children:
            return "nothing is here: a page has no path below it" if self._implemented else "nothing is here"
        there = sorted(name.decode() for name in self.children if name)
        last = request.postpath[0].decode("utf-8", "replace") if request.postpath else ""
        nearest = nearest_name(last, there)
        hint = f"did you mean {nearest}? " if nearest else ""
        return f"nothing is here: {hint}there {'is' if len(there) == 1 else 'are'} {', '.join(there)}"

    def error(
        self, status: int, message: str, code: str = "", where: str = "", headers: tuple[tuple[str, str], ...] = ()
    ) -> Response:
        """An error in the form that this resource uses."""
        return error_response(HttpError(status, message, code, where, headers), self.errors_as_json)

    def allowed_methods(self) -> tuple[bytes, ...]:
        """The methods that are allowed, in the order of the Allow header."""
        methods = (b"GET", b"HEAD", *_CHANGES)
        head = b"GET" in self._implemented and self.allow_head
        return tuple(method for method in methods if method in self._implemented or (method == b"HEAD" and head))

    def _answer(self, request: GuardedRequest) -> Answer:
        # By name, because the base class has none of the methods: a missing method is not allowed.
        if request.method in _WITH_BODY:
            change: Callable[[GuardedRequest, bytes], Answer] = getattr(self, request.method.decode().lower())
            return change(request, request.body)
        name = "delete" if request.method == b"DELETE" else "get"
        act: Callable[[GuardedRequest], Answer] = getattr(self, name)
        return act(request)

    def _wait(self, answer: object, request: GuardedRequest) -> None:
        later: Deferred[Response]
        if isinstance(answer, Coroutine):
            later = Deferred.fromCoroutine(answer)
        elif isinstance(answer, Deferred):
            later = answer
        else:
            later = fail(TypeError(f"a resource answered with {type(answer).__name__}, not with a Response"))
        later.addErrback(self._failed_later)
        later.addCallback(request.respond)

    def _failed_later(self, failure: Failure) -> Response:
        return self._failed(failure.value, failure)

    def _failed(self, error: BaseException | None, failure: Failure | None = None) -> Response:
        if isinstance(error, Refused):
            error = as_http_error(error, self.is_item)
        if isinstance(error, HttpError):
            return error_response(error, self.errors_as_json)
        self.log.failure("A web resource failed", failure)
        return self.error(500, "internal error")


class NotServed(GuardedResource):
    """404 here and below, with the reason.

    :param reason: why this address has no such pages.
    """

    def __init__(self, reason: str, errors_as_json: bool = False) -> None:
        self._reason = reason
        self.errors_as_json = errors_as_json

    def missing(self, request: GuardedRequest) -> str:
        return f"nothing is here: {self._reason}"


class Folder(GuardedResource):
    """A resource that only has children: itself is 404."""

    def __init__(self, errors_as_json: bool = False, **children: GuardedResource) -> None:
        self.errors_as_json = errors_as_json
        for name, child in children.items():
            self.put_child(name, child)


def make_tree(resources: Mapping[str, GuardedResource], root: GuardedResource | None = None) -> GuardedResource:
    """Put resources at their paths, with folders on the way.

    :param resources: by paths that begin with a slash; of two paths, the longer after the shorter.
    :param root: the root of the tree; a new folder when None.
    """
    root = root or Folder()
    for path, resource in resources.items():
        *folders, name = path[1:].split("/")
        parent = root
        for folder in folders:
            if folder.encode() not in parent.children:
                parent.put_child(folder, Folder())
            parent = parent.children[folder.encode()]
        parent.put_child(name, resource)
    return root
