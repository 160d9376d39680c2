"""Listening sockets and signal handlers before anything slow is imported. Imports nothing that takes time.

Listening: connections wait in the kernel's queue until the reactor accepts them. The sockets are handed over as systemd
does it (sd_listen_fds(3)), in the same process.

Signals: the handlers stand from the first line of a program until its reactor runs. Programs install them before they
import anything else.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket

from fakedev.base.sockets import BACKLOG
from fakedev.runtime.socket_files import FileMark, SocketPathError, mark_of, prepare_path, remove_own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, MutableMapping
    from types import FrameType

#: systemd numbers the sockets that it passes from here on.
_FIRST = 3
#: The variable with their names.
_NAMES = "LISTEN_FDNAMES"


class EarlySockets:
    """Sockets that listen on some addresses, and the variables by which the services of these addresses find them.

    An address that needs more than this, or cannot be used, is left out: listening on it later explains why.

    :param environ: gets the variables.
    """

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self._environ = environ
        self._names: dict[int, str] = {}
        self._files: dict[str, FileMark | None] = {}

    def listen(self, address: str, mode: int) -> None:
        """Listen on HOST:PORT, where the host may be ``*`` or missing, or at the absolute path of a UNIX socket.

        Not on port 0: before the real port is announced, nobody can connect.

        :param mode: of a UNIX socket.
        """
        if address.startswith("/"):
            self._listen_unix(address, mode)
            return
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdecimal() or not 0 < int(port) < 65536:
            return
        try:
            if host in ("", "*"):
                self._pass_on(every_address(int(port)), f"*:{int(port)}")
                return
            family, bare = (socket.AF_INET6, host[1:-1]) if host[0] == "[" else (socket.AF_INET, host)
            # The names of sockets have addresses in their usual form.
            if host == "localhost" or socket.inet_ntop(family, socket.inet_pton(family, bare)) == bare:
                self._pass_on(_listening(family, (bare, int(port))), f"{host}:{int(port)}")
        except (OSError, ValueError):
            return

    def remove_files(self) -> None:
        """Remove the files of UNIX sockets that are still ours."""
        for path, mark in self._files.items():
            remove_own(path, mark)

    def _listen_unix(self, path: str, mode: int) -> None:
        made = socket.socket(socket.AF_UNIX)
        try:
            prepare_path(path, make_folder=True)
            mask = os.umask(0o177)
            try:
                made.bind(path)
            finally:
                os.umask(mask)
            self._files[path] = mark_of(path)
            os.chmod(path, mode)
            made.listen(BACKLOG)
            self._pass_on(made, path)
        except (OSError, ValueError, SocketPathError):
            remove_own(path, self._files.pop(path, None))
        finally:
            made.close()

    def _pass_on(self, made: socket.socket, address: str) -> None:
        with made:
            number = fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, _FIRST)
        self._names[number] = _name_of(address)
        # One without a name belongs to somebody else.
        names = [self._names.get(number, "") for number in range(_FIRST, max(self._names) + 1)]
        self._environ["LISTEN_PID"] = str(os.getpid())
        self._environ["LISTEN_FDS"] = str(len(names))
        self._environ[_NAMES] = ":".join(names)


def passed_socket(environ: MutableMapping[str, str], address: str) -> socket.socket | None:
    """The socket that EarlySockets has passed on for an address, once; None for none.

    Found by its name alone: Twisted removes the other variables when it is imported.

    :param address: as ListenAddress.display has it.
    """
    names = environ.get(_NAMES, "").split(":")
    if _name_of(address) not in names:
        return None
    index = names.index(_name_of(address))
    names[index] = ""
    environ[_NAMES] = ":".join(names)
    return socket.socket(fileno=_FIRST + index)


def _name_of(address: str) -> str:
    """An address as the name of a socket, which cannot have all characters."""
    return os.fsencode(address).hex()


def every_address(port: int) -> socket.socket:
    """A socket that listens on every IPv6 and IPv4 address, whatever the system's default.

    In a container or on a machine without IPv6: on every IPv4 address.

    :raises OSError: when the port cannot be used.
    """
    try:
        return _listening(socket.AF_INET6, ("::", port))
    except OSError as reason:
        if reason.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
            return _listening(socket.AF_INET, ("", port))
        raise


def _listening(family: socket.AddressFamily, place: tuple[str, int]) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # IPv4 too, when it is for all addresses.
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(place[0] != "::"))
        made.bind(place)
        made.listen(BACKLOG)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made


_NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)


class EarlySignals:
    """Ends the program, which has nothing open yet, or remembers a signal until there is a handler for it.

    Without a handler SIGHUP and SIGUSR1 would end the program, and the kernel would drop SIGTERM if it is process 1 of
    a container.

    :param ends: these end the program, until :meth:`hold`.
    :param by_signal: it ends by the signal, as twistd does; else with 0.
    :ivar sockets: these are closed before it ends.
    """

    sockets: EarlySockets | None = None

    def __init__(self, ends: Collection[int], by_signal: bool = False) -> None:
        self._ends = ends
        self._by_signal = by_signal
        self._received: list[int] = []

    @classmethod
    def installed(cls) -> EarlySignals | None:
        """The object whose handlers are installed, if there is one."""
        handlers = map(signal.getsignal, _NUMBERS)
        return next((handler for handler in handlers if isinstance(handler, cls)), None)

    def install(self, besides: int = 0) -> None:
        """Install the handlers.

        :param besides: not for this signal.
        """
        for number in _NUMBERS:
            if number != besides:
                signal.signal(number, self)

    def hold(self) -> None:
        """Only remember signals from now on: sockets and files exist that an orderly stop removes and closes."""
        self._ends = ()

    def deliver(self) -> None:
        """Send the remembered signals again, each once, to the handlers that are installed now."""
        received, self._received = self._received, []
        for number in dict.fromkeys(received):
            if signal.getsignal(number) is not self:
                signal.raise_signal(number)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """A signal was received (called by Python)."""
        if number not in self._ends:
            self._received.append(number)
            return
        if self.sockets is not None:
            self.sockets.remove_files()
        if self._by_signal:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)  # returns in process 1
        # Not an exception: an import could catch it.
        os._exit(128 + number if self._by_signal else 0)
