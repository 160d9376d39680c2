"""The ``dynamics`` of a device type's file: what they become, and each fault with its line."""

# ruff: noqa: E501 - the tables hold whole messages
from __future__ import annotations

import pytest

from fakedev.fleet.settings.dynamics import DYNAMICS
from fakedev.fleet.spec.device_types import SWITCHES, Dynamics
from fakedev.fleet.spec.work_kinds import WORK_KINDS, WorkKind
from tests.support.configurations import loaded, pool, problems

DEVICE = """\
name: mine
facts: {product_name: Mine, driver_version: "1.0"}
ranges:
  usage_ratio: [0, 1]
  core_frequency_mhz: [300, 1300]
  power_watts: [50, 250]
  temperature_celsius: [30, 80]
dynamics:
  power-limit-watts: 300
"""
TEXT = pool(device="dev.yaml")
KEYS = ", ".join(key.name for key in DYNAMICS.keys)


def dynamics_of(device: str) -> Dynamics | None:
    return loaded(TEXT, {"dev.yaml": device}).fleet.pools[0].device_type.dynamics


def test_defaults() -> None:
    assert dynamics_of(DEVICE) == Dynamics(300)


def test_none() -> None:
    assert dynamics_of(DEVICE.partition("dynamics:")[0]) is None


def test_all_keys() -> None:
    keys = {
        "clocked-power-share": 0.1, "clock-power-exponent": 3, "clock-step-mhz": 5, "clock-fall-seconds": 2,
        "thermal-seconds": 10, "memory-thermal-seconds": 20, "slowdown-celsius": 75, "resume-celsius": 70,
        "pcie-bytes-per-second": 1e9,
    }  # fmt: skip
    text = DEVICE + "".join(f"  {key}: {value}\n" for key, value in keys.items())
    expected = Dynamics(300, **{key.replace("-", "_"): value for key, value in keys.items()})
    assert dynamics_of(text) == expected


def test_relations_that_a_board_has_not() -> None:
    names = ", ".join(SWITCHES)
    found = dynamics_of(f"{DEVICE}  without: [{names}]\n  thermal-seconds: 0\n  clock-fall-seconds: 0\n")
    assert found is not None
    assert found.without == tuple(SWITCHES)
    assert (found.thermal_seconds, found.clock_fall_seconds) == (0, 0)


def test_kinds_of_work() -> None:
    found = dynamics_of(DEVICE + "  work:\n    video: {usage: 0.3, power: 0.5}\n    memory: {power: 2}\n")
    assert found is not None
    assert found.kinds == {**WORK_KINDS, "video": WorkKind(usage=0.3, power=0.5), "memory": WorkKind(power=2)}


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        ("zap: 3", [f"dev.yaml:10: dynamics: unknown key 'zap'; known here: {KEYS}"]),
        ("slowdown: 3", ["dev.yaml:10: dynamics: unknown key 'slowdown'; did you mean 'slowdown-celsius'?"]),
        ("clock-step-mhz: fast", ["dev.yaml:10: dynamics.clock-step-mhz: must be a number, not 'fast'"]),
        ("clock-step-mhz: 0", ["dev.yaml:10: dynamics: clock-step-mhz must be over 0, not 0"]),
        ("clock-fall-seconds: -1", ["dev.yaml:10: dynamics: clock-fall-seconds must not be below 0, as -1 is"]),
        ("thermal-seconds: -1", ["dev.yaml:10: dynamics: thermal-seconds must not be below 0, as -1 is"]),
        ("memory-thermal-seconds: .inf", ["dev.yaml:10: dynamics.memory-thermal-seconds: must be a number, not '.inf'"]),
        ("fan-seconds: -0.1", ["dev.yaml:10: dynamics: fan-seconds must not be below 0, as -0.1 is"]),
        ("power-limit-seconds: -3", ["dev.yaml:10: dynamics: power-limit-seconds must not be below 0, as -3 is"]),
        ("hang-power-share: 1.1", ["dev.yaml:10: dynamics: hang-power-share 1.1 is not within 0 to 1"]),
        ("fabric-bytes-per-second: -5", ["dev.yaml:10: dynamics: fabric-bytes-per-second must not be below 0, as -5 is"]),
        ("memory-bytes-per-second: -5", ["dev.yaml:10: dynamics: memory-bytes-per-second must not be below 0, as -5 is"]),
        ("idle-performance-state: 16", ["dev.yaml:10: dynamics.idle-performance-state: 16 is not within 0 to 15"]),
        ("spread: 0.6", ["dev.yaml:10: dynamics.spread: 0.6 is not within 0 to 0.5"]),
        ("inlet-celsius: 31", ["dev.yaml:10: dynamics: inlet-celsius 31 is over temperature_celsius 30 at load 0"]),
        ("hardware-slowdown-celsius: 80", ["dev.yaml:10: dynamics: slowdown-celsius 89 is over hardware-slowdown-celsius 80: give both"]),
        ("hardware-slowdown-celsius: 92\n  shutdown-celsius: 91", ["dev.yaml:10: dynamics: hardware-slowdown-celsius 92 is over shutdown-celsius 91: give both"]),
        ("without: thermal-throttle", ["dev.yaml:10: dynamics.without: must be a list of relations, not 'thermal-throttle': put [ ] around it"]),
        ("without: [throttle]", [f"dev.yaml:10: dynamics.without.0: must be one of {', '.join(SWITCHES)}, not 'throttle'; did you mean thermal-throttle?"]),
        ("clock-power-exponent: 0", ["dev.yaml:10: dynamics: clock-power-exponent must be over 0, not 0"]),
        ("clock-power-exponent: 101", ["dev.yaml:10: dynamics: clock-power-exponent 101 is over 100"]),
        ("clocked-power-share: 1.5", ["dev.yaml:10: dynamics: clocked-power-share 1.5 is not within 0 to 1"]),
        ("pcie-bytes-per-second: -5", ["dev.yaml:10: dynamics: pcie-bytes-per-second must not be below 0, as -5 is"]),
        ("slowdown-celsius: 70", ["dev.yaml:10: dynamics: resume-celsius 86 is over slowdown-celsius 70: give both"]),
        ("resume-celsius: 90", ["dev.yaml:10: dynamics: resume-celsius 90 is over slowdown-celsius 89: give both"]),
        ("work: 3", ["dev.yaml:10: dynamics.work: must be a mapping of kinds of work to shares, not '3'"]),
        ("work: {x: {usage: 2}}", ["dev.yaml:10: dynamics: usage 2 is not within 0 to 1"]),
        ("work: {x: {power: -1}}", ["dev.yaml:10: dynamics: power must not be below 0, as -1 is"]),
        ("work: {x: {power: 1e9}}", ["dev.yaml:10: dynamics: power 1e+09 is over 100"]),
        ("work: {x: {power-exponent: 0}}", ["dev.yaml:10: dynamics: power-exponent must be over 0, not 0"]),
        ("work:\n    x:\n      powr: 1", ["dev.yaml:12: dynamics.work.x: unknown key 'powr'; did you mean 'power'?"]),
        ("work: {x: {usage: 2, tensor: -1}}\n  clock-step-mhz: 0", ["dev.yaml:10: dynamics: usage 2 is not within 0 to 1", "dev.yaml:10: dynamics: tensor -1 is not within 0 to 1", "dev.yaml:11: dynamics: clock-step-mhz must be over 0, not 0"]),
    ],
)  # fmt: skip
def test_a_key_too_many(added: str, expected: list[str]) -> None:
    assert problems(TEXT, {"dev.yaml": f"{DEVICE}  {added}\n"}) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("power-limit-watts: 300", "power-limit-watts: 0", ["dev.yaml:9: dynamics: power-limit-watts must be over 0, not 0"]),
        ("power-limit-watts: 300", "power-limit-watts: 49", ["dev.yaml:9: dynamics: power-limit-watts 49 is under the idle power 50"]),
        ("power-limit-watts: 300", "power-limit-watts: a", ["dev.yaml:9: dynamics.power-limit-watts: must be a number, not 'a'"]),
        ("power-limit-watts: 300", "clock-step-mhz: 15", ["dev.yaml:9: dynamics: 'power-limit-watts' is missing: The power cap: the board lowers its clocks to stay within it."]),
        ("\n  power-limit-watts: 300", " 300", [f"dev.yaml:8: dynamics: must be a mapping of {KEYS}, not '300'"]),
        ("  power_watts: [50, 250]\n", "", ["dev.yaml:8: dynamics: power_watts needs a range whose value at load 100 is over that at load 0"]),
        ("[300, 1300]", "[1300, 1300]", ["dev.yaml:9: dynamics: core_frequency_mhz needs a range whose value at load 100 is over that at load 0"]),
    ],
)  # fmt: skip
def test_device_problem(old: str, new: str, expected: list[str]) -> None:
    assert old in DEVICE
    assert problems(TEXT, {"dev.yaml": DEVICE.replace(old, new, 1)}) == expected
