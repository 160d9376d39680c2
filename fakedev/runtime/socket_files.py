"""Socket files: which paths a new UNIX socket may have, and which file is ours. Imports nothing that takes time."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import socket
import stat

from fakedev.base.errors import plain_reason
from fakedev.base.sockets import LONGEST_SOCKET_PATH


class SocketPathError(Exception):
    """A UNIX socket cannot be made at this path; the text says why and how to fix it."""


#: Identifies a file, also after another one has taken its name, and maybe its inode.
FileMark = tuple[int, int, int, int]


def mark_of(path: str) -> FileMark | None:
    """The mark of the file at a path; None when there is none."""
    try:
        return _mark_in(os.lstat(path))
    except OSError:
        return None


def _mark_in(status: os.stat_result) -> FileMark:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


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
    if mark_of(path) == _mark_in(status):
        try:
            os.unlink(path)
        except OSError as reason:
            raise SocketPathError(f"the socket of an earlier run cannot be removed: {plain_reason(reason)}") from None


def remove_own(path: str, mark: FileMark | None) -> bool:
    """Remove a socket file if it is still the one that was marked; True when it is gone."""
    if mark is None or mark_of(path) != mark:
        return False
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


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
    raise SocketPathError(
        "the socket is in use: another program answers on it; RUNTIME_DIRECTORY=FOLDER gives a second service its own"
    )
