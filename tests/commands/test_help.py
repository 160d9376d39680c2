"""``--help`` of every program and every subcommand: all options that the code declares, and exit code 0."""

from __future__ import annotations

import argparse
import configparser
import re
import subprocess
import sys
from typing import Any

import pytest

from fakedev.commands.completion import words_after
from fakedev.commands.main import main
from tests.support.paths import ROOT
from tests.support.programs.processes import clean_environment

#: Runs an entry point with --help, and then prints to standard error what was declared.
ASK = """
import argparse, sys
from fakedev.schema import go_flags

declared = []

def noted(add, names):
    def method(self, what, *rest):
        declared.extend(names(what))
        return add(self, what, *rest)
    return method

go_flags.FlagSet._add = noted(go_flags.FlagSet._add, lambda flag: [f"-{flag.name}"])
argparse.ArgumentParser._add_action = noted(argparse.ArgumentParser._add_action, lambda action: action.option_strings)
sys.argv = [PROGRAM, "--help"]
code = 0
try:
    code = __import__(MODULE, fromlist=["_"]).__dict__[FUNCTION]()
except SystemExit as ended:
    code = ended.code
sys.stderr.write("\\n".join(declared))
sys.exit(code)
"""


def programs() -> list[tuple[str, str, str]]:
    """The console programs of setup.cfg: name, module, function."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    lines = parser["options.entry_points"]["console_scripts"].split()
    # Each is three words: a name, an equals sign, and where it begins.
    return [(name, *where.split(":")) for name, where in zip(lines[::3], lines[2::3], strict=True)]  # type: ignore[misc]


def commands() -> list[list[str]]:
    """The subcommands of fakedev, also those of subcommands."""
    found: list[list[str]] = []
    waiting: list[list[str]] = [[]]
    while waiting:
        words = waiting.pop()
        below = [[*words, each] for each in words_after(words, main) if not each.startswith("-")]
        found += below
        waiting += below
    return found


def missing(declared: list[str], text: str) -> list[str]:
    """The options that a help does not have at the beginning of a word."""
    return [each for each in declared if not re.search(rf"(?<![\w-]){re.escape(each)}(?![\w-])", text)]


@pytest.mark.real
@pytest.mark.parametrize(("program", "module", "function"), programs(), ids=[program[0] for program in programs()])
def test_programs(program: str, module: str, function: str) -> None:
    """As their users start them; nothing else is printed."""
    code = f"PROGRAM, MODULE, FUNCTION = {program!r}, {module!r}, {function!r}\n{ASK}"
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean_environment(), capture_output=True, text=True, check=False, timeout=300
    )
    declared = done.stderr.splitlines()
    assert done.returncode == 0, done.stderr
    assert program in done.stdout
    # That of fakedev lists subcommands; it declares nothing itself.
    assert len(declared) > 3 or program == "fakedev"
    assert all(each.startswith("-") for each in declared), "it writes to standard error"
    assert missing(declared, done.stdout) == []


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_subcommands(words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Each option that is declared while the help is made."""
    declared: list[str] = []
    add = argparse.ArgumentParser._add_action

    def noted(self: argparse.ArgumentParser, action: argparse.Action) -> Any:
        declared.extend(action.option_strings)
        return add(self, action)

    monkeypatch.setattr(argparse.ArgumentParser, "_add_action", noted)
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    assert {"--help", "--version"} <= set(declared)
    printed = capsys.readouterr()
    assert printed.out.startswith(f"usage: fakedev {' '.join(words)}")
    assert printed.err == ""
    assert missing(declared, printed.out) == []
