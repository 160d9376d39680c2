"""Faults as objects of a cluster: the object ``DeviceFault``, the faults of the fleet that it asks for, its status.

An object selects nodes and devices, and says what goes wrong there, from when, for how long, and what follows then.
The schema of the object is made from the same fields (``tests/support/documents/manifests.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Final

from fakedev.base.errors import FieldError, did_you_mean
from fakedev.fleet.spec.fault_kinds import KINDS, NODE_SCOPES, PARAMETERS, fault_from_fields
from fakedev.fleet.spec.fleet_spec import FaultSpec
from fakedev.kubernetes.client.api_paths import Target
from fakedev.schema.declare import read_seconds, read_text

GROUP: Final = "faults.fakedev"
VERSION: Final = "v1alpha1"
KIND: Final = "DeviceFault"
RESOURCE: Final = "devicefaults"
FAULTS_PATH: Final = Target(GROUP, VERSION, RESOURCE).path
#: Where a fault can be seen, in the order of the table; the texts are those of the schema.
MOUTHS: Final[Mapping[str, str]] = {
    "state": "the state of the fleet",
    "page": "the page of the exporter",
    "nvml": "the file for NVML, where nvml: is configured and has the node",
    "node": "the status of the node in the cluster: allocatable, the condition Ready",
    "event": "Events at the node that the API server has taken",
}
#: The fields of a step, which are those of an object without its selection; metric and parameters are fields of faults.
STEP_FIELDS: Final[Mapping[str, str]] = {
    "kind": "What goes wrong: a kind of doc/faults.md.",
    "metric": "The metric that a kind of series concerns; all when it is not given.",
    "parameters": "Numbers that the kind takes.",
    "for": "How long it lasts, e.g. 10m; until the object is deleted when it is not given. What happens at once, like"
    " ecc-double, is over after this time, or at once; its boards stay as it left them until they are reset.",
}
#: The other fields of ``spec``.
SPEC_FIELDS: Final[Mapping[str, str]] = {
    "nodes": "Names of nodes, * and ? stand for others; all when it is not given.",
    "nodeLabels": "Labels that a node must have.",
    "devices": "Indices of boards, 3 or 0-3, or of parts, 3/1; all when it is not given.",
    "from": "How long after the object was seen it begins, e.g. 30s.",
    "then": "What happens after it, one thing after the other, to the same devices.",
}
#: Steps of an object, with the first one.
MAX_STEPS: Final = 16
_MOST_TEXTS: Final = 1000


@dataclass(frozen=True)
class Step:
    """One fault of an object.

    :param fields: those of a fault, without its devices and times.
    :param begin: seconds from the strike of the object.
    :param end: the same; 0: it lasts until the object is deleted.
    """

    fields: Mapping[str, object]
    begin: float
    end: float

    @property
    def kind(self) -> str:
        return str(self.fields["kind"])

    def spec(self, words: Sequence[str], elapsed: float) -> FaultSpec | None:
        """The fault of some devices; None when it is over.

        :param elapsed: seconds since the strike of the object, for nodes that join later.
        """
        if self.end and self.end <= elapsed:
            return None
        spec = fault_from_fields({**self.fields, "devices": list(words)})
        duration = self.end - max(self.begin, elapsed) if self.end and KINDS[self.kind].lasts else 0.0
        return replace(spec, start_seconds=max(self.begin - elapsed, 0.0), duration_seconds=duration)


@dataclass(frozen=True)
class DeviceFault:
    """An object, as far as it is used.

    :param problem: why it cannot be used; empty: it can.
    :param status: as the server has it.
    """

    uid: str
    name: str
    generation: int
    nodes: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    problem: str = ""
    status: Mapping[str, Any] = field(default_factory=dict)

    def selects(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether it concerns a node."""
        if self.nodes and not any(fnmatchcase(name, pattern) for pattern in self.nodes):
            return False
        return self.labels.items() <= labels.items()

    def words(self, node: str, device_count: int) -> Iterator[str]:
        """The device words of a node, as faults of the fleet take them.

        :param device_count: boards of the node.
        """
        if self.steps and KINDS[self.steps[0].kind].scope in NODE_SCOPES:
            yield f"{node}/0"
            return
        for word in self.devices or (f"0-{device_count - 1}",):
            board, slash, part = word.partition("/")
            low, _, high = board.partition("-")
            for index in range(int(low), min(int(high or low), device_count - 1) + 1):
                yield f"{node}/{index}{slash}{part}"


def read_device_fault(item: Mapping[str, Any]) -> DeviceFault:
    """An object of the API; what is wrong with it is its problem."""
    metadata = item["metadata"]
    status = item.get("status")
    found = DeviceFault(
        str(metadata.get("uid", "")), str(metadata["name"]), int(metadata.get("generation") or 0),
        status=status if isinstance(status, dict) else {},
    )  # fmt: skip
    try:
        spec = _mapping("spec", item.get("spec"))
        _check_known("spec", spec, (*STEP_FIELDS, *SPEC_FIELDS))
        devices = _texts("spec.devices", spec.get("devices"))
        for word in devices:
            _check_device(word)
        labels = _mapping("spec.nodeLabels", spec.get("nodeLabels"))
        return replace(
            found, nodes=_texts("spec.nodes", spec.get("nodes")), devices=devices,
            labels={name: read_text(f"spec.nodeLabels.{name}", value) for name, value in labels.items()},
            steps=tuple(_steps(spec)),
        )  # fmt: skip
    except FieldError as error:
        return replace(found, problem=f"{error.field}: {error.reason}")


def _steps(spec: Mapping[str, Any]) -> Iterator[Step]:
    following = spec.get("then") or []
    if not isinstance(following, list) or len(following) >= MAX_STEPS:
        raise FieldError("spec.then", f"must be a list of at most {MAX_STEPS - 1} faults")
    begin, before = read_seconds("spec.from", spec.get("from", 0)), ""
    for number, entry in enumerate((spec, *following)):
        where = f"spec.then[{number - 1}]" if number else "spec"
        fields = _mapping(where, entry)
        if number:
            _check_known(where, fields, STEP_FIELDS)
        if before:
            raise FieldError(before, "is missing: what follows begins when this is over; give for:")
        length = read_seconds(f"{where}.for", fields.get("for", 0))
        step = Step(_fault_fields(where, fields), begin, begin + length if length else 0.0)
        try:
            (made,) = [step.spec(["all"], 0)]
        except FieldError as error:
            inner = f"parameters.{error.field}" if error.field in PARAMETERS else error.field
            raise FieldError(f"{where}.{inner}", error.reason) from None
        assert made is not None
        yield step
        begin += length
        if KINDS[step.kind].lasts and not length:
            before = f"{where}.for"


def _fault_fields(where: str, fields: Mapping[str, Any]) -> dict[str, object]:
    """The kind, the metric and the parameters, as faults of the fleet have them."""
    parameters = _mapping(f"{where}.parameters", fields.get("parameters"))
    _check_known(f"{where}.parameters", parameters, PARAMETERS)
    found: dict[str, object] = {name: fields[name] for name in ("kind", "metric") if name in fields}
    return found | dict(parameters)


def _mapping(where: str, value: object) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise FieldError(where, "must be a mapping")
    return value or {}


def _texts(where: str, value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not value or len(value) > _MOST_TEXTS:
        raise FieldError(where, f"must be a list of 1 to {_MOST_TEXTS} texts")
    return tuple(read_text(where, item) for item in value)


def _check_known(where: str, fields: Mapping[str, Any], known: Iterable[str]) -> None:
    names = tuple(known)
    for name in fields:
        if name not in names:
            raise FieldError(f"{where}.{name}", f"there is no such field{did_you_mean(str(name), names)}")


def _check_device(word: str) -> None:
    board, slash, part = word.partition("/")
    low, dash, high = board.partition("-")
    numbers = [low, *([high] if dash else []), *([part] if slash else [])]
    is_wrong = not all(number.isdecimal() and len(number) < 6 for number in numbers) or (dash and int(high) < int(low))
    if is_wrong:
        raise FieldError("spec.devices", f"{word[:60]!r} is no device of a node: give its index, 3 or 0-3, or 3/1")


# -- the status --------------------------------------------------------------------------------------


@dataclass
class Landing:
    """How far a step has landed, on the devices of one process.

    :ivar devices: how many it should affect.
    :ivar shown: how many are seen in each mouth; a mouth that does not tell of this kind is missing.
    :ivar of: the same, how many there should be.
    :ivar began: when it struck, as the API writes times; empty: it waits.
    :ivar landed: when all was seen.
    :ivar is_over: it has ended: by its time, by a repair, or as all that happens at once when no time was given.
    """

    kind: str
    devices: int = 0
    shown: dict[str, int] = field(default_factory=dict)
    of: dict[str, int] = field(default_factory=dict)
    began: str = ""
    landed: str = ""
    is_over: bool = False

    @property
    def has_landed(self) -> bool:
        return bool(self.began) and self.devices > 0 and self.shown == self.of

    def written(self) -> dict[str, Any]:
        """As the status has it."""
        found: dict[str, Any] = {"kind": self.kind, "devices": self.devices, "over": self.is_over}
        for mouth, of in self.of.items():
            found[mouth] = {"shown": self.shown.get(mouth, 0), "of": of}
        return found | {name: text for name, text in (("began", self.began), ("landed", self.landed)) if text}

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Landing:
        """What :meth:`written` wrote; numbers that are missing are 0."""
        pairs = {mouth: fields[mouth] for mouth in MOUTHS if isinstance(fields.get(mouth), dict)}
        return cls(
            str(fields.get("kind", "")), int(fields.get("devices") or 0),
            {mouth: int(pair.get("shown") or 0) for mouth, pair in pairs.items()},
            {mouth: int(pair.get("of") or 0) for mouth, pair in pairs.items()},
            str(fields.get("began", "")), str(fields.get("landed", "")), bool(fields.get("over")),
        )  # fmt: skip

    def with_other(self, other: Landing) -> Landing:
        """Both together: of two shards."""
        both = self.of.keys() | other.of.keys()
        has_begun = self.began and other.began
        return Landing(
            self.kind, self.devices + other.devices,
            {mouth: self.shown.get(mouth, 0) + other.shown.get(mouth, 0) for mouth in MOUTHS if mouth in both},
            {mouth: self.of.get(mouth, 0) + other.of.get(mouth, 0) for mouth in MOUTHS if mouth in both},
            min(self.began, other.began) if has_begun else "", max(self.landed, other.landed),
            self.is_over and other.is_over,
        )  # fmt: skip


def landings_of(status: Mapping[str, Any], generation: int) -> list[Landing]:
    """The steps of an object, the devices of all shards together; shards without devices of it do not count.

    :param generation: of the object: what shards wrote of an earlier one does not count.
    """
    shards = status.get("shards")
    found: list[Landing] = []
    for shard in shards.values() if isinstance(shards, dict) else ():
        if not isinstance(shard, dict) or shard.get("generation") != generation:
            continue
        steps = [Landing.read(step) for step in shard.get("steps") or () if isinstance(step, dict)]
        if not any(step.devices for step in steps):
            continue
        found = [a.with_other(b) for a, b in zip(found, steps, strict=False)] if found else steps
    return found


def status_of(
    fault: DeviceFault, shard: str, landings: Sequence[Landing], fault_ids: Sequence[str], problem: str, now: str
) -> dict[str, Any]:
    """The status as a shard writes it: its own part, and the sums of what it knows of all.

    :param problem: why nothing is struck, as ``spec.kind: no such kind``; empty: it is.
    :param now: as the API writes times, for conditions that have changed.
    """
    own = {"generation": fault.generation, "faults": list(fault_ids), "steps": [each.written() for each in landings]}
    shards = fault.status.get("shards")
    every = landings_of({"shards": {**(shards if isinstance(shards, dict) else {}), shard: own}}, fault.generation)
    first = every[0] if every else None
    is_over = bool(every) and all(landing.is_over for landing in every)
    phase = "Refused" if problem else "Over" if is_over else "Active" if first and first.began else "Waiting"
    has_landed = bool(every) and all(landing.has_landed for landing in every)
    why_not = problem or next((f"{each.kind}: {missing}" for each in every if (missing := missing_of(each))), "")
    reason = "AllSeen" if has_landed else "Refused" if problem else "NoDevices" if not every else "NotSeen"
    conditions = [
        _condition("Accepted", not problem, "Refused" if problem else "Accepted", problem),
        _condition("Landed", has_landed, reason, "" if has_landed else why_not or "no node has such devices"),
    ]
    before = {each.get("type"): each for each in fault.status.get("conditions") or () if isinstance(each, dict)}
    for condition in conditions:
        known = before.get(condition["type"], {})
        is_same = known.get("status") == condition["status"]
        condition["lastTransitionTime"] = known.get("lastTransitionTime", now) if is_same else now
    return {
        "observedGeneration": fault.generation, "phase": phase, "conditions": conditions,
        "devices": first.devices if first else 0, "shards": {shard: own},
    }  # fmt: skip


def missing_of(landing: Landing) -> str:
    """What was not seen of a step, in words; empty: nothing is missing."""
    if not landing.began:
        return "it has not begun"
    texts = [
        f"{landing.shown.get(mouth, 0)} of {of} in {MOUTHS[mouth]}"
        for mouth, of in landing.of.items()
        if landing.shown.get(mouth, 0) != of
    ]
    return ", ".join(texts)


def _condition(kind: str, is_so: bool, reason: str, message: str) -> dict[str, Any]:
    return {"type": kind, "status": str(is_so), "reason": reason, "message": message[:1024]}


# -- the proof ---------------------------------------------------------------------------------------


_COLUMNS: Final = ("FAULT", "KIND", "DEVICES", *(mouth.upper() for mouth in MOUTHS), "BEGAN", "LANDED", "")


def proof_rows(items: Iterable[Mapping[str, Any]]) -> Iterator[tuple[bool, Sequence[str]]]:
    """The table of the proof, a row for each step of each object: whether it has landed, and its cells."""
    for item in items:
        fault = read_device_fault(item)
        landings = landings_of(fault.status, fault.generation)
        if fault.problem or not landings:
            conditions = {condition.get("type"): condition for condition in fault.status.get("conditions") or ()}
            why = fault.problem or conditions.get("Accepted", {}).get("message") or _why_nothing(fault)
            kind = fault.steps[0].kind if fault.steps else "-"
            yield False, (fault.name, kind, "0", *("-" for _ in MOUTHS), "-", "-", str(why))
        for number, landing in enumerate(landings):
            cells = [
                f"{landing.shown.get(mouth, 0)}/{landing.of[mouth]}" if mouth in landing.of else "-" for mouth in MOUTHS
            ]
            name = f"{fault.name}/then-{number}" if number else fault.name
            why = "" if landing.has_landed else missing_of(landing)
            times = [text.partition("T")[2] or "-" for text in (landing.began, landing.landed)]
            yield landing.has_landed, (name, landing.kind, str(landing.devices), *cells, *times, why)


def _why_nothing(fault: DeviceFault) -> str:
    if not fault.status:
        return "no fakedev has seen it: is one running with kubernetes: {device-faults: true}?"
    return "no node has such devices"


def table(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of the table, with its head."""
    lines = [_COLUMNS, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(_COLUMNS))]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


