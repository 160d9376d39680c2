"""Other queues and limits while the queues work: what may change, and what it takes."""

from __future__ import annotations

from collections.abc import Mapping

from fakedev.workqueue.ledger import Ledger
from fakedev.workqueue.queue import Queue
from fakedev.workqueue.spec import BrokerSpec, Refused
from fakedev.workqueue.statistics import QueueStatistics


def check_change(queues: Mapping[str, Queue], before: BrokerSpec, after: BrokerSpec) -> list[Queue]:
    """Whether one can go over from one specification to the other.

    :returns: the queues that will go.
    :raises Refused: ``busy``, when such a queue has jobs; ``bad-argument``, when the maxima or what they and rates
        cover would change.
    """
    for name in ("window_seconds", "maxima", "interval_seconds"):
        if getattr(after, name) != getattr(before, name):
            raise Refused("bad-argument", f"{name.removesuffix('_seconds')} cannot be changed while queues work")
    gone = _gone(queues, after)
    for queue in gone:
        left = queue.waiting.count + len(queue.running) + len(queue.buried)
        if left:
            raise Refused("busy", f"queue '{queue.spec.name}' cannot go: jobs wait, run or lie buried there ({left})")
    return gone


def change_queues(queues: dict[str, Queue], ledger: Ledger, after: BrokerSpec, now: float) -> None:
    """Make the queues those of another specification; those that stay keep what they have.

    Who waits for work of a queue that goes is told nothing().
    """
    for queue in _gone(queues, after):
        for wait in queue.waits.all():
            ledger.remove_wait(wait)
            wait.worker.nothing(wait.queue, wait.ticket)
        ledger.deadlines.clear(queue)
    before = dict(queues)
    # Others look into the same mapping.
    queues.clear()
    for each in after.queues:
        queue = before.get(each.name) or Queue(each, QueueStatistics(after, now))
        queue.spec = each
        queues[each.name] = queue


def _gone(queues: Mapping[str, Queue], after: BrokerSpec) -> list[Queue]:
    names = {queue.name for queue in after.queues}
    return [queue for name, queue in queues.items() if name not in names]
