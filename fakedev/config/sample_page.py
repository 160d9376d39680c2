"""A sample page of an identity: two boards, the second one busy with a pod."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from fakedev.base.names import without_variables
from fakedev.config.load import load
from fakedev.exporters.identity import Identity
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.sources import DeviceSource
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.fleet_spec import FleetSpec
from fakedev.schema.files import Files

_POD: Final = {"pod": "train-0", "namespace": "ml", "container": "main"}
#: Ticks after which the temperature of a board is steady.
_TICKS: Final = 120
_EPOCH_SECONDS: Final = 1_700_000_000


#: The last fleet that ran: most identities of an exporter show the same one, and its ticks take nearly all the time.
_last: Final[dict[int, tuple[FleetSpec, Fleet]]] = {}


def fleet_after(ticks: int, spec: FleetSpec) -> Fleet:
    """A fleet that has run this number of ticks; cached and shared by equal calls, so only read it."""
    if ticks not in _last or _last[ticks][0] != spec:
        fleet = Fleet(spec)
        for _ in range(ticks):
            fleet.advance()
        _last[ticks] = spec, fleet
    return _last[ticks][1]


def sample_page(
    identity: str,
    device: str,
    instances: Sequence[str] = (),
    faults: Sequence[Mapping[str, object]] = (),
    facts: Mapping[str, str] = MappingProxyType({}),
    owner: Mapping[str, str] = MappingProxyType({}),
    *,
    is_idle: bool = False,
    devices: int = 2,
    made: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Identity, str]:
    """The page of a node of some boards, one of them fully busy for two minutes and the others idle.

    :param identity: name in the catalog, or path.
    :param device: name in the catalog, or path.
    :param instances: the profiles of the instances that each board is divided into; empty for none.
    :param faults: in the form of the configuration.
    :param facts: of the boards; they override the facts of the device type.
    :param owner: further facts of the work's pod.
    :param is_idle: all boards are idle.
    :param devices: the number of boards, at least 2.
    :param made: texts of files that are not on the disk, by path.
    :raises ConfigurationError: when there is no such identity or device, or one cannot show the other.
    """
    pool: dict[str, object]
    pool = {"name": "sample", "nodes": ["node-1"], "device": device, "devices-per-node": devices, "identity": identity}
    pool |= {"mig": list(instances)} if instances else {}
    pool |= {"labels": dict(facts)} if facts else {}
    work = {"name": "train", "devices": "*/1", "profile": "100:0:0", "labels": dict(owner), **_POD}
    tree = {
        "fleet": {"epoch": str(_EPOCH_SECONDS), "pools": [pool]},
        "web": [],
        "workloads": {"listen": [], "base": [] if is_idle else [work]},
        "faults": list(faults),
    }
    configuration = load(None, Files(environ=os.environ, made=made), text=without_variables(json.dumps(tree)))
    fleet = fleet_after(_TICKS, configuration.fleet)
    shown = configuration.identities["sample"]
    page = Page(LabelCache(shown, DeviceSource.of(fleet, shown)), fleet.roster.shown)
    return shown, page.render(fleet.shown).decode()
