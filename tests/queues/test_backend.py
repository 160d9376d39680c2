"""What a backend runs for a request, and what it does after each answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.queues.job import Outcome, Report, outcome_of
from fakedev.queues.run_reports import (
    Ask,
    BackendCommand,
    End,
    Pace,
    RequestFault,
    Retry,
    Step,
    command_report,
    limit_report,
    sleep_seconds,
    stopped_report,
    unfinished_report,
)

CARD = "/dev/dri/card1"


@pytest.mark.parametrize(
    ("own", "requested", "ignores", "expected"),
    [
        (["/bin/a"], [], False, ["/bin/a"]),
        (["/bin/a", "-x"], ["1", "2"], False, ["/bin/a", "-x", "1", "2"]),
        (["/bin/a", "-x"], ["1", "2"], True, ["/bin/a", "-x"]),
        (["/bin/a", "FILENAME"], ["in=FILENAME:FILENAME"], False, ["/bin/a", CARD, f"in={CARD}:{CARD}"]),
        (["/bin/a"], ["FILENAME"], True, ["/bin/a"]),
        (["sleep", "5"], ["1"], False, ["sleep", "5", "1"]),
        (["/bin/a"], ["", "filename", "ü"], False, ["/bin/a", "", "filename", "ü"]),
    ],
)
def test_words_of_a_request(own: list[str], requested: list[str], ignores: bool, expected: list[str]) -> None:
    """The command's words, then the request's, with the device file in all of them."""
    assert list(BackendCommand(tuple(own), ignores).for_request(requested, CARD)) == expected


@pytest.mark.parametrize(
    ("own", "requested", "part"),
    [
        (["/bin/a"], ["FILENAME"], "no device file"),
        (["/bin/a", "x/FILENAME"], [], "no device file"),
        (["/bin/a"], ["a\0b"], "argument 1: contains a NUL"),
        (["/bin/a"], ["\ud800"], "half a surrogate pair"),
        (["/bin/a"], ["x" * 131072], "argument 1: 131073 bytes"),
        (["/bin/a"], ["x" * 131071] * 8, "all arguments"),
    ],
)
def test_requests_that_cannot_be_run(own: list[str], requested: list[str], part: str) -> None:
    with pytest.raises(RequestFault, match=part):
        BackendCommand(tuple(own)).for_request(requested, "")


@pytest.mark.parametrize(
    ("own", "request_limit", "expected"),
    [(0, 0, 0), (0, 2.5, 2.5), (4, 0, 4), (4, 2.5, 2.5), (2, 2.5, 2), (0, -1, 0), (3, -1, 3)],
)
def test_the_smaller_limit_counts(own: float, request_limit: float, expected: float) -> None:
    """Of the request's and the backend's own; also if only one is given."""
    assert BackendCommand(("sleep",), limit_seconds=own).limit_of(request_limit) == expected


@pytest.mark.parametrize(("arguments", "expected"), [(["0.5"], 0.5), (["0"], 0), (["1e2", "x"], 100), (["5", "1"], 5)])
def test_sleep_takes_the_first_argument(arguments: list[str], expected: float) -> None:
    assert sleep_seconds(arguments) == expected


@pytest.mark.parametrize("arguments", [[], ["x"], ["-1"], ["nan"], ["inf"], ["1e10"], [""]])
def test_sleep_refuses_what_is_no_time(arguments: list[str]) -> None:
    with pytest.raises(RequestFault, match="sleep"):
        sleep_seconds(arguments)


def test_backoff_grows_with_empty_answers_and_is_reset_by_work() -> None:
    pace = Pace(2.0, 5.0, 60.0)
    assert [pace.queue_empty() for _ in range(4)] == [Ask(2.0), Ask(4.0), Ask(5.0), Ask(5.0)]
    assert pace.got_work() == Ask(0)
    assert pace.queue_empty() == Ask(2.0)


def test_a_lost_frontend_is_tried_again_and_given_up() -> None:
    """Waits double up to 5 s and end when the time is over; an answer in between starts them again."""
    pace = Pace(0, 5.0, 10.0)
    now = 100.0
    waits = []
    while isinstance(step := pace.frontend_lost("gone", now), Retry):
        waits.append(step.after_seconds)
        now += step.after_seconds
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 3.7])
    assert step == End(1, "the frontend is lost, tried for 10 s: gone")
    pace.got_work()
    assert pace.frontend_lost("gone", now) == Retry(0.1)


@given(
    st.lists(st.sampled_from(["work", "empty", "lost"])), st.floats(0, 10), st.floats(0, 100),
    st.lists(st.floats(0, 30), min_size=1),
)  # fmt: skip
def test_no_wait_is_longer_than_was_asked_for(
    events: list[str], backoff: float, reconnect: float, lasts: list[float]
) -> None:
    """And a backend that backs off ends only because of a lost frontend."""
    pace, now = Pace(backoff, 10.0, reconnect), 0.0
    for number, event in enumerate(events):
        now += lasts[number % len(lasts)]
        step: Step = {
            "work": pace.got_work,
            "empty": pace.queue_empty,
            "lost": lambda now=now: pace.frontend_lost("gone", now),
        }[event]()
        match step:
            case Ask():
                assert 0 <= step.idle_seconds <= 10
            case Retry():
                assert event == "lost"
                assert 0 < step.after_seconds <= 5
                now += step.after_seconds
            case End():
                assert step.exit_code == (event == "lost")
                assert event == "lost" or not backoff
                return


@pytest.mark.parametrize(
    ("report", "outcome", "code", "error"),
    [
        (command_report("/a", 0, 0, 1.5), Outcome.SUCCESS, 0, ""),
        (command_report("/a", 3, 0, 1.5), Outcome.FAILURE, 3, "/a ended with exit code 3"),
        (command_report("/a", 0, 11, 1.5), Outcome.FAILURE, 139, "/a was ended by signal 11"),
        (limit_report("/a", 1.5, 1.6), Outcome.TIMEOUT, 124, "/a was stopped at its time limit of 1.5 s"),
        (stopped_report("/a", 1.5), Outcome.FAILURE, 1, "/a was stopped before its end"),
        (unfinished_report("why"), Outcome.FAILURE, 1, "why"),
    ],
)
def test_reports_have_one_outcome(report: Report, outcome: Outcome, code: int, error: str) -> None:
    assert (outcome_of(report), report.exit_code, report.error) == (outcome, code, error)
    assert (report.timeout_seconds > 0) == (outcome is Outcome.TIMEOUT)
