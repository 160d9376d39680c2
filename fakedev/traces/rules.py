"""What formats share: the folder that tables come from, checks of times, and nodes for jobs of traces without any."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final, Protocol

from fakedev.traces.json_records import JsonRecords
from fakedev.traces.table import PLAIN, Column, TableForm, TableRows
from fakedev.traces.trace import Job, TraceNode, Window, most_devices

#: The devices of a node that is made for jobs of which the trace names no node.
DEVICES_PER_NODE: Final = 8


class Folder(Protocol):
    """Where the files of a trace are.

    :ivar window: what will be replayed. Large tables are read as streams, of which formats keep no more than that.
    """

    window: Window

    def has(self, name: str) -> bool:
        """Whether there is a file, packed or not."""

    def head(self, name: str) -> Sequence[str]:
        """The names in the first line of a file; none where there is no such file."""

    def table(self, name: str, columns: Sequence[Column], form: TableForm = PLAIN) -> TableRows:
        """The rows of a table.

        :raises TraceProblems: when there is none.
        """

    def records(self, name: str) -> JsonRecords:
        """The records of a file with a JSON array of objects.

        :raises TraceProblems: when there is none.
        """


class Refusing(Protocol):
    """A file with rows or records, of which the one that was given last can be refused."""

    def refuse(self, column: str, reason: str) -> None:
        """Note that it cannot be used."""


class Ids:
    """Names that must be unique in a file, and times that must be in order; others are refused with their line."""

    def __init__(self, rows: Refusing) -> None:
        self._rows = rows
        self._known: set[str] = set()

    def is_new(self, column: str, name: str) -> bool:
        """Whether a name is there for the first time; else its row is refused."""
        if name in self._known:
            self._rows.refuse(column, f"{name[:60]!r} is there twice: names are unique")
            return False
        self._known.add(name)
        return True

    def is_ordered(self, column: str, before: float, after: float, what: str) -> bool:
        """Whether a time is not before another one; else its row is refused."""
        if after < before:
            self._rows.refuse(column, f"{after:.15g} is before its {what}, {before:.15g}")
            return False
        return True


def nodes_of_jobs(jobs: Sequence[Job]) -> list[TraceNode]:
    """Nodes for jobs: those that jobs name, each as large as its peak; without any, nodes of eight for the peak."""
    by_node: dict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        by_node[job.node].append(job)
    unnamed = by_node.pop("", [])
    nodes = [TraceNode(name, _model(own), _devices(own)) for name, own in sorted(by_node.items())]
    count = math.ceil(most_devices(unnamed) / DEVICES_PER_NODE)
    nodes += [TraceNode(f"node-{number}", _model(unnamed), DEVICES_PER_NODE) for number in range(count)]
    return nodes


def _devices(jobs: Sequence[Job]) -> int:
    """The devices that the jobs of a node need, among them those that they name."""
    return max(math.ceil(most_devices(jobs)), *(index + 1 for job in jobs for index in job.indices), 0)


def _model(jobs: Sequence[Job]) -> str:
    """The model that most jobs ask for; empty for none."""
    wanted = Counter(model for job in jobs for model in job.models)
    return wanted.most_common(1)[0][0] if wanted else ""
