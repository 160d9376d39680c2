"""Reload of the configuration of queues: which changes are allowed, and how they are made."""

from __future__ import annotations

from collections.abc import Mapping

from fakedev.spec.errors import Refused
from fakedev.workqueue.ledger import Ledger
from fakedev.workqueue.queue import Queue
from fakedev.workqueue.spec import BrokerSpec
from fakedev.workqueue.statistics import QueueStatistics


def check_change(queues: Mapping[str, Queue], before: BrokerSpec, after: BrokerSpec) -> list[Queue]:
    """Check that the queues can be reloaded with another specification.

    :returns: the queues to remove.
    :raises Refused: ``busy``, if a queue to remove has jobs; ``bad-argument``, if the kind of maxima or the time that
        maxima and rates cover would change.
    """
    for name in ("window_seconds", "maxima", "interval_seconds"):
        if getattr(after, name) != getattr(before, name):
            raise Refused("bad-argument", f"{name.removesuffix('_seconds')} cannot change while the queues are in use")
    removed = _removed(queues, after)
    for queue in removed:
        jobs = queue.waiting.count + len(queue.running) + len(queue.buried)
        if jobs:
            raise Refused(
                "busy", f"queue '{queue.spec.name}' cannot be removed: it has {jobs} waiting, running or buried jobs"
            )
    return removed


def change_queues(queues: dict[str, Queue], ledger: Ledger, after: BrokerSpec, now: float) -> None:
    """Replace the queues by those of another specification. Remaining queues keep their jobs and statistics.

    Waits for jobs of a removed queue expire.
    """
    for queue in _removed(queues, after):
        for wait in queue.waits.all():
            ledger.remove_wait(wait)
            wait.worker.wait_expired(wait.queue, wait.ticket)
        ledger.deadlines.clear(queue)
    before = dict(queues)
    # The ledger and others share this mapping.
    queues.clear()
    for each in after.queues:
        queue = before.get(each.name) or Queue(each, QueueStatistics(after, now))
        queue.spec = each
        queues[each.name] = queue


def _removed(queues: Mapping[str, Queue], after: BrokerSpec) -> list[Queue]:
    names = {queue.name for queue in after.queues}
    return [queue for name, queue in queues.items() if name not in names]
