"""The connection with a Kubernetes cluster as a part of the service."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Mapping
from functools import partial
from socket import gethostname
from zlib import crc32

from zope.interface import implementer

from fakedev.exporters.cache import Pages
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.hub import WorkloadHub
from fakedev.fleet.spec.limits import Shard
from fakedev.fleet.spec.offers import KubernetesSettings, Resources
from fakedev.fleet.state_folder import CannotGoOn, StateFolder
from fakedev.kubernetes.client.api_client import ApiClient
from fakedev.kubernetes.client.lease import Lease
from fakedev.kubernetes.cluster import Cluster
from fakedev.kubernetes.controller import Controller, FleetNodes, HealthFile, PodWorkloads
from fakedev.kubernetes.devices.health import HealthWatch
from fakedev.kubernetes.domains.domain_objects import DomainObjects
from fakedev.kubernetes.faults.fault_landing import NvmlValues
from fakedev.kubernetes.faults.fault_objects import FaultObjects, KeptFaults
from fakedev.kubernetes.follower import ClusterFollower, cluster_metrics
from fakedev.kubernetes.nodes.node_port import ClusterNodes, NodePortFactory, NodeSlots
from fakedev.kubernetes.owned_objects import ConfigMapWriter, SliceWriter, TopologyWriter
from fakedev.kubernetes.runai.operator_port import OperatorTopology
from fakedev.kubernetes.settings import Kubernetes, api_server
from fakedev.kubernetes.writer import ClusterWriter
from fakedev.runtime.clock import no_op
from fakedev.runtime.listening import Announced, CannotStart
from fakedev.runtime.part import IReloadable, LinePorts, Part, Remedies, TlsOf
from fakedev.runtime.reactor import IReactor
from fakedev.runtime.tls import CannotConnect
from fakedev.runtime.turns import FairShare
from fakedev.schema.places import ConfigurationError
from fakedev.web.metrics import Group


def make_client(settings: KubernetesSettings, reactor: IReactor) -> ApiClient:
    """The client of the configuration's API server.

    :raises CannotStart: with a line for each problem, when it cannot be made.
    """
    try:
        server = api_server(settings, os.environ)
        return ApiClient(
            server, reactor, random=random.random, requests_per_second=settings.requests_per_second
        )
    except (ConfigurationError, CannotConnect) as reason:
        raise CannotStart(str(reason), 2) from None


@implementer(IReloadable)
class KubernetesPart(Part):
    """What follows the cluster of a configuration, and the ports for fakedev-node.

    :param topology: of fake-gpu-operator; its ConfigMaps are written if the settings say so.
    :param pages: of the fleet's exporters.
    :param nvml: reads the file for NVML; None: there is none.
    :param state: has what the service before this one knew of the health of devices.
    :param tls_of: the TLS of an address.
    :raises CannotStart: when the API server or the state cannot be used.
    """

    def __init__(
        self, kubernetes: Kubernetes, hub: WorkloadHub, topology: OperatorTopology, state: StateFolder | None,
        pages: Pages, nvml: NvmlValues | None,
        fair_share: FairShare, reactor: IReactor, remedies: Remedies, tls_of: TlsOf,
    ) -> None:  # fmt: skip
        fleet, settings = hub.fleet, kubernetes.settings
        client = make_client(settings, reactor)
        hub.master = "the cluster"
        shard = fleet.spec.shard or Shard(0, 1)
        cluster = Cluster(settings, fleet.spec, shard.has, topology.others)
        topology.find_uids(cluster.pods.uid_of)
        health = HealthWatch(cluster.devices, settings.recovery)
        file, kept = _health_file(state, health, cluster, fleet)
        faults = FaultObjects(client, cluster, fleet, pages, shard.number, nvml, settings.resources, kept)
        self._controller = controller = Controller(cluster, fleet, health, reactor, file)
        nodes = ClusterNodes(cluster, controller.changed, controller.plugin_restarted, NodeSlots(fleet))
        domains = DomainObjects(client, cluster, fleet) if settings.compute_domains else None
        uses_dra = settings.resources is not Resources.DEVICE_PLUGIN
        slices = SliceWriter(client, controller.slices_again, controller.changed) if uses_dra else None
        controller.connect(
            ClusterWriter(client, cluster, controller.changed),
            PodWorkloads(hub, controller.work_ended),
            FleetNodes(fleet, reactor),
            nodes,
            slices,
            ConfigMapWriter(client, topology, fleet, cluster.node_uid) if settings.is_compatible else None,
            faults if settings.device_faults else None,
            domains,
            TopologyWriter(client, topology, cluster) if settings.node_topologies else None,
        )
        self._follower = ClusterFollower(
            client, controller,
            partial(Lease, client, shard=shard.number, shards=shard.count, holder=_holder(state)), slices,
            faults if settings.device_faults else None, domains,
        )
        super().__init__("kubernetes", [self._follower])
        self._reactor = reactor
        self.closed = {"nodes": Counter[str]()}
        make = partial(
            NodePortFactory, nodes, reactor, max_connections=kubernetes.max_connections,
            message_seconds=kubernetes.message_seconds, fair_share=fair_share, closed=self.closed["nodes"],
        )  # fmt: skip
        self._ports = LinePorts(
            kubernetes, lambda section: section.listen, lambda _: make(), no_op, "kubernetes.listen", remedies, reactor,
            tls_of=tls_of, announced=Announced("nodes", "fakedev-node"),
        )  # fmt: skip
        self.ports = (self._ports,)

    def metrics(self) -> Mapping[str, Group]:
        return {"kubernetes": partial(cluster_metrics, self._follower, self._reactor)}

    def unready_reason(self) -> str | None:
        return self._follower.unready_reason()

    def ticked(self) -> None:
        self._controller.ticked()


def _health_file(
    state: StateFolder | None, health: HealthWatch, cluster: Cluster, fleet: Fleet
) -> tuple[HealthFile | None, KeptFaults]:
    """The file of the health, from which the watch goes on, and the faults of objects in it.

    :raises CannotStart: when it is damaged.
    """
    if state is None:
        return None, {}
    file = HealthFile(state)
    try:
        known = file.read(fleet.roster)
    except CannotGoOn as reason:
        raise CannotStart(f"fakedev: the state cannot be used: {reason}") from None
    if known is not None:
        health.go_on(fleet, known[0])
        cluster.nodes.remembered |= known[1]
    return file, known[2] if known is not None else {}


def _holder(state: StateFolder | None) -> str:
    """Who holds the lease. The service that goes on from a state is the one before, and has it at once.

    So is a container that is started again in its pod: it has the same process id.
    """
    process = os.getpid() if state is None else f"{crc32(os.path.realpath(state.path).encode()):08x}"
    return f"{gethostname()}-{process}"
