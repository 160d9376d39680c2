"""All that pages and logs show of the queues, read when it is asked for."""

from __future__ import annotations

from typing import NamedTuple

from fakedev.net.queues.backend_port import QueueBackendFactory
from fakedev.net.queues.client_port import QueueClientFactory
from fakedev.net.queues.hub import QueueHub
from fakedev.workqueue.broker import QueueSnapshot
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
    """The figures of all queues and of their ports.

    :ivar broker: the queues.
    """

    def __init__(self, hub: QueueHub, clients: QueueClientFactory, backends: QueueBackendFactory) -> None:
        self.broker = hub.broker
        self._hub = hub
        self._clients = clients
        self._backends = backends

    @property
    def spec(self) -> BrokerSpec:
        """What the configuration says of the queues."""
        return self.broker.spec

    def of(self, name: str) -> QueueFigure:
        """One queue that there is."""
        seconds = self._hub.now()
        return QueueFigure(seconds, self.broker.snapshot(name, seconds), self.broker.statistics(name))

    def all(self) -> list[QueueFigure]:
        """Every queue, in the order of the configuration."""
        return [self.of(name) for name in self.broker.queue_names]

    def client_connections(self) -> int:
        """How many connections clients have made."""
        return self._clients.accepted

    def backend_connections(self) -> int:
        """How many connections backends have made."""
        return self._backends.accepted
