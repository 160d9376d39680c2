"""Composition of the workload ports: for each address of the configuration what listens there."""

from __future__ import annotations

from typing import Any, Final, cast

from fakedev.app.ports import Ports
from fakedev.app.reload import InUse
from fakedev.config.configuration import WorkloadListen
from fakedev.net.fleet.ticker import Ticker
from fakedev.net.fleet.workload_port import WorkloadPortFactory
from fakedev.net.fleet.workloads import WorkloadHub
from fakedev.net.lines.fair_share import Turns
from fakedev.net.system.listening import ListeningService

#: How long the original waits for the rest of a message before it gives the peer up.
ORIGINAL_PATIENCE_SECONDS: Final = 0.15


def make_workload_ports(
    in_use: InUse, hub: WorkloadHub, ticker: Ticker, turns: Turns, reactor: Any, *, drop_in: bool
) -> Ports[WorkloadListen]:
    """What listens at each address.

    :param in_use: the configuration: what it says beside the addresses holds for all of them.
    :param drop_in: with the original's impatience.
    """

    def listen(entry: WorkloadListen) -> ListeningService:
        ports = in_use.configuration.workloads
        factory = WorkloadPortFactory(
            hub,
            ticker,
            reactor,
            allow=entry.allow,
            node=entry.node,
            max_connections=ports.max_connections,
            message_seconds=ports.message_seconds,
            idle_answer_seconds=ORIGINAL_PATIENCE_SECONDS if drop_in else None,
            turns=turns,
        )
        return ListeningService(entry.listen, factory, reactor, make_folder=True)

    def change(service: ListeningService, entry: WorkloadListen) -> None:
        ports, factory = in_use.configuration.workloads, cast(WorkloadPortFactory, service.factory)
        factory.allow, factory.node = entry.allow, entry.node
        factory.max_connections, factory.message_seconds = ports.max_connections, ports.message_seconds

    return Ports(in_use.configuration.workloads.listen, lambda entry: entry.listen, listen, change)


def connection_count(ports: Ports[WorkloadListen]) -> int:
    """How many peers are connected."""
    return sum(len(cast(WorkloadPortFactory, service.factory).peers) for service, _ in ports.services)
