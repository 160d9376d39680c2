"""Memory of large pages stays with the process, where the C library can be told so."""

from __future__ import annotations

import platform

from fakedev.net.memory import keep_freed_memory


def test_the_gnu_library_can_be_told() -> None:
    """It says yes there; elsewhere nothing happens and nothing fails."""
    assert keep_freed_memory() is (platform.libc_ver()[0] == "glibc")
