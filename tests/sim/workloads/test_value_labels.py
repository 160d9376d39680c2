"""Labels that follow a value: the code of the last error is on the page as a number and as a text."""

from __future__ import annotations

import numpy as np

from fakedev.exposition.identity import FamilySpec, Identity, LabelSpec, NumberFormat, RowSpec
from fakedev.exposition.label_cache import LabelCache
from fakedev.exposition.page import Page
from fakedev.exposition.sources import DeviceSource
from fakedev.sim.entities.roster import Roster
from fakedev.sim.entities.state import Level
from fakedev.sim.workloads.labels import DeviceLabels, value_facts
from tests.support.configurations import loaded
from tests.support.faulty_fleets import boards_of, inject
from tests.support.fleets import make_fleet, pool_of, start

CODE = LabelSpec("err_code", "{xid}")
TEXT = LabelSpec("err_msg", "{xid}", texts=(("63", "row remapped"),), otherwise="unknown")
ERRORS = FamilySpec(
    "errors", "gauge", "Last error.", NumberFormat.INT, (RowSpec("xid", labels=(CODE, TEXT), where=("xid",)),)
)


def rows(page: bytes) -> list[str]:
    """The rows of a page."""
    return [line for line in page.decode().splitlines() if not line.startswith("#")]


def test_on_a_page() -> None:
    """No row before the first error; then number, code and text are of one tick, whatever was kept of the page."""
    fleet = make_fleet(boards_of("h100", nodes=2, devices=1))
    identity = Identity("test", "", (ERRORS,), (LabelSpec("node", "{node}"),))
    page = Page(LabelCache(identity, DeviceSource(fleet)), fleet.roster.nodes)
    assert rows(page.render(fleet.state)) == []
    inject(fleet, kind="xid", devices="dgx-0/0", code=63)
    inject(fleet, kind="xid", devices="dgx-1/0", code=16)
    fleet.advance()
    assert rows(page.render(fleet.state)) == [
        'errors{node="dgx-0",err_code="63",err_msg="row remapped"} 63',
        'errors{node="dgx-1",err_code="16",err_msg="unknown"} 16',
    ]
    inject(fleet, kind="reset", devices="dgx-0/0")
    fleet.advance()
    assert rows(page.render(fleet.state)) == ['errors{node="dgx-1",err_code="16",err_msg="unknown"} 16']


def test_the_words_of_dcgm_exporter() -> None:
    """Codes and texts are among the pod's labels, by name; a code without a text is an error too."""
    fleet = make_fleet(boards_of("h100", nodes=1, devices=4))
    dcgm = loaded("fleet: {pools: [{name: p, device: h100, identity: dcgm}]}").identities["p"]
    page = Page(LabelCache(dcgm, DeviceSource(fleet)), fleet.roster.nodes)
    start(fleet, "all", pod="train", namespace="ml", container="main")
    for device, code in ((0, 63), (1, 74), (3, 999)):
        inject(fleet, kind="xid", devices=f"dgx-0/{device}", code=code)
    fleet.advance()
    found = [
        (text_of.partition('",container=')[2], int(number))
        for text_of, number in (row.rsplit(" ", 1) for row in rows(page.render(fleet.state)) if "XID_ERRORS{" in row)
    ]
    pod = 'namespace="ml",pod="train"}'
    assert found == [
        (f'"main",err_code="63",err_msg="ECC page retirement or row remapping recording event",{pod}', 63),
        (f'"main",err_code="74",err_msg="NVLINK Error",{pod}', 74),
        (f'"main",err_code="999",err_msg="Unknown Error",{pod}', 999),
    ]


def test_only_nodes_where_it_changed() -> None:
    """They and no others have new labels; when nothing changed, none has."""
    roster = Roster([pool_of(nodes=3, devices_per_node=2)])
    labels = DeviceLabels(roster, 0)

    def level(*codes: float) -> Level:
        return Level(6, {"xid": np.array(codes)}, {})

    before = level(0, 0, 0, 0, 0, 0)
    for after, changed in (
        (before, []),
        (level(0, 0, 0, 0, 0, 0), []),
        (level(0, 13, 0, 0, 31, 48), [0, 2]),
        (level(0, 13, 0, 0, 31, 79), [2]),
    ):
        seen = [labels.version(node) for node in roster.nodes]
        labels.note(before, after)
        assert [i for i, node in enumerate(roster.nodes) if labels.version(node) != seen[i]] == changed
        before = after


def test_devices_without_it() -> None:
    """Have no such fact."""
    level = Level(2, {"xid": np.array([48.0, 0.0])}, {"xid": np.array([True, False])})
    assert [value_facts(level, position) for position in (0, 1)] == [{"xid": "48"}, {}]
    assert value_facts(Level(1, {}, {}), 0) == {}
