"""What holds a queue up, in one line."""

from __future__ import annotations

from typing import Any

import pytest
from zope.interface import implementer

from fakedev.queues.diagnosis import overdue, queue_diagnosis, queue_line
from fakedev.queues.job import IWorker, Job

IDLE = {"queue": "q", "state": "open", "waiting": 0, "running": 0, "workers-idle": 0, "workers-busy": 0}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"state": "paused,draining", "waiting": 3}, "it is paused"),
        ({"state": "draining", "waiting": 3}, "new requests are refused"),
        ({}, "no worker waits for its jobs"),
        ({"workers-idle": 1}, "nothing waits"),
        ({"waiting": 1}, "no worker takes its jobs"),
        ({"waiting": 1, "silent-backends": 2}, "2 connected backends are silent"),
        ({"waiting": 1, "workers-idle": 1}, "workers are idle while jobs wait"),
        ({"waiting": 1, "running": 1, "workers-busy": 1, "services-per-second": 0.0}, "hang"),
        (
            {"waiting": 1, "running": 2, "workers-busy": 2, "services-per-second": 0.3, "overdue": 2,
             "overdue-seconds": 32.2, "overdue-on": "node a, pod p"},
            "2 of 2 running jobs take much longer than those that ended lately, 32 s: they, or their workers, hang "
            "(the first of them on node a, pod p)",
        ),
        ({"running": 1, "workers-idle": 1, "overdue": 1, "overdue-seconds": 9.0, "overdue-on": ""}, "1 of 1 running"),
        ({"waiting": 1, "workers-busy": 1, "oldest-seconds": 89.4}, "the oldest request has waited 89 s"),
        (
            {"waiting": 9, "workers-busy": 1, "services-per-second": 1.0, "arrivals-per-second": 2.0},
            "it needs more workers",
        ),
        ({"waiting": 9, "workers-busy": 1, "services-per-second": 2.0, "arrivals-per-second": 1.0}, "it gets shorter"),
    ],
)  # fmt: skip
def test_diagnosis(changes: dict[str, Any], text: str) -> None:
    """The first reason that there is."""
    assert text in queue_diagnosis(IDLE | changes)
    assert queue_line(IDLE | changes).startswith("q is ")


@implementer(IWorker)
class Worker:
    """Where jobs run."""

    node, pod, device = "a", "", ""

    def offered(self, job: Job, ticket: object) -> None:
        """Not used."""


def test_overdue() -> None:
    """Those that have run for three times the longest run that ended, and for five seconds; the longest one first."""
    jobs = [
        Job(number, "q", (), 0.0, 1, is_large=False, client=None, ticket=None, put_seconds=0.0, taken_seconds=taken,
            worker=Worker())
        for number, taken in enumerate((60.0, 80.0, 95.0))
    ]  # fmt: skip
    assert overdue(jobs, 100.0, 2.0) == {"overdue": 2, "overdue-seconds": 40.0, "overdue-on": "node a"}
    assert overdue(jobs, 100.0, 10.0)["overdue"] == 1
    assert overdue(jobs, 100.0, 0.0) == {"overdue": 0, "overdue-seconds": 0.0, "overdue-on": ""}
