"""Sockets that listen before the program is there: connections wait, and its services adopt the sockets."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from fakedev.runtime.early import EarlySockets, passed_socket
from fakedev.schema.addresses import parse_listen


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@pytest.mark.parametrize(
    "form", ["127.0.0.1:{}", "localhost:{}", ":{}", "*:{}", "[::1]:{}", "{}/s=a:b.sock"]
)  # fmt: skip
def test_an_address_is_found_once(form: str, tmp_path: Path) -> None:
    """By its display, as sd_listen_fds_with_names(3) finds it; a connection waits in the kernel's queue."""
    text = form.format(tmp_path if "sock" in form else free_port())
    environ: dict[str, str] = {}
    EarlySockets(environ).listen(text, 0o660)
    assert environ["LISTEN_PID"] == str(os.getpid())
    assert environ["LISTEN_FDNAMES"].count(":") == int(environ["LISTEN_FDS"]) - 1
    display = parse_listen(text).display
    server = passed_socket(environ, display)
    assert server is not None
    with server, socket.socket(server.family) as peer:
        assert not server.get_inheritable()
        where = server.getsockname()
        peer.connect(("::1", where[1]) if where[0] == "::" else where)
        server.accept()[0].close()
    assert passed_socket(environ, display) is None


@pytest.mark.parametrize(
    "text", ["127.0.0.1:0", "9400", "", "localhost:x", "host.example:9400", "[::ffff:1.2.3.4]:9400", "127.1:9400",
             "tcp:9400", "systemd:domain=INET:name=web", "127.0.0.1:65536", "*1:9400", "/nowhere/at/all/\0"],
)  # fmt: skip
def test_other_addresses_are_left_out(text: str) -> None:
    environ: dict[str, str] = {}
    EarlySockets(environ).listen(text, 0o600)
    assert environ == {}


def test_addresses_that_cannot_be_used_are_left_out(tmp_path: Path) -> None:
    """Nothing that belongs to others is changed."""
    environ: dict[str, str] = {}
    sockets = EarlySockets(environ)
    (tmp_path / "file").write_text("precious")
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as local:
        local.bind(str(tmp_path / "used"))
        local.listen()
        for text in (f"127.0.0.1:{tcp.getsockname()[1]}", str(tmp_path / "used"), str(tmp_path / "file")):
            sockets.listen(text, 0o600)
    sockets.remove_files()
    assert environ == {}
    assert sorted(os.listdir(tmp_path)) == ["file", "used"]


def test_a_missing_folder_is_made_for_this_user(tmp_path: Path) -> None:
    """Who can enter it: the mask of the socket is not that of the folder."""
    path = tmp_path / "folder" / "w.sock"
    sockets = EarlySockets({})
    sockets.listen(str(path), 0o600)
    assert path.is_socket()
    assert path.parent.stat().st_mode & 0o777 == 0o700
    sockets.remove_files()


def test_unix_sockets_have_their_rights_and_go_with_the_program(tmp_path: Path) -> None:
    """A stale file is replaced; at the end only files that are still ours are removed."""
    ours, taken = str(tmp_path / "ours"), str(tmp_path / "taken")
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(ours)
    environ: dict[str, str] = {}
    sockets = EarlySockets(environ)
    mask = os.umask(0)
    try:
        sockets.listen(ours, 0o666)
        sockets.listen(taken, 0o600)
    finally:
        assert os.umask(mask) == 0
    assert [stat.S_IMODE(os.stat(path).st_mode) for path in (ours, taken)] == [0o666, 0o600]
    os.rename(taken, tmp_path / "moved")
    Path(taken).write_text("of another program")
    sockets.remove_files()
    assert sorted(os.listdir(tmp_path)) == ["moved", "taken"]
    for path in (ours, taken):
        server = passed_socket(environ, path)
        assert server is not None
        server.close()
