"""What dcgm-exporter shows of nodes in racks: CPUs, their cores, the fabric, the place in the rack."""

from __future__ import annotations

import pytest

from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.sources import DeviceSource
from fakedev.fleet.entities.roster import RosterNode
from fakedev.fleet.fleet import Fleet
from tests.support.configurations import loaded, problems
from tests.support.fleet.faulty_fleets import inject
from tests.support.fleet.fleets import advance

_ROWS = """\
DCGM_FI_DEV_CPU_UTIL_TOTAL, gauge, use
DCGM_FI_DEV_CPU_CLOCK_CURRENT, gauge, clock
DCGM_FI_DEV_CPU_POWER_UTIL_CURRENT, gauge, power
DCGM_FI_DEV_MODULE_POWER_UTIL_CURRENT, gauge, power
DCGM_FI_DEV_FABRIC_HEALTH_MASK, gauge, health
DCGM_FI_DEV_FABRIC_MANAGER_STATUS, gauge, status
DCGM_FI_DEV_NVLINK_COUNT_SYMBOL_BER, gauge, errors
DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_0, counter, codewords
DCGM_FI_DEV_PLATFORM_CHASSIS_SLOT_NUMBER, gauge, slot
DCGM_FI_DEV_PLATFORM_MODULE_ID, gauge, module
DCGM_FI_IMEX_DAEMON_STATUS, gauge, status
DCGM_FI_IMEX_DOMAIN_STATUS, label, status
"""


def fleet_and_page(release: str, node: str, **keys: str) -> tuple[Fleet, Page[RosterNode]]:
    """A fleet in racks after one tick, and a node's page."""
    given = {"nodes": "18", "device": "gb200", "racks": "nvl72", **keys}
    text = "fleet: {epoch: 0, pools: [{name: nvl, identity: id.yaml, " + ", ".join(
        f"{key}: {value}" for key, value in given.items()
    ) + "}]}\nweb: []\nworkloads: {listen: []}\n"
    identity = f"name: mine\nbased-on: dcgm@{release}\ncounters: rows.csv\n"
    configuration = loaded(text, {"id.yaml": identity, "rows.csv": _ROWS})
    fleet = Fleet(configuration.fleet)
    fleet.advance()
    place = fleet.roster.node(node)
    assert place is not None
    return fleet, Page(LabelCache(configuration.identities["nvl"], DeviceSource(fleet)), [place])


def shown(page: Page[RosterNode], fleet: Fleet) -> list[str]:
    """The rows of a page now."""
    return [row for row in page.render(fleet.state).decode().splitlines() if not row.startswith("#")]


def page_of(release: str, node: str, **keys: str) -> list[str]:
    """The rows of a node's page."""
    fleet, page = fleet_and_page(release, node, **keys)
    return shown(page, fleet)


def rows_of(page: list[str], field: str) -> list[str]:
    """The rows of a field."""
    return [row for row in page if row.startswith(f"{field}{{")]


def test_rows_of_a_compute_tray() -> None:
    page = page_of("4.8.4", "nvl-4")
    cores = rows_of(page, "DCGM_FI_DEV_CPU_UTIL_TOTAL")
    assert len(cores) == 144
    assert cores[0].startswith('DCGM_FI_DEV_CPU_UTIL_TOTAL{cpucore="0",cpu="0",hostname="nvl-4"} ')
    assert any('{cpucore="143",cpu="1",hostname="nvl-4"}' in row for row in cores)
    assert rows_of(page, "DCGM_FI_DEV_CPU_CLOCK_CURRENT")[0].endswith(" 3.2e+06")
    first, second = rows_of(page, "DCGM_FI_DEV_CPU_POWER_UTIL_CURRENT")
    assert first.startswith('DCGM_FI_DEV_CPU_POWER_UTIL_CURRENT{cpu="0",cpu_serial="') and 'cpu="1"' in second
    idle = [float(row.rpartition(" ")[2]) for row in rows_of(page, "DCGM_FI_DEV_MODULE_POWER_UTIL_CURRENT")]
    assert idle == pytest.approx([467, 467], abs=15)  # as captures of idle nodes have it
    assert {row.rpartition(" ")[2] for row in rows_of(page, "DCGM_FI_DEV_FABRIC_HEALTH_MASK")} == {"426"}
    assert {row.rpartition(" ")[2] for row in rows_of(page, "DCGM_FI_DEV_NVLINK_COUNT_SYMBOL_BER")} == {"4095"}
    assert {row.rpartition(" ")[2] for row in rows_of(page, "DCGM_FI_DEV_PLATFORM_CHASSIS_SLOT_NUMBER")} == {"14"}
    modules = rows_of(page, "DCGM_FI_DEV_PLATFORM_MODULE_ID")
    of_boards = {row[row.index('gpu="') + 5]: row.rpartition(" ")[2] for row in modules}
    assert of_boards == dict(zip("0123", "2143", strict=True))
    daemon = rows_of(page, "DCGM_FI_IMEX_DAEMON_STATUS")
    assert len(daemon) == 4
    assert all(row.endswith(',DCGM_FI_IMEX_DOMAIN_STATUS="UP"} 5') for row in daemon)


def test_the_state_of_an_imex_domain_is_a_label() -> None:
    """A text as gauge is no number: the exporter prints it, and Prometheus refuses the page."""
    fleet, page = fleet_and_page("4.8.4", "nvl-4")
    inject(fleet, kind="imex-down", node="nvl-2")
    advance(fleet, 2)
    row = rows_of(shown(page, fleet), "DCGM_FI_IMEX_DAEMON_STATUS")[0]
    assert row.endswith(',DCGM_FI_IMEX_DOMAIN_STATUS="DEGRADED"} 5')
    text = "fleet: {pools: [{name: nvl, device: gb200-nvl72, identity: id.yaml}]}\nweb: []\n"
    files = {"id.yaml": "name: mine\nbased-on: dcgm@4.8.4\ncounters: rows.csv\n",
             "rows.csv": "DCGM_FI_IMEX_DOMAIN_STATUS, gauge, status\n"}
    assert any("can only be a label, not gauge" in problem for problem in problems(text, files))


def test_boards_outside_of_racks_have_the_rows_that_they_had() -> None:
    racks = page_of("4.8.4", "nvl-0", **{"devices-per-node": "4"})
    text = "fleet: {epoch: 0, pools: [{name: nvl, identity: id.yaml, device: h100}]}\nweb: []\n"
    without = ("DCGM_FI_DEV_FABRIC_HEALTH_MASK", "DCGM_FI_IMEX_DOMAIN_STATUS")
    counters = "".join(row for row in _ROWS.splitlines(keepends=True) if not row.startswith(without))
    identity = "name: mine\nbased-on: dcgm@4.8.4\ncounters: rows.csv\n"
    configuration = loaded(text, {"id.yaml": identity, "rows.csv": counters})
    fleet = Fleet(configuration.fleet)
    page = Page(LabelCache(configuration.identities["nvl"], DeviceSource(fleet)), fleet.roster.nodes)
    rows = shown(page, fleet)
    assert not rows_of(rows, "DCGM_FI_DEV_CPU_UTIL_TOTAL") and rows_of(racks, "DCGM_FI_DEV_CPU_UTIL_TOTAL")
    assert {row.rpartition(" ")[2] for row in rows_of(rows, "DCGM_FI_DEV_FABRIC_MANAGER_STATUS")} == {"3"}


@pytest.mark.parametrize(
    ("keys", "nodes"),
    [
        ("", 18), (", racks: nvl72", 18), (", racks: {smoothing-floor: 50}", 18), (", racks: {trays: 9}", 9),
        (", racks: nvl72, nodes: 2", 2), (", racks: air", 1),
    ],
)  # fmt: skip
def test_a_type_of_racks_is_one_rack(keys: str, nodes: int) -> None:
    """Also where the pool says more about the rack; not where it says how many nodes there are, or air."""
    text = f"fleet: {{pools: [{{name: nvl, device: gb200-nvl72, identity: dcgm{keys}}}]}}\nweb: []\n"
    (pool,) = loaded(text).fleet.pools
    assert len(pool.nodes) == nodes


@pytest.mark.parametrize(
    ("racks", "nodes", "expected"),
    [
        ("{partition: 5}", "18", "partition: 5 does not divide the 72 GPUs of a rack"),
        ("{partition: 8}", "20", "partition: the 20 nodes are no whole racks of 18"),
        ("{cpus: 3}", "18", "cpus: 3 do not share 4 devices alike"),
        ("nvl36", "18", "must be one of nvl72, air"),
        ("{kind: air, partition: 8}", "8", "the racks have no switch trays"),
    ],
)
def test_racks_that_cannot_be(racks: str, nodes: str, expected: str) -> None:
    text = f"fleet: {{pools: [{{name: a, device: gb200, nodes: {nodes}, racks: {racks}}}]}}\nweb: []\n"
    assert any(expected in problem for problem in problems(text)), problems(text)


def test_shards_do_not_cut_racks_apart() -> None:
    text = "fleet: {shard: 0/2, pools: [{name: a, device: gb200, nodes: 18, racks: nvl72}]}\nweb: []\n"
    assert any("shards would cut apart" in problem for problem in problems(text))
