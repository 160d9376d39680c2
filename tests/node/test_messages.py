"""The bytes of the kubelet's messages: written here by hand, from the field numbers of its api.proto files."""

from __future__ import annotations

import pytest

from fakedev.node.kubelet import DEVICE_PLUGIN, DRA, PLUGIN_REGISTRATION, POD_RESOURCES, REGISTRATION, make_messages


def text(number: int, content: str | bytes) -> bytes:
    """A field with a text or a message, shorter than 128 bytes."""
    data = content.encode() if isinstance(content, str) else content
    return bytes([number << 3 | 2, len(data)]) + data


def number(field: int, value: int) -> bytes:
    """A field with a small number, or true."""
    return bytes([field << 3, value])


def entry(key: str, value: str | bytes) -> bytes:
    """An entry of a map."""
    return text(1, key) + text(2, value)


def test_a_registration() -> None:
    message = REGISTRATION.messages["RegisterRequest"](version="v1beta1", endpoint="a.sock", resource_name="x/y")
    message.options.get_preferred_allocation_available = True
    expected = text(1, "v1beta1") + text(2, "a.sock") + text(3, "x/y") + text(4, number(2, 1))
    assert message.SerializeToString() == expected


def test_a_list_of_devices() -> None:
    """v1beta1.DevicePlugin/ListAndWatch; NUMA node 0 has no bytes, and is still there."""
    message = DEVICE_PLUGIN.messages["ListAndWatchResponse"]()
    message.devices.add(ID="GPU-1", health="Healthy").topology.nodes.add(ID=0)
    message.devices.add(ID="GPU-2", health="Unhealthy").topology.nodes.add(ID=1)
    message.devices.add(ID="GPU-3", health="Healthy")
    assert message.SerializeToString() == (
        text(1, text(1, "GPU-1") + text(2, "Healthy") + text(3, text(1, b"")))
        + text(1, text(1, "GPU-2") + text(2, "Unhealthy") + text(3, text(1, number(1, 1))))
        + text(1, text(1, "GPU-3") + text(2, "Healthy"))
    )


def test_preferences_and_allocations() -> None:
    """v1beta1.DevicePlugin: what the kubelet asks is read, and what it is answered."""
    asked = text(1, text(1, "a") + text(1, "b") + text(2, "b") + number(3, 2))
    (wanted,) = DEVICE_PLUGIN.messages["PreferredAllocationRequest"].FromString(asked).containers
    assert (list(wanted.available), list(wanted.must_include), wanted.size) == (["a", "b"], ["b"], 2)
    answer = DEVICE_PLUGIN.messages["PreferredAllocationResponse"]()
    answer.containers.add(ids=["a", "b"])
    assert answer.SerializeToString() == text(1, text(1, "a") + text(1, "b"))
    asked = text(1, text(1, "a") + text(1, "b")) + text(1, text(1, "c"))
    containers = DEVICE_PLUGIN.messages["AllocateRequest"].FromString(asked).containers
    assert [list(container.ids) for container in containers] == [["a", "b"], ["c"]]
    answer = DEVICE_PLUGIN.messages["AllocateResponse"]()
    answer.containers.add(envs={"A": "1"}, annotations={"B": "2"})
    assert answer.SerializeToString() == text(1, text(1, entry("A", "1")) + text(4, entry("B", "2")))


def test_pod_resources() -> None:
    """v1.PodResourcesLister/List; fields that nobody needs are skipped."""
    claim = text(2, "claim") + text(3, "ns") + text(4, text(2, "d") + text(3, "pool") + text(4, "gpu-0"))
    container = text(1, "main") + text(2, text(1, "x/y") + text(2, "a")) + text(3, b"\x01\x02") + text(5, claim)
    data = text(1, text(1, "pod") + text(2, "ns") + text(3, container))
    (pod,) = POD_RESOURCES.messages["ListPodResourcesResponse"].FromString(data).pod_resources
    (found,) = pod.containers
    assert (pod.name, pod.namespace, found.name) == ("pod", "ns", "main")
    assert [(device.resource_name, list(device.device_ids)) for device in found.devices] == [("x/y", ["a"])]
    (dynamic,) = found.dynamic_resources
    (device,) = dynamic.claim_resources
    assert (dynamic.claim_name, dynamic.claim_namespace) == ("claim", "ns")
    assert (device.driver_name, device.pool_name, device.device_name) == ("d", "pool", "gpu-0")


def test_the_registration_of_a_dra_plugin() -> None:
    info = PLUGIN_REGISTRATION.messages["PluginInfo"](
        type="DRAPlugin", name="d", endpoint="/p", supported_versions=["v1.DRAPlugin"]
    )
    assert info.SerializeToString() == text(1, "DRAPlugin") + text(2, "d") + text(3, "/p") + text(4, "v1.DRAPlugin")
    status = PLUGIN_REGISTRATION.messages["RegistrationStatus"].FromString(number(1, 1) + text(2, "why"))
    assert (status.plugin_registered, status.error) == (True, "why")


def test_claims() -> None:
    asked = text(1, text(1, "ns") + text(2, "uid") + text(3, "claim"))
    (claim,) = DRA.messages["NodePrepareResourcesRequest"].FromString(asked).claims
    assert (claim.namespace, claim.uid, claim.name) == ("ns", "uid", "claim")
    answer = DRA.messages["NodePrepareResourcesResponse"]()
    answer.claims["u"].devices.add(request_names=["gpu"], pool_name="a", device_name="gpu-0", cdi_device_ids=["c"])
    device = text(1, "gpu") + text(2, "a") + text(3, "gpu-0") + text(4, "c")
    assert answer.SerializeToString() == text(1, entry("u", text(1, device)))
    answer = DRA.messages["NodePrepareResourcesResponse"]()
    answer.claims["u"].error = "why"
    assert answer.SerializeToString() == text(1, entry("u", text(2, "why")))
    done = DRA.messages["NodeUnprepareResourcesResponse"]()
    done.claims["u"].error = "why"
    assert done.SerializeToString() == text(1, entry("u", text(1, "why")))


def test_the_names_of_the_services() -> None:
    names = [api.service for api in (REGISTRATION, DEVICE_PLUGIN, POD_RESOURCES, PLUGIN_REGISTRATION, DRA)]
    assert names == [
        "v1beta1.Registration",
        "v1beta1.DevicePlugin",
        "v1.PodResourcesLister",
        "pluginregistration.Registration",
        "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin",
    ]


@pytest.mark.parametrize("table", ["Message", "Message: a", "Message: a=x string", "Message: a=1 Other"])
def test_a_wrong_table(table: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        make_messages("p", table)
