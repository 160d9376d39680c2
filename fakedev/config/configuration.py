"""The configuration as the program uses it: frozen values, checked as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fakedev.spec.kubernetes import KubernetesSettings
from fakedev.spec.listen_address import ListenAddress

if TYPE_CHECKING:  # fakedev-frontend needs the queues alone, and must start fast
    from ipaddress import IPv4Network

    from fakedev.config.schema.schema import Values
    from fakedev.config.web_config import WebConfigSource
    from fakedev.exposition.identity import Identity
    from fakedev.kube.topology import Topology
    from fakedev.spec.fleet import FleetSpec
    from fakedev.tester.plan import Plan
    from fakedev.workqueue.spec import BrokerSpec


@dataclass(frozen=True)
class WebPage:
    """A page of metrics at its own path.

    :param identity: how it shows the devices; None: the identities of their pools.
    :param pool: the only pool that it shows; None: all.
    :param hold_seconds: it shows the last state at a multiple of this; None: those of the identities.
    """

    path: str
    identity: Identity | None = None
    pool: str | None = None
    hold_seconds: float | None = None


@dataclass(frozen=True)
class WebEndpoint:
    """An address that HTTP is served on.

    :param serve: ``metrics`` (read-only pages), ``all``, or ``exporter`` (the pages of the vendor's exporter).
    :param identity: how /metrics shows the devices there; None: the identities of their pools.
    :param pool: the only pool shown by /metrics there; None: all.
    :param token: requests that change something must carry it; None: no token.
    :param open: other machines may change things without a token.
    :param names: names that Host may have in requests to the API, besides loopback names and IP addresses.
    :param hold_seconds: pages show the last state at a multiple of this; None: those of the identities.
    :param pages: further pages, each with its path.
    :param per_node: a network in which each node has an address, in the order of the configuration.
    :param web_config: where its web configuration is: TLS, passwords; None for none.
    """

    listen: ListenAddress
    serve: str = "all"
    identity: Identity | None = None
    pool: str | None = None
    token: str | None = None
    open: bool = False
    names: frozenset[str] = frozenset()
    hold_seconds: float | None = None
    pages: tuple[WebPage, ...] = ()
    per_node: IPv4Network | None = None
    web_config: WebConfigSource | None = None


@dataclass(frozen=True)
class WorkloadListen:
    """An address that workloads connect to.

    :param allow: what its clients may change: ``workloads``, ``faults``, ``clock``.
    :param node: node of the device names without one (``card0``); empty for none.
    :param tokens: its clients must give one of them; empty: they need none.
    :param tls: where its side of TLS is; None: plain text.
    """

    listen: ListenAddress
    allow: frozenset[str]
    node: str = ""
    tokens: tuple[str, ...] = ()
    open: bool = False
    tls: WebConfigSource | None = None


@dataclass(frozen=True)
class WorkloadPorts:
    """The workload ports and their limits."""

    listen: tuple[WorkloadListen, ...] = ()
    max_connections: int = 10_000
    message_seconds: float = 10.0


@dataclass(frozen=True)
class QueueListen:
    """An address of a port of the queues.

    :param tokens: its peers must give one of them; empty: they need none.
    :param tls: where its side of TLS is; None: plain text.
    """

    listen: ListenAddress
    tokens: tuple[str, ...] = ()
    open: bool = False
    tls: WebConfigSource | None = None


@dataclass(frozen=True)
class Queues:
    """The work queues and their ports.

    :param clients: addresses for clients.
    :param backends: addresses for backends.
    :param log_interval_seconds: between two statistics in the log; 0 for none.
    :param drain_seconds: how long running jobs may go on when the service stops.
    """

    broker: BrokerSpec
    clients: tuple[QueueListen, ...]
    backends: tuple[QueueListen, ...]
    log_interval_seconds: float = 0.0
    drain_seconds: float = 25.0
    max_connections: int = 10_000
    message_seconds: float = 10.0


@dataclass(frozen=True)
class Kubernetes:
    """The connection with a cluster, and the ports for fakedev-node."""

    settings: KubernetesSettings
    listen: tuple[QueueListen, ...] = ()
    max_connections: int = 10_000
    message_seconds: float = 10.0


@dataclass(frozen=True)
class Logging:
    """The lowest level that is logged (``debug``, ``info``, ``warn``, ``error``) and the form (``text``, ``json``)."""

    level: str = "info"
    format: str = "text"


@dataclass(frozen=True)
class Journal:
    """The file of the journal, its largest size, and the number of files that are kept."""

    file: str
    max_bytes: int = 10_000_000
    keep: int = 5


@dataclass(frozen=True)
class HpcJobs:
    """The folder with the jobs of a node's GPUs.

    :param is_written: of the workloads with the label ``hpc_job``; else it is followed.
    """

    folder: str
    node: str
    is_written: bool = False
    every_seconds: float = 30.0


@dataclass(frozen=True)
class Nvml:
    """The file that the NVML library reads.

    :param nodes: whose boards are in it; none: those of all nodes.
    :param setters: users that may change boards; with any, there is a UNIX socket beside the file.
    """

    file: str
    nodes: tuple[str, ...] = ()
    mode: int = 0o644
    setters: tuple[str, ...] = ()

    @property
    def control_socket(self) -> str:
        """The UNIX socket for changes; empty for none."""
        return f"{self.file}.sock" if self.setters else ""


@dataclass(frozen=True)
class Configuration:
    """All settings of a service.

    :param epoch_is_start: the file gives no epoch: ``fleet.epoch_seconds`` is 0, and the application
        sets it to the time of the start.
    :param speed: simulated seconds per real second; 0: the clock is stopped.
    :param identities: the identity of each pool, by its name.
    :param queues: None when there are none.
    :param plans: the tester's loads on queues.
    :param reports: files that the tester writes its results to at the end.
    :param journal: None for no file.
    :param state: the folder in which the fleet is kept over restarts; None: it is not.
    :param kubernetes: None: there is no cluster.
    :param hpc_jobs: None: jobs are in no folder.
    :param nvml: None: there is no file for NVML.
    :param watch: reload whenever a file of the configuration changes.
    :param topology: of fake-gpu-operator, which the pools and the base workloads were made from; None for none.
    :param notes: remarks that do not forbid the configuration, as ``file:line: text``.
    :param source: the values with their places, for :func:`fakedev.config.export.effective_text`.
    """

    fleet: FleetSpec
    epoch_is_start: bool
    speed: float
    identities: Mapping[str, Identity]
    web: tuple[WebEndpoint, ...]
    workloads: WorkloadPorts
    queues: Queues | None
    plans: tuple[Plan, ...]
    reports: tuple[str, ...]
    logging: Logging
    journal: Journal | None
    state: str | None
    watch: bool
    kubernetes: Kubernetes | None
    notes: tuple[str, ...]
    source: Values
    topology: Topology | None = None
    hpc_jobs: HpcJobs | None = None
    nvml: Nvml | None = None
