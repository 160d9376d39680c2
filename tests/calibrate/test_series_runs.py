"""Runs as series: OpenMetrics with times, and the answers of a Prometheus."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fakedev.calibrate.runs import RunError, Series, read_answer, read_openmetrics, run_of_series
from fakedev.fleet.spec.fleet_spec import MetricName

NAMES = {
    "util": MetricName("usage_ratio", 100.0), "power_mw": MetricName("power_watts", 1000.0),
    "clock": MetricName("core_frequency_mhz"), "temp": MetricName("temperature_celsius"),
    "other": MetricName("fan_speed_ratio"),
}  # fmt: skip


def text_of(boards: int = 1, seconds: int = 60, families: Sequence[str] = ("util", "power_mw", "clock", "temp")) -> str:
    """A text with a sample of each family a second."""
    lines = [
        f'{family}{{gpu="{board}"}} {50 + board} {100 + second}.5'
        for family in families for second in range(seconds) for board in range(boards)
    ]  # fmt: skip
    return "\n".join(["# TYPE util gauge", *lines, "# EOF"]) + "\n"


def test_a_text_of_one_board() -> None:
    run = run_of_series(read_openmetrics(text_of(), "run.om"), NAMES, {}, "run.om")
    assert run.seconds.tolist() == [float(second) for second in range(60)]
    assert set(run.numbers["usage_ratio"]) == {0.5}
    assert set(run.numbers["power_watts"]) == {0.05}


def test_a_board_is_chosen_by_its_label() -> None:
    """Without a choice, the error gives one."""
    series = read_openmetrics(text_of(boards=2), "run.om")
    with pytest.raises(RunError, match=r"several boards have util: choose one, as --only gpu=0"):
        run_of_series(series, NAMES, {}, "run.om")
    assert set(run_of_series(series, NAMES, {"gpu": "1"}, "run.om").numbers["usage_ratio"]) == {0.51}


def test_the_answers_of_a_prometheus_are_the_same_run() -> None:
    series = read_openmetrics(text_of(), "run.om")
    answered: list[Series] = []
    for each in series:
        values = [[point.seconds, str(point.number)] for point in each.points]
        result = [{"metric": {"__name__": each.family, **each.labels}, "values": values}]
        answered += read_answer({"result": result}, "url")
    one, other = (run_of_series(each, NAMES, {}, "run") for each in (series, answered))
    assert all((one.numbers[name] == other.numbers[name]).all() for name in one.numbers)


REFUSED = {
    "util 7\n# EOF": "run.om:1: the sample has no time",
    "util{ 7\n# EOF": "run.om:1: this is no sample: util{ 7",
    "util NaN 5\n# EOF": "run.om:1: 'NaN' is no number that a board shows",
    text_of(families=("util", "clock")): "no series shows power_watts, temperature_celsius; families of the identity: "
    "power_watts: power_mw; temperature_celsius: temp",
    text_of(seconds=3): "run.om: 3 samples, not 60 to 20000",
}


@pytest.mark.parametrize("text", REFUSED)
def test_texts_that_cannot_be_used(text: str) -> None:
    with pytest.raises(RunError) as found:
        run_of_series(read_openmetrics(text, "run.om"), NAMES, {}, "run.om")
    assert REFUSED[text] in str(found.value)


@pytest.mark.parametrize("data", [None, [], {}, {"result": [{"metric": {}}]}])
def test_answers_that_cannot_be_used(data: object) -> None:
    """What was asked is named."""
    with pytest.raises(RunError, match="url: "):
        read_answer(data, "url")
