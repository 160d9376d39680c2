"""The nodes of a pool: counted, named, or from a CSV file."""

from __future__ import annotations

import csv
import re

from fakedev.config.catalog import Catalog
from fakedev.config.documents import is_clean
from fakedev.config.names import MOST_NODES, fact_name, inlet_celsius, node_name
from fakedev.config.problems import Place, Report
from fakedev.config.values import Values
from fakedev.sim.spec import NodeSpec


class Names:
    """Names of one kind that must be unique; one that is not is reported."""

    def __init__(self, what: str, report: Report) -> None:
        self._what = what
        self._report = report
        self._known: dict[str, Place] = {}

    def add(self, name: str, place: Place) -> None:
        """One more name."""
        if name in self._known:
            first = self._known[name]
            self._report.problem(
                place, f"the {self._what} {name!r} is there twice (first at {first}): names are unique"
            )
        self._known.setdefault(name, place)


class PoolNodes:
    """Builds the nodes of all pools; what is wrong is reported."""

    def __init__(self, catalog: Catalog, report: Report) -> None:
        self._catalog = catalog
        self._report = report
        self._names = Names("node", report)

    def load(self, values: Values) -> list[NodeSpec]:
        """The nodes of a pool; empty when they cannot be known."""
        nodes = values["nodes"]
        place = values.place_of("nodes")
        if isinstance(nodes, int):
            return self._counted(values, nodes)
        if values.given("node-name"):
            at = values.place_of("node-name")
            self._report.problem(at, "node-name: is for a number of nodes, and these have names")
        if isinstance(nodes, str):
            return self._from_csv(nodes, place)
        for name, item in zip(nodes, values.items_of("nodes"), strict=False):
            self._names.add(name, item.place)
        return [NodeSpec(name) for name in nodes]

    def _counted(self, values: Values, count: int) -> list[NodeSpec]:
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
        return [NodeSpec(name) for name in names]

    def _from_csv(self, path: str, place: Place) -> list[NodeSpec]:
        """Nodes of a CSV file with the columns name and, if wanted, labels and inlet."""
        if not path.lower().endswith(".csv"):
            self._report.problem(
                place, f"nodes: {path!r} is no number and no .csv file; names go into a list, as [{path}]"
            )
            return []
        found = self._catalog.text(path, place, "the list of nodes")
        if found is None:
            return []
        text, shown = found
        if not is_clean(text, shown, self._report):
            return []
        reader = csv.DictReader(text.splitlines(keepends=True), strict=True)
        nodes: list[NodeSpec] = []
        rows = 0
        try:
            columns = [column.strip() for column in reader.fieldnames or ()]
            reader.fieldnames = columns
            if "name" not in columns:
                self._report.problem(
                    Place(shown, 1), "has no column 'name': the first line names the columns, as name,labels"
                )
                return []
            for row in reader:
                rows += 1
                node = self._csv_node(row, Place(shown, reader.line_num))
                if node is not None:
                    nodes.append(node)
        except csv.Error as error:
            rows += 1
            self._report.problem(Place(shown, reader.reader.line_num), f"is not CSV: {error}")
        if len(nodes) > MOST_NODES:
            self._report.problem(Place(shown, 1), f"has {len(nodes)} nodes: at most {MOST_NODES}")
        elif not rows:
            self._report.problem(Place(shown, 1), "has no node: give at least one line below the first")
        return nodes

    def _csv_node(self, row: dict[str, str | None], place: Place) -> NodeSpec | None:
        try:
            if None in row:
                raise ValueError("has more values than the first line has columns")
            name = node_name((row["name"] or "").strip())
            facts = {}
            for pair in (row.get("labels") or "").split(";"):
                if pair.strip():
                    key, equals, value = pair.partition("=")
                    if not equals:
                        raise ValueError(f"the label {pair.strip()!r} has no =, as rack=a1;row=3")
                    facts[fact_name(key.strip())] = value.strip()
            inlet = (row.get("inlet") or "").strip()
            celsius = inlet_celsius(inlet) if inlet else None
        except ValueError as error:
            self._report.problem(place, str(error))
            return None
        self._names.add(name, place)
        return NodeSpec(name, facts, celsius)


def _numbered(pattern: str, number: int) -> str:
    """A name pattern with its number: ``{}`` or ``{03}``."""
    return re.sub(r"\{(0\d)?\}", lambda match: f"{number:{match[1] or ''}}", pattern)
