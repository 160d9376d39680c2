"""The nodes of a pool: counted, named, or from a CSV file."""

from __future__ import annotations

import re

from fakedev.config.catalog import Catalog
from fakedev.config.names import node_name
from fakedev.config.pools.node_lists import ListedNode, read_node_list
from fakedev.config.schema.problems import Place, Report
from fakedev.config.schema.values import Values
from fakedev.spec.fleet import NodeSpec


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

    def load(self, values: Values) -> list[ListedNode]:
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
        """Nodes of a CSV file."""
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
