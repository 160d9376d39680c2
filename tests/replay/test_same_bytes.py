"""A trace of each format, read and replayed twice, gives the same bytes: whatever order sets and hashes have."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import pytest_twisted

from fakedev.replay.formats.formats import FORMATS
from tests.fuzz.trace_targets import small_trace
from tests.support.programs.processes import StartAsync, clean_environment, run

#: Writes the scenario of each folder, and the report of its replay.
_PROGRAM = """
import sys
from fakedev.commands.replay import replay
for name in sys.argv[2:]:
    options = ["--device", "h100", "--usage", "like=gentd26", "--seed", "7", "--for", "3h", "--tick", "60s"]
    folder = f"{sys.argv[1]}/{name}"
    assert replay([name, name, *options, "--output", f"{folder}.yaml"]) == 0
    assert replay([name, name, *options, "--report", f"{folder}.html"]) in (0, 3)
"""


@pytest.mark.slow
@pytest_twisted.ensureDeferred
async def test_each_format_twice(tmp_path: Path, start_async: StartAsync) -> None:
    """Two processes with other seeds of their hashes write the same scenarios and reports."""
    for name in FORMATS:
        (tmp_path / name).mkdir()
        for file, text in small_trace(name).items():
            (tmp_path / name / file).write_text(text)
    found = []
    for seed in ("1", "2"):
        folder = tmp_path / f"seed-{seed}"
        folder.mkdir()
        words = [sys.executable, "-c", _PROGRAM, str(folder), *FORMATS]
        ended = await run(start_async, *words, folder=tmp_path, environment=clean_environment(PYTHONHASHSEED=seed))
        assert ended.exit_code == 0, ended.stderr
        found.append({path.name: path.read_bytes() for path in sorted(folder.iterdir())})
    assert len(found[0]) == 2 * len(FORMATS)
    assert [name for name in found[0] if found[0][name] != found[1][name]] == []
