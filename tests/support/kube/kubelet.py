"""The kubelet's half of the plugin APIs with grpcio over real UNIX sockets: its device manager, and PodResources."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from fakedev.node.device_plugin import socket_file
from fakedev.node.kubelet import (
    DEVICE_PLUGIN,
    DRA,
    DRA_HEALTH,
    PLUGIN_REGISTRATION,
    POD_RESOURCES,
    REGISTRATION,
    open_channel,
)

_SECONDS = 10.0
#: What a kubelet allows: calls in a second, and at once.
RATE, BURST = 100.0, 10


@dataclass
class KnownPlugin:
    """A device plugin that has registered.

    :ivar lists: all lists that it has sent: for each id its health, and its NUMA nodes.
    """

    resource: str
    endpoint: str
    channel: grpc.Channel
    lists: list[dict[str, tuple[str, tuple[int, ...]]]] = field(default_factory=list)
    is_watched: bool = True

    @property
    def allocatable(self) -> int:
        """How many devices can be given to pods."""
        shown = self.lists[-1] if self.is_watched and self.lists else {}
        return sum(health == "Healthy" for health, _ in shown.values())


class Kubelet:
    """A kubelet with its folders below a root.

    :param changed: called, in any thread, whenever something has happened.
    :ivar refusal: registrations are refused with this text; empty: they are taken.
    :ivar pods: what PodResources answers: (namespace, pod, container) -> resource -> ids.
    :ivar claims: likewise: (namespace, pod, container) -> (claim, driver, pool, devices).
    :ivar is_limited: PodResources refuses all calls, with code 8.
    """

    def __init__(self, root: Path, changed: Callable[[], None] = lambda: None) -> None:
        self.root = root
        self.folder = root / "device-plugins"
        self.pod_resources = root / "pod-resources" / "kubelet.sock"
        self._changed = changed
        self.refusal = ""
        self.refused = 0
        self.plugins: dict[str, KnownPlugin] = {}
        self.registrations: list[str] = []
        self.pods: dict[tuple[str, str, str], dict[str, list[str]]] = {}
        self.claims: dict[tuple[str, str, str], tuple[str, str, str, list[str]]] = {}
        self.is_limited = False
        self.cdi_devices: list[list[str]] = []
        self.listings: list[float] = []
        self._servers: list[grpc.Server] = []
        self._random = random.Random(1)
        self._tokens, self._tokens_seconds = float(BURST), time.monotonic()

    def start(self) -> None:
        """Begin: a kubelet deletes all sockets of plugins first."""
        for path in (self.folder, self.pod_resources.parent):
            path.mkdir(parents=True, exist_ok=True)
        for path in self.folder.iterdir():
            path.unlink()
        self._serve(self.pod_resources, POD_RESOURCES.handler(self))
        self._serve(self.folder / "kubelet.sock", REGISTRATION.handler(self))

    def stop(self) -> None:
        """End: all plugins are forgotten."""
        servers, self._servers = self._servers, []
        plugins, self.plugins = self.plugins, {}
        for plugin in plugins.values():
            plugin.channel.close()
        for server in servers:
            server.stop(0).wait()

    def restart(self) -> None:
        """End and begin again."""
        self.stop()
        self.start()

    # What plugins call

    def register(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Take a plugin: call it before the answer, watch its list after it."""
        refusal = self.refusal  # a test may change it meanwhile
        if refusal:
            self.refused += 1
            self._changed()
            context.abort(grpc.StatusCode.UNKNOWN, refusal)
        channel = open_channel(str(self.folder / request.endpoint))
        empty = DEVICE_PLUGIN.messages["Empty"]()
        options = DEVICE_PLUGIN.call(channel, "GetDevicePluginOptions")(empty, timeout=_SECONDS)
        assert options == request.options
        assert (request.version, options.pre_start_required) == ("v1beta1", False)
        plugin = KnownPlugin(request.resource_name, request.endpoint, channel)
        self.plugins[request.resource_name] = plugin
        self.registrations.append(request.resource_name)
        threading.Thread(target=self._watch, args=(plugin,), daemon=True).start()
        return empty

    def list(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Who has what. Like the real one: an entry for each device, in another order each time, some of them twice."""
        self.listings.append(time.monotonic())
        now = time.monotonic()
        self._tokens = min(float(BURST), self._tokens + (now - self._tokens_seconds) * RATE) - 1
        self._tokens_seconds = now
        self._changed()
        if self.is_limited or self._tokens < 0:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        answer = POD_RESOURCES.messages["ListPodResourcesResponse"]()
        places = list({**self.pods, **self.claims})
        for place in self._shuffled(places):
            namespace, pod, name = place
            container = answer.pod_resources.add(name=pod, namespace=namespace).containers.add(name=name)
            found = [(resource, each) for resource, ids in self.pods.get(place, {}).items() for each in ids]
            for resource, each in self._shuffled([*found, *found[:1]]):
                container.devices.add(resource_name=resource, device_ids=[each])
            if place in self.claims:
                claim, driver, pool, devices = self.claims[place]
                dynamic = container.dynamic_resources.add(claim_name=claim, claim_namespace=namespace)
                for each in self._shuffled(devices):
                    dynamic.claim_resources.add(driver_name=driver, pool_name=pool, device_name=each)
        return answer

    # What tests call; not in the reactor's thread when the plugin asks a service that runs there

    def allocate(self, resource: str, *containers: Sequence[str]) -> list[dict[str, str]]:
        """The environments of containers that get these ids.

        :raises grpc.RpcError: when the plugin refuses.
        """
        # As the real one, in any order.
        shuffled = [self._shuffled(ids) for ids in containers]
        return [dict(each.envs) for each in self._allocate(resource, *shuffled)]

    def mounts(self, resource: str, ids: Sequence[str]) -> dict[str, str]:
        """What a container that gets these ids sees: its paths, and those of the node."""
        ((container,),) = [self._allocate(resource, ids)]
        assert all(mount.read_only for mount in container.mounts)
        return {mount.container_path: mount.host_path for mount in container.mounts}

    def _shuffled(self, items: Sequence[Any]) -> Sequence[Any]:
        """In any order."""
        return self._random.sample(items, len(items))

    def _allocate(self, resource: str, *containers: Sequence[str]) -> Sequence[Any]:
        request = DEVICE_PLUGIN.messages["AllocateRequest"]()
        for ids in containers:
            request.containers.add(ids=ids)
        return list(self._call(resource, "Allocate", request).containers)

    def preferred(self, resource: str, available: Iterable[str], must: Iterable[str], size: int) -> list[str]:
        """What the plugin prefers for one container."""
        request = DEVICE_PLUGIN.messages["PreferredAllocationRequest"]()
        request.containers.add(available=available, must_include=must, size=size)
        return list(self._call(resource, "GetPreferredAllocation", request).containers[0].ids)

    def find_dra_plugin(self, driver: str) -> str:
        """What the kubelet does with a socket in plugins_registry: ask who it is, and confirm; the plugin's path."""
        with open_channel(str(self.root / "plugins_registry" / f"{driver}-reg.sock")) as channel:
            messages = PLUGIN_REGISTRATION.messages
            info = PLUGIN_REGISTRATION.call(channel, "GetInfo")(messages["InfoRequest"](), timeout=_SECONDS)
            assert (info.type, info.name, list(info.supported_versions)) == ("DRAPlugin", driver, ["v1.DRAPlugin"])
            status = messages["RegistrationStatus"](plugin_registered=True)
            PLUGIN_REGISTRATION.call(channel, "NotifyRegistrationStatus")(status, timeout=_SECONDS)
            return str(info.endpoint)

    def prepare(self, endpoint: str, namespace: str, name: str, uid: str) -> tuple[list[tuple[str, str, str]], str]:
        """The devices of a claim, and the error. The devices for the container runtime are noted in ``cdi_devices``."""
        request = DRA.messages["NodePrepareResourcesRequest"]()
        request.claims.add(namespace=namespace, name=name, uid=uid)
        with open_channel(endpoint) as channel:
            answer = DRA.call(channel, "NodePrepareResources")(request, timeout=_SECONDS).claims[uid]
        self.cdi_devices = [list(device.cdi_device_ids) for device in answer.devices]
        return [(",".join(e.request_names), e.pool_name, e.device_name) for e in answer.devices], answer.error

    def dra_health(self, endpoint: str, until: str) -> dict[tuple[str, str], tuple[int, str]]:
        """Health and message of each device, by pool and name, as soon as one of them has this message."""
        request = DRA_HEALTH.messages["NodeWatchResourcesRequest"]()
        with open_channel(endpoint) as channel:
            for answer in DRA_HEALTH.call(channel, "NodeWatchResources")(request, timeout=_SECONDS):
                found = {
                    (e.device.pool_name, e.device.device_name): (e.health, e.message) for e in answer.devices
                }  # fmt: skip
                if until in [message for _, message in found.values()]:
                    return found
        raise LookupError(until)

    def unprepare(self, endpoint: str, namespace: str, name: str, uid: str) -> Mapping[str, str]:
        """The errors of claims that are over."""
        request = DRA.messages["NodeUnprepareResourcesRequest"]()
        request.claims.add(namespace=namespace, name=name, uid=uid)
        with open_channel(endpoint) as channel:
            answer = DRA.call(channel, "NodeUnprepareResources")(request, timeout=_SECONDS)
        return {uid: claim.error for uid, claim in answer.claims.items()}

    def allocatable(self, resource: str) -> int:
        """How many devices can be given to pods; 0 when the plugin is gone."""
        plugin = self.plugins.get(resource)
        return plugin.allocatable if plugin else 0

    def _call(self, resource: str, method: str, request: Any) -> Any:
        return DEVICE_PLUGIN.call(self.plugins[resource].channel, method)(request, timeout=_SECONDS)

    def _watch(self, plugin: KnownPlugin) -> None:
        with suppress(grpc.RpcError, ValueError):  # the socket is gone, or our channel is closed
            for answer in DEVICE_PLUGIN.call(plugin.channel, "ListAndWatch")(DEVICE_PLUGIN.messages["Empty"]()):
                plugin.lists.append(
                    {each.ID: (each.health, tuple(node.ID for node in each.topology.nodes)) for each in answer.devices}
                )
                self._changed()
        plugin.is_watched = False
        self._changed()

    def _serve(self, path: Path, handler: grpc.GenericRpcHandler) -> None:
        server = grpc.server(ThreadPoolExecutor(4), handlers=[handler])
        server.add_insecure_port(f"unix:{path}")
        server.start()
        assert socket_file(str(path)) is not None
        self._servers.append(server)
