"""Texts of peers and users cost time that grows with their length, not with its square."""

from __future__ import annotations

import ast
import contextlib
import importlib
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fakedev.base.units import parse_duration, parse_seconds, parse_size
from fakedev.exporters.samples import read_page
from fakedev.fleet.entities import selectors
from fakedev.fleet.spec.limits import parse_shard
from fakedev.fleet.verbs import WORKLOAD_GRAMMAR
from fakedev.lines.grammar import ProtocolError
from fakedev.lines.words import parse_words
from fakedev.tester.rates import parse_expectation
from tests.support.examples import examples
from tests.support.paths import ROOT
from tests.support.source.regex_steps import StepCounter, TooManySteps, hostile_texts
from tests.support.source.source_tree import Module

_METHODS = ("fullmatch", "match", "search", "findall", "finditer", "sub", "subn", "split")
#: Methods that try an expression at one place only. The others try it at each character.
_AT_ONE_PLACE = ("fullmatch", "match")
#: Expressions whose text is cut or refused before they see it, with the most characters that they see.
BOUNDED = {
    ("fakedev.base.units", "_PART"): 64,
}
#: The most steps on a bounded text: about a millisecond of Python's own matcher.
_MAX_STEPS = 20_000
#: Functions that make an expression from something else than constants, and what bounds it.
MADE_ELSEWHERE = {
    ("fakedev.commands.dropins.dcgm_exporter", "_pod_labels"): "finds expressions in two short names of fakedev's own",
    ("fakedev.fleet.entities.selectors", "_matcher"): "counts its wildcards; test_globs below",
    ("fakedev.commands.workload.options", "matched_names"): "the user's own -devregex, with a limit of CPU time",
    ("fakedev.scenario.rules.alert_rules", "matches"): "the user's own rules, on the labels of sixteen boards",
    ("fakedev.scenario.rules.dashboard_queries", "name"): "the user's own rules of an adapter, on a name of a metric",
    ("fakedev.scenario.rules.dashboard_queries", "selects"): "the same",
    ("fakedev.exporters.settings.catalog", "family"): "a text without wildcards, in our own files",
}
_SHORT = 16
_GROWTH = 4
#: The distance between texts that are tried; it has no factor in common with the number of ends that each has.
_STRIDE = 60 // examples(60)

_LENGTH = 65_000
_DIGITS = "1" * _LENGTH
#: Far more than linear time takes on a slow machine, and far less than quadratic time takes on a fast one.
_MAX_SECONDS = 20.0


def _words(text: str) -> None:
    parse_words(text.encode(), WORKLOAD_GRAMMAR)


def _page(line: str) -> None:
    read_page(line + "\n")


#: Each text is as long as a message may be, and took a minute or more with expressions that backtrack.
CASES: list[tuple[Callable[[str], object], str]] = [
    (_words, f"advance {_DIGITS}x"),
    (_words, f"advance {_DIGITS}.{_DIGITS}x"),
    (_words, f"run a devices=all profile=100 limit=power:{_DIGITS}x"),
    (parse_seconds, _DIGITS + "x"),
    (parse_seconds, _DIGITS + "e" + _DIGITS + "x"),
    (parse_duration, _DIGITS + "x"),
    (parse_size, _DIGITS + " " * _LENGTH + "!"),
    (parse_shard, _DIGITS),
    (parse_expectation, "p99<" + " " * _LENGTH + "="),
    (_page, "m{" + "a" * _LENGTH + "} 1"),
    (_page, 'm{a="' + "\\\\" * _LENGTH + "} 1"),
    (_page, 'm{a="b"' * 8000 + " 1"),
]


@pytest.mark.parametrize(("parse", "text"), CASES, ids=[f"{parse.__name__}-{text[:24]}" for parse, text in CASES])
def test_long_texts_take_linear_time(parse: Callable[[str], object], text: str) -> None:
    """They are accepted or refused at once."""
    began = time.process_time()
    with contextlib.suppress(ValueError, ProtocolError):
        parse(text)
    assert time.process_time() - began < _MAX_SECONDS


@dataclass(frozen=True)
class Expression:
    """A regular expression of the project, and a method that is called on it."""

    module: str
    name: str
    pattern: re.Pattern[Any]
    method: str

    def __str__(self) -> str:
        return f"{self.module.removeprefix('fakedev.')}:{self.name}.{self.method}"


def _paths() -> list[Path]:
    """The modules of the project that may use regular expressions."""
    return [path for path in sorted((ROOT / "fakedev").rglob("*.py")) if "\nimport re\n" in path.read_text("utf-8")]


def _expressions(module: Module) -> tuple[list[Expression], set[str]]:
    """A module's expressions with their uses, and its functions that make one from something that is not constant."""
    values = vars(importlib.import_module(module.name))
    found: dict[tuple[str, str], Expression] = {}
    made: set[str] = set()
    functions = {
        id(node): function.name
        for function in ast.walk(module.tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
    }
    calls = {id(node.func): node for node in ast.walk(module.tree) if isinstance(node, ast.Call)}
    for node in ast.walk(module.tree):
        if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
            continue
        owner, method = node.value.id, node.attr
        if owner == "re" and method in (*_METHODS, "compile"):
            call = calls.get(id(node))
            first = call.args[0] if call and call.args else None
            if not isinstance(first, ast.Constant):
                made.add(functions[id(node)])
            elif method != "compile":
                name = repr(first.value)[:40]
                found[name, method] = Expression(module.name, name, re.compile(first.value), method)
        elif method in _METHODS and isinstance(values.get(owner), re.Pattern):
            found[owner, method] = Expression(module.name, owner, values[owner], method)
    return list(found.values()), made


def _steps(expression: Expression, text: str, most: int) -> int:
    counter = StepCounter(expression.pattern, most)
    try:
        if expression.method == "fullmatch":
            counter.fullmatch(text)
        elif expression.method == "match":
            counter.match(text)
        else:
            counter.find_all(text)
    except TooManySteps:
        return most + 1
    return counter.steps


@pytest.fixture(autouse=True)
def _deep_recursion() -> Iterator[None]:
    """The step counter nests as deeply as an expression repeats."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    yield
    sys.setrecursionlimit(before)


def _growth(expression: Expression, stride: int = 1) -> str:
    """Empty if the steps grow with the length; else a text for which they grow faster."""
    shorts = list(hostile_texts(StepCounter(expression.pattern, 0), _SHORT))[::stride]
    longs = list(hostile_texts(StepCounter(expression.pattern, 0), _SHORT * _GROWTH))[::stride]
    for short, long in zip(shorts, longs, strict=True):
        few = _steps(expression, short, 5000)
        # Half as much again as linear, and what a repeat with a maximum may cost at the beginning.
        most = few * _GROWTH * 3 // 2 + 200
        if _steps(expression, long, most) > most:
            return f"{long!r}: over {most} steps, where a text of a quarter of the length takes {few}"
    return ""


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.parametrize("path", _paths(), ids=lambda path: ".".join(path.relative_to(ROOT).with_suffix("").parts))
def test_steps_grow_with_the_length_of_the_text(path: Path) -> None:
    """No text of characters that an expression knows takes more than linear time, nor does a bounded one many steps."""
    module = Module(path)
    expressions, made = _expressions(module)
    assert expressions or made
    assert made <= {function for name, function in MADE_ELSEWHERE if name == module.name}, "tell what bounds it"
    for expression in expressions:
        bound = BOUNDED.get((expression.module, expression.name))
        if bound is None:
            assert not (slow := _growth(expression, _STRIDE)), f"{expression}: {slow}"
        else:
            for text in list(hostile_texts(StepCounter(expression.pattern, 0), bound))[::_STRIDE]:
                assert _steps(expression, text[:bound], _MAX_STEPS) <= _MAX_STEPS, text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "pattern"),
    [
        ("fullmatch", r"(\d+)+x"),
        ("fullmatch", r"\s*([^<>=\s]+)\s*(<=|>=|<|>)\s*([^<>=]+?)\s*"),
        ("fullmatch", r"[ -~]+/[ -~]+"),
        ("match", r"# (HELP|TYPE) (\S+) ?(\d*)x"),
        ("search", r"\d+x"),
        ("findall", r"(?m)^name:[ \t]*(.*?)[ \t]*(?:[ \t]#.*)?$"),
        ("findall", r'([a-z]+)="((?:[^"\\]|\\.)*)"'),
        ("finditer", rb'"([^"\\]+|\\.)*"'),
        ("fullmatch", r"\d*(\.\d*)?\d*"),
    ],
)
def test_slow_expressions_are_found(method: str, pattern: str | bytes) -> None:
    """Repeats beside, in and behind repeats; searches that begin again in what they have read."""
    assert _growth(Expression("", "", re.compile(pattern), method))


@pytest.mark.slow
@pytest.mark.deep
def test_steps_are_counted_as_python_matches() -> None:
    """The counter finds the same matches as Python's own matcher."""
    for expression in (each for path in _paths() for each in _expressions(Module(path))[0]):
        is_bytes = isinstance(expression.pattern.pattern, bytes)
        for text in list(hostile_texts(StepCounter(expression.pattern, 0), 9))[:: 7 * _STRIDE]:
            given = text.encode("latin-1", "replace") if is_bytes else text
            counter = StepCounter(expression.pattern, 100_000)
            shown = given.decode("latin-1") if isinstance(given, bytes) else given
            assert counter.fullmatch(shown) == bool(expression.pattern.fullmatch(given)), (expression, text)
            assert counter.match(shown) == bool(expression.pattern.match(given)), (expression, text)
            assert counter.find_all(shown) == len(expression.pattern.findall(given)), (expression, text)


def test_globs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patterns of device words make no expression: tests/fleet/entities has the steps of their own matcher."""
    made: list[object] = []
    monkeypatch.setattr(re, "compile", lambda *given: made.append(given))
    assert selectors._matcher("a*[0-9]*b?")("a12b1")
    assert made == []
