"""Errors of rules, with did-you-mean suggestions, and errors of the operating system in plain words.

Texts for the operating system's errors replace its own texts and say what a user can do.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

#: How many characters of a long error are shown: of its beginning, and of its end, which has the remedy.
_SHOWN: Final = (300, 700)
#: The least similarity of a suggestion, from 0 to 1: three letters with a wrong one have 0.67, chance gives 0.62.
_NEAR: Final = 0.65
_SHORTEST_PART: Final = 3
#: Names that a wrong one is compared with: ten thousand would block the reactor for some 60 ms.
_MAX_COMPARED: Final = 500
#: Names that are listed, and the most characters of each.
_LISTED: Final = 5
_LONGEST_NAME: Final = 60


def nearest_name(word: str, known: Iterable[str]) -> str:
    """The known word that was probably meant: one with other letters, or one with more or fewer words.

    :returns: an empty text when none is near.
    """
    import difflib  # noqa: PLC0415 - programs must start fast

    folded = {word_known.casefold(): word_known for word_known in known}
    word = word.casefold()[:100]
    near = difflib.get_close_matches(word, folded, 5, _NEAR)
    near.sort(key=lambda each: sorted(each) != sorted(word))  # the same letters in another order first
    parts = (each for each in folded if min(len(word), len(each)) >= _SHORTEST_PART and (word in each or each in word))
    found = near[0] if near else min(parts, key=len, default="")
    return folded[found] if found else ""


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """``; did you mean power?`` for the nearest known word; ``otherwise`` when none is near."""
    nearest = nearest_name(word, known)
    return f"; did you mean {nearest}?" if nearest else otherwise


def first_names(names: Sequence[str], most: int) -> str:
    """The first names, and the number of the others."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def unknown_name(what: str, name: str, known: Collection[str], use: str = "") -> str:
    """``no WHAT 'NAME'`` with the nearest existing name, else with some existing names.

    :param use: what for, with a blank before it.
    """
    some = [printable(other[:_LONGEST_NAME]) for other in islice(known, _MAX_COMPARED)]
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    listed = f"; there are {', '.join(some[:_LISTED])}{more}" if some else ""
    return f"no {what} {name!r}{use}{did_you_mean(name, some, listed)}"


def install_extra(name: str) -> str:
    """How an extra is installed, for errors about a missing package: no index of packages has fakedev."""
    return f"pip install '.[{name}]' in a checkout of fakedev, or 'FILE.whl[{name}]'"


def printable(text: str) -> str:
    """A text on one line, with unprintable characters as escapes."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def shortened(text: str) -> str:
    """An error's text without its middle, if that is long: it quotes what a user or a peer has given."""
    begin, end = _SHOWN
    return text if len(text) <= begin + end + 5 else f"{text[:begin]} ... {text[-end:]}"


class Refused(Exception):
    """An event or request that the rules do not allow.

    :param code: one of the error codes of the protocols (``bad-argument``, ``unknown-name``, ...).
    :param text: the fault and its remedy.
    :param where: the wrong field or name, if there is one.
    """

    def __init__(self, code: str, text: str, where: str = "") -> None:
        self.code = code
        self.text = shortened(text)
        super().__init__(self.text)
        self.where = where


class FieldError(Refused):
    """A wrong field of a request or of a configuration entry."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__("bad-argument", f"{field}: {reason}", field)
        self.field = field
        self.reason = shortened(reason)


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
