"""Files that programs write: private, of complete lines, one writer each, and never half of a file."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from zlib import crc32

import pytest
from twisted.logger import LogEvent, formatEvent

from fakedev.base.errors import CannotWrite
from fakedev.base.framed_lines import checked, framed, is_checked, unframed
from fakedev.runtime import disk
from fakedev.runtime.disk import LineFile, replace_file
from tests.support.disks import file_size_limit


def mode_of(path: Path) -> int:
    """The rights of a file."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("torn", [b"", b"to", b"t" * 65535, b"t" * 65536, b"t" * 200_000])
@pytest.mark.parametrize("complete", [b"", b"one\n", b"one\ntwo\n"])
def test_an_incomplete_line_is_cut(tmp_path: Path, complete: bytes, torn: bytes) -> None:
    """It was written by a program that was killed; complete lines stay, and the next one begins a line."""
    path = tmp_path / "journal"
    path.write_bytes(complete + torn)
    file = LineFile("journal", str(path))
    assert file.size == len(complete)
    file.write(b"next\n")
    file.close()
    assert path.read_bytes() == complete + b"next\n"


def test_an_existing_file_becomes_private(tmp_path: Path) -> None:
    """Whatever rights it had before."""
    for head in (None, b"head\n"):
        path = tmp_path / "file"
        path.write_bytes(b"")
        path.chmod(0o666)
        LineFile("record", str(path), head).close()
        assert mode_of(path) == 0o600


def test_one_process_writes(tmp_path: Path) -> None:
    """A second one is refused while the first one has the file open; it changes nothing."""
    path = tmp_path / "file"
    first = LineFile("journal", str(path))
    first.write(b"one\nincomplete")
    with pytest.raises(CannotWrite, match="another process writes it: stop that one"):
        LineFile("journal", str(path))
    assert path.read_bytes() == b"one\nincomplete"
    first.close()
    LineFile("journal", str(path)).close()


@pytest.mark.parametrize("head", [None, b"head\n"])
def test_what_is_no_file(tmp_path: Path, head: bytes | None) -> None:
    """A link leads where others may want, and a pipe would wait for a reader."""
    (tmp_path / "link").symlink_to("target")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CannotWrite, match="link: it is a symbolic link: name the file itself"):
        LineFile("journal", str(tmp_path / "link"), head)
    assert not (tmp_path / "target").exists()
    for name in ("pipe", "/dev/null"):
        with pytest.raises(CannotWrite, match="it is not a regular file"):
            LineFile("journal", str(tmp_path / name), head)


def test_a_part_of_a_line_is_taken_back(tmp_path: Path) -> None:
    """The disk has room for a part of the line: it waits, with all that follow, until there is room again."""
    path = tmp_path / "file"
    file = LineFile("record", str(path), b"head\n")
    with file_size_limit(12):
        file.write(b"first line\n")
        file.write(b"2nd\n")
    assert file.problem == f"the record waits: {path}: the file would be too large"
    assert path.read_bytes() == b"head\n"
    file.write()
    assert (file.problem, path.read_bytes()) == ("", b"head\nfirst line\n2nd\n")
    file.close()


def test_too_many_lines_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log_events: list[LogEvent]) -> None:
    """Then the file ends at the last whole line: what follows a gap would be another history."""
    monkeypatch.setattr(disk, "MAX_WAITING_BYTES", 20)
    path = tmp_path / "file"
    file = LineFile("record", str(path))
    with file_size_limit(0):
        file.write(b"a" * 15 + b"\n")
        file.write(b"b" * 15 + b"\n")
    file.write(b"next\n")
    assert "too many lines have waited" in file.problem
    assert path.read_bytes() == b""
    assert [formatEvent(event).partition(":")[0] for event in log_events] == [
        "the record waits", f"the record {path} misses its last lines", "the record ends, too many lines have waited",
    ]  # fmt: skip


def test_lines_that_wait_at_the_end(tmp_path: Path, log_events: list[LogEvent]) -> None:
    """They are written when there is room again, and else the log has it."""
    path = tmp_path / "file"
    for limit, content in ((0, b""), (100, b"line\n")):
        file = LineFile("journal", str(path))
        with file_size_limit(0):
            file.write(b"line\n")
        with file_size_limit(limit):
            file.close()
        assert path.read_bytes() == content
        assert ("misses its last lines: 1 writes" in formatEvent(log_events[-1])) == (not content)


def test_a_head_that_has_no_room(tmp_path: Path) -> None:
    """An error at once, and an empty file, which the next start may use."""
    path = tmp_path / "file"
    with file_size_limit(3), pytest.raises(CannotWrite, match="the file would be too large"):
        LineFile("record", str(path), b"head\n")
    LineFile("record", str(path), b"head\n").close()
    assert path.read_bytes() == b"head\n"


def test_a_whole_file_is_replaced(tmp_path: Path) -> None:
    """With its own rights; a link of its name is replaced, not followed."""
    path, target = tmp_path / "report.json", tmp_path / "target"
    target.write_text("precious")
    path.symlink_to(target)
    for content in ("one", "two"):
        replace_file(str(path), content)
        assert (path.read_text(), mode_of(path), path.is_symlink()) == (content, 0o600, False)
        path.chmod(0o644)
    assert target.read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == ["report.json", "target"]


def test_only_files_are_replaced(tmp_path: Path) -> None:
    """A pipe, a socket or a device stays, as /dev/null has to for programs of root; also behind a link."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(CannotWrite, match=f"{name}: it is not a regular file$"):
            replace_file(str(tmp_path / name), "new")
    assert (tmp_path / "link").is_fifo()
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe"]


def test_a_whole_file_that_has_no_room(tmp_path: Path) -> None:
    """The old one stays, and nothing else."""
    path = tmp_path / "report.json"
    path.write_text("old")
    with file_size_limit(3), pytest.raises(CannotWrite, match=r"report\.json: the file would be too large"):
        replace_file(str(path), "newer")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.json"]


def test_a_path_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lies in the working directory."""
    monkeypatch.chdir(tmp_path)
    replace_file("report.json", "text", 0o644)
    assert mode_of(tmp_path / "report.json") == 0o644


@pytest.mark.parametrize("text", [b"", b"a b", b"two\nlines", bytes(range(256))])
def test_framed_lines(text: bytes) -> None:
    """A changed, missing or added byte is seen."""
    line = framed(text)
    assert unframed(line) == text
    for place in range(len(line)):
        flipped = bytes([line[place] ^ 1])
        for changed in (line[:place], line[:place] + flipped + line[place + 1 :], line[:place] + b"x" + line[place:]):
            assert unframed(changed) is None


def test_objects_with_checksums() -> None:
    """A changed, missing or added byte is seen; other programs read them as JSON."""
    line = checked({"tick": 1, "text": "\n"})
    assert is_checked(line)
    checksum = crc32(rb'{"tick":1,"text":"\n"}')
    assert json.loads(line) == {"tick": 1, "text": "\n", "crc32": f"{checksum:08x}"}
    for place in range(len(line)):
        flipped = bytes([line[place] ^ 1])
        for changed in (line[:place], line[:place] + flipped + line[place + 1 :], line[:place] + b"x" + line[place:]):
            assert not is_checked(changed)
