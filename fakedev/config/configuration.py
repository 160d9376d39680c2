"""The configuration as the program uses it: frozen values, checked as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fakedev.schema.declare import LONGEST_SECONDS, described, restarts, setting

if TYPE_CHECKING:  # the drop-ins take it without the sections, and must start fast
    from ipaddress import IPv4Network

    from fakedev.exporters.identity import Identity
    from fakedev.exporters.settings.otlp import Otlp
    from fakedev.fleet.compiled import CompiledFleet
    from fakedev.fleet.settings.ports import WorkloadListen, WorkloadPorts
    from fakedev.fleet.spec.fleet_spec import FleetSpec
    from fakedev.kubernetes.runai.operator import Topology
    from fakedev.kubernetes.settings import Kubernetes
    from fakedev.nvml.settings import KernelLogFile, Nvml
    from fakedev.queues.settings import Queues
    from fakedev.runtime.settings import Logging
    from fakedev.schema.addresses import ListenAddress
    from fakedev.schema.sections import Values
    from fakedev.tester.plan import Plan
    from fakedev.web.settings import LineListen, WebConfigSource


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a page of metrics shows; in the configuration the identity is a name."""

    identity: Identity | None = setting(
        "Shows all devices as this exporter does, here only.", default_words="the identities of the pools"
    )
    pool: str | None = setting("Show only this pool here.", default_words="all pools")
    hold_seconds: float | None = setting(
        "Pages show the last tick at a multiple of this, as exporters that collect at intervals do.",
        low=0.001, high=LONGEST_SECONDS, default_words="what the identities say",
    )  # fmt: skip


@dataclass(frozen=True)
class WebPage(Shown):
    """A page of metrics at its own path."""

    path: str = field(metadata=described("Its path, as /amd/metrics.", words="path"))


@dataclass(frozen=True)
class WebEndpoint(Shown):
    """An address that HTTP is served on.

    :param token: requests that change something must carry it; None: no token.
    :param names: names that Host may have in requests to the API, besides loopback names and IP addresses.
    :param pages: further pages, each with its path.
    :param per_node: a network in which each node has an address, in the order of the configuration.
    :param web_config: where its web configuration is: TLS, passwords; None for none.
    :param token_file: the file with the token; empty for none.
    """

    listen: ListenAddress
    serve: str = setting(
        "metrics: pages that change nothing; all: everything; exporter: only /metrics and /health, as the exporter has "
        "them.",
        default="all", choices=("metrics", "all", "exporter"),
    )  # fmt: skip
    token: str | None = None
    open: bool = setting("Allows other machines to change things without a token.", default=False)
    names: frozenset[str] = frozenset()
    pages: tuple[WebPage, ...] = ()
    per_node: IPv4Network | None = None
    web_config: WebConfigSource | None = None
    token_file: str = ""

    @property
    def identities(self) -> tuple[Identity, ...]:
        """The identities that the address and its pages name."""
        named = (self.identity, *(page.identity for page in self.pages))
        return tuple(identity for identity in named if identity is not None)


@dataclass(frozen=True)
class Journal:
    """The file of the journal."""

    file: str = field(metadata=described(
        "The file, in JSON Lines; FILE.1 and so on are older.", path="path", required=False
    ))  # fmt: skip
    max_bytes: int = setting(
        "A file that would become larger is rotated.", default=10_000_000, name="max-size", default_words="10MB"
    )
    keep: int = setting("The largest number of files.", default=5, low=1, high=1000)


@dataclass(frozen=True)
class HpcJobs:
    """The folder with the jobs of a node's GPUs.

    :param is_written: of workloads with the label ``hpc_job`` (``job_id`` with AMD's exporter); else it is followed.
    """

    folder: str = field(metadata=described(
        "A folder with a file for each GPU, named by its index (or its UUID; 1.2 is the instance with the GPU_I_ID 2 "
        "of GPU 1), with a job on each line; or with the JSON object of a job, as AMD's Slurm prolog writes it.",
        path="path", required=False,
    ))  # fmt: skip
    node: str = field(metadata=described("The node whose GPUs these are.", default_words="the first node"))
    is_written: bool = False
    every_seconds: float = setting("How often, in real time.", default=30.0, low=0.1, high=86400.0)


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
    :param kernel_log: None: XIDs are in no log of a kernel.
    :param otlp: None: nothing is sent to a collector.
    :param watch: reload whenever a file of the configuration changes.
    :param topology: of fake-gpu-operator, which the pools and the base workloads were made from; None for none.
    :param notes: remarks that do not forbid the configuration, as ``file:line: text``.
    :param compiled: the nodes of the fleet as they were checked, until the first fleet takes them.
    :param source: the values with their places, for :func:`fakedev.config.export.effective_text`.
    """

    fleet: FleetSpec
    epoch_is_start: bool
    speed: float = field(metadata=restarts("fleet.speed"))
    identities: Mapping[str, Identity]
    web: tuple[WebEndpoint, ...]
    workloads: WorkloadPorts
    queues: Queues | None
    plans: tuple[Plan, ...] = field(metadata=restarts("tester"))
    reports: tuple[str, ...] = field(metadata=restarts("tester"))
    logging: Logging = field(metadata=restarts("log"))
    journal: Journal | None = field(metadata=restarts("journal"))
    state: str | None = field(metadata=restarts("state"))
    watch: bool = field(metadata=restarts("watch"))
    kubernetes: Kubernetes | None = field(metadata=restarts("kubernetes"))
    notes: tuple[str, ...]
    source: Values
    topology: Topology | None = None
    hpc_jobs: HpcJobs | None = field(default=None, metadata=restarts("hpc-jobs"))
    nvml: Nvml | None = field(default=None, metadata=restarts("nvml"))
    kernel_log: KernelLogFile | None = field(default=None, metadata=restarts("kernel-log"))
    otlp: Otlp | None = field(default=None, metadata=restarts("otlp"))
    compiled: list[CompiledFleet] = field(default_factory=list, compare=False, repr=False)

    def web_config_sources(self) -> Iterator[WebConfigSource]:
        """Where the web configurations of all addresses are, and TLS of line ports."""
        lines: list[tuple[WorkloadListen | LineListen, ...]] = [self.workloads.listen]
        if self.queues is not None:
            lines += [self.queues.clients, self.queues.backends]
        if self.kubernetes is not None:
            lines.append(self.kubernetes.listen)
        sources = [endpoint.web_config for endpoint in self.web] + [port.tls for line in lines for port in line]
        return (source for source in sources if source is not None)
