"""The HTTP side of the API server in memory: requests to changes of the store, lists, watches, and what fails.

Watches are streams of events, one a line. Discovery is there as far as kubectl needs it.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
from twisted.internet.interfaces import IReactorTime
from twisted.web.http import Request
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from tests.support.kube.store import (
    KINDS,
    Address,
    Change,
    Item,
    Kind,
    StatusError,
    Store,
    expired,
    forbidden,
    merged,
    no_such_resource,
    parse_path,
)

_REASONS = {
    401: ("Unauthorized", "Unauthorized"),
    409: ("Conflict", "the object has been modified; please apply your changes to the latest version and try again"),
    410: ("Expired", "The resourceVersion for the provided watch is too old."),
    429: ("TooManyRequests", "Too many requests, please try again later."),
    500: ("InternalError", "Internal error occurred: etcdserver: request timed out"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: ("Timeout", "Timeout: request did not complete within the allotted timeout"),
}


@dataclass
class Failure:
    """Requests that fail.

    :param verb: empty: every verb.
    :param resource: as rules of roles name it (``nodes/status``); empty: every one.
    :param times: how many requests still fail; -1: all.
    :param code: of the answer; 0: none, the connection is cut.
    """

    verb: str
    resource: str
    code: int
    times: int = 1
    retry_after_seconds: int | None = None
    message: str = ""

    def error(self, verb: str, address: Address) -> StatusError:
        """The answer."""
        if self.code == 403:
            return forbidden(verb, address)
        reason, message = _REASONS.get(self.code, ("Unknown", "failed by the test"))
        headers = {"Retry-After": str(self.retry_after_seconds)} if self.retry_after_seconds is not None else {}
        # API priority and fairness answers in plain text.
        text = f"{message}\n" if self.code == 429 else ""
        return StatusError(self.code, reason, self.message or message, {}, headers, text)


class Failures:
    """All failures that are switched on."""

    def __init__(self) -> None:
        self._active: list[Failure] = []
        self.token: str | None = None
        self.slow_seconds = 0.0

    def add(self, failure: Failure) -> Failure:
        """Switch a failure on."""
        self._active.append(failure)
        return failure

    def clear(self) -> None:
        """Everything works again; the token is not changed."""
        self._active.clear()
        self.slow_seconds = 0.0

    def remove(self, failure: Failure) -> None:
        """Switch a failure off, if it is on."""
        if failure in self._active:
            self._active.remove(failure)

    def check_token(self, authorization: str | None) -> None:
        """
        :raises StatusError: 401 without the right token.
        """
        if self.token is not None and authorization != f"Bearer {self.token}":
            raise StatusError(401, "Unauthorized", "Unauthorized")

    def next_for(self, verb: str, address: Address) -> Failure | None:
        """The failure of a request; it counts as used."""
        for failure in self._active:
            if failure.verb in ("", verb) and failure.resource in ("", address.resource):
                failure.times -= 1
                if not failure.times:
                    self._active.remove(failure)
                return failure
        return None


def error_event(error: StatusError) -> dict[str, Any]:
    """An error as an event within a watch."""
    return {"type": "ERROR", "object": error.status}


_SET = re.compile(r"\s*([^\s!=,()]+)\s+(in|notin)\s+\(([^)]*)\)\s*")
#: Those of nodes and pods, and of Events, as ``kubectl describe`` asks for them.
_FIELDS = frozenset((
    "metadata.name", "metadata.namespace", "spec.nodeName", "status.phase", "reason", "type",
    "involvedObject.kind", "involvedObject.name", "involvedObject.namespace", "involvedObject.uid",
))  # fmt: skip
_SEPARATOR = re.compile(r",(?![^(]*\))")


def selection(label_selector: str, field_selector: str) -> Callable[[Item], bool]:
    """Whether an object is selected by both.

    :raises ValueError: for a field that cannot be selected.
    """
    labels = [_label_test(part) for part in _SEPARATOR.split(label_selector) if part.strip()]
    fields = [_field_test(part) for part in field_selector.split(",") if part.strip()]

    def selects(item: Item) -> bool:
        held = item["metadata"].get("labels") or {}
        return all(test(held) for test in labels) and all(test(item) for test in fields)

    return selects


def _label_test(text: str) -> Callable[[dict[str, str]], bool]:
    if of_set := _SET.fullmatch(text):
        name, word = of_set[1], of_set[2]
        values = {value.strip() for value in of_set[3].split(",")}
        return lambda labels: (labels.get(name) in values) == (word == "in")
    text = text.strip()
    if "!=" in text:
        name, _, value = text.partition("!=")
        return lambda labels: labels.get(name.strip()) != value.strip()
    if "=" in text:
        name, _, value = text.replace("==", "=").partition("=")
        return lambda labels: labels.get(name.strip()) == value.strip()
    if text.startswith("!"):
        return lambda labels: text[1:].strip() not in labels
    return lambda labels: text in labels


def _field_test(text: str) -> Callable[[Item], bool]:
    is_equal = "!=" not in text
    path, _, value = text.replace("!=", "=").replace("==", "=").partition("=")
    if path not in _FIELDS:
        raise ValueError(f"field label not supported: {path}")

    def selects(item: Item) -> bool:
        found: Any = item
        for part in path.split("."):
            found = found.get(part, {}) if isinstance(found, dict) else {}
        return ((found or "") == value) == is_equal

    return selects


_VERSION = {
    "major": "1", "minor": "36", "gitVersion": "v1.36.2", "gitCommit": "", "gitTreeState": "clean", "buildDate": "",
    "goVersion": "", "compiler": "gc", "platform": "linux/amd64",
}  # fmt: skip
_DISCOVERED = ["create", "delete", "get", "list", "patch", "update", "watch"]


def discovery_page(path: str) -> dict[str, Any] | None:
    """The page of a path; None when it is none of discovery."""
    parts = [part for part in path.split("/") if part]
    groups = sorted({(kind.group, kind.version) for kind in KINDS if kind.group})
    match parts:
        case ["version"]:
            return _VERSION
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(*group) for group in groups]}
        case ["api", "v1"]:
            return _resources("", "v1")
        case ["apis", group, version] if (group, version) in groups:
            return _resources(group, version)
        case ["openapi", "v3"]:
            return {"paths": {}}
    return None


def _group(group: str, version: str) -> dict[str, Any]:
    versions = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [versions], "preferredVersion": versions}


def _resources(group: str, version: str) -> dict[str, Any]:
    held = []
    for kind in KINDS:
        if (kind.group, kind.version) == (group, version):
            held.append(_resource(kind, kind.resource, _DISCOVERED))
            if kind.has_status:
                held.append(_resource(kind, f"{kind.resource}/status", ["get", "patch", "update"]))
    name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": held}


def _resource(kind: Kind, name: str, verbs: list[str]) -> dict[str, Any]:
    return {
        "name": name, "singularName": kind.name.lower(), "namespaced": kind.is_namespaced, "kind": kind.name,
        "verbs": verbs, "shortNames": list(kind.short_names),
    }  # fmt: skip


class Stream:
    """One watch.

    :param write: sends bytes to the client.
    :param end: ends the answer.
    """

    def __init__(
        self,
        address: Address,
        selects: Callable[[Item], bool],
        write: Callable[[bytes], None],
        end: Callable[[], None],
        cut: Callable[[], None],
        *,
        has_bookmarks: bool,
    ) -> None:
        self.address = address
        self.cut = cut
        self.end = end
        self._selects = selects
        self._write = write
        self._has_bookmarks = has_bookmarks

    def begin(self, store: Store, since: str) -> bool:
        """Send what has changed since a resource version; False: it has ended with an error."""
        if since in ("", "0"):
            for item in filter(self._is_mine, store.all(self.address.kind, self.address.namespace)):
                self._send("ADDED", item)
            return True
        if int(since) < store.oldest:
            self.fail(expired(f"too old resource version: {since} ({store.oldest})"))
            return False
        for change in store.history:
            if change.version > int(since):
                self.tell(change)
        return True

    def tell(self, change: Change) -> None:
        """Send a change, if it is of this watch: what leaves its selection is DELETED for it."""
        if change.kind is not self.address.kind:
            return
        was = change.before is not None and self._is_mine(change.before)
        is_now = change.word != "DELETED" and self._is_mine(change.item)
        if was or is_now:
            self._send("DELETED" if not is_now else "MODIFIED" if was else "ADDED", change.item)

    def bookmark(self, version: int) -> None:
        """Send how far the watch is, if it has asked for that."""
        if self._has_bookmarks:
            kind = self.address.kind
            metadata = {"resourceVersion": str(version), "creationTimestamp": None}
            self._send("BOOKMARK", {"kind": kind.name, "apiVersion": kind.api_version, "metadata": metadata})

    def fail(self, error: StatusError) -> None:
        """Send an error, and end."""
        self.send_raw(orjson.dumps(error_event(error)) + b"\n")
        self.end()

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._write(data)

    def _is_mine(self, item: Item) -> bool:
        address, metadata = self.address, item["metadata"]
        is_here = not address.namespace or metadata.get("namespace") == address.namespace
        return is_here and (not address.name or metadata["name"] == address.name) and self._selects(item)

    def _send(self, word: str, item: dict[str, Any]) -> None:
        self._write(orjson.dumps({"type": word, "object": item}) + b"\n")


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
        shown = [{key: item[key] for key in item if key not in ("kind", "apiVersion")} for item in items[begin:end]]
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
