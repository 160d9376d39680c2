"""Reload: read the configuration again, check everything, and apply it as one event at a tick boundary.

A reload that changes what a running program cannot change is refused, with the keys that need a restart.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from fakedev.base.errors import Refused
from fakedev.config.configuration import Configuration
from fakedev.config.start import record_head
from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.events import Reload, Stamped, with_nodes_of
from fakedev.fleet.spec.limits import RecordHead
from fakedev.queues.settings import Queues
from fakedev.runtime.announcement import Announcement
from fakedev.runtime.disk import FileFollower
from fakedev.runtime.listening import CannotListen, Listeners, is_out_of_descriptors
from fakedev.runtime.memory import without_examination
from fakedev.runtime.part import IReloadable, Part, parts_of
from fakedev.runtime.reactor import IReactor
from fakedev.runtime.signals import HangupService
from fakedev.runtime.systemd import SystemdNotifier
from fakedev.runtime.threads import call_in_thread
from fakedev.schema.addresses import ListenAddress
from fakedev.schema.declare import restart_keys
from fakedev.schema.files import DEMO_FILE
from fakedev.schema.places import ConfigurationError
from fakedev.service.fleet_part import FleetPart
from fakedev.web.metrics import Group, labelled
from fakedev.web.probes import ReloadFailed

if TYPE_CHECKING:
    from fakedev.scenario.settings import LoadedScenario


def restart_reasons(now: Configuration, after: Configuration) -> Iterator[str]:
    """The changes that a running program cannot apply, a line each."""
    changed = [*dict.fromkeys(restart_keys(now, after))]
    if now.queues is not None and after.queues is not None:
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


#: The answer to a request for a reload does not wait for a tick that takes longer than this.
_LONGEST_WAIT_SECONDS: Final = 5.0


#: The section of the configuration that each reloadable part takes, by the part's name.
SECTIONS: Final[Mapping[str, Callable[[Configuration], Any]]] = {
    "exporters": lambda configuration: configuration.identities,
    "web-configs": Configuration.web_config_sources,
    "web": lambda configuration: configuration,
    "workloads": lambda configuration: configuration.workloads,
    "queues": lambda configuration: configuration.queues,
    "kubernetes": lambda configuration: configuration.kubernetes,
}


@dataclass
class ReloadStatistics:
    """The last load of the configuration.

    :ivar succeeded_at: the time of the last successful load, in seconds since the Unix epoch.
    :ivar sha256: the SHA-256 of the file in use, in hexadecimal digits.
    :ivar good, failed: the numbers of reloads.
    """

    successful: bool = True
    succeeded_at: float = 0.0
    sha256: str = ""
    good: int = 0
    failed: int = 0


class Reloader(Part):
    """The configuration of a running program, and its reloads, also by SIGHUP and when its files change.

    :param notifier: notifies systemd of reloads.
    :ivar statistics: of reloads, for our own metrics.
    """

    log = Logger()

    def __init__(
        self, fleet: FleetPart, listeners: Listeners, announcement: Announcement, notifier: SystemdNotifier | None,
        reactor: IReactor,
    ) -> None:  # fmt: skip
        run = fleet.run
        self.statistics = ReloadStatistics(True, run.head.epoch_seconds, file_hash(run.head))
        self._read = run.read_again
        self._files = _files(run.head)
        self._part = fleet
        self._fleet = fleet.fleet
        self._listeners = listeners
        self._announcement = announcement
        self._notifier = notifier
        self._reactor = reactor
        #: Callers waiting for the next (shared) reload, and whether it came from SIGHUP.
        self._waiting: dict[Deferred[dict[str, Any]], bool] = {}
        self._is_running = False
        #: The configuration that the fleet takes with its next tick, and what fires when it is in use everywhere.
        self._pending: tuple[Configuration, RecordHead, Deferred[None]] | None = None
        is_watching = fleet.configuration.watch and self._files
        super().__init__("reload", [
            HangupService(reactor, self.again) if run.owns_process else None,
            FileFollower(self.files, self.again, reactor) if is_watching else None,
        ])  # fmt: skip

    def metrics(self) -> Mapping[str, Group]:
        return {"reload": partial(reload_metrics, self.statistics)}

    def files(self) -> list[str]:
        """The files that the configuration was read from, its own first."""
        return self._files

    def again(self) -> Deferred[None]:
        """Reload because of SIGHUP or a changed file; the outcome is logged.

        While another reload waits for its tick, this one runs after it, because no further signal would follow.
        """
        joined = self._join(is_signal=True)
        return joined.addCallbacks(lambda _: None, lambda failure: failure.trap(ReloadFailed) and None)

    def reload(self) -> Deferred[dict[str, Any]]:
        """Read and apply the configuration.

        At most one reload runs and one waits; further calls join the one that waits, and get its answer. A call that
        is cancelled while it waits is dropped.

        :returns: fires with the answer to the user, when the new configuration is in use or soon will be; fails with
            ReloadFailed, and nothing has changed.
        """
        return self._join(is_signal=False)

    def _join(self, is_signal: bool) -> Deferred[dict[str, Any]]:
        done: Deferred[dict[str, Any]] = Deferred(self._drop)
        self._waiting[done] = is_signal
        self._run_next()
        return done

    def _drop(self, cancelled: Deferred[dict[str, Any]]) -> None:
        self._waiting.pop(cancelled, None)

    def _run_next(self) -> None:
        if self._is_running:
            return
        # While the previous reload waits for its tick, clients get an error, and signals wait, too.
        served = [call for call, is_signal in self._waiting.items() if self._pending is None or not is_signal]
        for call in served:
            del self._waiting[call]
        if served:
            self._is_running = True
            Deferred.fromCoroutine(self._counted()).addBoth(self._ran, served)

    def _ran(self, outcome: object, served: Sequence[Deferred[dict[str, Any]]]) -> None:
        self._is_running = False
        for done in served:
            if not done.called:  # else its client left while the reload ran
                done.callback(outcome)  # type: ignore[arg-type]  # a Failure too
        self._run_next()

    def ticked(self) -> None:
        """A tick has ended: if the fleet has applied a new configuration in it, apply it everywhere else."""
        if self._pending is None or self._fleet.source is not self._pending[1]:
            return
        (configuration, head, done), self._pending = self._pending, None
        self._part.configuration = configuration
        for part, section in self._sections(configuration):
            part.finish(section)
        self.statistics.sha256 = file_hash(head)
        self.log.info("the configuration was reloaded")
        # In a turn of its own: it reads and writes files, and a tick with new ports takes its time already.
        self._reactor.callLater(0, self._announce, done)

    def _announce(self, done: Deferred[None]) -> None:
        if self.running:
            self._announcement.announce()
        done.callback(None)
        self._run_next()

    async def _counted(self) -> dict[str, Any]:
        if self._notifier is not None:
            self._notifier.reloading()
        try:
            outcome = await self._reload()
        except ReloadFailed as failure:
            self.statistics.successful = False
            self.statistics.failed += 1
            for line in str(failure).splitlines():
                self.log.error("the configuration stays as it is: {line}", line=line)
            raise
        finally:
            if self._notifier is not None:
                self._notifier.reloaded()
        self.statistics.successful = True
        self.statistics.succeeded_at = self._reactor.seconds()
        self.statistics.good += 1
        return outcome

    async def _reload(self) -> dict[str, Any]:
        if self._pending is not None:
            raise ReloadFailed("the reload before this one takes effect with the next tick", is_ours=True)
        try:
            prepared = partial(self._prepared, self._fleet.compiled)
            configuration, head, compiled = await call_in_thread(self._reactor, prepared)
        except Exception as reason:
            raise self._failure(reason) from None
        stamped, done = self._begin(configuration, head, compiled)
        outcome = {
            "tick": stamped.tick + 1,
            "fleet": compiled.roster.summary,
            "sha256": file_hash(head),
            "notes": list(configuration.notes),
        }
        speed = self._part.ticker.speed
        if speed and self._fleet.spec.tick_seconds / speed <= _LONGEST_WAIT_SECONDS:
            await done
        return outcome

    def use(self, configuration: Configuration, head: RecordHead) -> None:
        """Use a configuration from the next tick on.

        :raises ReloadFailed: when that is not possible; nothing has changed.
        """
        if self._pending is not None:
            raise ReloadFailed("the reload before this one takes effect with the next tick")
        configuration, head, compiled = self._compiled(self._fleet.compiled, configuration, head)
        self._begin(configuration, head, compiled)

    def _begin(
        self, configuration: Configuration, head: RecordHead, compiled: CompiledFleet
    ) -> tuple[Stamped, Deferred[None]]:
        """Open the addresses that a configuration adds, prepare all parts, and pass it to the fleet.

        :returns: the event, and what fires when the configuration is in use everywhere.
        :raises ReloadFailed: when that is not possible; nothing has changed.
        """
        try:
            self._check(configuration, compiled)
            for part, section in self._sections(configuration):
                part.begin(section, self._listeners)
            stamped = self._fleet.apply(Reload(compiled, head))
        except Exception as reason:
            for part, _ in self._sections(configuration):
                part.undo()
            raise self._failure(reason) from None
        self._files = _files(head)
        done: Deferred[None] = Deferred()
        self._pending = (configuration, head, done)
        return stamped, done

    def _failure(self, reason: Exception) -> ReloadFailed:
        """The error that users see when a reload is not possible; an internal error is logged."""
        if isinstance(reason, ReloadFailed):
            return reason
        if isinstance(reason, ConfigurationError | Refused | CannotListen):
            return ReloadFailed(str(reason))
        if is_out_of_descriptors(reason):
            return ReloadFailed("no file descriptors are left: try again later", is_ours=True)
        self.log.failure("a reload failed by an internal error")
        return ReloadFailed("an internal error; the log has the details", is_ours=True)

    def _prepared(self, now: CompiledFleet) -> tuple[Configuration, RecordHead, CompiledFleet]:
        """Read and compile the configuration; runs in a thread because it takes long, so it does not use the fleet.

        :param now: the compiled configuration in use.
        """
        if self._read is None:
            raise ReloadFailed("this program was started without a configuration file")
        with without_examination():
            return self._compiled(now, *self._read())

    def _compiled(
        self, now: CompiledFleet, configuration: Configuration, head: RecordHead
    ) -> tuple[Configuration, RecordHead, CompiledFleet]:
        """A configuration with the epoch and the cluster's nodes of the running fleet, its head, and the result."""
        epoch = now.spec.epoch_seconds
        if configuration.epoch_is_start:
            configuration = replace(configuration, fleet=replace(configuration.fleet, epoch_seconds=epoch))
        configuration = replace(configuration, fleet=with_nodes_of(configuration.fleet, now.spec))
        compiled = CompiledFleet.taken(configuration.fleet, configuration.compiled)
        compiled.reindex_from(now.roster)
        return configuration, replace(head, epoch_seconds=epoch), compiled

    def _check(self, configuration: Configuration, compiled: CompiledFleet) -> None:
        now = replace(self._part.configuration, fleet=self._fleet.spec)
        reasons = list(restart_reasons(now, configuration))
        if reasons:
            raise ReloadFailed("\n".join(reasons))
        self._fleet.check_can_reload(compiled)

    def _sections(self, configuration: Configuration) -> Iterator[tuple[Any, Any]]:
        """The reloadable parts of the program, each with its section of a configuration."""
        for part in parts_of(self.parent):
            if IReloadable.providedBy(part):
                yield part, SECTIONS[part.name](configuration)


class ScenarioPart(Part):
    """Plays a scenario on the fleet of the service, which may use other configurations of it.

    :ivar live: how far it is.
    """

    def __init__(self, loaded: LoadedScenario, fleet: FleetPart, reloader: Reloader) -> None:
        from fakedev.scenario.live import LiveScenario  # noqa: PLC0415 - few services play one

        super().__init__("scenario")
        self._configurations = loaded.configurations
        self._reloader = reloader
        self.live = LiveScenario(loaded.scenario, fleet.fleet, fleet.ticker.set_speed, self._use)

    def before_tick(self) -> None:
        self.live.before_tick()

    def _use(self, number: int) -> None:
        configuration, files, path, overrides = self._configurations[number]
        self._reloader.use(configuration, record_head(configuration, files, config=path, overrides=overrides))


def _files(head: RecordHead) -> list[str]:
    """The files of a configuration, without those that come with fakedev."""
    others = [path for path in head.files if os.path.isabs(path) and path != head.config]
    return others if head.config is None else [head.config, *others]


def file_hash(head: RecordHead) -> str:
    """The SHA-256 of the configuration's file, as ``sha256sum`` prints it; of the demo when there is no file."""
    text = head.files.get(head.config or DEMO_FILE, "") if head.text is None else head.text
    return sha256(text.encode()).hexdigest()


def reload_metrics(reload: ReloadStatistics) -> Iterable[Metric]:
    """The configuration in use."""
    yield GaugeMetricFamily(
        "fakedev_config_last_reload_successful", "Whether the configuration was good when it was read last.",
        int(reload.successful),
    )  # fmt: skip
    yield GaugeMetricFamily(
        "fakedev_config_last_reload_success_timestamp_seconds", "When a good configuration was read last.",
        reload.succeeded_at,
    )  # fmt: skip
    yield labelled(
        GaugeMetricFamily, "fakedev_config_info", "The configuration in use, always 1: the SHA-256 of its file.",
        "sha256", {reload.sha256: 1},
    )  # fmt: skip
    counts = {"good": reload.good, "failed": reload.failed}
    yield labelled(CounterMetricFamily, "fakedev_config_reloads", "Requested reloads.", "result", counts)
