"""NVIDIA's instances of a GPU (MIG): the placement of instances on a board.

A board has compute slices and memory slices. An instance takes consecutive memory slices from one of the start slices
of its profile. Its id is its number in the tree of halves: 0 for the whole board, 1 and 2 for its halves, 3 to 6 for
the quarters, 7 to 14 for the eighths. Sources: doc/topology.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fakedev.fleet.spec.device_types import DeviceType, MigProfile, PartSpec


@dataclass(frozen=True)
class Mig:
    """The slices and profiles of a board."""

    slices: int
    memory_slices: int
    profiles: tuple[MigProfile, ...]

    def profile(self, name: str) -> MigProfile | None:
        """The profile of that name, or None."""
        return next((profile for profile in self.profiles if profile.name == name), None)


class Instance(NamedTuple):
    """An instance at its place.

    :ivar profile: its name.
    :ivar begin: the first of its memory slices.
    :ivar computes: whether it has its compute instance; programs do not see an instance without one.
    """

    profile: str
    begin: int
    computes: bool = True


def mig_of(device_type: DeviceType) -> Mig | None:
    """How boards of a type can be divided; None: they cannot."""
    slices = device_type.mig_slices
    return Mig(slices, 1 << (slices - 1).bit_length(), device_type.mig_profiles) if slices else None


def number_at(mig: Mig, profile: MigProfile, begin: int) -> int:
    """The id of an instance that begins at a memory slice."""
    return mig.memory_slices // profile.memory_slices - 1 + begin // profile.memory_slices


def instance_of(mig: Mig, part: PartSpec) -> Instance:
    """The instance that a part of a board is: the reverse of :func:`placed`."""
    profile = mig.profile(part.facts["mig_profile"])
    assert profile is not None
    place = int(part.facts["mig_id"]) + 1 - mig.memory_slices // profile.memory_slices
    return Instance(profile.name, place * profile.memory_slices, part.facts.get("mig_compute") != "0")


def begin_beside(
    mig: Mig, profile: MigProfile, others: Sequence[Instance], begin: int | None = None
) -> int | None:  # fmt: skip
    """Where one more instance begins on a board: its first free place; None: there is no room.

    :param begin: the only place that it may have.
    """
    known = [(other, mig.profile(other.profile)) for other in others]
    taken = {instance.begin + slice_ for instance, kind in known if kind for slice_ in range(kind.memory_slices)}
    used = sum(kind.slices for _, kind in known if kind)
    if used + profile.slices > mig.slices or sum(other.profile == profile.name for other in others) >= profile.most:
        return None
    places = {each: set(range(each, each + profile.memory_slices)) for each in profile.begins if begin in (None, each)}
    return next((candidate for candidate, place in places.items() if not place & taken), None)


def placed(mig: Mig, wanted: Sequence[Instance]) -> list[PartSpec]:
    """The parts of a board with some instances, in order of their ids.

    :raises ValueError: for a profile that the board does not have, and when they do not fit.
    """
    found: list[tuple[int, MigProfile, bool]] = []
    for place, each in enumerate(wanted):
        profile = mig.profile(each.profile)
        if profile is None:
            raise ValueError(f"the board has no profile {each.profile}")
        if begin_beside(mig, profile, wanted[:place], each.begin) is None:
            raise ValueError(f"there is no place for {profile.name} at {each.begin}")
        found.append((number_at(mig, profile, each.begin), profile, each.computes))
    return _parts(mig, found)


def _parts(mig: Mig, found: Sequence[tuple[int, MigProfile, bool]]) -> list[PartSpec]:
    return [
        PartSpec(
            f"mig-{number}-{profile.name}",
            profile.slices / mig.slices,
            profile.memory_bytes,
            facts={"mig_profile": profile.name, "mig_id": str(number), **({} if computes else {"mig_compute": "0"})},
        )
        for number, profile, computes in sorted(found, key=lambda each: each[0])
    ]


def instances(mig: Mig, profiles: Sequence[MigProfile]) -> list[PartSpec]:
    """The instances of some profiles on one board, in order of their ids: as nvidia-smi numbers its MIG devices.

    Large instances are placed first, each at its first free place.

    :raises ValueError: when they do not fit.
    """
    wanted = sum(profile.slices for profile in profiles)
    if wanted > mig.slices:
        raise ValueError(f"they take {wanted} compute slices, and the board has {mig.slices}")
    for profile in profiles:
        if profiles.count(profile) > profile.most:
            raise ValueError(f"{profile.name} is there {profiles.count(profile)} times: at most {profile.most}")
    found: list[Instance] = []
    for profile in sorted(profiles, key=lambda each: (-each.memory_slices, -each.slices)):
        begin = begin_beside(mig, profile, found)
        if begin is None:
            others = ", ".join(instance.profile for instance in found)
            raise ValueError(f"there is no place for {profile.name} beside {others}: memory slices are taken")
        found.append(Instance(profile.name, begin))
    return placed(mig, found)
