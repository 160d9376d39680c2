"""The pages and values of a configuration that is not on the disk, after some simulated time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.config.schema.files import Files
from fakedev.exposition.captured import CapturedPage, read_page
from fakedev.exposition.label_cache import LabelCache
from fakedev.exposition.page import Page
from fakedev.exposition.sources import DeviceSource, by_identity
from fakedev.sim.fleet import Fleet

#: Simulated seconds after which temperatures are steady: the slowest boards need four times 31 s.
STEADY_SECONDS: Final = 180
_EPOCH: Final = "fleet.epoch=1700000000"


@dataclass(frozen=True)
class Rendered:
    """A fleet that has run for some time."""

    fleet: Fleet
    configuration: Configuration

    def page(self, identity: str) -> CapturedPage:
        """The page of all nodes with an identity.

        :param identity: its name in the configuration.
        """
        pools = self.configuration.source["fleet"]["pools"]
        names = {pool["name"]: pool["identity"] for pool in pools}
        for shown, nodes in by_identity(self.fleet.roster.shown, self.configuration.identities):
            if names[nodes[0].pool.name] == identity:
                page = Page(LabelCache(shown, DeviceSource.of(self.fleet, shown)), nodes)
                return read_page(page.render(self.fleet.shown).decode())
        raise KeyError(identity)

    def value(self, node: str, index: int, quantity: str) -> float | None:
        """A quantity of a device; None where the node, the device or its quantity does not exist."""
        place = self.fleet.roster.node(node)
        array = self.fleet.state.levels["device"].arrays.get(quantity)
        if place is None or array is None or index >= place.pool.devices_per_node:
            return None
        return float(array[place.first + index])


def rendered(text: str, path: Path, made: Mapping[str, str]) -> Rendered:
    """The fleet of a configuration after :data:`STEADY_SECONDS`.

    :param path: where it would be; paths in it begin at its folder.
    :param made: texts of the identities beside it, by path.
    :raises ConfigurationError: when it cannot be used.
    """
    files = Files(environ={}, made={str(path): text, **made})
    configuration = load(str(path), files, [_EPOCH])
    fleet = Fleet(configuration.fleet)
    for _ in range(STEADY_SECONDS):
        fleet.advance()
    return Rendered(fleet, configuration)
