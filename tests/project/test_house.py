"""The house: rooms by subject, the one direction of imports, what pure modules may not touch, names and sizes of files.

doc/architecture.md shows the same.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.source.source_tree import Module, circles, modules, room_of

#: An import points to a room on the left, or stays in its room: ground, subjects, the whole file, what people do
#: with it, faces. The data of ``catalog`` and ``page`` has no imports.
DIRECTION = (
    *("base", "schema", "runtime", "lines", "web"),
    *("fleet", "exporters", "queues", "tester", "nvml", "kubernetes"),
    "config",
    *("client", "scenario", "replay", "clone", "calibrate", "learn", "node"),
    *("api", "service", "commands", "testing"),
)
#: Modules that users and tools import by their names; they may import every room.
ENTRIES = {"tap", "pytest_plugin"}
DATA = {"catalog", "page"}
#: Rooms and folders without NumPy: light programs use them.
LIGHT = ("fakedev.base.", "fakedev.schema.", "fakedev.lines.", "fakedev.fleet.spec.")
#: File names that occur several times, because they mean the same in each room.
SAME_MEANING = {
    *("__init__", "__main__", "settings", "part", "port", "verbs", "metrics", "report", "statistics", "start", "main"),
    "options",
}
#: Folders whose files are named after the subject that they serve.
BY_SUBJECT = ("fakedev.commands.", "fakedev.api.")
MOST_LINES = 600
#: Modules with more lines than that. The list may only shrink.
LARGE: frozenset[str] = frozenset()
#: Modules that a pure one has no use for: the reactor, sockets, clocks, chance, other threads and processes.
#: zope.interface is none of them: pure rules declare by it what they need of the outside.
IMPURE_MODULES = {
    *("twisted", "socket", "socketserver", "ssl", "select", "selectors", "asyncio", "http", "grpc"),
    *("time", "sched", "random", "secrets", "threading", "multiprocessing", "concurrent", "subprocess", "signal"),
    "logging",
}
#: Names that reach the world from modules which are otherwise harmless.
IMPURE_NAMES = {
    *("os.environ", "os.environb", "os.getenv", "os.urandom", "os.getpid", "os.times", "sys.argv"),
    *("sys.stdin", "sys.stdout", "sys.stderr", "numpy.random", "uuid.uuid1", "uuid.uuid4"),
    *("datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today"),
    *("print", "input", "__import__", "open", "io.open", "os.open"),
}
#: Packages that other people's programs import from: these also name what they offer.
PUBLIC = {"fakedev.client"}
#: The one pure module that reads files.
READS_FILES = "fakedev.base.given_files"

#: The decorators of pytest-twisted that run coroutines.
AWAITED_BY = ("ensureDeferred", "async_fixture", "async_yield_fixture")


@pytest.fixture(scope="module")
def house() -> list[Module]:
    """All modules: parsed for the tests that look at them, and not in each process that only collects tests."""
    return modules()


def faults_of_direction(module: Module) -> Iterator[str]:
    """Imports of a room further to the right."""
    if module.room in ENTRIES:
        return
    for found in module.imports:
        room = room_of(found.name)
        if not room or room == module.room or found.name == "fakedev.__version__":
            continue
        if room in ENTRIES or (room not in DATA and _rank(room) > _rank(module.room)):
            yield f"{module.path}:{found.line}: {module.room or 'fakedev'} must not import {found.name}"


def _rank(room: str) -> int:
    return DIRECTION.index(room) if room in DIRECTION else -1


def touches(module: Module) -> Iterator[str]:
    """What of the world a module names by itself, with its line."""
    for found in module.imports:
        if _is_in(found.name, IMPURE_MODULES):
            yield f"{module.path}:{found.line}: {found.name}"
    for found in module.dotted_names:
        if _is_in(found.name, IMPURE_NAMES) and module.name != READS_FILES:
            yield f"{module.path}:{found.line}: {found.name}"


def _is_in(name: str, others: set[str]) -> bool:
    """Whether a dotted name is one of others, or inside one."""
    while name and name not in others:
        name = name.rpartition(".")[0]
    return bool(name)


def faults_of_purity(known: dict[str, Module], outside: set[str]) -> Iterator[str]:
    """Pure modules that touch the world or import a module that does, and modules in OUTSIDE that do neither."""
    for name, module in known.items():
        if module.is_package or not module.room or module.room in ENTRIES:
            continue
        imported = [found for found in module.imports if _module_of(found.name, known) in outside - {name}]
        if name in outside:
            if not imported and not any(touches(module)):
                yield f"{module.path}: is in OUTSIDE of its room, and touches nothing"
            continue
        for touched in touches(module):
            yield f"{touched}: the module is pure: add it to OUTSIDE of its room, or do without"
        for found in imported:
            yield f"{module.path}:{found.line}: {found.name} is in OUTSIDE, and this module is pure"
        for node in module.nodes:
            if isinstance(node, ast.Global):
                yield f"{module.path}:{node.lineno}: a pure module must have no global state"


def faults_of_light(module: Module) -> Iterator[str]:
    """NumPy where light programs would load it."""
    if module.name.startswith(LIGHT):
        for found in module.imports:
            if _is_in(found.name, {"numpy"}):
                yield f"{module.path}:{found.line}: {module.name} must not import numpy: light programs use it"


def _module_of(name: str, known: dict[str, Module]) -> str:
    return name if name in known else name.rpartition(".")[0]


def faults_of_form(module: Module) -> Iterator[str]:
    """A module or a public class without a docstring; a package file that does things."""
    if not ast.get_docstring(module.tree):
        yield f"{module.path}: the module has no docstring"
    for node in module.tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not ast.get_docstring(node):
            yield f"{module.path}:{node.lineno}: {node.name} has no docstring"
    if module.is_package and module.name not in PUBLIC:
        for node in module.tree.body[1:]:
            names = [target.id for target in getattr(node, "targets", ()) if isinstance(target, ast.Name)]
            if names not in (["__version__"], ["OUTSIDE"]):
                yield f"{module.path}:{node.lineno}: a package holds a docstring, the version and OUTSIDE, nothing else"


def faults_of_names(known: dict[str, Module]) -> Iterator[str]:
    """File names that occur twice and mean different things, and rooms that nobody knows."""
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    for name, module in known.items():
        if module.is_package or name.startswith(BY_SUBJECT) or ".settings." in name:
            continue
        by_name[name.rpartition(".")[2]].append(name)
        if module.room not in {"", *DIRECTION, *ENTRIES, *DATA}:
            yield f"{module.path}: {module.room} is no room"
    for word, names in by_name.items():
        if len(names) > 1 and word not in SAME_MEANING:
            yield f"{', '.join(names)}: one name, several meanings"


def outside_of(house: list[Module]) -> set[str]:
    """The modules that the rooms declare as touching the world."""
    return {
        f"{package.name}.{path.replace('/', '.')}"
        for package in house
        if package.is_package and package.name.count(".") == 1
        for path in getattr(import_module(package.name), "OUTSIDE", ())
    }


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


@pytest.mark.slow
def test_imports_point_to_the_left(house: list[Module]) -> None:
    """The direction of imports, as doc/architecture.md draws it."""
    faults = [fault for module in house for fault in faults_of_direction(module)]
    assert not faults, "\n".join(faults)


@pytest.mark.slow
def test_no_modules_import_each_other_in_a_circle(house: list[Module]) -> None:
    """Neither at run time nor for type checkers: what two modules share is below both."""
    assert circles({module.name: module for module in house}) == []


@pytest.mark.slow
def test_pure_modules_are_pure(house: list[Module]) -> None:
    """Time, chance and the world come in as values; OUTSIDE of each room names the modules that touch them."""
    known = {module.name: module for module in house}
    outside = outside_of(house)
    assert outside <= known.keys(), outside - known.keys()
    faults = list(faults_of_purity(known, outside))
    assert not faults, "\n".join(faults)


@pytest.mark.slow
def test_light_rooms_have_no_numpy(house: list[Module]) -> None:
    """Programs for crowds load them."""
    faults = [fault for module in house for fault in faults_of_light(module)]
    assert not faults, "\n".join(faults)


@pytest.mark.slow
def test_a_file_name_has_one_meaning(house: list[Module]) -> None:
    """A stranger who knows the word finds the file."""
    faults = list(faults_of_names({module.name: module for module in house}))
    assert not faults, "\n".join(faults)


def test_no_module_is_too_long() -> None:
    """Who writes more should ask what the module splits into."""
    lines = {
        path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in (ROOT / "fakedev").rglob("*.py")
    }
    assert {path for path, count in lines.items() if count > MOST_LINES} == LARGE


@pytest.mark.slow
def test_everything_says_what_it_is_for(house: list[Module]) -> None:
    """Docstrings everywhere; packages hold nothing."""
    faults = [fault for module in house for fault in faults_of_form(module)]
    assert not faults, "\n".join(faults)


@pytest.mark.slow
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


@pytest.mark.slow
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
    "fleet/spec/a.py": ('"""Doc."""\nimport numpy\n', "must not import numpy"),
    "fleet/a.py": ('"""Doc."""\nimport fakedev.queues.broker\n', "fleet must not import fakedev.queues.broker"),
    "fleet/b.py": ('"""Doc."""\ndef _f():\n    from ..queues import job\n', "must not import fakedev.queues.job"),
    "lines/a.py": ('"""Doc."""\nfrom twisted.internet import reactor\n', "reactor: the module is pure"),
    "lines/b.py": ('"""Doc."""\nfrom importlib import import_module\nimport_module("time")\n', "the module is pure"),
    "lines/c.py": ('"""Doc."""\nimport os as o\nx = o.environ["A"]\n', "os.environ: the module is pure"),
    "fleet/c.py": ('"""Doc."""\nimport numpy as np\nx = np.random\n', "numpy.random: the module is pure"),
    "fleet/d.py": ('"""Doc."""\nfrom datetime import datetime\nx = datetime.now()\n', "now: the module is pure"),
    "config/a.py": ('"""Doc."""\nx = open("f")\n', "open: the module is pure"),
    "fleet/e.py": ('"""Doc."""\nx = 0\ndef _f():\n    global x\n', "must have no global state"),
    "web/a.py": ("import os\n", "the module has no docstring"),
    "web/b.py": ('"""Doc."""\nclass A:\n    def f(self): ...\n', "A has no docstring"),
    "web/__init__.py": ('"""Doc."""\nimport os\n', "nothing else"),
    "runtime/a.py": ('"""Doc."""\nfrom fakedev.web import site\n', "must not import fakedev.web"),
    "cellar/a.py": ('"""Doc."""\n', "cellar is no room"),
}


def faults_of(module: Module) -> list[str]:
    """All faults of one module, which is in no OUTSIDE."""
    known = {module.name: module}
    return [
        *faults_of_direction(module), *faults_of_purity(known, set()), *faults_of_light(module),
        *faults_of_form(module), *faults_of_names(known),
    ]  # fmt: skip


@pytest.mark.parametrize("path", sorted(BROKEN))
def test_each_fault_is_found(tmp_path: Path, path: str) -> None:
    """These tests can fail: every kind of fault is seen in a module made for it."""
    text, expected = BROKEN[path]
    target = tmp_path / "fakedev" / path
    target.parent.mkdir(parents=True)
    target.write_text(text, encoding="utf-8")
    (module,) = modules(tmp_path)
    faults = faults_of(module)
    assert len(faults) == 1, faults
    assert expected in faults[0]


def test_faults_between_modules_are_found(tmp_path: Path) -> None:
    """A pure module that imports one of OUTSIDE; one of OUTSIDE without need; one word for two things."""
    for path, text in (
        ("fleet/port.py", '"""Doc."""\nimport socket\n'),
        ("fleet/tick.py", '"""Doc."""\nfrom fakedev.fleet import port\n'),
        ("queues/tick.py", '"""Doc."""\n'),
    ):
        (tmp_path / "fakedev" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "fakedev" / path).write_text(text)
    known = {module.name: module for module in modules(tmp_path)}
    outside = {"fakedev.fleet.port", "fakedev.queues.tick"}
    first, second = faults_of_purity(known, outside)
    assert "fakedev.fleet.port is in OUTSIDE, and this module is pure" in first
    assert "is in OUTSIDE of its room, and touches nothing" in second
    assert list(faults_of_names(known)) == ["fakedev.fleet.tick, fakedev.queues.tick: one name, several meanings"]


def test_circles_are_found(tmp_path: Path) -> None:
    """Through a third module, and also where one import is only for type checkers."""
    folder = tmp_path / "fakedev" / "fleet"
    folder.mkdir(parents=True)
    for name, text in (
        ("a", "from fakedev.fleet import b\n"),
        ("b", "from fakedev.fleet.c import thing\n"),
        ("c", "if TYPE_CHECKING:\n    from fakedev.fleet.a import other\n"),
        ("d", "from fakedev.fleet.a import other\n"),
    ):
        (folder / f"{name}.py").write_text(text)
    known = {module.name: module for module in modules(tmp_path)}
    assert circles(known) == [["fakedev.fleet.a", "fakedev.fleet.b", "fakedev.fleet.c"]]


def test_indirect_imports_are_followed(tmp_path: Path) -> None:
    """What a helper of a helper imports counts, and what its package does."""
    for path, text in (
        ("fakedev/__init__.py", ""),
        ("fakedev/commands/__init__.py", ""),
        ("fakedev/commands/program.py", "from fakedev.fleet import light\n"),
        ("fakedev/fleet/__init__.py", "from fakedev.fleet import heavy\n"),
        ("fakedev/fleet/light.py", "from .heavy import thing\n"),
        ("fakedev/fleet/heavy.py", "import numpy\n"),
        ("fakedev/fleet/other.py", "import twisted\n"),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    known = {module.name: module for module in modules(tmp_path)}
    assert set(closure("fakedev.commands.program", known)) == set(known) - {"fakedev.fleet.other"}
