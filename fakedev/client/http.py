"""Requests to a running fakedev over TCP or a UNIX socket; their answers and errors."""

from __future__ import annotations

import http.client
import inspect
import json
import select
import socket
from base64 import b64encode
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from functools import update_wrapper
from io import BytesIO
from typing import Any, Final, Generic, NamedTuple, Protocol, TypedDict, TypeVar

from fakedev.runtime.client_tls import client_context, connection_reason
from fakedev.schema.peer_addresses import NO_FILES, TLS_SCHEME, Address, ClientTls, parse_address, with_tls


class FleetError(Exception):
    """The base of all errors of this client; its text is a whole sentence."""


class NoAnswer(FleetError):
    """No fakedev answers at the address, or it left before it had answered."""


class RequestRefused(FleetError):
    """The service refused a request; the text comes from the API.

    :param status: of HTTP, 400 or higher.
    :param code: one of the codes of the API, as ``bad-argument`` or ``unknown-name``.
    :param where: the wrong field or name, if there is one.
    """

    def __init__(self, text: str, status: int, code: str = "", where: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.code = code
        self.where = where


class NeverTrue(FleetError):
    """A condition did not become true within the simulated time."""


#: A larger answer is refused: the page of 50,000 boards has some 440 MB.
MOST_BYTES: Final = 1 << 30


class TooLarge(http.client.HTTPException):
    """The answer has more than :data:`MOST_BYTES`."""


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


def connected(address: Address, timeout_seconds: float | None) -> socket.socket:
    """A socket that is connected over TCP, with TLS or without, or to a UNIX socket (@name: an abstract one).

    :raises OSError: when no connection can be made.
    """
    if address.path:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(timeout_seconds)
        connection.connect("\0" + address.path[1:] if address.path.startswith("@") else address.path)
        return connection
    connection = socket.create_connection((address.host, address.port), timeout_seconds)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if address.tls is None:
        return connection
    return client_context(address.tls).wrap_socket(connection, server_hostname=address.host)


class HttpConnection(http.client.HTTPConnection):
    """A connection to an address."""

    def __init__(self, address: Address, timeout_seconds: float) -> None:
        super().__init__(address.host or "localhost", address.port or 80, timeout=timeout_seconds)
        self._address = address

    def connect(self) -> None:
        """Connect."""
        self.sock = connected(self._address, self.timeout)


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
    if isinstance(error, TooLarge):
        reason = f"the answer is larger than {MOST_BYTES // 2**20} MiB"
    return NoAnswer(f"no answer to {method} {path} from {address}: {reason}: does fakedev still run there?")


def _reply(response: http.client.HTTPResponse) -> Reply:
    found = {name.lower(): value for name, value in response.getheaders()}
    body = response.read(MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        raise TooLarge
    if response.length:
        raise http.client.IncompleteRead(body, response.length)
    return Reply(response.status, found, body)


T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])
#: A workload, fault, device, ... as the API describes it; doc/http.md has the keys.
Description = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """A request of a call.

    :param body: sent as JSON; None: no body.
    :param is_page: whether the answer is a text, not a JSON object.
    :param is_long: whether the answer may take any time, as long as the service lives.
    """

    method: str
    path: str
    body: object = None
    is_page: bool = False
    is_long: bool = False

    @property
    def content(self) -> bytes | None:
        """The body as it is sent."""
        return None if self.body is None else json.dumps(self.body).encode()


#: A call: it yields requests, is sent their answers (JSON objects, or the texts of pages), and returns its result.
Call = Generator[Request, Any, T]


class CallUnderWay(Generic[T]):
    """A call whose requests somebody sends.

    :param url: of the service.
    :ivar request: the next request to send; None: the call has its result.
    :ivar result: of the call, at its end.
    """

    request: Request | None
    result: T

    def __init__(self, url: str, call: Call[T]) -> None:
        self._url = url
        self._call = call
        self._go_on(None)

    def answered(self, reply: Reply) -> None:
        """Go on with the answer to the request.

        :raises RequestRefused: when the service has refused the request.
        :raises NoAnswer: when the answer is none of fakedev.
        """
        if reply.status >= 300:
            raise refused(reply.status, reply.body)
        assert self.request is not None
        if self.request.is_page:
            self._go_on(reply.body.decode("utf-8", "replace"))
        else:
            self._go_on(self._json(self.request.path, reply.body))

    def _go_on(self, answer: object) -> None:
        try:
            self.request = self._call.send(answer)
        except StopIteration as ended:
            self.request, self.result = None, ended.value

    def _json(self, path: str, body: bytes) -> Description:
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            text = f"{self._url}{path}: the answer is no JSON object: is this the API of fakedev? {body[:100]!r}"
            raise NoAnswer(text)
        return answer


def declared_by(call: Callable[..., Call[T]], method: Method) -> Method:
    """A method that makes a call, with the name, the parameters and the words of that."""
    declared = inspect.signature(call)
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    result = str(declared.return_annotation).removeprefix("Call[").removesuffix("]")
    shown = declared.replace(parameters=[this, *declared.parameters.values()], return_annotation=result)
    update_wrapper(method, call)
    method.__signature__ = shown  # type: ignore[attr-defined]  # what help() and editors read
    return method


def refused(status: int, body: bytes) -> RequestRefused:
    """The error of an answer that is not good."""
    try:
        error = json.loads(body)["error"]
        return RequestRefused(str(error["message"]), status, str(error.get("code", "")), str(error.get("where", "")))
    except (ValueError, KeyError, TypeError):
        text = body.decode("utf-8", "replace").strip()
        return RequestRefused(text or f"status {status}", status)
