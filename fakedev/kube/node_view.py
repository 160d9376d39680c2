"""What the service and fakedev-node tell each other: a node's devices, and which container has which of them.

Both sides use these values, and the same declaration of their JSON fields (doc/protocol-node.txt).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final, TypeVar

from fakedev.spec.errors import FieldError

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
    return tuple(_text(f"{where}[{place}]", each) for place, each in enumerate(_list(where, value)))


def _list(where: str, value: object) -> list[object]:
    if not isinstance(value, list):
        raise FieldError(where, "must be a list")
    return value


def _object(where: str, value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise FieldError(where, "must be an object")
    return value


def _slots(where: str, value: object) -> dict[str, tuple[ViewedSlot, ...]]:
    return {
        resource: tuple(
            _read(ViewedSlot, f"{where}.{resource}[{place}]", each)
            for place, each in enumerate(_list(f"{where}.{resource}", slots))
        )
        for resource, slots in _object(where, value).items()
    }


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
    """

    node: str = _declared(_text)
    resources: Mapping[str, Sequence[ViewedSlot]] = _declared(_slots, default_factory=dict)
    is_plugin_down: bool = _declared(_flag, "plugin-down", default=False)
    driver: str = _declared(_text, default="")

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
    """

    request: str = _declared(_text)
    pool: str = _declared(_text)
    device: str = _declared(_text)


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
        found[key] = list(content) if isinstance(content, tuple) else content
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
    return [_read(kind, f"{where}[{place}]", each) for place, each in enumerate(_list(where, value))]


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
