"""What workloads ask of single metrics beside their plain load, and how it is shared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.base.errors import Refused
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.device_types import DeviceType, Dynamics, Range
from fakedev.fleet.spec.fleet_spec import PoolSpec
from fakedev.fleet.spec.workload_fields import fields_of_workload, workload_from_fields
from tests.support.fleet.fleets import BOARD, MIB, advance, make_fleet, pool_of, start

GIB = 1024 * MIB
#: A board that holds memory, with links.
LINKED = DeviceType(
    "linked",
    {
        "usage_ratio": Range(0, 1),
        "tensor_active_ratio": Range(0, 0.5),
        "memory_used_bytes": Range(0, 8 * GIB),
        "core_frequency_mhz": Range(300, 1300),
        "power_watts": Range(50, 450),
        "temperature_celsius": Range(30, 70),
        "pcie_tx_bytes_per_second": Range(0, 1e9),
    },
    memory_total_bytes=17 * GIB,
    memory_reserved_bytes=GIB,
    memory_page_bytes=2 * MIB,
    dynamics=Dynamics(power_limit_watts=500, pcie_bytes_per_second=20e9),
)


def linked(devices: int = 2) -> Fleet:
    return make_fleet(pool_of(device_type=LINKED, devices_per_node=devices))


def level(fleet: Fleet, name: str) -> list[float]:
    return fleet.workloads.level(fleet.state.seconds).arrays[name].tolist()


class TestMemory:
    @pytest.mark.parametrize("fleet", [linked(), make_fleet(pool_of(device_type=replace(BOARD, ranges=LINKED.ranges,
        memory_total_bytes=17 * GIB, memory_reserved_bytes=GIB)))], ids=["held", "by load"])  # fmt: skip
    def test_it_takes_the_place_of_the_implied(self, fleet: Fleet) -> None:
        start(fleet, "card0", "50:0:0", metrics={"memory": "3GiB"})
        advance(fleet, 1)
        assert fleet.memory_used_bytes[0] == 3 * GIB
        start(fleet, "card0", "25:0:0")
        advance(fleet, 2)
        assert fleet.memory_used_bytes[0] == (3 + 8 * 0.25) * GIB
        assert level(fleet, "memory_used_bytes") == [3 * GIB, 2 * GIB]
        assert fleet.memory_used_bytes[0] + fleet.memory_free_bytes[0] + GIB == 17 * GIB

    def test_it_follows_its_own_profile(self) -> None:
        """A ramp beside a constant load, begun again when it is over; a share is of the total less what is reserved."""
        fleet = linked()
        start(fleet, "card0", "50:0:0", metrics={"memory": "ramp(0,10GiB):0:10"})
        start(fleet, "card1", "10:0:0", metrics={"memory": "25%"})
        found = []
        for _ in range(12):
            fleet.advance()
            found.append(fleet.memory_used_bytes[0] / GIB)
            assert fleet.memory_used_bytes[1] == 4 * GIB
        assert found == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 0.5, 1.5]

    def test_it_goes_with_the_work(self) -> None:
        """At the pace of a workload that counts its seconds as work."""
        fleet = make_fleet(pool_of(device_type=replace(LINKED, dynamics=Dynamics(power_limit_watts=250))))
        start(fleet, "card0", "100:0:100", seconds_of="work", metrics={"memory": "ramp(0,10GiB):0:100"})
        advance(fleet, 50)
        done = level(fleet, "progress_ratio")[0]
        assert 0.3 < done < 0.45
        assert fleet.memory_used_bytes[0] / GIB / 10 == pytest.approx(done, abs=0.01)

    def test_a_random_increase_never_falls(self) -> None:
        fleet = linked()
        start(fleet, "card0", "50:0:0", metrics={"memory": "increase(1GiB,9GiB,3s):0:60"})
        found = []
        for _ in range(60):
            fleet.advance()
            found.append(float(fleet.memory_used_bytes[0]))
        assert found == sorted(found)
        assert len(set(found)) >= 20
        assert GIB <= found[0] < 2 * GIB < 8 * GIB < found[-1] <= 9 * GIB


class TestOthers:
    def test_engines_and_links_come_on_top_of_the_load(self) -> None:
        fleet = linked()
        start(fleet, "card0", "0:0:0", metrics={"tensor": 0.3, "pcie-tx": "10GB/s"})
        start(fleet, "card0", "0:0:0", metrics={"tensor": "40%", "pcie-tx": "25%"})
        advance(fleet, 2)
        assert fleet.tensor_active_ratio[0] == pytest.approx(0.7)
        assert fleet.pcie_tx_bytes_per_second[0] == pytest.approx(15e9)
        start(fleet, "card0", "0:0:0", metrics={"tensor": "90%", "pcie-tx": "90%"})
        advance(fleet, 1)
        assert fleet.tensor_active_ratio[0] == 1
        assert fleet.pcie_tx_bytes_per_second[0] == 20e9
        assert level(fleet, "pcie_tx_bytes_per_second") == pytest.approx([10e9, 5e9, 18e9])

    def test_errors_are_whole_and_add_up(self) -> None:
        """A tenth of an error a second is one in ten seconds; the last digits of 0.1 lose none."""
        fleet = linked()
        start(fleet, "card0", "50:0:0", metrics={"memory-errors-correctable": 0.1, "pcie_replays": "2.5"})
        found = []
        for _ in range(100):
            fleet.advance()
            found.append((fleet.memory_errors_correctable[0].item(), fleet.pcie_replays[0].item()))
        assert all(error == int(error) and replay == int(replay) for error, replay in found)
        assert found[8:10] == [(0, 22), (1, 25)]
        assert found[-1] == (10, 250)

    def test_a_hang(self) -> None:
        fleet = linked()
        start(fleet, "card0", "50:0:0", metrics={"hung": "0:0:2,1:0:2,0:0:0"})
        found = []
        for _ in range(6):
            fleet.advance()
            found.append(fleet.hung[0].item())
        assert found == [0, 0, 1, 1, 0, 0]

    @pytest.mark.slow
    def test_fluctuation(self) -> None:
        fleet = linked()
        start(fleet, "all", "50:0:0", metrics={"pcie-tx": "50%:10%"})
        found = []
        for _ in range(200):
            fleet.advance()
            found.append(fleet.pcie_tx_bytes_per_second / 20e9 - 0.5 * 0.05)
        shares = np.array(found)
        assert (shares >= 0.4 - 1e-9).all()
        assert (shares <= 0.6 + 1e-9).all()
        assert shares[:, 0].std() > 0.02
        assert not np.allclose(shares[:, 0], shares[:, 1])

    def test_a_device_without_it(self) -> None:
        plain = DeviceType("plain", {"usage_ratio": Range(0, 1)}, counts_errors=False)
        fleet = make_fleet(pool_of(device_type=LINKED), pool_of("xpu", device_type=plain))
        start(fleet, "all", "50:0:0", metrics={"memory": "1GiB", "resets": 1})
        advance(fleet, 2)
        assert fleet.memory_used_bytes.tolist() == [GIB] * 4 + [0] * 4
        with pytest.raises(Refused, match="none of its devices has memory") as caught:
            start(fleet, "xpu-0/0", "50:0:0", metrics={"memory": "1GiB"})
        assert (caught.value.code, caught.value.where) == ("unknown-name", "metrics")


def test_draws_that_come_too_often_are_refused() -> None:
    fleet = make_fleet(tick_seconds=10.0)
    start(fleet, "card0", "random(10,20,200ms)")
    for profile, metrics in (
        ("random(10,20,100ms)", {}),
        ("5:0:0.1,random(10,20,1s)", {}),
        ("5", {"memory": "increase(0,1GiB,50ms):0:9"}),
    ):
        with pytest.raises(Refused, match=r"too short for a tick of 10s: .* last 0.2 seconds or more") as caught:
            start(fleet, "card0", profile, metrics=metrics)
        assert caught.value.code == "limit"


VALUES = st.sampled_from(["25%", "0%:0%:3,50%:5%:2", "ramp(0%,90%):0:7", "sine(50%,30%,9)", "random(10%,60%,2)"])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["card0", "card1", "all"]),
            st.sampled_from(["50:5:0", "random(0,90,3):0:4,10:0:2", "spike(10,90,1,5)", "100:0:3"]),
            st.dictionaries(st.sampled_from(["memory", "tensor", "pcie-tx"]), VALUES),
        ),
        max_size=5,
    )
)
def test_whose_what_is_adds_up(several: list[tuple[str, str, dict[str, str]]]) -> None:
    """What all workloads bring to all devices is what these are asked for over what they have when idle."""
    fleet = linked()
    for devices, profile, metrics in several:
        start(fleet, devices, profile, metrics=metrics, repeat=0)
    for _ in range(4):
        # The tick in which one ends for want of memory still has its part.
        if fleet.advance():
            continue
        shown = fleet.workloads.level(fleet.state.seconds)
        assert shown.count == len(fleet.workloads.by_id)
        assert all(np.isfinite(values).all() for values in shown.arrays.values())
        for name, most in (("memory_used_bytes", 16 * GIB), ("tensor_active_ratio", 1)):
            if (getattr(fleet, name) < most).all() and name in shown.arrays:
                total = shown.arrays[name].sum()
                # Of memory whole pages are shown.
                assert getattr(fleet, name).sum() == pytest.approx(total, abs=4 * MIB if most > 1 else 1e-9)


class TestMemoryTraffic:
    @pytest.mark.parametrize("asked", ["1GB/s", "1GB", [["1GB/s", 0, 0]], "ramp(1GB/s,1GB/s):0:60"])
    def test_the_bytes_are_moved(self, asked: object) -> None:
        for carries in (4e9, 20e9):
            fleet = make_fleet(traffic_pool(carries))
            start(fleet, "card0", "0", metrics={"memory-bandwidth": asked})
            advance(fleet, 3)
            assert fleet.memory_bandwidth_ratio[0] == pytest.approx(1e9 / carries)
            moved = fleet.memory_read_bytes_per_second[0] + fleet.memory_write_bytes_per_second[0]
            assert moved == pytest.approx(1e9)

    def test_what_cannot_be(self) -> None:
        """A board shows at most what it has; where its bandwidth is not known, only shares can be asked for."""
        fleet = make_fleet(traffic_pool(4e9))
        start(fleet, "card0", "0", metrics={"memory-bandwidth": "9GB/s"})
        advance(fleet, 1)
        assert fleet.memory_bandwidth_ratio[0] == 1
        with pytest.raises(Refused, match=r"the memory bandwidth of dgx-0/0 \(linked\) is not known: ask for a share"):
            start(make_fleet(traffic_pool(0)), "card0", "0", metrics={"memory-bandwidth": "1GB/s"})

    def test_both_ways_beside_each_other(self) -> None:
        """Shares stay shares; the record has each as it was asked for."""
        fleet = make_fleet(traffic_pool(4e9))
        start(fleet, "card0", "0", metrics={"memory-bandwidth": "0.25"})
        start(fleet, "card0", "0", metrics={"memory-bandwidth": "1GB/s"})
        advance(fleet, 1)
        assert fleet.memory_bandwidth_ratio[0] == pytest.approx(0.5)
        written = [fields_of_workload(each.spec)["metrics"] for each in fleet.workloads.running()]
        assert written == [{"memory-bandwidth": "0.25:0:0"}, {"memory-bandwidth": "1000000000B/s:0B/s:0"}]
        again = workload_from_fields(fields_of_workload(fleet.workloads.running()[1].spec))
        assert again == fleet.workloads.running()[1].spec


def traffic_pool(carries: float) -> PoolSpec:
    ranges = {**LINKED.ranges, "memory_bandwidth_ratio": Range(0, 0.8)}
    dynamics = Dynamics(power_limit_watts=500, memory_bytes_per_second=carries)
    return pool_of(device_type=replace(LINKED, ranges=ranges, dynamics=dynamics), devices_per_node=1)
