"""Workloads that name the device on which they were measured: how their times and values change on another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fakedev.base.errors import Refused
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.device_types import DeviceType, Range
from tests.fleet.workloads.test_metric_uses import GIB, LINKED
from tests.support.fleet.fleets import ended, loads, make_fleet, pool_of, start

#: Its highest clock is 1300 MHz.
FAST = replace(LINKED, capability=200.0, ranges={**LINKED.ranges, "memory_bandwidth_ratio": Range(0, 0.5)})


def fleet(device: DeviceType = FAST) -> Fleet:
    return make_fleet(pool_of(device_type=device, devices_per_node=2))


class TestWork:
    @pytest.mark.parametrize(
        ("measured", "ticks"),
        [
            ({"measured_frequency": 650}, 30),  # half the clock: it takes half the time here
            ({"measured_frequency": 2600}, 120),
            ({"measured_capability": 100}, 30),
            ({"measured_frequency": 2600, "measured_capability": 50}, 30),
            ({"measured_frequency": 1300, "devices": "old-0/0,dgx-0/0"}, 120),
            ({}, 60),
        ],
    )
    def test_it_takes_as_long_as_the_work(self, measured: dict[str, Any], ticks: int) -> None:
        """Sixty seconds, by clock and capability of both devices; of several devices the slowest decides."""
        slow = replace(FAST, ranges={**FAST.ranges, "core_frequency_mhz": Range(300, 650)})
        here = make_fleet(pool_of(device_type=FAST), pool_of("old", device_type=slow))
        start(here, **{"devices": "dgx-0/0", "profile": "40:0:60", "seconds_of": "work", **measured})
        (told,) = ended(here, 130)
        assert told[0] == ticks

    def test_rates_grow_with_the_speed(self) -> None:
        """The same bytes in less time; the memory, the load and shares of a link stay."""
        here = fleet()
        metrics = {"pcie-tx": "4GB/s", "memory": "3GiB", "memory-errors-correctable": 1}
        start(here, "card0", "40:0:60", seconds_of="work", measured_frequency=650, metrics=metrics)
        start(here, "card1", "40:0:60", seconds_of="work", measured_frequency=650, metrics={"pcie-tx": "20%"})
        here.advance()
        low = LINKED.ranges["pcie_tx_bytes_per_second"].high * 0.4
        assert (here.pcie_tx_bytes_per_second - low).tolist() == pytest.approx([8e9, 4e9])
        assert here.memory_errors_correctable.tolist() == [2, 0]
        assert here.memory_used_bytes[0] == 3 * GIB
        assert loads(here) == [40, 40]


class TestTime:
    def test_a_faster_device_is_less_busy(self) -> None:
        """For as long; bytes stay as they are, engines do not."""
        here = fleet()
        metrics = {"pcie-tx": "4GB/s", "memory-bandwidth": 0.5}
        start(here, "card0", "80:4:60", measured_frequency=650, metrics=metrics)
        found = []
        for _ in range(50):
            here.advance()
            found.append(loads(here)[0])
            assert here.memory_bandwidth_ratio[0] == pytest.approx(0.25 + found[-1] / 100 * 0.5)
        assert 38 <= min(found) <= max(found) <= 42
        assert here.pcie_tx_bytes_per_second[0] == pytest.approx(4e9 + found[-1] / 100 * 1e9)
        assert [tick for tick, *_ in ended(here, 20)] == [60]

    def test_a_slower_one_is_full(self) -> None:
        """At 100 %: what it cannot do in the time is lost."""
        here = fleet()
        start(here, "card0", "60:10:9", measured_frequency=2600)
        here.advance()
        assert loads(here)[0] == 100
        assert here.workloads.load_percents({"w1": 0}) == {"w1": 100}
        assert [tick for tick, *_ in ended(here, 20)] == [9]


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("measured_frequency", "the clock of dgx-0/1 (plain) is not known: nothing can be scaled by it"),
        ("measured_capability", "the capability of dgx-0/1 (plain) is not known: nothing can be scaled by it"),
    ],
)
def test_devices_that_cannot_be_compared(field: str, message: str) -> None:
    here = fleet(DeviceType("plain", {"usage_ratio": Range(0, 1)}))
    with pytest.raises(Refused) as caught:
        start(here, "card1", **{field: 1000})
    assert (caught.value.text, caught.value.where) == (message, field.replace("_", "-"))
