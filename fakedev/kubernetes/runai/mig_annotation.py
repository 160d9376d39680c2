"""The annotation ``run.ai/mig.config`` of a node, by which run-ai's schedulers ask for the instances of single boards.

Source: run-ai fake-gpu-operator 0.2.0, internal/migfaker (types.go: the form; migfaker.go: each entry is for its first
board, and its answer is the label ``mig.config.state`` and the annotation ``run.ai/mig-mapping``).
"""

from __future__ import annotations

from typing import Any, Final

from fakedev.fleet.parts.mig import Instance, Mig, placed
from fakedev.fleet.spec.fleet_spec import Layout
from fakedev.schema.places import ConfigurationError, Report
from fakedev.schema.reader import read_document
from fakedev.schema.sections import INVALID, Key, Section
from fakedev.schema.types import Boolean, Integer, ListOf, Text

MIG_ANNOTATION: Final = "run.ai/mig.config"
#: Characters of an annotation that are read: a larger one takes more than a turn of the reactor.
_LONGEST: Final = 16_384


def _index(text: str) -> int:
    if not (text.isdecimal() and len(text) <= 4):
        raise ValueError(f"{text[:40]!r} is no index of a board")
    return int(text)


_INSTANCE: Final = Section(
    "mig-devices",
    (
        Key("name", Text(), "Its profile.", required=True),
        Key("position", Integer(0, 15), "The first of its memory slices.", required=True),
        Key("size", Integer(0, 16), "How many they are; its profile says so, too.", default=0),
    ),
)
_BOARDS: Final = Section(
    "selected",
    (
        Key("devices", ListOf(Text("index", _index, takes_numbers=True)), "The index of the board.", default=()),
        Key("mig-enabled", Boolean(), "Whether it is in MIG mode.", default=False),
        Key("mig-devices", ListOf(_INSTANCE), "Its instances.", default=()),
    ),
)
_CONFIG: Final = Section(
    MIG_ANNOTATION,
    (
        Key("version", Text(), "v1.", default=""),
        Key(
            "mig-configs",
            Section("mig-configs", (Key("selected", ListOf(_BOARDS), "The boards.", default=()),)),
            "What is asked for.",
            required=True,
        ),
    ),
)


def annotated_layout(text: str, layout: Layout, mig: Mig) -> Layout:
    """The instances of each board of a node by its annotation.

    :param layout: the present one: boards that the annotation does not name are as they are.
    :raises ValueError: for another text, and for instances that the boards cannot have, in words.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"it has {len(text)} characters: at most {_LONGEST}")
    report = Report()
    try:
        document = read_document(text, MIG_ANNOTATION, report)
        values: Any = INVALID if document is None else _CONFIG.read(document, "", report)
        report.raise_if_any()
    except ConfigurationError as error:
        raise ValueError(f"line {error.problems[0].line}: {error.problems[0].text}") from None
    wanted = list(layout)
    for boards in values["mig-configs"]["selected"]:
        instances = tuple(Instance(each["name"], each["position"]) for each in boards["mig-devices"])
        for index in boards["devices"][:1]:
            if index >= len(layout):
                raise ValueError(f"there is no board {index}: the node has {len(layout)}")
            wanted[index] = instances if boards["mig-enabled"] else None
            try:
                placed(mig, instances)
            except ValueError as error:
                raise ValueError(f"board {index}: {error}") from None
    return tuple(wanted)
