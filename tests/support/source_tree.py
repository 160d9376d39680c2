"""The source of fakedev as the tests of the house see it: modules, their rooms, what they import and name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.support.paths import ROOT

_IMPORTERS = ("import_module", "__import__")


@dataclass(frozen=True)
class Import:
    """One import: the module, or the module and the name taken from it."""

    name: str
    line: int


class Module:
    """A module of ours, parsed."""

    def __init__(self, path: Path, root: Path = ROOT) -> None:
        self.path = path.relative_to(root)
        parts = self.path.with_suffix("").parts
        self.is_package = parts[-1] == "__init__"
        self.name = ".".join(parts[:-1] if self.is_package else parts)
        self.tree = ast.parse(path.read_text(encoding="utf-8"), str(path))

    @property
    def room(self) -> str:
        """The part of the house: ``sim``, ``net``, ..., ``tap``; empty for the package itself."""
        return room_of(self.name)

    @cached_property
    def imports(self) -> list[Import]:
        """All imports, wherever they stand, also inside functions and by ``import_module``."""
        return sorted(self._find_imports(), key=lambda found: found.line)

    @cached_property
    def dotted_names(self) -> list[Import]:
        """Every ``a.b.c`` in the code, with the names that imports gave replaced by what they stand for."""
        known = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                known |= {name.asname: name.name for name in node.names if name.asname}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                known |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
        found = []
        for node in ast.walk(self.tree):
            # A name that is given a value here is not what the world calls so.
            read = isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Load)
            if read and (dotted := _dotted(node)):
                head, dot, rest = dotted.partition(".")
                found.append(Import(known.get(head, head) + dot + rest, node.lineno))
        return found

    def _find_imports(self) -> Iterator[Import]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (Import(name.name, node.lineno) for name in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = self._base(node)
                yield from (Import(f"{base}.{name.name}", node.lineno) for name in node.names)
            elif isinstance(node, ast.Call) and (_dotted(node.func) or "").rpartition(".")[2] in _IMPORTERS:
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


def modules(root: Path = ROOT) -> list[Module]:
    """All modules of fakedev."""
    return [Module(path, root) for path in sorted((root / "fakedev").rglob("*.py"))]


def room_of(name: str) -> str:
    """The room that a dotted name belongs to; empty for fakedev itself and what is not ours.

    ``tap.py`` and the files ``tap_*.py`` beside it are one room.
    """
    parts = name.split(".")
    if parts[0] != "fakedev" or len(parts) < 2:
        return ""
    return "tap" if parts[1].startswith("tap_") else parts[1]


def _dotted(node: ast.expr) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])
