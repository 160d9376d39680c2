"""The original's rows, as they were captured."""

from __future__ import annotations

from fakedev.queues.job import Answer, Outcome
from fakedev.tester.report import original_nodes_text, original_pods_text, original_statistics_text
from fakedev.tester.statistics import Statistics

BAR = "#" * 60
STATISTICS = """

Overall request / reply statistics
==================================

Sending 2 requests in parallel.

2 pending, 9 failed and 19 successful requests in 7.1 seconds.
= 2.68 successfully completed requests / second.

Max / average / min timings (in seconds, for successful requests):
- 0.2 / 0.2 / 0.2 - backend run time
- 0.1 / 0.1 / 0.1 - queue wait time
- 0.012 / 0.012 / 0.012 - communication overhead

HTTP queries: 1 completed, 1 rejected in total.
"""
NODES = f"""

Backend / worker node statistics
================================

  Node | Success replies:
-------+-----------------
node-a | {BAR} 100.0% (19)

  Node | Failure replies:
-------+-----------------
node-a | {BAR} 100.0% (9)


Node: node-a
============

Device | Completed requests:
--+--------------------
. | {BAR} 100.0% (19)

Node errors (count / description):
- 9: /opt/job.sh returned error code 3
"""
PODS = f"""

Per-node backend / worker pod statistics
========================================


Node: node-a
============

  Pod | Completed requests:
------+--------------------
pod-a | {BAR} 100.0% (19)
"""


def captured() -> Statistics:
    """The run that was captured, with even times; the failed requests took longer."""
    statistics = Statistics(100.0)
    for number in range(30):
        ticket = statistics.started(100.0, 100.0)
        if number < 19:
            answer = Answer(Outcome.SUCCESS, 0, "", 0.0, 0.2, 0.1, "pod-a", "node-a", ".")
            statistics.answered(ticket, answer, 100.312)
        elif number < 28:
            error = "/opt/job.sh returned error code 3"
            answer = Answer(Outcome.FAILURE, 3, error, 0.0, 5.0, 1.0, "pod-a", "node-a", ".")
            statistics.answered(ticket, answer, 107.0)
    return statistics


def test_the_captured_pages() -> None:
    """To the byte; the times are those of the successes alone."""
    statistics = captured()
    assert original_statistics_text(statistics, 107.1, 2, 1, 1) == STATISTICS
    assert original_nodes_text(statistics) == NODES
    assert original_pods_text(statistics) == PODS


def test_after_a_reset() -> None:
    """Without any request, the rows of rates and times are missing."""
    statistics = captured()
    statistics.reset(200.0)
    lines = original_statistics_text(statistics, 200.0, 2, 3, 0).splitlines()
    assert lines[5:] == [
        "Sending 2 requests in parallel.",
        "",
        "0 pending, 0 failed and 0 successful requests in 0.0 seconds.",
        "",
        "HTTP queries: 3 completed, 0 rejected in total.",
    ]
    assert original_nodes_text(statistics).split() == ["Backend", "/", "worker", "node", "statistics", "=" * 32]
