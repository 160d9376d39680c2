"""How a fleet appears in a Kubernetes cluster, as frozen values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from fakedev.schema.declare import setting

#: The node label whose value names a node's pool, and that of run-ai's fake-gpu-operator, which is taken too.
NODE_LABEL: Final = "fakedev/pool"
OPERATOR_NODE_LABEL: Final = "run.ai/simulated-gpu-node-pool"
#: How many pods may share a device by time-slicing: a node has at most some ten thousand slots.
MAX_REPLICAS: Final = 100


_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def object_name(text: str) -> str:
    """The name of a namespace, or of an object of ours.

    :raises ValueError: for another text.
    """
    if not _NAME.fullmatch(text):
        raise ValueError(f"{text[:60]!r} is no name in Kubernetes: at most 63 small letters, digits and -")
    return text


_RESOURCE: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}/[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def resource_name(text: str) -> str:
    """The name of an extended resource.

    :raises ValueError: for another text.
    """
    if not _RESOURCE.fullmatch(text):
        raise ValueError(f"{text[:60]!r} is no extended resource: give a domain and a name, as acme.com/board")
    return text


class MigStrategy(Enum):
    """How GPUs with instances are offered, in the words of NVIDIA's device plugin."""

    NONE = "none"  # whole GPUs
    SINGLE = "single"  # instances, all of one profile, as nvidia.com/gpu
    MIXED = "mixed"  # each profile as a resource of its own


class Resources(Enum):
    """How devices are offered to pods."""

    DEVICE_PLUGIN = "device-plugin"
    DRA = "dra"
    BOTH = "both"


class Recovery(Enum):
    """When an unhealthy device becomes healthy again."""

    AUTO = "auto"  # when its fault is cleared
    VENDOR = "vendor"  # when its device plugin is started again, as with NVIDIA's


class Struck(Enum):
    """What becomes of a running pod whose device fails."""

    NOTHING = "nothing"
    EVICT = "evict"


@dataclass(frozen=True)
class InCluster:
    """How the devices of a pool are offered in a cluster."""

    replicas: int = setting("How many pods may share a device.", default=1, low=1, high=MAX_REPLICAS)
    is_renamed: bool = setting(
        "Shared devices are another resource: nvidia.com/gpu.shared.", default=False, name="rename"
    )
    mig_strategy: MigStrategy = setting(
        "How instances are offered in a cluster: not at all, all of one profile as nvidia.com/gpu, or each profile as "
        "a resource of its own.",
        default=MigStrategy.NONE, default_words="none",
    )  # fmt: skip
    resource: str = setting(
        "The resource of its boards in a cluster.", default="", words="DOMAIN/NAME", check=resource_name,
        absent="by the vendor: nvidia.com/gpu, amd.com/gpu, habana.ai/gaudi, ...",
    )  # fmt: skip
    is_consumable: bool = setting(
        "With DRA several claims get one device, and consume its memory: what a claim asks for, else as much as one of "
        "the replicas (consumable capacity, Kubernetes 1.36).",
        default=False, name="consumable",
    )  # fmt: skip


@dataclass(frozen=True)
class MigEntry:
    """What a configuration of the MIG manager says of some boards of a node.

    :param devices: their indices; None: all.
    :param filter: identities of boards (PCI device and vendor, ``0x233010DE``); empty: all.
    :param instances: profile to how many; none where MIG mode is off.
    """

    devices: tuple[int, ...] | None
    is_enabled: bool
    instances: Mapping[str, int]
    filter: tuple[str, ...] = ()


@dataclass(frozen=True)
class KubernetesSettings:
    """The connection with a cluster.

    :param node_label: the nodes with this label are simulated; its value is the name of a pool.
    :param operator_label: of fake-gpu-operator, which is taken too; a topology may name another one.
    :param utilization: from the lowest to the highest percentage.
    :param mig_configs: the configurations that the label ``nvidia.com/mig.config`` may name; empty: those that the MIG
        manager makes of the profiles of the boards.
    :param is_compatible: whether the ConfigMaps and the topology server of fake-gpu-operator are there too.
    """

    node_label: str = NODE_LABEL
    operator_label: str = OPERATOR_NODE_LABEL
    utilization: tuple[float, float] = (80.0, 100.0)
    struck: Struck = setting(
        "What becomes of a pod whose device becomes unhealthy: nothing, or it is evicted.",
        default=Struck.NOTHING, default_words="nothing",
    )  # fmt: skip
    resources: Resources = setting(
        "How devices are offered: as extended resources (nvidia.com/gpu), by ResourceSlices, or both.",
        default=Resources.DEVICE_PLUGIN, default_words="device-plugin",
    )  # fmt: skip
    recovery: Recovery = setting(
        "When a device is healthy again: auto: with its fault; vendor: when its plugin starts again, too.",
        default=Recovery.AUTO, default_words="auto",
    )  # fmt: skip
    requests_per_second: float = setting(
        "The most requests to the API server, on average; twice as many at once.",
        default=50.0, low=0.1, high=10_000,
    )  # fmt: skip
    device_faults: bool = setting(
        "Objects DeviceFault of the cluster strike devices; needs their definition, "
        "etc/kubernetes/components/device-faults, and its permissions.",
        default=False,
    )  # fmt: skip
    dynamic_mig: bool = setting(
        "ResourceSlices have every instance (MIG) that a board could have; a claim makes what it gets. Needs "
        "resources: dra, and Kubernetes 1.36.",
        default=False,
    )  # fmt: skip
    compute_domains: bool = setting(
        "Objects ComputeDomain of NVIDIA's DRA driver: nodes in racks offer channels to their pods; needs resources: "
        "dra or both, the definition of the object, etc/kubernetes/components/compute-domains, and its permissions.",
        default=False,
    )  # fmt: skip
    node_topologies: bool = setting(
        "Each node has an object NodeResourceTopology with what its NUMA nodes have; needs resources: device-plugin or "
        "both, the definition of the object, etc/kubernetes/components/node-topologies, and its permissions.",
        default=False,
    )  # fmt: skip
    mig_configs: Mapping[str, Sequence[MigEntry]] = field(default_factory=dict)
    is_compatible: bool = False
    kubeconfig: str = setting(
        "The file that names the API server.", default="", path="path",
        absent="those of the variable KUBECONFIG, else the service account of fakedev's own pod",
    )  # fmt: skip
    context: str = setting("The context of the kubeconfig.", default="", absent="its current one")
    namespace: str = setting(
        "Where fakedev keeps its Lease, and ConfigMaps. Each fleet has one of its own.", default="", words="name",
        check=object_name, absent="that of its own pod, or of the kubeconfig's context",
    )  # fmt: skip
