"""The gRPC APIs between the kubelet and its plugins, in Protobuf messages from compact tables; repeated errors.

Field numbers: api.proto of k8s.io/kubelet, packages deviceplugin/v1beta1, podresources/v1, pluginregistration/v1,
dra/v1 and dra-health/v1alpha1 (Kubernetes 1.36). Only the fields that fakedev-node needs are there. No generated code
is needed.

A table has one line for each message: ``Name: field=1 string, others=2 *Device, labels=3 map``. Types are ``string``,
``bool``, ``int32``, ``int64``, ``map`` (string to string), ``map:Message`` (string to message), or a message of the
table; ``*`` means repeated. Fields that a table leaves out are skipped when a message is read.

An error that comes again and again is logged once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import grpc
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_TYPES: Final = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
}


def make_messages(package: str, table: str) -> Mapping[str, Any]:
    """The message classes of a table, by name.

    :param package: the protobuf package, as ``v1beta1``.
    :raises ValueError: for a line that is wrong.
    """
    # A pool of its own: another library of the process may have the same messages.
    pool, file = DescriptorPool(), FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for line in filter(None, map(str.strip, table.splitlines())):
        name, colon, fields = line.partition(":")
        if not colon:
            raise ValueError(f"no colon in {line!r}")
        message = file.message_type.add(name=name)
        for pair in filter(None, map(str.strip, fields.split(","))):
            _add_field(package, message, pair)
    pool.Add(file)  # type: ignore[no-untyped-call, unused-ignore] # has no annotations in some versions
    return {
        message.name: GetMessageClass(pool.FindMessageTypeByName(f"{package}.{message.name}"))
        for message in file.message_type
    }


def _add_field(package: str, message: DescriptorProto, text: str) -> None:
    """Add a field such as ``devices=1 *Device``."""
    declared, _, kind = text.partition(" ")
    name, _, number = declared.partition("=")
    field = message.field.add(name=name, number=int(number), label=FieldDescriptorProto.LABEL_OPTIONAL)
    if kind.startswith("*") or kind.startswith("map"):
        field.label = FieldDescriptorProto.LABEL_REPEATED
    if kind.startswith("map"):
        # On the wire a map is a list of entries.
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        _add_field(package, entry, "key=1 string")
        _add_field(package, entry, f"value=2 {kind.removeprefix('map').removeprefix(':') or 'string'}")
        kind = f"{message.name}.{entry.name}"
    kind = kind.removeprefix("*")
    if kind in _TYPES:
        field.type = _TYPES[kind]
    else:
        field.type = FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = f".{package}.{kind}"


#: The largest message that is read or written, in bytes.
MAX_MESSAGE_BYTES: Final = 4 << 20

_DEVICE_PLUGIN: Final = """
    Empty:
    DevicePluginOptions: pre_start_required=1 bool, get_preferred_allocation_available=2 bool
    RegisterRequest: version=1 string, endpoint=2 string, resource_name=3 string, options=4 DevicePluginOptions
    NUMANode: ID=1 int64
    TopologyInfo: nodes=1 *NUMANode
    Device: ID=1 string, health=2 string, topology=3 TopologyInfo
    ListAndWatchResponse: devices=1 *Device
    ContainerPreferredRequest: available=1 *string, must_include=2 *string, size=3 int32
    PreferredAllocationRequest: containers=1 *ContainerPreferredRequest
    ContainerPreferredResponse: ids=1 *string
    PreferredAllocationResponse: containers=1 *ContainerPreferredResponse
    ContainerAllocateRequest: ids=1 *string
    AllocateRequest: containers=1 *ContainerAllocateRequest
    Mount: container_path=1 string, host_path=2 string, read_only=3 bool
    ContainerAllocateResponse: envs=1 map, mounts=2 *Mount, annotations=4 map
    AllocateResponse: containers=1 *ContainerAllocateResponse
    PreStartContainerRequest: ids=1 *string
    PreStartContainerResponse:
"""

_POD_RESOURCES: Final = """
    ListPodResourcesRequest:
    ContainerDevices: resource_name=1 string, device_ids=2 *string
    ClaimResource: driver_name=2 string, pool_name=3 string, device_name=4 string
    DynamicResource: claim_name=2 string, claim_namespace=3 string, claim_resources=4 *ClaimResource
    ContainerResources: name=1 string, devices=2 *ContainerDevices, dynamic_resources=5 *DynamicResource
    PodResources: name=1 string, namespace=2 string, containers=3 *ContainerResources
    ListPodResourcesResponse: pod_resources=1 *PodResources
"""

_PLUGIN_REGISTRATION: Final = """
    InfoRequest:
    PluginInfo: type=1 string, name=2 string, endpoint=3 string, supported_versions=4 *string
    RegistrationStatus: plugin_registered=1 bool, error=2 string
    RegistrationStatusResponse:
"""

_DRA: Final = """
    Claim: namespace=1 string, uid=2 string, name=3 string
    NodePrepareResourcesRequest: claims=1 *Claim
    Device: request_names=1 *string, pool_name=2 string, device_name=3 string, cdi_device_ids=4 *string, \
share_id=5 string
    NodePrepareResourceResponse: devices=1 *Device, error=2 string
    NodePrepareResourcesResponse: claims=1 map:NodePrepareResourceResponse
    NodeUnprepareResourcesRequest: claims=1 *Claim
    NodeUnprepareResourceResponse: error=1 string
    NodeUnprepareResourcesResponse: claims=1 map:NodeUnprepareResourceResponse
"""

_DRA_HEALTH: Final = """
    NodeWatchResourcesRequest:
    DeviceIdentifier: pool_name=1 string, device_name=2 string
    DeviceHealth: device=1 DeviceIdentifier, health=2 int32, last_updated_time=3 int64, message=5 string
    NodeWatchResourcesResponse: devices=1 *DeviceHealth
"""


@dataclass(frozen=True)
class Method:
    """One method: the names of its messages, and whether the answer is a stream."""

    request: str
    answer: str
    is_stream: bool = False


@dataclass(frozen=True)
class Api:
    """A gRPC service.

    :param service: its full name.
    :param messages: the classes by name.
    """

    service: str
    messages: Mapping[str, Any]
    methods: Mapping[str, Method]

    def handler(self, implementation: object) -> grpc.GenericRpcHandler:
        """Serves all methods by the object's methods of the same names in snake case."""
        handlers = {}
        for name, method in self.methods.items():
            make = grpc.unary_stream_rpc_method_handler if method.is_stream else grpc.unary_unary_rpc_method_handler
            handlers[name] = make(
                getattr(implementation, _snake_case(name)),
                request_deserializer=self.messages[method.request].FromString,
                response_serializer=self.messages[method.answer].SerializeToString,
            )
        return grpc.method_handlers_generic_handler(self.service, handlers)

    def call(self, channel: grpc.Channel, name: str) -> Any:
        """The callable of a method over a channel, as gRPC makes it."""
        method = self.methods[name]
        make = channel.unary_stream if method.is_stream else channel.unary_unary
        return make(
            f"/{self.service}/{name}",
            request_serializer=self.messages[method.request].SerializeToString,
            response_deserializer=self.messages[method.answer].FromString,
        )


_PLUGIN_MESSAGES: Final = make_messages("v1beta1", _DEVICE_PLUGIN)

#: Served by the kubelet in kubelet.sock, called by device plugins.
REGISTRATION: Final = Api("v1beta1.Registration", _PLUGIN_MESSAGES, {"Register": Method("RegisterRequest", "Empty")})
#: Served by a device plugin.
DEVICE_PLUGIN: Final = Api(
    "v1beta1.DevicePlugin",
    _PLUGIN_MESSAGES,
    {
        "GetDevicePluginOptions": Method("Empty", "DevicePluginOptions"),
        "ListAndWatch": Method("Empty", "ListAndWatchResponse", is_stream=True),
        "GetPreferredAllocation": Method("PreferredAllocationRequest", "PreferredAllocationResponse"),
        "Allocate": Method("AllocateRequest", "AllocateResponse"),
        "PreStartContainer": Method("PreStartContainerRequest", "PreStartContainerResponse"),
    },
)
#: Served by the kubelet: who has what.
POD_RESOURCES: Final = Api(
    "v1.PodResourcesLister",
    make_messages("v1", _POD_RESOURCES),
    {"List": Method("ListPodResourcesRequest", "ListPodResourcesResponse")},
)
#: Served by a plugin in the folder that the kubelet watches.
PLUGIN_REGISTRATION: Final = Api(
    "pluginregistration.Registration",
    make_messages("pluginregistration", _PLUGIN_REGISTRATION),
    {
        "GetInfo": Method("InfoRequest", "PluginInfo"),
        "NotifyRegistrationStatus": Method("RegistrationStatus", "RegistrationStatusResponse"),
    },
)
#: Served by a DRA plugin.
DRA: Final = Api(
    "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin",
    make_messages("k8s.io.kubelet.pkg.apis.dra.v1", _DRA),
    {
        "NodePrepareResources": Method("NodePrepareResourcesRequest", "NodePrepareResourcesResponse"),
        "NodeUnprepareResources": Method("NodeUnprepareResourcesRequest", "NodeUnprepareResourcesResponse"),
    },
)
#: Served by a DRA plugin, optionally: the kubelet shows the health in the status of pods (ResourceHealthStatus).
DRA_HEALTH: Final = Api(
    "v1alpha1.DRAResourceHealth",
    make_messages("v1alpha1", _DRA_HEALTH),
    {"NodeWatchResources": Method("NodeWatchResourcesRequest", "NodeWatchResourcesResponse", is_stream=True)},
)

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.enable_http_proxy", 0),
)


def server_options() -> list[tuple[str, Any]]:
    return [*_OPTIONS, ("grpc.so_reuseport", 0)]


def open_channel(path: str) -> grpc.Channel:
    """A new channel to a UNIX socket.

    It shares no connection with other channels: gRPC would wait longer and longer after the kubelet has restarted.
    """
    options = [*_OPTIONS, ("grpc.use_local_subchannel_pool", 1), ("grpc.default_authority", "localhost")]
    return grpc.insecure_channel(f"unix:{path}", options=options)


def why(error: grpc.RpcError) -> str:
    """The reason of a call that failed, on one line."""
    code, details = error.code(), error.details()
    return f"{code.name}: {details}" if details else str(code.name)


def _snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


class OpenProblem:
    """Logs each problem once, however often it is met, and once that it is over.

    :param what: the subject of the messages.
    """

    def __init__(self, log: logging.Logger, what: str) -> None:
        self._log = log
        self._what = what
        self._text = ""

    def met(self, text: str) -> None:
        if text != self._text:
            self._text = text
            self._log.warning("%s: %s", self._what, text)

    def over(self, text: str = "") -> None:
        """It works now.

        :param text: what is logged if there was a problem; empty: nothing.
        """
        if self._text and text:
            self._log.info("%s: %s", self._what, text)
        self._text = ""
