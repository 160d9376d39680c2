"""Targets for captured pages: what ``fakedev conform`` and ``fakedev clone`` make of them."""

from __future__ import annotations

from typing import Final

import yaml

from fakedev.clone.closeness import conformity
from fakedev.clone.document import Board, Placed, configuration_document, file_text
from fakedev.clone.fleet_reader import FleetReader
from fakedev.clone.identity_changes import assumed_wander, identity_document, with_seen_families, with_seen_labels
from fakedev.clone.recognition import DEFAULT_DEVICE, likely_identities, recognized_device, recognized_instances
from fakedev.clone.scraped import PageGroup, SourcePage, anonymous_groups, grouped
from fakedev.exporters.conform import compared
from fakedev.exporters.samples import CapturedPage, read_page
from fakedev.exporters.settings.catalog import Catalog
from fakedev.scenario.samples.series import TargetSamples
from fakedev.schema.files import Files
from fakedev.schema.places import Place, Report
from tests.fuzz import seeds
from tests.fuzz.engine import Target
from tests.fuzz.text_targets import answer_of


class Captures:
    """Captured pages, as ``fakedev conform`` compares them, and as a history has their samples."""

    def __init__(self) -> None:
        self._page = read_page(seeds.captures()[0].decode())
        self._catalog = Catalog(Files(environ={}), Report())

    def run(self, data: bytes) -> str:
        """Read, recognize, compare; scrape twice."""
        text = data.decode("utf-8", "replace")
        samples = TargetSamples({"job": "x"})
        first, second = samples.scrape(data), samples.scrape(data)
        assert first.times or [*first.series] == [*second.series]

        def compare() -> str:
            page = read_page(text)
            likely_identities(page.families, self._catalog, Report())
            device = recognized_device(page.label_values(), self._catalog) or DEFAULT_DEVICE
            recognized_instances(page, device, self._catalog)
            result = compared(page, self._page)
            assert 0 <= result.percent <= 100
            assert all("\n" not in str(difference) for difference in result.differences)
            return " ".join(difference.aspect for difference in result.differences)

        return answer_of(compare, (ValueError,))

    def stop(self) -> None:
        """Nothing is left."""


class Clones:
    """Pages as ``fakedev clone`` reads them: what it writes is a document, and the same each time."""

    def __init__(self) -> None:
        found = Catalog(Files(environ={}), Report()).identity("dcgm", Place("fuzz"))
        device = Catalog(Files(environ={}), Report()).device("h100", Place("fuzz"))
        assert found is not None and device is not None
        self._identity, self._board = found.as_written or found.identity, Board(device.type)

    def run(self, data: bytes) -> str:
        """Read the fleet with and without names, keep all families, write both files."""
        text = data.decode("utf-8", "replace")

        def clone() -> str:
            (group,) = grouped([SourcePage("page", read_page(text))])
            first, second = self._clone(group), self._clone(group)
            assert first == second
            return f"{len(first)} {len(self._clone(anonymous_groups([group])[0]))}"

        return answer_of(clone, (ValueError,))

    def _clone(self, group: PageGroup) -> str:
        page = group.joined()
        identity = with_seen_labels(self._identity, page)
        nothing = CapturedPage({}, is_declared_first=False)
        result = conformity(page, nothing, is_stored=False)
        changed, _ = with_seen_families(identity, page, nothing, result, {}, 1, assumed_wander)
        nodes = FleetReader(changed).read(group)
        files = [file_text(identity_document("own", "dcgm", changed, self._identity))]
        placed = [Placed(node, self._board, "./own.yaml") for node in nodes]
        files.append(file_text(configuration_document(placed)))
        for file in files:
            assert isinstance(yaml.safe_load(file), dict)
        return "".join(files)

    def stop(self) -> None:
        """Nothing is left."""


TARGETS: Final = (
    Target("captures", Captures, seeds.captures, lambda: seeds.words_of(seeds.captures()), rounds=500),
    Target("clones", Clones, seeds.captures, lambda: seeds.words_of(seeds.captures()), rounds=300),
)
