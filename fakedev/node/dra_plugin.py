"""The DRA plugin: how the kubelet learns of the driver, and prepares the devices of claims."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import grpc

from fakedev.base.backoff import Backoff
from fakedev.base.errors import FieldError
from fakedev.kubernetes.nodes.node_view import ViewedSlot, prepared_from
from fakedev.node.device_plugin import CannotServe, SocketServer, socket_file
from fakedev.node.kubelet import DRA, DRA_HEALTH, PLUGIN_REGISTRATION, OpenProblem
from fakedev.node.nvml import NvmlFolder
from fakedev.node.service_link import Unanswered

#: What the kubelet supports since Kubernetes 1.34.
_VERSION: Final = "v1.DRAPlugin"
#: Values of HealthStatus. Health that is older than 30 s is Unknown for the kubelet.
_HEALTHY: Final = 1
_UNHEALTHY: Final = 2
_RENEW_SECONDS: Final = 10.0

_log = logging.getLogger("fakedev.node")

#: The devices of a claim, as the service writes them: (namespace, name, uid); raises Unanswered.
Prepare = Callable[[str, str, str], object]


class DraPlugin:
    """Answers the kubelet at both sockets.

    :param endpoint: the path of the plugin's socket.
    :param taken: called when the kubelet has taken the plugin.
    :param node: whose name the pool of its devices has.
    :param folder: writes what containers with a claim get.
    """

    def __init__(
        self, driver: str, endpoint: str, prepare: Prepare, taken: Callable[[], None], node: str, folder: NvmlFolder
    ) -> None:
        self._node = node
        self._folder = folder
        self._driver = driver
        self._endpoint = endpoint
        self._prepare = prepare
        self._taken = taken
        self._problem = OpenProblem(_log, driver)
        self._condition = threading.Condition()
        self._devices: Sequence[ViewedSlot] = ()

    def change(self, devices: Sequence[ViewedSlot]) -> None:
        """These are the driver's devices now; the kubelet gets the health of all of them if they are others."""
        if devices != self._devices:
            with self._condition:
                self._devices = devices
                self._condition.notify_all()

    def get_info(self, request: Any, context: grpc.ServicerContext) -> Any:
        return PLUGIN_REGISTRATION.messages["PluginInfo"](
            type="DRAPlugin", name=self._driver, endpoint=self._endpoint, supported_versions=[_VERSION]
        )

    def notify_registration_status(self, request: Any, context: grpc.ServicerContext) -> Any:
        """The kubelet has taken the plugin, or says why it has not."""
        if request.plugin_registered:
            self._problem.over()
            self._taken()
        else:
            self._problem.met(f"the kubelet does not take the DRA plugin: {request.error}")
        return PLUGIN_REGISTRATION.messages["RegistrationStatusResponse"]()

    def node_prepare_resources(self, request: Any, context: grpc.ServicerContext) -> Any:
        """The devices of each claim. A claim with an error is asked for again by the kubelet."""
        answer = DRA.messages["NodePrepareResourcesResponse"]()
        own = {slot.id for slot in self._devices}
        for claim in request.claims:
            prepared = answer.claims[claim.uid]
            try:
                prepared_devices = prepared_from(self._prepare(claim.namespace, claim.name, claim.uid))
                devices = [each for each in prepared_devices if each.device in own]  # others are of the other driver
                cdi_devices = self._folder.claim_devices(claim.uid, devices)
            except (Unanswered, FieldError, OSError) as error:
                prepared.error = f"claim {claim.namespace}/{claim.name}: {error}"
                continue
            for each, cdi_ids in zip(devices, cdi_devices, strict=True):
                prepared.devices.add(
                    request_names=[each.request], pool_name=each.pool, device_name=each.device, cdi_device_ids=cdi_ids,
                    **({"share_id": each.share} if each.share else {}),
                )
        return answer

    def node_watch_resources(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """The health of all devices now, after each change, and from time to time."""
        context.add_callback(self._wake)
        while context.is_active():
            shown = self._devices
            answer = DRA_HEALTH.messages["NodeWatchResourcesResponse"]()
            for viewed_slot in shown:
                answer.devices.add(
                    device={"pool_name": self._node, "device_name": viewed_slot.id}, last_updated_time=int(time.time()),
                    health=_UNHEALTHY if viewed_slot.unhealthy else _HEALTHY, message=viewed_slot.unhealthy,
                )  # fmt: skip
            yield answer
            with self._condition:
                if self._devices is shown and context.is_active():
                    self._condition.wait(_RENEW_SECONDS)

    def _wake(self) -> None:
        with self._condition:
            self._condition.notify_all()

    def node_unprepare_resources(self, request: Any, context: grpc.ServicerContext) -> Any:
        answer = DRA.messages["NodeUnprepareResourcesResponse"]()
        for claim in request.claims:
            self._folder.forget_claim(claim.uid)
            answer.claims[claim.uid].SetInParent()
        return answer


class DraRunner:
    """Serves the plugin's two sockets while the node has a driver.

    The kubelet watches the folder of the registration sockets, and keeps them when it is restarted.

    :param root: the kubelet's folder, in which plugins and plugins_registry are.
    """

    def __init__(self, root: str, prepare: Prepare, node: str, folder: NvmlFolder) -> None:
        self._root = root
        self._node = node
        self._folder = folder
        self._prepare = prepare
        self._driver = ""
        self._taken_driver = ""
        self._servers: list[SocketServer] = []
        self._plugin: DraPlugin | None = None
        self._not_before = 0.0
        self._backoff = Backoff(0.25, 10.0)
        self._problem = OpenProblem(_log, "DRA")

    @property
    def registered(self) -> str:
        """The driver that the kubelet has taken; empty: none."""
        return self._taken_driver

    def turn(self, now: float, driver: str, devices: Sequence[ViewedSlot]) -> None:
        """Serve this driver; empty: none."""
        if self._plugin is not None:
            self._plugin.change(devices)
        is_there = all(server.file == socket_file(server.path) for server in self._servers)
        if driver == self._driver and is_there:
            return
        self.stop()
        if driver and now >= self._not_before:
            self._serve(now, driver, devices)

    def stop(self) -> None:
        """Close the sockets: first the one by which the kubelet finds the other."""
        for server in reversed(self._servers):
            server.stop()
        self._servers, self._plugin, self._driver, self._taken_driver = [], None, "", ""

    def _serve(self, now: float, driver: str, devices: Sequence[ViewedSlot]) -> None:
        endpoint = os.path.join(self._root, "plugins", driver, "dra.sock")
        registration = os.path.join(self._root, "plugins_registry", f"{driver}-reg.sock")
        plugin = DraPlugin(driver, endpoint, self._prepare, partial(self._taken, driver), self._node, self._folder)
        plugin.change(devices)
        try:
            self._servers.append(SocketServer(endpoint, [DRA.handler(plugin), DRA_HEALTH.handler(plugin)]))
            self._servers.append(SocketServer(registration, [PLUGIN_REGISTRATION.handler(plugin)]))
        except CannotServe as error:
            self.stop()
            self._problem.met(str(error))
            self._not_before = now + self._backoff.next_seconds()
            return
        self._driver, self._plugin = driver, plugin
        self._backoff.reset()
        self._problem.over()

    def _taken(self, driver: str) -> None:
        """The kubelet has taken the plugin; called in a thread of gRPC."""
        self._taken_driver = driver
        _log.info("%s: the DRA plugin is registered with the kubelet", driver)
