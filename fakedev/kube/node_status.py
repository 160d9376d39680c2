"""What is written to a node of the API: labels, resources, conditions, annotations and taints, as JSON merge patches.

An annotation, :data:`WROTE`, has all that was written, with its values. Only that is changed or removed later; what
others have written, or changed since, is left alone and told. A patch of the subresource ``status`` may carry labels
and annotations too, so that a node takes one request; taints need another one, of the node itself.

A new node of KWOK gets processors, memory and pods from KWOK only if it has no allocatable resource at all (stage
``node-initialize`` in kubernetes-sigs/kwok, kustomize/stage/node/fast): nothing is written before.

A node that is down. On nodes with a kubelet nothing is written: the kubelet renews its conditions. KWOK's stage makes a
node that is not Ready so at once, but leaves nodes with the annotation ``kwok.x-k8s.io/status: custom`` alone (its flag
--disregard-status-with-annotation-selector, as its documents and manifests give it). So that annotation is written
together with Ready ``Unknown``, from which the controller manager makes the taints ``unreachable`` and evicts pods
later, as in a real cluster. If something makes the node Ready nevertheless, that is not written a second time: each
change of a node costs one patch, and nobody competes. The taint :data:`DOWN_TAINT` keeps new pods away in any case.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

#: The annotation that has what was written.
WROTE: Final = "fakedev/wrote"
KWOK_NODE: Final = "kwok.x-k8s.io/node"
KWOK_STATUS: Final = ("kwok.x-k8s.io/status", "custom")
_MAPPINGS: Final = ("labels", "annotations", "capacity", "allocatable")
_NAMES: Final = {"labels": "label", "annotations": "annotation"}
#: Conflicts of one node that are told, at most.
_MAX_CONFLICTS: Final = 5


@dataclass(frozen=True)
class Taint:
    """A taint of a node; key and effect identify it."""

    key: str
    effect: str
    value: str = ""

    def written(self) -> dict[str, str]:
        """As the API has it."""
        return {"key": self.key, "effect": self.effect} | ({"value": self.value} if self.value else {})


@dataclass(frozen=True)
class Condition:
    """The condition Ready of a node.

    :param status: ``True``, ``False`` or ``Unknown``.
    :param since: when it began, as the API writes times; empty: not told.
    """

    status: str
    reason: str
    message: str
    since: str = ""


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
            **{name: _counts(status.get(name) or {}) for name in ("capacity", "allocatable")},
        }
        self.is_kwok = KWOK_NODE in self._has["annotations"]
        self._text = self._has["annotations"].get(WROTE)
        self._wrote = _read(self._text)
        self._conflicts: list[str] = []

    @property
    def is_new(self) -> bool:
        """Whether KWOK has not filled its status: it leaves allocatable alone if there is any."""
        return self.is_kwok and not set(self._has["allocatable"]) - set(self._wrote.mappings["allocatable"])

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
            changes[name], written[name] = self._changed(name, every[name])
        conditions, ready = self._with_ready(wanted.ready)
        taints = [*self._others_taints(), *(taint.written() for taint in wanted.taints)]
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
                    {name: changes[name] for name in ("capacity", "allocatable")} | {"conditions": conditions}
                ),
            }
        )
        return NodePatches(spec, status or None, tuple(self._conflicts[:_MAX_CONFLICTS]))

    def _changed(self, name: str, wanted: Mapping[str, str]) -> tuple[dict[str, str | None], dict[str, str]]:
        """The changes of a mapping, null for what is removed, and what is ours in it afterwards."""
        has, ours = self._has[name], self._wrote.mappings[name]
        changes: dict[str, str | None] = {}
        written: dict[str, str] = {}
        for key, value in wanted.items():
            now = has.get(key)
            is_ours = key in ours and now in (None, ours[key])
            if now == value:
                if is_ours:
                    written[key] = value
            elif now is None or is_ours:
                changes[key] = written[key] = value
            else:
                what = _NAMES.get(name, name)
                self._conflicts.append(f"{what} {key} is {now[:63]!r} and not {value!r}: left, as others wrote it")
        for key, value in ours.items():
            if key not in wanted and has.get(key) == value:
                changes[key] = None
        return changes, written

    def _with_ready(self, wanted: Condition | None) -> tuple[list[dict[str, Any]], str]:
        """All conditions, if Ready is to be written, and what is ours of it afterwards: its status."""
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
        if wanted.since:
            ready |= {"lastHeartbeatTime": wanted.since, "lastTransitionTime": wanted.since}
        return [*(dict(each) for each in self._conditions if each.get("type") != "Ready"), ready], ours_then

    def _others_taints(self) -> Iterator[dict[str, Any]]:
        ours = {tuple(each) for each in self._wrote.taints}
        return (dict(each) for each in self._taints if (each.get("key"), each.get("effect")) not in ours)

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
        every = {name: self.mappings[name] for name in _MAPPINGS if self.mappings[name]}
        whole: dict[str, Any] = {**every, **({"ready": self.ready} if self.ready else {})}
        if self.taints:
            whole["taints"] = [list(each) for each in self.taints]
        return json.dumps(whole, separators=(",", ":"), sort_keys=True) if whole else None


def _read(text: str | None) -> _Wrote:
    """What an annotation says was written; nothing if it is no such text."""
    try:
        whole = json.loads(text or "{}")
    except (ValueError, RecursionError):
        whole = {}
    if not isinstance(whole, dict):
        whole = {}
    mappings = {name: _texts(whole.get(name)) for name in _MAPPINGS}
    ready, taints = whole.get("ready", ""), whole.get("taints", ())
    pairs = [each for each in taints if isinstance(each, list) and len(each) == 2] if isinstance(taints, list) else []
    pairs = [each for each in pairs if all(isinstance(word, str) for word in each)]
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
