"""The metric profiles of dcgm-fake-gpu-exporter, as workloads that make a GPU behave so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

#: What a profile's workload does: its load over time, or the profile by name that has the faults too.
PROFILES: Final[dict[str, dict[str, object]]] = {
    "static": {"profile": "50:0:0"},
    "stable": {"profile": "50:3:0"},
    # A spike is long enough for an alert that waits two minutes.
    "spike": {"profile": "spike(50,100,3m,10m):0:0"},
    "wave": {"profile": "sine(50,30,377s):1:0"},
    "degrading": {"profile": "degrading"},
    "faulty": {"profile": "faulty"},
    "chaos": {"profile": "chaos"},
}


def profiles_of(count: int, one: str, several: str) -> list[str]:
    """The profile of each GPU.

    :param one: METRIC_PROFILE: of all, where there are not several.
    :param several: GPU_PROFILES: names with commas, taken again from the start where there are fewer than GPUs.
    :raises ValueError: for a name that there is not.
    """
    names = [name.strip() for name in several.split(",") if name.strip()] or [one]
    for name in names:
        if name not in PROFILES:
            raise ValueError(f"no profile {name!r}; there are {', '.join(PROFILES)}")
    return [names[index % len(names)] for index in range(count)]


def workloads(profiles: Sequence[str]) -> list[dict[str, object]]:
    """The workloads of the GPUs' profiles, in the configuration's words."""
    return [
        {"name": f"{name}-{index}", "devices": f"*/{index}", **PROFILES[name]} for index, name in enumerate(profiles)
    ]
