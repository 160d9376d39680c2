"""The base of every web resource here: only what a resource implements is allowed, and failure is a status."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.response import HttpError, Response, error_response
from fakedev.net.http.statistics import PageStatistics

Answer = Response | Deferred[Response] | Coroutine[Any, Any, Response]

_CHANGES = (b"POST", b"DELETE")


class GuardedResource(Resource):
    """A resource that answers the methods its class implements, and refuses everything else.

    A subclass implements any of ``get(request)``, ``post(request, body)``, ``delete(request)``; each gives a Response,
    or a coroutine or Deferred of one (its own: the result is used up), or raises HttpError. HEAD is answered as GET
    without the body, so ``get`` must change nothing. Children are added by ``putChild`` or found by ``getChild``; a
    resource that implements nothing, and every path below that nobody claims, is 404.

    :ivar allow_head: whether HEAD is allowed where GET is.
    :ivar errors_as_json: whether errors are the API's JSON objects instead of a line of text.
    :ivar statistics: where requests to this resource are counted, if anywhere.
    """

    isLeaf = False
    allow_head: bool = True
    errors_as_json: bool = False
    statistics: PageStatistics | None = None
    log = Logger()

    _implemented: ClassVar[frozenset[bytes]] = frozenset()

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Note which methods the class implements."""
        super().__init_subclass__(**arguments)
        cls._implemented = frozenset(
            method for method in (b"GET", b"POST", b"DELETE") if callable(getattr(cls, method.decode().lower(), None))
        )

    def getChild(self, path: bytes, request: GuardedRequest) -> Resource:
        """What is found below when no child was put there: nothing."""
        return NotFound(self.errors_as_json)

    def handle(self, request: GuardedRequest) -> None:
        """Answer ``request``, whatever happens."""
        answer: object
        try:
            answer = self.refusal(request) or self._answer(request)
        except Exception:
            answer = self._failed(Failure())
        if type(answer) is Response:
            request.respond(answer)
        else:
            self._wait(answer, request)

    def refusal(self, request: GuardedRequest) -> Response | None:
        """Why ``request`` is refused, decided by its head alone; None when it is welcome."""
        method = request.method
        if method == b"GET" and b"GET" in self._implemented and not request.postpath and not request.head.has_body:
            return None
        if request.postpath or not self._implemented:
            return self.error(404, "nothing is here")
        if method not in self._allowed():
            allowed = b", ".join(self._allowed()).decode()
            return self.error(405, f"only {allowed} here", headers=(("Allow", allowed),))
        if method in _CHANGES:
            refusal = request.refusal_of_change()
            if refusal is not None:
                ask = (("WWW-Authenticate", "Bearer"),) if refusal.status == 401 else ()
                return self.error(refusal.status, refusal.reason, headers=ask)
        if request.head.has_body and method != b"POST":
            return self.error(400, f"{method.decode()} takes no body")
        return None

    def error(
        self, status: int, message: str, code: str = "", where: str = "", headers: tuple[tuple[str, str], ...] = ()
    ) -> Response:
        """An error in the form that this resource uses."""
        return error_response(HttpError(status, message, code, where, headers), self.errors_as_json)

    def render(self, request: GuardedRequest) -> int:
        """As ``handle``, for callers that know twisted.web's Resource only."""
        self.handle(request)
        return NOT_DONE_YET

    def _allowed(self) -> tuple[bytes, ...]:
        """The methods that are allowed, in the order in which Allow names them."""
        methods = (b"GET", b"HEAD", b"POST", b"DELETE")
        head = b"GET" in self._implemented and self.allow_head
        return tuple(method for method in methods if method in self._implemented or (method == b"HEAD" and head))

    def _answer(self, request: GuardedRequest) -> Answer:
        # Looked up by name, because the base class has none of them: what is not there is not allowed.
        if request.method == b"POST":
            post: Callable[[GuardedRequest, bytes], Answer] = getattr(self, "post")  # noqa: B009
            return post(request, request.body)
        name = "delete" if request.method == b"DELETE" else "get"
        act: Callable[[GuardedRequest], Answer] = getattr(self, name)
        return act(request)

    def _wait(self, answer: object, request: GuardedRequest) -> None:
        """Answer later. Whoever left in the meantime is not answered."""
        if isinstance(answer, Coroutine):
            answer = Deferred.fromCoroutine(answer)
        elif not isinstance(answer, Deferred):
            answer = fail(TypeError(f"a resource answered with {type(answer).__name__}, not with a Response"))
        answer.addErrback(self._failed)
        answer.addCallback(request.respond)

    def _failed(self, failure: Failure) -> Response:
        if isinstance(failure.value, HttpError):
            return error_response(failure.value, self.errors_as_json)
        self.log.failure("A web resource failed", failure)
        return self.error(500, "internal error")


class Folder(GuardedResource):
    """A resource that only has children: 404 by itself."""

    def __init__(self, errors_as_json: bool = False, **children: Resource) -> None:
        super().__init__()
        self.errors_as_json = errors_as_json
        for name, child in children.items():
            self.putChild(name.encode(), child)


class NotFound(GuardedResource):
    """404, here and below."""

    isLeaf = True

    def __init__(self, errors_as_json: bool = False) -> None:
        super().__init__()
        self.errors_as_json = errors_as_json
