"""The work of a cluster's pods, in the fleet: workloads start and stop as pods do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from fakedev.kube.pod_record import WorkKey
from fakedev.kube.work_changes import WorkChange
from fakedev.net.fleet.workloads import WorkloadHub
from fakedev.sim.workloads.workload import Verdict
from fakedev.spec.errors import Refused

#: Why work of a pod is stopped, for its verdict and the journal: the pod is over, or does something else.
_IS_OVER: Final = "its pod has ended"
_CHANGES: Final = "its pod does something else now"


class PodWork:
    """The workloads of all containers with devices.

    :param ended: called when the work of a container has ended by itself, with its code and the reason.
    """

    def __init__(self, hub: WorkloadHub, ended: Callable[[WorkKey, int, str], None]) -> None:
        self._hub = hub
        self._ended = ended
        self._ids: dict[WorkKey, str] = {}

    def change(self, changes: Sequence[WorkChange]) -> list[tuple[WorkKey, str]]:
        """Stop and start what the changes say, each as an event of the fleet.

        :returns: what the fleet refused, with the reason.
        """
        follow = {each.key for each in changes if each.spec is not None}
        for keys, reason in ((follow, _CHANGES), (None, _IS_OVER)):
            stopped = [
                self._ids.pop(each.key)
                for each in changes
                if each.spec is None and each.key in self._ids and (keys is None or each.key in keys)
            ]
            if stopped:
                self._hub.end(stopped, reason)
        refused = []
        for key, spec in ((each.key, each.spec) for each in changes):
            if spec is None:
                continue
            try:
                self._ids[key] = self._hub.start(spec, partial(self._told, key))
            except Refused as reason:
                refused.append((key, reason.text))
        return refused

    def _told(self, key: WorkKey, verdict: Verdict) -> None:
        if self._ids.get(key) == verdict.workload_id:
            del self._ids[key]
            self._ended(key, verdict.code, verdict.text)
