"""Requests to a running fakedev, over TCP or a UNIX socket."""

from __future__ import annotations

import http.client
import select
import socket
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import replace
from io import BytesIO
from typing import Any, NamedTuple, Protocol, TypedDict

from fakedev.client.errors import NoAnswer
from fakedev.client.tls import client_context, connection_reason
from fakedev.config.peer_address import Address, parse_address, with_tls
from fakedev.spec.client_tls import NO_FILES, TLS_SCHEME, ClientTls


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


def authorization(token: str, user: str = "", password: str = "") -> dict[str, str]:
    """The header of requests with a token or, without one, with a password (RFC 7617)."""
    if token:
        return {"Authorization": f"Bearer {token}"}
    encoded = b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {encoded}"} if user else {}


class Access(TypedDict, total=False):
    """How an address with TLS or passwords is used.

    :ivar ca_file, cert_file, key_file: for ``https:``: what signs the server's certificate (by default what the system
        trusts), and our own certificate with its key, if the server asks for one; all in PEM.
    :ivar user, password: if the address has passwords, and you no token.
    """

    ca_file: str
    cert_file: str
    key_file: str
    user: str
    password: str


def with_access(token: str, access: Access) -> tuple[ClientTls, dict[str, str]]:
    """The files for TLS, and the headers of requests."""
    files = ClientTls(access.get("ca_file", ""), access.get("cert_file", ""), access.get("key_file", ""))
    return files, authorization(token, access.get("user", ""), access.get("password", ""))


class HttpConnection(http.client.HTTPConnection):
    """A connection over TCP, with TLS or without, or a UNIX socket.

    A name that begins with ``@`` is that of an abstract socket.
    """

    def __init__(self, address: Address, timeout_seconds: float) -> None:
        super().__init__(address.host or "localhost", address.port or 80, timeout=timeout_seconds)
        self._tls = address.tls
        self._path = "\0" + address.path[1:] if address.path.startswith("@") else address.path

    def connect(self) -> None:
        """Connect."""
        if not self._path:
            super().connect()
            if self._tls is not None:
                self.sock = client_context(self._tls).wrap_socket(self.sock, server_hostname=self.host)
            return
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class ServiceAddress:
    """An HTTP address of fakedev; each request has a connection of its own, so threads may share it.

    :param url: see :func:`http_address`.
    :param timeout_seconds: how long the service may be silent.
    :param tls: files for a ``https:`` address.
    :raises ValueError: for a text that is no address, or files without TLS.
    """

    def __init__(self, url: str, timeout_seconds: float, tls: ClientTls = NO_FILES) -> None:
        self._address = with_tls(http_address(url), tls)
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


def http_address(url: str) -> Address:
    """The address of a URL without a path, or of a UNIX socket.

    :param url: ``http://HOST:PORT``, ``https://HOST:PORT``, ``HOST:PORT``, the path of a UNIX socket, or ``unix:`` and
        the path.
    :raises ValueError: for a text that is no address.
    """
    url = url.rstrip("/")
    bare = url.removeprefix("http://").removeprefix("https://")
    if "://" in bare or (bare != url and "/" in bare):
        raise ValueError(f"{url!r} is no address of fakedev: give http://HOST:PORT, or the path of a UNIX socket")
    if url.startswith("https://"):
        return replace(parse_address(f"{TLS_SCHEME}{bare}"), shown=url)
    return parse_address(bare.removeprefix("unix:"))


def no_answer(method: str, path: str, address: Address, error: OSError | http.client.HTTPException) -> NoAnswer:
    """The error of a request that had no answer."""
    reason = "it closed the connection" if isinstance(error, http.client.HTTPException) else connection_reason(error)
    return NoAnswer(f"no answer to {method} {path} from {address}: {reason}: does fakedev still run there?")


def _reply(response: http.client.HTTPResponse) -> Reply:
    found = {name.lower(): value for name, value in response.getheaders()}
    return Reply(response.status, found, response.read())
