"""A sample page of an identity: two boards, the second one busy with a pod."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from fakedev.config.load import load
from fakedev.config.schema.files import Files
from fakedev.exposition.identity import Identity
from fakedev.exposition.label_cache import LabelCache
from fakedev.exposition.page import Page
from fakedev.exposition.sources import DeviceSource
from fakedev.sim.fleet import Fleet

_POD: Final = {"pod": "train-0", "namespace": "ml", "container": "main"}
#: Ticks after which the temperature of a board is steady.
_TICKS: Final = 120
_EPOCH_SECONDS: Final = 1_700_000_000


def sample_page(
    identity: str,
    device: str,
    instances: Sequence[str] = (),
    faults: Sequence[Mapping[str, object]] = (),
    facts: Mapping[str, str] = MappingProxyType({}),
    *,
    is_idle: bool = False,
) -> tuple[Identity, str]:
    """The page of a node of two boards, one idle and one fully busy for two minutes.

    :param identity: name in the catalog, or path.
    :param device: name in the catalog, or path.
    :param instances: the profiles of the instances that each board is divided into; empty for none.
    :param faults: in the form of the configuration.
    :param facts: of the boards, in place of those of their type.
    :param is_idle: both boards are idle.
    :raises ConfigurationError: when there is no such identity or device, or one cannot show the other.
    """
    pool: dict[str, object]
    pool = {"name": "sample", "nodes": ["node-1"], "device": device, "devices-per-node": 2, "identity": identity}
    pool |= {"mig": list(instances)} if instances else {}
    pool |= {"labels": dict(facts)} if facts else {}
    work = {"name": "train", "devices": "*/1", "profile": "100:0:0", **_POD}
    tree = {
        "fleet": {"epoch": str(_EPOCH_SECONDS), "pools": [pool]},
        "web": [],
        "workloads": {"listen": [], "base": [] if is_idle else [work]},
        "faults": list(faults),
    }
    configuration = load(None, Files(environ=os.environ), text=json.dumps(tree).replace("$", "$$"))
    fleet = Fleet(configuration.fleet)
    for _ in range(_TICKS):
        fleet.advance()
    shown = configuration.identities["sample"]
    page = Page(LabelCache(shown, DeviceSource.of(fleet, shown)), fleet.roster.shown)
    return shown, page.render(fleet.shown).decode()
