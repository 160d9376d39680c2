"""Workloads from the fields of a request: what is taken, and what each fault is called."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.sim.errors import FieldError
from fakedev.sim.spec import FOREVER, Activity, WorkloadSpec
from fakedev.sim.workload_fields import FIELDS, fields_of_workload, workload_from_fields

GOOD: dict[str, object] = {"name": "train", "devices": "card0", "profile": "98:1:0"}


def made(**fields: object) -> WorkloadSpec:
    """A workload with these fields beside good ones; a dash in a name is written ``_``."""
    return workload_from_fields(GOOD | {name.replace("_", "-"): value for name, value in fields.items()})


class TestTaken:
    """What a request may say."""

    def test_the_least(self) -> None:
        """Name, devices and profile: all else has a default, once through and no limits."""
        assert made() == WorkloadSpec("train", ("card0",), (Activity(98, 1, FOREVER),), repeat=1)

    def test_everything(self) -> None:
        """All fields at once."""
        assert set(FIELDS) == {
            "name", "devices", "profile", "repeat", "seconds-of", "kind", "node", "pod", "namespace", "container",
            "limits", "run-time-limit", "ttl",
        }  # fmt: skip
        spec = made(
            devices="dgx-0/1, dgx-0/2", profile="10:2:30,95:5:600", repeat=3,
            seconds_of="work", kind="tensor", node="dgx-0", pod="p",
            namespace="n", container="c", limits={"memory": 10**9, "power": 300.5}, run_time_limit="5m", ttl=3600,
        )  # fmt: skip
        assert spec == WorkloadSpec(
            "train", ("dgx-0/1", "dgx-0/2"), (Activity(10, 2, 30), Activity(95, 5, 600)), 3,
            "tensor", True, "dgx-0", "p", "n", "c",
            (("memory", 1e9), ("power", 300.5)), 300, 3600,
        )  # fmt: skip

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
        """As text, as lists, as objects: what is left out is 0."""
        assert made(profile=profile).activities == (Activity(40, 2, 5), Activity(60, 0, FOREVER))

    @pytest.mark.parametrize("devices", ["card0,card1", " card0 , card1 ", ["card0", "card1"], ("card0 ", "card1")])
    def test_ways_to_write_devices(self, devices: object) -> None:
        """Words separated by commas, or a list of words."""
        assert made(devices=devices).devices == ("card0", "card1")

    @pytest.mark.parametrize(("value", "seconds"), [("90s", 90), (90, 90), (1.5, 1.5), ("0", 0), (0, 0)])
    def test_durations(self, value: object, seconds: float) -> None:
        """A duration with its unit, or a number of seconds; 0 is none."""
        assert made(ttl=value, run_time_limit=value).ttl_seconds == seconds
        assert made(run_time_limit=value).run_time_limit_seconds == seconds


DEVICES = "devices: must be a list of device words, as card0 or dgx-[0-3]/*"
NO_WORD = "devices: a workload needs at least one device, and no empty device word"
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
        ("profile", [98], "profile: activity 1: must be [load, fluctuation, seconds]"),
        ("profile", [[]], "profile: activity 1: must be [load, fluctuation, seconds]"),
        ("profile", [[1, 2, 3, 4]], "profile: activity 1: must be [load, fluctuation, seconds]"),
        ("profile", [["98", 1, 0]], "profile: activity 1: load, fluctuation and seconds must be numbers"),
        ("profile", [[True]], "profile: activity 1: load, fluctuation and seconds must be numbers"),
        ("profile", [{"load": None}], "profile: activity 1: load, fluctuation and seconds must be numbers"),
        ("profile", [[10**400]], "profile: activity 1: load, fluctuation and seconds must be numbers"),
        (
            "profile",
            [{"Load": 1}],
            "profile: activity 1: unknown 'Load': an activity has load, fluctuation, seconds",
        ),
        ("profile", [[101]], "profile: activity 1: load 101 is not within 0 to 100"),
        ("profile", [[98, 3]], "profile: activity 1: load 98 + fluctuation 3 is over 100"),
        ("profile", [[5, 6]], "profile: activity 1: fluctuation 6 is not within 0 and the load 5"),
        ("profile", [[50, 0, -1]], "profile: activity 1: -1 seconds is not within 0 to 1e+10"),
        ("profile", [[float("nan")]], "profile: activity 1: numbers must be finite"),
        ("profile", [[50, 0, float("inf")]], "profile: activity 1: numbers must be finite"),
        ("profile", "1e999:0:0", "profile: activity 1: numbers must be finite"),
        (
            "profile",
            [[1, 0, 0], [2, 0, 0]],
            "profile: activity 1: 0 seconds (until stopped) is for the last activity only",
        ),
        ("repeat", -1, "repeat: must be a whole number, 0 for ever"),
        ("repeat", 1.5, "repeat: must be a whole number, 0 for ever"),
        ("repeat", "2", "repeat: must be a whole number, 0 for ever"),
        ("repeat", True, "repeat: must be a whole number, 0 for ever"),
        ("repeat", 2**53 + 1, "repeat: must be a whole number, 0 for ever"),
        ("limits", [], "limits: must be at most 64 metrics, each with a number"),
        ("limits", {str(n): 1 for n in range(65)}, "limits: must be at most 64 metrics, each with a number"),
        ("limits", {"memory": "1GiB"}, "limits: the limit of 'memory' must be a finite number"),
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
        ("profil", "98:1:0", "profil: is not a field of a workload; did you mean profile?"),
        ("colour", "red", "colour: is not a field of a workload"),
    ],
)  # fmt: skip
def test_what_is_refused(field: str, value: object, message: str) -> None:
    """Each fault has its text, and names its field for those who mark it in a form."""
    with pytest.raises(FieldError) as caught:
        workload_from_fields(GOOD | {field: value})
    assert (caught.value.code, caught.value.text) == ("bad-argument", message)
    assert caught.value.where == caught.value.field == field


@pytest.mark.parametrize("field", ["name", "devices", "profile"])
def test_what_must_be_there(field: str) -> None:
    """A workload without name, devices or profile is none."""
    with pytest.raises(FieldError) as caught:
        workload_from_fields({name: value for name, value in GOOD.items() if name != field})
    assert caught.value.field == field


TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20)
WORDS = TEXTS.map(str.strip).filter(bool)


@st.composite
def workload_specs(draw: st.DrawFn) -> WorkloadSpec:
    """Any workload that a request can make."""
    loads = st.integers(0, 50).map(float) | st.floats(0, 50)
    activities = [
        Activity(load, draw(st.floats(0, load)), draw(st.floats(1e-6, 1e10)))
        for load in draw(st.lists(loads, min_size=1, max_size=4))
    ]
    if draw(st.booleans()):
        activities[-1] = Activity(activities[-1].value, activities[-1].fluctuation)
    limits = draw(st.dictionaries(TEXTS, st.floats(allow_nan=False, allow_infinity=False), max_size=3))
    return WorkloadSpec(
        name=draw(TEXTS.filter(bool)),
        devices=tuple(draw(st.lists(WORDS, min_size=1, max_size=4))),
        activities=tuple(activities),
        repeat=draw(st.integers(0, 2**53)),
        node=draw(TEXTS),
        pod=draw(TEXTS),
        namespace=draw(TEXTS),
        container=draw(TEXTS),
        limits=tuple(limits.items()),
        run_time_limit_seconds=draw(st.floats(0, 1e10)),
        ttl_seconds=draw(st.floats(0, 1e10)),
    )


@given(workload_specs())
def test_fields_and_back(spec: WorkloadSpec) -> None:
    """The fields of a workload make the same workload again, whatever its texts hold."""
    assert workload_from_fields(fields_of_workload(spec)) == spec


def test_defaults_are_left_out() -> None:
    """A record's line says no more than it must."""
    assert fields_of_workload(made()) == {"name": "train", "devices": ["card0"], "profile": "98:1:0", "repeat": 1}


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_any_json_is_a_workload_or_a_fault(fields: dict[str, object]) -> None:
    """Nothing but FieldError comes out, however wild the values."""
    try:
        spec = workload_from_fields(GOOD | fields)
    except FieldError as error:
        assert error.field in FIELDS
    else:
        assert workload_from_fields(fields_of_workload(spec)) == spec
