"""How a fleet appears in a Kubernetes cluster, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

#: The node label whose value names a node's pool, and that of run-ai's fake-gpu-operator, which is taken too.
NODE_LABEL: Final = "fakedev/pool"
OPERATOR_NODE_LABEL: Final = "run.ai/simulated-gpu-node-pool"
#: How many pods may share a device by time-slicing: a node has at most some ten thousand slots.
MAX_REPLICAS: Final = 100


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
    """How the devices of a pool are offered in a cluster.

    :param replicas: how many pods share a device by time-slicing; 1: it is not shared.
    :param is_renamed: whether shared devices are another resource, ``nvidia.com/gpu.shared``.
    """

    replicas: int = 1
    is_renamed: bool = False
    mig_strategy: MigStrategy = MigStrategy.NONE


@dataclass(frozen=True)
class KubernetesSettings:
    """The connection with a cluster.

    :param node_label: the nodes with this label are simulated; its value is the name of a pool.
    :param operator_label: of fake-gpu-operator, which is taken too; a topology may name another one.
    :param utilization: of the devices of a running pod that does not say, from the lowest to the highest percentage.
    :param is_compatible: whether the ConfigMaps and the topology server of fake-gpu-operator are there too.
    :param kubeconfig: the file that names the API server; empty: the service account of the pod.
    :param context: of the kubeconfig; empty: its current one.
    :param namespace: of Leases and ConfigMaps; empty: that of fakedev's own pod, or of the context.
    """

    node_label: str = NODE_LABEL
    operator_label: str = OPERATOR_NODE_LABEL
    utilization: tuple[float, float] = (80.0, 100.0)
    struck: Struck = Struck.NOTHING
    resources: Resources = Resources.DEVICE_PLUGIN
    recovery: Recovery = Recovery.AUTO
    requests_per_second: float = 50.0
    is_compatible: bool = False
    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""
