"""The agent of fakedev-node: news of service, kubelet and clock become steps of the plugins.

It runs in the program's own thread. When the service is gone, the last view of the node is kept, and after a while
nothing is healthy.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswerInTime
from dataclasses import replace
from functools import partial
from typing import Final

from fakedev.kubernetes.devices.dra import CHANNEL_DRIVER
from fakedev.kubernetes.nodes.node_view import Allocation, NodeView, ViewedSlot, report_parts, to_fields
from fakedev.node.device_plugin import DevicePlugin, PluginRunner, SocketFile
from fakedev.node.dra_plugin import DraRunner
from fakedev.node.kubelet import OpenProblem
from fakedev.node.nvml import NvmlFolder, NvmlMirror
from fakedev.node.options import Settings
from fakedev.node.pod_resources import PodResources
from fakedev.node.service_link import (
    LinkDown,
    LinkHeard,
    LinkNews,
    RefusedByService,
    ServiceLink,
    Unanswered,
    ViewChanged,
    patiently,
)

#: Seconds for which devices keep their health after the last line from the service.
KEEP_SECONDS: Final = 60.0
_REASON: Final = "the fakedev service is gone"


class LastView:
    """The view of the node, as of the service."""

    def __init__(self) -> None:
        self._view: NodeView | None = None
        self._heard_seconds = 0.0
        self._lost: NodeView | None = None  # made once: a turn of the program compares views

    def changed(self, view: NodeView, now: float) -> None:
        self._view, self._lost = view, None
        self._heard_seconds = now

    def heard(self, now: float) -> None:
        """The service has sent anything. After the devices have become unhealthy, only a view counts."""
        if not self.is_stale(now):
            self._heard_seconds = now

    @property
    def has_claims(self) -> bool:
        """Whether claims may have devices of the node, too."""
        return self._view is not None and bool(self._view.driver)

    def is_stale(self, now: float) -> bool:
        """Whether the service has been silent for too long."""
        return self._view is not None and now - self._heard_seconds >= KEEP_SECONDS

    def at(self, now: float) -> NodeView | None:
        """The view that counts now; None: nothing is known yet."""
        if self._view is None or not self.is_stale(now):
            return self._view
        if self._lost is None:
            self._lost = _unhealthy(self._view)
        return self._lost


def _unhealthy(view: NodeView) -> NodeView:
    def lost(slots: Sequence[ViewedSlot]) -> tuple[ViewedSlot, ...]:
        return tuple(replace(slot, unhealthy=slot.unhealthy or _REASON) for slot in slots)

    resources = {resource: lost(slots) for resource, slots in view.resources.items()}
    return replace(view, resources=resources, claimable=lost(view.claimable), channels=lost(view.channels))


#: Seconds between two looks at the kubelet's folder.
_TURN_SECONDS: Final = 0.25
#: Calls of others between two turns.
_MAX_CALLS: Final = 1000
#: Seconds that a kubelet waits for a choice of devices.
_PREFER_SECONDS: Final = 1.0
#: Seconds that it waits for a service which is away to reserve devices; no other pod starts meanwhile.
_RESERVE_SECONDS: Final = 2.0

_log = logging.getLogger("fakedev.node")


class Agent:
    """Runs until :meth:`stop`. All its state belongs to the thread of :meth:`run`; others post calls to it.

    :raises CannotWrite: when the folder for NVML cannot be written.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._is_stopping = False
        self._view = LastView()
        self._was_stale = self._was_down = False
        self._plugins: dict[str, PluginRunner] = {}
        self._folder = NvmlFolder(settings.node, settings.nvml_folder, settings.cdi_folder if settings.has_dra else "")
        self._dra = DraRunner(settings.kubelet_root, self._prepare, settings.node, self._folder)
        #: Channels give containers nothing that could be simulated.
        nothing = NvmlFolder(settings.node, "", "")
        self._channels = DraRunner(settings.kubelet_root, self._prepare, settings.node, nothing)
        self._reader = PodResources(settings.pod_resources, clock, self._calls.put, self._report)
        self._link = ServiceLink(
            settings.service, settings.node, settings.read_token,
            lambda news: self._calls.put(partial(self._heard, news)),
        )  # fmt: skip
        self._mirror: NvmlMirror | None = None
        if self._folder.map_path:
            self._mirror = NvmlMirror(self._folder.map_path, self._link.send, self._calls.put, time.monotonic_ns)
        self._service_problem = OpenProblem(_log, f"service {settings.service}")
        self._report_problem = OpenProblem(_log, "report")
        self._is_attached = False
        self._has_reported = threading.Event()  # on this connection
        self._must_report_restart = True
        self._allocations: list[Allocation] | None = None
        self._sent: tuple[list[Allocation], Sequence[str]] | None = None
        self._kubelet: SocketFile | None = None
        self._last_registered: list[str] | None = None

    def run(self) -> None:
        """Serve until :meth:`stop`; then close all sockets."""
        self._link.start()
        try:
            while not self._is_stopping:
                self._turn(self._clock())
                self._wait()
        finally:
            self._link.stop()
            for plugin in self._plugins.values():
                plugin.stop()
            self._dra.stop()
            self._channels.stop()
            self._reader.close()
            self._folder.remove()
            if self._mirror is not None:
                self._mirror.stop()

    def stop(self) -> None:
        """End :meth:`run`; may be called from a signal handler."""
        self._is_stopping = True
        self._calls.put(lambda: None)

    def _wait(self) -> None:
        """Run the calls that others post, at least until the next turn is due."""
        try:
            self._calls.get(timeout=_TURN_SECONDS)()
            for _ in range(_MAX_CALLS):
                self._calls.get_nowait()()
        except queue.Empty:
            return

    def _turn(self, now: float) -> None:
        view = self._view.at(now)
        if self._view.is_stale(now) and not self._was_stale:
            self._was_stale = True
            _log.warning("the service is gone for too long: all devices are Unhealthy until it is back")
        if view is None:
            return
        self._follow(now, view)
        registered = sorted(name for name, plugin in self._plugins.items() if plugin.is_registered)
        registered += filter(None, [self._dra.registered, self._channels.registered])
        if self._is_attached and registered != self._last_registered:
            self._last_registered = registered
            self._link.send("registered", {"resources": registered})
        if self._mirror is not None:
            self._mirror.turn(now, self._is_attached)
        # Others may offer devices by the way that is not ours.
        ours = {*self._plugins}
        if self._settings.has_dra and view.driver:
            ours.add(view.driver)
        self._reader.turn(now, ours)

    def _follow(self, now: float, view: NodeView) -> None:
        """Offer what the view has. A resource that has left the view stays registered, without devices."""
        if self._was_down and not view.is_plugin_down:
            self._report_restart()
        self._was_down = view.is_plugin_down
        if self._settings.has_device_plugin:
            for resource in view.resources:
                if resource not in self._plugins:
                    self._plugins[resource] = self._make_plugin(resource)
            for resource, plugin in self._plugins.items():
                plugin.turn(now, view.resources.get(resource, ()), is_wanted=not view.is_plugin_down)
        if self._settings.has_dra:
            self._dra.turn(now, "" if view.is_plugin_down else view.driver, view.claimable)
            has_channels = bool(view.channels) and not view.is_plugin_down
            self._channels.turn(now, CHANNEL_DRIVER if has_channels else "", view.channels)

    def _make_plugin(self, resource: str) -> PluginRunner:
        plugin = DevicePlugin(
            resource, self._settings.node, self._prefer, self._reserve, self._folder.provision
        )
        return PluginRunner(plugin, self._settings.kubelet_folder, self._clock, self._calls.put, self._registered)

    # From the kubelet

    def _registered(self, kubelet: SocketFile) -> None:
        """A kubelet has taken a plugin. The plugins count as restarted when it is another kubelet."""
        if self._kubelet not in (None, kubelet):
            _log.info("the kubelet was restarted")
            self._report_restart()
        self._kubelet = kubelet

    def _prefer(self, resource: str, available: Sequence[str], must: Sequence[str], count: int) -> Sequence[str]:
        """Ask the service which devices are best connected; called in threads of gRPC.

        :raises LookupError: when it does not say.
        """
        arguments = {"resource": resource, "count": count, "available": [*available], "must": [*must]}
        try:
            ids = self._link.ask("prefer", arguments, _PREFER_SECONDS).get("ids")
        except Unanswered as error:
            _log.info("%s: devices are preferred in their order: %s", resource, error)
            raise LookupError(str(error)) from None
        if not isinstance(ids, list) or len(ids) != count or not {*must} <= {*ids} <= {*available, *must}:
            _log.warning("%s: the service prefers devices that do not fit: %s", resource, ids)
            raise LookupError("the choice does not fit")
        return [str(device_id) for device_id in ids]

    def _reserve(self, ids: Sequence[str]) -> None:
        """Have the service reserve what containers are about to get; called in threads of gRPC.

        Where nothing is offered to claims the kubelet alone decides, and the service is not asked.

        :raises Unanswered: when a claim has one of the devices, and when the service does not answer.
        """
        if not self._view.has_claims:
            self._calls.put(partial(self._reader.allocated, ids))
            return
        if not self._has_reported.wait(_RESERVE_SECONDS):
            raise Unanswered("the service is not connected: it decides whether a claim has these devices")
        sent: Future[Future[Mapping[str, object]]] = Future()
        self._calls.put(partial(self._send_reserve, ids, sent))
        try:
            sent.result(_RESERVE_SECONDS).result(_RESERVE_SECONDS)
        except (Unanswered, NoAnswerInTime) as error:
            self._calls.put(partial(self._reader.refused, ids))
            raise Unanswered(str(error) or f"the service did not answer within {_RESERVE_SECONDS:g} s") from None

    def _send_reserve(self, ids: Sequence[str], sent: Future[Future[Mapping[str, object]]]) -> None:
        self._reader.allocated(ids)  # each report from now on has them
        sent.set_result(self._link.send("reserve", {"ids": [*ids]}))

    def _prepare(self, namespace: str, claim: str, uid: str) -> object:
        """Ask the service for the devices of a claim; called in threads of gRPC.

        :raises Unanswered: when it does not say.
        """
        arguments = {"namespace": namespace, "claim": claim, "uid": uid}
        ask = partial(self._link.ask, "prepare", arguments, _PREFER_SECONDS)
        return patiently(ask, self._clock, time.sleep).get("devices")

    # From the service

    def _heard(self, news: LinkNews) -> None:
        now = self._clock()
        match news:
            case LinkHeard():
                self._view.heard(now)
            case LinkDown(reason):
                self._is_attached = False
                self._has_reported.clear()
                self._service_problem.met(f"{reason}; tries again, and devices keep their health for a while")
            case ViewChanged(view):
                self._view.changed(view, now)
                self._was_stale = False
                if not self._is_attached:
                    self._attached(view)

    def _attached(self, view: NodeView) -> None:
        self._is_attached = True
        self._last_registered = None
        self._service_problem.over("connected again")
        offered = {**view.resources, view.driver: view.claimable} if view.claimable else view.resources
        counts = ", ".join(f"{len(slots)} {name}" for name, slots in offered.items())
        _log.info("node %s has %s", view.node, counts or "no devices")
        if self._must_report_restart:
            self._report_restart()
        if self._allocations is not None:
            self._send_report(self._allocations)

    # To the service

    def _report_restart(self) -> None:
        """The plugins were started anew; reported when the service is there."""
        self._must_report_restart = not self._is_attached
        if self._is_attached:
            self._link.send("restarted", {})

    def _report(self, allocations: list[Allocation]) -> None:
        """Report to the service what is new."""
        self._allocations = allocations
        if self._is_attached and (allocations, self._reader.starting) != self._sent:
            self._send_report(allocations)

    def _send_report(self, allocations: list[Allocation]) -> None:
        self._sent = allocations, self._reader.starting
        for part in report_parts([to_fields(allocation) for allocation in allocations], self._reader.starting):
            self._link.send("report", part).add_done_callback(self._reported)
        self._has_reported.set()

    def _reported(self, answer: Future[Mapping[str, object]]) -> None:
        error = answer.exception()
        if isinstance(error, RefusedByService):
            self._calls.put(partial(self._report_problem.met, str(error)))
        elif error is None:  # else it is sent again with the next connection
            self._calls.put(partial(self._report_problem.over, "taken again"))
