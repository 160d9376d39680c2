"""Reload: read the configuration again, check everything, and apply it as one event at a tick boundary."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from fakedev.app.ports import Reloadable
from fakedev.app.restart_reasons import restart_reasons
from fakedev.app.run import Run
from fakedev.config.configuration import Configuration
from fakedev.config.schema.files import DEMO_FILE
from fakedev.config.schema.nodes import ConfigurationError
from fakedev.net.system.descriptors import is_out_of_descriptors
from fakedev.net.system.listening import CannotListen, Listeners
from fakedev.net.system.notify import SystemdNotifier
from fakedev.net.system.threads import call_in_thread
from fakedev.net.web.own_metrics import ReloadStatistics
from fakedev.net.web.probes import ReloadFailed
from fakedev.sim.cluster_nodes import with_nodes_of
from fakedev.sim.compiled import CompiledFleet
from fakedev.sim.events import Reload, Stamped
from fakedev.sim.fleet import Fleet
from fakedev.spec.errors import Refused
from fakedev.spec.record_head import RecordHead

#: The answer to a request for a reload does not wait for a tick that takes longer than this.
_LONGEST_WAIT_SECONDS: Final = 5.0


class Reloader:
    """The configuration of a running program, and its reloads. :meth:`connect` must follow the construction.

    :ivar configuration: the one in use.
    :ivar statistics: of reloads, for our own metrics.
    """

    log = Logger()

    def __init__(
        self, run: Run, configuration: Configuration, fleet: Fleet, listeners: Listeners, reactor: Any
    ) -> None:
        self.configuration = configuration
        self.statistics = ReloadStatistics(True, run.head.epoch_seconds, file_hash(run.head))
        self._read = run.read_again
        self._files = _files(run.head)
        self._fleet = fleet
        self._listeners = listeners
        self._reactor = reactor
        self._parts: Sequence[Reloadable] = ()
        self._is_running = False
        #: The calls that wait for the next reload, which is one for all of them; and whether a signal made the call.
        self._waiting: dict[Deferred[dict[str, Any]], bool] = {}
        self._notifier: SystemdNotifier | None = None
        self._pending: tuple[Configuration, RecordHead] | None = None
        self._done: Deferred[None] | None = None
        self._once_more = False

    def connect(
        self,
        parts: Sequence[Reloadable],
        applied: Callable[[Configuration], None],
        announce: Callable[[], None],
        speed: Callable[[], float],
        notifier: SystemdNotifier | None = None,
    ) -> None:
        """Connect the reloader with the parts of the program.

        :param applied: called when the fleet has the new configuration, before the parts apply it.
        :param announce: called after that.
        :param speed: returns the present speed of the clock.
        :param notifier: tells systemd of reloads.
        """
        self._parts, self._applied, self._announce, self._speed = parts, applied, announce, speed
        self._notifier = notifier

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
        waiting, self._waiting = self._waiting, {}
        if self._pending is not None:
            # The reload before still waits for its tick. Clients are told so; signals are served after that tick.
            for done in [each for each, is_signal in waiting.items() if is_signal]:
                self._once_more = True
                del waiting[done]
                done.callback({})
        if waiting:
            self._is_running = True
            Deferred.fromCoroutine(self._counted()).addBoth(self._ran, list(waiting))

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
        (configuration, head), self._pending = self._pending, None
        self.configuration = configuration
        self._applied(configuration)
        for part in self._parts:
            part.finish(configuration)
        self.statistics.sha256 = file_hash(head)
        self.log.info("the configuration was reloaded")
        self._announce()
        done, self._done = self._done, None
        if done is not None:
            done.callback(None)
        if self._once_more:
            self._once_more = False
            self.again()

    async def _counted(self) -> dict[str, Any]:
        if self._notifier is not None:
            self._notifier.reloading()
        try:
            outcome = await self._reload()
        except ReloadFailed as failure:
            self.statistics.successful = False
            self.statistics.failed += 1
            for line in str(failure).splitlines():
                self.log.error("the configuration stays as it is: {line}", line=line, log_unlimited=True)
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
            configuration, head, compiled = await call_in_thread(self._reactor, self._prepared)
        except Exception as reason:
            raise self._failure(reason) from None
        stamped = self._begin(configuration, head, compiled)
        outcome = {
            "tick": stamped.tick + 1,
            "fleet": compiled.roster.summary,
            "sha256": file_hash(head),
            "notes": list(configuration.notes),
        }
        spec, speed = self._fleet.spec, self._speed()
        waits = speed and spec.tick_seconds / speed <= _LONGEST_WAIT_SECONDS
        await (self._done if waits and self._done else succeed(None))
        return outcome

    def use(self, configuration: Configuration, head: RecordHead) -> None:
        """Use a configuration from the next tick on.

        :raises ReloadFailed: when that is not possible; nothing has changed.
        """
        if self._pending is not None:
            raise ReloadFailed("the reload before this one takes effect with the next tick")
        configuration, head, compiled = self._compiled(configuration, head)
        self._begin(configuration, head, compiled)

    def _begin(self, configuration: Configuration, head: RecordHead, compiled: CompiledFleet) -> Stamped:
        """Open what it needs, and pass it to the fleet.

        :raises ReloadFailed: when that is not possible; nothing has changed.
        """
        try:
            self._check(configuration, compiled)
            self._files = _files(head)
            for part in self._parts:
                part.begin(configuration, self._listeners)
        except Exception as reason:
            self._undo()
            raise self._failure(reason) from None
        self._pending = configuration, head
        self._done = Deferred()
        return self._fleet.apply(Reload(compiled, head))

    def _failure(self, reason: Exception) -> ReloadFailed:
        """What users are told of why a reload is not possible; an error of ours is logged."""
        if isinstance(reason, ReloadFailed):
            return reason
        if isinstance(reason, ConfigurationError | Refused | CannotListen):
            return ReloadFailed(str(reason))
        if is_out_of_descriptors(reason):
            return ReloadFailed("no file descriptors are left: try again later", is_ours=True)
        self.log.failure("a reload failed by an internal error")
        return ReloadFailed("an internal error; the log has the details", is_ours=True)

    def _prepared(self) -> tuple[Configuration, RecordHead, CompiledFleet]:
        """Read and compile the configuration; runs in a thread, because it takes long."""
        if self._read is None:
            raise ReloadFailed("this program was started without a configuration file")
        return self._compiled(*self._read())

    def _compiled(
        self, configuration: Configuration, head: RecordHead
    ) -> tuple[Configuration, RecordHead, CompiledFleet]:
        """A configuration as the running fleet takes it, and compiled."""
        epoch = self._fleet.spec.epoch_seconds
        if configuration.epoch_is_start:
            configuration = replace(configuration, fleet=replace(configuration.fleet, epoch_seconds=epoch))
        configuration = replace(configuration, fleet=with_nodes_of(configuration.fleet, self._fleet.spec))
        compiled = CompiledFleet(configuration.fleet)
        compiled.reindex_from(self._fleet.roster)
        return configuration, replace(head, epoch_seconds=epoch), compiled

    def _check(self, configuration: Configuration, compiled: CompiledFleet) -> None:
        now = replace(self.configuration, fleet=self._fleet.spec)
        reasons = list(restart_reasons(now, configuration))
        if reasons:
            raise ReloadFailed("\n".join(reasons))
        self._fleet.check_can_reload(compiled)

    def _undo(self) -> None:
        for part in self._parts:
            part.undo()


def _files(head: RecordHead) -> list[str]:
    """The files of a configuration, without those that come with fakedev."""
    others = [path for path in head.files if os.path.isabs(path) and path != head.config]
    return others if head.config is None else [head.config, *others]


def file_hash(head: RecordHead) -> str:
    """The SHA-256 of the configuration's file, as ``sha256sum`` prints it; of the demo when there is no file."""
    if head.text is not None:
        text = head.text
    else:
        text = head.files.get(head.config or DEMO_FILE, "")
    return sha256(text.encode()).hexdigest()
