"""Only public names of Twisted: a new release may change all others."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.source.source_tree import Module, modules

#: Uses that remain, by file and name: why, and which public way was tried.
REMAINING = {
    ("fakedev/runtime/listening.py", "transport"): (
        "the hook in the docstring of Twisted's Port; a wrapped factory, the other way, costs a layer for each read"
    ),
    ("fakedev/runtime/listening.py", "client"): (
        "IPv4 peers of an all-address socket have IPv4 addresses; a proxy for getPeer costs a layer for each call"
    ),
    ("fakedev/runtime/listening.py", "numberAccepts"): (
        "one accept before each look at the free descriptors; stopReading in a transport ends no batch of a hundred"
    ),
    ("fakedev/web/channel.py", "_transferDecoder"): (
        "the reader of an unfinished body refers to its channel in a circle; allContentReceived drops it, but answers"
    ),
    ("fakedev/lines/outbox.py", "writeSomeData"): (
        "with an empty buffer it saves a turn; transport.write took 9 to 28 % more processor time for a job"
    ),
}
#: Methods of Twisted's descriptors that only its reactor calls.
_OF_REACTORS = frozenset(("writeSomeData", "doWrite", "dataBuffer", "startWriting", "stopWriting"))
#: How variables with objects of Twisted's reactor are called here: assignments to attributes replace parts of them.
_TWISTED = ("reactor", "port", "transport")
#: Names of the standard library that are public in spite of their underscores.
_DOCUMENTED = frozenset(("_asdict", "_exit", "_fields", "_replace"))


class Classes:
    """The classes of some modules with what they inherit from Twisted."""

    def __init__(self, sources: list[Module]) -> None:
        self._bases: dict[str, list[str]] = {}
        for module in sources:
            known = _imported(module)
            for node in module.nodes:
                if isinstance(node, ast.ClassDef):
                    bases = [ast.unparse(base).partition("[")[0] for base in node.bases]
                    self._bases[f"{module.name}.{node.name}"] = [_resolved(base, known, module.name) for base in bases]

    def private_names(self, name: str) -> set[str]:
        """The private names that the bases of a class have in Twisted."""
        names = set()
        for base in self._bases.get(name, ()):
            names |= self.private_names(base)
            if base.startswith("twisted."):
                module, _, attribute = base.rpartition(".")
                found = getattr(import_module(module), attribute)
                for ancestor in inspect.getmro(found) if isinstance(found, type) else ():
                    if ancestor.__module__.startswith("twisted."):
                        names |= _private_names_of(ancestor)
        return names


@cache
def _private_names_of(kind: type) -> set[str]:
    """The private names in the source of a class of Twisted, which many of ours inherit."""
    return _private_names_in(ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0])


def private_uses(module: Module, classes: Classes) -> Iterator[tuple[str, int]]:
    """Names of Twisted that a module uses and that are not public, with their lines."""
    for found in module.imports:
        first, *rest = found.name.split(".")
        if first == "twisted" and any(_is_private(part) for part in rest):
            yield found.name, found.line
    nodes = module.nodes
    own = {name for node in nodes if isinstance(node, ast.ClassDef) for name in _private_names_in(node)}
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            theirs = classes.private_names(f"{module.name}.{node.name}")
            yield from ((name, node.lineno) for name in theirs and theirs & _private_names_in(node))
        elif isinstance(node, ast.Call) and _last_name(node.func) in ("getattr", "setattr", "hasattr"):
            texts = [part.value for part in node.args if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            yield from ((text, node.lineno) for text in texts if _is_private(text))
        elif isinstance(node, ast.Attribute) and not _is_of_self(node):
            is_foreign = _is_private(node.attr) and node.attr not in own | _DOCUMENTED
            is_replaced = isinstance(node.ctx, ast.Store) and _last_name(node.value).lstrip("_") in _TWISTED
            if is_foreign or is_replaced or node.attr in _OF_REACTORS:
                yield node.attr, node.lineno


def _private_names_in(node: ast.AST) -> set[str]:
    """The private names that a class defines, or uses of itself."""
    assert isinstance(node, ast.ClassDef)
    names = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and _is_of_self(part):
            names.add(part.attr)
    for part in node.body:
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(part.name)
        elif isinstance(part, ast.Assign | ast.AnnAssign):
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return {name for name in names if _is_private(name)}


def _last_name(node: ast.expr) -> str:
    """The name of a variable or an attribute."""
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _is_of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def _imported(module: Module) -> dict[str, str]:
    known = {}
    for node in module.nodes:
        if isinstance(node, ast.Import):
            known |= {name.asname or name.name: name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            known |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
    return known


def _resolved(base: str, known: dict[str, str], module: str) -> str:
    head, dot, rest = base.partition(".")
    return known.get(head, f"{module}.{head}") + dot + rest


@pytest.mark.slow
def test_private_names_of_twisted() -> None:
    """Each that is used is in the list with its reason, and each in the list is used."""
    sources = modules()
    classes = Classes(sources)
    uses = {
        (module.path.as_posix(), name): line for module in sources for name, line in private_uses(module, classes)
    }
    assert not {use: line for use, line in uses.items() if use not in REMAINING}
    assert not REMAINING.keys() - uses.keys()


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("from twisted.internet._resolver import GAIResolver", {"twisted.internet._resolver.GAIResolver"}),
        ("import twisted.internet.tcp\ntwisted.internet.tcp._reservedFD.reserve()", {"_reservedFD"}),
        ("def f(reactor, clock):\n    reactor.seconds = clock", {"seconds"}),
        ("def f(port):\n    port.doRead = f", {"doRead"}),
        ("def f(transport):\n    transport.writeSomeData(b'')", {"writeSomeData"}),
        ("def f(agent):\n    return getattr(agent, '_pool')", {"_pool"}),
        ("from twisted.internet import tcp\nclass P(tcp.Port):\n    _shouldShutdown = False", {"_shouldShutdown"}),
        (
            "from twisted.internet.unix import Port\nclass O(Port): ...\nclass P(O):\n"
            "    def __init__(self):\n        self._preexistingSocket = None",
            {"_preexistingSocket"},
        ),
        ("class P:\n    def __init__(self, other):\n        self._a = other._a", set()),
        ("def f(loop, clock):\n    loop.clock = clock", set()),
    ],
)
def test_what_is_found(source: str, names: set[str], tmp_path: Path) -> None:
    """Imports, attributes of others, replaced methods, and names of base classes; not names of our own."""
    path = tmp_path / "fakedev" / "m.py"
    path.parent.mkdir()
    path.write_text(source)
    module = Module(path, tmp_path)
    assert {name for name, _ in private_uses(module, Classes([module]))} == names
