"""An API server of Kubernetes in memory, for tests: over a socket of the loopback interface, or without any.

::

    api = ClusterApi(LinkedReactor())       # in memory; with Twisted's reactor: a real socket at 127.0.0.1
    api.start()
    api.add(node("dgx-0", {"fakedev/pool": "dgx"}))
    client = ApiClient(api.server, api.reactor, ...)
    ...
    api.reactor.settle()                    # in memory: until everything that was written has arrived
    assert api.get("nodes", "dgx-0")["status"]["capacity"]["nvidia.com/gpu"] == "8"
    assert api.requests["patch", "nodes/status", 200] == 1

It keeps resource versions and their history, lists by pages, watches with bookmarks, label and field selectors, merge
patches of objects and of their status, conflicts (409), deletions, evictions and the checks of ``checks.py`` (422).
Kinds: ``kinds.py``. It is no scheduler, controller or kubelet: a pod runs when the test says so. Strategic merge
patches (kubectl) are taken as merge patches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.protocols.policies import WrappingFactory
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.web.server import Site

from fakedev.runtime.tls_settings import ApiServer
from tests.support.kube.rest import Failure, Failures, Rest
from tests.support.kube.store import (
    Address,
    Change,
    Item,
    StatusError,
    Store,
    copied,
    expired,
    kind_of_item,
    kind_of_resource,
    merged,
)


class ClusterApi:
    """The API server and what tests do with it. Names of resources are those of paths: ``nodes``, ``pods``.

    :param reactor: Twisted's, or a LinkedReactor.
    :param authority: signs the server's certificate (``certificates.py``); None: plain HTTP.
        TLS needs Twisted's reactor: it is not in memory.
    :ivar requests: how many requests were answered, by verb, resource and code. A watch counts when it begins.
    """

    def __init__(self, reactor: Any, authority: Any = None) -> None:
        self.reactor = reactor
        self.store = Store(reactor.seconds)
        self._failures = Failures()
        self._rest = Rest(reactor, self.store, self._failures)
        self._authority = authority
        self._listening: Any = None
        self._factory: Any = None
        self._port = 0

    # Starting and stopping

    def start(self) -> None:
        """Listen; after a stop at the same port, with the same objects."""
        site = Site(self._rest, reactor=self.reactor)
        site.noisy = False
        site.displayTracebacks = False
        site.log = lambda request: None
        inner: Any = site
        if self._authority is not None:
            inner = TLSMemoryBIOFactory(self._authority.server_options(), False, site)
        self._factory = WrappingFactory(inner)
        self._factory.noisy = False
        self._listening = self.reactor.listenTCP(self._port, self._factory, interface="127.0.0.1")
        self._port = self._listening.getHost().port

    def stop(self) -> Deferred[Any]:
        """Cut all connections; further ones are refused."""
        listening, self._listening = self._listening, None
        if listening is None:
            return maybeDeferred(lambda: None)
        self.cut_connections()
        return maybeDeferred(listening.stopListening)

    def cut_connections(self) -> None:
        """Cut all connections; new ones are taken."""
        for protocol in list(self._factory.protocols):
            protocol.transport.abortConnection()

    # How clients reach it

    @property
    def url(self) -> str:
        """Of the API."""
        return f"{'http' if self._authority is None else 'https'}://127.0.0.1:{self._port}"

    @property
    def server(self) -> ApiServer:
        """How a client reaches it, with the certificate of its authority and the token."""
        ca_pem = "" if self._authority is None else self._authority.pem
        return ApiServer(self.url, ca_pem=ca_pem, token=self._failures.token or "")

    @property
    def kubeconfig(self) -> str:
        """The text of a kubeconfig file with one context, ``test``."""
        cluster = f"{{name: test, cluster: {{server: '{self.url}'}}}}"
        if self._authority is not None:
            cluster = (
                f"{{name: test, cluster: {{server: '{self.url}', "
                f"certificate-authority-data: {self._authority.pem_base64}}}}}"
            )
        user = f"{{token: '{self._failures.token}'}}" if self._failures.token else "{}"
        return (
            "apiVersion: v1\nkind: Config\ncurrent-context: test\n"
            f"clusters: [{cluster}]\nusers: [{{name: test, user: {user}}}]\n"
            "contexts: [{name: test, context: {cluster: test, user: test}}]\n"
        )

    # Objects

    def add(self, item: Item) -> Item:
        """Create an object from its manifest; returns it as it is stored."""
        kind = kind_of_item(item)
        namespace = item.get("metadata", {}).get("namespace", "default") if kind.is_namespaced else ""
        address = Address(kind, namespace)
        stored = self.store.create(address, item)
        return copied(stored)

    def modify(self, resource: str, name: str, patch: Item, namespace: str = "") -> Item:
        """Merge a patch into an object, its status too, as a controller or kubelet would do."""
        address = self._address(resource, name, namespace)
        return copied(self.store.replace(address, merged(self.store.get(address), patch), is_whole=True))

    def remove(self, resource: str, name: str, namespace: str = "") -> None:
        """Delete an object."""
        self.store.delete(self._address(resource, name, namespace))

    def get(self, resource: str, name: str, namespace: str = "") -> Item:
        """An object as it is now.

        :raises StatusError: when there is none.
        """
        return copied(self.store.get(self._address(resource, name, namespace)))

    def items(self, resource: str, namespace: str = "") -> list[Item]:
        """All objects of a resource, by namespace and name."""
        return copied(self.store.all(kind_of_resource(resource), namespace))

    def when(self, resource: str, test: Callable[[Item], bool]) -> Deferred[Item]:
        """Fires with the first object of which ``test`` is true, now or after a change; deletions do not count.

        ``await within(api.when("nodes", lambda node: node["status"].get("capacity")))``
        """
        kind = kind_of_resource(resource)
        found: Deferred[Item] = Deferred(lambda _: self.store.listeners.remove(look))

        def look(change: Change) -> None:
            if change.kind is kind and change.word != "DELETED" and test(change.item):
                self.store.listeners.remove(look)
                # In a turn of its own: what waits for it does not run inside of the request.
                self.reactor.callLater(0, found.callback, copied(change.item))

        for item in self.store.all(kind):
            if test(item):
                found.callback(copied(item))
                return found
        self.store.listeners.append(look)
        return found

    # Requests

    @property
    def requests(self) -> Counter[tuple[str, str, int]]:
        """How many requests were answered, by verb, resource (``nodes/status``) and code; 0: cut."""
        return self._rest.requests

    @property
    def watches(self) -> int:
        """How many watches are open."""
        return len(self._rest.streams)

    def requests_since(self, before: Counter[tuple[str, str, int]]) -> Counter[tuple[str, str, int]]:
        """What was requested after ``before``, a copy of ``requests``: nothing, in the steady state."""
        return self.requests - before

    # What goes wrong

    def require_token(self, token: str) -> None:
        """Answer 401 to requests without this token."""
        self._failures.token = token

    def fail(
        self,
        code: int,
        verb: str = "",
        resource: str = "",
        *,
        times: int = 1,
        retry_after_seconds: int | None = None,
        message: str = "",
    ) -> Failure:
        """Answer the next requests with an error; ``works(failure)`` ends it.

        :param code: 403, 409, 410, 422, 429, 500, 503, ...; 0: the connection is cut without an answer.
        :param verb: get, list, watch, create, update, patch, delete; empty: all.
        :param resource: as rules of roles name it (``nodes``, ``nodes/status``, ``pods/eviction``); empty: all.
        :param times: how many requests; -1: all.
        """
        return self._failures.add(Failure(verb, resource, code, times, retry_after_seconds, message))

    def forbid(self, verb: str = "", resource: str = "") -> Failure:
        """Answer 403 until ``works``."""
        return self.fail(403, verb, resource, times=-1)

    def works(self, failure: Failure | None = None) -> None:
        """End a failure; without an argument all of them, and slowness."""
        if failure is None:
            self._failures.clear()
        else:
            self._failures.remove(failure)

    def be_slow(self, seconds: float) -> None:
        """Begin each answer so much later."""
        self._failures.slow_seconds = seconds

    def bookmark(self) -> None:
        """Send a bookmark to each watch."""
        for stream in list(self._rest.streams):
            stream.bookmark(self.store.version)

    def end_streams(self, resource: str = "") -> None:
        """End watches as the real server does after some minutes."""
        for stream in self._streams(resource):
            stream.end()

    def cut_streams(self, resource: str = "") -> None:
        """Cut the connections of watches."""
        for stream in self._streams(resource):
            stream.cut()

    def expire(self, resource: str = "", *, is_told: bool = True) -> None:
        """Forget the history: watches from older resource versions are refused with 410.

        :param is_told: open watches get 410 as an event, too.
        """
        self.store.forget_history()
        for stream in self._streams(resource) if is_told else ():
            stream.fail(expired(f"too old resource version: 1 ({self.store.oldest})"))

    def fail_streams(self, code: int, message: str = "failed by the test", resource: str = "") -> None:
        """End watches with an event ERROR of this code."""
        for stream in self._streams(resource):
            stream.fail(StatusError(code, "InternalError", message))

    def send_raw(self, data: bytes, resource: str = "") -> None:
        """Send bytes within watches that are no events."""
        for stream in self._streams(resource):
            stream.send_raw(data)

    def _streams(self, resource: str) -> list[Any]:
        return [stream for stream in self._rest.streams if resource in ("", stream.address.kind.resource)]

    def _address(self, resource: str, name: str, namespace: str) -> Address:
        kind = kind_of_resource(resource)
        return Address(kind, (namespace or "default") if kind.is_namespaced else "", name)


def node(name: str, labels: dict[str, str] | None = None, *, has_kubelet: bool = False) -> Item:
    """A node as a cluster has it, without GPUs; by default one of KWOK."""
    annotations = {} if has_kubelet else {"kwok.x-k8s.io/node": "fake"}
    quantities = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}, "annotations": annotations,
        },
        "spec": {},
        "status": {
            "capacity": dict(quantities), "allocatable": dict(quantities),
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }  # fmt: skip


def pod(
    name: str,
    node_name: str = "",
    limits: dict[str, str] | None = None,
    *,
    namespace: str = "default",
    phase: str = "Running",
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
) -> Item:
    """A pod with one container, ``main``; bound when ``node_name`` is given."""
    resources = {"limits": dict(limits or {}), "requests": dict(limits or {})}
    spec: Item = {"containers": [{"name": "main", "image": "busybox", "resources": resources}]}
    if node_name:
        spec["nodeName"] = node_name
    metadata = {"name": name, "namespace": namespace, "annotations": annotations or {}, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": phase}}
