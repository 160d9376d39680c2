"""The work queues of the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from fakedev.config.configuration import Queues
from fakedev.config.endpoints import Endpoints
from fakedev.config.queue_keys import QUEUE
from fakedev.config.schema.nodes import Report
from fakedev.config.schema.schema import Values
from fakedev.workqueue.spec import BrokerSpec, QueueSpec

#: One request may be as long as a line of the protocol; the memory must hold at least one.
MIN_BYTES: Final = 2**17
#: A page of so many queues is made in some ten milliseconds, in which nobody else is served.
MAX_QUEUES: Final = 100


def load_queues(values: Values, endpoints: Endpoints, report: Report) -> Queues | None:
    """The queues and their ports; what is wrong is reported.

    :returns: None when no queue is named.
    """
    names = tuple(_named(values, report))
    if not names:
        for key in values:
            if key != "names" and values.given(key) and not values.given("names"):
                report.problem(values.place_of(key), f"queues.{key}: there are no queues: give them in queues.names")
        return None
    if len(names) > MAX_QUEUES:
        report.problem(values.place_of("names"), f"queues.names: {len(names)} queues, and {MAX_QUEUES} are the most")
    if values["max-bytes"] < MIN_BYTES:
        report.problem(values.place_of("max-bytes"), f"queues.max-bytes: must be at least {MIN_BYTES // 1024}KiB")
    interval = values["log-interval"]
    if values["maxima"] == "interval" and not interval:
        report.problem(values.place_of("maxima"), "queues.maxima: interval needs the interval: give log-interval")
    broker = BrokerSpec(
        names,
        max_bytes=int(values["max-bytes"]),
        window_seconds=values["window"],
        maxima=values["maxima"],
        interval_seconds=interval,
    )
    return Queues(
        broker,
        endpoints.queues(values["listen-clients"], "put requests into the queues"),
        endpoints.queues(values["listen-backends"], "take the requests of the queues"),
        log_interval_seconds=interval,
        drain_seconds=values["drain"],
        max_connections=values["max-connections"],
        message_seconds=values["message-timeout"],
    )


def _named(values: Values, report: Report) -> Iterator[QueueSpec]:
    names = values["names"]
    if isinstance(names, Mapping):
        for name, said in names.items():
            yield _queue(name, said)
        return
    for place, name in enumerate(names):
        if name in names[:place]:
            report.problem(values.place_of("names"), f"queues.names: the queue {name!r} is there twice")
        else:
            yield _queue(name, QUEUE.empty(values.place))


def _queue(name: str, values: Values) -> QueueSpec:
    return QueueSpec(
        name,
        max_waiting=values["max-waiting"],
        retries=values["retries"],
        run_time_limit_seconds=values["run-time-limit"],
        grace_seconds=values["grace"],
    )
