"""UNIX sockets: which paths are taken over, with which rights, and what remains at the end."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import maybeDeferred
from twisted.internet.protocol import Factory, Protocol

from fakedev.runtime.socket_files import SocketPathError, group_number, mark_of, prepare_path, remove_own
from fakedev.runtime.unix_sockets import OwnedUnixPort
from tests.support.deferreds import within


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A path in a fresh folder."""
    return str(tmp_path / "s.sock")


def listening_socket(path: str) -> socket.socket:
    """A socket of another program that listens on the path."""
    other = socket.socket(socket.AF_UNIX)
    other.bind(path)
    other.listen(1)
    return other


def test_a_free_path_is_left_as_it_is(path: str) -> None:
    prepare_path(path)
    assert not os.path.lexists(path)


def test_the_socket_of_a_dead_program_is_removed(path: str) -> None:
    listening_socket(path).close()
    assert os.path.lexists(path)
    prepare_path(path)
    assert not os.path.lexists(path)


def test_a_socket_in_use_is_refused_and_stays(path: str) -> None:
    with listening_socket(path):
        with pytest.raises(SocketPathError, match="in use"):
            prepare_path(path)
        assert os.path.lexists(path)


def test_a_socket_with_a_full_queue_is_in_use(path: str) -> None:
    with listening_socket(path):
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(4)]
        for client in waiting:
            client.setblocking(False)
            client.connect_ex(path)
        with pytest.raises(SocketPathError, match="in use"):
            prepare_path(path)
        for client in waiting:
            client.close()


def test_a_datagram_socket_is_in_use(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(path)
        with pytest.raises(SocketPathError, match="in use"):
            prepare_path(path)


@pytest.mark.parametrize("kind", ["file", "folder", "link", "dangling"])
def test_what_is_no_socket_is_never_removed(path: str, kind: str) -> None:
    if kind == "file":
        Path(path).write_text("precious")
    elif kind == "folder":
        os.mkdir(path)
    else:
        os.symlink("/etc/hostname" if kind == "link" else "/nowhere/at/all", path)
    with pytest.raises(SocketPathError, match=r"not a socket.*remove it, or use another path"):
        prepare_path(path)
    assert os.path.lexists(path)


def test_a_path_too_long_is_said_so(tmp_path: Path) -> None:
    room = 107 - len(os.fsencode(tmp_path)) - 1
    prepare_path(str(tmp_path / ("x" * room)))
    with pytest.raises(SocketPathError, match="107 bytes"):
        prepare_path(str(tmp_path / ("x" * (room + 1))))
    with pytest.raises(SocketPathError, match="107 bytes"):
        prepare_path("/tmp/" + "é" * 60)


def test_a_missing_folder_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(SocketPathError, match="no folder"):
        prepare_path(str(tmp_path / "a" / "s.sock"))
    (tmp_path / "plain").write_text("")
    with pytest.raises(SocketPathError, match="not a folder"):
        prepare_path(str(tmp_path / "plain" / "s.sock"))


def test_the_default_folder_is_made_for_this_user_alone(tmp_path: Path) -> None:
    prepare_path(str(tmp_path / "fakedev" / "s.sock"), make_folder=True)
    assert stat.S_IMODE(os.stat(tmp_path / "fakedev").st_mode) == 0o700


@pytest.fixture
def in_open_folder(tmp_path: Path) -> Path:
    """The path of a folder where every user can make one, as under /tmp."""
    tmp_path.chmod(0o1777)
    return tmp_path / "fakedev-1000"


AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")


@AS_ROOT
@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_folder_of_another_user_in_an_open_folder(in_open_folder: Path, below: str) -> None:
    """Another user could make our folder first, and put a socket of theirs in the place of ours."""
    in_open_folder.mkdir()
    os.chown(in_open_folder, 12345, -1)
    socket_path = str(in_open_folder / below / "s.sock")
    with pytest.raises(SocketPathError, match="fakedev-1000 belongs to another user, 12345: remove it, or use another"):
        prepare_path(socket_path, make_folder=True)
    assert os.listdir(in_open_folder) == []
    in_open_folder.parent.chmod(0o755)
    prepare_path(socket_path, make_folder=True)  # where no other user can make one it is as its owner wants


@pytest.mark.parametrize("target", ["there", "missing"])
@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_symbolic_link_in_an_open_folder(in_open_folder: Path, target: str, below: str) -> None:
    """It leads where its owner wants: nothing is made or opened there."""
    (in_open_folder.parent / "there").mkdir()
    in_open_folder.symlink_to(target)
    with pytest.raises(SocketPathError, match="fakedev-1000 is a symbolic link: remove it, or use another folder"):
        prepare_path(str(in_open_folder / below / "s.sock"), make_folder=True)
    assert os.listdir(in_open_folder.parent / "there") == []
    assert not (in_open_folder.parent / "missing").exists()


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722])
def test_a_folder_that_others_can_write_in(in_open_folder: Path, mode: int) -> None:
    """They could replace the socket; with the sticky bit they cannot."""
    in_open_folder.mkdir()
    in_open_folder.chmod(mode)
    with pytest.raises(SocketPathError, match=rf"\(mode {mode:o}\), and replace the socket: chmod 700 "):
        prepare_path(str(in_open_folder / "s.sock"))
    in_open_folder.chmod(mode | 0o1000)
    prepare_path(str(in_open_folder / "s.sock"))
    in_open_folder.chmod(0o755)
    prepare_path(str(in_open_folder / "s.sock"))


@AS_ROOT
def test_a_socket_of_another_user_stays(path: str) -> None:
    """Whether its program runs or not: only its owner may remove it."""
    listening_socket(path).close()
    os.chown(path, 12345, -1)
    with pytest.raises(SocketPathError, match="a socket of user 12345: remove it if its program has ended, or use"):
        prepare_path(path)
    assert os.path.lexists(path)


def test_a_socket_in_an_open_folder_is_allowed(tmp_path: Path) -> None:
    """A path under /tmp or in a shared volume is no reason to refuse."""
    tmp_path.chmod(0o777)
    prepare_path(str(tmp_path / "s.sock"), make_folder=True)


def test_groups_by_name_and_number() -> None:
    assert group_number("0") == 0
    assert group_number("root") == 0
    with pytest.raises(SocketPathError, match="no group 'no-such-group'"):
        group_number("no-such-group")


def test_only_our_own_socket_file_is_removed(path: str) -> None:
    Path(path).write_text("")
    mark = mark_of(path)
    os.rename(path, path + ".old")  # keeps its inode in use, so that the next file has another
    Path(path).write_text("")
    assert not remove_own(path, mark)
    assert os.path.exists(path)
    assert remove_own(path, mark_of(path))
    assert not remove_own(path, mark)


#: Makes a port with a mode and a group.
Listen = Callable[..., OwnedUnixPort]


class _WatchedSocket(socket.socket):
    """Remembers the rights of its file at the moment from which others can connect."""

    mode_at_listen = -1

    def listen(self, backlog: int = 0) -> None:
        """Listen, and look at the file just before."""
        self.mode_at_listen = stat.S_IMODE(os.stat(self.getsockname()).st_mode)
        super().listen(backlog)


class _WatchedPort(OwnedUnixPort):
    """A port on a watched socket."""

    def createInternetSocket(self) -> socket.socket:
        """Make the socket (called by Twisted)."""
        made = super().createInternetSocket()
        watched = _WatchedSocket(fileno=made.detach())
        watched.setblocking(False)
        return watched


@pytest.fixture
def short_path(short_folder: Path) -> str:
    """A path that is short even if the tests keep their other files deep in a tree."""
    return str(short_folder / "s.sock")


@pytest_twisted.async_yield_fixture
async def listen(short_path: str) -> AsyncIterator[Listen]:
    """Makes ports that listen on ``s.sock``, on the real reactor; a socket file cannot be had in memory."""
    ports: list[OwnedUnixPort] = []

    def start(mode: int, group: int | None = None) -> OwnedUnixPort:
        port = _WatchedPort(
            short_path, Factory.forProtocol(Protocol), backlog=7, mode=mode, group=group, reactor=reactor
        )
        mask = os.umask(0)
        try:
            port.startListening()
            ports.append(port)
        finally:
            assert os.umask(mask) == 0  # the mask of the process is as before
        return port

    yield start
    for port in ports:
        await within(maybeDeferred(port.stopListening))


@pytest_twisted.ensureDeferred
async def test_the_socket_never_has_wider_rights_than_asked(
    listen: Callable[..., OwnedUnixPort], short_path: str
) -> None:
    for mode in (0o600, 0o660, 0o666):
        port = listen(mode, os.getegid())
        assert port.socket.mode_at_listen == 0o600
        assert stat.S_IMODE(os.stat(short_path).st_mode) == mode
        assert os.stat(short_path).st_gid == os.getegid()
        await within(port.stopListening())
        assert not os.path.lexists(short_path)


@pytest_twisted.ensureDeferred
async def test_stopping_leaves_a_file_that_took_the_name(listen: Listen, short_path: str) -> None:
    port = listen(0o660)
    os.rename(short_path, short_path + ".moved")
    with listening_socket(short_path):
        await within(port.stopListening())
        assert os.path.lexists(short_path)
        assert not port.connected


@pytest_twisted.ensureDeferred
async def test_stopping_works_after_the_file_was_removed(listen: Listen, short_path: str) -> None:
    port = listen(0o660)
    os.unlink(short_path)
    await within(port.stopListening())
    assert not port.connected


@pytest_twisted.ensureDeferred
async def test_no_lock_file(listen: Listen, short_path: str) -> None:
    listen(0o660)
    assert os.listdir(os.path.dirname(short_path)) == ["s.sock"]
