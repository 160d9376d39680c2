"""A fleet as bytes, to continue it later: all results of its history, without what its configuration says.

What a fleet's specification decides is compiled again when the bytes are read: they only have the path of attributes
that leads to it. The bytes are for the version of fakedev that wrote them. They are Python's pickle format, of which
only the simulator's own classes, arrays and plain containers are read.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from types import MethodType
from typing import Any, Final
from weakref import WeakValueDictionary

from fakedev.fleet import OUTSIDE
from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.devices.relations import Relations
from fakedev.fleet.entities.reindex import FleetReindex
from fakedev.fleet.entities.state import LazyArrays
from fakedev.fleet.events import Stamped
from fakedev.fleet.faults.effects import effect_of
from fakedev.fleet.faults.rules import Fault
from fakedev.fleet.fleet import Fleet, discard_record
from fakedev.fleet.journal import Tell, no_op
from fakedev.fleet.links.link_levels import link_history
from fakedev.fleet.parts.part_relations import PartRelations
from fakedev.fleet.spec.fault_kinds import KINDS
from fakedev.fleet.spec.fleet_spec import FleetSpec

#: Where the classes and functions are that the bytes may name, besides the pure modules of the fleet.
_OURS: Final = ("fakedev.base.histograms",)
#: The others: what makes arrays and containers.
_OTHERS: Final = {
    "numpy": {"dtype", "ndarray"},
    "numpy.core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy.core.numeric": {"_frombuffer"},
    "numpy._core.numeric": {"_frombuffer"},
    "array": {"_array_reconstructor", "array"},
    "builtins": {"bytearray", "dict", "frozenset", "range", "set", "slice"},
    "collections": {"ChainMap", "Counter", "OrderedDict", "deque"},
    "copyreg": {"_reconstructor"},
    "types": {"MappingProxyType"},
    "weakref": {"WeakValueDictionary"},
}
#: Peers are connections of ports, which no later process has; ports of the fleet itself are in OUTSIDE.
_PEERS: Final = (
    *("fakedev.api.", "fakedev.kubernetes.", "fakedev.lines.", "fakedev.nvml.", "fakedev.scenario.", "twisted."),
)
_FLEET: Final = "fakedev.fleet."
#: What has conditions that change: they are written, and set again.
_CHANGING: Final = (Relations, PartRelations)


#: In place of what only pages that were made before the last reload need.
_NOTHING: Final = ("nothing", 0)


class CannotRead(Exception):
    """Bytes are no fleet of this version of fakedev."""


def _is_ours(module: str) -> bool:
    """Whether a fleet may have objects of a module: the pure ones of the fleet, and a few others."""
    if module.startswith(_FLEET):
        return module.removeprefix(_FLEET).replace(".", "/") not in OUTSIDE
    return module in _OURS


def _is_of_port(module: str) -> bool:
    """Whether objects of a module are connections of a port."""
    return module.startswith(_PEERS) or (module.startswith(_FLEET) and not _is_ours(module))


def fleet_to_bytes(fleet: Fleet) -> bytes:
    """A fleet between two ticks, of which no reload waits for the next."""
    buffer = io.BytesIO()
    pickle.Pickler(buffer, 5).dump(fleet.spec)
    _Writer(buffer, fleet).dump((fleet, tuple(vars(fleet.compiled.relations.conditions).items())))
    return buffer.getvalue()


def fleet_from_bytes(
    data: bytes, record: Callable[[Stamped], None] = discard_record, tell: Tell = no_op
) -> Fleet:
    """The fleet that :func:`fleet_to_bytes` has written; it goes on as the one that was written would have.

    :param record, tell: as of a new fleet: they get what comes from now on.
    :raises CannotRead: when the bytes are something else.
    """
    buffer = io.BytesIO(data)
    try:
        spec = _Reader(buffer).load()
        if not isinstance(spec, FleetSpec):
            raise CannotRead("no fleet")
        compiled = CompiledFleet(spec)
        fleet, conditions = _Reader(buffer, compiled, record, tell).load()
    except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, LookupError, TypeError, ValueError) as error:
        raise CannotRead(f"{type(error).__name__}: {error}") from None
    if not isinstance(fleet, Fleet):
        raise CannotRead("no fleet")
    relations = compiled.relations
    relations.change_conditions(type(relations.conditions)(**dict(conditions)))
    relations.use_links(link_history(fleet.state.levels))
    return fleet


class _Gone:
    """A peer of the process that wrote the fleet."""


class _Writer(pickle.Pickler):
    """Writes the parts of the specification as their paths."""

    def __init__(self, buffer: io.BytesIO, fleet: Fleet) -> None:
        super().__init__(buffer, 5)
        self._paths = {id(part): path for path, part in _parts_of(fleet.compiled)}
        self._outside = fleet.outside()
        self._peers: dict[int, int] = {}

    def persistent_id(self, obj: object) -> tuple[object, ...] | None:
        if isinstance(obj, FleetReindex):
            return _NOTHING
        path = self._paths.get(id(obj))
        if path is not None:
            return ("part", path)
        if _is_of_port(type(obj).__module__) or type(obj) is object:
            return ("peer", self._peers.setdefault(id(obj), len(self._peers)))
        if any(obj is outsider for outsider in self._outside):
            return ("outside", next(place for place, outsider in enumerate(self._outside) if obj is outsider))
        return None

    def reducer_override(self, obj: object) -> Any:
        if isinstance(obj, LazyArrays):
            return dict, ((*obj.items(),),)
        if isinstance(obj, WeakValueDictionary):
            return WeakValueDictionary, ()
        if isinstance(obj, MethodType):
            return _method_of, (obj.__self__, obj.__name__)
        if isinstance(obj, Fault):
            names = [field.name for field in fields(obj) if field.name not in ("kind", "effect")]
            return _fault_of, (obj.kind.name, {name: getattr(obj, name) for name in names})
        return NotImplemented


def _fault_of(kind: str, given: dict[str, Any]) -> Fault:
    """A fault, with the effect that its kind and values have."""
    known = KINDS[kind]
    return Fault(kind=known, effect=effect_of(known, given["values"]), **given)


def _method_of(owner: object, name: str) -> object:
    """A method of one of our objects; of no others, which may be dangerous."""
    if not _is_ours(type(owner).__module__):
        raise pickle.UnpicklingError(f"a method of {type(owner).__name__} is no part of a fleet")
    return getattr(owner, name)


class _Reader(pickle.Unpickler):
    """Finds the parts of the specification by their paths."""

    def __init__(
        self, buffer: io.BytesIO, compiled: CompiledFleet | None = None,
        record: Callable[[Stamped], None] = discard_record, tell: Tell = no_op,
    ) -> None:  # fmt: skip
        super().__init__(buffer)
        self._parts = dict(_parts_of(compiled)) if compiled is not None else {}
        self._outside = (record, tell)
        self._peers: dict[int, _Gone] = {}

    def persistent_load(self, word: Any) -> object:
        kind, which = word
        if word == _NOTHING:
            return None
        if kind == "part":
            return self._parts[which]
        return self._outside[which] if kind == "outside" else self._peers.setdefault(which, _Gone())

    def find_class(self, module: str, name: str) -> Any:
        if _is_ours(module) or name in _OTHERS.get(module, ()):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a fleet")


def _parts_of(compiled: CompiledFleet) -> Iterator[tuple[tuple[str | int, ...], object]]:
    """The objects of a compiled fleet that do not change, each once, with the path of attributes that leads to it."""
    seen: set[int] = set()
    waiting: list[tuple[tuple[str | int, ...], object]] = [((), compiled)]
    while waiting:
        path, part = waiting.pop()
        is_row = isinstance(part, tuple | list) and len(part) > 0
        is_ours = _is_ours(type(part).__module__) and not isinstance(part, FleetReindex)
        if id(part) in seen or not (is_row or is_ours):
            continue
        seen.add(id(part))
        yield path, part
        if isinstance(part, tuple | list):
            waiting += [((*path, place), item) for place, item in enumerate(part)]
        elif not isinstance(part, _CHANGING):
            waiting += [((*path, name), item) for name, item in _attributes(part)]


def _attributes(part: object) -> Sequence[tuple[str, object]]:
    slots = [name for base in type(part).__mro__ for name in getattr(base, "__slots__", ())]
    names = sorted({*getattr(part, "__dict__", {}), *slots} - {"__dict__", "__weakref__"})
    return [(name, getattr(part, name)) for name in names if hasattr(part, name)]
