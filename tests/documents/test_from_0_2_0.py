"""What 0.2.0 had: its own configurations, a record and a state that it wrote, its keys and its commands.

tests/data/from-0.2.0 was written by it; page.prom is what it showed at the end of the record.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from fakedev.commands.completion import words_after
from fakedev.commands.main import main
from tests.support.paths import ROOT
from tests.support.programs.processes import clean_environment, console

OLD: Final = ROOT / "tests" / "data" / "from-0.2.0"
COMMANDS: Final = [line.split() for line in (OLD / "commands.txt").read_text(encoding="utf-8").splitlines()]
CONFIGURATIONS: Final = [*OLD.glob("*.yaml"), *OLD.glob("etc/*.yaml"), *OLD.glob("etc/*/fakedev.yaml")]
SCENARIOS: Final = sorted(OLD.glob("etc/scenarios/*.yaml"))


def name_of(file: Path) -> str:
    """As tests are named after it."""
    return str(file.relative_to(OLD))


@pytest.mark.parametrize("file", CONFIGURATIONS, ids=name_of)
def test_a_configuration(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It can be used as it is, without a note."""
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--check", "--config", str(file)])
    assert ended.value.code == 0
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == (f"{file}: good\n", "")


@pytest.mark.parametrize("file", SCENARIOS, ids=name_of)
def test_a_scenario(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It can be used as it is, without a note."""
    assert main(["scenario", "run", "--check", str(file)]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith(f"{file}: good: ")
    assert printed.err == ""


def keys(schema: Any, path: str = "") -> Iterator[str]:
    """The keys that a schema names, with the keys above them."""
    for name, value in schema.items() if isinstance(schema, dict) else enumerate(schema):
        if name == "properties":
            for key, below in value.items():
                yield f"{path}.{key}"
                yield from keys(below, f"{path}.{key}")
        elif isinstance(value, (dict, list)):
            yield from keys(value, path)


def test_keys() -> None:
    """Each key of its configuration is one today."""
    schema = json.loads((ROOT / "fakedev" / "config" / "fakedev.schema.json").read_text(encoding="utf-8"))
    assert set((OLD / "keys.txt").read_text(encoding="utf-8").split()) - set(keys(schema)) == set()


def without_values(page: str) -> list[str]:
    """The lines of a page without the values of its series."""
    return [line if line.startswith("#") else line.rpartition(" ")[0] for line in page.splitlines()]


@pytest.mark.slow
def test_a_record(tmp_path: Path) -> None:
    """It runs again: the page at its end has the same series; values may differ, as the simulation has changed."""
    record = tmp_path / "record.jsonl"
    record.write_bytes(gzip.decompress((OLD / "record.jsonl.gz").read_bytes()))
    assert main(["render", "--events", str(record), "--for", "4m", "--every", "4m", "--output", str(tmp_path)]) == 0
    shown, was = (tmp_path / "240.prom").read_text(), (OLD / "page.prom").read_text()
    assert without_values(shown) == without_values(was)
    changed = {name for name, line in zip(was.splitlines(), shown.splitlines(), strict=True) if name != line}
    same = {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_CLOCK", "DCGM_FI_DEV_XID_ERRORS"}
    assert not {line.partition("{")[0] for line in changed} & same


@pytest.mark.real
def test_a_state_is_refused(tmp_path: Path) -> None:
    """In one line, with the version that wrote it and what to do; the folder stays as it is."""
    with tarfile.open(OLD / "state.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    config = tmp_path / "fleet.yaml"
    config.write_bytes((OLD / "fleet.yaml").read_bytes())
    before = {file.name: file.read_bytes() for file in (tmp_path / "state").iterdir()}
    done = subprocess.run(
        [*console("fakedev"), "serve", "--config", str(config)], capture_output=True, text=True, check=False,
        timeout=300, env=clean_environment(RUNTIME_DIRECTORY=str(tmp_path)),
    )  # fmt: skip
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if "state" in line]
    assert re.search(r"written by .*fakedev 0\.2\.0: start that one, or move its folder away", line)
    after = {file.name: file.read_bytes() for file in (tmp_path / "state").iterdir() if file.name in before}
    assert after == before


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ([word for word in line[1:] if not word.startswith("-")], {word for word in line if word.startswith("-")})
        for line in COMMANDS
        if line[0] == "fakedev"
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_a_subcommand(words: list[str], options: set[str]) -> None:
    """It is there, with all options that it had."""
    assert options - set(words_after(words, main)) == set()


@pytest.mark.real
@pytest.mark.parametrize("line", [line for line in COMMANDS if line[0] != "fakedev"], ids=lambda line: line[0])
def test_a_program(line: list[str]) -> None:
    """It is there, with all options that its help had."""
    done = subprocess.run(
        [sys.executable, *console(line[0])[1:], "--help"],
        capture_output=True, text=True, check=False, timeout=300, env=clean_environment(),
    )  # fmt: skip
    options = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", done.stdout + done.stderr))
    assert set(line[1:]) - options == set()
