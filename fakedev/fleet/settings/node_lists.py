"""The nodes of a pool: counted, named, or from a CSV file with their devices and labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from fakedev.base.names import MAX_DEVICES_PER_NODE, MAX_NODES, driver_version, fact_name, inlet_celsius, node_name
from fakedev.fleet.settings.catalog import DeviceCatalog, csv_rows
from fakedev.fleet.spec.fleet_spec import NodeSpec
from fakedev.schema.places import Place, Report
from fakedev.schema.sections import Values, did_you_mean

#: The columns that a list may have, besides columns of labels.
COLUMNS: Final = ("name", "device", "count", "driver", "labels", "inlet")
#: In the place of nodes: they are those of a cluster, and come and go.
CLUSTER: Final = "cluster"
#: A column of a label begins so.
_LABEL: Final = "label:"
Read = TypeVar("Read")


@dataclass(frozen=True)
class ListedNode:
    """A node as it was written.

    :param device: its device type; empty: its pool's.
    :param count: its devices; None: as its pool's nodes have.
    """

    spec: NodeSpec
    place: Place
    device: str = ""
    count: int | None = None


def read_node_list(text: str, shown: str, report: Report) -> list[ListedNode]:
    """The nodes of a list; what is wrong is reported, with line and column.

    :param shown: how problems name the file.
    """
    before = len(report.sorted_problems())
    nodes: list[ListedNode] = []
    for number, (place, row) in enumerate(csv_rows(text, shown, report, _wrong_columns), 1):
        try:
            nodes.append(_node(row, number, place))
        except ValueError as error:
            report.problem(place, str(error))
    if len(nodes) > MAX_NODES:
        report.problem(Place(shown, 1), f"has {len(nodes)} nodes: at most {MAX_NODES}")
    elif not nodes and len(report.sorted_problems()) == before:
        report.problem(Place(shown, 1), "has no node: give at least one line below the first")
    return nodes


def _wrong_columns(columns: list[str]) -> Iterator[str]:
    if "name" not in columns:
        yield "has no column 'name': the first line names the columns, as name,device,count,labels"
        return
    seen: set[str] = set()
    for column in columns:
        if column in seen:
            yield f"has the column {column!r} twice"
        elif column.startswith(_LABEL):
            try:
                fact_name(column.removeprefix(_LABEL).strip())
            except ValueError as error:
                yield f"column {column!r}: {error}"
        elif column not in COLUMNS:
            hint = did_you_mean(column, COLUMNS) or f"there are {', '.join(COLUMNS)}"
            yield f"unknown column {column[:60]!r}: {hint}; for labels {_LABEL}NAME"
        seen.add(column)


def _node(row: Mapping[str, str | None], number: int, place: Place) -> ListedNode:
    """A node of a line.

    :raises ValueError: for one that cannot be, naming the column.
    """
    given = {column: (text or "").strip() for column, text in row.items()}
    facts: dict[str, str] = {}
    for pair in given.get("labels", "").split(";"):
        if pair.strip():
            key, equals, value = pair.partition("=")
            if not equals:
                raise ValueError(f"column labels: the label {pair.strip()!r} has no =, as rack=a1;row=3")
            _put(facts, _said("labels", fact_name, key.strip()), value.strip())
    for column, text in given.items():
        if column.startswith(_LABEL) and text:
            _put(facts, column.removeprefix(_LABEL).strip(), text)
    if given.get("driver"):
        driver = _said("driver", driver_version, given["driver"])
        if "driver_version" in facts:
            raise ValueError("column driver: the label driver_version is the same: give one of the two")
        facts["driver_version"] = driver
    inlet = given.get("inlet", "")
    celsius = _said("inlet", inlet_celsius, inlet) if inlet else None
    count = given.get("count", "")
    spec = NodeSpec(_said("name", node_name, given["name"]), facts, celsius, number)
    return ListedNode(spec, place, given.get("device", ""), _said("count", _count, count) if count else None)


def _put(facts: dict[str, str], label: str, value: str) -> None:
    if label in facts:
        raise ValueError(f"the label {label!r} is there twice")
    facts[label] = value


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MAX_DEVICES_PER_NODE):
        raise ValueError(f"{text[:60]!r} is no number of devices: 1 to {MAX_DEVICES_PER_NODE}")
    return int(text)


def _said(column: str, read: Callable[[str], Read], text: str) -> Read:
    try:
        return read(text)
    except ValueError as error:
        raise ValueError(f"column {column}: {error}") from None


class Names:
    """Names of one kind that must be unique; one that is not is reported."""

    def __init__(self, what: str, report: Report) -> None:
        self._what = what
        self._report = report
        self._known: dict[str, Place] = {}

    def add(self, name: str, place: Place) -> None:
        if name in self._known:
            first = self._known[name]
            self._report.problem(
                place, f"the {self._what} {name!r} is there twice (first at {first}): names are unique"
            )
        self._known.setdefault(name, place)


class PoolNodes:
    """Builds the nodes of all pools; problems are reported."""

    def __init__(self, catalog: DeviceCatalog, report: Report) -> None:
        self._catalog = catalog
        self._report = report
        self._names = Names("node", report)

    def load(self, values: Values) -> list[ListedNode]:
        """The nodes of a pool; empty when they cannot be known."""
        nodes = values["nodes"]
        place = values.place_of("nodes")
        if isinstance(nodes, int):
            return self._counted(values, nodes)
        if values.given("node-name"):
            at = values.place_of("node-name")
            self._report.problem(at, "node-name: is for a number of nodes, and these have names")
        if nodes == CLUSTER:
            return []
        if isinstance(nodes, str):
            return self._from_csv(nodes, place)
        for name, item in zip(nodes, values.items_of("nodes"), strict=False):
            self._names.add(name, item.place)
        return [ListedNode(NodeSpec(name), place) for name in nodes]

    def _counted(self, values: Values, count: int) -> list[ListedNode]:
        pattern = values["node-name"] or f"{values['name']}-{{}}"
        place = values.place_of("node-name" if values.given("node-name") else "nodes")
        if count > 1 and "{" not in pattern:
            self._report.problem(
                place, f"node-name: {pattern!r} is the same for all {count} nodes: put {{}} where the number goes"
            )
            return []
        names = [_numbered(pattern, number) for number in range(count)]
        try:
            node_name(names[-1])
        except ValueError as error:
            if values["name"] is not None:
                self._report.problem(place, f"node-name: {error}")
            return []
        for name in names:
            self._names.add(name, place)
        return [ListedNode(NodeSpec(name), place) for name in names]

    def _from_csv(self, path: str, place: Place) -> list[ListedNode]:
        if not path.lower().endswith(".csv"):
            self._report.problem(
                place, f"nodes: {path!r} is no number and no .csv file; names go into a list, as [{path}]"
            )
            return []
        found = self._catalog.text(path, place, "the list of nodes")
        nodes = [] if found is None else read_node_list(*found, self._report)
        for node in nodes:
            self._names.add(node.spec.name, node.place)
        return nodes


def _numbered(pattern: str, number: int) -> str:
    """A name pattern with its number: ``{}`` or ``{03}``."""
    return re.sub(r"\{(0\d)?\}", lambda match: f"{number:{match[1] or ''}}", pattern)
