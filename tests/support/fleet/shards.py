"""Fleets in shards beside the same fleet as a whole, and their pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.row_levels import PAGE
from fakedev.exporters.sources import DeviceSource, by_identity
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.fleet_spec import FleetSpec
from fakedev.fleet.spec.limits import Shard
from tests.support.identities import loaded


def shards_of(spec: FleetSpec, count: int) -> list[Fleet]:
    """The fleets of all shards that have a node."""
    names = [node.name for pool in spec.pools for node in pool.nodes]
    shards = [Shard(number, count) for number in range(count)]
    return [Fleet(replace(spec, shard=shard)) for shard in shards if any(map(shard.has, names))]


def page(fleet: Fleet, title: str, names: Sequence[str] = ()) -> bytes:
    """The page of some nodes, or of all that are shown, as an identity prints it."""
    nodes = [node for node in fleet.roster.shown if not names or node.name in names]
    identities = {pool.name: loaded(title) for pool in fleet.roster.pools}
    return b"".join(
        Page(LabelCache(identity, DeviceSource.of(fleet, identity)), group).render(fleet.shown)
        for identity, group in by_identity(nodes, identities)
    )


def node_pages(fleet: Fleet, title: str) -> dict[str, bytes]:
    """The page of each node that is shown."""
    return {node.name: page(fleet, title, [node.name]) for node in fleet.roster.shown}


def families(pages: Iterable[bytes]) -> dict[str, tuple[list[str], list[str]]]:
    """What some pages together have: what is declared of each family, once, and its rows sorted."""
    found: dict[str, tuple[dict[str, None], list[str]]] = {}
    for text in pages:
        for line in text.decode().splitlines():
            words = line.split(" ")
            name = words[2] if line.startswith("# ") else line.partition("{")[0].partition(" ")[0]
            declared, rows = found.setdefault(name, ({}, []))
            if line.startswith("# "):
                declared[line] = None
            else:
                rows.append(line)
    return {name: (list(declared), sorted(rows)) for name, (declared, rows) in sorted(found.items())}


def assert_same(whole: Fleet, shards: Sequence[Fleet], title: str = "dcgm@4.8.2") -> None:
    """The pages of all shards together are those of the whole fleet, byte for byte."""
    expected = node_pages(whole, title)
    together: dict[str, bytes] = {}
    for shard in shards:
        pages = node_pages(shard, title)
        assert not set(pages) & set(together)
        together |= pages
    assert together == expected, f"tick {whole.state.tick}"
    of_pages = {family.name for family in loaded(title).families if any(row.level == PAGE for row in family.rows)}
    expected_families, found = families([page(whole, title)]), families(page(shard, title) for shard in shards)
    for name in of_pages:  # each page has them once
        declared, rows = found.pop(name)
        assert (declared, rows[:: len(shards)]) == expected_families.pop(name)
    assert found == expected_families
