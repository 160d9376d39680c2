"""Behind a UNIX socket each process is a host of its own, by the credentials that the kernel gives."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from twisted.internet.address import UNIXAddress

from fakedev.lines.peers import origin_of, pid_of, user_of

#: Connects, and stays until its input ends.
_OTHER = "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); sys.stdin.read()"


class Accepted:
    """The server's side of a real connection, as far as its peer is asked for."""

    def __init__(self, handle: socket.socket) -> None:
        self._handle = handle

    def getHandle(self) -> socket.socket:
        return self._handle

    def getPeer(self) -> UNIXAddress:
        return UNIXAddress(None)


@contextmanager
def accepted(server: socket.socket) -> Iterator[Accepted]:
    """The next connection."""
    handle, _ = server.accept()
    with handle:
        yield Accepted(handle)


def test_each_process_is_its_own_origin(tmp_path: Path) -> None:
    """Two connections of a process share what they get; a third one, of another process, does not share with them."""
    path = str(tmp_path / "s")
    server, a, b = (socket.socket(socket.AF_UNIX) for _ in range(3))
    with server, a, b:
        server.bind(path)
        server.listen()
        server.settimeout(60)
        a.connect(path)
        b.connect(path)
        with accepted(server) as first, accepted(server) as second:
            assert origin_of(first) == origin_of(second) == f"process {os.getpid()}"  # type: ignore[arg-type]
            with subprocess.Popen([sys.executable, "-c", _OTHER, path], stdin=subprocess.PIPE) as other:
                with accepted(server) as third:
                    assert pid_of(third) == other.pid  # type: ignore[arg-type]
                    assert user_of(third) == os.getuid()  # type: ignore[arg-type]
                    assert origin_of(third) != origin_of(first)  # type: ignore[arg-type]
                assert other.stdin is not None
                other.stdin.close()
