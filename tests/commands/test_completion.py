"""Completion: the words that may follow others, and the shells that ask for them."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from fakedev.commands.completion import SCRIPTS, completion, words_after
from fakedev.commands.main import main, subcommands
from tests.support.programs.processes import clean_environment, console


def test_subcommands() -> None:
    """Each is offered, and no other word of the help."""
    assert words_after([], main) == [name for group in subcommands().values() for name in group]


@pytest.mark.parametrize(
    ("words", "some"),
    [
        (["scenario"], ["run", "score", "tests", "blocks", "from", "--help"]),
        (["nvml"], ["build", "overrides", "unanswered", "env", "--help"]),
        (["serve"], ["--config", "-c", "--web-config-file", "--check"]),
        (["scenario", "run", "day.yaml"], ["--truth", "--openmetrics"]),
        (["conform", "page.prom", "--against"], ["--identity", "--min"]),
        (["status", "--url", "x"], ["--url", "--token-file"]),
    ],
)
def test_words(words: list[str], some: list[str]) -> None:
    """What the help of a subcommand says, also behind its arguments; of a list of subcommands first."""
    found = words_after(words, main)
    assert set(some) <= set(found)
    assert [word for word in found if not word.startswith("-")] == [word for word in some if not word.startswith("-")]


def test_a_word_that_there_is_not() -> None:
    """Nothing is offered that could not be meant, and nothing is printed but words."""
    assert [word for word in words_after(["nothing"], main) if not word.startswith("-")] == []


@pytest.mark.parametrize("shell", SCRIPTS)
def test_scripts(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert completion([shell]) == 0
    assert "fakedev completion words" in capsys.readouterr().out


def test_another_shell(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        completion(["tcsh"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert all(shell in said for shell in ("tcsh", *SCRIPTS))


@pytest.mark.real
@pytest.mark.requires_program("bash")
def test_bash(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "fakedev").write_text("#!/bin/sh\nexec " + shlex.join(console("fakedev")) + ' "$@"\n')
    (programs / "fakedev").chmod(0o755)
    (tmp_path / "script").write_text(SCRIPTS["bash"])
    asks = """
source "$1"; shift
COMP_WORDS=(fakedev "$@"); COMP_CWORD=$#
_fakedev fakedev "${!#}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
    environment = clean_environment(PATH=f"{programs}:{os.environ['PATH']}")
    for line, expected in ((["scen"], ["scenario"]), (["scenario", "sc"], ["score"]), (["sd", "--ta"], ["--target"])):
        done = subprocess.run(
            ["bash", "-c", asks, "bash", str(tmp_path / "script"), *line],
            capture_output=True, text=True, check=False, env=environment,
        )  # fmt: skip
        assert (done.stdout.split(), done.stderr) == (expected, "")
