"""The objects of the API server in memory: their kinds, the errors of the real one, checks, versions and history.

Errors are objects of the kind Status with the messages of the real server. The checks refuse what the real one refuses
of the objects that fakedev writes. Watches read the history.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import orjson


@dataclass(frozen=True)
class Kind:
    """A kind of object.

    :param resource: its name in paths: ``nodes``.
    :param has_status: whether its status is changed by the subresource ``status`` alone.
    """

    group: str
    version: str
    resource: str
    name: str
    is_namespaced: bool
    has_status: bool = False
    short_names: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """As objects have it: ``v1``, ``coordination.k8s.io/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def shown(self) -> str:
        """As messages of the API server name it: ``nodes``, ``leases.coordination.k8s.io``."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


_LEASES = "coordination.k8s.io"
_DRA = "resource.k8s.io"
KINDS = (
    Kind("", "v1", "nodes", "Node", False, True, ("no",)),
    Kind("", "v1", "pods", "Pod", True, True, ("po",)),
    Kind("", "v1", "namespaces", "Namespace", False, True, ("ns",)),
    Kind("", "v1", "configmaps", "ConfigMap", True, short_names=("cm",)),
    Kind("", "v1", "secrets", "Secret", True),
    Kind("", "v1", "services", "Service", True, True, ("svc",)),
    Kind("", "v1", "serviceaccounts", "ServiceAccount", True, short_names=("sa",)),
    Kind("", "v1", "events", "Event", True, short_names=("ev",)),
    Kind("apps", "v1", "deployments", "Deployment", True, True, ("deploy",)),
    Kind("apps", "v1", "daemonsets", "DaemonSet", True, True, ("ds",)),
    Kind("apps", "v1", "statefulsets", "StatefulSet", True, True, ("sts",)),
    Kind("batch", "v1", "jobs", "Job", True, True),
    Kind(_LEASES, "v1", "leases", "Lease", True),
    Kind("faults.fakedev", "v1alpha1", "devicefaults", "DeviceFault", False, True),
    Kind("resource.nvidia.com", "v1beta1", "computedomains", "ComputeDomain", True, True),
    Kind("topology.node.k8s.io", "v1alpha2", "noderesourcetopologies", "NodeResourceTopology", False, False),
    Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False, True, ("crd",)),
    Kind(_DRA, "v1", "resourceslices", "ResourceSlice", False),
    Kind(_DRA, "v1", "deviceclasses", "DeviceClass", False),
    Kind(_DRA, "v1", "resourceclaims", "ResourceClaim", True, True),
    Kind(_DRA, "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True),
    Kind("rbac.authorization.k8s.io", "v1", "roles", "Role", True),
    Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", True),
    Kind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False),
    Kind("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False),
)
_BY_RESOURCE = {kind.resource: kind for kind in KINDS}
_BY_PATH = {(kind.group, kind.version, kind.resource): kind for kind in KINDS}
_BY_OBJECT = {(kind.api_version, kind.name): kind for kind in KINDS}


@dataclass(frozen=True)
class Address:
    """What a path names: ``/api/v1/namespaces/default/pods/a/status``."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> str:
        """As rules of roles name it: ``pods/status``."""
        return f"{self.kind.resource}/{self.subresource}" if self.subresource else self.kind.resource


def kind_of_resource(resource: str) -> Kind:
    """The kind with this name in paths."""
    return _BY_RESOURCE[resource]


def kind_of_item(item: dict[str, Any]) -> Kind:
    """The kind of an object, by its apiVersion and kind."""
    return _BY_OBJECT[item["apiVersion"], item["kind"]]


def parse_path(path: str) -> Address | None:
    """What a path of the API names; None when there is no such resource."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and (group, version, rest[2]) in _BY_PATH:
        namespace, rest = rest[1], rest[2:]
    kind = _BY_PATH.get((group, version, rest[0]))
    if kind is None or len(rest) > 3 or (namespace and not kind.is_namespaced):
        return None
    name, subresource = ([*rest[1:], "", ""])[:2]
    if name and kind.is_namespaced and not namespace:
        return None
    return Address(kind, namespace, name, subresource)


USER = "system:serviceaccount:fakedev:fakedev"


class StatusError(Exception):
    """An answer that is an error.

    :param headers: of the answer, as ``Retry-After``.
    :param text: a body that is no JSON; empty: the Status.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        text: str = "",
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message
        self.details = details or {}
        self.headers = headers or {}
        self.text = text

    @property
    def status(self) -> dict[str, Any]:
        """The object of the kind Status."""
        return {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
            "reason": self.reason, "details": self.details, "code": self.code,
        }  # fmt: skip


def _details(address: Address) -> dict[str, Any]:
    details = {"name": address.name, "group": address.kind.group, "kind": address.kind.resource}
    return {key: value for key, value in details.items() if value}


def not_found(address: Address) -> StatusError:
    """404."""
    return StatusError(404, "NotFound", f'{address.kind.shown} "{address.name}" not found', _details(address))


def no_such_resource() -> StatusError:
    """404 for a path that names nothing."""
    return StatusError(404, "NotFound", "the server could not find the requested resource")


def exists(address: Address) -> StatusError:
    """409 when an object is created again."""
    message = f'{address.kind.shown} "{address.name}" already exists'
    return StatusError(409, "AlreadyExists", message, _details(address))


def conflict(address: Address) -> StatusError:
    """409 when an object has changed meanwhile."""
    message = (
        f'Operation cannot be fulfilled on {address.kind.shown} "{address.name}": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    return StatusError(409, "Conflict", message, _details(address))


def forbidden(verb: str, address: Address) -> StatusError:
    """403, with verb, resource, namespace and user."""
    scope = f'in the namespace "{address.namespace}"' if address.namespace else "at the cluster scope"
    name = f' "{address.name}"' if address.name else ""
    message = (
        f'{address.kind.shown}{name} is forbidden: User "{USER}" cannot {verb} resource "{address.resource}" '
        f'in API group "{address.kind.group}" {scope}'
    )
    return StatusError(403, "Forbidden", message, _details(address))


def invalid(address: Address, field: str, value: str, why: str) -> StatusError:
    """422, with the field that is wrong."""
    fault = f'Invalid value: "{value}": {why}'
    message = f'{address.kind.name} "{address.name}" is invalid: {field}: {fault}'
    causes = [{"reason": "FieldValueInvalid", "message": fault, "field": field}]
    return StatusError(422, "Invalid", message, {**_details(address), "kind": address.kind.name, "causes": causes})


def expired(message: str) -> StatusError:
    """410: list anew."""
    return StatusError(410, "Expired", message)


_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_WHOLE = re.compile(r"\d+(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")
_LABEL_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character"
)


def check(address: Address, item: dict[str, Any]) -> None:
    """
    :raises StatusError: 422 with the field, or 400 for a value of the wrong type.
    """
    metadata = item["metadata"]
    if not _NAME.fullmatch(metadata.get("name", "")):
        why = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
        raise invalid(address, "metadata.name", metadata.get("name", ""), why)
    for field in ("labels", "annotations"):
        for key, value in (metadata.get(field) or {}).items():
            if not isinstance(value, str):
                why = f"cannot unmarshal {type(value).__name__} into Go struct field ObjectMeta.metadata.{field}"
                raise StatusError(400, "BadRequest", f"{address.kind.name} in version: json: {why} of type string")
            if not _LABEL_KEY.fullmatch(key):
                raise invalid(address, f"metadata.{field}", key, "name part must consist of alphanumeric characters")
            if field == "labels" and not _LABEL_VALUE.fullmatch(value):
                raise invalid(address, "metadata.labels", value, _LABEL_RULE)
    if address.kind.resource == "nodes":
        _check_node(address, item)
    if address.kind.resource == "resourceslices":
        _check_slice(address, item)


def _check_node(address: Address, item: dict[str, Any]) -> None:
    for field in ("capacity", "allocatable"):
        for name, quantity in (item.get("status", {}).get(field) or {}).items():
            # Extended resources have the name of their maker in them.
            if "/" in name and not _WHOLE.fullmatch(str(quantity)):
                raise invalid(address, f"status.{field}[{name}]", str(quantity), "must be an integer")


def _check_slice(address: Address, item: dict[str, Any]) -> None:
    devices = item.get("spec", {}).get("devices") or []
    most = 64 if any("taints" in device or "consumesCounters" in device for device in devices) else 128
    if len(devices) > most:
        raise invalid(address, "spec.devices", str(len(devices)), f"must have at most {most} items")


Item = dict[str, Any]
Json = TypeVar("Json", Item, list[Item])


def copied(value: Json) -> Json:
    """A copy by way of JSON, as a server gives one: a tenth of the time of deepcopy."""
    copy: Json = orjson.loads(orjson.dumps(value))
    return copy


class Change(NamedTuple):
    """An entry of the history.

    :param word: ADDED, MODIFIED or DELETED.
    :param before: the object before the change; None when it is new.
    """

    version: int
    word: str
    kind: Kind
    item: Item
    before: Item | None


class Store:
    """All objects. Stored objects are never changed in place, so they can be given to readers.

    :param seconds: the time of day, for creationTimestamp.
    :ivar oldest: watches from an older resource version are expired.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self.version = 100
        self.oldest = 0
        self.history: list[Change] = []
        self.listeners: list[Callable[[Change], None]] = []
        self._seconds = seconds
        self._items: dict[Kind, dict[tuple[str, str], Item]] = {}

    def all(self, kind: Kind, namespace: str = "") -> list[Item]:
        """The objects of a kind, by namespace and name."""
        held = self._items.get(kind, {})
        return [held[key] for key in sorted(held) if not namespace or key[0] == namespace]

    def get(self, address: Address) -> Item:
        """
        :raises StatusError: 404.
        """
        try:
            return self._items[address.kind][address.namespace, address.name]
        except KeyError:
            raise not_found(address) from None

    def create(self, address: Address, item: Item) -> Item:
        """Add a new object.

        :raises StatusError: when there is one, or it is invalid.
        """
        item = copied(item)
        metadata = item.setdefault("metadata", {})
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = f"{metadata['generateName']}{self.version + 1:05x}"
        address = Address(address.kind, address.namespace, metadata.get("name", ""))
        if (address.namespace, address.name) in self._items.get(address.kind, {}):
            raise exists(address)
        if address.namespace:
            metadata["namespace"] = address.namespace
        created = datetime.fromtimestamp(self._seconds(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        metadata.setdefault("uid", str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.version}")))
        metadata.setdefault("creationTimestamp", created)
        check(address, item)
        return self._keep(address, "ADDED", item, None)

    def replace(self, address: Address, item: Item, *, is_whole: bool = False) -> Item:
        """Replace an object, or the part of it that a subresource has.

        :param is_whole: replace the object and its status.
        :raises StatusError: when there is none, it has changed since the resource version given, or is invalid.
        """
        before = self.get(address)
        given = item.get("metadata", {}).get("resourceVersion")
        if given and given != before["metadata"]["resourceVersion"]:
            raise conflict(address)
        item = copied(item)
        kept = ("name", "namespace", "uid", "creationTimestamp")
        metadata = item.setdefault("metadata", {})
        metadata.update({key: before["metadata"][key] for key in kept if key in before["metadata"]})
        item["kind"], item["apiVersion"] = before["kind"], before["apiVersion"]
        if address.kind.has_status and not is_whole:
            # Each of the two paths leaves the other part of the object as it is.
            other = "status" if not address.subresource else "spec"
            item.pop(other, None)
            if other in before:
                item[other] = before[other]
        check(address, item)
        metadata["resourceVersion"] = before["metadata"]["resourceVersion"]
        if item == before:
            return before  # the real server writes nothing then
        return self._keep(Address(address.kind, address.namespace, address.name), "MODIFIED", item, before)

    def delete(self, address: Address) -> Item:
        """Remove an object.

        :raises StatusError: when there is none.
        """
        before = self.get(address)
        del self._items[address.kind][address.namespace, address.name]
        return self._note(address.kind, "DELETED", copied(before), before)

    def forget_history(self) -> None:
        """Watches from resource versions before now are expired."""
        self.version += 1
        self.oldest = self.version
        self.history.clear()

    def _keep(self, address: Address, word: str, item: Item, before: Item | None) -> Item:
        item = {"kind": address.kind.name, "apiVersion": address.kind.api_version, **item}
        self._items.setdefault(address.kind, {})[address.namespace, address.name] = item
        return self._note(address.kind, word, item, before)

    def _note(self, kind: Kind, word: str, item: Item, before: Item | None) -> Item:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        change = Change(self.version, word, kind, item, before)
        self.history.append(change)
        for listener in list(self.listeners):
            listener(change)
        return item


def merged(item: Any, patch: Any) -> Any:
    """A JSON value after a merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(item) if isinstance(item, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
