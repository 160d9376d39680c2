"""Runs one device plugin: serves its socket, registers it with the kubelet, and does both again when necessary."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import grpc

from fakedev.kube.node_view import ViewedSlot
from fakedev.node.device_plugin import DevicePlugin, socket_name
from fakedev.node.kubelet_apis import DEVICE_PLUGIN, REGISTRATION, open_channel, why
from fakedev.node.plugin_steps import PluginSteps, SocketFile, Step
from fakedev.node.socket_server import CannotServe, SocketServer, socket_file
from fakedev.node.trouble import Trouble

_KUBELET: Final = "kubelet.sock"
_REGISTER_SECONDS: Final = 10.0
_VERSION: Final = "v1beta1"

_log = logging.getLogger("fakedev.node")


class PluginRunner:
    """The plugin of one resource in the kubelet's folder.

    :param clock: the seconds that :meth:`turn` gets.
    :param post: runs a call in the program's thread.
    :param registered: called when a kubelet has taken the plugin.
    """

    def __init__(
        self,
        plugin: DevicePlugin,
        folder: str,
        clock: Callable[[], float],
        post: Callable[[Callable[[], None]], None],
        registered: Callable[[SocketFile], None],
    ) -> None:
        self._plugin = plugin
        self._kubelet_path = os.path.join(folder, _KUBELET)
        self._path = os.path.join(folder, socket_name(plugin.resource))
        self._clock = clock
        self._post = post
        self._registered = registered
        self._steps = PluginSteps()
        self._server: SocketServer | None = None
        self._trouble = Trouble(_log, plugin.resource)

    @property
    def is_registered(self) -> bool:
        """Whether the kubelet that is there has taken the plugin."""
        return self._steps.is_registered

    def turn(self, now: float, slots: Sequence[ViewedSlot], is_wanted: bool) -> None:
        """Offer these devices, and take the next step."""
        self._plugin.change(slots)
        step = Step.SERVE
        while step is Step.SERVE:  # it is registered in the same turn
            kubelet = socket_file(self._kubelet_path)
            step = self._steps.next(
                now,
                is_wanted=is_wanted,
                own=socket_file(self._path),
                kubelet=kubelet,
                is_watched=self._plugin.is_watched,
            )
            match step:
                case Step.SERVE:
                    self._serve(now)
                case Step.REGISTER if kubelet is not None:
                    self._register(kubelet)
                case Step.STOP:
                    self.stop()
                    _log.info("%s: stopped", self._plugin.resource)

    def stop(self) -> None:
        """Close the socket."""
        if self._server is not None:
            self._server.stop()
            self._server = None
        self._steps.stopped()

    def _serve(self, now: float) -> None:
        self.stop()
        try:
            self._server = SocketServer(self._path, [DEVICE_PLUGIN.handler(self._plugin)])
        except CannotServe as error:
            self._trouble.met(str(error))
            self._steps.failed(now)
            return
        self._steps.serving(self._server.file)

    def _register(self, kubelet: SocketFile) -> None:
        self._steps.asked(kubelet)
        messages = REGISTRATION.messages
        request = messages["RegisterRequest"](
            version=_VERSION,
            endpoint=os.path.basename(self._path),
            resource_name=self._plugin.resource,
            options=messages["DevicePluginOptions"](get_preferred_allocation_available=True),
        )
        channel = open_channel(self._kubelet_path)
        # The kubelet calls the plugin before it answers: the program does not wait.
        call = REGISTRATION.call(channel, "Register").future(request, timeout=_REGISTER_SECONDS)
        call.add_done_callback(lambda done: self._post(partial(self._answered, done, channel, kubelet)))

    def _answered(self, call: Any, channel: grpc.Channel, kubelet: SocketFile) -> None:
        channel.close()
        error = call.exception()
        if error is None:
            self._steps.registered(self._clock())
            self._trouble.over()
            _log.info("%s: registered with the kubelet", self._plugin.resource)
            self._registered(kubelet)
        else:
            self._steps.failed(self._clock())
            self._trouble.met(f"the kubelet does not take the plugin: {why(error)}")
