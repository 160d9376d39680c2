"""What users see of errors of the operating system; no source file shows them in another way."""

from __future__ import annotations

import errno
import re
import socket

import pytest

from fakedev.base.errors import plain_reason
from tests.support.paths import ROOT


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/x"), "no such file or folder"),
        (OSError(errno.ECONNREFUSED, ""), "no program listens there"),
        (OSError(errno.EMFILE, ""), "this program has too many open files: raise the limit (ulimit -n)"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "there is no such host"),
        (socket.gaierror(socket.EAI_AGAIN, ""), "the name server does not answer"),
        (TimeoutError(), "no answer in time"),
        (OSError(errno.EXDEV, ""), "invalid cross-device link"),
        (ValueError("embedded null byte"), "embedded null byte"),
        (EOFError(), "EOFError"),
    ],
)
def test_plain_words(error: BaseException, text: str) -> None:
    """Without a number, a path or a capital letter."""
    assert plain_reason(error) == text
    assert plain_reason(OSError(errno.ENOENT, ""), {errno.ENOENT: "where?"}) == "where?"


@pytest.mark.slow
def test_one_way_to_show_them() -> None:
    """Only that function asks the system for its texts; one place makes an error that the system reports by number."""
    uses = [
        f"{path.name}: {line.strip()}"
        for path in sorted(ROOT.glob("fakedev/**/*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"\bstrerror\b|\.args\[1\]", line)
    ]
    assert [use.partition(":")[0] for use in uses] == ["errors.py", "exchange.py"]
