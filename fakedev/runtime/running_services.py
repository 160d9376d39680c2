"""The running services of this user: each has a file in the default folder of sockets, as long as it runs.

A file is a claim. It counts only if it is a private file of this user, and if a process with its number has begun at
its time. It has no secrets: a token is named by its file.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, TypeVar

from fakedev import __version__
from fakedev.base.atomic_files import own_folder, replace_file
from fakedev.base.errors import CannotWrite, plain_reason, printable
from fakedev.schema.peer_addresses import runtime_folder

_FOLDER: Final = "services"
_MOST_BYTES: Final = 2**20
#: The types of fields, by their annotations.
_TYPES: Final[Mapping[Any, type]] = {"str": str, "int": int, "bool": bool}
Record = TypeVar("Record")


@dataclass(frozen=True)
class ServedAddress:
    """An address of a service.

    :param key: of its list in the ready file, e.g. ``web`` or ``workloads``.
    :param address: a URL, ``HOST:PORT``, ``tls://HOST:PORT``, or the path of a UNIX socket.
    :param has_control: whether it is an HTTP address with the whole API.
    :param token_file: has its token; empty for none, and for a token that is in the configuration itself.
    """

    key: str
    address: str
    has_control: bool = False
    token_file: str = ""


@dataclass(frozen=True)
class RunningService:
    """A service that runs, or did.

    :param start: when its process began, see :func:`process_start`.
    :param configuration: the path of its file; empty for the built-in demo.
    """

    name: str
    pid: int
    start: str
    version: str
    configuration: str
    addresses: tuple[ServedAddress, ...] = ()

    @property
    def stale(self) -> str:
        """Why the service does not run; empty when it does."""
        if process_start(self.pid) == self.start:
            return ""
        is_ours = self.start.partition(":")[0] == _pid_namespace()
        return "its process has ended" if is_ours else "its process is of another container or machine, or has ended"

    @property
    def is_suspended(self) -> bool:
        """Whether a signal (SIGSTOP, SIGTSTP) holds its process, or a debugger."""
        return not self.stale and _status(self.pid)[:1] in ([b"T"], [b"t"])

    @property
    def shown_address(self) -> str:
        """Its first address with control, else its first one."""
        first = sorted(self.addresses, key=lambda each: not each.has_control)[:1]
        return first[0].address if first else "no address"


class Registration:
    """The file of this process, which is a service.

    :param configuration: its file; None for the built-in demo, and for programs without one.
    :param name: of the service; empty: the name of its file.
    """

    def __init__(self, configuration: str | None, environ: Mapping[str, str], name: str = "") -> None:
        # twistd changes the working directory when it becomes a daemon.
        self._configuration = os.path.abspath(configuration) if configuration else ""
        self._environ = environ
        self._name = name or Path(self._configuration).stem or "demo"
        self._path: Path | None = None

    def write(self, addresses: Iterable[ServedAddress]) -> None:
        """Write the file, and remove files of processes that have ended.

        :raises CannotWrite: when that fails.
        """
        pid = os.getpid()
        start = process_start(pid)
        service = RunningService(self._name, pid, start, __version__, self._configuration, tuple(addresses))
        try:
            folder = Path(runtime_folder(self._environ.get), _FOLDER)
        except ValueError as reason:
            raise CannotWrite(_FOLDER, str(reason)) from None
        own_folder(folder.parent)
        own_folder(folder)
        for path, other in _files(folder):
            if isinstance(other, RunningService) and other.stale == "its process has ended":
                with suppress(OSError):
                    path.unlink()
        self._path = folder / f"{pid}-{start.rpartition(':')[2]}.json"
        replace_file(self._path, json.dumps(described(service)).encode(), 0o600)

    def remove(self) -> None:
        """Remove the file, and the folder if no other service has a file in it."""
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink()
                self._path.parent.rmdir()


def running_services(environ: Mapping[str, str]) -> tuple[list[RunningService], list[str]]:
    """The services with files, also stale ones; and what is wrong with files that cannot be used.

    :raises ValueError: when there is no folder for sockets.
    """
    files = list(_files(Path(runtime_folder(environ.get), _FOLDER)))
    services = [service for _, service in files if isinstance(service, RunningService)]
    return services, [f"{path}: {problem}" for path, problem in files if isinstance(problem, str)]


def described(service: RunningService) -> dict[str, Any]:
    """A service as JSON has it."""

    def keys(values: Mapping[str, Any]) -> dict[str, Any]:
        return {name.replace("_", "-"): value for name, value in values.items()}

    values = asdict(service)
    return keys(values) | {"addresses": [keys(address) for address in values["addresses"]]}


def process_start(pid: int) -> str:
    """When a process began: the namespace of its number, and clock ticks since the machine's start (proc_pid_stat(5)).

    :returns: empty when there is no such process, or the system does not show it.
    """
    words = _status(pid)
    return "" if not words or words[0] in (b"Z", b"X") else f"{_pid_namespace()}:{words[19].decode()}"


def _status(pid: int) -> list[bytes]:
    """The words of /proc/PID/stat after the name, the state first; none without such a process."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return []


def _pid_namespace() -> str:
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return "0"


def _files(folder: Path) -> Iterable[tuple[Path, RunningService | str]]:
    """The files of a folder, each with its service, or with what is wrong."""
    for path in sorted(folder.glob("*.json")):
        try:
            yield path, _read(path)
        except FileNotFoundError:
            continue  # a service has ended meanwhile
        except OSError as reason:
            yield path, plain_reason(reason)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as reason:
            yield path, f"it does not describe a service: {printable(str(reason))[:100]}"


def _read(path: Path) -> RunningService:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise ValueError("it is no private file of this user")
        tree = json.loads(file.read(_MOST_BYTES))
    addresses = tuple(_record(ServedAddress, address) for address in tree["addresses"])
    return _record(RunningService, tree, addresses=addresses)


def _record(kind: type[Record], tree: Mapping[str, Any], **known: Any) -> Record:
    """A record from JSON.

    :raises ValueError, LookupError: when a field is missing, or has another type.
    """
    for field in fields(kind):  # type: ignore[arg-type]  # Record is a dataclass
        if field.name not in known:
            key = field.name.replace("_", "-")
            known[field.name] = tree[key]
            if type(tree[key]) is not _TYPES[field.type]:
                raise ValueError(f"{key} is {str(tree[key])[:50]!r}")
    return kind(**known)
