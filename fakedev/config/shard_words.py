"""What ``--shard`` is told: ``0/3``, or ``hostname/3`` for the number at the end of this host's name."""

from __future__ import annotations

import os
from typing import Final

from fakedev.spec.shards import parse_shard, shard_of_host

SHARD_HELP: Final = (
    "simulate one slice of the nodes: its number, from 0, and how many there are; hostname/N: its "
    "number is at the end of this host's name, as of a StatefulSet's pod"
)


def shard_override(text: str, host: str = "") -> str:
    """The value of the configuration that ``--shard`` stands for.

    :param host: the name of this host; empty: as the system says.
    :raises ValueError: for what is no shard.
    """
    number, slash, count = text.partition("/")
    if number == "hostname":
        text = f"{shard_of_host(host or os.uname().nodename)}{slash}{count}"
    return f"fleet.shard={parse_shard(text)}"
