"""Rates, curves and expectations as people write them."""

from __future__ import annotations

from itertools import islice

import pytest

from fakedev.queues.job import Answer, Outcome
from fakedev.schema.files import Unreadable
from fakedev.tester.expectation import judge
from fakedev.tester.rates import parse_expectation, parse_open_load, parse_rate
from fakedev.tester.statistics import Statistics

FILES = {
    "curve.csv": "seconds,rate\n0,0\n10,20\n\n20,20\n",
    "list.csv": "seconds\n0.5\n0.5\n3\n",
    "columns.csv": "time,rate\n0,1\n",
    "short.csv": "seconds,rate\n0,1\n5\n",
    "text.csv": "seconds,rate\n0,many\n",
    "nan.csv": "seconds,rate\n0,nan\n",
    "back.csv": "seconds,rate\n0,1\n5,1\n4,1\n",
    "late.csv": "seconds,rate\n1,1\n",
    "nothing.csv": "seconds,rate\n0,0\n9,0\n",
    "empty.csv": "seconds\n",
    "blank.csv": "",
    "long.csv": "seconds,rate\n" + "1" * 140_000,
    "long-name.csv": "s" * 140_000,
}


def read(path: str) -> str:
    if path not in FILES:
        raise Unreadable("no such file")
    return FILES[path]


@pytest.mark.parametrize(
    ("text", "rate"), [("20/s", 20.0), ("20", 20.0), ("1200/m", 20.0), ("0.5/s", 0.5), (".5", 0.5), ("3600/h", 1.0)]
)
def test_rates(text: str, rate: float) -> None:
    """Per second, minute or hour."""
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    ("text", "seconds", "rate"),
    [
        ("20/s", 7.0, 20.0),
        ("ramp:5/s:50/s:60s", 30.0, 27.5),
        ("steps:5/s,10/s,20/s:30s", 45.0, 10.0),
        ("sine:20/s:10/s:60s", 15.0, 30.0),
        ("spike:10/s:100/s:30s:5s", 33.0, 100.0),
        ("csv:curve.csv", 5.0, 10.0),
        ("csv:curve.csv", 25.0, 0.0),
    ],
)
def test_curves(text: str, seconds: float, rate: float) -> None:
    curve = parse_open_load(text, read).curve
    assert curve is not None and curve.rate(seconds) == pytest.approx(rate)


def test_a_list_of_arrivals() -> None:
    assert list(islice(parse_open_load("csv:list.csv", read).arrivals("a"), 9)) == [0.5, 0.5, 3.0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("much", "'much' is no rate: give a number with /s, /m or /h, as 20/s"),
        ("20/d", "is no rate"),
        ("-1/s", "is negative"),
        ("1e9", "is no rate"),
        ("9999999/s", "too much: at most 1000000/s"),
        ("0/s", "a rate must be above 0"),
        ("ramp:5/s:60s", "is not ramp:RATE:RATE:DURATION"),
        ("ramp:5/s:9/s:60", "'60' is no duration"),
        ("ramp:0/s:0/s:60s", "no request ever arrives"),
        ("sine:5/s:9/s:60s", "amplitude"),
        ("steps:5/s:0", "duration must be above 0"),
        ("saw:5/s:9/s", "there is no curve 'saw': give a rate, or ramp, steps, sine, spike or csv:FILE"),
        ("csv:absent.csv", "absent.csv: no such file"),
        ("csv:columns.csv", "columns.csv:1: the columns must be"),
        ("csv:short.csv", "short.csv:3: must have 2 columns, not 1"),
        ("csv:text.csv", "text.csv:2: 'many' is no number"),
        ("csv:nan.csv", "nan.csv:2: 'nan' is no number"),
        ("csv:back.csv", "back.csv:4: the seconds must not fall"),
        ("csv:late.csv", "late.csv:2: a curve begins at 0"),
        ("csv:nothing.csv", "nothing.csv: no request ever arrives with this curve"),
        ("csv:empty.csv", "empty.csv: has no rows"),
        ("csv:blank.csv", "blank.csv:1: the columns"),
        ("csv:long.csv", "long.csv:2: is not CSV: field larger than field limit"),
        ("csv:long-name.csv", "long-name.csv:1: is not CSV: field larger than field limit"),
    ],
)
def test_what_is_no_load(text: str, reason: str) -> None:
    """Says what is wrong, and where, and what would be right."""
    with pytest.raises(ValueError) as raised:
        parse_open_load(text, read)
    assert reason in str(raised.value)


def measured() -> Statistics:
    """A hundred requests, one a second: 98 good ones of 0.01 to 0.98 s, two failures; two arrivals dropped."""
    statistics = Statistics(0.0)
    for second in range(1, 101):
        ticket = statistics.started(second, second)
        outcome = Outcome.SUCCESS if second <= 98 else Outcome.REFUSED
        statistics.answered(ticket, Answer(outcome, run_seconds=0.005), second + second / 100)
    statistics.dropped = 2
    return statistics


@pytest.mark.parametrize(
    ("text", "value", "is_met"),
    [
        ("p50<500ms", 0.49, True),
        ("p50<480ms", 0.49, False),
        ("total.max <= 1s", 0.98, True),
        ("min>5ms", 0.01, True),
        ("run.mean<10ms", 0.005, True),
        ("mean<400ms", 0.495, False),
        ("rate>=0.98/s", 0.98, True),
        ("rate>59/m", 0.98, False),
        ("failures<5", 4, True),
        ("failures<1%", 4 / 102, False),
        ("failures<=4%", 4 / 102, True),
        ("successes>=98", 98, True),
        ("late<1%", 0.0, True),
        ("dropped<1", 2, False),
    ],
)
def test_expectations_are_judged(text: str, value: float, is_met: bool) -> None:
    finding = judge(parse_expectation(text), measured(), 101.0)
    assert finding.measured == pytest.approx(value, rel=0.01)
    assert finding.is_met is is_met


@pytest.mark.parametrize("text", ["p99<1h", "failures<100%", "failures<1", "wait.p50>=0"])
def test_what_was_not_measured_is_not_met(text: str) -> None:
    finding = judge(parse_expectation(text), Statistics(0.0), 60.0)
    assert (finding.measured, finding.is_met) == (None, False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("fast", "is no expectation: give WHAT, one of < <= > >=, and a number, as p99<2s"),
        ("p99=2s", "is no expectation"),
        ("p99<", "is no expectation"),
        ("p99<2s<3s", "is no expectation"),
        ("p98<2s", "there is no 'p98'; did you mean p99?"),
        ("speed>1", "there are rate, failures"),
        ("p99<2", "'2' is no duration"),
        ("rate>1%", "'1%' is no rate"),
        ("failures<few", "'few' is neither a number nor a share"),
    ],
)
def test_what_is_no_expectation(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse_expectation(text)
    assert reason in str(raised.value)
