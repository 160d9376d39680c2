"""The pages of the exporters as a part of a program: they follow the fleet through ticks, reloads and its nodes."""

from __future__ import annotations

from collections.abc import Mapping

from zope.interface import implementer

from fakedev.exporters.cache import Pages
from fakedev.exporters.identity import Identity
from fakedev.fleet.fleet import Fleet
from fakedev.runtime.part import IReloadable, Part
from fakedev.runtime.reactor import IReactor


@implementer(IReloadable)
class ExportersPart(Part):
    """The pages of a fleet.

    :param identities: of the pools, by their names.
    """

    def __init__(self, fleet: Fleet, identities: Mapping[str, Identity], reactor: IReactor) -> None:
        super().__init__("exporters")
        self.pages = Pages(fleet, identities, reactor)

    def finish(self, section: Mapping[str, Identity]) -> None:
        self.pages.follow(section)

    def ticked(self) -> None:
        self.pages.keep()
