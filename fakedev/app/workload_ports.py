"""Composition of the workload ports: those of the service, which reloads change, and those of the exporter."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

from fakedev.app.ports import Ports, Remedies, TlsOf
from fakedev.config.configuration import Configuration, WorkloadListen, WorkloadPorts
from fakedev.net.fleet.ticker import Ticker
from fakedev.net.fleet.workload_port import WorkloadPortFactory
from fakedev.net.fleet.workloads import WorkloadHub
from fakedev.net.lines.fair_share import FairShare
from fakedev.net.system.listening import ListeningService


def make_workload_port(
    entry: WorkloadListen, ports: WorkloadPorts, hub: WorkloadHub, ticker: Ticker, reactor: Any, **options: Any
) -> ListeningService:
    """The port of one address.

    :param ports: its limits.
    :param options: further ones of the line server, such as ``fair_share``.
    """
    factory = WorkloadPortFactory(
        hub,
        ticker,
        reactor,
        allow=entry.allow,
        node=entry.node,
        max_connections=ports.max_connections,
        message_seconds=ports.message_seconds,
        tokens=entry.tokens,
        **options,
    )
    return ListeningService(entry.listen, factory, reactor, make_folder=True)


def make_workload_ports(
    configuration: Configuration,
    hub: WorkloadHub,
    ticker: Ticker,
    fair_share: FairShare,
    reactor: Any,
    closed: Counter[str],
    remedies: Remedies,
    tls_of: TlsOf,
) -> Ports[WorkloadListen]:
    """The workload ports of the service.

    :param closed: counts the connections that they close, by reason.
    :param tls_of: the TLS of an address.
    """

    def listen(entry: WorkloadListen) -> ListeningService:
        service = make_workload_port(
            entry, configuration.workloads, hub, ticker, reactor, fair_share=fair_share, closed=closed
        )
        cast(WorkloadPortFactory, service.factory).use_tls(tls_of(entry.tls))
        return service

    def change(service: ListeningService, entry: WorkloadListen, configuration: Configuration) -> None:
        ports, factory = configuration.workloads, cast(WorkloadPortFactory, service.factory)
        factory.allow, factory.node = entry.allow, entry.node
        factory.gate.change(entry.tokens)
        factory.use_tls(tls_of(entry.tls))
        factory.max_connections = ports.max_connections
        factory.message_timer.change(ports.message_seconds)

    return Ports(
        configuration.workloads.listen, lambda whole: whole.workloads.listen, lambda entry: entry.listen,
        listen, change, "workloads.listen", remedies,
    )  # fmt: skip


def connection_count(ports: Ports[WorkloadListen]) -> int:
    """How many peers are connected."""
    return sum(len(cast(WorkloadPortFactory, service.factory).peers) for service, _ in ports.services)
