"""The status of a node in the API: labels, resources, conditions, annotations, taints as JSON merge patches; Events.

An annotation, :data:`WROTE`, has all that was written, with its values. Only that is changed or removed later; what
others have written, or changed since, is left alone and reported. A patch of the subresource ``status`` may carry
labels and annotations too, so that a node takes one request; taints need another one, of the node itself.

A new node of KWOK gets processors, memory and pods from KWOK only if it has no allocatable resource at all (stage
``node-initialize`` in kubernetes-sigs/kwok, kustomize/stage/node/fast): nothing is written before.

A node that is down. On nodes with a kubelet nothing is written: the kubelet renews its conditions. KWOK's stage makes
a node that is not Ready so at once, but leaves nodes with the annotation ``kwok.x-k8s.io/status: custom`` alone (its
flag --disregard-status-with-annotation-selector, in its manifests up to 0.6; later ones need
etc/kubernetes/kwok-node-down.yaml). So that annotation is written together with Ready ``Unknown``, from which the
controller manager makes the taints ``unreachable`` and evicts pods later, as in a real cluster. If something makes the
node Ready nevertheless, that is not written a second time:
each change of a node costs one patch, and nobody competes. The taint :data:`DOWN_TAINT` keeps new pods away in any
case.

Events of the API: people see with ``kubectl describe`` what fakedev reports of a node or a pod.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from sys import intern
from typing import Any, Final

from fakedev.kubernetes.devices.health import NodeHealth

#: The annotation that has what was written.
WROTE: Final = "fakedev/wrote"
KWOK_NODE: Final = "kwok.x-k8s.io/node"
KWOK_STATUS: Final = ("kwok.x-k8s.io/status", "custom")
_MAPPINGS: Final = ("labels", "annotations", "capacity", "allocatable")
_NAMES: Final = {"labels": "label", "annotations": "annotation"}
#: The mappings with numbers of devices; in the annotation their values before fakedev took them over.
_COUNTS: Final = {"capacity": "had-capacity", "allocatable": "had-allocatable"}
#: Conflicts of one node that are reported, at most.
_MAX_CONFLICTS: Final = 5


@dataclass(frozen=True)
class Taint:
    """A taint of a node; key and effect identify it."""

    key: str
    effect: str
    value: str = ""

    def written(self) -> dict[str, str]:
        return {"key": self.key, "effect": self.effect} | ({"value": self.value} if self.value else {})


@dataclass(frozen=True)
class Condition:
    """The condition Ready of a node.

    :param status: ``True``, ``False`` or ``Unknown``.
    """

    status: str
    reason: str
    message: str


#: As kubelets and the controller manager write them (kubernetes/kubernetes, pkg/kubelet/nodestatus/setters.go and
#: pkg/controller/nodelifecycle).
READY: Final = Condition("True", "KubeletReady", "kubelet is posting ready status")
NOT_READY: Final = Condition("False", "KubeletNotReady", "the kubelet starts again")
DOWN: Final = Condition("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
DOWN_TAINT: Final = Taint("fakedev/node-down", "NoSchedule")


@dataclass(frozen=True)
class NodeWanted:
    """What a node should have of ours.

    :param capacity, allocatable: resource to its number.
    :param ready: the condition to write; None: the condition is left to others.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    ready: Condition | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NodePatches:
    """The merge patches of a node. That of the node goes first: it has a resourceVersion, which the other one changes.

    :param spec: of ``nodes/NAME``; None: its taints stay as they are. A conflict (409): read the node again.
    :param status: of ``nodes/NAME/status``; None: nothing changes.
    :param conflicts: what others have written, each in words.
    :param is_waiting: KWOK has not given the node its processors and memory yet, and would not if it had anything.
    """

    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None
    conflicts: tuple[str, ...] = ()
    is_waiting: bool = False

    def __bool__(self) -> bool:
        return self.spec is not None or self.status is not None


def node_patches(item: Mapping[str, Any], wanted: NodeWanted) -> NodePatches:
    """What changes a node of the API into what it should be; false if that is nothing."""
    node = _Node(item)
    if node.is_new and (wanted.capacity or wanted.allocatable):
        return NodePatches(is_waiting=True)
    return node.patches(wanted)


def clean_patches(item: Mapping[str, Any]) -> NodePatches:
    """What removes all from a node that was written; false if nothing was."""
    return _Node(item).patches(NodeWanted())


class _Node:
    """A node of the API, and what was written of it."""

    def __init__(self, item: Mapping[str, Any]) -> None:
        metadata, spec, status = (item.get(name) or {} for name in ("metadata", "spec", "status"))
        self._version = metadata.get("resourceVersion", "")
        self._taints: Sequence[Mapping[str, Any]] = spec.get("taints") or ()
        self._conditions: Sequence[Mapping[str, Any]] = status.get("conditions") or ()
        self._has: dict[str, Mapping[str, str]] = {
            **{name: metadata.get(name) or {} for name in _NAMES},
            **{name: _counts(status.get(name) or {}) for name in _COUNTS},
        }
        self.is_kwok = KWOK_NODE in self._has["annotations"]
        self._text = self._has["annotations"].get(WROTE)
        self._wrote = _read(self._text)
        self._conflicts: list[str] = []

    @property
    def is_new(self) -> bool:
        """Whether KWOK has not filled its status: it leaves allocatable alone if there is any."""
        ours = self._wrote.mappings["allocatable"].keys() - self._wrote.mappings[_COUNTS["allocatable"]].keys()
        return self.is_kwok and not self._has["allocatable"].keys() - ours

    def patches(self, wanted: NodeWanted) -> NodePatches:
        """The patches that make the node as it is wanted."""
        annotations = dict(wanted.annotations)
        if self.is_kwok and wanted.ready is not None and wanted.ready.status != READY.status:
            annotations.update([KWOK_STATUS])
        every: dict[str, Mapping[str, str]] = {
            "labels": wanted.labels,
            "annotations": annotations,
            "capacity": {name: str(number) for name, number in wanted.capacity.items()},
            "allocatable": {name: str(number) for name, number in wanted.allocatable.items()},
        }
        changes, written = {}, {}
        for name in _MAPPINGS:
            changes[name], written[name], had = self._changed(name, every[name], every["capacity"])
            if name in _COUNTS:
                written[_COUNTS[name]] = had
        conditions, ready = self._with_ready(wanted.ready)
        ours = {tuple(taint) for taint in self._wrote.taints}
        others = [dict(taint) for taint in self._taints if (taint.get("key"), taint.get("effect")) not in ours]
        taints = [*others, *(taint.written() for taint in wanted.taints)]
        keys = sorted((taint.key, taint.effect) for taint in wanted.taints)
        spec = None
        before = self._wrote
        if sorted(map(_identity, taints)) != sorted(map(_identity, self._taints)):
            before = _Wrote(before.mappings, before.ready, keys)
            spec = self._spec_patch(taints, before)
        after = _Wrote(written, ready, keys if spec is not None else self._wrote.taints)
        if after.text != (before.text if spec is not None else self._text):
            changes["annotations"][WROTE] = after.text
        status = _without_empty(
            {
                "metadata": _without_empty({name: changes[name] for name in _NAMES}),
                "status": _without_empty(
                    {name: changes[name] for name in _COUNTS} | {"conditions": conditions}
                ),
            }
        )
        return NodePatches(spec, status or None, tuple(self._conflicts[:_MAX_CONFLICTS]))

    def _changed(
        self, name: str, wanted: Mapping[str, str], devices: Mapping[str, str]
    ) -> tuple[dict[str, str | None], dict[str, str], dict[str, str]]:
        """The changes of a mapping, null for what is removed; what is ours in it afterwards, and what that was before.

        :param devices: how many of each resource the node has: a number that the first patch takes over.
        """
        has, ours = self._has[name], self._wrote.mappings[name]
        had = self._wrote.mappings[_COUNTS[name]] if name in _COUNTS else {}
        changes: dict[str, str | None] = {}
        written: dict[str, str] = {}
        taken: dict[str, str] = {}
        for key, value in wanted.items():
            now = has.get(key)
            is_ours = key in ours and now in (None, ours[key])
            is_right = name in _COUNTS and now is not None and now == devices.get(key)
            if now == value:
                if is_ours or is_right:
                    written[key] = value
            elif now is None or is_ours or (is_right and self._text is None):
                changes[key] = written[key] = value
            else:
                what = _NAMES.get(name, name)
                self._conflicts.append(f"{what} {key} is {now[:63]!r} and not {value!r}: left, as others wrote it")
            if key in written and now is not None and (key not in ours or key in had):
                taken[key] = had.get(key, now)
        for key, value in ours.items():
            if key not in wanted and has.get(key) == value != had.get(key):
                changes[key] = had.get(key)
        return changes, written, taken

    def _with_ready(self, wanted: Condition | None) -> tuple[list[dict[str, Any]], str]:
        """All conditions, if Ready must be written, and the status that is ours afterwards."""
        now = next((each.get("status", "") for each in self._conditions if each.get("type") == "Ready"), "")
        ours = self._wrote.ready
        is_well = wanted is None or wanted.status == READY.status
        if is_well:
            # Another one's Ready is not made better than it is.
            if not ours or now != ours:
                return [], ""
            wanted, ours_then = wanted or READY, ""
        else:
            assert wanted is not None
            if wanted.status in (now, ours):
                return [], ours
            ours_then = wanted.status
        ready = {"type": "Ready", "status": wanted.status, "reason": wanted.reason, "message": wanted.message}
        return [*(dict(each) for each in self._conditions if each.get("type") != "Ready"), ready], ours_then

    def _spec_patch(self, taints: list[dict[str, Any]], wrote: _Wrote) -> dict[str, Any]:
        metadata: dict[str, Any] = {"annotations": {WROTE: wrote.text}}
        if self._version:
            metadata["resourceVersion"] = self._version  # the whole list is replaced: others may change it too
        return {"metadata": metadata, "spec": {"taints": taints or None}}


@dataclass(frozen=True)
class _Wrote:
    """What was written: mappings, the status of Ready, and (key, effect) of taints."""

    mappings: Mapping[str, Mapping[str, str]]
    ready: str = ""
    taints: Sequence[Sequence[str]] = ()

    @property
    def text(self) -> str | None:
        """The text of the annotation; None: nothing was written."""
        every = {name: texts for name, texts in self.mappings.items() if texts}
        whole: dict[str, Any] = {**every, **({"ready": self.ready} if self.ready else {})}
        if self.taints:
            whole["taints"] = [list(taint) for taint in self.taints]
        return json.dumps(whole, separators=(",", ":"), sort_keys=True) if whole else None


def _read(text: str | None) -> _Wrote:
    """What an annotation says was written; nothing if it is no such text."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        found = {}
    whole = found if isinstance(found, dict) else {}
    mappings = {name: _texts(whole.get(name)) for name in (*_MAPPINGS, *_COUNTS.values())}
    ready, taints = whole.get("ready", ""), whole.get("taints", ())
    pairs = [each for each in taints if isinstance(each, list) and len(each) == 2] if isinstance(taints, list) else []
    pairs = [pair for pair in pairs if all(isinstance(word, str) for word in pair)]
    return _Wrote(mappings, ready if isinstance(ready, str) else "", pairs)


def _texts(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {name: text for name, text in value.items() if isinstance(text, str)}


def _counts(quantities: Mapping[str, Any]) -> dict[str, str]:
    """Quantities as this module writes them: the API server turns ``2000`` into ``2k``."""
    found = {}
    for name, quantity in quantities.items():
        text = str(quantity)
        number, is_large = text.removesuffix("k"), text.endswith("k")
        found[name] = str(int(number) * 1000) if is_large and number.isdecimal() else text
    return found


def _identity(taint: Mapping[str, Any]) -> tuple[str, str, str]:
    """What makes a taint another one; their order is no matter."""
    return taint.get("key", ""), taint.get("effect", ""), taint.get("value") or ""


def _without_empty(mapping: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if value}


#: Characters of a message, at most (Kubernetes: validation of events).
_LONGEST: Final = 1024
#: Where Events of nodes are, which have no namespace.
_OF_NODES: Final = "default"
#: Different messages about one object that are remembered.
_MAX_REPORTED: Final = 100
COMPONENT: Final = "fakedev"


@dataclass(frozen=True)
class Report:
    """Something to be said of one node or pod.

    :param kind: ``Node`` or ``Pod``.
    :param namespace: of a pod.
    :param reason: a word in CamelCase.
    :param is_once: the same is not to be said again, also not after a restart: its Event has the same name then.
    """

    kind: str
    name: str
    namespace: str
    uid: str
    reason: str
    message: str
    is_warning: bool = True
    is_once: bool = False

    def event(self, time: str) -> dict[str, Any]:
        """The Event of core/v1.

        :param time: now, as the API writes times: ``2026-11-22T10:00:00Z``.
        """
        namespace = self.namespace or _OF_NODES
        words = "\0".join((self.kind, self.uid, self.reason, self.message, "" if self.is_once else time))
        digest = hashlib.blake2b(words.encode(), digest_size=8).hexdigest()
        involved: Mapping[str, str] = {
            "apiVersion": "v1", "kind": self.kind, "name": self.name, "uid": self.uid or self.name,
            **({"namespace": self.namespace} if self.namespace else {}),
        }  # fmt: skip
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{self.name[:230]}.{digest}", "namespace": namespace},
            "involvedObject": involved,
            "reason": self.reason,
            "message": self.message[:_LONGEST],
            "type": "Warning" if self.is_warning else "Normal",
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
        }


class ReportedMessages:
    """The messages about one object that were reported: each is reported once."""

    def __init__(self) -> None:
        self._messages: dict[tuple[str, str], None] = {}

    def add_new(self, reason: str, message: str) -> bool:
        """Remember a message; whether it is new."""
        if (reason, message) in self._messages:
            return False
        if len(self._messages) >= _MAX_REPORTED:
            self._messages.clear()
        self._messages[reason, message] = None
        return True


def of_node(name: str, uid: str, reason: str, message: str, *, is_warning: bool = True) -> Report:
    return Report("Node", name, "", uid, reason, message, is_warning)


def reports_of_health(name: str, uid: str, before: NodeHealth, now: NodeHealth) -> Iterator[Report]:
    for device, why in now.unhealthy.items():
        if before.unhealthy.get(device) != why:
            yield of_node(name, uid, "DeviceUnhealthy", f"{device}: {why}")
    for device in before.unhealthy:
        if device not in now.unhealthy:
            yield of_node(name, uid, "DeviceHealthy", f"{device} is healthy again", is_warning=False)
    for was_down, is_down, what, words in (
        (before.plugin_is_down, now.plugin_is_down, "DevicePlugin", "the device plugin"),
        (before.is_down, now.is_down, "Node", "the node"),
    ):
        if was_down != is_down:
            reason, message = (f"{what}Down", f"{words} is down") if is_down else (f"{what}Up", f"{words} is back")
            yield of_node(name, uid, reason, message, is_warning=is_down)
    if now.kubelet_restarts > before.kubelet_restarts:
        yield of_node(name, uid, "KubeletRestarted", "the kubelet has started again", is_warning=False)


#: What is kept of the metadata of a node.
_METADATA: Final = ("name", "uid", "resourceVersion", "creationTimestamp", "labels", "annotations")
_STATUS: Final = ("addresses", "capacity", "allocatable", "conditions")


def shared_texts(texts: Mapping[str, str]) -> dict[str, str]:
    """The same labels or annotations; texts that many nodes have are kept once."""
    return {intern(name): intern(text) for name, text in texts.items()}


def slim_node(item: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a node's object: without its images and managed fields, which are long."""
    metadata, spec, status = (item.get(key) or {} for key in ("metadata", "spec", "status"))
    kept = {key: metadata[key] for key in _METADATA if metadata.get(key)}
    return {
        "metadata": {key: shared_texts(each) if isinstance(each, dict) else each for key, each in kept.items()},
        "spec": {"taints": spec.get("taints") or []},
        "status": {key: status[key] for key in _STATUS if status.get(key)} | _booted(status),
    }


def seconds_of(time: str) -> float:
    """Seconds since 1970 of a time of the API; 0 for none."""
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:
        return 0.0


def _booted(status: Mapping[str, Any]) -> dict[str, Any]:
    boot = (status.get("nodeInfo") or {}).get("bootID")
    return {"nodeInfo": {"bootID": boot}} if boot else {}


def is_rebooted(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether the machine of a node was started between two states of it: its kernel has another boot ID.

    A node may have none before its kubelet reports.
    """
    one, other = _booted(before.get("status") or {}), _booted(now.get("status") or {})
    return bool(one and other) and one != other


def pool_label(item: Mapping[str, Any], label: str, operator_label: str) -> tuple[str, str, str]:
    """The label that names a node's pool, its value, and what is wrong with it.

    :param label: the name of ours.
    :param operator_label: the name of fake-gpu-operator's label, which works as well.
    """
    labels = item["metadata"].get("labels") or {}
    found = {name: labels[name] for name in (label, operator_label) if labels.get(name)}
    if not found:
        return label, "", ""
    if len(set(found.values())) > 1:
        both = " and ".join(f"{name}={value}" for name, value in found.items())
        return label, "", f"two pools: {both}: remove one of the labels"
    name, value = next(iter(found.items()))
    return name, value, ""
