"""UNIX sockets without lock files: stale sockets are removed, rights are exact, and the end is clean."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import select
import socket
import stat
from dataclasses import dataclass
from typing import Any, cast

from twisted.internet import tcp, unix
from twisted.internet.interfaces import IProtocolFactory, IReactorCore
from twisted.logger import Logger
from twisted.python.failure import Failure

from fakedev.spec.listen_address import LONGEST_SOCKET_PATH
from fakedev.spec.os_errors import plain_reason

#: Read and write for the owner and the group.
DEFAULT_MODE = 0o660


class SocketPathError(Exception):
    """A UNIX socket cannot be made at this path; the text says why and how to fix it."""


@dataclass(frozen=True)
class FileMark:
    """Identifies a file, also after another file has taken its name, and maybe its inode."""

    device: int
    inode: int
    size: int
    modified_ns: int

    @classmethod
    def of(cls, path: str) -> FileMark | None:
        """The mark of the file at this path now, or None when there is none."""
        try:
            status = os.lstat(path)
        except OSError:
            return None
        return cls.in_status(status)

    @classmethod
    def in_status(cls, status: os.stat_result) -> FileMark:
        """The mark of a file with this status."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def group_number(name: str) -> int:
    """The number of a group given by name or number."""
    try:
        return int(name) if name.isdecimal() else grp.getgrnam(name).gr_gid
    except KeyError:
        raise SocketPathError(f"there is no group {name!r} on this machine") from None


def prepare_path(path: str, make_folder: bool = False) -> None:
    """Make a path free for a new socket.

    A socket on which no program answers is left from an earlier run, and is removed.

    :param make_folder: make the folder, only for this user, when it is missing.
    :raises SocketPathError: when the path cannot be used.
    """
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        raise SocketPathError(f"the path is longer than the {LONGEST_SOCKET_PATH} bytes that a UNIX socket may have")
    folder = os.path.dirname(path) or "."
    _refuse_open_folders(folder)
    if make_folder:
        make_private_folder(folder)
        _refuse_open_folders(folder)
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        if not os.path.isdir(folder):
            raise SocketPathError(f"there is no folder {folder}: make it first") from None
        return
    except NotADirectoryError:
        raise SocketPathError(f"{folder} is not a folder") from None
    except OSError as reason:
        raise SocketPathError(plain_reason(reason)) from None
    if stat.S_ISLNK(status.st_mode):
        raise SocketPathError("there is a symbolic link of this name, not a socket: remove it, or use another path")
    if not stat.S_ISSOCK(status.st_mode):
        raise SocketPathError(
            "there is a file of this name which is not a socket: it is left alone; remove it, or use another path"
        )
    if status.st_uid != os.geteuid():
        owner = _user_name(status.st_uid)
        raise SocketPathError(
            f"there is a socket of user {owner}: remove it if its program has ended, or use another path"
        )
    _refuse_if_answered(path)
    # Another program may have replaced the old socket since the check.
    if FileMark.of(path) == FileMark.in_status(status):
        try:
            os.unlink(path)
        except OSError as reason:
            raise SocketPathError(f"the socket of an earlier run cannot be removed: {plain_reason(reason)}") from None


def remove_own(path: str, mark: FileMark | None) -> bool:
    """Remove a socket file if it is still the one that was marked; True when it is gone."""
    if mark is None or FileMark.of(path) != mark:
        return False
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def has_hung_up(transport: Any) -> bool:
    """Whether the peer of a UNIX connection has closed both directions, and so reads no answer.

    Over TCP the end of a peer's input does not show whether it still reads.
    """
    get_handle = getattr(transport, "getHandle", None)
    handle = get_handle() if get_handle is not None else None
    if not isinstance(handle, socket.socket) or handle.family != socket.AF_UNIX:
        return False
    poll = select.poll()
    poll.register(handle, 0)  # it reports a hang-up in any case
    return any(events & select.POLLHUP for _, events in poll.poll(0))


class OwnedUnixPort(unix.Port):
    """A UNIX port with exact rights, which removes its own socket file at its end, and no other file.

    Twisted's port sets the rights before it listens, but not the group, and at its end it removes any file that has
    the path then (or fails and stays open when there is none). Here only the owner can use the socket until the group
    is set; then it gets the requested rights.
    """

    log = Logger()

    def __init__(
        self,
        path: str,
        factory: IProtocolFactory,
        *,
        backlog: int,
        mode: int,
        group: int | None,
        reactor: IReactorCore,
    ) -> None:
        # Annotated as bytes, but a text is taken as well.
        super().__init__(cast(bytes, path), factory, backlog, mode & 0o600, reactor)
        self._path = path
        self._asked_mode = mode
        self._group = group
        self._mark: FileMark | None = None

    def startListening(self) -> None:
        """Bind, listen, then give the file its group and rights."""
        # The mask is that of the whole process: none of our threads makes files.
        mask = os.umask(0o177)
        try:
            super().startListening()
        finally:
            os.umask(mask)
        self._mark = FileMark.of(self._path)
        try:
            if self._group is not None:
                os.chown(self._path, -1, self._group)
            os.chmod(self._path, self._asked_mode)
        except OSError as reason:
            self.remove_file()
            self.stopListening()
            raise SocketPathError(f"the group and rights cannot be set: {plain_reason(reason)}") from None

    def remove_file(self) -> None:
        """Remove the socket file if it is still ours; connections go on."""
        if not remove_own(self._path, self._mark) and self._mark is not None:
            self.log.debug("another program has replaced or removed the socket file {path}", path=self._path)
        self._mark = None

    def connectionLost(self, reason: Failure) -> None:
        if self._mark is not None:
            self.remove_file()
        tcp.Port.connectionLost(self, reason)


class PassedUnixPort(unix.Port):
    """A UNIX port on a socket that systemd has made and keeps: its file and its rights stay as they are.

    Twisted's port for such a socket lets every user connect, and at its end shuts the socket down and removes the file,
    so that nobody could connect any more when the service starts again.

    :param passed: listens already.
    """

    def __init__(self, passed: socket.socket, factory: IProtocolFactory, reactor: IReactorCore) -> None:
        # Twisted does both only to a path, not to an abstract name. The name is used for nothing else here.
        super().__init__(b"\0passed", factory, reactor=reactor)
        passed.setblocking(False)
        self._preexistingSocket = passed
        self._shouldShutdown = False  # as Twisted's port of TCP does for a socket that was passed


def make_private_folder(folder: str) -> None:
    """Make a folder that only this user can enter, when it is missing."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as reason:
        raise SocketPathError(f"the folder {folder} cannot be made: {plain_reason(reason)}") from None


def _refuse_open_folders(folder: str) -> None:
    """Refuse a folder in which another user could put a socket of their own in the place of ours.

    Where every user can make files, as in /tmp, each folder on the way must belong to this user or to root, be no
    symbolic link, and let no other user write, unless its sticky bit protects the files of each user.
    """
    parts = os.path.abspath(folder).split(os.sep)
    is_open = False
    for count in range(1, len(parts) + 1):
        path = os.sep.join(parts[:count]) or os.sep
        try:
            status = os.lstat(path)
            if is_open:
                _check_in_open_folder(path, status)
            is_open = bool(os.stat(path).st_mode & stat.S_IWOTH)
        except OSError:
            return  # missing: the next step says so, or makes it


def _check_in_open_folder(path: str, status: os.stat_result) -> None:
    parent = os.path.dirname(path)
    remedy = f"remove it, or use another folder than {parent}, in which every user can write"
    if stat.S_ISLNK(status.st_mode):
        raise SocketPathError(f"{path} is a symbolic link: {remedy}")
    if status.st_uid not in (os.geteuid(), 0):
        owner = _user_name(status.st_uid)
        raise SocketPathError(f"the folder {path} belongs to another user, {owner}: {remedy}")
    is_writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX
    if is_writable and status.st_uid == os.geteuid():
        mode = f"{stat.S_IMODE(status.st_mode):o}"
        raise SocketPathError(
            f"other users can write in the folder {path} (mode {mode}), and replace the socket: chmod 700 {path}"
        )


def _user_name(number: int) -> str:
    """The name of a user, or the number when it has none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _refuse_if_answered(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except OSError as reason:
            # EAGAIN: a program listens, and its queue is full; EPROTOTYPE: it is a socket of another type.
            if reason.errno not in (errno.EAGAIN, errno.EINPROGRESS, errno.EPROTOTYPE):
                raise SocketPathError(f"cannot find out whether the socket is in use: {plain_reason(reason)}") from None
    raise SocketPathError("the socket is in use: another program answers on it")
