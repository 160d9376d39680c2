"""A ``ComputeDomain`` of NVIDIA's DRA driver: the claims by which pods join it, its nodes, and its status.

The object names a template for claims, and fakedev creates it. A pod with such a claim gets a channel on its node, and
the node is in the domain while a claim is in use there. NVIDIA's driver then starts an IMEX daemon in a pod; here the
node has its daemon already (:mod:`fakedev.fleet.racks`), and there is no such pod. Sources:
kubernetes-sigs/dra-driver-nvidia-gpu, api/nvidia.com/resource/v1beta1 (computedomain.go, computedomainconfig.go),
cmd/compute-domain-controller (computedomain.go: when a domain is ready; resourceclaimtemplate.go),
cmd/compute-domain-kubelet-plugin (deviceinfo.go: the devices; device_state.go), and its templates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fakedev.kubernetes.client.api_paths import Target
from fakedev.kubernetes.devices.dra import CHANNEL_DRIVER, Claim
from fakedev.kubernetes.devices.resource_slices import API_VERSION, MADE_BY
from fakedev.kubernetes.nodes.node_labels import DOMAIN

GROUP: Final = "resource.nvidia.com"
VERSION: Final = "v1beta1"
DOMAINS_PATH: Final = Target(GROUP, VERSION, "computedomains").path
_TARGET: Final = f"{GROUP}/computeDomainTarget"
_CLASS: Final = "compute-domain-default-channel.nvidia.com"
_READY: Final[Mapping[bool, str]] = {True: "Ready", False: "NotReady"}


@dataclass(frozen=True)
class ComputeDomain:
    """The object.

    :param template: the name of the template of claims.
    :param mode: of the allocation of channels: ``Single`` or ``All``.
    :param count: nodes that it needs to be ready.
    :param nodes: those that its status has.
    :param state: that its status has; empty: none.
    """

    namespace: str
    name: str
    uid: str
    template: str
    mode: str = "Single"
    count: int = 0
    nodes: Sequence[Mapping[str, Any]] = ()
    state: str = ""


@dataclass(frozen=True)
class Member:
    """A node in a domain.

    :param address: its IP address.
    :param clique: UUID of the cluster and number of the clique.
    :param is_ready: whether its IMEX daemon is.
    """

    name: str
    address: str
    clique: str
    is_ready: bool = True


def read_compute_domain(item: Mapping[str, Any]) -> ComputeDomain:
    """An object of the API, which has checked its form."""
    metadata, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    channel = spec.get("channel") or {}
    return ComputeDomain(
        metadata["namespace"], metadata["name"], metadata.get("uid", ""),
        (channel.get("resourceClaimTemplate") or {}).get("name", ""), channel.get("allocationMode") or "Single",
        spec.get("numNodes") or 0, tuple(status.get("nodes") or ()), status.get("status", ""),
    )  # fmt: skip


def claim_template(domain: ComputeDomain) -> dict[str, Any]:
    """The ResourceClaimTemplate that pods of a domain use; it goes with the domain."""
    parameters = {
        "apiVersion": f"{GROUP}/{VERSION}", "kind": "ComputeDomainChannelConfig", "domainID": domain.uid,
        "allocationMode": domain.mode,
    }  # fmt: skip
    opaque = {"driver": CHANNEL_DRIVER, "parameters": parameters}
    owner = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "ComputeDomain", "name": domain.name, "uid": domain.uid}
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceClaimTemplate",
        "metadata": {
            "name": domain.template,
            "namespace": domain.namespace,
            "labels": {**MADE_BY, DOMAIN: domain.uid, _TARGET: "Workload"},
            "ownerReferences": [owner],
        },
        "spec": {
            "spec": {
                "devices": {
                    "requests": [{"name": "channel", "exactly": {"deviceClassName": _CLASS}}],
                    "config": [{"requests": ["channel"], "opaque": opaque}],
                }
            }
        },
    }


def nodes_of_domains(claims: Iterable[Claim]) -> dict[str, str]:
    """The UID of the domain of each node where pods have channels.

    :param claims: those with channels.
    """
    found: dict[str, str] = {}
    for claim in sorted(claims, key=lambda each: (each.allocated, each.namespace, each.name)):
        for result in claim.results if claim.pods else ():
            if result.driver == CHANNEL_DRIVER and not result.is_admin:
                found.setdefault(result.pool, claim.domain)
    return found


def status_of_domain(domain: ComputeDomain, members: Iterable[Member]) -> dict[str, Any]:
    """The status: a node keeps its index in its clique, and a new one gets the first that is free."""
    known = {(node.get("cliqueID"), node.get("name")): node.get("index", 0) for node in domain.nodes}
    present = sorted(members, key=lambda member: member.name)
    taken = {(member.clique, known[member.clique, member.name]) for member in present
             if (member.clique, member.name) in known}  # fmt: skip
    nodes = []
    for member in present:
        index = known.get((member.clique, member.name))
        if index is None:
            index = next(number for number in range(len(taken) + 1) if (member.clique, number) not in taken)
            taken.add((member.clique, index))
        nodes.append({
            "name": member.name, "ipAddress": member.address, "cliqueID": member.clique, "index": index,
            "status": _READY[member.is_ready],
        })  # fmt: skip
    is_ready = len(nodes) >= domain.count and all(member.is_ready for member in present)
    return {"status": _READY[is_ready], "nodes": nodes}
