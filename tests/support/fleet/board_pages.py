"""For tests of pages: boards with labels in groups, states of them, and an identity that shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from fakedev.exporters.identity import FamilySpec, Identity, LabelSpec, NumberFormat, RowSpec
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.sources import Entity
from fakedev.fleet.entities.state import Level, State

PARTS = 2


class Boards:
    """Entities of two levels: boards with two parts each, in groups of as many boards as are asked for.

    :ivar asked: the groups that were asked for their entities, with the level.
    """

    def __init__(self, *sizes: int) -> None:
        self.facts: list[list[dict[str, str]]] = []
        self.versions = [0] * len(sizes)
        self.asked: list[tuple[str, int]] = []
        for group, size in enumerate(sizes):
            self.facts.append([{"group": str(group), "board": str(board), "pod": ""} for board in range(size)])

    @property
    def groups(self) -> range:
        """All groups."""
        return range(len(self.facts))

    def entities(self, level: str, group: int) -> Sequence[Entity]:
        """The boards of a group, or their parts."""
        self.asked.append((level, group))
        first = sum(len(boards) for boards in self.facts[:group])
        boards = list(enumerate(self.facts[group], first))
        if level == "board":
            return boards
        parts = range(PARTS)
        return [(PARTS * place + part, {**facts, "part": str(part)}) for place, facts in boards for part in parts]

    def version(self, group: int) -> int:
        """How often the group's labels changed."""
        return self.versions[group]

    def previous(self, group: int) -> None:
        """There was no reload."""

    def set_pod(self, group: int, board: int, pod: str) -> None:
        """A board gets a pod."""
        self.facts[group][board]["pod"] = pod
        self.versions[group] += 1


def state_of(
    boards: int, *, present: Mapping[str, Sequence[bool]] | None = None, offset: float = 0, wall: float = 0
) -> State:
    """A state where board n has 100 + n W and n / 10 as usage, and each part its own temperature."""
    level = Level(
        boards,
        {
            "power": np.arange(boards) + 100.0 + offset,
            "usage": np.arange(boards) / 10,
            "fans": np.full(boards, np.nan),
        },
        {name: np.array(mask) for name, mask in (present or {}).items()},
    )
    parts = Level(PARTS * boards, {"heat": np.arange(PARTS * boards) + 0.5, "errors": np.zeros(PARTS * boards)}, {})
    return State(7, 7.0, wall, {"board": level, "part": parts}, 0)


def family(name: str, *rows: RowSpec, kind: str = "gauge", number: NumberFormat = NumberFormat.GO) -> FamilySpec:
    """A family with its own help text."""
    return FamilySpec(name, kind, f"Help of {name}.", number, rows)


POWER = family("power_watts", RowSpec("power", level="board"))
PART = (LabelSpec("part", "{part}"),)
HEAT = family("heat_celsius", RowSpec("heat", labels=PART, level="part"), number=NumberFormat.PYTHON)
USAGE_LABEL = (LabelSpec("unit", "share"),)
#: Two rows for each board, of one quantity in two units.
USAGE = family(
    "usage",
    RowSpec("usage", level="board", labels=USAGE_LABEL),
    RowSpec("usage", unit="percent", level="board", labels=(LabelSpec("unit", "percent"),)),
)
LABELS = (LabelSpec("group", "{group}"), LabelSpec("board", "{board}"), LabelSpec("pod", "{pod}", optional=True))


def identity(*families: FamilySpec, **more: object) -> Identity:
    """An identity of these families."""
    return Identity("test", "1", families, LABELS, **more)  # type: ignore[arg-type]


def text(shown: Identity, source: Boards, state: State) -> str:
    """The whole page as text."""
    return Page(LabelCache(shown, source), source.groups).render(state).decode()


def samples(page: str) -> dict[tuple[str, ...], float]:
    """The values of a page as the parser reads them: by name and label values in their order."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for each in text_string_to_metric_families(page)
        for sample in each.samples
    }
