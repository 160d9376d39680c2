"""The DRA plugin: how the kubelet learns of the driver, and prepares the devices of claims."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import grpc

from fakedev.base.backoff import Backoff
from fakedev.base.errors import FieldError
from fakedev.kubernetes.node_view import prepared_from
from fakedev.node.device_plugin import CannotServe, SocketServer, socket_file
from fakedev.node.kubelet import DRA, PLUGIN_REGISTRATION, Trouble
from fakedev.node.service_link import Unanswered

#: What the kubelet supports since Kubernetes 1.34.
_VERSION: Final = "v1.DRAPlugin"

_log = logging.getLogger("fakedev.node")

#: The devices of a claim, as the service writes them: (namespace, name, uid); raises Unanswered.
Prepare = Callable[[str, str, str], object]


class DraPlugin:
    """Answers the kubelet at both sockets.

    :param endpoint: the path of the plugin's socket.
    :param taken: called when the kubelet has taken the plugin.
    :param cdi_device: which all containers with a claim get; empty: none.
    """

    def __init__(
        self, driver: str, endpoint: str, prepare: Prepare, taken: Callable[[], None], cdi_device: str = ""
    ) -> None:
        self._cdi_devices = [cdi_device] if cdi_device else []
        self._driver = driver
        self._endpoint = endpoint
        self._prepare = prepare
        self._taken = taken
        self._trouble = Trouble(_log, driver)

    def get_info(self, request: Any, context: grpc.ServicerContext) -> Any:
        return PLUGIN_REGISTRATION.messages["PluginInfo"](
            type="DRAPlugin", name=self._driver, endpoint=self._endpoint, supported_versions=[_VERSION]
        )

    def notify_registration_status(self, request: Any, context: grpc.ServicerContext) -> Any:
        """The kubelet has taken the plugin, or says why it has not."""
        if request.plugin_registered:
            self._trouble.over()
            self._taken()
        else:
            self._trouble.met(f"the kubelet does not take the DRA plugin: {request.error}")
        return PLUGIN_REGISTRATION.messages["RegistrationStatusResponse"]()

    def node_prepare_resources(self, request: Any, context: grpc.ServicerContext) -> Any:
        """The devices of each claim. A claim with an error is asked for again by the kubelet."""
        answer = DRA.messages["NodePrepareResourcesResponse"]()
        for claim in request.claims:
            prepared = answer.claims[claim.uid]
            try:
                devices = prepared_from(self._prepare(claim.namespace, claim.name, claim.uid))
            except (Unanswered, FieldError) as error:
                prepared.error = f"claim {claim.namespace}/{claim.name}: {error}"
                continue
            for each in devices:
                prepared.devices.add(
                    request_names=[each.request], pool_name=each.pool, device_name=each.device,
                    cdi_device_ids=self._cdi_devices,
                )  # fmt: skip
        return answer

    def node_unprepare_resources(self, request: Any, context: grpc.ServicerContext) -> Any:
        answer = DRA.messages["NodeUnprepareResourcesResponse"]()
        for claim in request.claims:
            answer.claims[claim.uid].SetInParent()
        return answer


class DraRunner:
    """Serves the plugin's two sockets while the node has a driver.

    The kubelet watches the folder of the registration sockets, and keeps them when it is restarted.

    :param root: the kubelet's folder, in which plugins and plugins_registry are.
    """

    def __init__(self, root: str, prepare: Prepare, cdi_device: str = "") -> None:
        self._root = root
        self._cdi_device = cdi_device
        self._prepare = prepare
        self._driver = ""
        self._taken_driver = ""
        self._servers: list[SocketServer] = []
        self._not_before = 0.0
        self._backoff = Backoff(0.25, 10.0)
        self._trouble = Trouble(_log, "DRA")

    @property
    def registered(self) -> str:
        """The driver that the kubelet has taken; empty: none."""
        return self._taken_driver

    def turn(self, now: float, driver: str) -> None:
        """Serve this driver; empty: none."""
        is_there = all(server.file == socket_file(server.path) for server in self._servers)
        if driver == self._driver and is_there:
            return
        self.stop()
        if driver and now >= self._not_before:
            self._serve(now, driver)

    def stop(self) -> None:
        """Close the sockets: first the one by which the kubelet finds the other."""
        for server in reversed(self._servers):
            server.stop()
        self._servers, self._driver, self._taken_driver = [], "", ""

    def _serve(self, now: float, driver: str) -> None:
        endpoint = os.path.join(self._root, "plugins", driver, "dra.sock")
        registration = os.path.join(self._root, "plugins_registry", f"{driver}-reg.sock")
        plugin = DraPlugin(driver, endpoint, self._prepare, partial(self._taken, driver), self._cdi_device)
        try:
            self._servers.append(SocketServer(endpoint, [DRA.handler(plugin)]))
            self._servers.append(SocketServer(registration, [PLUGIN_REGISTRATION.handler(plugin)]))
        except CannotServe as error:
            self.stop()
            self._trouble.met(str(error))
            self._not_before = now + self._backoff.next_seconds()
            return
        self._driver = driver
        self._backoff.reset()
        self._trouble.over()

    def _taken(self, driver: str) -> None:
        """The kubelet has taken the plugin; called in a thread of gRPC."""
        self._taken_driver = driver
        _log.info("%s: the DRA plugin is registered with the kubelet", driver)
