"""What fakedev needs of a pod, read from its API object; and the form of API objects that are read from files.

The API server has not checked the objects of files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from fakedev.base.errors import FieldError

#: The annotation of a pod with the ids of its devices, by container, as JSON: what fakedev has given it.
DEVICES: Final = "fakedev/devices"
#: Phases in which the containers of a pod are over.
OVER: Final = ("Succeeded", "Failed")


class ContainerKind(Enum):
    """When a container runs."""

    INIT = "init"  # before the others, one after the other
    SIDECAR = "sidecar"  # an init container that goes on: restartPolicy Always
    MAIN = "main"


#: The name, in its pod, of the claim that the scheduler makes for extended resources where DRA satisfies them.
EXTENDED: Final = ""


@dataclass(frozen=True)
class ClaimUse:
    """The use of a resource claim by a container.

    :param name: of the claim in the pod; :data:`EXTENDED` for that of extended resources.
    :param request: the only one of its requests that is used; empty: all.
    """

    name: str
    request: str = ""


@dataclass(frozen=True)
class Container:
    """A container of a pod.

    :param wants: how many of each extended resource (one with a domain, as ``nvidia.com/gpu``) a device plugin is to
        give; without those that a claim satisfies.
    :param claims: the resource claims that it uses.
    """

    name: str
    kind: ContainerKind
    wants: Mapping[str, int]
    claims: tuple[ClaimUse, ...] = ()


@dataclass(frozen=True)
class Pod:
    """A pod.

    :param node: where it was bound; empty: nowhere yet.
    :param phase: ``Pending``, ``Running``, ``Succeeded``, ``Failed`` or ``Unknown``.
    :param is_leaving: it was deleted, and is still there.
    :param claims: the name of the ResourceClaim of each resource claim in the pod, in the pod's namespace.
    :param started: when it started, as the API writes times; empty: not yet.
    :param devices: its annotation :data:`DEVICES`, which is not among the annotations; empty: none.
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
    devices: str = ""

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
    mapped = _mapped(status)
    annotations = metadata.get("annotations") or {}
    containers = [_container(container, mapped, is_init=True) for container in spec.get("initContainers") or ()]
    containers += [_container(container, mapped, is_init=False) for container in spec.get("containers") or ()]
    return Pod(
        namespace=metadata.get("namespace", "default"),
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        node=spec.get("nodeName", ""),
        phase=status.get("phase", "Pending"),
        containers=tuple(containers),
        labels=metadata.get("labels") or {},
        annotations={name: text for name, text in annotations.items() if name != DEVICES},
        is_leaving=bool(metadata.get("deletionTimestamp")),
        claims=_claims(spec, status),
        started=status.get("startTime", ""),
        devices=annotations.get(DEVICES, ""),
    )


def _container(item: Mapping[str, Any], mapped: Mapping[str, Mapping[str, str]], *, is_init: bool) -> Container:
    name = item.get("name", "")
    of_claim = mapped.get(name, {})
    resources = item.get("resources") or {}
    kind = ContainerKind.MAIN
    if is_init:
        kind = ContainerKind.SIDECAR if item.get("restartPolicy") == "Always" else ContainerKind.INIT
    # Requests of extended resources equal their limits; the API server sees to it.
    limits = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    counts = dict(map(_counted, limits.items()))
    wants = {each: count for each, count in counts.items() if "/" in each and count > 0 and each not in of_claim}
    uses = [ClaimUse(resource["name"], resource.get("request") or "") for resource in resources.get("claims") or ()]
    uses += [ClaimUse(EXTENDED, request) for request in of_claim.values()]
    return Container(name, kind, wants, tuple(uses))


def _mapped(status: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """For each container the extended resources that the scheduler's claim satisfies, each with its request there."""
    found: dict[str, dict[str, str]] = {}
    for each in (status.get("extendedResourceClaimStatus") or {}).get("requestMappings") or ():
        found.setdefault(each.get("containerName", ""), {})[each.get("resourceName", "")] = each.get("requestName", "")
    return found


def _counted(limit: tuple[str, Any]) -> tuple[str, int]:
    """A resource and its number; 0 where it is none, as ``500m`` of a processor."""
    name, quantity = limit
    text = str(quantity)
    return name, int(text) if text.isdecimal() else 0


def _claims(spec: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, str]:
    """A claim is named, or made from a template, and then the status has its name."""
    names = {claim["name"]: claim.get("resourceClaimName") or "" for claim in spec.get("resourceClaims") or ()}
    for made in status.get("resourceClaimStatuses") or ():
        names[made["name"]] = made.get("resourceClaimName") or names.get(made["name"], "")
    extended = status.get("extendedResourceClaimStatus") or {}
    if extended.get("resourceClaimName"):
        names[EXTENDED] = extended["resourceClaimName"]
    return {name: claim for name, claim in names.items() if claim}


#: Texts, and quantities of resources, which may be numbers too.
_TEXT: Final = (str,)
_QUANTITY: Final = (str, int, float)


class _Every:
    """An object whose values all have one form, whatever their names."""

    def __init__(self, form: Any) -> None:
        self.form = form


_TEXTS: Final = _Every(_TEXT)
_QUANTITIES: Final = _Every(_QUANTITY)
_METADATA: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"), _TEXT),
    "labels": _TEXTS,
    "annotations": _TEXTS,
}
_CONTAINERS: Final = [
    {
        "name": _TEXT,
        "restartPolicy": _TEXT,
        "resources": {
            "limits": _QUANTITIES, "requests": _QUANTITIES, "claims": [{"name": _TEXT, "request": _TEXT}],
        },
    }
]  # fmt: skip
_CLAIMS: Final = [{"name": _TEXT, "resourceClaimName": _TEXT}]
#: What is read of each kind: objects with these fields, lists of one form, values of these types. Others are ignored.
FORMS: Final[Mapping[str, Mapping[str, Any]]] = {
    "Node": {
        "kind": _TEXT,
        "metadata": _METADATA,
        "spec": {"taints": [{"key": _TEXT, "effect": _TEXT, "value": _TEXT}]},
        "status": {
            "capacity": _QUANTITIES, "allocatable": _QUANTITIES, "conditions": [{"type": _TEXT, "status": _TEXT}],
        },
    },
    "Pod": {
        "kind": _TEXT,
        "metadata": _METADATA,
        "spec": {
            "nodeName": _TEXT, "containers": _CONTAINERS, "initContainers": _CONTAINERS, "resourceClaims": _CLAIMS,
        },
        "status": {
            "phase": _TEXT,
            "startTime": _TEXT,
            "resourceClaimStatuses": _CLAIMS,
            "extendedResourceClaimStatus": {
                "resourceClaimName": _TEXT,
                "requestMappings": [{"containerName": _TEXT, "resourceName": _TEXT, "requestName": _TEXT}],
            },
        },
    },
}  # fmt: skip


def checked(item: object, kind: str) -> dict[str, Any]:
    """An object of a kind, without fields that are null.

    :raises FieldError: with the path of what has another form, or is missing.
    """
    found = _checked(item, FORMS[kind], "")
    if not found.get("metadata", {}).get("name"):
        raise FieldError("metadata.name", "missing")
    if found.get("kind", kind) != kind:
        raise FieldError("kind", f"is {str(found['kind'])[:40]}, and not {kind}")
    return dict(found)


def _checked(value: Any, form: Any, path: str) -> Any:
    if isinstance(form, tuple):
        # True is an int for Python.
        if not isinstance(value, form) or isinstance(value, bool):
            raise FieldError(path, "must be a text" if form == _TEXT else "must be a quantity")
        return value
    if isinstance(form, list):
        if not isinstance(value, list):
            raise FieldError(path, "must be a list")
        items = [_checked(item, form[0], f"{path}[{place}]") for place, item in enumerate(value)]
        for place, item in enumerate(items):
            if "name" in form[0] and "name" not in item:
                raise FieldError(f"{path}[{place}].name", "missing")
        return items
    if not isinstance(value, dict):
        raise FieldError(path or "it", "must be an object")
    found = {}
    for name, item in value.items():
        of_name = form.form if isinstance(form, _Every) else form.get(name)
        if item is not None:
            where = f"{path}.{name[:100]}" if path else name[:100]
            found[name] = item if of_name is None else _checked(item, of_name, where)
    return found
