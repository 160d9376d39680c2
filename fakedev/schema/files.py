"""All that the configuration reads: files, environment variables, the catalog.

Everything read is remembered, so that the record of a run can hold it and serve it again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from functools import cache
from typing import Final

from fakedev.base.errors import plain_reason
from fakedev.base.given_files import read_given
from fakedev.base.names import token_text

#: A larger file is refused.
MAX_BYTES: Final = 4 * 2**20
_CATALOG: Final = "catalog:"
#: A recorded run has no addresses, so nobody can use it.
_TOKEN_OF_A_RECORD: Final = "not-in-the-record"
#: The name of the built-in configuration among the texts that were read.
DEMO_FILE: Final = "demo:demo.yaml"


class Unreadable(ValueError):
    """A file that cannot be read as text; ``str`` of it is the reason."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


class Files:
    """Reads files and environment variables, or serves recorded ones.

    ``texts`` and ``variables`` hold what was read.

    :param recorded: ``texts`` of an earlier run: only these are served, nothing is read.
    :param environ: the environment variables (or ``variables`` of an earlier run).
    :ivar environ: all environment variables, also those that were not read.
    :param made: texts of files that are not on the disk, by absolute path: the drop-ins' options as files.
    """

    def __init__(
        self,
        recorded: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        made: Mapping[str, str] | None = None,
    ) -> None:
        self._recorded = recorded
        self._made = dict(made or {})
        self.environ: Mapping[str, str] = dict(environ or {})
        self.texts: dict[str, str] = {}
        self.variables: dict[str, str] = {}

    def read(self, path: str) -> str:
        """The text of a file, without its byte order mark.

        :raises Unreadable: when there is none, or it is no text.
        :raises OSError: when the process has no file descriptors left.
        """
        if self._recorded is None:
            text = self._made[path] if path in self._made else _decoded(_bytes(path))
        elif path in self._recorded:
            text = self._recorded[path]
        else:
            raise Unreadable("is not in the record")
        self.texts[path] = text
        return text

    def read_token(self, path: str) -> str:
        """The token in a file; see :func:`read_token`. It is never in a record, so a recorded run gets another one."""
        return read_token(path) if self._recorded is None else _TOKEN_OF_A_RECORD

    @property
    def has_own_catalog(self) -> bool:
        """Whether the catalog is the package's own, which does not change while a program runs; else a record's."""
        return self._recorded is None

    @property
    def catalog_files(self) -> tuple[tuple[str, str], ...]:
        """Folder and name of each file of the catalog that was read, in order."""
        names = [name.removeprefix(_CATALOG).split("/") for name in self.texts if name.startswith(_CATALOG)]
        return tuple((folder, file) for folder, file in names)

    def catalog_names(self, folder: str) -> tuple[str, ...]:
        """File names (``h100-sxm5-80gb.yaml``) in a folder of the catalog, sorted."""
        if self._recorded is None:
            return _package_names(folder)
        prefix = f"{_CATALOG}{folder}/"
        return tuple(sorted(name.removeprefix(prefix) for name in self._recorded if name.startswith(prefix)))

    def peek_catalog(self, folder: str, name: str) -> str:
        """The text of a file of the catalog, for a search in it: not remembered."""
        if self._recorded is None:
            return _package_text("fakedev.catalog", f"{folder}/{name}")
        return self._recorded[f"{_CATALOG}{folder}/{name}"]

    def read_catalog(self, folder: str, name: str) -> str:
        """The text of a file of the catalog, remembered."""
        text = self.peek_catalog(folder, name)
        self.texts[f"{_CATALOG}{folder}/{name}"] = text
        return text

    def prepared_tree(self, folder: str, name: str) -> str:
        """The prepared tree of a file of the package's own catalog (fakedev.schema.prepared); empty without one."""
        try:
            path = f"prepared/{folder}/{name.removesuffix('.yaml')}.json"
            return _package_text("fakedev.catalog", path) if self.has_own_catalog else ""
        except FileNotFoundError:
            return ""

    def read_demo(self) -> str:
        """The built-in configuration, remembered."""
        if self._recorded is not None and DEMO_FILE not in self._recorded:
            raise Unreadable("is not in the record")
        text = _package_text("fakedev.config", "demo.yaml") if self._recorded is None else self._recorded[DEMO_FILE]
        self.texts[DEMO_FILE] = text
        return text

    def variable(self, name: str) -> str | None:
        """An environment variable, remembered; None when it is not set."""
        value = self.environ.get(name)
        if value is not None:
            self.variables[name] = value
        return value

    def variables_beginning(self, prefix: str) -> dict[str, str]:
        """All environment variables whose names begin with ``prefix``, sorted, remembered."""
        found = {name: self.environ[name] for name in sorted(self.environ) if name.startswith(prefix)}
        self.variables.update(found)
        return found


@cache
def _package_names(folder: str) -> tuple[str, ...]:
    from importlib import resources  # noqa: PLC0415 - commands that read a token must start fast

    entries = resources.files("fakedev.catalog").joinpath(folder).iterdir()
    return tuple(sorted(entry.name for entry in entries if entry.name.endswith(".yaml")))


@cache
def _package_text(package: str, name: str) -> str:
    from importlib import resources  # noqa: PLC0415 - as above

    return resources.files(package).joinpath(*name.split("/")).read_text(encoding="utf-8")


def _bytes(path: str) -> bytes:
    try:
        return read_given(path, MAX_BYTES)
    except FileNotFoundError:
        raise Unreadable("no such file") from None
    except IsADirectoryError:
        raise Unreadable("is a folder, not a file") from None
    except PermissionError:
        raise Unreadable("no permission to read it") from None
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None)
        if number in (errno.EMFILE, errno.ENFILE):
            raise  # no fault of the configuration: the process has no file descriptors left
        if number == errno.ENXIO:
            raise Unreadable("is a named pipe, a socket or a device: to read it could wait for ever") from None
        if isinstance(error, OSError) and number is None:  # it is too large
            raise Unreadable(str(error)) from None
        raise Unreadable(f"cannot be read: {plain_reason(error)}") from None


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Unreadable(f"is not UTF-8 text (byte 0x{data[error.start]:02x})", line) from None


def read_token(path: str) -> str:
    """The token in a file, without the white space around it; it is not remembered.

    :raises ValueError: with the reason, which does not have the text of the file.
    """
    try:
        return token_text(_decoded(_bytes(path)).strip())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read_password(path: str) -> str:
    """The password in a file: its first line, which may have any printable characters; it is not remembered.

    :raises ValueError: with the reason, which does not have the text of the file.
    """
    try:
        lines = _decoded(_bytes(path)).splitlines()
    except Unreadable as error:
        raise ValueError(f"{path}: {error}") from None
    if len(lines) != 1 or not lines[0].isprintable() or not lines[0]:
        raise ValueError(f"{path}: must have one line, the password")
    return lines[0]


def read_file(path: str) -> str:
    """The text of a file that is no part of the configuration, as one with secrets; it is not remembered.

    :raises Unreadable: with the reason.
    """
    return _decoded(_bytes(path))


def absolute(path: str, folder: str) -> str:
    """A path as an absolute one: relative ones start at ``folder``, ``~`` is not expanded."""
    return os.path.normpath(os.path.join(os.path.abspath(folder), path))
