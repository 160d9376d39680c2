"""Workloads of the configuration with value functions, metrics and recorded series, and limits of device types."""

# ruff: noqa: E501 - the tables hold whole messages
from __future__ import annotations

import pytest

from fakedev.config.export import effective_text
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.profiles import format_profile
from fakedev.fleet.spec.workload_spec import MetricUse, WorkloadSpec
from tests.support.configurations import loaded, pool, problems

HEAD = pool(device="h100").replace("workloads: {listen: []}\n", "")
SERIES = "time,value\n100,10\n130,40.5\n1m40s,20\n"


def workload(keys: str, files: dict[str, str] | None = None) -> WorkloadSpec:
    (found,) = loaded(text(keys), files).fleet.base
    return found


def text(keys: str) -> str:
    """A configuration with one base workload, in its own lines 1 to n."""
    return f"{HEAD}workloads:\n  listen: []\n  base:\n  - {{name: x, {keys}}}\n"


@pytest.mark.parametrize(
    ("keys", "profile"),
    [
        ('profile: "ramp(5,90):5:60,40"', "ramp(5,90):5:60,40:0:0"),
        ('profile: ["ramp(5,90):5:60", "40"]', "ramp(5,90):5:60,40:0:0"),
        ("profile: [[{ramp: [5, 90]}, 5, 60], [40]]", "ramp(5,90):5:60,40:0:0"),
        ("profile: [{load: {sine: [50, 30, 1m30s]}}]", "sine(50,30,90):0:0"),
        ('profile: [{load: "steps(10,20)", seconds: 9}]', "steps(10,20):0:9"),
        ("profile: {csv: s.csv}", "10:0:30,40.5:0:30"),
        ("profile: {csv: s.csv, join: linear}", "ramp(10,40.5):0:30"),
        ("profile: {csv: one.csv}", "7:0:0"),
        ("profile: [{time: 1h, utilization: 80}, {utilization: 10.5}]", "80:0:3600,10.5:0:0"),
        ('profile: {"schedule": [{"time": "1h", "utilization": 80}, {"time": 90, "utilization": 5}], "repeat": 5}',
         "80:0:3600,5:0:90"),
    ],
)
def test_profiles(keys: str, profile: str) -> None:
    files = {"s.csv": "time,value\n100,10\n130,40.5\n", "one.csv": "note, value ,time\n,7,5s\n"}
    assert format_profile(workload(keys, files).activities) == profile


@pytest.mark.parametrize(
    ("repeat", "expected"),
    [("{schedule: S, repeat: 5}", 5), ("{schedule: S}", 0), ("{schedule: S, repeat: 5}, repeat: 2", 2), ("S", 0)],
)
def test_schedules(repeat: str, expected: int) -> None:
    """How often: as the workload says, else as the schedule does, else for ever; and --print-config has it all."""
    written = text(f"profile: {repeat}".replace("S", "[{time: 1h, utilization: 80}]"))
    (found,) = loaded(written).fleet.base
    assert (format_profile(found.activities), found.repeat) == ("80:0:3600", expected)
    assert loaded(effective_text(loaded(written))).fleet.base == (found,)


def test_schedules_of_pools() -> None:
    slow, fast = "{schedule: [{time: 1h, utilization: 10}], repeat: 3}", "{schedule: [{utilization: 90}]}"
    (first, *others) = loaded(
        pool(nodes="1", **{"devices-per-node": "4", "profile": f"[{slow}, static]", "devices": f"[{{index: 3, profile: {fast}}}]"})
    ).fleet.base
    assert (first.name, first.devices, first.repeat) == ("schedule-a-0", ("a-0/0", "a-0/2"), 3)
    assert [(other.name, other.devices, other.repeat) for other in others] == [
        ("static-a-0", ("a-0/1",), 0), ("schedule-a-0", ("a-0/3",), 0),
    ]  # fmt: skip
    assert problems(pool(profile="{schedule: [{time: 0, utilization: 5}, {utilization: 6}]}")) == [
        "f.yaml:1: profile: activity 1: 0 seconds (until stopped) is for the last activity only"
    ]


def test_metrics() -> None:
    found = workload(
        'profile: "5", metrics: {memory: 40GiB, pcie-tx: "30%:5%", tensor: 0.5, memory_bandwidth_ratio: {csv: s.csv, join: linear}, '
        "pcie-rx: [[1GB, 0, 5], [{ramp: [1GB, 2GB]}, 0, 5]], memory-errors-correctable: [{value: 0.1}]}",
        {"s.csv": "time,value\n0,10%\n1m,40%\n2m,0\n"},
    )
    assert {use.metric: (format_profile(use.activities), use.is_share) for use in found.uses} == {
        "memory_used_bytes": ("42949672960:0:0", False),
        "pcie_tx_bytes_per_second": ("30:5:0", True),
        "tensor_active_ratio": ("0.5:0:0", False),
        "memory_bandwidth_ratio": ("ramp(10,40):0:60,ramp(40,0):0:60", True),
        "pcie_rx_bytes_per_second": ("1000000000:0:5,ramp(1000000000,2000000000):0:5", False),
        "memory_errors_correctable": ("0.1:0:0", False),
    }


def test_scaling() -> None:
    found = workload('profile: "5", seconds-of: work, measured-frequency: 990')
    assert (found.measured_frequency_mhz, found.measured_capability) == (990, 0)


def test_what_is_effective_is_told() -> None:
    keys = "profile: {csv: s.csv, join: linear}, metrics: {memory: 40GiB, tensor: {csv: s2.csv}}"
    files = {"s.csv": "time,value\n0,1\n5,9\n", "s2.csv": "time,value\n0,0.1\n5,0.2\n"}
    shown = effective_text(loaded(text(keys), files))
    assert loaded(shown, files).fleet.base == loaded(text(keys), files).fleet.base


def test_a_capability_that_is_not_known() -> None:
    keys = text('profile: "5", measured-capability: 5').replace("device: h100", "device: dev.yaml")
    reason = "the capability of a-0/0 (mine) is not known: nothing can be scaled by it"
    assert problems(keys, {"dev.yaml": DEVICE}) == [f"f.yaml:{PLACE}: measured-capability: {reason}"]


PLACE = len(text("").splitlines())


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("profile: {csv: none.csv}", [f"f.yaml:{PLACE}: the series none.csv: no such file"]),
        ("profile: {cvs: s.csv}", [
            f"f.yaml:{PLACE}: workloads.base.0.profile: unknown key 'cvs'; did you mean 'csv'?",
            f"f.yaml:{PLACE}: workloads.base.0.profile: 'csv' is missing: A file whose first line is time,value. Times are seconds, or durations, and go up.",
        ]),
        ("profile: [{time: 1h, utilisation: 80}]", [
            f"f.yaml:{PLACE}: workloads.base.0.profile.0: unknown key 'utilisation'; did you mean 'utilization'?",
            f"f.yaml:{PLACE}: workloads.base.0.profile.0: 'utilization' is missing: Mean load.",
        ]),
        ("profile: {schedule: [{time: 1x, utilization: 180}]}", [
            f"f.yaml:{PLACE}: workloads.base.0.profile.schedule.0.time: '1x' is no duration: give a number with ms, s, m, h or d, as 250ms or 1h30m",
            f"f.yaml:{PLACE}: workloads.base.0.profile.schedule.0.utilization: 180.0 is not within 0 to 100",
        ]),
        ("profile: {csv: back.csv}", ["back.csv:4: the time 1m40s is not after the one before it"]),
        ("profile: {csv: empty.csv}", ["empty.csv:1: has no value: give at least one line below the first"]),
        ("profile: {csv: columns.csv}", ["columns.csv:1: has no column 'value': the first line is time,value"]),
        ("profile: {csv: wrong.csv}", [
            "wrong.csv:2: load 101 is not within 0 to 100",
            "wrong.csv:3: 'soon' is no duration: give a number with ms, s, m, h or d, as 250ms or 1h30m",
            "wrong.csv:4: has no value",
            "wrong.csv:5: has more values than the first line has columns",
            "wrong.csv:6: load must be a number",
        ]),
        ('profile: "5", metrics: {memory: {csv: wrong.csv}, tensor: {csv: back.csv}}', [
            "wrong.csv:3: 'soon' is no duration: give a number with ms, s, m, h or d, as 250ms or 1h30m",
            "wrong.csv:4: has no value",
            "wrong.csv:5: has more values than the first line has columns",
            "wrong.csv:6: memory: 'ten' is no size: give bytes, or a number with kB, MB, GB, KiB, MiB, GiB or TiB",
            "back.csv:2: tensor: share 10 is not within 0 to 1",
            "back.csv:3: tensor: share 40.5 is not within 0 to 1",
            "back.csv:4: tensor: share 20 is not within 0 to 1",
        ]),
        ('profile: "5", metrics: {memry: 40GiB}', [f"f.yaml:{PLACE}: metrics: 'memry' is no metric that workloads bring; did you mean memory?"]),
        ('profile: "5", metrics: {memory: 1000%}', [f"f.yaml:{PLACE}: metrics: memory: activity 1: share 1000% is not within 0 to 100%"]),
        ('profile: "5", metrics: {encoder: 5%}', [f"f.yaml:{PLACE}: metrics: none of its devices has encoder"]),
        ('profile: "random(5,9,1ms)"', [f"f.yaml:{PLACE}: profile: profile with random values: 0.001 seconds are too short for a tick of 1s: activities and times between draws last 0.02 seconds or more"]),
        ('profile: "5", measured-frequency: -5', [f"f.yaml:{PLACE}: workloads.base.0.measured-frequency: -5.0 is not within 0 to 1000000000.0"]),
        ("profile: [{load: {ramp: 5}}]", [f"f.yaml:{PLACE}: workloads.base.0.profile.0.load.ramp: must be a list of number or texts, not '5': put [ ] around it"]),
    ],
)  # fmt: skip
def test_problems(keys: str, expected: list[str]) -> None:
    files = {
        "back.csv": SERIES, "empty.csv": "time,value\n", "columns.csv": "time,load\n0,5\n",
        "wrong.csv": "time,value\n0,101\nsoon,5\n5,\n6,5,7\n7,ten\n",
    }  # fmt: skip
    assert problems(text(keys), files) == expected


DEVICE = """\
name: mine
facts: {product_name: Mine, driver_version: "1.0"}
memory: {total: 16GiB, reserved: 1GiB}
ranges: {usage_ratio: [0, 1], power_watts: [10, 75.5], memory_used_bytes: [0, 8GiB], temperature: [30, 60]}
"""


def test_limits_of_a_device_type() -> None:
    found = loaded(pool(device="dev.yaml"), {"dev.yaml": DEVICE + "limits: {temperature: 55, memory-used-bytes: 12GiB}\n"})
    assert found.fleet.pools[0].device_type.limits == {"temperature_celsius": 55, "memory_used_bytes": 12 * 2**30}
    assert found.fleet.pools[0].shown_as["memory_used_bytes"] == "DCGM_FI_DEV_FB_USED"


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ("{temprature: 55}", ["dev.yaml:5: limits: mine has no 'temprature'; did you mean 'temperature_celsius'?"]),
        ("{power_wats: 55}", ["dev.yaml:5: limits: mine has no 'power_wats'; did you mean 'power_watts'?"]),
        ("{tensor: 0.5}", ["dev.yaml:5: limits: mine has no 'tensor'; did you mean 'engine_active_ratio'?"]),
        ("{power: 5, power_watts: 6}", ["dev.yaml:5: limits: power_watts is there twice: remove one"]),
        ("{power: hot}", ["dev.yaml:5: limits.power: 'hot' is no size: give bytes, or a number with kB, MB, GB, KiB, MiB, GiB or TiB"]),
    ],
)
def test_limits_that_cannot_be(limits: str, expected: list[str]) -> None:
    assert problems(pool(device="dev.yaml"), {"dev.yaml": DEVICE + f"limits: {limits}\n"}) == expected


def test_a_series_is_what_the_devices_do() -> None:
    fleet = Fleet(loaded(text("profile: {csv: s.csv}, devices: card0"), {"s.csv": "time,value\n7,10\n9,40\n10,0\n"}).fleet)
    found = []
    for _ in range(6):
        fleet.advance()
        found.append(round(float(fleet.usage_ratio[0]), 9))
    assert found == [0.1, 0.1, 0.4, 0, 0.1, 0.1]


def test_uses_are_values() -> None:
    one, other = (workload(f'profile: "5", metrics: {{memory: {size}}}').uses for size in ("40GiB", "42949672960"))
    assert one == other
    assert isinstance(one[0], MetricUse)


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ("workloads: 1", "limits.workloads is 1: 2 more are needed, and 1 remain: stop some, or raise limits.workloads"),
        ("faults: 4", "limits.faults is 4: 11 more are needed, and 4 remain: clear some, or raise limits.faults"),
        (
            "workload-devices: 15",
            "limits.workload-devices is 15: 16 more are needed, and 15 remain: stop workloads, or name fewer devices "
            "or metrics, or raise limits.workload-devices",
        ),
    ],
)
def test_too_many(limits: str, problem: str) -> None:
    of_configuration = " (workloads and faults of the configuration, including profiles)"
    assert problems(pool(nodes="2", profile="degrading") + f"\nlimits:\n  {limits}\n") == [
        f"f.yaml:6: {problem}{of_configuration}"
    ]


def test_names_of_words() -> None:
    """The keys may have the names that the ports have in words; a key given by both names is an error."""
    ours = workload('profile: "9:0:0", metrics: {memory: 1GiB}, limits: {memory: 5GiB}')
    assert ours == workload('profile: "9:0:0", use: {memory: 1GiB}, limit: {memory: 5GiB}')
    assert ours.uses
    (said,) = problems(text('profile: "9:0:0", metrics: {memory: 1GiB}, use: {memory: 1GiB}'))
    assert said.endswith("'use' is given twice: remove one")


@pytest.mark.parametrize("policy", ["always", "on-failure", "never"])
def test_restart(policy: str) -> None:
    assert workload(f"profile: 50, restart: {policy}").restart == policy
    assert workload("profile: 50").restart == "never"


def test_a_restart_that_is_no_policy() -> None:
    assert problems(text("profile: 50, restart: sometimes")) == [
        f"f.yaml:{PLACE}: workloads.base.0.restart: must be one of always, on-failure, never, not 'sometimes'"
    ]
