"""The device plugin of one resource (v1beta1.DevicePlugin): its calls, its steps, and its gRPC server.

The kubelet calls it over a UNIX socket in the kubelet's folders. It serves its socket, registers with the kubelet,
does both again when necessary, and stops. The steps are decided without sockets: sockets are values there.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import stat
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple

import grpc

from fakedev.base.backoff import Backoff
from fakedev.base.errors import first_names, plain_reason
from fakedev.kubernetes.nodes.node_view import ViewedSlot
from fakedev.node.kubelet import DEVICE_PLUGIN, REGISTRATION, OpenProblem, open_channel, server_options, why
from fakedev.node.nvml import COMMANDS, VISIBLE, Provision
from fakedev.node.service_link import Unanswered

_MESSAGES: Final = DEVICE_PLUGIN.messages
#: Between the id of a shared device and the number of its replica.
_REPLICA: Final = "::"
_SHOWN_IDS: Final = 5

#: Chooses of the available ids: (resource, available, must, count); raises LookupError when it cannot.
Prefer = Callable[[str, Sequence[str], Sequence[str], int], Sequence[str]]
#: Reserves the ids that containers are about to get; raises Unanswered when they must not get them.
Reserve = Callable[[Sequence[str]], None]


def socket_name(resource: str) -> str:
    """The file of a resource's socket: ``nvidia-gpu.sock`` for ``nvidia.com/gpu``."""
    return resource.replace(".com/", "-").replace("/", "-") + ".sock"


class DevicePlugin:
    """Answers the kubelet. Its calls come in threads of gRPC, changes from the program's.

    :param prefer: what chooses devices; when it cannot, they are taken in their order.
    :param provision: what each container gets besides the names of its devices.
    """

    def __init__(
        self,
        resource: str,
        node: str,
        prefer: Prefer,
        reserve: Reserve,
        provision: Provision,
    ) -> None:
        self.resource = resource
        self._node = node
        self._provision = provision
        self._prefer = prefer
        self._reserve = reserve
        self._condition = threading.Condition()
        self._slots: tuple[ViewedSlot, ...] = ()
        self._places: dict[str, int] = {}
        self._list = _MESSAGES["ListAndWatchResponse"]()
        self._version = 0
        self._watchers = 0

    @property
    def is_watched(self) -> bool:
        return self._watchers > 0

    def change(self, slots: Sequence[ViewedSlot]) -> None:
        """These are the devices now; whoever watches gets the whole list, if it is another one."""
        if tuple(slots) == self._slots:
            return
        with self._condition:
            self._slots = tuple(slots)
            self._places = {slot.id: place for place, slot in enumerate(slots)}
            self._list = _MESSAGES["ListAndWatchResponse"](devices=[_device(slot) for slot in slots])
            self._version += 1
            self._condition.notify_all()

    def get_device_plugin_options(self, request: Any, context: grpc.ServicerContext) -> Any:
        return _MESSAGES["DevicePluginOptions"](get_preferred_allocation_available=True)

    def list_and_watch(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """The whole list now, and after each change, until the kubelet or the server ends it."""
        seen = -1
        with self._condition:
            self._watchers += 1
        try:
            if not context.add_callback(self._wake):
                return  # it was cancelled meanwhile
            while True:
                with self._condition:
                    while self._version == seen and context.is_active():
                        self._condition.wait()
                    if not context.is_active():
                        return
                    seen, shown = self._version, self._list
                yield shown
        finally:
            with self._condition:
                self._watchers -= 1

    def get_preferred_allocation(self, request: Any, context: grpc.ServicerContext) -> Any:
        """A hint for the kubelet: which of the available devices a container should get."""
        answer = _MESSAGES["PreferredAllocationResponse"]()
        for wanted in request.containers:
            available, must = list(wanted.available), list(wanted.must_include)
            self._check(available + must, context)
            try:
                ids = self._prefer(self.resource, available, must, wanted.size)
            except LookupError:
                in_order = sorted({*available} - {*must}, key=self._places.__getitem__)
                ids = (must + in_order)[: wanted.size]
            answer.containers.add(ids=ids)
        return answer

    def allocate(self, request: Any, context: grpc.ServicerContext) -> Any:
        """What each container with devices gets: environment and mounts. PodResources names the pod, not this."""
        ids = [each_id for wanted in request.containers for each_id in wanted.ids]
        self._check(ids, context)
        try:
            self._reserve(ids)
        except Unanswered as error:
            # The kubelet has chosen them already: the pod fails, and its owner makes another one.
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        answer = _MESSAGES["AllocateResponse"]()
        for wanted in request.containers:
            # The kubelet gives the ids in any order; programs number the devices as the variable lists them.
            in_order = sorted(wanted.ids, key=self._places.__getitem__)
            devices = ",".join(dict.fromkeys(device_id.partition(_REPLICA)[0] for device_id in in_order))
            envs = {**self._provision.envs, "FAKEDEV_DEVICES": devices}
            envs |= {variable: devices for maker, variable in VISIBLE.items() if self.resource.startswith(maker)}
            others = [place for maker, place in COMMANDS.items() if not self.resource.startswith(maker)]
            mounts = [
                {**mount._asdict(), "read_only": True}
                for mount in self._provision.mounts
                if mount.container_path not in others
            ]
            answer.containers.add(envs=envs, mounts=mounts)
        return answer

    def pre_start_container(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Nothing; the kubelet does not call it, because the options do not ask for it."""
        return _MESSAGES["PreStartContainerResponse"]()

    def _check(self, ids: Collection[str], context: grpc.ServicerContext) -> None:
        unknown = [device_id for device_id in ids if device_id not in self._places]
        if unknown:
            text = f"{self.resource} on {self._node} has no device {first_names(unknown, _SHOWN_IDS)}"
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{text}; it has {len(self._places)} others")

    def _wake(self) -> None:
        with self._condition:
            self._condition.notify_all()


def _device(slot: ViewedSlot) -> Any:
    device = _MESSAGES["Device"](ID=slot.id, health="Unhealthy" if slot.unhealthy else "Healthy")
    if slot.numa_node is not None:
        device.topology.nodes.add(ID=slot.numa_node)
    return device


#: Seconds that a kubelet may take from the registration until it watches the devices.
WATCH_SECONDS: Final = 5.0
_FIRST_SECONDS: Final = 0.25
_LAST_SECONDS: Final = 10.0


class SocketFile(NamedTuple):
    """Which socket is at a path: a socket that is made anew is another one."""

    inode: int
    changed_nanoseconds: int


class Step(Enum):
    """The next step."""

    NOTHING = "nothing"
    SERVE = "serve"  # (again): the socket is not there
    REGISTER = "register"
    STOP = "stop"


class PluginSteps:
    """The life of one plugin: from what happened to the next step."""

    def __init__(self) -> None:
        self._own: SocketFile | None = None  # that is served
        self._seen: SocketFile | None = None  # the kubelet's
        self._kubelet: SocketFile | None = None  # that was registered with
        self._asked: SocketFile | None = None  # that a registration is under way with
        self._not_before = 0.0
        self._watched_seconds = 0.0
        self._backoff = Backoff(_FIRST_SECONDS, _LAST_SECONDS)

    @property
    def is_registered(self) -> bool:
        return self._kubelet is not None

    def next(
        self, now: float, *, is_wanted: bool, own: SocketFile | None, kubelet: SocketFile | None, is_watched: bool
    ) -> Step:
        """The next step.

        :param is_wanted: whether the plugin is to run.
        :param own: what is at the plugin's path.
        :param kubelet: what is at the kubelet's path.
        :param is_watched: whether the kubelet watches the list of devices.
        """
        if is_watched:
            self._backoff.reset()
        if is_watched or self._kubelet is None:
            self._watched_seconds = now
        if not is_wanted:
            return Step.STOP if self._own is not None else Step.NOTHING
        if kubelet != self._seen:
            # Another kubelet, which has no plugin of ours and is not to blame for what failed before.
            self._seen, self._kubelet = kubelet, None
            self._not_before = 0.0
            self._backoff.reset()
        elif self._kubelet is not None and now - self._watched_seconds >= WATCH_SECONDS:
            self._kubelet = None  # it has lost us
            self.failed(now)
        if kubelet is None or now < self._not_before:
            return Step.NOTHING
        if self._own is None or own != self._own:
            return Step.SERVE
        return Step.REGISTER if self._kubelet is None and self._asked is None else Step.NOTHING

    def serving(self, own: SocketFile | None) -> None:
        """The socket is served; a registration with the socket before does not count."""
        self._own = own
        self._kubelet = None

    def stopped(self) -> None:
        self._own = self._kubelet = None

    def asked(self, kubelet: SocketFile | None) -> None:
        self._asked = kubelet

    def registered(self, now: float) -> None:
        self._kubelet = self._asked if self._own is not None and self._asked == self._seen else None
        self._asked = None
        self._watched_seconds = now

    def failed(self, now: float) -> None:
        """The socket could not be served, or the registration failed: try again later."""
        asked, self._asked = self._asked, None
        if asked in (None, self._seen):
            self._not_before = now + self._backoff.next_seconds()


#: Calls of one socket at once, a thread each; a kubelet has one stream open, and makes one call at a time.
_MAX_CALLS: Final = 8
#: The system's limit for a path of a socket.
_MAX_PATH_BYTES: Final = 107
_STOP_SECONDS: Final = 2.0


class CannotServe(Exception):
    """A socket cannot be served: the text says why."""


class SocketServer:
    """Serves some APIs on one socket, until it is stopped."""

    def __init__(self, path: str, handlers: list[grpc.GenericRpcHandler]) -> None:
        """Bind the socket and serve it.

        :raises CannotServe: when that is not possible, also when another program serves a socket there.
        """
        # gRPC removes the path that it has bound when it ends, whoever serves a socket there by then. So it binds
        # another one, which is renamed. The kubelet ignores names with a dot.
        bound = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}")
        if len(os.fsencode(bound)) > _MAX_PATH_BYTES:
            raise CannotServe(f"{path} is longer than {_MAX_PATH_BYTES - 1} bytes: name a shorter folder")
        if _is_served(path):
            raise CannotServe(f"another program serves {path}: remove that device plugin from this node")
        self.path = path
        self._threads = ThreadPoolExecutor(_MAX_CALLS, thread_name_prefix=os.path.basename(path))
        self._server = grpc.server(
            self._threads, handlers=handlers, options=server_options(), maximum_concurrent_rpcs=_MAX_CALLS
        )
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self._server.add_insecure_port(f"unix:{bound}")
            self._server.start()
            os.rename(bound, path)
        except (OSError, RuntimeError) as error:
            self._server.stop(0).wait(_STOP_SECONDS)
            self._threads.shutdown(wait=False)
            with contextlib.suppress(OSError):
                os.unlink(bound)
            raise CannotServe(f"cannot serve {path}: {_reason(path, error)}") from None
        self.file = socket_file(path)

    def stop(self) -> None:
        """Close the socket and end all calls. A socket that is not ours any more stays."""
        if self.file is not None and socket_file(self.path) == self.file:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        self._server.stop(0).wait(_STOP_SECONDS)
        self._threads.shutdown(wait=False, cancel_futures=True)


def socket_file(path: str) -> SocketFile | None:
    """Which socket is at a path; None: there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return SocketFile(found.st_ino, found.st_ctime_ns) if stat.S_ISSOCK(found.st_mode) else None


def _is_served(path: str) -> bool:
    if socket_file(path) is None:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except OSError:
            return False
        return True


def _reason(path: str, error: Exception) -> str:
    """gRPC does not say why it cannot bind; the folder often shows it."""
    if isinstance(error, OSError):
        return plain_reason(error)
    folder = os.path.dirname(path)
    return "this user may not write there" if not os.access(folder, os.W_OK) else str(error).rstrip(".")


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
        self._problem = OpenProblem(_log, plugin.resource)

    @property
    def is_registered(self) -> bool:
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
            self._problem.met(str(error))
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
            self._problem.over()
            _log.info("%s: registered with the kubelet", self._plugin.resource)
            self._registered(kubelet)
        else:
            self._steps.failed(self._clock())
            self._problem.met(f"the kubelet does not take the plugin: {why(error)}")
