"""NVIDIA's MIG: the keys of how boards can be divided into instances, and the instances of pools and devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fakedev.config.models import LoadedDevice
from fakedev.config.schema.nodes import Place, Report
from fakedev.config.schema.schema import Key, Section, Values, did_you_mean
from fakedev.config.schema.types import Integer, ListOf, Size, Text
from fakedev.sim.parts.mig import Mig, instances
from fakedev.spec.device_types import PartSpec
from fakedev.spec.mig import MigProfile

#: Keys that a profile needs; missing ones were reported.
_NEEDED: Final = ("name", "slices", "memory-slices", "memory", "begins")

MIG_PROFILE = Section(
    "device type.mig.profiles",
    (
        Key("name", Text(), "Its name, as 1g.10gb.", required=True),
        Key("slices", Integer(1, 64), "Compute slices of an instance.", required=True),
        Key("memory-slices", Integer(1, 64), "Memory slices of an instance, a power of 2.", required=True),
        Key("memory", Size(), "Memory of an instance.", required=True),
        Key(
            "begins",
            ListOf(Integer(0, 63), 1, words="list of numbers"),
            "Memory slices at which an instance may begin, the first choice first.",
            required=True,
        ),
        Key("most", Integer(1, 64), "Instances of it on a board, at most.", default=64, default_words="as fit"),
    ),
    doc="A kind of instance.",
)

MIG = Section(
    "device type.mig",
    (
        Key("slices", Integer(1, 64), "Compute slices of the board.", required=True),
        Key("memory-slices", Integer(1, 64), "Memory slices of the board, a power of 2.", required=True),
        Key("profiles", ListOf(MIG_PROFILE, 1, words="list of profiles"), "The kinds of instances.", required=True),
    ),
    doc="How a board can be divided into instances (MIG).",
)

#: Of a pool, and of one device of its nodes.
INSTANCES = ListOf(Text("profile"), words="list of profiles, as [3g.40gb, 1g.10gb]")


def read_mig(values: Values, report: Report) -> Mig | None:
    """How boards of a type can be divided; None when they cannot, or when there are problems, which were reported."""
    if not values.given("mig") or values["mig"] is None:
        return None
    section: Values = values["mig"]
    profiles = [
        each.build(MigProfile)
        for each in section["profiles"] or ()
        if all(each[key] is not None for key in _NEEDED)
    ]
    slices, memory_slices = section["slices"], section["memory-slices"]
    if slices is None or memory_slices is None or not profiles:
        return None
    is_right = True
    for profile, each in zip(profiles, section["profiles"], strict=False):
        reason = _wrong(profile, slices, memory_slices)
        if reason:
            report.problem(each.place, f"mig: {profile.name}: {reason}")
            is_right = False
    if memory_slices & (memory_slices - 1):
        report.problem(section.place_of("memory-slices"), f"mig: memory-slices: {memory_slices} is no power of 2")
        is_right = False
    return Mig(slices, memory_slices, tuple(profiles)) if is_right else None


def _wrong(profile: MigProfile, slices: int, memory_slices: int) -> str:
    """Why a profile does not fit a board with this many slices; empty when it fits."""
    if profile.memory_slices & (profile.memory_slices - 1):
        return f"memory-slices: {profile.memory_slices} is no power of 2"
    if profile.slices > slices or profile.memory_slices > memory_slices:
        return f"the board has {slices} slices and {memory_slices} memory slices"
    for begin in profile.begins:
        if begin % profile.memory_slices or begin + profile.memory_slices > memory_slices:
            return f"begins: no {profile.memory_slices} memory slices in a row begin at {begin}"
    return ""


def divided(
    names: Sequence[str], places: Sequence[Place], device: LoadedDevice, report: Report
) -> tuple[PartSpec, ...]:
    """The instances of the profiles of those names on a board; what is wrong is reported, and empty then.

    :param places: of each name.
    """
    if not names:
        return ()
    name = device.type.name
    if device.mig is None:
        report.problem(places[0], f"mig: the device type {name} cannot be divided into instances")
        return ()
    profiles = []
    for each, place in zip(names, places, strict=False):
        profile = device.mig.profile(each)
        if profile is None:
            known = [known.name for known in device.mig.profiles]
            hint = did_you_mean(each, known, "; ") or f": it has {', '.join(known)}"
            report.problem(place, f"mig: {name} has no profile {each[:60]!r}{hint}")
        else:
            profiles.append(profile)
    if len(profiles) < len(names):
        return ()
    try:
        return tuple(instances(device.mig, profiles))
    except ValueError as error:
        report.problem(places[0], f"mig: {', '.join(names)} do not fit on {name}: {error}")
        return ()
