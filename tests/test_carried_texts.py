"""Label texts after a reload: those that still hold are kept, and a page never shows one that does not."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.trial.unittest import SynchronousTestCase

from fakedev.config.configuration import Configuration
from fakedev.config.files import Files
from fakedev.config.load import load
from fakedev.exposition.face import Face
from fakedev.exposition.identity import Identity
from fakedev.exposition.page import Page
from fakedev.exposition.sources import DeviceSource, Entity
from fakedev.sim.events import Reload, StartWorkload
from fakedev.sim.fleet import Fleet
from fakedev.sim.machinery import Machinery
from fakedev.sim.record_head import RecordHead
from fakedev.sim.roster import RosterNode
from fakedev.sim.workload_fields import workload_from_fields

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
        """The node's devices."""
        self.made.append(group.name)
        return super().entities(level, group)


def configured(text: str) -> Configuration:
    """What a configuration says."""
    return load(None, Files(environ={}), text=text)


class CarriedTextTests(SynchronousTestCase):
    """A fleet whose page is rendered before and after it goes over to another configuration."""

    def setUp(self) -> None:
        self.text = FLEET
        configuration = configured(FLEET)
        self.fleet = Fleet(configuration.fleet)
        self.face = self.face_of(configuration)
        self.start("n2/1", "second")
        self.start("n3/0", "other")
        self.fleet.advance()
        self.page()

    def face_of(self, configuration: Configuration, former: Face[RosterNode] | None = None) -> Face[RosterNode]:
        """The identity of the first pool."""
        identity = configuration.identities["p"]
        self.source = CountingSource(self.fleet, identity)
        return Face(identity, self.source, former)

    def start(self, devices: str, pod: str) -> None:
        """A workload with a pod."""
        fields = {"name": pod, "devices": devices, "profile": "10:0:0", "pod": pod}
        self.fleet.apply(StartWorkload(workload_from_fields(fields)))

    def page(self) -> bytes:
        """All nodes, of kept texts."""
        return Page(self.face, self.fleet.roster.nodes).render(self.fleet.shown)

    def go_over(self, *changes: tuple[str, str]) -> set[str]:
        """Change the configuration, and look whether the page is that of texts that are all made anew.

        :returns: the nodes whose texts were made.
        """
        for old, new in changes:
            self.assertIn(old, self.text)
            self.text = self.text.replace(old, new)
        coming = configured(self.text)
        self.fleet.apply(Reload(Machinery(coming.fleet), RecordHead("", 0.0)))
        self.fleet.advance()
        self.face = self.face_of(coming, self.face)
        shown, made = self.page(), set(self.source.made)
        anew = Face(coming.identities["p"], DeviceSource(self.fleet))
        self.assertEqual(shown, Page(anew, self.fleet.roster.nodes).render(self.fleet.shown))
        return made

    def test_only_what_changed_is_made(self) -> None:
        """Node by node, whatever comes before it in the page."""
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
            self.assertEqual(self.go_over(*changes), {f"n{number}" for number in made}, changes)

    def test_pods_that_come_at_the_same_time(self) -> None:
        """Before the reload, with it, and after it."""
        self.start("n1/0", "second")
        self.fleet.advance()
        self.start("n4/0", "with")
        self.assertEqual(self.go_over(("[n1, n2, n3]", "[n3, n1, n2]")), {"n4"})
        self.start("n4/1", "after")
        self.fleet.advance()
        page = self.page()
        self.assertIn(b'pod="with"', page)
        self.assertIn(b'pod="after"', page)

    def test_words_that_name_others(self) -> None:
        """A workload of the configuration is the same, and has the devices that its words name now."""
        self.go_over(("n[1-2]/*", "n*/1"))
        self.assertEqual(self.go_over(("[n1, n2, n3]", "[n1, n6, n2, n3]")), {"n6"})
        self.assertEqual(self.pods("n6"), ["", "base"])
        self.go_over(("n*/1", "n*/x"), ("labels: {", "devices: [{index: 0, file: x}], labels: {"))
        self.assertEqual((self.pods("n1"), self.pods("n3")), (["base", ""], ["other", ""]))
        self.go_over(("index: 0, file", "index: 1, file"))
        self.assertEqual((self.pods("n1"), self.pods("n3")), (["", "base"], ["other", "base"]))

    def pods(self, name: str) -> list[str]:
        """The pods of a node's devices."""
        node = self.fleet.roster.node(name)
        assert node is not None
        return [facts["pod"] for facts in self.fleet.facts(node)]
