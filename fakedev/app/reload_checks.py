"""What of a configuration no reload can change: for that the program must be started again."""

from __future__ import annotations

from collections.abc import Iterator

from fakedev.config.configuration import Configuration
from fakedev.config.listen import ListenAddress


def restart_reasons(now: Configuration, after: Configuration) -> list[str]:
    """What has changed and cannot be taken over by a running program, a line each."""
    return list(_reasons(now, after))


def _reasons(now: Configuration, after: Configuration) -> Iterator[str]:
    simple: dict[str, tuple[object, object]] = {
        "fleet.seed": (now.fleet.seed, after.fleet.seed),
        "fleet.shard": (now.fleet.shard, after.fleet.shard),
        "fleet.tick": (now.fleet.tick_seconds, after.fleet.tick_seconds),
        "fleet.speed": (now.speed, after.speed),
        "fleet.epoch": (now.fleet.epoch_seconds, after.fleet.epoch_seconds),
        "watch": (now.watch, after.watch),
        "log": (now.logging, after.logging),
        "tester": ((now.plans, now.reports), (after.plans, after.reports)),
        "journal": (now.journal, after.journal),
    }
    if now.queues is not None and after.queues is not None:
        simple |= {
            "queues.window": (now.queues.broker.window_seconds, after.queues.broker.window_seconds),
            "queues.maxima": (now.queues.broker.maxima, after.queues.broker.maxima),
            "queues.log-interval": (now.queues.log_interval_seconds, after.queues.log_interval_seconds),
            "queues.drain": (now.queues.drain_seconds, after.queues.drain_seconds),
        }
    for key, (before, then) in simple.items():
        if before != then:
            yield f"{key}: has changed, which needs a restart"
    if (now.queues is None) != (after.queues is None):
        what = "the first queue comes" if now.queues is None else "the last queue goes"
        yield f"queues: {what}, which needs a restart"
    sockets = {address.path: address for address in _addresses(now) if address.path}
    for address in _addresses(after):
        if sockets.get(address.path, address) != address:
            yield f"{address.path}: mode or group of the socket have changed, which needs a restart"


def _addresses(configuration: Configuration) -> Iterator[ListenAddress]:
    yield from [endpoint.listen for endpoint in configuration.web]
    yield from [listen.listen for listen in configuration.workloads.listen]
    if configuration.queues is not None:
        yield from configuration.queues.clients
        yield from configuration.queues.backends
