"""Files that anybody may have made: what is no file is not opened, and what is too long is not read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fakedev.base.errors import plain_reason
from fakedev.base.given_files import read_given


def reason_for(path: str | Path, most_bytes: int = 2**20) -> str:
    with pytest.raises(OSError) as refused:
        read_given(path, most_bytes)
    return plain_reason(refused.value)


def test_what_is_no_file(tmp_path: Path) -> None:
    """At once: a pipe without a writer would wait, a device might never end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for path in (tmp_path / "pipe", tmp_path / "link", "/dev/zero", "/dev/tty"):
        assert reason_for(path) in ("it is not a regular file", "no such file or folder")
    assert reason_for(tmp_path) == "it is a folder, not a file"


def test_a_file_that_is_too_long(tmp_path: Path) -> None:
    """One that says so, and a pipe of a shell that does not."""
    os.truncate(os.open(tmp_path / "long", os.O_CREAT | os.O_WRONLY), 2**40)
    assert reason_for(tmp_path / "long") == "is larger than 1 MiB"
    reader, writer = os.pipe()
    os.write(writer, b"x" * 1025)
    os.close(writer)
    assert reason_for(f"/dev/fd/{reader}", 1024) == "is larger than 1 KiB"


def test_a_pipe_of_a_shell() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"content")
    os.close(writer)
    assert read_given(f"/dev/fd/{reader}") == b"content"
