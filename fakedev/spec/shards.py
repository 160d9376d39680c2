"""Shards, which are one fleet in several processes with a part of the nodes each; and keys of entities. No NumPy.

A node's shard depends only on the node's name and the number of shards. Nodes whose names differ only in the last
number (before the first dot) are assigned in turn by that number, so that numbered nodes are spread evenly, and added
or removed nodes change the shard of no other node.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

#: The most shards of a fleet.
MAX_SHARDS: Final = 10_000
_SHARD: Final = re.compile(r"(\d{1,5})/(\d{1,5})", re.ASCII)
#: A host's name: up to its last number, the number, and the rest.
_NUMBERED: Final = re.compile(r"(.*?)(?<![0-9])([0-9]++)([^0-9]*+)", re.DOTALL)


def entity_key(*names: str) -> int:
    """A 64-bit key of an entity from its names (pool, node, device, workload), independent of its position."""
    digest = hashlib.blake2b("\0".join(names).encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


@dataclass(frozen=True)
class Shard:
    """One of several slices of a fleet, counted from 0."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def has(self, node: str) -> bool:
        """Whether it has the node with that name."""
        return shard_number(node, self.count) == self.number

    def other(self, node: str) -> Shard:
        """The shard that has the node with that name."""
        return Shard(shard_number(node, self.count), self.count)


def shard_number(node: str, count: int) -> int:
    """The number of the shard, of ``count``, that has the node with that name."""
    host, _, domain = node.partition(".")
    found = _NUMBERED.fullmatch(host)
    before, number, after = found.groups() if found else (host, "0", "")
    return (entity_key("shard", before, after, domain) + int(number)) % count


def parse_shard(text: str) -> Shard:
    """The shard of a text such as ``0/3``, which is the first of three.

    :raises ValueError: for any other text.
    """
    found = _SHARD.fullmatch(text)
    if not found:
        raise ValueError(f"{text[:60]!r} is no shard: give its number, from 0, and how many there are, as 0/3")
    shard = Shard(int(found[1]), int(found[2]))
    if not 1 <= shard.count <= MAX_SHARDS:
        raise ValueError(f"{text!r}: there are 1 to {MAX_SHARDS} shards")
    if shard.number >= shard.count:
        raise ValueError(f"{text!r}: shards are counted from 0, and the last of {shard.count} is {shard.count - 1}")
    return shard


def shard_of_host(host: str) -> int:
    """The number at the end of a host's name, as for pods of a StatefulSet (``fakedev-2``).

    :raises ValueError: for a name without a number.
    """
    found = re.search(r"-([0-9]{1,5})$", host.partition(".")[0])
    if not found:
        raise ValueError(f"the name of this host, {host!r}, does not end in a number, as fakedev-2 does")
    return int(found[1])
