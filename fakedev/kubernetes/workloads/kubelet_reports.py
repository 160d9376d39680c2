"""What kubelets have given to containers: the lists of PodResources, as nodes report them, and what came after them."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

from fakedev.kubernetes.devices.node_ledger import ContainerIds
from fakedev.kubernetes.nodes.node_view import Allocation
from fakedev.kubernetes.workloads.pod_record import PodKey


class _Report(NamedTuple):
    """The last report of a node."""

    allocations: Sequence[Allocation]
    starting: Sequence[str]


class KubeletReports:
    """The last report of each node."""

    def __init__(self) -> None:
        self._reports: dict[str, _Report] = {}

    def __contains__(self, node: str) -> bool:
        return node in self._reports

    def take(self, node: str, allocations: Sequence[Allocation], starting: Sequence[str]) -> None:
        """A report, which replaces the one before.

        :param starting: the ids of devices that containers were given after the list was made.
        """
        self._reports[node] = _Report(allocations, starting)

    def forget(self, node: str) -> None:
        self._reports.pop(node, None)

    def containers(self, node: str, pod: PodKey) -> ContainerIds:
        """What device plugins gave to a pod; what claims gave it is known by the claims, with their labels."""
        found: dict[str, list[str]] = {}
        for each in self._allocations(node):
            if (each.namespace, each.pod) == pod and not each.claim:
                found.setdefault(each.container, []).extend(each.ids)
        return found

    def used_claims(self, node: str) -> set[PodKey]:
        """Namespace and name of the claims that containers have."""
        return {(each.namespace, each.claim) for each in self._allocations(node) if each.claim}

    def ids_without_pod(self, node: str, pods: Container[PodKey]) -> list[str]:
        """The ids that device plugins gave to containers of pods that are not known, or not reported, yet."""
        report = self._reports.get(node, _Report((), ()))
        others = (each for each in report.allocations if not each.claim and (each.namespace, each.pod) not in pods)
        return [*report.starting, *(each_id for other in others for each_id in other.ids)]

    def _allocations(self, node: str) -> Sequence[Allocation]:
        return self._reports[node].allocations if node in self._reports else ()
