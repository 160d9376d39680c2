"""Files and blocks of a history."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fakedev.scenario.rules.promtool import PromtoolError
from fakedev.scenario.samples.history import HistoryBlocks, HistoryFiles, HistoryStream
from fakedev.scenario.samples.series import Scraped, Stored, TargetSamples

#: A promtool that notes its arguments, says what it does, and refuses files with the word in question.
PROMTOOL = """#!/bin/sh
echo "$@" >> {calls}
if grep -q refused "$4"; then echo "bad line in $4" >&2; exit 1; fi
cp "$4" "$5/"
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A promtool on the PATH; the file where it notes its arguments."""
    program = tmp_path / "bin" / "promtool"
    program.parent.mkdir()
    program.write_text(PROMTOOL.format(calls=tmp_path / "calls"))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{Path(shutil.which('sh') or '/bin/sh').parent}")
    return tmp_path / "calls"


def instants(page: str, count: int) -> list[Stored]:
    target = TargetSamples({})
    return [Stored(3_600_000 * hour, [target.scrape(page.encode())], {}) for hour in range(count)]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_files(tmp_path: Path) -> None:
    """One of each window, each whole."""
    with HistoryFiles(tmp_path / "h") as files:
        for stored in instants("a 1\n", 3):
            files.write(stored)
        assert names(tmp_path / "h") == ["1970-01-01T00Z.om", "1970-01-01T02Z.om.part"]
    assert names(tmp_path / "h") == ["1970-01-01T00Z.om", "1970-01-01T02Z.om"]
    first, second = (path.read_text() for path in files.files)
    assert first.startswith("a{} 1 0.000\n") and first.count("\na{} 1 3600.000\n") == 1 and "7200" not in first
    assert second.startswith("a{} 1 7200.000\n") and second.endswith("\n# EOF\n") and first.endswith("\n# EOF\n")


class Interrupted(tuple[Scraped, ...]):
    """Scrapes in whose middle ^C comes."""

    def __iter__(self) -> object:  # type: ignore[override]
        """The first scrape, then ^C."""
        yield self[0]
        raise KeyboardInterrupt


def test_interrupted_files(tmp_path: Path) -> None:
    """After ^C the last file has all whole instants, and its end."""
    first, second = instants("a 1\n", 2)
    with pytest.raises(KeyboardInterrupt), HistoryFiles(tmp_path) as files:
        files.write(first)
        assert files._stream is not None
        files._stream.write(b"a{} 1 36")
        files.write(second._replace(scraped=Interrupted(second.scraped)))
    (file,) = files.files
    lines = file.read_text().splitlines()
    assert lines[0] == "a{} 1 0.000" and lines[-1] == "# EOF" and len(lines) == 7
    assert all(line.endswith(" 0.000") for line in lines[:-1])


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    """They never get the name of a whole file."""
    with pytest.raises(OSError, match="full"), HistoryFiles(tmp_path) as files:
        files.write(instants("a 1\n", 1)[0])
        raise OSError(28, "full")
    assert names(tmp_path) == ["1970-01-01T00Z.om.part"]


def test_stream(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """One text for all windows, with one end."""
    import sys  # noqa: PLC0415 - the one that the fixture made

    with HistoryStream(sys.stdout.buffer) as stream:
        for stored in instants("a 1\n", 3):
            stream.write(stored)
    text = capfdbinary.readouterr().out.decode()
    assert text.count("# EOF") == 1 and text.endswith("\n# EOF\n") and text.count("\na{}") == 2


def test_blocks(tmp_path: Path, calls: Path) -> None:
    """promtool gets each window; the text is removed, and what it made stays."""
    data = tmp_path / "data"
    with HistoryBlocks(data) as blocks:
        for stored in instants("a 1\n", 9):
            blocks.write(stored)
    assert names(data) == [f"1970-01-01T0{hour}Z.om" for hour in (0, 2, 4, 6, 8)]
    told = sorted(calls.read_text().splitlines())
    assert len(told) == 5
    assert all(line.startswith("tsdb create-blocks-from openmetrics ") and line.endswith(f" {data}") for line in told)


def test_blocks_that_are_refused(tmp_path: Path, calls: Path) -> None:
    """promtool's words, with the file; nothing else stays."""
    words = r"00Z.om: promtool: bad line in .*00Z.om"
    with pytest.raises(PromtoolError, match=words), HistoryBlocks(tmp_path / "d") as blocks:
        for stored in instants("refused 1\n", 9):
            blocks.write(stored)
    assert names(tmp_path / "d") == []
    assert len(calls.read_text().splitlines()) <= 3


def test_interrupted_blocks(tmp_path: Path, calls: Path) -> None:
    """After ^C there are blocks of what there was."""
    with pytest.raises(KeyboardInterrupt), HistoryBlocks(tmp_path / "d") as blocks:
        for stored in instants("a 1\n", 3):
            blocks.write(stored)
        raise KeyboardInterrupt
    assert len(names(tmp_path / "d")) == 2


def test_without_promtool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain sentence, before anything is written."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(PromtoolError, match="comes with Prometheus"):
        HistoryBlocks(tmp_path / "d")
    assert not (tmp_path / "d").exists()
