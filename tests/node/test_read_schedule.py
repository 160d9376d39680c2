"""When PodResources is asked, with a given clock."""

from __future__ import annotations

from fakedev.node.pod_resources import IDLE_SECONDS, LEAST_SECONDS, ReadSchedule


def next_question(schedule: ReadSchedule, now: float) -> float:
    """The time of the next question, to 0.01 s; it is asked then."""
    now = round(now, 2)
    while not schedule.is_due(now + 1e-9):
        now = round(now + 0.01, 2)
        assert now < 1000
    schedule.asked(now)
    return now


def test_now_and_then() -> None:
    schedule = ReadSchedule()
    assert next_question(schedule, 5.0) == 5.0
    assert not schedule.is_due(1000.0)  # its answer has not come
    schedule.answered([], 5.0)
    assert next_question(schedule, 5.0) == 5.0 + IDLE_SECONDS


def test_soon_after_an_allocation() -> None:
    schedule = ReadSchedule()
    schedule.asked(0.0)
    schedule.answered([], 0.0)
    schedule.allocated(["GPU-1"], 1.0)
    assert next_question(schedule, 1.0) == 1.1
    schedule.answered([], 1.1)
    assert next_question(schedule, 1.1) == 1.3
    schedule.answered(["GPU-2"], 1.3)
    assert next_question(schedule, 1.3) == 1.7
    schedule.answered(["GPU-1", "GPU-2"], 1.7)
    assert next_question(schedule, 1.7) == 1.7 + IDLE_SECONDS


def test_an_allocation_that_is_never_shown() -> None:
    schedule = ReadSchedule()
    schedule.allocated(["GPU-1"], 0.0)
    now = 0.0
    times = []
    for _ in range(8):
        now = next_question(schedule, now)
        times.append(now)
        schedule.answered([], now)
    assert times[-1] - times[-2] == IDLE_SECONDS
    assert times[5] < 10


def test_a_device_that_another_pod_had() -> None:
    """An answer to a question from before the allocation may still show it there: another answer is awaited."""
    schedule = ReadSchedule()
    schedule.asked(0.0)
    schedule.allocated(["GPU-1", "GPU-2"], 0.05)
    schedule.answered(["GPU-1"], 0.06)
    assert schedule.awaited == ["GPU-1", "GPU-2"]
    schedule.refused(["GPU-2"])
    schedule.asked(0.2)
    schedule.answered(["GPU-1"], 0.3)
    assert schedule.awaited == []


def test_many_allocations_at_once() -> None:
    """Are one question, and never more than ten in a second: a kubelet allows 100."""
    schedule = ReadSchedule()
    questions = 0
    for step in range(1000):
        now = step / 1000
        schedule.allocated([f"GPU-{step}"], now)
        if schedule.is_due(now):
            schedule.asked(now)
            schedule.answered([], now)
            questions += 1
    assert 1 <= questions <= 1 / LEAST_SECONDS


def test_after_a_failure() -> None:
    """Later and later, up to 10 s; an allocation does not wait for that."""
    schedule = ReadSchedule()
    now, waits = 0.0, []
    for _ in range(7):
        asked = next_question(schedule, now)
        waits.append(round(asked - now, 2))
        schedule.failed(asked)
        now = asked
    assert waits == [0, 0.5, 1, 2, 4, 8, 10]
    schedule.allocated(["GPU-1"], now)
    assert next_question(schedule, now) == round(now + 0.1, 2)
