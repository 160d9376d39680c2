"""Limits of workloads and faults, shards, keys of entities, and the head of a record. Imports no NumPy.

The limits say how much workloads and faults may take, of all peers together and of one peer.

Shards are one fleet in several processes with a part of the nodes each. A node's shard depends only on the node's
name and the number of shards. Nodes whose names differ only in the last number (before the first dot) are assigned in
turn by that number, so that numbered nodes are spread evenly, and added or removed nodes change the shard of no other
node.

The head of a record has the source of a configuration: enough to read the same configuration again on another
machine.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from fakedev.base.errors import Refused
from fakedev.schema.declare import setting

_MIB: Final = 2**20
#: What a workload or a fault takes besides its texts and profiles, in bytes.
EACH_BYTES: Final = 1024
#: What an activity takes, in bytes; each value of ``steps`` is one. What a value function takes besides.
ACTIVITY_BYTES: Final = 128
FUNCTION_BYTES: Final = 256
#: Devices of a workload that cost as much as a random value drawn in a tick.
DRAW_DEVICES: Final = 2
#: Devices that cost as much as a fault that freezes all series, and as each of its devices: it keeps all values.
FROZEN_SERIES_DEVICES: Final = 5000
FROZEN_DEVICES: Final = 10
#: How a key of a limit of one peer begins.
PEER: Final = "peer_"
_ONE_PEER: Final = (
    "one connection's workloads, or all that one host started detached, with the API or as faults, and that did not "
    "end yet"
)


@dataclass(frozen=True)
class Limits:
    """The most that workloads and faults may take. The configuration's own count, but are refused only by the file."""

    workloads: int = setting(
        "Workloads of the fleet that run or wait, in number.", default=100_000, high=1_000_000
    )
    faults: int = setting("Faults of the fleet that last or wait, in number.", default=10_000, high=100_000)
    memory_bytes: int = setting(
        f"Names, labels and profiles of all workloads and faults: {EACH_BYTES} bytes for each, its texts, and "
        f"{ACTIVITY_BYTES} bytes for each activity; a profile that several workloads have counts once.",
        default=256 * _MIB,
    )
    peer_memory_bytes: int = setting(f"The same of one peer: {_ONE_PEER}.", default=128 * _MIB)
    workload_devices: int = setting(
        "The devices of each workload, added up: a workload on 8 devices counts 8, and 8 more for each metric that it "
        f"uses and for an intensity; random values and drawn lengths count {DRAW_DEVICES} for each draw in a tick.",
        default=1_500_000, high=1_000_000_000,
    )  # fmt: skip
    peer_workload_devices: int = setting("The same of one peer.", default=1_000_000, high=1_000_000_000)
    fault_devices: int = setting(
        "The devices of each fault, added up: a fault that may hit 8 devices counts 8; one that freezes all series "
        f"counts {FROZEN_DEVICES} for each device, and {FROZEN_SERIES_DEVICES} besides.",
        default=1_000_000, high=1_000_000_000,
    )  # fmt: skip
    peer_fault_devices: int = setting("The same of one peer.", default=500_000, high=1_000_000_000)


#: How to get what is missing.
_REMEDIES: Final = {
    "workloads": "stop some",
    "faults": "clear some",
    "memory_bytes": "stop workloads, or use fewer activities and shorter texts",
    "workload_devices": "stop workloads, or name fewer devices or metrics",
    "fault_devices": "clear faults, or name fewer devices",
}


def key_of_limit(name: str) -> str:
    """The key of the configuration for a limit, by the name of its field."""
    return name.removesuffix("_bytes").replace("_", "-")


def check_limit(name: str, asked: int, used: int, limit: int) -> None:
    """Check that there is room for more.

    :param name: of the limit's field.
    :raises Refused: ``full``: with the limit's key, what is asked for, what remains, and the remedy.
    """
    if used + asked > limit:
        key = f"limits.{key_of_limit(name)}"
        unit = " bytes" if name.endswith("_bytes") else ""
        text = f"{key} is {limit}{unit}: {asked} more are needed, and {max(limit - used, 0)} remain"
        raise Refused("full", f"{text}: {_REMEDIES[name.removeprefix(PEER)]}, or raise {key}", key)


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


@dataclass(frozen=True)
class RecordHead:
    """The head of a record, and the source in the event of a reload.

    :ivar config: path of the configuration; None for the built-in demo.
    :ivar text: the configuration itself, if a command generated it; else None.
    :ivar files: path to text of every file that was read.
    :ivar environment: the variables that the files use.
    :ivar overrides: ``key=value`` of the command line.
    """

    version: str
    epoch_seconds: float
    config: str | None = None
    text: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    overrides: Sequence[str] = ()

    def fields(self) -> dict[str, object]:
        """The head as plain values, for a line of a record."""
        return {
            "version": self.version,
            "epoch": self.epoch_seconds,
            "config": self.config,
            "text": self.text,
            "files": dict(self.files),
            "environment": dict(self.environment),
            "overrides": list(self.overrides),
        }

    @classmethod
    def of(cls, fields: Mapping[str, object]) -> RecordHead:
        """The head from its :meth:`fields`.

        :raises Refused: for wrong or missing fields.
        """
        try:
            config, text = fields["config"], fields["text"]
            files, environment, overrides = fields["files"], fields["environment"], fields["overrides"]
            epoch, version = fields["epoch"], fields["version"]
        except KeyError as missing:
            raise Refused("bad-argument", f"no {missing.args[0]!r}") from None
        if not isinstance(files, dict) or not isinstance(environment, dict) or not isinstance(overrides, list):
            raise Refused("bad-argument", "files and environment must be objects, overrides a list")
        if isinstance(epoch, bool) or not isinstance(epoch, int | float):
            raise Refused("bad-argument", "epoch must be a number")
        return cls(
            version=str(version),
            epoch_seconds=float(epoch),
            config=None if config is None else str(config),
            text=None if text is None else str(text),
            files={str(path): str(content) for path, content in files.items()},
            environment={str(name): str(value) for name, value in environment.items()},
            overrides=[str(override) for override in overrides],
        )
