"""NVIDIA's instances of a GPU (MIG): the placement of instances on a board.

A board has compute slices and memory slices. An instance takes consecutive memory slices from one of the start slices
of its profile. Its id is its number in the tree of halves: 0 for the whole board, 1 and 2 for its halves, 3 to 6 for
the quarters, 7 to 14 for the eighths. Sources: doc/topology.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fakedev.fleet.spec.device_types import MigProfile, PartSpec


@dataclass(frozen=True)
class Mig:
    """The slices and profiles of a board."""

    slices: int
    memory_slices: int
    profiles: tuple[MigProfile, ...]

    def profile(self, name: str) -> MigProfile | None:
        """The profile of that name, or None."""
        return next((each for each in self.profiles if each.name == name), None)


def instances(mig: Mig, profiles: Sequence[MigProfile]) -> list[PartSpec]:
    """The instances of some profiles on one board, in order of their ids: as nvidia-smi numbers its MIG devices.

    Large instances are placed first, each at its first free place.

    :raises ValueError: when they do not fit.
    """
    wanted = sum(each.slices for each in profiles)
    if wanted > mig.slices:
        raise ValueError(f"they take {wanted} compute slices, and the board has {mig.slices}")
    for profile in profiles:
        if profiles.count(profile) > profile.most:
            raise ValueError(f"{profile.name} is there {profiles.count(profile)} times: at most {profile.most}")
    taken: set[int] = set()
    found: list[tuple[int, MigProfile]] = []
    for profile in sorted(profiles, key=lambda each: (-each.memory_slices, -each.slices)):
        places = [set(range(begin, begin + profile.memory_slices)) for begin in profile.begins]
        free = next((place for place in places if not place & taken), None)
        if free is None:
            others = ", ".join(each.name for _, each in found)
            raise ValueError(f"there is no place for {profile.name} beside {others}: memory slices are taken")
        taken |= free
        found.append((mig.memory_slices // profile.memory_slices - 1 + min(free) // profile.memory_slices, profile))
    return [
        PartSpec(
            f"mig-{number}-{profile.name}",
            profile.slices / mig.slices,
            profile.memory_bytes,
            facts={"mig_profile": profile.name, "mig_id": str(number)},
        )
        for number, profile in sorted(found, key=lambda each: each[0])
    ]
