"""Reload: read the configuration again, check everything, go over to it as one event at a tick boundary.

What of a configuration no reload can change: for that the program must be started again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final

from twisted.internet.defer import Deferred, DeferredLock, succeed
from twisted.logger import Logger

from fakedev.app.ports import Ports
from fakedev.app.queues import WorkQueues
from fakedev.config.configuration import Configuration
from fakedev.config.listen import ListenAddress
from fakedev.config.schema.nodes import ConfigurationError
from fakedev.net.system.listening import CannotListen, Listeners
from fakedev.net.system.threads import call_in_thread
from fakedev.net.web.own_metrics import ReloadStatistics
from fakedev.net.web.probes import ReloadFailed
from fakedev.sim.compiled import CompiledFleet
from fakedev.sim.events import Reload
from fakedev.sim.fleet import Fleet
from fakedev.spec.errors import Refused
from fakedev.spec.record_head import RecordHead


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

#: Reads the configuration from where it was read at the start; blocks.
ReadAgain = Callable[[], tuple[Configuration, RecordHead]]
#: Ticks that come more slowly than this are not waited for with the answer.
_LONGEST_WAIT_SECONDS: Final = 5.0


@dataclass
class InUse:
    """The configuration that the program works by."""

    configuration: Configuration


class Reloader:
    """The configuration of a running program, and the way to another.

    :param read: None: there is no file, as in the drop-ins.
    :param web, workloads: their addresses.
    :param follow: what shows the devices goes over to the new ones.
    :param tell: tells people what is where, when another configuration is in use.
    :ivar statistics: of reloads, for our own metrics.
    """

    log = Logger()

    def __init__(
        self,
        read: ReadAgain | None,
        in_use: InUse,
        head: RecordHead,
        fleet: Fleet,
        follow: Callable[[Configuration], None],
        web: Ports[Any],
        workloads: Ports[Any],
        queues: WorkQueues | None,
        listeners: Listeners,
        tell: Callable[[], None],
        reactor: Any,
    ) -> None:
        self._read = read
        self._in_use = in_use
        self._fleet = fleet
        self._follow = follow
        self._web = web
        self._workloads = workloads
        self._queues = queues
        self._listeners = listeners
        self._tell = tell
        self._reactor = reactor
        self._lock = DeferredLock()
        self._pending: tuple[Configuration, RecordHead, CompiledFleet] | None = None
        self._done: Deferred[None] | None = None
        self._once_more = False
        self._files = _files(head)
        self.statistics = ReloadStatistics(True, head.epoch_seconds, file_hash(head))

    def files(self) -> list[str]:
        """The files that the configuration was read from, its own first."""
        return self._files

    def again(self) -> Deferred[None]:
        """Reload because of SIGHUP, or of a file that has changed: the log tells the outcome.

        While another reload waits for its tick, this one comes after that: nobody would ask again.
        """
        return self._lock.run(self._again)

    def _again(self) -> Deferred[None]:
        if self._pending is not None:
            self._once_more = True
            return succeed(None)
        reloaded = Deferred.fromCoroutine(self._counted())
        return reloaded.addCallbacks(lambda _: None, lambda failure: failure.trap(ReloadFailed) and None)

    def reload(self) -> Deferred[dict[str, Any]]:
        """Read the configuration again; one after the other, when that is asked for several times.

        :returns: fires with what is told to people, when the new configuration is in use or soon will be; fails with
            ReloadFailed, and all is as it was.
        """
        return self._lock.run(lambda: Deferred.fromCoroutine(self._counted()))

    def ticked(self) -> None:
        """A tick was done: if the fleet has gone over to another configuration in it, all else does now."""
        if self._pending is None or self._fleet.compiled is not self._pending[2]:
            return
        (configuration, head, _), self._pending = self._pending, None
        self._in_use.configuration = configuration
        self._follow(configuration)
        if self._queues is not None and configuration.queues is not None:
            self._queues.reconfigure(configuration.queues)
        self._web.finish(configuration.web)
        self._workloads.finish(configuration.workloads.listen)
        self.statistics.sha256 = file_hash(head)
        self.log.info("the configuration was reloaded")
        self._tell()
        done, self._done = self._done, None
        if done is not None:
            done.callback(None)
        if self._once_more:
            self._once_more = False
            self.again()

    async def _counted(self) -> dict[str, Any]:
        try:
            outcome = await self._reload()
        except ReloadFailed as failure:
            self.statistics.successful = False
            self.statistics.failed += 1
            for line in str(failure).splitlines():
                self.log.error("the configuration stays as it is: {line}", line=line, log_unlimited=True)
            raise
        self.statistics.successful = True
        self.statistics.succeeded_at = self._reactor.seconds()
        self.statistics.good += 1
        return outcome

    async def _reload(self) -> dict[str, Any]:
        if self._pending is not None:
            raise ReloadFailed("the reload before this one takes effect with the next tick", is_ours=True)
        try:
            configuration, head, compiled = await call_in_thread(self._reactor, self._prepared)
            self._check(configuration, compiled)
            self._files = _files(head)
            self._web.begin(configuration.web, self._listeners)
            self._workloads.begin(configuration.workloads.listen, self._listeners)
            if self._queues is not None and configuration.queues is not None:
                self._queues.begin(configuration.queues, self._listeners)
        except (ConfigurationError, CannotListen, Refused, ReloadFailed) as reason:
            self._undo()
            raise ReloadFailed(str(reason)) from None
        except Exception:
            self._undo()
            self.log.failure("a reload failed by an error of ours")
            raise ReloadFailed("an error of ours, which the log has", is_ours=True) from None
        self._pending = configuration, head, compiled
        self._done = Deferred()
        stamped = self._fleet.apply(Reload(compiled, head))
        outcome = {
            "tick": stamped.tick + 1,
            "fleet": compiled.roster.summary,
            "sha256": file_hash(head),
            "notes": list(configuration.notes),
        }
        spec, speed = self._fleet.spec, configuration.speed
        waits = speed and spec.tick_seconds / speed <= _LONGEST_WAIT_SECONDS
        await (self._done if waits else succeed(None))
        return outcome

    def _prepared(self) -> tuple[Configuration, RecordHead, CompiledFleet]:
        """Read and make all that takes long; in a thread."""
        if self._read is None:
            raise ReloadFailed("this program was started without a configuration file")
        configuration, head = self._read()
        epoch = self._fleet.spec.epoch_seconds
        if configuration.epoch_is_start:
            configuration = replace(configuration, fleet=replace(configuration.fleet, epoch_seconds=epoch))
        compiled = CompiledFleet(configuration.fleet)
        compiled.moves_from(self._fleet.roster)
        return configuration, replace(head, epoch_seconds=epoch), compiled

    def _check(self, configuration: Configuration, compiled: CompiledFleet) -> None:
        now = replace(self._in_use.configuration, fleet=self._fleet.spec)
        reasons = restart_reasons(now, configuration)
        if reasons:
            raise ReloadFailed("\n".join(reasons))
        self._fleet.check_can_reload(compiled)

    def _undo(self) -> None:
        self._web.undo()
        self._workloads.undo()
        if self._queues is not None:
            self._queues.undo()


def _files(head: RecordHead) -> list[str]:
    """The files of a configuration that are not ours."""
    others = [path for path in head.files if os.path.isabs(path) and path != head.config]
    return others if head.config is None else [head.config, *others]


def file_hash(head: RecordHead) -> str:
    """The SHA-256 of the configuration's file, as ``sha256sum`` prints it; of the demo when there is no file."""
    if head.text is not None:
        text = head.text
    else:
        text = head.files.get(head.config or "demo:demo.yaml", "")
    return sha256(text.encode()).hexdigest()
