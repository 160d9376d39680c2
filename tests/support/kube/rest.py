"""The HTTP side of the API server in memory: requests to changes of the store, lists and watches."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
from twisted.internet.interfaces import IReactorTime
from twisted.web.http import Request
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from tests.support.kube.discovery import discovery_page
from tests.support.kube.failures import Failures
from tests.support.kube.kinds import Address, parse_path
from tests.support.kube.selecting import selection
from tests.support.kube.statuses import StatusError, expired, no_such_resource
from tests.support.kube.store import Item, Store, merged
from tests.support.kube.streams import Stream

_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_SELECTORS = ("labelSelector", "fieldSelector")
_MERGE_PATCHES = ("application/merge-patch+json", "application/strategic-merge-patch+json")
#: Pages of lists are made from the state at their first page; so many lists at once can go on.
_MOST_SNAPSHOTS = 20


class Rest(Resource):
    """Every path of the API.

    :ivar requests: how many there were, by verb, resource and code; code 0: the connection was cut.
    :ivar streams: the watches that are open.
    """

    isLeaf = True

    def __init__(self, clock: IReactorTime, store: Store, failures: Failures) -> None:
        super().__init__()
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.streams: list[Stream] = []
        self.has_watch_lists = False
        self._clock, self._store, self._failures = clock, store, failures
        self._snapshots: dict[str, list[Item]] = {}
        store.listeners.append(lambda change: [stream.tell(change) for stream in list(self.streams)])

    def render(self, request: Request) -> int:
        """Answer now, or as late as the test wants."""
        gone: list[Any] = []
        request.notifyFinish().addErrback(gone.append)

        def answer() -> None:
            if not gone:
                self._answer(request)

        if self._failures.slow_seconds:
            self._clock.callLater(self._failures.slow_seconds, answer)
        else:
            answer()
        return NOT_DONE_YET  # type: ignore[no-any-return] # Twisted's constant has no type

    def _answer(self, request: Request) -> None:
        path, method = request.path.decode(), request.method.decode()
        try:
            self._failures.check_token(request.getHeader("authorization"))
            if (page := discovery_page(path)) is not None:
                _send(request, 200, page)
                return
            address = parse_path(path)
            if address is None or method not in _VERBS:
                raise no_such_resource()
        except StatusError as error:
            self.requests[_VERBS.get(method, method), path, error.code] += 1
            _send_error(request, error)
            return
        verb = self._verb(request, method, address)
        failure = self._failures.next_for(verb, address)
        if failure is not None and not failure.code:
            self.requests[verb, address.resource, 0] += 1
            _cut(request)
            return
        try:
            if failure is not None:
                raise failure.error(verb, address)
            if verb == "watch":
                self.requests[verb, address.resource, 200] += 1
                self._watch(request, address)
                return
            code, answer = self._result(request, verb, address)
        except StatusError as error:
            self.requests[verb, address.resource, error.code] += 1
            _send_error(request, error)
        else:
            self.requests[verb, address.resource, code] += 1
            _send(request, code, answer)

    def _verb(self, request: Request, method: str, address: Address) -> str:
        if method == "GET" and not address.name:
            return "watch" if _argument(request, "watch") in ("1", "true") else "list"
        return _VERBS[method]

    def _result(self, request: Request, verb: str, address: Address) -> tuple[int, Any]:
        store = self._store
        if verb == "list":
            return 200, self._list(request, address)
        if verb == "get":
            return 200, store.get(address)
        if verb == "delete":
            if address.name:
                return 200, store.delete(address)
            for item in self._selected(request, address):
                metadata = item["metadata"]
                store.delete(Address(address.kind, metadata.get("namespace", ""), metadata["name"]))
            return 200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        if address.subresource == "eviction":
            store.delete(Address(address.kind, address.namespace, address.name))
            return 201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
        if address.subresource not in ("", "status") or (address.subresource and not address.kind.has_status):
            raise no_such_resource()
        body = _body(request)
        if verb == "create":
            return 201, store.create(address, body)
        if verb == "update":
            return 200, store.replace(address, body)
        kind = (request.getHeader("content-type") or "").partition(";")[0]
        if kind not in _MERGE_PATCHES:
            raise StatusError(415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {kind}")
        return 200, store.replace(address, merged(store.get(address), body))

    def _selected(self, request: Request, address: Address) -> list[Item]:
        selects = _selection(request)
        return [item for item in self._store.all(address.kind, address.namespace) if selects(item)]

    def _list(self, request: Request, address: Address) -> dict[str, Any]:
        limit, token = int(_argument(request, "limit") or 0), _argument(request, "continue")
        if token:
            version, begin, *_ = orjson.loads(base64.b64decode(token))
            if token not in self._snapshots or int(version) < self._store.oldest:
                raise expired(
                    "The provided continue parameter is too old to display a consistent list result. You can start a "
                    "new list without the continue parameter."
                )
            items = self._snapshots.pop(token)
        else:
            version, begin, items = str(self._store.version), 0, self._selected(request, address)
        metadata: dict[str, Any] = {"resourceVersion": version}
        end = begin + limit if limit else len(items)
        if end < len(items):
            metadata["continue"] = base64.b64encode(
                orjson.dumps([version, end, request.path.decode(), *map(partial(_argument, request), _SELECTORS)])
            ).decode()
            metadata["remainingItemCount"] = len(items) - end
            while len(self._snapshots) >= _MOST_SNAPSHOTS:
                del self._snapshots[next(iter(self._snapshots))]
            self._snapshots[metadata["continue"]] = items
        # Items of lists have neither kind nor apiVersion, as the real server gives them.
        shown = [{key: each[key] for key in each if key not in ("kind", "apiVersion")} for each in items[begin:end]]
        kind = address.kind
        return {"kind": f"{kind.name}List", "apiVersion": kind.api_version, "metadata": metadata, "items": shown}

    def _watch(self, request: Request, address: Address) -> None:
        request.setHeader("Content-Type", "application/json")
        is_over: list[Any] = []

        def write(data: bytes) -> None:
            if not is_over:
                request.write(data)

        def end() -> None:
            if not is_over:
                forget()
                request.finish()

        def forget(_: object = None) -> None:
            is_over.append(True)
            if stream in self.streams:
                self.streams.remove(stream)

        stream = Stream(
            address, _selection(request), write, end, lambda: _cut(request),
            has_bookmarks=_argument(request, "allowWatchBookmarks") in ("1", "true"),
        )  # fmt: skip
        request.notifyFinish().addBoth(forget)
        # The head of the answer goes out at once.
        request.write(b"")
        if _argument(request, "sendInitialEvents") == "true" and not self.has_watch_lists:
            message = "Internal error occurred: etcd does not support watch progress requests"
            stream.fail(StatusError(500, "InternalError", message))
        elif stream.begin(self._store, _argument(request, "resourceVersion")):
            self.streams.append(stream)
            if seconds := float(_argument(request, "timeoutSeconds") or 0):
                ending = self._clock.callLater(seconds, end)
                request.notifyFinish().addBoth(lambda _: ending.active() and ending.cancel())


def _argument(request: Request, name: str) -> str:
    values: list[bytes] = request.args.get(name.encode(), [b""])
    return values[0].decode()


def _selection(request: Request) -> Callable[[Item], bool]:
    try:
        return selection(_argument(request, "labelSelector"), _argument(request, "fieldSelector"))
    except ValueError as error:
        raise StatusError(400, "BadRequest", f"Unable to find field selector: {error}") from None


def _body(request: Request) -> Any:
    try:
        body = orjson.loads(request.content.read())
    except ValueError as error:
        raise StatusError(400, "BadRequest", f"the object provided is unrecognized: {error}") from None
    if not isinstance(body, dict):
        raise StatusError(400, "BadRequest", "the object provided is no JSON object")
    return body


def _send(request: Request, code: int, answer: Any) -> None:
    _finish(request, code, orjson.dumps(answer) + b"\n", "application/json")


def _send_error(request: Request, error: StatusError) -> None:
    for name, value in error.headers.items():
        request.setHeader(name, value)
    if error.text:
        _finish(request, error.code, error.text.encode(), "text/plain; charset=utf-8")
    else:
        _send(request, error.code, error.status)


def _finish(request: Request, code: int, body: bytes, kind: str) -> None:
    request.setResponseCode(code)
    request.setHeader("Content-Type", kind)
    request.setHeader("Content-Length", str(len(body)))
    request.write(body)
    request.finish()


def _cut(request: Request) -> None:
    request.channel.forceAbortClient()
