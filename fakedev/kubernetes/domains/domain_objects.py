"""Follows the objects ``ComputeDomain`` of a cluster: makes their templates of claims, labels nodes, writes status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from twisted.internet.defer import CancelledError
from zope.interface import implementer

from fakedev.fleet.fleet import Fleet
from fakedev.fleet.racks.racks import IMEX_READY
from fakedev.kubernetes.client.api_client import ApiClient
from fakedev.kubernetes.client.api_paths import Target
from fakedev.kubernetes.client.watch import IWatchHandler
from fakedev.kubernetes.cluster import Cluster
from fakedev.kubernetes.domains.compute_domain import (
    GROUP,
    VERSION,
    ComputeDomain,
    Member,
    claim_template,
    nodes_of_domains,
    status_of_domain,
)
from fakedev.kubernetes.nodes.simulated_node import ClusterNode
from fakedev.kubernetes.writer import AGAIN_SECONDS, Writer
from fakedev.runtime.clock import no_op
from fakedev.runtime.http_client import ApiError

_FLOW: Final = "domains"


@dataclass
class _Known:
    """An object.

    :ivar has_template: whether its template of claims was made.
    """

    domain: ComputeDomain
    has_template: bool = False
    is_writing: bool = False


@implementer(IWatchHandler)
class DomainObjects(Writer):
    """The objects of a cluster. It is the handler of their watch."""

    activity = "writing a ComputeDomain"

    def __init__(self, client: ApiClient, cluster: Cluster, fleet: Fleet) -> None:
        super().__init__(client)
        self._cluster, self._fleet = cluster, fleet
        self._known: dict[str, _Known] = {}
        self._is_away = True

    # -- the watch ---------------------------------------------------------------------------------

    def listed(self, items: list[ComputeDomain]) -> None:
        uids = {item.uid for item in items}
        for uid in [uid for uid in self._known if uid not in uids]:
            del self._known[uid]
        self._is_away = False
        for item in items:
            self.changed(item)

    def changed(self, item: ComputeDomain) -> None:
        self._known.setdefault(item.uid, _Known(item)).domain = item

    def deleted(self, item: ComputeDomain) -> None:
        self._known.pop(item.uid, None)

    def pause(self) -> None:
        """Another fakedev writes now."""
        self._is_away = True

    # -- the tick ----------------------------------------------------------------------------------

    def ticked(self) -> None:
        """A tick has ended: claims may have come or gone, and IMEX daemons may be ready or not."""
        if self._is_away or self._is_stopped or self._cluster.pods.is_waiting:
            return
        domains = nodes_of_domains(self._cluster.pods.channels.values())
        members: dict[str, list[Member]] = {}
        for node in self._cluster.nodes:
            uid = domains.get(node.name, "")
            if node.domain != uid:
                node.domain = uid
                self._cluster.again(node.name)
            if uid:
                member = self._member(node)
                node.is_imex_ready = member.is_ready
                members.setdefault(uid, []).append(member)
        for uid, known in self._known.items():
            status = status_of_domain(known.domain, members.get(uid, ()))
            present = {"status": known.domain.state, "nodes": [*known.domain.nodes]}
            if not known.is_writing and uid not in self.retries and (not known.has_template or status != present):
                known.is_writing = True
                self._run(self._write(known, status if status != present else None))

    def _member(self, node: ClusterNode) -> Member:
        found, daemons = self._fleet.roster.node(node.name), self._fleet.state.levels["device"].arrays
        status = daemons.get("imex_daemon_status")
        is_ready = found is not None and status is not None and float(status[found.first]) == IMEX_READY
        return Member(node.name, node.address, node.clique, is_ready and not node.health.is_down)

    async def _write(self, known: _Known, status: Mapping[str, Any] | None) -> None:
        domain = known.domain
        try:
            if not known.has_template:
                await self._make_template(domain)
                known.has_template = True
            if status is not None:
                target = Target(GROUP, VERSION, "computedomains", domain.namespace, domain.name, "status")
                await self._client.merge_patch(target.path, {"status": status}, flow=_FLOW)
                # What was written counts until the watch has the object.
                known.domain = replace(known.domain, state=status["status"], nodes=tuple(status["nodes"]))
        except CancelledError:
            raise
        except ApiError as error:
            if error.code != 404:  # else it is gone
                self.retries.later(domain.uid, AGAIN_SECONDS, no_op)
                if error.code != 403:  # else the client has logged it
                    shown = f"{domain.namespace}/{domain.name}"
                    self.log.error("ComputeDomain {name}: {error}", name=shown, error=str(error))
        finally:
            known.is_writing = False

    async def _make_template(self, domain: ComputeDomain) -> None:
        path = Target("resource.k8s.io", "v1", "resourceclaimtemplates", domain.namespace).path
        try:
            await self._client.request("POST", path, body=claim_template(domain), flow=_FLOW)
            self.log.info("ComputeDomain {name}: its claims are made from {template}", name=domain.name,
                          template=domain.template)  # fmt: skip
        except ApiError as error:
            if error.code != 409:  # it is there already
                raise
