"""What the fleet is to begin and to end for pods that have changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fakedev.kube.node_table import NodeTable
from fakedev.kube.pod_record import PodKey, PodRecord, WorkKey
from fakedev.spec.fleet import WorkloadSpec


@dataclass(frozen=True)
class WorkChange:
    """What the fleet is to run for a container.

    :param spec: None: nothing any more.
    """

    key: WorkKey
    spec: WorkloadSpec | None


class ChangedPods:
    """The pods whose work may have to change.

    :param pods: all pods; those that are gone are removed from it when their work is ended.
    :ivar has_more: whether the last :meth:`take` left pods for the next one.
    """

    def __init__(self, pods: dict[PodKey, PodRecord], nodes: NodeTable) -> None:
        self._pods = pods
        self._nodes = nodes
        self._changed: dict[PodKey, None] = {}
        self.has_more = False

    def __bool__(self) -> bool:
        return bool(self._changed)

    def add(self, keys: PodKey | Mapping[PodKey, None]) -> None:
        """A pod, or each of several."""
        if isinstance(keys, tuple):
            self._changed[keys] = None
        else:
            self._changed.update(keys)

    def take(self, is_there: Callable[[str, str], bool], most: int) -> list[WorkChange]:
        """The changes of at most so many pods: what ends first.

        :param is_there: whether the fleet has a node in a pool by now; pods of others wait, and what they did ends.
        """
        ends: list[WorkChange] = []
        starts: list[WorkChange] = []
        count = 0
        self.has_more = False
        for key in list(self._changed):
            record = self._pods[key]
            node = None if record.is_gone else self._nodes.get(record.pod.node)
            is_waiting = node is not None and not is_there(node.name, node.pool.name)
            if is_waiting and not record.running:
                continue
            if count == most:
                self.has_more = True
                break
            # Pods of nodes that are not simulated are many in some clusters, and cost nothing.
            count += bool(record.running) or node is not None
            before, record.running = record.running, {} if node is None or is_waiting else record.work_on(node)
            ends += [WorkChange((*key, name), None) for name in before if before[name] != record.running.get(name)]
            starts += [
                WorkChange((*key, name), spec) for name, spec in record.running.items() if before.get(name) != spec
            ]
            if not is_waiting:
                del self._changed[key]
            if record.is_gone:
                del self._pods[key]
        return [*ends, *starts]
