"""What fakedev needs of a pod, read from an object of the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

#: Phases in which the containers of a pod are over.
OVER: Final = ("Succeeded", "Failed")


class ContainerKind(Enum):
    """When a container runs."""

    INIT = "init"  # before the others, one after the other
    SIDECAR = "sidecar"  # an init container that goes on: restartPolicy Always
    MAIN = "main"


@dataclass(frozen=True)
class Container:
    """A container of a pod.

    :param wants: how many of each extended resource (one with a domain, as ``nvidia.com/gpu``).
    :param claims: the names, in the pod, of the resource claims that it uses.
    """

    name: str
    kind: ContainerKind
    wants: Mapping[str, int]
    claims: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pod:
    """A pod.

    :param node: where it was bound; empty: nowhere yet.
    :param phase: ``Pending``, ``Running``, ``Succeeded``, ``Failed`` or ``Unknown``.
    :param is_leaving: it was deleted, and is still there.
    :param claims: the name of the ResourceClaim of each resource claim in the pod.
    :param started: when it started, as the API writes times; empty: not yet.
    """

    namespace: str
    name: str
    uid: str
    node: str
    phase: str
    containers: tuple[Container, ...]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    is_leaving: bool = False
    claims: Mapping[str, str] = field(default_factory=dict)
    started: str = ""

    @property
    def is_over(self) -> bool:
        """Whether its containers have ended, so that its devices are free."""
        return self.phase in OVER

    @property
    def wants_devices(self) -> bool:
        """Whether some container asks for an extended resource or a claim."""
        return any(container.wants or container.claims for container in self.containers)


def read_pod(item: Mapping[str, Any]) -> Pod:
    """A pod of the API. The API server has checked its form; what is missing is empty."""
    metadata, spec, status = item.get("metadata", {}), item.get("spec", {}), item.get("status", {})
    containers = [_container(each, is_init=True) for each in spec.get("initContainers") or ()]
    containers += [_container(each, is_init=False) for each in spec.get("containers") or ()]
    return Pod(
        namespace=metadata.get("namespace", "default"),
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        node=spec.get("nodeName", ""),
        phase=status.get("phase", "Pending"),
        containers=tuple(containers),
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        is_leaving=bool(metadata.get("deletionTimestamp")),
        claims=_claims(spec, status),
        started=status.get("startTime", ""),
    )


def _container(item: Mapping[str, Any], *, is_init: bool) -> Container:
    resources = item.get("resources") or {}
    kind = ContainerKind.MAIN
    if is_init:
        kind = ContainerKind.SIDECAR if item.get("restartPolicy") == "Always" else ContainerKind.INIT
    # Requests of extended resources equal their limits; the API server sees to it.
    limits = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    wants = {name: count for name, count in map(_counted, limits.items()) if "/" in name and count > 0}
    return Container(item.get("name", ""), kind, wants, tuple(each["name"] for each in resources.get("claims") or ()))


def _counted(limit: tuple[str, Any]) -> tuple[str, int]:
    """A resource and its number; 0 where it is none, as ``500m`` of a processor."""
    name, quantity = limit
    text = str(quantity)
    return name, int(text) if text.isdecimal() else 0


def _claims(spec: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, str]:
    """A claim is named, or made from a template, and then the status has its name."""
    names = {each["name"]: each.get("resourceClaimName") or "" for each in spec.get("resourceClaims") or ()}
    for made in status.get("resourceClaimStatuses") or ():
        names[made["name"]] = made.get("resourceClaimName") or names.get(made["name"], "")
    extended = status.get("extendedResourceClaimStatus") or {}
    if extended.get("resourceClaimName"):
        names[""] = extended["resourceClaimName"]  # the claim of nvidia.com/gpu, where DRA satisfied it
    return {name: claim for name, claim in names.items() if claim}
