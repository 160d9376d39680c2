"""The node view: a node's devices and which container has which; messages and verbs of the node port (fakedev-node).

The service and fakedev-node both use these values, and the same declaration of their JSON fields. Messages are JSON
lines. doc/protocol-node.txt has the fields, and explains the verbs and notifications in full.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from binascii import Error as NoBase64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final, NamedTuple, TypeVar

from fakedev.base.errors import FieldError
from fakedev.lines.framing import MAX_BYTES
from fakedev.lines.grammar import SHARED_VERBS, Argument, Flag, Grammar, Kind, ProtocolError, Verb, error_in_words
from fakedev.lines.json_lines import Notification, load_object
from fakedev.lines.words import quote_word
from fakedev.nvml.records import VERSION, Counts, head_of

T = TypeVar("T")
#: Reads the value of a field, which has the given path in messages; raises FieldError.
_Reader = Callable[[str, object], Any]


def _text(where: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise FieldError(where, "must be a text that is not empty")
    return value


def _number(where: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise FieldError(where, "must be a whole number of at least 0")
    return value


def _flag(where: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise FieldError(where, "must be true or false")
    return value


def _texts(where: str, value: object) -> tuple[str, ...]:
    return tuple(_text(f"{where}[{place}]", item) for place, item in enumerate(_list(where, value)))


def _list(where: str, value: object) -> list[object]:
    if not isinstance(value, list):
        raise FieldError(where, "must be a list")
    return value


def _object(where: str, value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise FieldError(where, "must be an object")
    return value


def _slots(where: str, value: object) -> dict[str, tuple[ViewedSlot, ...]]:
    return {resource: _slot_list(f"{where}.{resource}", slots) for resource, slots in _object(where, value).items()}


def _slot_list(where: str, value: object) -> tuple[ViewedSlot, ...]:
    return tuple(_read_all(ViewedSlot, where, value))


def _declared(read: _Reader, key: str = "", **options: Any) -> Any:
    """A field of a value that has a field in JSON.

    :param key: its name there, if that differs by more than hyphens.
    """
    return field(metadata={"read": read, "key": key}, **options)


@dataclass(frozen=True)
class ViewedSlot:
    """One device as the kubelet knows it.

    :param id: of the device plugin, with the number of the replica.
    :param numa_node: None: unknown.
    :param unhealthy: the reason; empty: it is healthy.
    """

    id: str = _declared(_text)
    numa_node: int | None = _declared(_number, default=None)
    unhealthy: str = _declared(_text, default="")


@dataclass(frozen=True)
class NodeView:
    """What a node offers to its kubelet now.

    :param resources: for each resource its devices, boards in the order of their index.
    :param is_plugin_down: the plugins are to stop.
    :param driver: of DRA; empty: nothing is offered by DRA.
    :param claimable: the driver's devices, whose ids are their names in the pool of the node.
    :param channels: the same of the driver of channels between the nodes of a rack; none: it is not offered.
    """

    node: str = _declared(_text)
    resources: Mapping[str, Sequence[ViewedSlot]] = _declared(_slots, default_factory=dict)
    is_plugin_down: bool = _declared(_flag, "plugin-down", default=False)
    driver: str = _declared(_text, default="")
    claimable: tuple[ViewedSlot, ...] = _declared(_slot_list, default=())
    channels: tuple[ViewedSlot, ...] = _declared(_slot_list, default=())

    @property
    def slots(self) -> Iterable[tuple[str, ViewedSlot]]:
        """All devices, each with its resource."""
        return ((resource, slot) for resource, slots in self.resources.items() for slot in slots)


@dataclass(frozen=True)
class Allocation:
    """What a container has of one resource, or of one claim.

    :param resource: for a claim the name of the driver.
    :param ids: of the device plugin; for a claim the names of the devices.
    :param claim: the name of the ResourceClaim in the pod's namespace; empty: a device plugin allocated.
    :param pool: of the claim's devices.
    """

    namespace: str = _declared(_text)
    pod: str = _declared(_text)
    container: str = _declared(_text)
    resource: str = _declared(_text)
    ids: tuple[str, ...] = _declared(_texts, default=())
    claim: str = _declared(_text, default="")
    pool: str = _declared(_text, default="")


@dataclass(frozen=True)
class PreparedDevice:
    """A device of a claim.

    :param request: its name in the claim.
    :param id: of the board or instance, as programs in containers see it.
    :param share: the id of its share, where several claims have the device; empty: it has all.
    """

    request: str = _declared(_text)
    pool: str = _declared(_text)
    device: str = _declared(_text)
    id: str = _declared(_text, default="")
    share: str = _declared(_text, default="")


_Value = ViewedSlot | NodeView | Allocation | PreparedDevice
_V = TypeVar("_V", ViewedSlot, NodeView, Allocation, PreparedDevice)


def to_fields(value: _Value) -> dict[str, object]:
    """The JSON fields of a value; those that have their default are left out."""
    found: dict[str, object] = {}
    for each, key in _FIELDS[type(value)]:
        content = getattr(value, each.name)
        if content == each.default:
            continue
        if isinstance(content, Mapping):
            content = {name: [to_fields(slot) for slot in slots] for name, slots in content.items()}
        elif isinstance(content, tuple):
            content = [to_fields(each) if isinstance(each, ViewedSlot) else each for each in content]
        found[key] = content
    return found


def view_from(value: object) -> NodeView:
    """The view of a JSON object.

    :raises FieldError: naming the wrong field.
    """
    return _read(NodeView, "view", value)


def allocations_from(value: object) -> list[Allocation]:
    """The allocations of a JSON list.

    :raises FieldError: naming the wrong field.
    """
    return _read_all(Allocation, "allocations", value)


def prepared_from(value: object) -> list[PreparedDevice]:
    """The devices of a claim, of a JSON list.

    :raises FieldError: naming the wrong field.
    """
    return _read_all(PreparedDevice, "devices", value)


def _read_all(kind: type[_V], where: str, value: object) -> list[_V]:
    return [_read(kind, f"{where}[{place}]", item) for place, item in enumerate(_list(where, value))]


def _read(kind: type[_V], where: str, value: object) -> _V:
    given = dict(_object(where, value))
    found: dict[str, Any] = {}
    for each, key in _FIELDS[kind]:
        content = given.pop(key, None)
        if content is not None:
            found[each.name] = each.metadata["read"](f"{where}.{key}", content)
        elif each.default is MISSING and each.default_factory is MISSING:
            raise FieldError(f"{where}.{key}", "missing")
    if given:
        raise FieldError(f"{where}.{next(iter(given))[:100]}", f"unknown; there are {', '.join(_KEYS[kind])}")
    return kind(**found)


#: The fields of each value, each with its key in JSON.
_FIELDS: Final[Mapping[type, Sequence[tuple[Any, str]]]] = {
    kind: tuple((each, each.metadata["key"] or each.name.replace("_", "-")) for each in fields(kind))
    for kind in (ViewedSlot, NodeView, Allocation, PreparedDevice)
}
_KEYS: Final = {kind: tuple(key for _, key in found) for kind, found in _FIELDS.items()}


#: Room for the other fields of a report.
_BESIDE_BYTES = 200
#: How slots are compressed: to a tenth, in less than a millisecond.
_FASTEST = 1
#: Of a slot: much more than any node has.
_MAX_SLOT_BYTES = 16 << 20


class Answer(NamedTuple):
    """A good answer.

    :param request: the number of the request; None for ``auth``.
    """

    request: int | None
    fields: Mapping[str, object]


class Refusal(NamedTuple):
    """An error.

    :param request: None when the service refuses the connection.
    """

    request: int | None
    code: str
    text: str


class Notice(NamedTuple):
    """A message that answers no request, as ``changed``."""

    event: str
    fields: Mapping[str, object]


NodeMessage = Answer | Refusal | Notice


def parse_node_message(line: bytes) -> NodeMessage:
    """Parse a line from the service.

    :raises ProtocolError: when it is none of this protocol.
    """
    if line.startswith(b"error "):  # too many connections: it does not know the format yet
        return Refusal(None, *error_in_words(line))
    fields = load_object(line)
    event = fields.pop("event", None)
    if isinstance(event, str):
        return Notice(event, fields)
    number = fields.pop("id", None)
    request = number if isinstance(number, int) else None
    if fields.pop("ok", None) is True:
        return Answer(request, fields)
    error = fields.get("error")
    if not isinstance(error, dict):
        raise ProtocolError("bad-argument", "neither an answer nor an event")
    return Refusal(request, str(error.get("code", "")), str(error.get("message", "")))


def report_parts(
    allocations: Sequence[Mapping[str, object]], starting: Sequence[str] = ()
) -> Iterator[dict[str, object]]:
    """The arguments of the ``report`` requests for a list, each within a line's bytes.

    :param starting: the devices of containers that the list does not have; the last request has them.
    """
    more = {"starting": [*starting]} if starting else {}
    part: list[Mapping[str, object]] = []
    room = whole = MAX_BYTES - _BESIDE_BYTES - len(json.dumps(more))
    for allocation in allocations:
        size = len(json.dumps(allocation, separators=(",", ":"))) + 1
        if part and size > room:
            yield {"allocations": part, "more": True}
            part, room = [], whole
        part.append(allocation)
        room -= size
    yield {"allocations": part, **more}


def slot_fields(counts: Counts, content: bytes) -> dict[str, object]:
    """The fields of the answer to ``boards``.

    :param content: the bytes of a slot of the file for NVML.
    """
    packed = zlib.compress(content, _FASTEST)
    return {"layout": VERSION, "counts": list(counts), "slot": b64encode(packed).decode("ascii")}


def slot_from(fields: Mapping[str, object]) -> tuple[Counts, bytes]:
    """What a slot has room for, and its bytes, of such fields.

    :raises FieldError: when they are not those of this layout.
    """
    if fields.get("layout") != VERSION:
        raise FieldError("layout", f"must be {VERSION}: the service is another version of fakedev")
    given, packed = fields.get("counts"), fields.get("slot")
    if not isinstance(given, list) or len(given) != len(Counts._fields) or not all(type(each) is int for each in given):
        raise FieldError("counts", f"must be {len(Counts._fields)} whole numbers")
    if not isinstance(packed, str):
        raise FieldError("slot", "must be a text")
    counts = Counts(*given)
    size = head_of(counts)["slot_bytes"]
    if min(counts) < 0 or not isinstance(size, int) or size > _MAX_SLOT_BYTES:
        raise FieldError("counts", f"must make a slot of at most {_MAX_SLOT_BYTES} bytes")
    try:
        content = zlib.decompressobj().decompress(b64decode(packed, validate=True), size + 1)
    except (ValueError, NoBase64, zlib.error):
        raise FieldError("slot", "must be compressed bytes in base64") from None
    if len(content) != size:
        raise FieldError("slot", f"must have {size} bytes: the service is another version of fakedev")
    return counts, content


#: Bytes of a line from the port.
MAX_VIEW_BYTES: Final = 1 << 20
#: Of a report: its parts, and the allocations of all of them.
MAX_PARTS: Final = 64
MAX_ALLOCATIONS: Final = 10_000

NODE_VERBS: Final = (
    Verb(
        "attach",
        "Name the node of this connection, and get its view.",
        positionals=[Argument("node", Kind.TEXT, "NODE", "the name of a simulated node", required=True)],
        answers=["ok N lines; later, when something changes: changed NODE ..."],
    ),
    Verb("restarted", "Tell that the plugins of the node were started.", answers=["ok"]),
    Verb(
        "registered",
        "Tell which plugins the kubelet has taken.",
        positionals=[Argument("resources", Kind.LIST, "RESOURCE,...", "all of them; default: none")],
        answers=["ok"],
    ),
    Verb(
        "report",
        "Report who has which devices: the whole list.",
        positionals=[
            Argument("allocations", Kind.SERIES, "ALLOCATIONS", "the list; in words as quoted JSON", required=True)
        ],
        options=[Argument("starting", Kind.LIST, "ID,...", "devices given to containers that the list does not have")],
        flags=[Flag("more", "further parts of the list follow")],
        answers=["ok N allocations"],
    ),
    Verb(
        "reserve",
        "Ask whether containers may be given these devices, and keep claims from them.",
        positionals=[Argument("ids", Kind.LIST, "ID,...", "the devices", required=True)],
        answers=["ok"],
    ),
    Verb(
        "prefer",
        "Ask which devices a container should be given.",
        positionals=[
            Argument("resource", Kind.TEXT, "RESOURCE", "as nvidia.com/gpu", required=True),
            Argument("count", Kind.WHOLE, "N", "how many", required=True),
        ],
        options=[
            Argument("available", Kind.LIST, "ID,...", "the devices to choose from", required=True),
            Argument("must", Kind.LIST, "ID,...", "devices that the answer must contain"),
        ],
        answers=["ok ID,..."],
    ),
    Verb(
        "prepare",
        "Ask for the devices of a claim.",
        positionals=[
            Argument("namespace", Kind.TEXT, "NAMESPACE", "of the claim", required=True),
            Argument("claim", Kind.TEXT, "CLAIM", "its name", required=True),
            Argument("uid", Kind.TEXT, "UID", "its uid", required=True),
        ],
        answers=["ok N lines"],
    ),
    Verb("boards", "Ask for the present tick of the node's boards, for the file of NVML.", answers=["ok N bytes"]),
    Verb("ping", "Ask whether the service is there.", answers=["ok"]),
    *SHARED_VERBS,
)

NODE_GRAMMAR: Final = Grammar(NODE_VERBS)


def view_changed(node: str, is_down: bool, devices: int, unhealthy: int, view: Mapping[str, object]) -> Notification:
    """The notification of a new view.

    :param view: its fields in JSON.
    """
    text = f"changed {quote_word(node)} plugin={plugin_word(is_down)} devices={devices} unhealthy={unhealthy}"
    return Notification(text, {"event": "changed", "view": view})


def plugin_word(is_down: bool) -> str:
    """How the plugins' state is written in words."""
    return "down" if is_down else "up"
