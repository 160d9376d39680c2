"""What fakedev writes to a cluster: patches of nodes, Events, evictions of pods."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from fakedev.kube.cluster import Cluster
from fakedev.kube.cluster_node import slim_node
from fakedev.kube.node_status import NodePatches
from fakedev.kube.pods import Pod
from fakedev.kube.reports import Report
from fakedev.net.kube.api_client import ApiClient
from fakedev.net.kube.api_error import ApiError
from fakedev.net.kube.paths import events_path, node_path, pod_path

#: Nodes that are patched at a time.
_MOST_AT_ONCE: Final = 16
#: Events that wait to be sent; one more is dropped, and counted.
_MOST_REPORTS: Final = 1000
#: What the server refused is tried again after this time: a role may have been given meanwhile.
_AGAIN_SECONDS: Final = 30.0
#: Refusals that another attempt does not change, unless the node or what is wanted of it changes.
_FINAL: Final = frozenset((400, 404, 422))


class ClusterWriter:
    """Sends what a cluster is to be told.

    :param changed: called when the cluster may have more to be written.
    :ivar dropped_reports: Events that were not sent because too many waited.
    """

    log = Logger()

    def __init__(
        self, client: ApiClient, cluster: Cluster, clock: IReactorTime, changed: Callable[[], None]
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._clock = clock
        self._changed = changed
        self._patching: set[str] = set()
        self._refused: dict[str, NodePatches] = {}
        self._later: dict[str, IDelayedCall] = {}
        self._reporting = 0
        self._is_stopped = False
        self.dropped_reports = 0

    def write(self) -> None:
        """Send what has changed, as far as there is room."""
        if self._is_stopped:
            return
        for name, patches in self._cluster.take_patches(_MOST_AT_ONCE - len(self._patching)):
            if name in self._patching:
                # Its answer is awaited: then the node is compared again.
                continue
            if self._refused.get(name) != patches:
                self._patching.add(name)
                self._run(self._patch(name, patches))
        for report in self._cluster.take_reports():
            if self._reporting >= _MOST_REPORTS:
                self.dropped_reports += 1
            else:
                self._reporting += 1
                self._run(self._report(report))
        for pod in self._cluster.take_evictions():
            self._run(self._evict(pod))

    def stop(self) -> None:
        """Send nothing more."""
        self._is_stopped = True
        for call in self._later.values():
            call.cancel()
        self._later.clear()

    def _run(self, work: Coroutine[Deferred[Any], Any, None]) -> None:
        Deferred.fromCoroutine(work).addErrback(self._failed)

    def _failed(self, failure: Any) -> None:
        if failure.check(CancelledError) is None:
            self.log.failure("writing to the cluster failed by an internal error", failure=failure)

    async def _patch(self, name: str, patches: NodePatches) -> None:
        try:
            item = None
            if patches.spec is not None:  # first: it has a resource version
                item = await self._client.merge_patch(node_path(name), patches.spec, flow="nodes")
            if patches.status is not None:
                item = await self._client.merge_patch(node_path(name, "status"), patches.status, flow="nodes")
            self._refused.pop(name, None)
            if item is not None:
                self._cluster.node_changed(slim_node(item))
        except ApiError as error:
            self._not_patched(name, patches, error)
        finally:
            self._patching.discard(name)
            self._cluster.again(name)
            self._changed()

    def _not_patched(self, name: str, patches: NodePatches, error: ApiError) -> None:
        if error.code == 409:
            return  # another writer was faster: the node is compared again
        self._refused[name] = patches
        if error.code in _FINAL:
            if error.code != 404:  # else the node is gone
                self.log.error("node {node} cannot be patched: {reason}", node=name, reason=str(error))
            return
        if name not in self._later and not self._is_stopped:
            self._later[name] = self._clock.callLater(_AGAIN_SECONDS, self._again, name)

    def _again(self, name: str) -> None:
        del self._later[name]
        self._refused.pop(name, None)
        self._cluster.again(name)
        self._changed()

    async def _report(self, report: Report) -> None:
        now = datetime.fromtimestamp(self._clock.seconds(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        event = report.event(now)
        try:
            await self._client.request("POST", events_path(event["metadata"]["namespace"]), body=event, flow="events")
        except ApiError as error:
            self.log.debug("an Event of {name} was not taken: {reason}", name=report.name, reason=str(error))
        finally:
            self._reporting -= 1

    async def _evict(self, pod: Pod) -> None:
        metadata = {"name": pod.name, "namespace": pod.namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata,
                "deleteOptions": {"preconditions": {"uid": pod.uid}}}  # fmt: skip
        try:
            await self._client.request("POST", pod_path(pod.namespace, pod.name, "eviction"), body=body, flow="pods")
        except ApiError as error:
            if error.code != 404:
                self.log.warn(
                    "pod {namespace}/{name} is not evicted: {reason}",
                    namespace=pod.namespace, name=pod.name, reason=str(error),
                )  # fmt: skip
