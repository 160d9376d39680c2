"""Any workload that a request can make, for property tests."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume
from hypothesis import strategies as st

from fakedev.base.units import BYTES, BYTES_PER_SECOND
from fakedev.fleet.spec.quantities import ASKABLE, WITHOUT_SHARES
from fakedev.fleet.spec.value_functions import Function
from fakedev.fleet.spec.workload_spec import FOREVER, Activity, Intensity, MetricUse, WorkloadSpec

TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20)
WORDS = TEXTS.map(str.strip).filter(bool)
LABELS = st.from_regex("[A-Za-z0-9_][A-Za-z0-9_./-]{0,316}", fullmatch=True).filter(
    lambda name: name not in ("pod", "namespace", "container")
)
INTENSITIES = st.floats(1, 99).flatmap(
    lambda percent: st.builds(Intensity, st.just(percent), st.floats(0, min(percent, 100 - percent)))
)


def amounts(most: float) -> st.SearchStrategy[Activity]:
    """Activities of any value function, with values up to ``most``."""
    value = st.floats(0, most)
    pair = st.tuples(value, value).map(sorted).map(tuple)
    seconds = st.floats(1e-6, 1e10)
    return st.one_of(
        st.builds(Activity, value, st.just(0.0), seconds),
        st.builds(lambda ends, t: Activity(Function("ramp", ends), 0.0, t), pair, seconds),
        st.builds(lambda ends, t: Activity(Function("random", (*ends, t))), pair, seconds),
        st.builds(lambda ends, t, duty: Activity(Function("square", (*ends, t, duty))), pair, seconds, st.floats(0, 1)),
        st.builds(lambda ends, t: Activity(Function("spike", (*ends, t / 2, t))), pair, st.floats(1e-5, 1e10)),
        st.builds(lambda v, t: Activity(Function("steps", tuple(v)), 0.0, t), st.lists(value, min_size=1), seconds),
    )


@st.composite
def metric_uses(draw: st.DrawFn) -> MetricUse:
    """What may be asked of a metric."""
    metric = draw(st.sampled_from(sorted(ASKABLE)))
    is_share = metric not in WITHOUT_SHARES and draw(st.booleans())
    found = draw(st.lists(amounts(100.0 if is_share else ASKABLE[metric].most), min_size=1, max_size=3))
    if not is_share and ASKABLE[metric] in (BYTES, BYTES_PER_SECOND):
        assume(not 0 < max([each.value for each in found if isinstance(each.value, float)], default=0.0) <= 100.0)
    endless = [activity for activity in found if activity.seconds == FOREVER][:1]
    ending = [activity for activity in found if activity.seconds < FOREVER]
    return MetricUse(metric, (*ending, *endless), is_share)


@st.composite
def workload_specs(draw: st.DrawFn) -> WorkloadSpec:
    """Any workload that a request can make."""
    loads = st.integers(0, 50).map(float) | st.floats(0, 50)
    activities = [
        Activity(load, draw(st.floats(0, load)), draw(st.floats(1e-6, 1e10)), draw(st.sampled_from((1.0, 1.5, 10.0))))
        for load in draw(st.lists(loads, min_size=1, max_size=4))
    ]
    if draw(st.booleans()):
        activities[-1] = Activity(activities[-1].value, activities[-1].fluctuation)
    for place in range(draw(st.integers(0, len(activities) - 1))):
        activities[place] = replace(activities[place], is_once=True)
    limits = draw(st.dictionaries(TEXTS, st.floats(allow_nan=False, allow_infinity=False), max_size=3))
    return WorkloadSpec(
        name=draw(TEXTS.filter(bool)),
        devices=tuple(draw(st.lists(WORDS, min_size=1, max_size=4))),
        activities=tuple(activities),
        repeat=draw(st.integers(0, 2**53)),
        service=draw(TEXTS),
        node=draw(TEXTS),
        pod=draw(TEXTS),
        namespace=draw(TEXTS),
        container=draw(TEXTS),
        limits=tuple(limits.items()),
        run_time_limit_seconds=draw(st.floats(0, 1e10)),
        ttl_seconds=draw(st.floats(0, 1e10)),
        uses=tuple({use.metric: use for use in draw(st.lists(metric_uses(), max_size=3))}.values()),
        measured_frequency_mhz=draw(st.floats(0, 1e9)),
        measured_capability=draw(st.floats(0, 1e9)),
        intensities=tuple(draw(INTENSITIES) for _ in range(draw(st.sampled_from((0, 1, len(activities)))))),
        labels=tuple(draw(st.dictionaries(LABELS, TEXTS, max_size=3)).items()),
    )
