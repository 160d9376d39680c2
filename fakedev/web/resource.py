"""The base of every web resource: only implemented methods are allowed, and a failure is a status."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from copy import copy
from types import MappingProxyType
from typing import Any, ClassVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web import resource
from twisted.web.server import NOT_DONE_YET

from fakedev.base.errors import Refused, nearest_name
from fakedev.web.http_limits import HttpError
from fakedev.web.request import Request
from fakedev.web.response import PageStatistics, Response, as_http_error, error_response

Answer = Response | Deferred[Response] | Coroutine[Any, Any, Response]

_WITH_BODY = (b"POST", b"PATCH")
_CHANGES = (*_WITH_BODY, b"DELETE")


class Resource(resource.Resource):
    """A resource that answers the methods its class implements, and refuses everything else.

    A subclass implements any of ``get(request)``, ``post(request, body)``, ``patch(request, body)``,
    ``delete(request)``. Each returns a Response, or a coroutine or Deferred of one (not shared: its result is used
    up), or raises HttpError or Refused. HEAD is answered as GET without the body, so ``get`` must change nothing.
    Children are added by ``putChild``, or found by ``getChild``. A resource that implements nothing, and every path
    without a resource, is 404.

    :ivar allow_head: whether HEAD is allowed where GET is.
    :ivar errors_as_json: whether errors are the API's JSON objects instead of a line of text.
    :ivar is_guarded: whether also reads need a Host of ours, or the token; changes always do.
    :ivar post_reads: whether POST changes nothing, so that it needs the same rights as GET.
    :ivar waits_for_ticks: whether a request waits while a tick of the fleet is paused.
    :ivar is_item: whether the path names an item, so that a refusal for an unknown name is 404 and not 400.
    :ivar statistics: the counts of requests to this resource, if they are counted.
    :ivar children: by name.
    """

    allow_head: bool = True
    errors_as_json: bool = False
    is_guarded: bool = False
    post_reads: bool = False
    waits_for_ticks: bool = True
    is_item: bool = False
    statistics: PageStatistics | None = None
    children: Any = MappingProxyType({})  # each resource makes its own with its first child
    log = Logger()

    _implemented: ClassVar[frozenset[bytes]] = frozenset()

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls._implemented = frozenset(
            method for method in (b"GET", *_CHANGES) if callable(getattr(cls, method.decode().lower(), None))
        )

    def putChild(self, path: bytes, child: resource.IResource) -> None:
        self.children = {**self.children, path: child}

    def getChild(self, path: bytes, request: Request) -> resource.IResource:
        """A child that was not added; unless overridden there is none: this resource answers for the whole path."""
        request.postpath.insert(0, request.prepath.pop())
        last = copy(self)
        last.isLeaf = True
        return last

    def render(self, request: Request) -> int:
        """Answer ``request``, also when the resource fails."""
        turns = request.site.fair_share
        if self.waits_for_ticks and turns.is_held:
            turns.call_when_complete(lambda: request.channel and self.render(request))
            return NOT_DONE_YET
        try:
            answer = self.early_refusal(request) or self._answer(request)
        except Exception:
            answer = self._failed(Failure())
        if type(answer) is Response:
            request.respond(answer)
        else:
            later = Deferred.fromCoroutine(answer) if isinstance(answer, Coroutine) else answer
            later.addErrback(self._failed).addCallback(request.respond)  # type: ignore[union-attr]
        return NOT_DONE_YET

    def early_refusal(self, request: Request) -> Response | None:
        """As ``refusal``, but a foreign Host is refused before anything is said about the path."""
        if self.is_guarded:
            foreign = request.site.guard.refusal_of_host(request.getHeader, request.is_unix)
            if foreign is not None:
                return error_response(foreign, self.errors_as_json)
        return self.refusal(request)

    def refusal(self, request: Request) -> Response | None:
        """The refusal of ``request``, decided by its head alone; None when it is allowed."""
        method = request.method
        if method == b"GET" and b"GET" in self._implemented and not request.postpath and not request.has_body:
            return None
        if request.postpath or not self._implemented:
            return self.error(404, self.missing(request))
        if method not in self.allowed_methods():
            allowed = b", ".join(self.allowed_methods()).decode()
            return self.error(405, f"only {allowed} here", headers=(("Allow", allowed),))
        if method in _CHANGES and not (self.post_reads and method == b"POST"):
            refusal = request.site.guard.refusal_of_change(request.getHeader, request.is_unix)
            if refusal is not None:
                return error_response(refusal, self.errors_as_json)
        if request.has_body and method not in _WITH_BODY:
            return self.error(400, f"{method.decode()} takes no body")
        return None

    def missing(self, request: Request) -> str:
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

    def _answer(self, request: Request) -> Answer:
        # By name, because the base class has none of the methods: a missing method is not allowed.
        name = "get" if request.method == b"HEAD" else request.method.decode().lower()
        act: Callable[..., Answer] = getattr(self, name)
        return act(request, request.content.read()) if request.method in _WITH_BODY else act(request)

    def _failed(self, failure: Failure) -> Response:
        error = failure.value
        if isinstance(error, Refused):
            error = as_http_error(error, self.is_item)
        if isinstance(error, HttpError):
            return error_response(error, self.errors_as_json)
        self.log.failure("A web resource failed", failure)
        return self.error(500, "internal error")


class NotServed(Resource):
    """404 here and below, with the reason.

    :param reason: why this address has no such pages.
    """

    isLeaf = True

    def __init__(self, reason: str, errors_as_json: bool = False) -> None:
        self._reason = reason
        self.errors_as_json = errors_as_json

    def missing(self, request: Request) -> str:
        return f"nothing is here: {self._reason}"


class Folder(Resource):
    """A resource that only has children: itself is 404."""

    def __init__(self, errors_as_json: bool = False, **children: Resource) -> None:
        self.errors_as_json = errors_as_json
        for name, child in children.items():
            self.putChild(name.encode(), child)


def make_tree(pages: Mapping[str, Resource], root: Resource | None = None) -> Resource:
    """Put resources at their paths, with folders on the way.

    :param pages: by paths that begin with a slash; of two paths, the longer after the shorter.
    :param root: the root of the tree; a new folder when None.
    """
    root = root or Folder()
    for path, page in pages.items():
        *folders, name = path[1:].encode().split(b"/")
        parent = root
        for folder in folders:
            if folder not in parent.children:
                parent.putChild(folder, Folder())
            parent = parent.children[folder]
        parent.putChild(name, page)
    return root
