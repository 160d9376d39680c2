"""What holds a queue up, in one line."""

from __future__ import annotations

from typing import Any

import pytest

from fakedev.queues.diagnosis import queue_diagnosis, queue_line

IDLE = {"queue": "q", "state": "open", "waiting": 0, "running": 0, "workers-idle": 0, "workers-busy": 0}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"state": "paused,draining", "waiting": 3}, "it is paused"),
        ({"state": "draining", "waiting": 3}, "new requests are refused"),
        ({}, "no worker waits for jobs of it"),
        ({"workers-idle": 1}, "nothing waits"),
        ({"waiting": 1}, "no worker takes jobs of it"),
        ({"waiting": 1, "silent-backends": 2}, "2 connected backends are silent"),
        ({"waiting": 1, "workers-idle": 1}, "workers are idle while jobs wait"),
        ({"waiting": 1, "running": 1, "workers-busy": 1, "services-per-second": 0.0}, "hang"),
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
