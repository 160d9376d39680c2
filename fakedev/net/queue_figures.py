"""All that pages and logs show of the queues, read when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fakedev.workqueue.broker import Broker, QueueSnapshot
from fakedev.workqueue.spec import BrokerSpec
from fakedev.workqueue.statistics import QueueStatistics


class QueueFigure(NamedTuple):
    """One queue.

    :param seconds: the time by the broker's clock.
    :param now: how it is.
    :param counted: what was counted of it.
    """

    seconds: float
    now: QueueSnapshot
    counted: QueueStatistics


class QueueFigures:
    """The figures of all queues.

    :param seconds: the time by the broker's clock.
    :param client_connections: how many connections clients have made.
    :param backend_connections: how many connections backends have made.
    """

    def __init__(
        self,
        broker: Broker,
        seconds: Callable[[], float],
        client_connections: Callable[[], int],
        backend_connections: Callable[[], int],
    ) -> None:
        self._broker = broker
        self._seconds = seconds
        self.client_connections = client_connections
        self.backend_connections = backend_connections

    @property
    def spec(self) -> BrokerSpec:
        """What the configuration says of the queues."""
        return self._broker.spec

    @property
    def names(self) -> tuple[str, ...]:
        """The queues in the order of the configuration."""
        return self._broker.queue_names

    def of(self, name: str) -> QueueFigure:
        """One queue that there is."""
        seconds = self._seconds()
        return QueueFigure(seconds, self._broker.snapshot(name, seconds), self._broker.statistics(name))

    def all(self) -> list[QueueFigure]:
        """Every queue."""
        return [self.of(name) for name in self.names]
