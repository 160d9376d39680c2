"""The source of fakedev as the tests of the house see it: modules, their rooms, what they import and name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fakedev.runtime.memory import collector_paused
from tests.support.paths import ROOT

_IMPORTERS = ("import_module", "__import__")


@dataclass(frozen=True)
class Import:
    """One import: the module, or the module and the name taken from it."""

    name: str
    line: int


class Module:
    """A module of fakedev, parsed."""

    def __init__(self, path: Path, root: Path = ROOT) -> None:
        self.path = path.relative_to(root)
        parts = self.path.with_suffix("").parts
        self.is_package = parts[-1] == "__init__"
        self.name = ".".join(parts[:-1] if self.is_package else parts)
        self.tree = ast.parse(path.read_text(encoding="utf-8"), str(path))

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree: several tests look at each of them."""
        return list(ast.walk(self.tree))

    @property
    def room(self) -> str:
        """The part of the house: ``sim``, ``net``, ..., ``app``; empty for the package itself."""
        return room_of(self.name)

    @cached_property
    def imports(self) -> list[Import]:
        """All imports, also inside functions and by ``import_module``."""
        return sorted(self._find_imports(), key=lambda found: found.line)

    @cached_property
    def dotted_names(self) -> list[Import]:
        """Every ``a.b.c`` in the code, with the names that imports gave replaced by what they mean."""
        known = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                known |= {name.asname: name.name for name in node.names if name.asname}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                known |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
        found = []
        for node in self.nodes:
            # A name that is given a value here is not what the world calls so.
            read = isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Load)
            if read and (dotted := _dotted(node)):
                head, dot, rest = dotted.partition(".")
                found.append(Import(known.get(head, head) + dot + rest, node.lineno))
        return found

    def _find_imports(self) -> Iterator[Import]:
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from (Import(name.name, node.lineno) for name in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = self._base(node)
                yield from (Import(f"{base}.{name.name}", node.lineno) for name in node.names)
            elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in _IMPORTERS:
                for argument in node.args[:1]:
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                        yield Import(argument.value, node.lineno)

    def _base(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        up = node.level - (1 if self.is_package else 0)
        parts = self.name.split(".")
        parts = parts[: len(parts) - up]
        return ".".join([*parts, node.module] if node.module else parts)


def modules(root: Path = ROOT, word: str = "") -> list[Module]:
    """All modules of fakedev, or those with a word in their text."""
    paths = sorted((root / "fakedev").rglob("*.py"))
    # Their trees are millions of objects, all of which stay.
    with collector_paused():
        return [Module(path, root) for path in paths if word in path.read_text(encoding="utf-8")]


def room_of(name: str) -> str:
    """The room that a dotted name belongs to; empty for fakedev itself and for other packages."""
    parts = name.split(".")
    return parts[1] if parts[0] == "fakedev" and len(parts) > 1 else ""


def circles(known: dict[str, Module]) -> list[list[str]]:
    """The groups of modules that import each other, directly or through others; imports for type checkers count."""
    edges = {name: _targets(module, known) for name, module in known.items()}
    reached: dict[str, set[str]] = {}
    for start in edges:
        found: set[str] = set()
        waiting = [start]
        while waiting:
            new = edges[waiting.pop()] - found
            found |= new
            waiting += new
        reached[start] = found
    groups = {tuple(sorted(other for other in reached[name] if name in reached[other])) for name in edges}
    return [list(group) for group in sorted(groups) if group]


def _targets(module: Module, known: dict[str, Module]) -> set[str]:
    targets = set()
    for found in module.imports:
        name = found.name if found.name in known else found.name.rpartition(".")[0]
        # A package holds only a docstring, so an import of it ties nothing.
        if name in known and name != module.name and not known[name].is_package:
            targets.add(name)
    return targets


def _dotted(node: ast.expr) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])
