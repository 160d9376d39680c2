"""What fakedev writes to objects of others: patches of nodes, Events, evictions of pods; and what all writers share.

Events of nodes and pods are sent in the order in which they were made. Pods whose devices have failed are evicted.
``owned_objects.py`` has the writers of ResourceSlices and ConfigMaps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from fakedev.kubernetes.client.api_client import EVENTS_FLOW, ApiClient
from fakedev.kubernetes.client.api_paths import events_path, node_path, pod_path, slice_path
from fakedev.kubernetes.client.watch import list_all
from fakedev.kubernetes.cluster import Cluster
from fakedev.kubernetes.devices.resource_slices import HAS_SLICES, slice_name
from fakedev.kubernetes.nodes.node_status import NodePatches, Report, slim_node
from fakedev.kubernetes.pods import DEVICES, Pod
from fakedev.runtime.clock import no_op
from fakedev.runtime.http_client import ApiError

#: What the server refused is tried again after this time: a role may have been given meanwhile.
AGAIN_SECONDS: Final = 30.0


class Retries:
    """Calls that are due later, at most one for each key."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._calls: dict[Hashable, IDelayedCall] = {}
        self._is_stopped = False

    def __contains__(self, key: Hashable) -> bool:
        return key in self._calls

    def __len__(self) -> int:
        return len(self._calls)

    def later(self, key: Hashable, seconds: float, call: Callable[..., object], *arguments: Any) -> None:
        """Call something later, unless the key waits already or all is stopped."""

        def due() -> None:
            del self._calls[key]
            call(*arguments)

        if key not in self._calls and not self._is_stopped:
            self._calls[key] = self._clock.callLater(seconds, due)

    def clear(self) -> None:
        for call in self._calls.values():
            call.cancel()
        self._calls.clear()

    def stop(self) -> None:
        self._is_stopped = True
        self.clear()


class Writer:
    """Writes objects of one kind.

    :cvar activity: what it does, for the log of an internal error.
    :ivar retries: what must be tried again.
    """

    log = Logger()
    activity = ""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._is_stopped = False
        self.retries = Retries(client.clock)

    def stop(self) -> None:
        self._is_stopped = True
        self.retries.stop()

    def _run(self, work: Coroutine[Deferred[Any], Any, None]) -> None:
        Deferred.fromCoroutine(work).addErrback(self._failed)

    def _failed(self, failure: Any) -> None:
        if failure.check(CancelledError) is None:
            self.log.failure("{activity} failed by an internal error", failure=failure, activity=self.activity)


#: Events that wait to be sent; one more is dropped, and counted.
_MOST_WAITING: Final = 1000
#: Events that are sent at a time.
_MOST_EVENTS_AT_ONCE: Final = 4


class EventWriter(Writer):
    """Sends Events; while the server does not take them, the newest are kept.

    :ivar dropped: how many were not sent because too many waited, or because the server refused them.
    :ivar taken: called with each Event that the server has taken.
    """

    activity = "sending an Event"

    def __init__(self, client: ApiClient) -> None:
        super().__init__(client)
        self._waiting: deque[dict[str, Any]] = deque()
        self._sending = 0
        self._is_forbidden = self._is_paused = False
        self.dropped = 0
        self.taken: Callable[[dict[str, Any]], None] = no_op

    def send(self, report: Report) -> None:
        now = datetime.fromtimestamp(self._client.clock.seconds(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if len(self._waiting) >= _MOST_WAITING:
            self._waiting.popleft()
            self.dropped += 1
        self._waiting.append(report.event(now))
        self._send_next()

    def pause(self) -> None:
        """Send nothing until :meth:`resume`; requests wait."""
        self._is_paused = True
        self.retries.clear()

    def resume(self) -> None:
        self._is_paused = False
        self._send_next()

    def _send_next(self) -> None:
        most = 1 if self._is_forbidden else _MOST_EVENTS_AT_ONCE
        while self._waiting and self._sending < most and not self.retries and not self._is_paused:
            self._sending += 1
            self._run(self._send(self._waiting.popleft()))

    async def _send(self, event: dict[str, Any]) -> None:
        try:
            path = events_path(event["metadata"]["namespace"])
            await self._client.request("POST", path, body=event, flow=EVENTS_FLOW)
            self._is_forbidden = False
            self.taken(event)
        except CancelledError:
            self._keep(event)
            raise
        except ApiError as error:
            if error.code == 403:  # the client has logged it, with the rule that is missing
                self._is_forbidden = True
                self._keep(event)
                if not self._is_paused:
                    self.retries.later("", AGAIN_SECONDS, self._send_next)
            elif error.code != 409:  # it is there already: a connection was lost after it was taken
                self.dropped += 1
                self.log.debug("an Event was not taken: {reason}", reason=str(error))
        finally:
            self._sending -= 1
            self._client.clock.callLater(0, self._send_next)

    def _keep(self, event: dict[str, Any]) -> None:
        """Send an Event once more; it is the oldest, and dropped first."""
        if len(self._waiting) >= _MOST_WAITING:
            self.dropped += 1
        else:
            self._waiting.appendleft(event)


#: The pod is gone, or another one has its name.
_OVER: Final = frozenset((404, 409))


class Evictions(Writer):
    """Evicts pods, each once; a pod that could not be evicted is asked for again later.

    :param again: called with such a pod.
    """

    activity = "an eviction"

    def __init__(self, client: ApiClient, again: Callable[[Pod], None]) -> None:
        super().__init__(client)
        self._again = again
        #: The UIDs of the pods whose refusal was logged.
        self._logged: set[str] = set()

    def evict(self, pod: Pod) -> None:
        if pod.uid not in self.retries and not self._is_stopped:
            self._run(self._evict(pod))

    async def _evict(self, pod: Pod) -> None:
        metadata = {"name": pod.name, "namespace": pod.namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata,
                "deleteOptions": {"preconditions": {"uid": pod.uid}}}  # fmt: skip
        try:
            await self._client.request("POST", pod_path(pod.namespace, pod.name, "eviction"), body=body, flow="pods")
            self._logged.discard(pod.uid)
            self.log.info("pod {namespace}/{name} is evicted: a device of it has failed", **metadata)
        except CancelledError:
            self._try_later(pod)
            raise
        except ApiError as error:
            if error.code in _OVER:
                self._logged.discard(pod.uid)
                return
            if pod.uid not in self._logged:
                self._logged.add(pod.uid)
                self.log.warn(
                    "pod {namespace}/{name} is not evicted, it is tried again: {reason}", **metadata, reason=str(error)
                )
            self._try_later(pod)

    def _try_later(self, pod: Pod) -> None:
        self.retries.later(pod.uid, AGAIN_SECONDS, self._try_again, pod)

    def _try_again(self, pod: Pod) -> None:
        if len(self._logged) > len(self.retries) + 1000:
            self._logged = {uid for uid in self._logged if uid in self.retries}  # others are gone meanwhile
        self._again(pod)


#: Refusals of a record that another attempt does not change: the pod is gone, or another one has its name.
_NOT_THERE: Final = frozenset((404, 409, 422))


class DeviceRecords(Writer):
    """Writes the annotations of pods with their devices.

    :param recorded: called with a pod, the text of its annotation, and whether the API server has taken it.
    """

    activity = "recording the devices of a pod"

    def __init__(self, client: ApiClient, recorded: Callable[[Pod, str, bool], None]) -> None:
        super().__init__(client)
        self._recorded = recorded
        self._writing = 0

    @property
    def room(self) -> int:
        """How many more pods may be recorded at once."""
        return max(_MOST_AT_ONCE - self._writing - len(self.retries), 0)

    def write(self, pod: Pod, text: str) -> None:
        self._writing += 1
        self._run(self._write(pod, text))

    async def _write(self, pod: Pod, text: str) -> None:
        patch = {"metadata": {"uid": pod.uid, "annotations": {DEVICES: text}}}
        try:
            await self._client.merge_patch(pod_path(pod.namespace, pod.name, "status"), patch, flow="pods")
        except CancelledError:
            self._recorded(pod, text, False)
            raise
        except ApiError as error:
            if error.code not in _NOT_THERE:
                self.retries.later(pod.uid, AGAIN_SECONDS, self._recorded, pod, text, False)
        else:
            self._recorded(pod, text, True)
        finally:
            self._writing -= 1


#: Nodes that are patched at a time.
_MOST_AT_ONCE: Final = 16
#: Attempts in a row that other writers were faster than.
MOST_CONFLICTS: Final = 3
#: Refusals that another attempt does not change, unless the node or what is wanted of it changes.
_FINAL: Final = frozenset((400, 404, 422))
#: So often another fakedev may overwrite a node before it is left alone for a while.
_MOST_OVERWRITTEN: Final = 3
#: After this time another fakedev, which tries more often, no longer overwrites a patch.
_LOOK_SECONDS: Final = 3 * AGAIN_SECONDS
#: The parts of a node that are patched: the node itself, and its status.
_NODE: Final = ""
_STATUS: Final = "status"

Patch = Mapping[str, Any]


@dataclass
class _NodeHistory:
    """What came of the patches of one node.

    :ivar uid: of the node whose patches were refused.
    :ivar refused: what the server refused of it, by the part.
    :ivar conflicts: attempts in a row that other writers were faster than.
    :ivar noted: what fakedev noted at the node by its last patch; None: nothing yet.
    :ivar overwritten: how often something else stood there since.
    """

    uid: str = ""
    refused: dict[str, Patch] = field(default_factory=dict)
    conflicts: int = 0
    noted: str | None = None
    overwritten: int = 0


class ClusterWriter(Writer):
    """Patches nodes, and passes Events and evictions on to their writers.

    :param changed: called when the cluster may have more to be written.
    :ivar events: the writer of Events.
    """

    activity = "writing to the cluster"

    def __init__(self, client: ApiClient, cluster: Cluster, changed: Callable[[], None]) -> None:
        super().__init__(client)
        self._cluster = cluster
        self._changed = changed
        self.events = EventWriter(client)
        self._evictions = Evictions(client, self._evict_again)
        self._records = DeviceRecords(client, self._recorded)
        self._patching: set[str] = set()
        self._has_left_slices = False
        self._histories: dict[str, _NodeHistory] = {}

    def write(self) -> None:
        """Send what has changed, as far as there is room."""
        if self._is_stopped:
            return
        room = _MOST_AT_ONCE - len(self._patching)
        for name, patches in self._cluster.take_patches(room) if room else ():
            history = self._history(name)
            # A node whose answer is awaited is compared again then; others were faster at some again and again.
            if name in self._patching or history.conflicts >= MOST_CONFLICTS:
                continue
            wanted = self._not_refused(name, patches)
            if wanted and not self._is_fought_for(name, history):
                self._patching.add(name)
                self._run(self._patch(name, wanted))
        if self._cluster.has_more_nodes and len(self._patching) < _MOST_AT_ONCE:
            self._changed()
        for report in self._cluster.take_reports():
            self.events.send(report)
        for pod in self._cluster.pods.take_evictions():
            self._evictions.evict(pod)
        for pod, text in self._cluster.pods.take_records(self._records.room):
            self._records.write(pod, text)

    def stop(self) -> None:
        super().stop()
        self.events.pause()
        self._evictions.stop()
        self._records.stop()

    def ticked(self) -> None:
        """A tick has ended: nodes may have left the cluster."""
        for name in [name for name in self._histories if self._cluster.nodes.get(name) is None]:
            self._forget_refusals(name)
            self._client.open_problems.over(("fought for", name))
            del self._histories[name]

    @property
    def refused_count(self) -> int:
        """Nodes that the server does not let be changed, or that others change all the time."""
        return sum(
            bool(history.refused or (history.conflicts and name in self.retries))
            for name, history in self._histories.items()
        )

    def _recorded(self, pod: Pod, text: str, is_taken: bool) -> None:
        self._cluster.pods.recorded(pod, text, is_taken=is_taken)
        self._changed()

    def _evict_again(self, pod: Pod) -> None:
        self._cluster.pods.evict_again(pod)
        self._changed()

    def _is_fought_for(self, name: str, history: _NodeHistory) -> bool:
        """Whether another fakedev patches a node as well; then it is tried again later, not at once and for ever."""
        node = self._cluster.nodes.get(name)
        if node is None or not node.noted or history.noted in (None, node.noted):
            return False
        history.overwritten += 1
        if history.overwritten < _MOST_OVERWRITTEN:
            return False
        text = (
            f"another fakedev patches node {name} too: give both the same namespace for their Lease "
            "(kubernetes.namespace), or nodes with other labels (kubernetes.nodes.label)"
        )
        self._client.open_problems.began(("fought for", name), text)
        self._try_later(name)
        return True

    def _not_refused(self, name: str, patches: NodePatches) -> dict[str, Patch]:
        """The patches of a node by its parts, without those that the server has refused already."""
        history = self._histories[name]
        if history.refused and history.uid != self._cluster.node_uid(name):
            self._forget_refusals(name)
        parts = {_NODE: patches.spec, _STATUS: patches.status}
        return {
            part: patch
            for part, patch in parts.items()
            if patch is not None and _bare(patch) != history.refused.get(part)
        }

    async def _patch(self, name: str, parts: Mapping[str, Patch]) -> None:
        uid = self._cluster.node_uid(name)
        try:
            if uid and _drops_slices(parts):
                await self._delete_slices(name)
            for part, patch in parts.items():  # the node first: its patch has a resource version
                try:
                    item = await self._client.merge_patch(node_path(name, part), patch, flow="nodes")
                except ApiError as error:
                    if error.code == 409:
                        await self._note_conflict(name)
                        return
                    self._refuse(name, uid, part, patch, error)
                else:
                    self._note_success(name, part, item)
        finally:
            self._patching.discard(name)
            self._cluster.again(name)
            self._changed()

    async def _delete_slices(self, name: str) -> None:
        """Delete the ResourceSlices of an earlier configuration: claims would be given devices that nobody serves."""
        try:
            for number in count():
                path = slice_path(slice_name(name, number))
                await self._client.request("DELETE", path, flow="slices", is_optional=True)
        except ApiError as error:
            if error.code != 404 and not self._has_left_slices:  # 404: after the last one
                self._has_left_slices = True
                text = "ResourceSlices of an earlier `resources` stay: {reason}; `fakedev kube clean` deletes them"
                self.log.warn(text, reason=str(error))

    def _history(self, name: str) -> _NodeHistory:
        return self._histories.setdefault(name, _NodeHistory())

    def _note_success(self, name: str, part: str, item: Any) -> None:
        history = self._history(name)
        history.conflicts = 0
        history.refused.pop(part, None)
        self._client.open_problems.over(("node", name, part))
        if item is not None:
            self._cluster.node_changed(slim_node(item))
            node = self._cluster.nodes.get(name)
            history.noted = node.noted if node is not None else None

    async def _note_conflict(self, name: str) -> None:
        """Another writer was faster: read the node again, so that it is compared again; after some times later."""
        history = self._history(name)
        history.conflicts += 1
        if history.conflicts >= MOST_CONFLICTS:
            self._try_later(name)
            return
        try:
            # A list of one: that needs no further verb of a Role.
            selector = {"fieldSelector": f"metadata.name={name}"}
            items, _ = await list_all(self._client, "/api/v1/nodes", query=selector, read=slim_node, flow="nodes")
        except ApiError:
            self._try_later(name)
            return
        for item in items:
            self._cluster.node_changed(item)

    def _refuse(self, name: str, uid: str, part: str, patch: Patch, error: ApiError) -> None:
        history = self._history(name)
        if not history.refused:
            history.uid = uid
        history.refused[part] = _bare(patch)
        if error.code == 404:  # the node is gone: a later one of that name is patched
            return
        if error.code in _FINAL:
            self._client.open_problems.began(("node", name, part), f"node {name} cannot be patched: {error}")
        else:
            self._try_later(name)

    def _try_later(self, name: str, seconds: float = AGAIN_SECONDS) -> None:
        self.retries.later(name, seconds, self._again, name)

    def _again(self, name: str) -> None:
        history = self._history(name)
        history.conflicts = 0
        if history.overwritten:
            self._look_again(name, history)
        self._forget_refusals(name)
        self._cluster.again(name)
        self._changed()

    def _look_again(self, name: str, history: _NodeHistory) -> None:
        """Patch a node once more that another fakedev has overwritten, unless what was noted last still stands."""
        node = self._cluster.nodes.get(name)
        if node is None or node.noted == history.noted:
            history.overwritten = 0
            self._client.open_problems.over(("fought for", name))
        else:
            history.overwritten = _MOST_OVERWRITTEN - 2
            self._try_later(name, _LOOK_SECONDS)

    def _forget_refusals(self, name: str) -> None:
        self._histories[name].refused.clear()
        for part in (_NODE, _STATUS):
            self._client.open_problems.over(("node", name, part))


def _drops_slices(parts: Mapping[str, Patch]) -> bool:
    """Whether patches remove the annotation of a node with slices."""
    return any(patch.get("metadata", {}).get("annotations", {}).get(HAS_SLICES, "") is None for patch in parts.values())


def _bare(patch: Patch) -> Patch:
    """A patch without the version of its node, which changes with each heartbeat."""
    metadata = patch.get("metadata")
    if not metadata or "resourceVersion" not in metadata:
        return patch
    return {**patch, "metadata": {key: value for key, value in metadata.items() if key != "resourceVersion"}}
