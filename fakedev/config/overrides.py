"""Single values from outside the file: ``FAKEDEV__FLEET__SEED=7``, ``--set fleet.seed=7`` and ``--shard 0/3``."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Final

from fakedev.base.environment import OVERRIDES
from fakedev.config.keys import CONFIGURATION
from fakedev.fleet.spec.limits import parse_shard, shard_of_host
from fakedev.schema.addresses import with_port
from fakedev.schema.files import Files
from fakedev.schema.places import (
    Listing,
    Node,
    NodeBuilder,
    Place,
    Report,
    Scalar,
    SyntaxProblem,
    Table,
    entries_of,
    scalar_of,
)
from fakedev.schema.reader import is_clean
from fakedev.schema.sections import Key, Section, Type, did_you_mean
from fakedev.schema.types import ListOf, MapOf, OneOf

#: An assignment to this name changes the port of the first HTTP address, and keeps its host.
PORT: Final = "--port"
_MAX_STEPS: Final = 32
SHARD_HELP: Final = (
    "simulate one slice of the nodes: its number, from 0, and the number of slices; hostname/N: its "
    "number is at the end of this host's name, like that of a StatefulSet's pod"
)


def with_environment(tree: Node, files: Files, report: Report) -> Node:
    """The tree with the values that environment variables give."""
    for name, text in files.variables_beginning(OVERRIDES).items():
        path = name.removeprefix(OVERRIDES).split("__")
        tree = _with(tree, path, text, f"environment {name}", report, from_environment=True)
    return tree


def with_overrides(tree: Node, overrides: Sequence[str], report: Report) -> Node:
    """The tree with the values of ``--set`` options."""
    for override in overrides:
        path, equals, text = override.partition("=")
        if not equals or not path.strip():
            report.problem(Place(f"--set {override}"), "has no value: write it as --set fleet.seed=7")
            continue
        origin = f"--set {path.strip()}"
        if path == PORT:
            origin, path = PORT, "web.0.listen"
            address = report.tried(Place(PORT), "", with_port, _listen_text(tree), text)
            if address is None:
                continue
            text = json.dumps(address)
        tree = _with(tree, path.strip().split("."), text, origin, report, from_environment=False)
    return tree


def with_value(tree: Node, path: Sequence[str], value: Node) -> Node:
    """The tree with a value at a path, as ``("fleet", "pools")``."""
    return _Setter(value.place, value, False).put(tree, CONFIGURATION, list(path))


def path_override(key: str, text: str) -> str:
    """The value of the configuration that an option with a path stands for: twistd changes the folder, so it is whole.

    :raises ValueError: for no path.
    """
    if not text:
        raise ValueError("is empty: give the path of a file")
    return f"{key}={os.path.abspath(text)}"


def context_override(text: str) -> str:
    """The value of the configuration that ``--context`` stands for.

    :raises ValueError: for no name.
    """
    if not text:
        raise ValueError("is empty: give the name of a context")
    return f"kubernetes.context={text}"


def port_override(text: str) -> str:
    """The assignment that ``--port`` stands for.

    :raises ValueError: for a text that is no port.
    """
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= 65535):
        raise ValueError(f"{text[:20]!r} is no port: from 0 (any free one) to 65535")
    return f"{PORT}={text}"


def _listen_text(tree: Node) -> str:
    """What a tree has as the first HTTP address.

    :returns: an empty text when it has none.
    """
    web = next((node for key, node in entries_of(tree) if key.text == "web"), None)
    if web is None or (isinstance(web, Scalar) and web.is_null):
        (web,) = (key.default_node for key in CONFIGURATION.keys if key.name == "web")
    first = web.items[0] if isinstance(web, Listing) and web.items else None
    if isinstance(first, Table):
        first = next((node for key, node in first.entries if key.text == "listen"), None)
    return first.text if isinstance(first, Scalar) else ""


def shard_override(text: str, host: str = "") -> str:
    """The value of the configuration that ``--shard`` stands for.

    :param host: the name of this host; empty: the system's host name.
    :raises ValueError: for a text that is not a shard.
    """
    number, slash, count = text.partition("/")
    if number == "hostname":
        text = f"{shard_of_host(host or os.uname().nodename)}{slash}{count}"
    return f"fleet.shard={parse_shard(text)}"


def _with(tree: Node, path: list[str], text: str, origin: str, report: Report, *, from_environment: bool) -> Node:
    place = Place(origin)
    value: Node | None = scalar_of(place, text, origin=origin)
    if text.lstrip().startswith(("[", "{", '"', "'")):
        value = _read(text, origin, report)
    if value is None:
        return tree
    if len(path) > _MAX_STEPS:
        report.problem(place, "has too many steps")
        return tree
    return report.tried(place, "", _Setter(place, value, from_environment).put, tree, CONFIGURATION, path) or tree


def _read(text: str, origin: str, report: Report) -> Node | None:
    """A value in brackets or quotes, all of it at one place."""
    if not is_clean(text, origin, report):
        return None
    from fakedev.schema.yaml_reader import parse_yaml  # noqa: PLC0415 - drop-ins read no YAML, and must start fast

    try:
        return parse_yaml(text, NodeBuilder(origin, report, lines=False))
    except SyntaxProblem as problem:
        report.problem(Place(origin), str(problem))
        return None


class _Setter:
    """Puts one value into a tree, which it copies along the path."""

    def __init__(self, place: Place, value: Node, from_environment: bool) -> None:
        self._place = place
        self._value = value
        self._folds = from_environment

    def put(self, node: Node | None, kind: Type | None, path: list[str]) -> Node:
        """The node with the value at the end of the path."""
        if not path:
            return self._value
        if isinstance(kind, OneOf):
            kind = next((member for member in kind.types if isinstance(member, ListOf | MapOf)), None)
        if isinstance(node, Scalar):
            node = self._opened(node, kind)
        if isinstance(node, Listing) or isinstance(kind, ListOf):
            items = node.items if isinstance(node, Listing) else ()
            return self._into_list(items, kind.item if isinstance(kind, ListOf) else None, path)
        entries = entries_of(node)
        return self._into_table(entries, kind, path)

    def _opened(self, node: Scalar, kind: Type | None) -> Node:
        """A single value as the section that it stands for."""
        if isinstance(kind, Section) and kind.shorthand and not node.is_null:
            return Table(node.place, ((Scalar(node.place, kind.shorthand), node),))
        return Table(node.place, ())

    def _into_list(self, items: tuple[Node, ...], kind: Type | None, path: list[str]) -> Node:
        step, rest = path[0], path[1:]
        if not step.isdecimal() or len(step) > 6:
            raise ValueError(f"{step!r} is no number: items of a list are named 0, 1, ...")
        index = int(step)
        if index > len(items):
            raise ValueError(f"there are {len(items)} items: the next one is {len(items)}, not {index}")
        changed = list(items)
        changed[index : index + 1] = [self.put(items[index] if index < len(items) else None, kind, rest)]
        return Listing(self._place, tuple(changed))

    def _into_table(self, entries: tuple[tuple[Scalar, Node], ...], kind: Type | None, path: list[str]) -> Node:
        key = self._key(kind, path[0]) if isinstance(kind, Section) else None
        name = key.name if key else path[0]
        below = key.type if key else kind.value if isinstance(kind, MapOf) else None
        written = next((node for entry, node in entries if entry.text == name), None)
        if written is None and key is not None and key.default_yaml and len(path) > 1:
            written = key.default_node
        changed = self.put(written, below, path[1:])
        kept = [(entry, changed if entry.text == name else node) for entry, node in entries]
        if all(entry.text != name for entry, _ in entries):
            kept.append((Scalar(self._place, name, quoted=True), changed))
        return Table(kept[0][1].place if entries else self._place, tuple(kept))

    def _key(self, section: Section, step: str) -> Key:
        for key in section.keys:
            if key.name == step or (self._folds and key.name.replace("-", "_").upper() == step.upper()):
                return key
        names = [key.name for key in section.keys]
        hint = did_you_mean(step.replace("_", "-"), names) or f"known here: {', '.join(names)}"
        raise ValueError(f"unknown key {step!r}; {hint}")
