"""What fakedev writes to a cluster: patches of nodes, Events, evictions of pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from fakedev.kube.cluster import Cluster
from fakedev.kube.cluster_node import slim_node
from fakedev.kube.node_status import NodePatches
from fakedev.kube.pods import Pod
from fakedev.net.kube.api_client import ApiClient
from fakedev.net.kube.api_error import ApiError
from fakedev.net.kube.event_writer import EventWriter
from fakedev.net.kube.evictions import Evictions
from fakedev.net.kube.listing import list_all
from fakedev.net.kube.paths import node_path

#: Nodes that are patched at a time.
_MOST_AT_ONCE: Final = 16
#: What the server refused is tried again after this time: a role may have been given meanwhile.
_AGAIN_SECONDS: Final = 30.0
#: Attempts in a row that other writers were faster than.
_MOST_CONFLICTS: Final = 3
#: Refusals that another attempt does not change, unless the node or what is wanted of it changes.
_FINAL: Final = frozenset((400, 404, 422))
#: So often another fakedev may overwrite a node before it is left alone for a while.
_MOST_OVERWRITTEN: Final = 3
#: A patch that stands for so long is not overwritten by another fakedev any more, which tries it more often.
_LOOK_SECONDS: Final = 3 * _AGAIN_SECONDS
#: The parts of a node that are patched: the node itself, and its status.
_NODE: Final = ""
_STATUS: Final = "status"

Patch = Mapping[str, Any]


class ClusterWriter:
    """Sends what a cluster is to be told.

    :param changed: called when the cluster may have more to be written.
    """

    log = Logger()

    def __init__(
        self, client: ApiClient, cluster: Cluster, clock: IReactorTime, changed: Callable[[], None]
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._clock = clock
        self._changed = changed
        self._events = EventWriter(client)
        self._evictions = Evictions(client, self._evict_again)
        self._patching: set[str] = set()
        #: What the server refused of a node, by its name, and then by the part; with the UID of the node.
        self._refused: dict[str, tuple[str, dict[str, Patch]]] = {}
        self._conflicts: dict[str, int] = {}
        #: What fakedev noted at each node by its last patch, and how often something else stood there since.
        self._noted: dict[str, str] = {}
        self._overwritten: dict[str, int] = {}
        self._later: dict[str, IDelayedCall] = {}
        self._is_stopped = False

    def write(self) -> None:
        """Send what has changed, as far as there is room."""
        if self._is_stopped:
            return
        room = _MOST_AT_ONCE - len(self._patching)
        for name, patches in self._cluster.take_patches(room) if room else ():
            # A node whose answer is awaited is compared again then; others were faster at some again and again.
            if name in self._patching or self._conflicts.get(name, 0) >= _MOST_CONFLICTS:
                continue
            wanted = self._not_refused(name, patches)
            if wanted and not self._is_fought_for(name):
                self._patching.add(name)
                Deferred.fromCoroutine(self._patch(name, wanted)).addErrback(self._failed)
        if self._cluster.has_more_nodes and len(self._patching) < _MOST_AT_ONCE:
            self._changed()
        for report in self._cluster.take_reports():
            self._events.send(report)
        for pod in self._cluster.take_evictions():
            self._evictions.evict(pod)

    def _is_fought_for(self, name: str) -> bool:
        """Whether another fakedev patches a node as well; then it is tried again later, not at once and for ever."""
        node = self._cluster.node(name)
        noted = node.noted if node is not None else ""
        if not noted or self._noted.get(name, noted) == noted:
            return False
        self._overwritten[name] = self._overwritten.get(name, 0) + 1
        if self._overwritten[name] < _MOST_OVERWRITTEN:
            return False
        text = (
            f"another fakedev patches node {name} too: give both the same namespace for their Lease "
            "(kubernetes.namespace), or nodes with other labels (kubernetes.nodes.label)"
        )
        self._client.troubles.began(("fought for", name), text)
        self._try_later(name)
        return True

    def pause(self) -> None:
        """Send nothing until :meth:`resume`."""
        self._events.pause()

    def resume(self) -> None:
        """Send what waits; :meth:`write` is to follow."""
        self._events.resume()

    def stop(self) -> None:
        """Send nothing more."""
        self._is_stopped = True
        self._events.pause()
        self._evictions.stop()
        for call in self._later.values():
            call.cancel()
        self._later.clear()

    @property
    def dropped_reports(self) -> int:
        """Events that were not sent because too many waited, or because the server refused them."""
        return self._events.dropped

    @property
    def refused_count(self) -> int:
        """Nodes that the server does not let be changed, or that others change all the time."""
        return len({*self._refused, *(name for name in self._conflicts if name in self._later)})

    def _evict_again(self, pod: Pod) -> None:
        self._cluster.again_evict(pod)
        self._changed()

    def _not_refused(self, name: str, patches: NodePatches) -> dict[str, Patch]:
        """The patches of a node by its parts, without those that the server has refused already."""
        parts = {_NODE: patches.spec, _STATUS: patches.status}
        uid, refused = self._refused.get(name, ("", {}))
        if refused and uid != self._uid_of(name):
            self._forget(name)
            refused = {}
        return {
            part: patch for part, patch in parts.items() if patch is not None and _bare(patch) != refused.get(part)
        }

    def _uid_of(self, name: str) -> str:
        node = self._cluster.node(name)
        return node.uid if node is not None else ""

    def _failed(self, failure: Any) -> None:
        if failure.check(CancelledError) is None:
            self.log.failure("writing to the cluster failed by an internal error", failure=failure)

    async def _patch(self, name: str, parts: Mapping[str, Patch]) -> None:
        uid = self._uid_of(name)
        try:
            for part, patch in parts.items():  # the node first: its patch has a resource version
                try:
                    item = await self._client.merge_patch(node_path(name, part), patch, flow="nodes")
                except ApiError as error:
                    if error.code == 409:
                        await self._note_conflict(name)
                        return
                    self._refuse(name, uid, part, patch, error)
                else:
                    self._worked(name, part)
                    if item is not None:
                        self._note(name, slim_node(item))
        finally:
            self._patching.discard(name)
            self._cluster.again(name)
            self._changed()

    def _note(self, name: str, item: Mapping[str, Any]) -> None:
        self._cluster.node_changed(item)
        node = self._cluster.node(name)
        if node is None:
            self._noted.pop(name, None)
            self._overwritten.pop(name, None)
        else:
            self._noted[name] = node.noted

    def _worked(self, name: str, part: str) -> None:
        self._conflicts.pop(name, None)
        self._client.troubles.over(("node", name, part))
        refused = self._refused.get(name, ("", {}))[1]
        refused.pop(part, None)
        if not refused:
            self._refused.pop(name, None)

    async def _note_conflict(self, name: str) -> None:
        """Another writer was faster: read the node again, so that it is compared again; after some times later."""
        self._conflicts[name] = self._conflicts.get(name, 0) + 1
        if self._conflicts[name] >= _MOST_CONFLICTS:
            self._try_later(name)
            return
        try:
            # A list of one: that needs no further verb of a Role.
            items, _ = await list_all(
                self._client, "/api/v1/nodes", field_selector=f"metadata.name={name}", read=slim_node, flow="nodes"
            )
        except ApiError:
            self._try_later(name)
            return
        for item in items:
            self._cluster.node_changed(item)

    def _refuse(self, name: str, uid: str, part: str, patch: Patch, error: ApiError) -> None:
        self._refused.setdefault(name, (uid, {}))[1][part] = _bare(patch)
        if error.code == 404:  # the node is gone: a later one of that name is patched
            return
        if error.code in _FINAL:
            self._client.troubles.began(("node", name, part), f"node {name} cannot be patched: {error}")
        else:
            self._try_later(name)

    def _try_later(self, name: str, seconds: float = _AGAIN_SECONDS) -> None:
        if name not in self._later and not self._is_stopped:
            self._later[name] = self._clock.callLater(seconds, self._again, name)

    def _again(self, name: str) -> None:
        del self._later[name]
        self._conflicts.pop(name, None)
        if name in self._overwritten:
            self._look_again(name)
        self._forget(name)
        self._cluster.again(name)
        self._changed()

    def _look_again(self, name: str) -> None:
        """Patch a node once more that another fakedev has overwritten, unless what was noted last still stands."""
        node = self._cluster.node(name)
        if node is None or node.noted == self._noted.get(name):
            del self._overwritten[name]
            self._client.troubles.over(("fought for", name))
        else:
            self._overwritten[name] = _MOST_OVERWRITTEN - 2
            self._try_later(name, _LOOK_SECONDS)

    def _forget(self, name: str) -> None:
        """Nothing is known to be refused of a node."""
        self._refused.pop(name, None)
        for part in (_NODE, _STATUS):
            self._client.troubles.over(("node", name, part))

    def ticked(self) -> None:
        """A tick has ended: nodes may have left the cluster."""
        for name in [name for name in self._refused if self._cluster.node(name) is None]:
            self._forget(name)
        for name in [name for name in self._conflicts if self._cluster.node(name) is None]:
            del self._conflicts[name]


def _bare(patch: Patch) -> Patch:
    """A patch without the version of its node, which changes with each heartbeat."""
    metadata = patch.get("metadata")
    if not metadata or "resourceVersion" not in metadata:
        return patch
    return {**patch, "metadata": {key: value for key, value in metadata.items() if key != "resourceVersion"}}
