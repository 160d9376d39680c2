"""What a pod does with its devices: its annotations and labels as workloads of the fleet.

| says | means |
|---|---|
| annotation ``fakedev/profile`` | a profile of ours, as ``80:10:1h,0:0:1h`` or ``training`` |
| annotation ``run.ai/simulated-gpu-utilization`` | a range in percent, as ``10-30``, or one number |
| a pod's name that begins with ``runai-idle-gpu-`` | load 0 |
| label ``workloadKind`` | ``TrainingWorkload``: 80-100; ``InteractiveWorkload``: 0; else the default and an Event |
| annotation ``fakedev/kind`` | the kind of work, as ``tensor`` |
| annotation ``fakedev/repeat`` | how often the profile runs; then the pod idles. Default 0: for ever |
| annotation ``fakedev/memory`` | of each device, as ``40GiB`` or ``30%`` |
| annotation ``gpu-memory`` | of each device, in MiB |
| annotation ``gpu-fraction`` | the share of each device: of its memory, and of a load that is no profile |

Of the first four, and of the last three, the first that is there counts. Otherwise the load is that of the
configuration, and the memory what the device type uses at the highest load of the profile. A pod without any load holds
:data:`IDLE_MEMORY_PERCENT` of the memory, divided by the replicas of a shared device: a process with a model in memory
that waits for requests. Before a pod is Running it does nothing.

The words are those of run-ai's fake-gpu-operator (internal/status-updater/handlers/pod/gpu_usage_calculator.go). There
the kind may come from a pod group's priority class too, a fraction is of the memory alone, and the default is 100. A
pod has its fraction of the memory there whatever it does, the whole memory without an annotation; so it is here with
``compatibility: fake-gpu-operator``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from fakedev.base.errors import FieldError, did_you_mean
from fakedev.base.units import format_number
from fakedev.fleet.spec.fleet_spec import PoolSpec
from fakedev.fleet.spec.offers import KubernetesSettings
from fakedev.fleet.spec.profiles import MAX_ACTIVITIES
from fakedev.fleet.spec.work_kinds import WORK_KINDS
from fakedev.fleet.spec.workload_fields import OWNER_FIELDS, label_fact, workload_from_fields
from fakedev.fleet.spec.workload_spec import FOREVER, Activities, Activity, Intensity, WorkloadSpec
from fakedev.kubernetes.devices.offered_devices import Slot
from fakedev.kubernetes.devices.sharing import WHOLE, Sharing
from fakedev.kubernetes.pods import ContainerKind, Pod

UTILIZATION: Final = "run.ai/simulated-gpu-utilization"
PROFILE: Final = "fakedev/profile"
KIND: Final = "fakedev/kind"
REPEAT: Final = "fakedev/repeat"
MEMORY: Final = "fakedev/memory"
FRACTION: Final = "gpu-fraction"
MEMORY_MIB: Final = "gpu-memory"
#: A label of run-ai's workloads, and the loads of its values in percent.
WORKLOAD_KIND: Final = "workloadKind"
#: The word Workload at the end of a value may be left out.
_LOADS: Final[Mapping[str, tuple[float, float]]] = {"training": (80.0, 100.0), "interactive": (0.0, 0.0)}
#: Kinds whose load the operator reads from Knative.
_INFERENCE: Final = ("inference", "distributed")
_KINDS: Final = tuple(f"{kind.capitalize()}Workload" for kind in (*_LOADS, *_INFERENCE))
_IDLE_NAME: Final = "runai-idle-gpu-"
#: Memory of a running pod that has no load: chosen, the share of the named profile ``notebook``.
IDLE_MEMORY_PERCENT: Final = 20.0
#: Characters of an annotation that are read; a profile of many steps is the longest of them.
MAX_CHARACTERS: Final = 16_384
#: Labels of a pod that become facts of its devices: a workload has at most 64, some of them for claims.
MAX_LABELS: Final = 50
_RANGE: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)\s*(?:-\s*([0-9]{1,3}(?:\.[0-9]{1,6})?)\s*)?")
_IDLE_FIELDS: Final = {"name": "idle", "devices": "all", "profile": "0", "repeat": 0}
_IDLE: Final = workload_from_fields(_IDLE_FIELDS)


@dataclass(frozen=True)
class PodWork:
    """What a pod does.

    :param running: its work while it is Running, without name and devices.
    :param problems: what could not be read, each a sentence for an Event at the pod; defaults are used for it.
    :param labels: facts of its devices: its UID and its labels, by the names that exporters give them.
    """

    running: WorkloadSpec
    problems: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()


def work_of(pod: Pod, settings: KubernetesSettings, pool: PoolSpec) -> PodWork:
    """What a pod's annotations and labels say.

    :param pool: of its node.
    """
    return _Reader(pod, settings, pool).work()


def workloads_of(pod: Pod, node: str, slots: Mapping[str, tuple[Slot, ...]], work: PodWork) -> list[WorkloadSpec]:
    """A workload for each container with devices, named ``NAMESPACE/POD/CONTAINER``; none when the pod is over.

    A pod's init containers are over when it is Running, and then have no workload. Before, what no other container
    has is that of the last of them.

    :param slots: of each container.
    """
    if pod.is_over:
        return []
    is_running = pod.phase == "Running"
    base = work.running if is_running else _IDLE
    held: set[str] = set()
    found: list[WorkloadSpec] = []
    order = {container.name: place for place, container in enumerate(pod.containers)}
    kept = [container for container in pod.containers if container.kind is not ContainerKind.INIT]
    first = [] if is_running else [each for each in reversed(pod.containers) if each.kind is ContainerKind.INIT]
    for container in (*kept, *first):
        own = slots.get(container.name, ())
        if container.kind is ContainerKind.INIT:
            own = tuple(slot for slot in own if slot.id not in held)
        held |= {slot.id for slot in own}
        if own:
            # Replicas of one device are one device word.
            words = tuple(dict.fromkeys(slot.word(node) for slot in own))
            found.append(
                replace(
                    base, name=f"{pod.namespace}/{pod.name}/{container.name}", devices=words, node=node,
                    pod=pod.name, namespace=pod.namespace, container=container.name, labels=work.labels,
                )
            )  # fmt: skip
    return sorted(found, key=lambda spec: order[spec.container])


def within(workload: WorkloadSpec, shared: Sharing) -> WorkloadSpec:
    """A workload on a device that it shares: its engines and its memory within what it may use.

    A pod that says how much memory it takes has that.
    """
    if shared == WHOLE or workload.activities.highest == 0:
        return workload
    own = workload.intensities or (Intensity(100.0),)
    busy = tuple(Intensity(min(each.percent, shared.percent), each.fluctuation) for each in own)
    uses = workload.uses
    if shared.memory_bytes is not None and not uses:
        uses = workload_from_fields({**_IDLE_FIELDS, **_memory(f"{shared.memory_bytes >> 20}MiB")}).uses
    return replace(workload, intensities=busy, uses=uses)


class _Reader:
    """Reads one pod, and collects the problems."""

    def __init__(self, pod: Pod, settings: KubernetesSettings, pool: PoolSpec) -> None:
        self._pod, self._settings, self._pool = pod, settings, pool
        self._problems: list[str] = []

    def work(self) -> PodWork:
        fraction = self._fraction()
        low, high = (share * (fraction or 1.0) for share in self._range())
        load = f"{_text((low + high) / 2)}:{_text((high - low) / 2)}"
        fields: dict[str, object] = {"name": "work", "devices": "all", "repeat": 0, "profile": load}
        for key, field in ((PROFILE, "profile"), (KIND, "kind"), (REPEAT, "repeat"), (MEMORY, "metrics")):
            text = self._annotation(key)
            if text is not None:
                fields = self._with(fields, key, field, text)
        if "metrics" not in fields:
            fields |= self._memory(fraction)
        spec = workload_from_fields(fields)
        if not spec.uses and (self._settings.is_compatible or spec.activities.highest == 0):
            percent = 100.0 if self._settings.is_compatible else IDLE_MEMORY_PERCENT
            spec = workload_from_fields(fields | _memory(f"{_text(percent / self._pool.in_cluster.replicas)}%"))
        spec, labels = self._repeated(spec), self._labels()
        return PodWork(spec, tuple(self._problems), labels)

    def _labels(self) -> tuple[tuple[str, str], ...]:
        """The UID and the labels of the pod as facts of its devices; the names of owners are no names of labels."""
        found = {label_fact(name): text for name, text in sorted(self._pod.labels.items())}
        names = [name for name in found if name not in OWNER_FIELDS]
        if len(names) > MAX_LABELS:
            self._problems.append(f"it has {len(names)} labels: pages can show the first {MAX_LABELS} by name")
        uid = {"pod_uid": self._pod.uid} if self._pod.uid else {}
        return tuple((uid | {name: found[name] for name in names[:MAX_LABELS]}).items())

    def _annotation(self, key: str) -> str | None:
        text = self._pod.annotations.get(key)
        if text is not None and len(text) > MAX_CHARACTERS:
            self._problem(key, text, f"has {len(text)} characters, at most {MAX_CHARACTERS} are read")
            return None
        return text

    def _problem(self, key: str, text: str, reason: str, what: str = "annotation") -> None:
        shown = text if len(text) <= 60 else f"{text[:60]}..."
        self._problems.append(f"{what} {key}: {shown!r}: {reason[:200]}; the default is used")

    def _with(self, fields: dict[str, object], key: str, field: str, text: str) -> dict[str, object]:
        """The fields with one of an annotation, or as they were if it is wrong."""
        try:
            value = text.strip()
            if field == "kind":
                self._check_kind(value)
            given = {field: _whole(text) if field == "repeat" else value}
            changed = fields | (_memory(value) if field == "metrics" else given)
            workload_from_fields(changed)
        except (FieldError, ValueError) as error:
            self._problem(key, text, error.text if isinstance(error, FieldError) else str(error))
            return fields
        return changed

    def _check_kind(self, kind: str) -> None:
        dynamics = self._pool.device_type.dynamics
        known = WORK_KINDS if dynamics is None else dynamics.kinds
        if kind not in known:
            hint = did_you_mean(kind, known, f": give one of {', '.join(known)}")
            raise ValueError(f"is no kind of work{hint}")

    def _range(self) -> tuple[float, float]:
        """The lowest and the highest load in percent."""
        text = self._annotation(UTILIZATION)
        if text is not None:
            match = _RANGE.fullmatch(text.strip())
            low, high = (float(match[1]), float(match[2] or match[1])) if match else (1.0, 0.0)
            if low <= high <= 100.0:
                return low, high
            self._problem(UTILIZATION, text, "give a percentage from 0 to 100, or a range as 10-30")
        if self._pod.name.startswith(_IDLE_NAME):
            return 0.0, 0.0
        label = self._pod.labels.get(WORKLOAD_KIND, "")
        kind = label.lower().removesuffix("workload")
        if label and kind not in _LOADS and text is None and PROFILE not in self._pod.annotations:
            unknown = f"is none of {', '.join(_KINDS)}"
            reason = "requests of Knative are not followed" if kind in _INFERENCE else unknown
            self._problem(WORKLOAD_KIND, label, reason, "label")
        return _LOADS.get(kind, self._settings.utilization)

    def _fraction(self) -> float | None:
        text = self._annotation(FRACTION)
        if text is None:
            return None
        try:
            fraction = float(text)
        except ValueError:
            fraction = math.nan
        if 0 < fraction <= 1:
            return fraction
        self._problem(FRACTION, text, "give a share over 0, at most 1, as 0.5")
        return None

    def _memory(self, fraction: float | None) -> dict[str, object]:
        """The demand for memory of ``gpu-memory``, else of the fraction; empty: that of the profile."""
        text = self._annotation(MEMORY_MIB)
        if text is not None:
            if text.strip().isdecimal() and len(text) <= 12:
                return _memory(f"{int(text)}MiB")
            self._problem(MEMORY_MIB, text, "give a whole number of MiB")
        return _memory(f"{_text(fraction * 100)}%") if fraction is not None else {}

    def _repeated(self, spec: WorkloadSpec) -> WorkloadSpec:
        """The work of a profile that ends, which the pod outlives: then it idles."""
        if not spec.repeat or spec.activities.seconds >= FOREVER:
            return spec
        activities = tuple(spec.activities)
        once, repeated = activities[: spec.activities.once_count], activities[spec.activities.once_count :]
        count = len(once) + len(repeated) * spec.repeat
        if count >= MAX_ACTIVITIES:
            text = self._pod.annotations.get(REPEAT, "")
            self._problem(REPEAT, text, f"gives {count} activities, at most {MAX_ACTIVITIES - 1} are possible")
            return replace(spec, repeat=0)
        return replace(spec, activities=Activities((*once, *repeated * spec.repeat, Activity(0.0))), repeat=1)


def _whole(text: str) -> int:
    if not (text.strip().isdecimal() and len(text) <= 16):
        raise ValueError("give a whole number")
    return int(text)


def _memory(word: str) -> dict[str, object]:
    """The demand for memory of devices that have it."""
    return {"metrics": {"memory?": word}}


def _text(number: float) -> str:
    """A number without the last digits, which products of decimal fractions get wrong."""
    return format_number(round(number, 6))
