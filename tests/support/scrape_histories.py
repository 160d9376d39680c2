"""Histories of small fleets for tests: what a server would have stored of them."""

from __future__ import annotations

from collections.abc import Iterator

from fakedev.fleet.events import InjectFault
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.fault_kinds import fault_from_fields
from fakedev.scenario.entries import Scraping
from fakedev.scenario.samples.scrapes import Scrapes
from fakedev.scenario.samples.series import FleetSamples, Stored
from tests.support.configurations import loaded

#: Half past four: ten minutes before the end of a window of two hours.
BEGIN_SECONDS = 1_795_326_600
_CONFIGURATION = """
fleet:
  epoch: "1795326600"
  tick: 15s
  pools: [{name: a, nodes: [dgx-0, dgx-1], devices-per-node: 2, device: h100, identity: dcgm}]
web: []
workloads: {listen: []}
"""


def history(seconds: int, *faults: tuple[int, dict[str, object]]) -> Iterator[Stored]:
    """What a server stores of two nodes of two boards, every 15 s.

    :param faults: when each begins, in seconds, and its fields.
    """
    configuration = loaded(_CONFIGURATION)
    fleet = Fleet(configuration.fleet)
    scrapes = Scrapes(fleet, Scraping())
    scrapes.use(configuration.identities)
    samples = FleetSamples(scrapes.targets)
    for at in range(0, seconds, 15):
        yield samples.scrape(scrapes.scrape(at, BEGIN_SECONDS + at))
        for begin, fields in faults:
            if begin == at:
                fleet.apply(InjectFault(fault_from_fields(fields)))
        fleet.advance()
        scrapes.keep()
