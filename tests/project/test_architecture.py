"""The house: who may import what, what the pure rooms may not touch, and what every module must have."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.source_tree import Module, circles, modules, room_of

#: The rooms that each room may import beside itself; all may import version and name (fakedev itself).
ALLOWED = {
    "": set(),
    "spec": set(),
    "catalog": set(),
    "page": set(),
    "sim": {"spec"},
    "workqueue": {"spec"},
    "wire": {"spec"},
    "exposition": {"spec", "sim"},
    "tester": {"spec", "workqueue"},
    "kube": {"spec", "sim"},
    "scenario": {"spec", "wire", "sim", "exposition"},
    "traces": {"spec", "sim", "scenario"},
    "calibration": {"spec", "sim", "exposition", "tester"},
    "clone": {"spec", "exposition"},
    "config": {"spec", "sim", "exposition", "workqueue", "wire", "tester", "kube", "scenario", "catalog"},
    "net": {"spec", "sim", "exposition", "workqueue", "wire", "tester", "kube", "scenario", "nvml"},
    "app": {
        *("config", "net", "spec", "sim", "exposition", "workqueue", "wire", "tester", "kube", "scenario", "catalog"),
        "traces",
    },
    "client": {"spec", "config", "exposition"},
    "tap": {"app"},
    "commands": {
        *("app", "client", "config", "spec", "sim", "exposition", "workqueue", "wire", "tester", "kube", "scenario"),
        *("nvml", "traces", "calibration", "clone"),
    },
    "node": {"spec", "kube", "wire", "nvml", "client", "config"},
    "nvml": {"spec"},
    "testing": {"client", "app", "commands", "config", "net", "nvml", "scenario", "exposition", "sim", "spec"},
    "pytest_plugin": {"testing", "config"},
}
PURE = {
    *("spec", "sim", "exposition", "workqueue", "wire", "tester", "kube", "scenario", "calibration", "clone"),
    *("traces", "config", "catalog", "page"),
}
#: Modules that a pure room has no use for: the reactor, sockets, clocks, chance, other threads and processes.
IMPURE_MODULES = {
    *("twisted", "zope", "socket", "socketserver", "ssl", "select", "selectors", "asyncio", "http"),
    *("time", "sched", "random", "secrets", "threading", "multiprocessing", "concurrent", "subprocess", "signal"),
    "logging",
}
#: Names that reach the world from modules which are otherwise harmless.
IMPURE_NAMES = (
    *("os.environ", "os.environb", "os.getenv", "os.urandom", "os.getpid", "os.times", "sys.argv"),
    *("sys.stdin", "sys.stdout", "sys.stderr", "numpy.random", "uuid.uuid1", "uuid.uuid4"),
    *("datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today"),
    *("print", "input", "__import__"),
)
#: Packages that other people's programs import from: these also name what they offer.
PUBLIC = {"fakedev.client"}
#: The one module of the pure rooms that reads files, so that a record can hold what was read.
READS_FILES = "fakedev.config.schema.files"

#: The decorators of pytest-twisted that run coroutines.
AWAITED_BY = ("ensureDeferred", "async_fixture", "async_yield_fixture")


@pytest.fixture(scope="module")
def house() -> list[Module]:
    """All modules: parsed for the tests that look at them, and not in each process that only collects tests."""
    return modules()


def faults_of_imports(module: Module) -> Iterator[str]:
    """What a module imports that its room may not."""
    allowed = ALLOWED[module.room] | {module.room, ""}
    for found in module.imports:
        of_ours = room_of(found.name)
        if found.name == "fakedev.__version__":
            continue
        if of_ours not in allowed:
            yield f"{module.path}:{found.line}: {module.room or 'fakedev'} must not import {found.name}"
        if module.room in PURE and found.name.split(".")[0] in IMPURE_MODULES:
            yield f"{module.path}:{found.line}: the pure room {module.room} must not import {found.name}"
        if module.room == "spec" and found.name.split(".")[0] == "numpy":
            yield f"{module.path}:{found.line}: spec must not import {found.name}: light programs use it"


def faults_of_purity(module: Module) -> Iterator[str]:
    """What a module of a pure room names that reaches the world, or keeps between two calls."""
    if module.room not in PURE:
        return
    for found in module.dotted_names:
        if any(found.name == name or found.name.startswith(name + ".") for name in IMPURE_NAMES):
            yield f"{module.path}:{found.line}: the pure room {module.room} must not use {found.name}"
        if found.name in ("open", "io.open", "os.open") and module.name != READS_FILES:
            yield f"{module.path}:{found.line}: the pure room {module.room} must not open files"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Global):
            yield f"{module.path}:{node.lineno}: the pure room {module.room} must have no global state"


def faults_of_form(module: Module) -> Iterator[str]:
    """A module without a docstring; public classes and functions without one; a package file that does things."""
    if not ast.get_docstring(module.tree):
        yield f"{module.path}: the module has no docstring"
    for node in _public_definitions(module.tree):
        if not ast.get_docstring(node):
            yield f"{module.path}:{node.lineno}: {node.name} has no docstring"
    if module.is_package and module.name not in PUBLIC:
        for node in module.tree.body[1:]:
            names = [target.id for target in getattr(node, "targets", ()) if isinstance(target, ast.Name)]
            if names != ["__version__"]:
                yield f"{module.path}:{node.lineno}: a package holds a docstring and the version, nothing else"


def _public_definitions(
    tree: ast.Module | ast.ClassDef,
) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_"):
            yield node
            # What overrides a method is explained where the method was defined first.
            if isinstance(node, ast.ClassDef) and not node.bases:
                yield from _public_definitions(node)


def closure(start: str, known: dict[str, Module]) -> dict[str, Module]:
    """A module with all modules of fakedev that it imports, directly or not, and their packages."""
    found: dict[str, Module] = {}
    waiting = [start]
    while waiting:
        name = waiting.pop()
        while name and name not in known:
            name = name.rpartition(".")[0]  # a name from a module
        if not name or name in found:
            continue
        found[name] = known[name]
        waiting.append(name.rpartition(".")[0])
        waiting += [one.name for one in known[name].imports]
    return found


def test_rooms_import_only_what_they_may(house: list[Module]) -> None:
    """The direction of imports, as doc/architecture.md draws it."""
    assert {module.room for module in house} <= set(ALLOWED)
    faults = [fault for module in house for fault in faults_of_imports(module)]
    assert not faults, "\n".join(faults)


def test_no_modules_import_each_other_in_a_circle(house: list[Module]) -> None:
    """Neither at run time nor for type checkers: what two modules share is below both."""
    assert circles({module.name: module for module in house}) == []


def test_pure_rooms_are_pure(house: list[Module]) -> None:
    """Time, chance and the world come in as values."""
    faults = [fault for module in house for fault in faults_of_purity(module)]
    assert not faults, "\n".join(faults)


def test_everything_says_what_it_is_for(house: list[Module]) -> None:
    """Docstrings everywhere; packages hold nothing."""
    faults = [fault for module in house for fault in faults_of_form(module)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("start", ["fakedev.commands.workload.main", "fakedev.client"])
def test_the_program_for_crowds_and_the_client_are_light(house: list[Module], start: str) -> None:
    """Thousands of fakedev-workload run at once, and the client is in tests of others: neither needs Twisted or NumPy.

    Nor do they import modules of ours that need them.
    """
    heavy = {"twisted", "zope", "numpy", "yaml", "prometheus_client", "orjson"}
    faults = [
        f"{module.path}:{found.line}: {found.name}"
        for module in closure(start, {module.name: module for module in house}).values()
        for found in module.imports
        if found.name.split(".")[0] in heavy
    ]
    assert not faults
    loaded = subprocess.run(
        [sys.executable, "-c", f"import {start}, sys; print(*sys.modules)"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert not heavy & {name.split(".")[0] for name in loaded}


def test_plugin_folders_are_no_packages() -> None:
    """With an ``__init__.py`` there the plugin vanishes, or Twisted itself is shadowed."""
    assert [path.name for path in (ROOT / "twisted").rglob("*.py")] == ["fakedev_plugin.py"]


def test_no_test_is_left_unawaited() -> None:
    """A coroutine test or fixture that pytest-twisted does not know is never run, and passes."""
    faults = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        # Without these words there is neither: most files need not be parsed.
        for node in ast.walk(ast.parse(text)) if "async" in text or "yield" in text else ():
            decorators = {ast.unparse(each).partition("(")[0] for each in getattr(node, "decorator_list", ())}
            if isinstance(node, ast.AsyncFunctionDef):
                waits = bool(decorators & {f"pytest_twisted.{name}" for name in AWAITED_BY})
                expected = node.name.startswith("test") or "pytest.fixture" in decorators
            elif isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
                # A test that yields is a generator: only inlineCallbacks runs it.
                waits = "pytest_twisted.inlineCallbacks" in decorators
                expected = any(isinstance(each, ast.Yield | ast.YieldFrom) for each in own_nodes(node))
            else:
                continue
            if expected and not waits:
                faults.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}")
    assert not faults


def own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


BROKEN = {
    "spec/a.py": ('"""Doc."""\nimport numpy\n', "spec must not import numpy"),
    "sim/a.py": ('"""Doc."""\nimport fakedev.net.system.logging\n', "sim must not import fakedev.net.system.logging"),
    "sim/b.py": ('"""Doc."""\ndef _f():\n    from ..wire import words\n', "sim must not import fakedev.wire.words"),
    "wire/a.py": ('"""Doc."""\nfrom twisted.internet import reactor\n', "the pure room wire must not import twisted"),
    "wire/b.py": ('"""Doc."""\nfrom importlib import import_module\nimport_module("time")\n', "must not import time"),
    "wire/c.py": ('"""Doc."""\nimport os as o\nx = o.environ["A"]\n', "must not use os.environ"),
    "sim/c.py": ('"""Doc."""\nimport numpy as np\nx = np.random\n', "must not use numpy.random"),
    "sim/d.py": ('"""Doc."""\nfrom datetime import datetime\nx = datetime.now()\n', "not use datetime.datetime.now"),
    "config/a.py": ('"""Doc."""\nx = open("f")\n', "must not open files"),
    "sim/e.py": ('"""Doc."""\nx = 0\ndef _f():\n    global x\n', "must have no global state"),
    "net/a.py": ("import os\n", "the module has no docstring"),
    "net/b.py": ('"""Doc."""\nclass A:\n    """Doc."""\n    def f(self): ...\n', "f has no docstring"),
    "net/__init__.py": ('"""Doc."""\nimport os\n', "nothing else"),
    "commands/a.py": ('"""Doc."""\nfrom fakedev.net.http import site\n', "must not import fakedev.net"),
}


@pytest.mark.parametrize("path", sorted(BROKEN))
def test_each_fault_is_found(tmp_path: Path, path: str) -> None:
    """These tests can fail: every kind of fault is seen in a module made for it."""
    text, expected = BROKEN[path]
    target = tmp_path / "fakedev" / path
    target.parent.mkdir(parents=True)
    target.write_text(text, encoding="utf-8")
    (module,) = modules(tmp_path)
    faults = [*faults_of_imports(module), *faults_of_purity(module), *faults_of_form(module)]
    assert len(faults) == 1, faults
    assert expected in faults[0]


def test_circles_are_found(tmp_path: Path) -> None:
    """Through a third module, and also where one import is only for type checkers."""
    folder = tmp_path / "fakedev" / "sim"
    folder.mkdir(parents=True)
    for name, text in (
        ("a", "from fakedev.sim import b\n"),
        ("b", "from fakedev.sim.c import thing\n"),
        ("c", "if TYPE_CHECKING:\n    from fakedev.sim.a import other\n"),
        ("d", "from fakedev.sim.a import other\n"),
    ):
        (folder / f"{name}.py").write_text(text)
    known = {module.name: module for module in modules(tmp_path)}
    assert circles(known) == [["fakedev.sim.a", "fakedev.sim.b", "fakedev.sim.c"]]


def test_indirect_imports_are_followed(tmp_path: Path) -> None:
    """What a helper of a helper imports counts, and what its package does."""
    for path, text in (
        ("fakedev/__init__.py", ""),
        ("fakedev/commands/__init__.py", ""),
        ("fakedev/commands/program.py", "from fakedev.sim import light\n"),
        ("fakedev/sim/__init__.py", "from fakedev.sim import heavy\n"),
        ("fakedev/sim/light.py", "from .heavy import thing\n"),
        ("fakedev/sim/heavy.py", "import numpy\n"),
        ("fakedev/sim/other.py", "import twisted\n"),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    known = {module.name: module for module in modules(tmp_path)}
    assert set(closure("fakedev.commands.program", known)) == set(known) - {"fakedev.sim.other"}
