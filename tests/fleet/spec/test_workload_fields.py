"""Workloads from the fields of a request: what is taken, and what each fault is called."""

from __future__ import annotations

from ast import literal_eval
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.base.errors import FieldError
from fakedev.fleet.spec.named_profiles import PROFILES
from fakedev.fleet.spec.value_functions import Function
from fakedev.fleet.spec.workload_fields import WORKLOAD_FIELDS, fields_of_workload, workload_from_fields
from fakedev.fleet.spec.workload_spec import FOREVER, Activity, Intensity, MetricUse, WorkloadSpec
from tests.support.fleet.workload_specs import workload_specs

NO_SIZE = "is no size: give bytes, or a number with kB, MB, GB, KiB, MiB, GiB or TiB"
NO_LABEL = "is no name of a label: at most 317 letters, digits, _ . / and -"
NO_SIZE_HERE = "must be a number, in the unit that it is shown in"
GOOD: dict[str, object] = {"name": "train", "devices": "card0", "profile": "98:1:0"}


def made(**fields: object) -> WorkloadSpec:
    """A workload with these fields beside good ones; a dash in a name is written ``_``."""
    return workload_from_fields(GOOD | {name.replace("_", "-"): value for name, value in fields.items()})


class TestTaken:
    def test_the_least(self) -> None:
        assert made() == WorkloadSpec("train", ("card0",), (Activity(98, 1, FOREVER),), repeat=1)

    def test_everything(self) -> None:
        assert set(WORKLOAD_FIELDS) == {
            "name", "devices", "profile", "repeat", "seconds-of", "kind", "node", "pod", "namespace", "container",
            "labels", "limits", "run-time-limit", "ttl", "metrics", "measured-frequency", "measured-capability",
            "faults", "intensity", "service",
        }  # fmt: skip
        spec = made(
            devices="dgx-0/1, dgx-0/2", profile="10:2:30,95:5:600", repeat=3,
            seconds_of="work", kind="tensor", node="dgx-0", pod="p",
            namespace="n", container="c", limits={"memory": 10**9, "power": 300.5}, run_time_limit="5m", ttl=3600,
            metrics={"memory": "40GiB", "fabric-tx?": "30%:5%:60"}, measured_frequency=1755, measured_capability=1.5,
            faults=[{"kind": "hang", "every": 60}], labels={"dra_claim_name": "one", "team/name": "ml: 1"},
            intensity="20,45:5", service="chat",
        )  # fmt: skip
        assert spec == WorkloadSpec(
            "train", ("dgx-0/1", "dgx-0/2"), (Activity(10, 2, 30), Activity(95, 5, 600)), 3,
            "tensor", True, "dgx-0", "p", "n", "c",
            (("memory", 1e9), ("power", 300.5)), 300, 3600,
            (
                MetricUse("memory_used_bytes", (Activity(40 * 2**30),)),
                MetricUse("fabric_tx_bytes_per_second", (Activity(30, 5, 60),), True, is_optional=True),
            ),
            1755, 1.5, ({"kind": "hang", "every": 60},), (("dra_claim_name", "one"), ("team/name", "ml: 1")),
            (Intensity(20), Intensity(45, 5)), "chat",
        )  # fmt: skip

    @pytest.mark.parametrize(
        "profile",
        [
            "40:2:5:1.5:once,60:0:9:2,5:1:2",
            [[40, 2, 5, 1.5, "once"], [60, 0, 9, 2], [5, 1, 2]],
            [
                {"load": 40, "fluctuation": 2, "seconds": 5, "spread": 1.5, "once": True},
                {"load": 60, "seconds": 9, "spread": 2},
                {"load": 5, "fluctuation": 1, "seconds": 2},
            ],
        ],
    )
    def test_drawn_lengths_and_beginnings(self, profile: object) -> None:
        activities = made(profile=profile).activities
        assert tuple(activities) == (Activity(40, 2, 5, 1.5, True), Activity(60, 0, 9, 2), Activity(5, 1, 2))
        assert (activities.seconds, activities.once_seconds) == (16, 5)

    @pytest.mark.parametrize(
        ("intensity", "expected"),
        [
            (45, [(45, 0)]),
            ("45:5", [(45, 5)]),
            ("45, 100:0", [(45, 0), (100, 0)]),
            ([[45, 5], 30], [(45, 5), (30, 0)]),
            (["45:5", "30"], [(45, 5), (30, 0)]),
            ([100, 100.0], []),
            (None, []),
        ],
    )
    def test_ways_to_write_an_intensity(self, intensity: object, expected: list[tuple[float, float]]) -> None:
        assert list(made(profile="40:2:5,60:0:0", intensity=intensity).intensities) == expected

    @pytest.mark.parametrize(
        "profile",
        [
            "40:2:5,60:0:0",
            [[40, 2, 5], [60]],
            [(40, 2, 5), (60, 0, 0)],
            [{"load": 40, "fluctuation": 2, "seconds": 5}, {"load": 60}],
            [{"seconds": 5, "fluctuation": 2.0, "load": 40.0}, [60, 0]],
        ],
    )
    def test_ways_to_write_a_profile(self, profile: object) -> None:
        assert tuple(made(profile=profile).activities) == (Activity(40, 2, 5), Activity(60, 0, FOREVER))

    @pytest.mark.parametrize(
        "profile",
        [
            "ramp(0,90):5:60, sine(50,30,90s)",
            [["ramp(0,90)", 5, 60], [{"sine": [50, 30, "1m30s"]}]],
            [{"load": {"ramp": [0, 90]}, "fluctuation": 5, "seconds": 60}, {"load": "sine( 50, 30, 90 )"}],
        ],
    )
    def test_ways_to_write_a_function(self, profile: object) -> None:
        with pytest.raises(FieldError, match="fluctuation 5 is not within 0 and the load 0"):
            made(profile=profile)
        text = str(profile).replace("ramp(0,", "ramp(5,")
        found = made(profile=text if isinstance(profile, str) else literal_eval(text.replace("[0, 90]", "[5, 90]")))
        assert tuple(found.activities) == (
            Activity(Function("ramp", (5, 90)), 5, 60),
            Activity(Function("sine", (50, 30, 90)), 0, FOREVER),
        )

    @pytest.mark.parametrize(
        ("metrics", "use"),
        [
            ({"memory": "40GiB"}, MetricUse("memory_used_bytes", (Activity(40 * 2**30),))),
            ({"memory_used_bytes": 1e9}, MetricUse("memory_used_bytes", (Activity(1e9),))),
            ({"memory": [["1GiB", "1MiB", 30], [{"value": "2GiB"}][0]]},
             MetricUse("memory_used_bytes", (Activity(2**30, 2**20, 30), Activity(2**31)))),
            ({"memory": "50%"}, MetricUse("memory_used_bytes", (Activity(50),), True)),
            ({"fabric-tx": "ramp(1GB/s,3GB/s):0:5"},
             MetricUse("fabric_tx_bytes_per_second", (Activity(Function("ramp", (1e9, 3e9)), 0, 5),))),
            ({"pcie_rx": [[{"square": ["10%", "20%", 60]}]]},
             MetricUse("pcie_rx_bytes_per_second", (Activity(Function("square", (10, 20, 60, 0.5))),), True)),
            ({"tensor": 0.5}, MetricUse("tensor_active_ratio", (Activity(0.5),))),
            ({"memory-errors-correctable": "0.1"}, MetricUse("memory_errors_correctable", (Activity(0.1),))),
        ],
    )  # fmt: skip
    def test_ways_to_write_a_metric(self, metrics: object, use: MetricUse) -> None:
        assert made(metrics=metrics).uses == (use,)

    @pytest.mark.parametrize("devices", ["card0,card1", " card0 , card1 ", ["card0", "card1"], ("card0 ", "card1")])
    def test_ways_to_write_devices(self, devices: object) -> None:
        assert made(devices=devices).devices == ("card0", "card1")

    @pytest.mark.parametrize(("value", "seconds"), [("90s", 90), (90, 90), (1.5, 1.5), ("0", 0), (0, 0)])
    def test_durations(self, value: object, seconds: float) -> None:
        assert made(ttl=value, run_time_limit=value).ttl_seconds == seconds
        assert made(run_time_limit=value).run_time_limit_seconds == seconds


DEVICES = "devices: must be a list of device words, as card0 or dgx-[0-3]/*"
NO_WORD = "devices: a workload needs at least one device, and no empty device word"
ONLY_FIRST = "once is for the first activities of a profile, before those that repeat"
DURATION = "ttl: must be a duration, as 90s or 5m, or seconds from 0 up"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("name", "", "name: a workload needs a name"),
        ("name", 5, "name: must be a text, not a number"),
        ("name", None, "name: must be a text, not nothing"),
        ("name", "x" * 1025, "name: is longer than 1024 characters"),
        ("name", "a\0b", "name: must not hold a NUL character"),
        ("name", "a\ud800b", "name: is not UTF-8: it holds half a surrogate pair"),
        ("pod", ["p"], "pod: must be a text, not a list"),
        ("namespace", True, "namespace: must be a text, not true or false"),
        ("container", {}, "container: must be a text, not an object"),
        ("node", 1.5, "node: must be a text, not a number"),
        ("devices", None, DEVICES),
        ("devices", 0, DEVICES),
        ("devices", {"card0": 1}, DEVICES),
        ("devices", ["card0", 1], DEVICES),
        ("devices", "", NO_WORD),
        ("devices", [], NO_WORD),
        ("devices", "card0,", NO_WORD),
        ("devices", ["card0", " "], NO_WORD),
        ("profile", None, "profile: must be load:fluctuation:seconds, or a list of activities"),
        ("profile", 98, "profile: must be load:fluctuation:seconds, or a list of activities"),
        ("profile", [], "profile: a profile needs at least one activity"),
        ("profile", [98], "profile: activity 1: must be [load, fluctuation, seconds, spread, once]"),
        ("profile", [[]], "profile: activity 1: must be [load, fluctuation, seconds, spread, once]"),
        ("profile", [[1, 2, 3, 4, 5, 6]], "profile: activity 1: must be [load, fluctuation, seconds, spread, once]"),
        ("profile", [["98", 1, 0]], "profile: activity 1: load must be a number"),
        ("profile", [[True]], "profile: activity 1: load must be a number"),
        ("profile", [{"load": None}], "profile: activity 1: load must be a number"),
        ("profile", [[10**400]], "profile: activity 1: load must be a number"),
        ("profile", [{"Load": 1}], "profile: activity 1: unknown 'Load': an activity has load, fluctuation, seconds, "
                                   "spread, once"),
        ("profile", [[101]], "profile: activity 1: load 101 is not within 0 to 100"),
        ("profile", [[float("nan")]], "profile: activity 1: numbers must be finite"),
        ("repeat", -1, "repeat: must be a whole number, 0 for ever"),
        ("repeat", 1.5, "repeat: must be a whole number, 0 for ever"),
        ("repeat", "2", "repeat: must be a whole number, 0 for ever"),
        ("repeat", True, "repeat: must be a whole number, 0 for ever"),
        ("repeat", 2**53 + 1, "repeat: must be a whole number, 0 for ever"),
        ("labels", "a:b", "labels: must be at most 64 names, each with a text"),
        ("labels", {f"l{n}": "" for n in range(65)}, "labels: must be at most 64 names, each with a text"),
        ("labels", {"a": 1}, "labels: a: must be a text, not a number"),
        ("labels", {"a": "x" * 1025}, "labels: a: is longer than 1024 characters"),
        ("labels", {"a b": "x"}, f"labels: 'a b' {NO_LABEL}"),
        ("labels", {"a" * 318: "x"}, f"labels: '{'a' * 100}' {NO_LABEL}"),
        ("labels", {5: "x"}, f"labels: what is no text {NO_LABEL}"),
        ("labels", {"pod": "x"}, "labels: pod is a field of the workload: give it there"),
        ("limits", [], "limits: must be at most 64 metrics, each with a number"),
        ("limits", {str(n): 1 for n in range(65)}, "limits: must be at most 64 metrics, each with a number"),
        ("limits", {"memory": "lots"}, f"limits: memory: 'lots' {NO_SIZE}"),
        ("limits", {"power": "1GiB"}, f"limits: the limit of 'power' {NO_SIZE_HERE}"),
        ("limits", {"memory_used_ratio": "5"}, f"limits: the limit of 'memory_used_ratio' {NO_SIZE_HERE}"),
        ("limits", {"memory": float("inf")}, "limits: the limit of 'memory' must be a finite number"),
        ("limits", {"memory": float("nan")}, "limits: the limit of 'memory' must be a finite number"),
        ("limits", {5: 5}, "limits: the limit of 5 must be a finite number"),
        ("ttl", -1, DURATION),
        ("ttl", float("nan"), DURATION),
        ("ttl", 1e11, DURATION),
        ("ttl", True, "ttl: must be a duration, as 90s or 5m, not true or false"),
        ("ttl", [], "ttl: must be a duration, as 90s or 5m, not a list"),
        ("ttl", "5", "ttl: '5' is no duration: give a number with ms, s, m, h or d, as 250ms or 1h30m"),
        ("run-time-limit", "1y", "run-time-limit: '1y' is no duration: give a number with ms, s, m, h or d, "
                                 "as 250ms or 1h30m"),
        ("profile", "ramp(0,90", "profile: activity 1: 'ramp(0,90' is no function, as ramp(0,90)"),
        ("profile", "ramp(0,90):0:0", "profile: activity 1: ramp: is spread over its activity, which needs seconds"),
        ("profile", "rampe(0,90)", "profile: activity 1: no value function 'rampe'; did you mean ramp?"),
        ("profile", "zigzag(0,90)", "profile: activity 1: no value function 'zigzag': give one of ramp, sine, square, "
                                    "spike, random, increase, daily, steps"),
        ("profile", "ramp(0)", "profile: activity 1: ramp is written ramp(FROM,TO): 1 values do not fit"),
        ("profile", "ramp(0,101):0:9", "profile: activity 1: ramp: load 101 is not within 0 to 100"),
        ("profile", "sine(50,60,9)", "profile: activity 1: sine: load -10 is not within 0 to 100"),
        ("profile", "sine(50,30,9):21", "profile: activity 1: sine: fluctuation 21 is not within 0 and the load 20"),
        ("profile", "steps(10,95):6:9", "profile: activity 1: steps: load 95 + fluctuation 6 is over 100"),
        ("profile", "sine(50,30,0)", "profile: activity 1: sine: 0 seconds is not within 1e-06 to 1e+10"),
        ("profile", "sine(50,30,9y)", "profile: activity 1: sine: '9y' is no duration: give a number with ms, s, m, h "
                                      "or d, as 250ms or 1h30m"),
        ("profile", "square(9,5,60)", "profile: activity 1: square: 9 is over 5: the smaller value comes first"),
        ("profile", "square(5,9,60,2)", "profile: activity 1: square: the share 2 is not within 0 to 1"),
        ("profile", "spike(5,9,60,30)", "profile: activity 1: spike: 60 seconds are longer than the 30 in which they "
                                        "come once"),
        ("profile", "random(0,nan,5)", "profile: activity 1: random: numbers must be finite"),
        ("profile", [[{"ramp": 90}]], 'profile: activity 1: a function is written as {"ramp": [0, 90]}'),
        ("profile", [[{"ramp": [[], 90]}]], "profile: activity 1: ramp: arguments are numbers or texts"),
        ("profile", f"steps({'1,' * 10_000}1):0:9", "profile: activity 1: steps is written steps(VALUE,...): 10001 "
                                                   "values do not fit"),
        ("profile", "steps(1,2):0:1," * 5000 + "3", "profile: 10001 activities are too many: at most 10000"),
        ("metrics", [], "metrics: must be at most 64 metrics, each with a profile"),
        ("metrics", {"memry": "1GiB"}, "metrics: 'memry' is no metric that workloads bring; did you mean memory?"),
        ("metrics", {"power": 5}, "metrics: 'power' is no metric that workloads bring: give one of memory, "
                                  "memory-bandwidth, tensor, copy, encoder, decoder, render, fabric-tx, "
                                  "fabric-rx, pcie-tx, pcie-rx, hung, cpu-cores, pcie-replays, link-errors, "
                                  "link-recoveries, "
                                  "retired-pages-single-bit, retired-pages-double-bit, "
                                  "remapped-rows-uncorrectable, remapped-rows-correctable, resets, "
                                  "programming-errors, driver-errors, cache-errors-correctable, "
                                  "cache-errors-uncorrectable, non-compute-errors-correctable, "
                                  "non-compute-errors-uncorrectable, memory-errors-correctable, "
                                  "memory-errors-uncorrectable"),
        ("metrics", {"memory": "1GiB", "memory_used_bytes": "5GB"}, "metrics: memory is given twice"),
        ("metrics", {"fabric-tx": "95"}, "metrics: fabric-tx: 95 means bytes: write 95% for a share of the "
                                         "device's maximum, or 95GB"),
        ("metrics", {"memory": [[80, 0, 5], [0.5, 0, 0]]}, "metrics: memory: 80 means bytes: write 80% for a share "
                                                          "of the device's maximum, or 80GB"),
        ("metrics", {"memory": "ten"}, "metrics: memory: activity 1: 'ten' is no size: give bytes, or a number with "
                                       "kB, MB, GB, KiB, MiB, GiB or TiB"),
        ("metrics", {"memory": "ramp(1GiB,50%):0:5"}, "metrics: memory: activity 1: ramp: '1GiB' has no %: where one "
                                                      "value is a share of the device's maximum, all are"),
        ("metrics", {"memory": "101%"}, "metrics: memory: activity 1: share 101% is not within 0 to 100%"),
        ("metrics", {"memory": -5}, "metrics: memory: activity 1: size -5 is not within 0 to 1.15292e+18"),
        ("metrics", {"memory": None}, "metrics: memory: must be size:fluctuation:seconds, or a list of activities"),
        ("metrics", {"tensor": 50}, "metrics: tensor: activity 1: share 50 is not within 0 to 1"),
        ("metrics", {"resets": "5%"}, "metrics: resets: there is no maximum of which a share could be requested"),
        ("metrics", {"memory": [{"load": 5}]}, "metrics: memory: activity 1: unknown 'load': an activity has value, "
                                               "fluctuation, seconds, spread, once"),
        ("metrics", {5: 5}, "metrics: 5 is no name of a metric"),
        ("measured-frequency", -1, "measured-frequency: must be a number from 0 to 1e9, 0 for not measured"),
        ("measured-capability", "x", "measured-capability: must be a number from 0 to 1e9, 0 for not measured"),
        ("intensity", 0, "intensity: value 1: 0 is not over 0 and at most 100"),
        ("intensity", "101", "intensity: value 1: 101 is not over 0 and at most 100"),
        ("intensity", "45:56", "intensity: value 1: 45 +/- 56 is not within 0 to 100"),
        ("intensity", "45:5:9", "intensity: value 1: must be percent, as 45, or percent:fluctuation, as 45:5"),
        ("intensity", [[]], "intensity: value 1: must be percent, as 45, or percent:fluctuation, as 45:5"),
        ("intensity", [True], "intensity: value 1: must be percent, as 45, or percent:fluctuation, as 45:5"),
        ("intensity", [45, 30], "intensity: has 2 values, and the profile has 1 activities: give one for all, or one "
                                "each"),
        ("intensity", {}, "intensity: must be percent, as 45 or 45:5, or a list with one for each activity"),
        ("profile", "5:0:10:0.5", "profile: activity 1: the spread 0.5 is not within 1 to 10"),
        ("profile", "5:0:10:11", "profile: activity 1: the spread 11 is not within 1 to 10"),
        ("profile", "5:0:0:2", "profile: activity 1: what lasts until stopped has no spread"),
        ("profile", "5:0:10:once", f"profile: activity 1: {ONLY_FIRST}"),
        ("profile", "5:0:10,6:0:10:once,7:0:10", f"profile: activity 2: {ONLY_FIRST}"),
        ("profile", [[5, 0, 10, 2, 1]], "profile: activity 1: what follows the spread can only be 'once'"),
        ("profile", [{"load": 5, "seconds": 9, "once": 1}, [5]], "profile: activity 1: once must be true or false"),
        ("profile", [{"load": 5, "seconds": 9, "spread": "2"}], "profile: activity 1: spread must be a number"),
        ("profile", "daily(10,20):0:60", "profile: activity 1: daily: has no end: it is for the last activity, with 0 "
                                         "seconds"),
        ("profile", "daily(20,10)", "profile: activity 1: daily: 20 is over 10: the smaller value comes first"),
        ("profile", "daily(10,20,25h)", "profile: activity 1: daily: the peak is 90000 seconds after midnight: a day "
                                        "has 86400"),
        ("profile", "cluster", f"profile: cluster mixes profiles over the devices of a pool: give it as profile of a "
                               f"pool, or one of {', '.join(PROFILES)}"),
        ("metrics", {"memory": "5%:0:9:2,1%"}, "metrics: memory: activity 1: a spread is for the activities of the "
                                               "load: activities of metrics run in the same time"),
        ("profil", "98:1:0", "profil: is not a field of a workload; did you mean profile?"),
        ("colour", "red", "colour: is not a field of a workload"),
    ],
)  # fmt: skip
def test_what_is_refused(field: str, value: object, message: str) -> None:
    with pytest.raises(FieldError) as caught:
        workload_from_fields(GOOD | {field: value})
    assert (caught.value.code, caught.value.text) == ("bad-argument", message)
    assert caught.value.where == caught.value.field == field


@pytest.mark.parametrize("field", ["name", "devices", "profile"])
def test_what_must_be_there(field: str) -> None:
    with pytest.raises(FieldError) as caught:
        workload_from_fields({name: value for name, value in GOOD.items() if name != field})
    assert caught.value.field == field


@pytest.mark.slow
@given(workload_specs())
def test_fields_and_back(spec: WorkloadSpec) -> None:
    assert workload_from_fields(fields_of_workload(spec)) == spec


def test_defaults_are_left_out() -> None:
    assert fields_of_workload(made()) == {"name": "train", "devices": ["card0"], "profile": "98:1:0", "repeat": 1}


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(list(WORKLOAD_FIELDS)), JSON))
def test_any_json_is_a_workload_or_a_fault(fields: dict[str, object]) -> None:
    try:
        spec = workload_from_fields(GOOD | fields)
    except FieldError as error:
        assert error.field in WORKLOAD_FIELDS
    else:
        assert workload_from_fields(fields_of_workload(spec)) == spec


def test_names_of_words() -> None:
    assert made(use={"memory": "1GiB"}, limit={"memory": 5}) == made(metrics={"memory": "1GiB"}, limits={"memory": 5})
    with pytest.raises(FieldError, match="use: is the same as metrics: give one of the two"):
        made(use={"memory": "1GiB"}, metrics={})
