"""The names of tallies: ``xid_events_within_300s``, ``clock_power_cap_samples_within_300s_every_30s``.

A tally is counted only if an identity of the configuration shows it. Its name has all that it depends on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

#: The number of reported error codes: of a device, and of each code that it reported.
XIDS: Final = "xid_events"
#: The wall time of the last of these reports, in seconds since 1970: of a device, and of each code that it reported.
XID_TIMES: Final = "xid_last_wall_seconds"
#: Clock events, in the order of their bits in ``throttle_reasons``.
CLOCK_EVENTS: Final = (
    "gpu_idle", "clocks_setting", "power_cap", "hw_slowdown", "sync_boost", "sw_thermal", "hw_thermal",
    "hw_power_brake", "display_clocks",
)  # fmt: skip
CLOCK_BITS: Final = {event: 1 << place for place, event in enumerate(CLOCK_EVENTS)}
#: The number of samples of ``throttle_reasons`` with an event; and of those without it in the sample before.
CLOCK_SAMPLES: Final = {f"clock_{event}_samples": place for place, event in enumerate(CLOCK_EVENTS)}
CLOCK_STARTS: Final = {f"clock_{event}_starts": place for place, event in enumerate(CLOCK_EVENTS)}
#: The result of a health check: 1 or 0.
HEALTH: Final = (
    "health_pcie_replay_rate", "health_link_errors", "health_link_down", "health_uncontained",
    "health_thermal_violation", "health_power_violation",
)  # fmt: skip
#: Whether a board reaches another board of its node over links: 1 or 0.
PEERS: Final = "peer_reached"
#: Of a process on a device: its seconds of work, as at the highest clock; its seconds on a hanging device; and the
#: errors of its device that were corrected while it ran.
WORKED: Final = "worked_seconds"
STALLED: Final = "stalled_seconds"
CORRECTED: Final = "corrected_errors"
OF_PROCESSES: Final = (WORKED, STALLED, CORRECTED)
#: The most samples of a window.
MAX_SAMPLES: Final = 3600

_NAME: Final = re.compile(r"(?P<base>\w+?)(?:_within_(?P<within>[0-9.]+)s)?(?:_every_(?P<every>[0-9.]+)s)?")


@dataclass(frozen=True)
class Tally:
    """A count of events or samples.

    :param base: the name without window and interval.
    :param within_seconds: the window until now; 0: since the start.
    :param every_seconds: the interval of samples; 0: every event counts.
    """

    base: str
    within_seconds: float = 0.0
    every_seconds: float = 0.0

    @property
    def name(self) -> str:
        """The name of its array."""
        within = f"_within_{self.within_seconds:.12g}s" if self.within_seconds else ""
        return self.base + within + (f"_every_{self.every_seconds:.12g}s" if self.every_seconds else "")


def is_tally(base: str) -> bool:
    """Whether a name without window and interval is the name of a tally."""
    return base in (XIDS, XID_TIMES, PEERS, *OF_PROCESSES) or base in HEALTH or is_sampled(base)


def is_sampled(base: str) -> bool:
    """Whether the tally counts samples at an interval."""
    return base in CLOCK_SAMPLES or base in CLOCK_STARTS


def tally_of(name: str) -> Tally | None:
    """The tally with this name; None for any other name."""
    found = _NAME.fullmatch(name)
    if found is None or not is_tally(found["base"]):
        return None
    return Tally(found["base"], float(found["within"] or 0.0), float(found["every"] or 0.0))


def tallies_of(names: Iterable[str]) -> tuple[Tally, ...]:
    """The tallies among names of quantities, each once, sorted by name."""
    return tuple(found for name in sorted(set(names)) if (found := tally_of(name)) is not None)
