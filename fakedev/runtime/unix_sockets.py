"""UNIX sockets without lock files: stale sockets are removed, rights are exact, and the end is clean."""

from __future__ import annotations

import os
import select
import socket
from typing import Any, cast

from twisted.internet import tcp, unix
from twisted.internet.base import ReactorBase
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.interfaces import IListeningPort, IProtocolFactory, IReactorCore, IStreamServerEndpoint
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from fakedev.base.errors import plain_reason
from fakedev.base.sockets import BACKLOG
from fakedev.runtime.reactor import IReactor
from fakedev.runtime.socket_files import FileMark, SocketPathError, group_number, mark_of, prepare_path, remove_own
from fakedev.schema.addresses import ListenAddress


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

    :param passed: a socket that listens on the path already; None to make one.
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
        passed: socket.socket | None = None,
    ) -> None:
        # Annotated as bytes, but a text is taken as well.
        super().__init__(cast(bytes, path), factory, backlog, mode & 0o600, reactor)
        self._path = path
        self._asked_mode = mode
        self._group = group
        self._passed = passed
        self._mark: FileMark | None = None

    def createInternetSocket(self) -> socket.socket:
        """The socket, for startListening to bind."""
        return super().createInternetSocket() if self._passed is None else _bound(self._passed.detach())

    def startListening(self) -> None:
        """Bind, listen, then give the file its group and rights."""
        # The mask holds for the whole process: none of our threads makes files.
        mask = os.umask(0o177)
        try:
            super().startListening()
        finally:
            os.umask(mask)
        self._mark = mark_of(self._path)
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


@implementer(IStreamServerEndpoint)
class UnixEndpoint:
    """A UNIX socket with the owner, mode and group of its address, in the place of one that nobody listens on.

    Twisted's own endpoint lets every user connect by default, sets no group, and clears stale sockets only
    by lock files, which stay when a container is killed.

    :param make_folder: make the folder, only for this user, when it is missing.
    :param passed: see OwnedUnixPort.
    """

    def __init__(
        self, reactor: IReactor, address: ListenAddress, make_folder: bool = False, passed: socket.socket | None = None
    ) -> None:
        self._reactor = reactor
        self._address = address
        self._make_folder = make_folder
        self._passed = passed

    def listen(self, factory: IProtocolFactory) -> Deferred[IListeningPort]:
        """Listen at once; fails with SocketPathError or CannotListenError."""
        return maybeDeferred(self._listen, factory)

    def _listen(self, factory: Any) -> IListeningPort:
        path, mode, group = self._address.path, self._address.mode, self._address.group
        assert mode is not None
        number = None if group is None else group_number(group)
        if self._passed is None:
            prepare_path(path, self._make_folder)
        if not isinstance(self._reactor, ReactorBase):  # it records in memory what it should listen on
            recorded: IListeningPort = self._reactor.listenUNIX(path, factory, backlog=BACKLOG, mode=mode)
            return recorded
        port = OwnedUnixPort(
            path, factory, backlog=BACKLOG, mode=mode, group=number, reactor=self._reactor, passed=self._passed
        )
        port.startListening()
        return port


@implementer(IStreamServerEndpoint)
class PassedUnixEndpoint:
    """A UNIX socket that systemd has made and keeps: its file and its rights stay as they are.

    The port of Twisted's endpoint ``systemd:`` lets every user connect, and at its end shuts the socket down and
    removes the file, so that nobody could connect any more when the service starts again.
    """

    def __init__(self, reactor: IReactor, fileno: int) -> None:
        self._reactor = reactor
        self._fileno = fileno

    def listen(self, factory: IProtocolFactory) -> Deferred[IListeningPort]:
        """Accept connections from now on."""
        port = _PassedPort(self._fileno, factory, self._reactor)
        port.startListening()
        return succeed(port)


class _PassedPort(unix.Port):
    def __init__(self, fileno: int, factory: IProtocolFactory, reactor: IReactor) -> None:
        # For an abstract name, which is used for nothing else, Twisted sets no rights and removes no file.
        super().__init__(b"\0passed", factory, BACKLOG, reactor=reactor)
        self._passed = fileno

    def createInternetSocket(self) -> socket.socket:
        """The socket, for startListening to bind."""
        return _bound(self._passed)


def _bound(fileno: int) -> socket.socket:
    made = _PassedSocket(fileno=fileno)
    made.setblocking(False)
    return made


class _PassedSocket(socket.socket):
    """A socket that is bound already and that others still use when this process has closed its descriptor."""

    def bind(self, address: object) -> None: ...

    def shutdown(self, how: int) -> None: ...
