"""The limits of a fleet's work: how much workloads and faults may take, together and of one peer. Imports no NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fakedev.spec.errors import Refused
from fakedev.spec.settings import setting

_MIB: Final = 2**20
#: What a workload or a fault takes besides its texts and profiles, in bytes.
EACH_BYTES: Final = 1024
#: What an activity takes, in bytes; each value of ``steps`` is one. What a value function takes besides.
ACTIVITY_BYTES: Final = 128
FUNCTION_BYTES: Final = 256
#: A random value that is drawn in a tick counts as so many devices of a workload.
DRAW_DEVICES: Final = 2
#: A fault that freezes all series counts as so many devices, and each of its devices as so many: it keeps all values.
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
        default=1_500_000, high=1e9,
    )  # fmt: skip
    peer_workload_devices: int = setting("The same of one peer.", default=1_000_000, high=1e9)
    fault_devices: int = setting(
        "The devices of each fault, added up: a fault that may hit 8 devices counts 8; one that freezes all series "
        f"counts {FROZEN_DEVICES} for each device, and {FROZEN_SERIES_DEVICES} besides.",
        default=1_000_000, high=1e9,
    )  # fmt: skip
    peer_fault_devices: int = setting("The same of one peer.", default=500_000, high=1e9)


#: What is lacking can be had so.
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
