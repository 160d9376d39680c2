"""Label texts after a reload: those that still hold are kept, and a page never shows one that does not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fakedev.config.configuration import Configuration
from fakedev.exporters.identity import FamilySpec, Identity, LabelSpec, NumberFormat, RowSpec
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.sources import DeviceSource, Entity
from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.entities.roster import RosterNode
from fakedev.fleet.events import Reload, StartWorkload
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.limits import RecordHead
from fakedev.fleet.spec.workload_fields import workload_from_fields
from tests.support.configurations import loaded

FLEET = """
fleet:
  seed: 7
  epoch: 1800000000
  pools:
    - {name: p, nodes: [n1, n2, n3], device: h100, devices-per-node: 2, identity: dcgm, labels: {rack: one}}
    - {name: q, nodes: [n4], device: h100, devices-per-node: 3, identity: dcgm}
web: []
workloads: {listen: [], base: [{name: base, devices: "n[1-2]/*", profile: "40:20:0", pod: base}]}
"""


class CountingSource(DeviceSource):
    """Remembers of which nodes texts were made."""

    def __init__(self, fleet: Fleet, identity: Identity) -> None:
        super().__init__(fleet, identity.shared_devices)
        self.made: list[str] = []

    def entities(self, level: str, group: RosterNode) -> Sequence[Entity]:
        self.made.append(group.name)
        return super().entities(level, group)


class TestCarriedText:
    """A fleet with a page that is rendered before and after a reload."""

    def setup_method(self) -> None:
        self.text = FLEET
        configuration = loaded(FLEET)
        self.fleet = Fleet(configuration.fleet)
        self.face = self.face_of(configuration)
        self.start("n2/1", "second")
        self.start("n3/0", "other")
        self.fleet.advance()
        self.page()

    def face_of(
        self, configuration: Configuration, former: LabelCache[RosterNode] | None = None
    ) -> LabelCache[RosterNode]:
        identity = configuration.identities["p"]
        self.source = CountingSource(self.fleet, identity)
        return LabelCache(identity, self.source, former)

    def start(self, devices: str, pod: str) -> None:
        fields = {"name": pod, "devices": devices, "profile": "10:0:0", "pod": pod}
        self.fleet.apply(StartWorkload(workload_from_fields(fields)))

    def page(self) -> bytes:
        return Page(self.face, self.fleet.roster.nodes).render(self.fleet.shown)

    def apply_reload(self, *changes: tuple[str, str]) -> set[str]:
        """Change the configuration, and compare the page with one of new texts.

        :returns: the nodes that got new texts.
        """
        for old, new in changes:
            assert old in self.text
            self.text = self.text.replace(old, new)
        coming = loaded(self.text)
        self.fleet.apply(Reload(CompiledFleet(coming.fleet), RecordHead("", 0.0)))
        self.fleet.advance()
        self.face = self.face_of(coming, self.face)
        shown, made = self.page(), set(self.source.made)
        anew = LabelCache(coming.identities["p"], DeviceSource(self.fleet))
        assert shown == Page(anew, self.fleet.roster.nodes).render(self.fleet.shown)
        return made

    @pytest.mark.slow
    def test_only_what_changed_is_made(self) -> None:
        """Node by node, after any other nodes in the page."""
        for changes, made in (
            ([("[n1, n2, n3]", "[n5, n3, n2, n1]")], "5"),
            ([("[n5, n3, n2, n1]", "[n2, n1, n3]")], ""),
            ([("rack: one", "rack: two")], "123"),
            ([("devices-per-node: 3", "devices-per-node: 2")], "4"),
            ([("{name: q, nodes: [n4]", "{name: r, nodes: [n4]")], "4"),
            ([("n[1-2]/*", "n[2-3]/*")], "123"),
            ([("pod: base", "pod: other")], "23"),
            ([("h100, devices-per-node: 2, identity: dcgm, labels", "a100, identity: dcgm, labels")], "123"),
            ([], ""),
        ):
            assert self.apply_reload(*changes) == {f"n{number}" for number in made}, changes

    def test_pods_that_come_at_the_same_time(self) -> None:
        """Before the reload, with it, and after it."""
        self.start("n1/0", "second")
        self.fleet.advance()
        self.start("n4/0", "with")
        assert self.apply_reload(("[n1, n2, n3]", "[n3, n1, n2]")) == {"n4"}
        self.start("n4/1", "after")
        self.fleet.advance()
        page = self.page()
        assert b'pod="with"' in page
        assert b'pod="after"' in page

    def test_words_that_name_others(self) -> None:
        """A workload of the configuration is the same, and has the devices that its words name now."""
        self.apply_reload(("n[1-2]/*", "n*/1"))
        assert self.apply_reload(("[n1, n2, n3]", "[n1, n6, n2, n3]")) == {"n6"}
        assert self.pods("n6") == ["", "base"]
        self.apply_reload(("n*/1", "n*/x"), ("labels: {", "devices: [{index: 0, file: x}], labels: {"))
        assert (self.pods("n1"), self.pods("n3")) == (["base", ""], ["other", ""])
        self.apply_reload(("index: 0, file", "index: 1, file"))
        assert (self.pods("n1"), self.pods("n3")) == (["", "base"], ["other", "base"])

    def pods(self, name: str) -> list[str]:
        node = self.fleet.roster.node(name)
        assert node is not None
        return [facts["pod"] for facts in self.fleet.labels.facts(node)]


#: Levels, with the facts that distinguish their entities.
LEVELS = ("device", "whole", "part", "unit", "link", "link/1", "port", "switch")
FACTS = ("uuid", "mig_id", "link", "switch")


class TestLevel:
    """Entities of all levels have the new positions, whether their texts are kept or made again."""

    @pytest.mark.slow
    def test_positions(self) -> None:
        """Nodes of three pools, of divided boards and of boards with links and switches, come, go and change places."""
        levels = tuple(RowSpec("", labels=(LabelSpec("level", level),), level=level) for level in LEVELS)
        labels = tuple(LabelSpec(fact, f"{{{fact}}}") for fact in FACTS)
        shown = Identity("test", "1", (FamilySpec("x", "gauge", "x", NumberFormat.GO, levels),), labels)
        fleet, face, positions = None, None, set()
        for parted, linked in (("a, b", "c, d"), ("b", "d, e, c"), ("f, a, b", "c, d"), ("a, f", "g, c, e, d")):
            text = (
                f"fleet: {{pools: [{{name: p, nodes: [{parted}], device: a100, mig: [3g.20gb, 1g.5gb]}}, "
                f"{{name: q, nodes: [{linked}], device: h100}}]}}\nweb: []\nworkloads: {{listen: []}}"
            )
            configuration = loaded(text)
            if fleet is None:
                fleet = Fleet(configuration.fleet)
            else:
                fleet.apply(Reload(CompiledFleet(configuration.fleet), RecordHead("", 0.0)))
            fleet.advance()
            face, anew = (LabelCache(shown, DeviceSource(fleet), former) for former in (face, None))
            for node in fleet.roster.nodes:
                for kept, made in zip(face.texts(node), anew.texts(node), strict=True):
                    assert (kept.positions.tolist(), kept.texts) == (made.positions.tolist(), made.texts)
                    positions.update(kept.positions.tolist())
        assert len(positions) > 100

    def test_another_identity(self) -> None:
        """A cache of another identity takes nothing over from the one given as its former one."""
        fleet = Fleet(loaded(FLEET).fleet)
        one, other = loaded(FLEET).identities["p"], loaded(FLEET.replace("dcgm", "run-ai")).identities["p"]
        node = fleet.roster.nodes[0]
        before = LabelCache(one, DeviceSource(fleet))
        before.texts(node)
        fleet.apply(Reload(CompiledFleet(loaded(FLEET).fleet), RecordHead("", 0.0)))
        fleet.advance()
        node = fleet.roster.nodes[0]
        after, anew = LabelCache(other, DeviceSource(fleet), before), LabelCache(other, DeviceSource(fleet))
        assert [text.texts for text in after.texts(node)] == [text.texts for text in anew.texts(node)]
