"""Racks: what a module and a rack share, what the fabric carries, and what faults do to them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from fakedev.base.errors import Refused
from fakedev.fleet.events import ClearFaults
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.links.facts import faults_of_link
from fakedev.fleet.links.link_levels import link_history
from fakedev.fleet.racks.link_quality import NO_ERRORS, packed
from fakedev.fleet.snapshot import fleet_from_bytes, fleet_to_bytes
from fakedev.fleet.spec.device_types import Layout
from fakedev.fleet.spec.fleet_spec import NodeSpec, PoolSpec
from fakedev.fleet.spec.rack_spec import RackKind, RackSpec
from fakedev.fleet.spec.xids import Xid
from tests.support.fleet.calibration import catalog_type
from tests.support.fleet.faulty_fleets import cleared, inject, shown
from tests.support.fleet.fleets import advance, make_fleet, reload, start, stop
from tests.support.fleet.link_checks import of_links

#: Eight nodes of four boards in two racks: small ones, but with all switch trays.
_RACKS = RackSpec(trays=4)
_HEALTHY = 426


def racks_of(racks: RackSpec = _RACKS, nodes: int = 8, name: str = "gb200") -> PoolSpec:
    """A pool of nodes nvl-0, ... in racks."""
    board = catalog_type(name)
    links = board.connections.links
    assert links is not None
    if racks.switch_trays:
        links = replace(links, layout=Layout.SWITCHES, switches=racks.switches)
    specs = tuple(NodeSpec(f"nvl-{place}", place=place) for place in range(nodes))
    board = replace(board, connections=replace(board.connections, links=links))
    return PoolSpec("nvl", specs, board, 4, racks=racks)


def racked(pool: PoolSpec | None = None, **more: Any) -> Fleet:
    """A fleet of two racks at work, some seconds after it began."""
    fleet = make_fleet(pool or racks_of(), seed=3, **more)
    start(fleet, "all", "100:0:0", kind="training", metrics={"fabric-tx": "40%"})
    advance(fleet, 20)
    return fleet


def of(fleet: Fleet, level: str, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A quantity of a level."""
    return fleet.state.levels[level].arrays[name]


class TestPower:
    """A module has two boards and a CPU, and one limit."""

    @pytest.mark.parametrize("profile", ["100:0:0", "60:40:9"])
    def test_the_parts_of_a_module_add_up_and_stay_within_its_limit(self, profile: str) -> None:
        fleet = make_fleet(racks_of(), seed=5)
        start(fleet, "all", profile, kind="tensor")
        fleet.advance()  # in the first second boards draw more than their limit, as they do elsewhere
        for _ in range(60):
            fleet.advance()
            boards = fleet.power_watts.reshape(-1, 2).sum(axis=1)
            cpus = of(fleet, "cpu", "cpu_power_watts") + of(fleet, "cpu", "sysio_power_watts")
            assert of(fleet, "cpu", "module_power_watts") == pytest.approx(boards + cpus)
            assert of(fleet, "cpu", "module_power_watts").max() <= 2500.0

    def test_an_idle_board_leaves_its_share_to_its_neighbour(self) -> None:
        fleet = make_fleet(racks_of(), seed=5)
        start(fleet, "nvl-0/0", "100:0:0", kind="tensor")
        start(fleet, "nvl-1/*", "100:0:0", kind="tensor")
        advance(fleet, 60)
        alone, together = shown(fleet, "power_watts", 0), shown(fleet, "power_watts", 4)
        assert alone > together
        assert shown(fleet, "throttled_power", 4) == 1.0

    @pytest.mark.slow
    def test_a_busbar_with_less_is_shared_and_its_rack_alone_slows_down(self) -> None:
        fleet = racked()
        before = of(fleet, "rack", "rack_power_watts").copy()
        fault = inject(fleet, kind="busbar", devices="nvl-0/0", kilowatts=15)
        advance(fleet, 30)
        after = of(fleet, "rack", "rack_power_watts")
        assert after[0] <= 15_000 * 1.02
        assert after[1] == pytest.approx(before[1], rel=0.15)
        cleared(fleet, fault, 30)
        assert of(fleet, "rack", "rack_power_watts")[0] == pytest.approx(before[0], rel=0.15)

    def test_work_on_boards_keeps_their_cpu_busy(self) -> None:
        fleet = make_fleet(racks_of(), seed=5)
        start(fleet, "nvl-0/0", "100:0:0")
        advance(fleet, 20)
        use = of(fleet, "cpu", "cpu_usage_ratio")
        assert use[0] > 5 * use[1]
        cores = of(fleet, "cpucore", "cpu_usage_ratio").reshape(-1, 72)
        assert cores.mean(axis=1) == pytest.approx(use)


class TestFabric:
    """All boards of a partition exchange traffic over the switch trays."""

    def test_what_boards_send_others_receive_also_over_nodes(self) -> None:
        fleet = racked()
        sent, received = (fleet.state.levels["device"].arrays[f"fabric_{way}_bytes_per_second"] for way in ("tx", "rx"))
        assert sent.sum() > 0
        assert sent.reshape(2, -1).sum(axis=1) == pytest.approx(received.reshape(2, -1).sum(axis=1))
        switches = of(fleet, "switch", "fabric_tx_bytes_per_second")
        assert len(switches) == 2 * 18
        assert switches.sum() == pytest.approx(received.sum())
        assert of(fleet, "switch", "fabric_rx_bytes_per_second").sum() == pytest.approx(sent.sum())
        assert not list(of_links(fleet.roster.links, fleet.state.levels))

    def test_a_partition_is_a_clique_of_its_own(self) -> None:
        fleet = make_fleet(racks_of(replace(_RACKS, partition=8)), seed=3)
        facts = [fleet.labels.facts(node)[0] for node in fleet.roster.nodes]
        assert [fact["fabric_clique_id"] for fact in facts] == ["0", "0", "1", "1"] * 2
        assert len({fact["fabric_cluster_uuid"] for fact in facts}) == 2
        start(fleet, "nvl-0/*", "100:0:0", metrics={"fabric-tx": "50%"})
        advance(fleet, 3)
        received = fleet.fabric_rx_bytes_per_second
        assert received[:8].sum() > 0 and not received[8:].any()

    def test_a_switch_tray_that_there_is_not(self) -> None:
        with pytest.raises(Refused, match="tray: a rack has switch trays 0 to 8"):
            inject(racked(), kind="switch-tray", devices="nvl-1/2", tray=9)

    def test_a_lost_switch_tray_takes_two_links_of_each_board(self) -> None:
        fleet = racked()
        fault = inject(fleet, kind="switch-tray", devices="nvl-1/2", tray=4)
        advance(fleet, 2)
        assert fleet.links_up.tolist() == [16.0] * 16 + [18.0] * 16
        assert shown(fleet, "fabric_health_summary") == 2.0
        assert int(shown(fleet, "fabric_health_mask")) & 3 == 1
        assert shown(fleet, "xid") == Xid.NETIR
        assert of(fleet, "switch", "links_up")[8:10].tolist() == [0.0, 0.0]
        levels = fleet.state.levels
        of_link = partial(faults_of_link, fleet.roster, fleet.faults, link_history(levels), levels["unit"])
        behind = [[each.fault_id for each in of_link(link)] for link in (7, 8, 9, 10)]
        assert behind == [[], [fault], [fault], []]
        assert not list(of_links(fleet.roster.links, fleet.state.levels))
        cleared(fleet, fault, 3)
        assert fleet.links_up.tolist() == [18.0] * 32
        advance(fleet, 30)
        assert shown(fleet, "fabric_health_mask") == _HEALTHY
        assert shown(fleet, "link_recoveries") == 2.0

    @pytest.mark.slow
    def test_a_cable_wears_out_until_its_link_goes_down(self) -> None:
        fleet = racked(tick_seconds=60.0)
        fault = inject(fleet, kind="cable", devices="nvl-0/1", link=7, rate=6)
        rates, states = [], []
        for _ in range(120):
            fleet.advance()
            rates.append(shown(fleet, "link_effective_ber_ratio", 1))
            states.append(of(fleet, "link", "link_up")[18 + 7])
        down = states.index(0.0)
        assert 0 < rates[down - 3] < rates[down - 2] and states[-1] == 0.0
        assert shown(fleet, "link_effective_ber_packed", 1) != NO_ERRORS
        assert shown(fleet, "link_recoveries_failed", 1) == 1.0
        assert shown(fleet, "fabric_health_summary", 1) == 3.0 and shown(fleet, "xid", 1) == Xid.NETIR
        counted = shown(fleet, "link_fec_5_codewords", 1)
        assert counted > 0 and shown(fleet, "link_fec_5_codewords", 0) == 0
        cleared(fleet, fault, 2)
        assert shown(fleet, "links_up", 1) == 18.0
        assert shown(fleet, "fabric_health_mask", 1) == _HEALTHY
        assert shown(fleet, "link_fec_5_codewords", 1) == counted

    def test_a_lost_route_is_being_restored_and_then_unhealthy(self) -> None:
        """Its links stay up, so that only the health of the fabric and the traffic tell."""
        fleet = racked()
        before = shown(fleet, "fabric_tx_bytes_per_second")
        fault = inject(fleet, kind="route", devices="nvl-0/0", share=0.2)
        states = []
        for _ in range(13):
            fleet.advance()
            mask = int(shown(fleet, "fabric_health_mask"))
            states.append((mask & 3, mask >> 2 & 3, mask >> 4 & 3, shown(fleet, "fabric_health_summary")))
        assert states == [(1, 1, 2, 3.0)] * 10 + [(1, 2, 1, 2.0)] * 3
        assert shown(fleet, "links_up") == 18.0 and shown(fleet, "xid") == 0
        assert shown(fleet, "fabric_tx_bytes_per_second") < 0.6 * before
        assert int(shown(fleet, "fabric_health_mask", 1)) == _HEALTHY
        assert not list(of_links(fleet.roster.links, fleet.state.levels))
        cleared(fleet, fault)
        assert int(shown(fleet, "fabric_health_mask")) >> 2 & 3 == 1
        advance(fleet, 2)
        assert int(shown(fleet, "fabric_health_mask")) == _HEALTHY
        assert shown(fleet, "fabric_tx_bytes_per_second") == pytest.approx(before, rel=0.05)

    def test_a_board_without_partition_has_its_links_and_no_traffic(self) -> None:
        fleet = racked()
        fault = inject(fleet, kind="partition-mismatch", devices="nvl-0/0")
        advance(fleet, 2)
        assert shown(fleet, "fabric_tx_bytes_per_second") == 0.0 and shown(fleet, "links_up") == 18.0
        assert shown(fleet, "fabric_manager_status") == 4.0
        assert int(shown(fleet, "fabric_health_mask")) >> 8 == 4
        cleared(fleet, fault, 2)
        assert shown(fleet, "fabric_tx_bytes_per_second") > 0
        assert shown(fleet, "fabric_manager_status") == 3.0

    def test_an_imex_daemon_that_was_down_starts_in_steps(self) -> None:
        fleet = racked()
        fault = inject(fleet, kind="imex-down", node="nvl-2")
        advance(fleet, 2)
        assert of(fleet, "host", "imex_daemon_status").tolist() == [5, 5, 7, 5, 5, 5, 5, 5]
        cleared(fleet, fault, 0)
        seen = []
        for _ in range(14):
            fleet.advance()
            seen.append(int(of(fleet, "host", "imex_daemon_status")[2]))
        assert sorted(set(seen), key=seen.index) == [0, 1, 2, 4, 5]

    def test_dcgm_packs_rates_with_mantissa_and_exponent(self) -> None:
        found = packed(np.array([0.0, 1.5e-12, 3e-7]))
        assert found.tolist() == [NO_ERRORS, 2 << 8 | 12, 3 << 8 | 7]

    @pytest.mark.parametrize("code", range(144, 151))
    def test_errors_of_nvlink_5_end_work_where_the_catalog_says_so(self, code: int) -> None:
        """147 and 148 have no action; 145 ends the application; the others need a reset, and end when it is done."""
        fleet = racked()
        fault = inject(fleet, kind="xid", devices="nvl-0/0", code=code)
        fleet.advance()
        assert shown(fleet, "xid") == code and shown(fleet, "link_errors") == 1.0
        assert bool(fleet.workloads.running()) == (code in (147, 148))
        assert shown(fleet, "recovery_action") == (code not in (145, 147, 148))
        assert shown(fleet, "links_up") == (17 if code == Xid.NETIR else 18)
        if code in (144, 146, 149, 150):
            cleared(fleet, fault)
        assert shown(fleet, "recovery_action") == 0.0 and shown(fleet, "links_up") == 18

    @pytest.mark.slow
    def test_a_cable_explains_only_links_that_it_took(self) -> None:
        """While it wears, another fault has the links; once its own link is down, both have."""
        fleet = racked()
        inject(fleet, kind="cable", devices="nvl-0/0", link=2, rate=1000)
        inject(fleet, kind="link-down", devices="nvl-0/0", link=5)
        fleet.advance()
        units = fleet.state.levels["unit"]
        behind = {each.kind.name for each in fleet.faults.behind("links_up", 0, units)}
        assert behind == {"link-down"} and shown(fleet, "links_up") == 17
        assert [each.kind.name for each in fleet.faults.behind("link_raw_ber_ratio", 0, units)] == ["cable"]
        advance(fleet, 40)
        units = fleet.state.levels["unit"]
        behind = {each.kind.name for each in fleet.faults.behind("links_up", 0, units)}
        assert behind == {"cable", "link-down"} and shown(fleet, "links_up") == 16

    def test_subcodes_are_those_of_the_catalog(self) -> None:
        """A correctable bit error rate does no harm; what NVIDIA's catalog does not have is refused."""
        fleet = racked()
        inject(fleet, kind="xid", devices="nvl-0/0", code=149, subcode=19, status=2, link=3)
        fleet.advance()
        assert fleet.workloads.running() and shown(fleet, "links_up") == 18
        for values, text in (
            ({"code": 149, "subcode": 5}, "XID 149 has no subcode 5 in NVIDIA's catalog, but 17 NETIR_LINK_DOWN"),
            ({"code": 149, "reason": 3}, "reasons 0 1 2 4 10 15"),
            ({"code": 144, "status": 3}, "statuses 0x1 0x2 0x4"),
            ({"code": 74, "subcode": 5}, "only XIDs 144 to 150"),
        ):
            with pytest.raises(Refused, match=text):
                inject(fleet, kind="xid", devices="nvl-0/0", **values)  # type: ignore[arg-type]  # numbers


class TestDomains:
    """Nodes of a clique share memory by their IMEX daemons."""

    def test_a_node_that_falls_out_degrades_its_domain_alone(self) -> None:
        fleet = racked()
        fault = inject(fleet, kind="imex-down", devices="nvl-2/0")
        fleet.advance()
        assert of(fleet, "host", "imex_domain_status").tolist() == [1, 1, 2, 1, 0, 0, 0, 0]
        assert of(fleet, "host", "imex_nodes_ready").tolist() == [3] * 4 + [4] * 4
        cleared(fleet, fault, 14)
        assert not of(fleet, "host", "imex_domain_status").any()

    def test_work_that_shares_memory_with_a_node_ends_when_its_daemon_starts_anew(self) -> None:
        """As NVIDIA's guide has it: nothing happens while the daemon is away, then all imported memory is invalid."""
        fleet = make_fleet(racks_of(), seed=3)
        wide = start(fleet, "nvl-[0-2]/*", "90:0:0", kind="training", metrics={"fabric-tx": "40%"})
        within = start(fleet, "nvl-2/*", "20:0:0", metrics={"fabric-tx": "10%"})
        apart = start(fleet, "nvl-[1-3]/*", "20:0:0")
        advance(fleet, 3)
        fault = inject(fleet, kind="imex-down", node="nvl-2")
        advance(fleet, 5)
        assert {wide, within, apart} <= fleet.workloads.by_id.keys()
        late = start(fleet, "nvl-[2-3]/*", "20:0:0", metrics={"fabric-tx": "10%"})
        [verdict] = fleet.advance()
        assert (verdict.workload_id, verdict.code) == (late, 1) and "IMEX daemon of nvl-2/0 is down" in verdict.text
        fleet.apply(ClearFaults((fault,)))
        verdicts = [*fleet.advance(), *fleet.advance()]
        assert [verdict.workload_id for verdict in verdicts] == [wide]
        assert "started anew" in verdicts[0].text
        assert {within, apart} <= fleet.workloads.by_id.keys()

    @pytest.mark.parametrize("size", [4, 8, 18, 36, 72])
    def test_partitions_have_cliques_domains_and_traffic_of_their_own(self, size: int) -> None:
        """Work on the first GPUs, a partition's number of them, reaches no other partition; what is sent arrives."""
        fleet = make_fleet(racks_of(RackSpec(partition=size), nodes=18), seed=3)
        words = [f"nvl-{gpu // 4}/{gpu % 4}" for gpu in range(size)]
        start(fleet, ",".join(words), "100:0:0", kind="training", metrics={"fabric-tx": "40%"})
        advance(fleet, 3)
        facts = [own for node in fleet.roster.nodes for own in fleet.labels.facts(node)]
        assert [int(own["fabric_clique_id"]) for own in facts] == [gpu // size for gpu in range(72)]
        arrays = fleet.state.levels["device"].arrays
        sent, received = arrays["fabric_tx_bytes_per_second"], arrays["fabric_rx_bytes_per_second"]
        assert (sent[:size] > 0).all() and not sent[size:].any() and not received[size:].any()
        assert received.sum() == pytest.approx(sent.sum(), rel=0.03)
        sizes = {18: [5] * 5 + [4] * 4 + [5] * 5 + [4] * 4}
        wanted = sizes.get(size, [max(1, size // 4)] * 18)
        assert of(fleet, "host", "imex_nodes_ready").tolist() == wanted

    def test_accesses_time_out_after_a_link_went_down(self) -> None:
        """For 30 seconds; so they do after XID 145."""
        fleet = racked()
        inject(fleet, kind="link-down", devices="nvl-0/0", link=5)
        inject(fleet, kind="xid", devices="nvl-1/0", code=145)
        fleet.advance()
        for device in (0, 4):
            assert int(shown(fleet, "fabric_health_mask", device)) >> 6 & 3 == 1
            assert shown(fleet, "fabric_health_summary", device) == 2.0
        advance(fleet, 31)
        assert [int(shown(fleet, "fabric_health_mask", device)) >> 6 & 3 for device in (0, 4)] == [2, 2]
        assert [shown(fleet, "fabric_health_summary", device) for device in (0, 4)] == [3.0, 1.0]


class TestBusbarsAndSmoothing:
    """Limits of trays and rows; how fast boards may change what they draw."""

    @pytest.mark.slow
    def test_a_tray_and_a_row_keep_their_limits(self) -> None:
        tray = racked(racks_of(replace(_RACKS, tray_power_limit_watts=3000.0)))
        advance(tray, 20)
        modules = of(tray, "cpu", "module_power_watts").reshape(8, 2).sum(axis=1)
        assert (modules < 3000 * 1.03).all() and (modules > 2800).all()
        row = racked(racks_of(replace(_RACKS, row_power_limit_watts=50_000.0)))
        advance(row, 20)
        assert of(row, "rack", "rack_power_watts").sum() == pytest.approx(50_000, rel=0.03)

    def test_power_smoothing_holds_and_ramps(self) -> None:
        """From idle by 100 W a second; at least 600 W with work and 5 s after it; then down by 50 W a second."""
        racks = replace(_RACKS, ramp_up_watts=100.0, ramp_down_watts=50.0, smoothing_floor_percent=50.0,
                        smoothing_hold_seconds=5.0)  # fmt: skip
        fleet = make_fleet(racks_of(racks), seed=3)
        advance(fleet, 2)
        idle = shown(fleet, "power_watts")
        work = start(fleet, "all", "100:0:0", kind="training")
        seen = []
        for _ in range(14):
            fleet.advance()
            seen.append(shown(fleet, "power_watts"))
        assert max(np.diff([idle, *seen])) < 130 and seen[-1] > 1000
        stop(fleet, work)
        fallen = []
        for _ in range(30):
            fleet.advance()
            fallen.append(shown(fleet, "power_watts"))
        assert min(np.diff(fallen)) > -60 and fallen[-1] < 250
        assert shown(fleet, "usage_ratio") == 0.0
        free = racked()
        stop(free, next(iter(free.workloads.by_id)))
        free.advance()
        free.advance()
        assert shown(free, "power_watts") < 250


class TestCooling:
    """Coolant by rack and tray; air by rack and row."""

    @pytest.mark.slow
    def test_a_valve_that_sticks_heats_its_tray_alone(self) -> None:
        fleet = racked()
        advance(fleet, 90)
        before = fleet.temperature_celsius.copy()
        inject(fleet, kind="valve", devices="nvl-5/0", share=0.3)
        advance(fleet, 90)
        hotter = fleet.temperature_celsius > before + 5
        assert hotter[20:24].all() and not hotter[:20].any() and not hotter[24:].any()
        flow = of(fleet, "rack", "coolant_flow_litres_per_minute")
        assert flow[0] == 80.0 and flow[1] == pytest.approx(80 * (3 + 0.3) / 4)


    @pytest.mark.slow
    def test_a_failed_pump_heats_its_rack_alone(self) -> None:
        fleet = racked()
        advance(fleet, 90)
        before = fleet.temperature_celsius.copy()
        inject(fleet, kind="pump", devices="nvl-5/0", share=0.3)
        advance(fleet, 90)
        assert (fleet.temperature_celsius[16:] > before[16:] + 5).all()
        assert fleet.temperature_celsius[:16] == pytest.approx(before[:16], abs=5)
        flow = of(fleet, "rack", "coolant_flow_litres_per_minute")
        assert flow[1] == pytest.approx(0.3 * flow[0])
        warmer = of(fleet, "rack", "coolant_return_celsius") - of(fleet, "rack", "coolant_supply_celsius")
        assert warmer[1] > 2 * warmer[0] > 0

    def test_a_leak_is_detected_in_its_tray(self) -> None:
        fleet = racked()
        inject(fleet, kind="coolant-leak", node="nvl-1")
        advance(fleet, 2)
        assert of(fleet, "host", "coolant_leak").tolist() == [0, 1, 0, 0, 0, 0, 0, 0]

    @pytest.mark.slow
    def test_hot_cpus_slow_down(self) -> None:
        fleet = racked()
        inject(fleet, kind="grace-thermal", node="nvl-1")
        advance(fleet, 120)
        clocks = of(fleet, "cpu", "cpu_frequency_mhz")
        assert clocks[2:4].max() < clocks[0]

    def test_air_gets_warmer_from_node_to_node_and_a_fan_wall_heats_its_row(self) -> None:
        racks = RackSpec(RackKind.AIR, trays=2, switch_trays=0, cpus=0, inlet_step_celsius=1.5, row=2)
        fleet = make_fleet(racks_of(racks, name="h100"), seed=3)
        inlet = fleet.inlet_temperature_celsius.reshape(8, 4)[:, 0].copy()
        pool = racks_of(replace(racks, inlet_step_celsius=0.0), name="h100")
        level = make_fleet(pool, seed=3).inlet_temperature_celsius.reshape(8, 4)[:, 0]
        assert inlet - level == pytest.approx([0.0, 1.5] * 4)
        inject(fleet, kind="fan-wall", devices="nvl-0/0", celsius=10)
        advance(fleet, 2)
        warmer = fleet.inlet_temperature_celsius.reshape(8, 4)[:, 0] - inlet
        assert warmer == pytest.approx([10.0] * 4 + [0.0] * 4, abs=0.1)

    def test_breakers_hold_a_rack_of_servers(self) -> None:
        racks = RackSpec(RackKind.AIR, trays=2, switch_trays=0, cpus=0, power_limit_watts=4000.0)
        fleet = make_fleet(racks_of(racks, name="h100"), seed=3)
        start(fleet, "all", "100:0:0", kind="tensor")
        advance(fleet, 40)
        assert of(fleet, "rack", "rack_power_watts").max() <= 4000 * 1.02


class TestHistory:
    """Racks have no state but that of the devices."""

    def test_the_same_seed_has_the_same_state(self) -> None:
        one, other = racked(), racked()
        for name, values in one.state.levels["device"].arrays.items():
            assert np.array_equal(values, other.state.levels["device"].arrays[name], equal_nan=True), name

    @pytest.mark.slow
    def test_a_snapshot_goes_on_as_the_fleet_would(self) -> None:
        fleet = racked()
        inject(fleet, kind="cable", devices="nvl-0/1", link=7, rate=3000)
        inject(fleet, kind="busbar", devices="nvl-0/0", kilowatts=9)
        advance(fleet, 10)
        again = fleet_from_bytes(fleet_to_bytes(fleet))
        advance(fleet, 20)
        advance(again, 20)
        for level in ("device", "cpu", "cpucore", "host", "rack", "switch"):
            for name, values in fleet.state.levels[level].arrays.items():
                assert np.array_equal(values, again.state.levels[level].arrays[name], equal_nan=True), name

    def test_a_reload_keeps_what_racks_have_counted(self) -> None:
        fleet = racked()
        before = fleet.link_fec_0_codewords.copy()
        reload(fleet, racks_of(nodes=12))
        fleet.advance()
        assert len(fleet.link_fec_0_codewords) == 48
        assert (fleet.link_fec_0_codewords[:32] > before).all()

    def test_faults_of_racks_need_racks(self) -> None:
        with pytest.raises(Refused, match="concerns racks, and the devices are in none"):
            inject(make_fleet(), kind="pump", devices="all")
