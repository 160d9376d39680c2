"""The configuration as the program uses it: frozen values, checked as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network

from fakedev.config.listen import ListenAddress
from fakedev.config.schema.schema import Values
from fakedev.exposition.identity import Identity
from fakedev.spec.fleet import FleetSpec
from fakedev.tester.plan import Plan
from fakedev.workqueue.spec import BrokerSpec


@dataclass(frozen=True)
class WebPage:
    """A page of metrics at a path of its own.

    :param identity: how it shows the devices; None: as their pools say.
    :param pool: the only pool that it shows; None: all.
    :param hold_seconds: it shows the last state at a multiple of this; None: as the identities say.
    """

    path: str
    identity: Identity | None = None
    pool: str | None = None
    hold_seconds: float | None = None


@dataclass(frozen=True)
class WebEndpoint:
    """An address that HTTP is served on.

    :param serve: ``metrics`` (pages that change nothing), ``all``, or ``exporter`` (what the vendor's exporter has).
    :param identity: how /metrics shows the devices there; None: as their pools say.
    :param pool: the only pool shown by /metrics there; None: all.
    :param token: what changes must carry; None: no token.
    :param open: changes from other machines need no token: somebody said so.
    :param hosts: names accepted in Host when something is changed, beyond loopback and addresses.
    :param hold_seconds: pages show the last state at a multiple of this; None: as the identities say.
    :param pages: further pages, each with its path.
    :param per_node: each node is a host there: its first address is the first node's, in order of the configuration.
    """

    listen: ListenAddress
    serve: str = "all"
    identity: Identity | None = None
    pool: str | None = None
    token: str | None = None
    open: bool = False
    hosts: frozenset[str] = frozenset()
    hold_seconds: float | None = None
    pages: tuple[WebPage, ...] = ()
    per_node: IPv4Network | None = None


@dataclass(frozen=True)
class WorkloadListen:
    """An address that workloads connect to.

    :param allow: what its peers may do: ``workloads``, ``faults``, ``clock``.
    :param node: the node that bare device names (``card0``) speak of there; empty for none.
    """

    listen: ListenAddress
    allow: frozenset[str]
    node: str = ""
    open: bool = False


@dataclass(frozen=True)
class WorkloadPorts:
    """The workload ports and what they bear."""

    listen: tuple[WorkloadListen, ...] = ()
    max_connections: int = 10_000
    message_seconds: float = 10.0


@dataclass(frozen=True)
class Queues:
    """The work queues and their ports.

    :param clients: where clients connect.
    :param backends: where backends connect.
    :param log_interval_seconds: between two statistics in the log; 0 for none.
    :param drain_seconds: how long running jobs may finish when the service stops.
    """

    broker: BrokerSpec
    clients: tuple[ListenAddress, ...]
    backends: tuple[ListenAddress, ...]
    log_interval_seconds: float = 0.0
    drain_seconds: float = 25.0
    max_connections: int = 10_000
    message_seconds: float = 10.0


@dataclass(frozen=True)
class Logging:
    """What is logged (``debug``, ``info``, ``warn``, ``error``) and how (``text``, ``json``)."""

    level: str = "info"
    format: str = "text"


@dataclass(frozen=True)
class Journal:
    """The file of the journal: how large it gets, and how many of them there are."""

    file: str
    max_bytes: int = 10_000_000
    keep: int = 5


@dataclass(frozen=True)
class Configuration:
    """All that a service is made from.

    :param epoch_is_start: the file names no epoch: ``fleet.epoch_seconds`` is 0 and whoever starts
        the service puts the time of the start there.
    :param speed: simulated seconds per real second; 0: the clock stands.
    :param identities: the identity of each pool, by its name.
    :param queues: None when there are none.
    :param plans: what load the tester puts on which queues.
    :param reports: files that say at the end what came of it.
    :param journal: None for no file.
    :param watch: reload whenever a file of the configuration changes.
    :param notes: what is worth knowing but forbids nothing, as ``file:line: text``.
    :param source: what was said where, for :func:`fakedev.config.export.effective_text`.
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
    watch: bool
    notes: tuple[str, ...]
    source: Values
