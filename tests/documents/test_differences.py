"""The rows of doc/switching.md: what is equal to the originals, and what differs."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.documents.differences import DOCUMENT, ROWS, Row, written
from tests.support.paths import DATA, ROOT

ALL = [(f"{original}: {row.what}", row) for original, rows in ROWS.items() for row in rows]
LINES = [line for _, row in ALL for line in row.lines.items()]
#: What words of command lines stand for.
FILES = ["-devtype", "original-device.json", "-devlist", "original-devices.json", "-identity", "original-identity.json"]
WORKLOADS = {
    "BROKEN": '{"Name": ',
    "OVER": '{"Name": "x", "Profile": [{"Load": 110}]}',
}


def test_the_document_has_the_rows() -> None:
    """As ``python -m tests.support.documents.differences`` writes them."""
    assert DOCUMENT.read_text(encoding="utf-8") == written()


@pytest.mark.parametrize("row", [row for _, row in ALL], ids=[name for name, _ in ALL])
def test_a_row(row: Row) -> None:
    """Its test exists or it has command lines; a difference has all of its three texts."""
    assert bool(row.test) != bool(row.lines)
    if row.test:
        path, *names = row.test.split("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^ *(?:async )?def {names[-1]}\(", text, re.MULTILINE)
    assert bool(row.there) == bool(row.here) == bool(row.why)


@pytest.mark.parametrize(("line", "reason"), LINES, ids=[line for line, _ in LINES])
def test_a_command_line(
    line: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends with 2 and says why, on standard error, before anything listens."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JOB_COMPLETION_INDEX", raising=False)
    program, *words = shlex.split(line)
    arguments: list[str] = []
    for word in words:
        if word in WORKLOADS:
            Path(f"{word}.json").write_text(WORKLOADS[word], encoding="utf-8")
        files = [str(DATA / file) if file.endswith(".json") else file for file in FILES]
        arguments += files if word == "FILES" else [f"{word}.json" if word in WORKLOADS else word]
    name = program.removeprefix("fakedev-")
    main = import_module(
        "fakedev.commands.workload.main" if name == "workload" else f"fakedev.commands.dropins.{name}"
    ).main
    try:
        code = main(arguments)
    except SystemExit as ended:
        code = ended.code
    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert reason in said.err
    assert "Traceback" not in said.err
