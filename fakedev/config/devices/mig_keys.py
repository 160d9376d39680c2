"""The keys of how boards can be divided, and of how they are: NVIDIA's MIG."""

from __future__ import annotations

from fakedev.config.schema.schema import Key, Section
from fakedev.config.schema.shapes import ListOf
from fakedev.config.schema.types import Integer, Size, Text

_BYTES = "bytes, kB, MB, GB, KiB, MiB, GiB"

MIG_PROFILE = Section(
    "device type.mig.profiles",
    (
        Key("name", Text(), "Its name, as 1g.10gb.", required=True),
        Key("slices", Integer(1, 64), "Compute slices of an instance.", required=True),
        Key("memory-slices", Integer(1, 64), "Memory slices of an instance, a power of 2.", required=True),
        Key("memory", Size(), "Memory of an instance.", required=True, unit=_BYTES),
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
