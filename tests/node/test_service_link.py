"""The connection with the service over TCP: what becomes of requests, and when it connects again."""

from __future__ import annotations

import json
import queue
import socket
from collections.abc import Callable, Iterator

import pytest

from fakedev.kubernetes.nodes.node_view import to_fields
from fakedev.node.service_link import LinkDown, LinkNews, RefusedByService, ServiceLink, Unanswered, ViewChanged
from fakedev.schema.peer_addresses import Address, ClientTls
from tests.support.kube.node_service import VIEW
from tests.support.programs.processes import PATIENCE_SECONDS

ATTACHED = json.dumps({"id": 1, "ok": True, "view": to_fields(VIEW)}).encode() + b"\n"


class Service:
    """A listening socket, and a link to it."""

    def __init__(self, read_token: Callable[[], str] = lambda: "", tls: ClientTls | None = None) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(PATIENCE_SECONDS)
        self.news: queue.Queue[LinkNews] = queue.Queue()
        host, port = self.listener.getsockname()
        self.link = ServiceLink(Address("", host=host, port=port, tls=tls), "a", read_token, self.news.put)
        self.link.start()

    def accept(self) -> socket.socket:
        """The next connection of the link."""
        connection, _ = self.listener.accept()
        connection.settimeout(PATIENCE_SECONDS)
        return connection

    def attached(self) -> socket.socket:
        """The next connection, attached."""
        connection = self.accept()
        assert json.loads(line_of(connection)) == {"op": "attach", "id": 1, "node": "a"}
        connection.sendall(ATTACHED)
        assert self.next(ViewChanged) == ViewChanged(VIEW)
        return connection

    def next(self, kind: type[LinkNews]) -> LinkNews:
        """The next news of a kind."""
        while not isinstance(news := self.news.get(timeout=PATIENCE_SECONDS), kind):
            pass
        return news


def line_of(connection: socket.socket) -> bytes:
    """The next line, byte by byte."""
    line = b""
    while not line.endswith(b"\n"):
        byte = connection.recv(1)
        assert byte, f"closed after {line!r}"
        line += byte
    return line


@pytest.fixture
def service() -> Iterator[Service]:
    """A service whose link is stopped at the end."""
    made = Service()
    yield made
    made.link.stop()
    made.listener.close()


def test_requests_and_answers(service: Service) -> None:
    with service.attached() as connection:
        first = service.link.send("ping", {})
        second = service.link.send("prepare", {"namespace": "n", "claim": "c", "uid": "u"})
        requests = [json.loads(line_of(connection)) for _ in range(2)]
        assert [request["op"] for request in requests] == ["ping", "prepare"]
        refusal = {"id": requests[1]["id"], "ok": False, "error": {"code": "unknown-name", "message": "no claim"}}
        connection.sendall(json.dumps(refusal).encode() + b"\n")
        connection.sendall(b'{"id":%d,"ok":true,"x":1}\n' % requests[0]["id"])
        assert first.result(PATIENCE_SECONDS) == {"x": 1}
        with pytest.raises(RefusedByService, match=r"^the service refuses: unknown-name: no claim$"):
            second.result(PATIENCE_SECONDS)


def test_without_an_answer(service: Service) -> None:
    """A request is over when its time is, and when the connection is; without one it fails at once."""
    with pytest.raises(Unanswered, match=r"^the service is not connected$"):
        service.link.ask("ping", {}, 10)
    with service.attached():
        with pytest.raises(Unanswered, match=r"^the service did not answer within 0.01 s$"):
            service.link.ask("ping", {}, 0.01)
        waiting = service.link.send("ping", {})
    with pytest.raises(Unanswered, match=r"^the connection with the service was lost$"):
        waiting.result(PATIENCE_SECONDS)


def test_it_connects_again(service: Service) -> None:
    with service.attached():
        pass
    assert isinstance(service.next(LinkDown), LinkDown)
    with service.accept() as connection:
        line_of(connection)
        connection.sendall(b"error busy no room\n")
        assert service.next(LinkDown) == LinkDown("it refuses: busy: no room")
    with service.attached():
        assert service.link.send("ping", {})


def test_a_service_that_does_not_read(service: Service) -> None:
    with service.attached():
        large = {"allocations": ["x" * 60_000]}
        answers = [service.link.send("report", large) for _ in range(400)]
        failed = [answer for answer in answers if answer.done()]
        assert failed
        with pytest.raises(Unanswered, match=r"^the service does not read$"):
            failed[0].result(0)


def test_a_token_that_cannot_be_read() -> None:
    """Is the reason; it does not connect without it."""

    def read_token() -> str:
        raise ValueError("no token from /t: no such file or folder")

    service = Service(read_token)
    assert service.next(LinkDown) == LinkDown("no token from /t: no such file or folder")
    service.link.stop()
    service.listener.close()
