"""What of a configuration a running program cannot change: such a reload is refused, with the keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from fakedev.config.configuration import Configuration, Kubernetes, Queues
from fakedev.spec.listen_address import ListenAddress

#: The value of each key that needs a restart. doc/reload.md has the same keys.
OF_ALL: Final[Mapping[str, Callable[[Configuration], object]]] = {
    "fleet.seed": lambda configuration: configuration.fleet.seed,
    "fleet.shard": lambda configuration: configuration.fleet.shard,
    "fleet.tick": lambda configuration: configuration.fleet.tick_seconds,
    "fleet.speed": lambda configuration: configuration.speed,
    "fleet.epoch": lambda configuration: configuration.fleet.epoch_seconds,
    "watch": lambda configuration: configuration.watch,
    "log": lambda configuration: configuration.logging,
    "tester": lambda configuration: (configuration.plans, configuration.reports),
    "journal": lambda configuration: configuration.journal,
    "state": lambda configuration: configuration.state,
    "hpc-jobs": lambda configuration: configuration.hpc_jobs,
    "nvml": lambda configuration: configuration.nvml,
    "kubernetes": lambda configuration: _without_ports(configuration.kubernetes),
}
#: The same of the queues, while there are some.
OF_QUEUES: Final[Mapping[str, Callable[[Queues], object]]] = {
    "queues.window": lambda queues: queues.broker.window_seconds,
    "queues.maxima": lambda queues: queues.broker.maxima,
    "queues.log-interval": lambda queues: queues.log_interval_seconds,
    "queues.drain": lambda queues: queues.drain_seconds,
}


def restart_reasons(now: Configuration, after: Configuration) -> Iterator[str]:
    """The changes that a running program cannot apply, a line each."""
    changed = [key for key, value in OF_ALL.items() if value(now) != value(after)]
    if now.queues is not None and after.queues is not None:
        changed += [key for key, of_queues in OF_QUEUES.items() if of_queues(now.queues) != of_queues(after.queues)]
        before, then = _logs(now.queues), _logs(after.queues)
        changed += [
            f"queues.names.{name}.durable" for name in before | then if before.get(name, "") != then.get(name, "")
        ]
    for key in changed:
        yield f"{key}: has changed, which needs a restart"
    if (now.queues is None) != (after.queues is None):
        what = "the first queue comes" if now.queues is None else "the last queue goes"
        yield f"queues: {what}, which needs a restart"
    sockets = {address.path: address for address in _addresses(now) if address.path}
    for address in _addresses(after):
        if sockets.get(address.path, address) != address:
            yield f"{address.path}: mode or group of the socket have changed, which needs a restart"


def _logs(queues: Queues) -> dict[str, str]:
    """The folder of each queue, by its name; empty for a queue that is not durable."""
    return {queue.name: queue.durable for queue in queues.broker.queues}


def _addresses(configuration: Configuration) -> Iterator[ListenAddress]:
    yield from [endpoint.listen for endpoint in configuration.web]
    yield from [listen.listen for listen in configuration.workloads.listen]
    if configuration.queues is not None:
        yield from [entry.listen for entry in (*configuration.queues.clients, *configuration.queues.backends)]


def _without_ports(kubernetes: Kubernetes | None) -> object:
    return None if kubernetes is None else replace(kubernetes, listen=())
