"""The workload ports: those of the service, which reloads change, and those of the exporter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from zope.interface import implementer

from fakedev.fleet.hub import WorkloadHub
from fakedev.fleet.port import WorkloadPortFactory
from fakedev.fleet.settings.ports import WorkloadListen, WorkloadPorts
from fakedev.fleet.ticker import Ticker
from fakedev.runtime.listening import Announced, ListeningService
from fakedev.runtime.part import IReloadable, LinePorts, Part, Remedies, TlsOf, plain
from fakedev.runtime.reactor import IReactor
from fakedev.runtime.turns import FairShare

if TYPE_CHECKING:
    from fakedev.web.metrics import Group


@implementer(IReloadable)
class WorkloadsPart(Part):
    """The workload ports of a program.

    :param settings: the addresses and their limits.
    :param tls_of: the TLS of an address.
    :param options: further ones of the line server, such as ``idle_answer_seconds``.
    """

    def __init__(
        self, settings: WorkloadPorts, hub: WorkloadHub, ticker: Ticker, fair_share: FairShare, reactor: IReactor,
        remedies: Remedies, tls_of: TlsOf = plain, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__("workloads")
        self._fleet = hub.fleet
        self.closed = {"workloads": Counter[str]()}
        self._make_factory = partial(
            WorkloadPortFactory, hub, ticker, reactor, fair_share=fair_share, closed=self.closed["workloads"], **options
        )
        self._ports = LinePorts(
            settings, lambda section: section.listen, self._make, self._change, "workloads.listen", remedies, reactor,
            tls_of=tls_of, announced=Announced("workloads", "workloads"),
        )  # fmt: skip
        self.ports = (self._ports,)

    def metrics(self) -> Mapping[str, Group]:
        from fakedev.fleet.metrics import workload_metrics  # noqa: PLC0415 - the exporter has none

        return {"workloads": partial(workload_metrics, self._fleet, self._connection_count)}

    def _make(self, entry: WorkloadListen) -> WorkloadPortFactory:
        return self._make_factory(allow=entry.allow, node=entry.node)

    def _change(self, service: ListeningService, entry: WorkloadListen, section: WorkloadPorts) -> None:
        factory = cast(WorkloadPortFactory, service.factory)
        factory.allow, factory.node = entry.allow, entry.node
        factory.max_connections = section.max_connections
        factory.message.seconds = section.message_seconds

    def _connection_count(self) -> int:
        """How many peers are connected."""
        return sum(len(cast(WorkloadPortFactory, service.factory).peers) for service in self._ports)
