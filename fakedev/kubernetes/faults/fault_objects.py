"""Follows the objects ``DeviceFault`` of a cluster: strikes their devices, looks for the signs, writes their status.

Faults go the way of all others, as events of the fleet, so that a record replays them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any, Final

from twisted.internet.defer import CancelledError
from zope.interface import implementer

from fakedev.base.errors import Refused
from fakedev.exporters.cache import Pages
from fakedev.fleet.door import fault_id_of
from fakedev.fleet.events import ClearFaults, InjectFault
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.past import wall_time
from fakedev.fleet.spec.offers import Resources
from fakedev.kubernetes.client.api_client import ApiClient
from fakedev.kubernetes.client.watch import IWatchHandler
from fakedev.kubernetes.cluster import Cluster
from fakedev.kubernetes.faults.device_fault import FAULTS_PATH, DeviceFault, Landing, status_of
from fakedev.kubernetes.faults.fault_landing import FaultLooks, NvmlValues, Track
from fakedev.kubernetes.writer import AGAIN_SECONDS, Writer
from fakedev.runtime.http_client import ApiError

#: Seconds for which a fault that is over is still looked for: Events and patches may come late.
_LATE_SECONDS: Final = 60.0


@dataclass
class _Known:
    """An object, and what was done for it.

    :ivar struck: the nodes that were struck.
    :ivar refused: the nodes that the fleet refused to strike, which are not tried again alone.
    :ivar earlier: what an earlier process wrote of steps.
    :ivar seconds: simulated time of the first strike.
    :ivar sent: the status that was written last.
    """

    fault: DeviceFault
    tracks: list[Track] = field(default_factory=list)
    struck: set[str] = field(default_factory=set)
    refused: frozenset[str] = frozenset()
    earlier: dict[int, Landing] = field(default_factory=dict)
    seconds: float = 0.0
    problem: str = ""
    sent: object = None
    is_writing: bool = False
    is_done: bool = False

    def note_over(self, elapsed: float) -> None:
        """Note which of the earlier process's steps are over, with the faults that this one has of them.

        :param elapsed: seconds since the first strike.
        """
        for number, landing in self.earlier.items():
            own = [track.is_over for track in self.tracks if track.step == number]
            is_over = all(own) if own else elapsed >= self.fault.steps[number].end
            landing.is_over |= bool(landing.began) and is_over

    def landings(self) -> list[Landing]:
        """Of each step, all its faults together."""
        found = []
        for number, step in enumerate(self.fault.steps):
            own = [track.landing() for track in self.tracks if track.step == number]
            earlier = self.earlier.get(number)
            if earlier is not None and (not own or earlier.landed):
                own = [earlier]
            total = own[0] if own else Landing(step.kind)
            for landing in own[1:]:
                total = total.with_other(landing)
            found.append(total)
        return found


#: What another process goes on from, by the UID of an object.
KeptFaults = Mapping[str, Mapping[str, Any]]


@implementer(IWatchHandler)
class FaultObjects(Writer):
    """The objects of a cluster. It is the handler of their watch.

    :param shard: the number of this process's shard, under which it writes.
    :param nvml: reads the file for NVML; None: there is none.
    :param kept: what the process before this one has left.
    """

    activity = "writing the status of a DeviceFault"

    def __init__(
        self, client: ApiClient, cluster: Cluster, fleet: Fleet, pages: Pages, shard: int,
        nvml: NvmlValues | None, resources: Resources, kept: KeptFaults,
    ) -> None:  # fmt: skip
        super().__init__(client)
        self._cluster, self._fleet, self._shard = cluster, fleet, str(shard)
        self._looks = FaultLooks(fleet, cluster, pages, nvml, has_counts=resources is not Resources.DRA)
        self._kept = dict(kept)
        self._known: dict[str, _Known] = {}
        self._is_listed = self._is_away = False
        #: The nodes of fleet and cluster as they were last, and whether an object must be compared with them.
        self._nodes: tuple[object, object] = None, None
        self._has_news = False

    # -- the watch ---------------------------------------------------------------------------------

    def listed(self, items: list[DeviceFault]) -> None:
        uids = {item.uid for item in items}
        for uid in [uid for uid in self._known if uid not in uids]:
            self._end(uid)
        for uid in [uid for uid in self._kept if uid not in uids]:
            self._clear([fault_id for _, fault_id in self._kept.pop(uid)["faults"]])
        self._is_listed, self._is_away = True, False
        for item in items:
            self.changed(item)

    def changed(self, item: DeviceFault) -> None:
        known = self._known.get(item.uid)
        if known is not None and known.fault.generation == item.generation:
            known.fault = item
            return
        if known is not None:
            self._end(item.uid)
        self._known[item.uid] = self._resumed(item)
        self._has_news = True

    def deleted(self, item: DeviceFault) -> None:
        self._end(item.uid)

    def pause(self) -> None:
        """Another fakedev writes now."""
        self._is_away = True

    def _resumed(self, item: DeviceFault) -> _Known:
        """An object that is new to this process, perhaps not to the one before."""
        known = _Known(item, problem=item.problem)
        kept = self._kept.pop(item.uid, {})
        shards = item.status.get("shards")
        own = shards.get(self._shard) if isinstance(shards, dict) else None
        is_same = isinstance(own, dict) and own.get("generation") == item.generation
        if isinstance(own, dict) and is_same and (kept or item.status.get("phase") == "Over"):
            known.earlier = {number: Landing.read(step) for number, step in enumerate(own.get("steps") or ())}
            known.is_done = not kept
        if kept.get("generation") == item.generation:
            known.struck, known.seconds = set(kept["nodes"]), float(kept["seconds"])
            known.tracks = [
                self._looks.track(step, self._fleet.faults.by_id[fault_id])
                for step, fault_id in kept["faults"]
                if fault_id in self._fleet.faults.by_id
            ]
        elif kept:
            self._clear([fault_id for _, fault_id in kept["faults"]])
        return known

    def kept(self) -> KeptFaults:
        """What the process after this one goes on from."""
        if not self._is_listed:
            return self._kept
        return {
            uid: {
                "generation": known.fault.generation, "seconds": known.seconds, "nodes": sorted(known.struck),
                "faults": [[track.step, track.fault_id] for track in known.tracks],
            }
            for uid, known in self._known.items()
            if known.struck
        }  # fmt: skip

    def _end(self, uid: str) -> None:
        known = self._known.pop(uid, None)
        if known is not None:
            self._clear([track.fault_id for track in known.tracks])

    def _clear(self, fault_ids: Sequence[str]) -> None:
        standing = {fault.fault_id for fault in self._fleet.faults.standing()}
        found = tuple(fault_id for fault_id in fault_ids if fault_id in standing)
        if found:
            self._fleet.apply(ClearFaults(found))
            self.log.info("{count} faults of a DeviceFault cleared", count=len(found))

    # -- the tick ----------------------------------------------------------------------------------

    def event_taken(self, event: Mapping[str, Any]) -> None:
        """The API server has taken an Event."""
        involved = event["involvedObject"]
        if involved["kind"] == "Node" and any(involved["name"] in known.struck for known in self._known.values()):
            self._looks.event_taken(event)

    def ticked(self) -> None:
        """A tick has ended: strike nodes that are new, look for signs, write what has changed."""
        if not self._known:
            self._looks.forget_events()
            return
        seconds = self._client.clock.seconds()
        now, late = wall_time(seconds), wall_time(seconds - _LATE_SECONDS)
        nodes = self._fleet.roster, self._cluster.nodes.pools_of_nodes
        if not all(map(is_, nodes, self._nodes)):
            self._nodes, self._has_news = nodes, True
            self._looks.forget_pages()
        if self._has_news:
            self._has_news = False
            for known in self._known.values():
                self._strike(known)
        for known in self._known.values():
            elapsed = self._fleet.state.seconds - known.seconds
            for track in known.tracks:
                track.is_over |= track.fault_id not in self._fleet.faults.by_id and (
                    # One that lasts has ended, or was repaired; what happens at once is over when its time is.
                    track.fault.lasts or track.fault.period < 0 or elapsed >= known.fault.steps[track.step].end
                )
                is_late = track.is_over and bool(track.began) and track.began < late
                if not track.landed and not is_late:
                    self._looks.look(track, now)
            known.note_over(elapsed)
            self._write(known)

    def _strike(self, known: _Known) -> None:
        """Strike the nodes that an object selects and that were not struck."""
        fault = known.fault
        if fault.problem or known.is_done:
            return
        roster = self._fleet.roster
        chosen = [
            (name, found.pool.devices_per_node)
            for name in self._selected(fault)
            if name not in known.struck and (found := roster.node(name)) is not None
        ]
        names = frozenset(name for name, _ in chosen)
        words = [word for name, count in chosen for word in fault.words(name, count)]
        if not words or names <= known.refused:
            return
        seconds = self._fleet.state.seconds
        begun = known.seconds if known.struck else seconds
        tracks: list[Track] = []
        try:
            for number, step in enumerate(fault.steps):
                spec = step.spec(words, seconds - begun)
                if spec is not None:
                    fault_id = fault_id_of(self._fleet.apply(InjectFault(spec)).sequence)
                    tracks.append(self._looks.track(number, self._fleet.faults.by_id[fault_id]))
        except Refused as refusal:
            self._clear([track.fault_id for track in tracks])
            known.refused = names
            if not known.struck:
                known.problem = refusal.text
            return
        known.problem, known.seconds, known.refused = "", begun, frozenset()
        known.struck |= names
        known.tracks += tracks
        self.log.info("DeviceFault {name} strikes {count} nodes", name=fault.name, count=len(names))

    def _selected(self, fault: DeviceFault) -> Iterator[str]:
        for node in self._cluster.nodes:
            if fault.selects(node.name, node.item["metadata"].get("labels") or {}):
                yield node.name

    # -- the status --------------------------------------------------------------------------------

    def _write(self, known: _Known) -> None:
        """Write the status of an object, if it has changed."""
        if known.is_writing or self._is_away or self._is_stopped or known.fault.uid in self.retries:
            return
        now = wall_time(self._client.clock.seconds())
        ids = [track.fault_id for track in known.tracks]
        status = status_of(known.fault, self._shard, known.landings(), ids, known.problem, now)
        if status != known.sent and not _is_in(status, known.fault.status):
            known.is_writing = True
            self._run(self._send(known, status))

    async def _send(self, known: _Known, status: Mapping[str, Any]) -> None:
        path = f"{FAULTS_PATH}/{known.fault.name}/status"
        try:
            item = await self._client.merge_patch(path, {"status": status}, flow="faults")
            known.sent = status
            if isinstance(item, dict):
                known.fault = replace(known.fault, status=item.get("status") or {})
        except CancelledError:
            raise
        except ApiError as error:
            if error.code != 404:  # else it is gone
                self.retries.later(known.fault.uid, AGAIN_SECONDS, lambda: None)
                if error.code != 403:  # else the client has logged it
                    self.log.error("the status of DeviceFault {name}: {error}", name=known.fault.name, error=str(error))
        finally:
            known.is_writing = False


def _is_in(part: object, whole: object) -> bool:
    """Whether a merge patch would change nothing."""
    if isinstance(part, Mapping) and isinstance(whole, Mapping):
        return all(name in whole and _is_in(value, whole[name]) for name, value in part.items())
    return part == whole

