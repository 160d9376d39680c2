"""What shows a fleet and is kept from tick to tick: pages, charts, the live view."""

from __future__ import annotations

from collections.abc import Callable

from fakedev.app.ports import Ports
from fakedev.config.configuration import Configuration, WebEndpoint
from fakedev.net.fleet.operator_topology import OperatorTopology
from fakedev.net.system.timing import no_op
from fakedev.net.web.live import LiveView
from fakedev.net.web.page_cache import Pages
from fakedev.sim.charts import History
from fakedev.sim.fleet import Fleet


class FleetViews:
    """Follows the fleet through ticks, reloads and changes of its nodes.

    :param write_nvml: writes a tick into the file for NVML.
    """

    def __init__(
        self,
        fleet: Fleet,
        pages: Pages,
        history: History,
        live: LiveView,
        web: Ports[WebEndpoint],
        topology: OperatorTopology,
        write_nvml: Callable[[], None] = no_op,
    ) -> None:
        self._fleet = fleet
        self._web = web
        self._pages = pages
        self._history = history
        self._live = live
        self._topology = topology
        self._write_nvml = write_nvml
        self._shown = fleet.compiled

    def follow(self, configuration: Configuration) -> None:
        """The fleet has another configuration, or other nodes: take over what is still valid."""
        self._shown = self._fleet.compiled
        self._pages.follow(configuration.identities)
        if self._fleet.moves is not None:
            self._history.move(self._fleet.moves, self._fleet.state)
        follow_topology(self._topology, configuration)
        self._live.renew()

    def ticked(self, configuration: Configuration) -> None:
        """A tick has ended.

        :param configuration: the one in use.
        """
        if self._fleet.compiled is not self._shown:  # the nodes of a cluster have changed
            self.follow(configuration)
            self._web.refresh(configuration)
        self._pages.keep()
        self._history.note(self._fleet.state)
        self._write_nvml()


def follow_topology(topology: OperatorTopology, configuration: Configuration) -> None:
    """Let the topology addresses follow a configuration: they are there with a topology, or where a cluster asks."""
    cluster = configuration.kubernetes
    is_compatible = cluster is not None and cluster.settings.is_compatible
    topology.follow(configuration.topology, is_on=configuration.topology is not None or is_compatible)
