"""Requests to a running fakedev, over TCP or a UNIX socket."""

from __future__ import annotations

import http.client
import select
import socket
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any, NamedTuple, Protocol

from fakedev.client.errors import NoAnswer
from fakedev.config.peer_address import Address, parse_address
from fakedev.spec.os_errors import plain_reason


class Reply(NamedTuple):
    """The answer to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Requester(Protocol):
    """Sends requests; the client of a real service has a :class:`ServiceAddress`."""

    def ask(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], still: Callable[[], object] | None
    ) -> Reply:
        """The answer to a request.

        :param still: called whenever the service has been silent for the timeout; it raises if the service is dead.
            None: the service must answer within the timeout.
        :raises NoAnswer: when there is none.
        """
        ...


class HttpConnection(http.client.HTTPConnection):
    """A connection over TCP or a UNIX socket; a name that begins with ``@`` is that of an abstract socket."""

    def __init__(self, address: Address, timeout_seconds: float) -> None:
        super().__init__(address.host or "localhost", address.port or 80, timeout=timeout_seconds)
        self._path = "\0" + address.path[1:] if address.path.startswith("@") else address.path

    def connect(self) -> None:
        """Connect."""
        if not self._path:
            return super().connect()
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
        return None


class ServiceAddress:
    """An HTTP address of fakedev; each request has a connection of its own, so threads may share it.

    :param url: ``http://HOST:PORT``, ``HOST:PORT``, the path of a UNIX socket, or ``unix:`` and the path.
    :param timeout_seconds: how long the service may be silent.
    :raises ValueError: for a text that is no address.
    """

    def __init__(self, url: str, timeout_seconds: float) -> None:
        self._address = address_of(url)
        self._timeout_seconds = timeout_seconds

    def ask(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], still: Callable[[], object] | None
    ) -> Reply:
        """See :class:`Requester`."""
        connection = HttpConnection(self._address, self._timeout_seconds)
        try:
            connection.request(method, path, body, dict(headers))
            while still is not None and not select.select([connection.sock], [], [], self._timeout_seconds)[0]:
                still()
            return _reply(connection.getresponse())
        except (OSError, http.client.HTTPException) as error:
            raise no_answer(method, path, self._address, error) from None
        finally:
            connection.close()


class Exchange:
    """A request and its answer, as bytes that somebody else carries; the connection is closed after the answer.

    :ivar sent: the request.
    """

    def __init__(
        self, address: Address, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> None:
        self.sent = b""
        self._received = b""
        self._connection = HttpConnection(address, 0.0)
        this: Any = self
        self._connection.sock = this
        self._connection.request(method, path, body, {**headers, "Connection": "close"})

    def reply(self, received: bytes) -> Reply:
        """The answer.

        :param received: all that came until the connection was closed.
        :raises HTTPException, OSError: when it ends early.
        """
        self._received = received
        return _reply(self._connection.getresponse())

    # What the connection needs of a socket.

    def sendall(self, data: bytes) -> None:
        """Note a part of the request (called by the connection)."""
        self.sent += data

    def makefile(self, _: str) -> BytesIO:
        """The answer as a file (called by the connection)."""
        return BytesIO(self._received)

    def close(self) -> None:
        """The connection does not need it any more (called by the connection)."""


def address_of(url: str) -> Address:
    """The address of a service.

    :param url: see :class:`ServiceAddress`.
    :raises ValueError: for a text that is no address.
    """
    whole = url.rstrip("/")
    bare = whole.removeprefix("http://")
    if "://" in bare or (bare != whole and "/" in bare):
        raise ValueError(f"{whole!r} is no address of fakedev: give http://HOST:PORT, or the path of a UNIX socket")
    return parse_address(bare.removeprefix("unix:"))


def authorization(token: str) -> dict[str, str]:
    """The headers that send a token; none for an empty one."""
    return {"Authorization": f"Bearer {token}"} if token else {}


def no_answer(method: str, path: str, address: Address, error: OSError | http.client.HTTPException) -> NoAnswer:
    """The error of a request that had no answer."""
    reason = "it closed the connection" if isinstance(error, http.client.HTTPException) else plain_reason(error)
    return NoAnswer(f"no answer to {method} {path} from {address}: {reason}: does fakedev still run there?")


def _reply(response: http.client.HTTPResponse) -> Reply:
    found = {name.lower(): value for name, value in response.getheaders()}
    return Reply(response.status, found, response.read())
