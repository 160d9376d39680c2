"""Composition of the connection with a Kubernetes cluster."""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from socket import gethostname
from typing import Any, NoReturn, cast
from zlib import crc32

from fakedev.app.api_server import api_server
from fakedev.app.ports import Ports, Remedies, TlsOf
from fakedev.config.configuration import Configuration, Kubernetes, QueueListen
from fakedev.config.schema.nodes import ConfigurationError
from fakedev.kube.cluster import Cluster
from fakedev.kube.health import HealthWatch
from fakedev.net.fleet.operator_topology import OperatorTopology
from fakedev.net.fleet.state_files import CannotGoOn
from fakedev.net.fleet.state_folder import StateFolder
from fakedev.net.fleet.workloads import WorkloadHub
from fakedev.net.kube.api_client import ApiClient
from fakedev.net.kube.config_maps import ConfigMapWriter
from fakedev.net.kube.controller import Controller
from fakedev.net.kube.fleet_nodes import FleetNodes
from fakedev.net.kube.follower import ClusterFollower
from fakedev.net.kube.health_file import HealthFile
from fakedev.net.kube.lease import Lease
from fakedev.net.kube.node_port import NodePortFactory
from fakedev.net.kube.node_service import ClusterNodes
from fakedev.net.kube.node_slots import NodeSlots
from fakedev.net.kube.pod_work import PodWork
from fakedev.net.kube.slice_writer import SliceWriter
from fakedev.net.kube.writer import ClusterWriter
from fakedev.net.lines.fair_share import FairShare
from fakedev.net.system.listening import ListeningService
from fakedev.net.system.tls_client import CannotConnect
from fakedev.sim.fleet import Fleet
from fakedev.spec.kubernetes import KubernetesSettings, Resources
from fakedev.spec.shards import Shard


@dataclass(frozen=True)
class ClusterParts:
    """The parts of the program that follow a cluster.

    :param ports: where fakedev-node connects.
    """

    controller: Controller
    follower: ClusterFollower
    ports: Ports[QueueListen]


def make_client(settings: KubernetesSettings, reactor: Any) -> ApiClient:
    """The client of the configuration's API server.

    :raises SystemExit: 2, after a line for each problem, when it cannot be made.
    """
    try:
        server = api_server(settings, os.environ)
        return ApiClient(
            server, reactor, random=random.random, requests_per_second=settings.requests_per_second
        )
    except (ConfigurationError, CannotConnect) as reason:
        _give_up(reason)


def _give_up(reason: Exception) -> NoReturn:
    sys.stderr.write(f"{reason}\n")
    raise SystemExit(2) from None


def make_kubernetes(
    kubernetes: Kubernetes,
    hub: WorkloadHub,
    reactor: Any,
    fair_share: FairShare,
    closed: Counter[str],
    remedies: Remedies,
    tls_of: TlsOf,
    topology: OperatorTopology,
    state: StateFolder | None,
) -> ClusterParts:
    """The parts that follow the cluster of a configuration.

    :param closed: counts the connections that the node ports close, by reason.
    :param tls_of: the TLS of an address.
    :param topology: of fake-gpu-operator; its ConfigMaps are written if the settings say so.
    :param state: has what the service before this one knew of the health of devices.
    :raises SystemExit: 2, after a line for each problem, when the API server cannot be used; 1 when the state cannot.
    """
    fleet, settings = hub.fleet, kubernetes.settings
    client = make_client(settings, reactor)
    shard = fleet.spec.shard or Shard(0, 1)
    cluster = Cluster(settings, fleet.spec, shard.has, topology.others)
    topology.find_uids(cluster.uid_of)
    health = HealthWatch(cluster.devices, settings.recovery)
    controller = Controller(cluster, fleet, health, reactor, _health_file(state, health, fleet))
    nodes = ClusterNodes(cluster, controller.changed, controller.plugin_restarted, NodeSlots(fleet))
    uses_dra = settings.resources is not Resources.DEVICE_PLUGIN
    slices = SliceWriter(client) if uses_dra else None
    controller.connect(
        ClusterWriter(client, cluster, reactor, controller.changed),
        PodWork(hub, controller.work_ended),
        FleetNodes(fleet, reactor),
        nodes,
        slices,
        ConfigMapWriter(client, topology, fleet, cluster.node_uid) if settings.is_compatible else None,
    )
    lease = partial(_lease, client, shard, reactor, _holder(state))
    follower = ClusterFollower(client, controller, lease, slices)
    return ClusterParts(
        controller, follower, _node_ports(kubernetes, nodes, reactor, fair_share, closed, remedies, tls_of)
    )


def _health_file(state: StateFolder | None, health: HealthWatch, fleet: Fleet) -> HealthFile | None:
    """The file of the health, from which the watch goes on."""
    if state is None:
        return None
    file = HealthFile(state)
    try:
        known = file.read(fleet.roster)
    except CannotGoOn as reason:
        state.stopService()
        sys.stderr.write(f"fakedev: the state cannot be used: {reason}\n")
        raise SystemExit(1) from None
    if known is not None:
        health.go_on(fleet, known)
    return file


def _holder(state: StateFolder | None) -> str:
    """Who holds the lease. The service that goes on from a state is the one before, and has it at once.

    So is a container that is started again in its pod: it has the same process id.
    """
    process = os.getpid() if state is None else f"{crc32(os.path.realpath(state.path).encode()):08x}"
    return f"{gethostname()}-{process}"


def _lease(
    client: ApiClient,
    shard: Shard,
    reactor: Any,
    holder: str,
    acquired: Callable[[], None],
    lost: Callable[[str], None],
    waiting: Callable[[str], None],
) -> Lease:
    return Lease(
        client,
        shard=shard.number,
        shards=shard.count,
        holder=holder,
        seconds=reactor.seconds,
        acquired=acquired,
        lost=lost,
        waiting=waiting,
    )


def _node_ports(
    kubernetes: Kubernetes,
    nodes: ClusterNodes,
    reactor: Any,
    fair_share: FairShare,
    closed: Counter[str],
    remedies: Remedies,
    tls_of: TlsOf,
) -> Ports[QueueListen]:
    def entries(configuration: Configuration) -> tuple[QueueListen, ...]:
        return configuration.kubernetes.listen if configuration.kubernetes is not None else ()

    def listen(entry: QueueListen) -> ListeningService:
        factory = NodePortFactory(
            nodes,
            reactor,
            max_connections=kubernetes.max_connections,
            message_seconds=kubernetes.message_seconds,
            tokens=entry.tokens,
            fair_share=fair_share,
            closed=closed,
        )
        factory.use_tls(tls_of(entry.tls))
        return ListeningService(entry.listen, factory, reactor, make_folder=True)

    def change(service: ListeningService, entry: QueueListen, configuration: Configuration) -> None:
        factory = cast(NodePortFactory, service.factory)
        factory.gate.change(entry.tokens)
        factory.use_tls(tls_of(entry.tls))

    return Ports(
        kubernetes.listen, entries, lambda entry: entry.listen, listen, change, "kubernetes.listen", remedies
    )
