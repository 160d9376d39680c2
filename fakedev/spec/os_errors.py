"""Errors of the operating system in words that a user can act on, in place of its own texts."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Final

_PLAIN_REASONS: Final[Mapping[int, str]] = {
    errno.ENOENT: "no such file or folder",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.EISDIR: "it is a folder, not a file",
    errno.EACCES: "this user has no permission for it",
    errno.EPERM: "this user has no permission for it",
    errno.EROFS: "the file system is read-only: name another folder",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "this user's part of the disk is full",
    errno.EFBIG: "the file would be too large",
    errno.EIO: "the disk has an error",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ELOOP: "its symbolic links form a circle",
    errno.EEXIST: "there is something with this name already",
    errno.ENOEXEC: "it is no program for this machine, and no script that begins with #!",
    errno.ETXTBSY: "another program writes it",
    errno.ENOMEM: "there is not enough memory",
    errno.EAGAIN: "it is too busy at the moment",
    errno.EMFILE: "this program has too many open files: raise the limit (ulimit -n)",
    errno.ENFILE: "this machine has too many open files",
    errno.EADDRINUSE: "the address is in use by another program",
    errno.EADDRNOTAVAIL: "this machine has no such address",
    errno.EAFNOSUPPORT: "this machine has no such kind of address",
    errno.ECONNREFUSED: "no program listens there",
    errno.ECONNRESET: "the other side has closed the connection",
    errno.ECONNABORTED: "the other side has closed the connection",
    errno.EPIPE: "the other side has closed the connection",
    errno.ENOTCONN: "the other side has closed the connection",
    errno.ETIMEDOUT: "no answer in time",
    errno.EHOSTUNREACH: "there is no way to this host",
    errno.ENETUNREACH: "there is no way to this network",
    errno.ENXIO: "it is not a regular file",
    errno.ENOTSOCK: "it is no socket",
    errno.EPROTOTYPE: "it is a socket of another kind",
}
#: Words for files that are written.
_REASONS_OF_FILES: Final[Mapping[int, str]] = {
    errno.ELOOP: "it is a symbolic link: name the file itself",
    errno.EWOULDBLOCK: "another process writes it: stop that one, or give another name",
}
#: What look-ups of names raise has negative numbers; this one: the name server does not answer.
_TRY_AGAIN: Final = -3


def plain_reason(error: BaseException, particular: Mapping[int, str] | None = None) -> str:
    """Why something failed, in some words without a number.

    :param particular: words by errno that say more than the usual ones.
    """
    number = error.errno if isinstance(error, OSError) else None
    if number is None:
        return "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
    if number < 0:
        return "the name server does not answer" if number == _TRY_AGAIN else "there is no such host"
    return (particular or {}).get(number) or _PLAIN_REASONS.get(number) or os.strerror(number).lower()


class CannotWrite(Exception):
    """A file cannot be written; the text names the file, the reason and, where there is one, the remedy."""

    def __init__(self, path: str, reason: OSError | str) -> None:
        if isinstance(reason, OSError):
            reason = plain_reason(reason, _REASONS_OF_FILES)
        super().__init__(f"{path}: {reason}")
