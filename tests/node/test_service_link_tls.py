"""The connection of fakedev-node with a service that has TLS."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakedev.node import service_link
from fakedev.node.service_link import LinkDown
from fakedev.schema.peer_addresses import ClientTls
from tests.node.test_service_link import ATTACHED, Service, line_of
from tests.support.wire.certificates import Authority


class TlsService(Service):
    """A listening socket whose connections have TLS, and a link to it."""

    def __init__(self, folder: Path, tls: ClientTls, *, asks_for_client: bool = False) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / "server.pem", folder / "server.key")
        if asks_for_client:
            self._context.load_verify_locations(folder / "ca.pem")
            self._context.verify_mode = ssl.CERT_REQUIRED
        super().__init__(tls=tls)

    def accept(self) -> socket.socket:
        return self._context.wrap_socket(super().accept(), server_side=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Certificates of a server and of a client, and their authority's; and that of a stranger."""
    authority = Authority()
    texts = {"ca.pem": authority.pem, "other.pem": Authority("other").pem}
    for name, names in (("server", "127.0.0.1"), ("own", "node")):
        texts[f"{name}.pem"], texts[f"{name}.key"] = authority.sign(name, names)
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def started(folder: Path) -> Iterator[Callable[..., TlsService]]:
    """Starts services, whose links are stopped at the end."""
    made: list[TlsService] = []

    def start(tls: ClientTls, *, asks_for_client: bool = False) -> TlsService:
        made.append(TlsService(folder, tls, asks_for_client=asks_for_client))
        return made[-1]

    yield start
    for each in made:
        each.link.stop()
        each.listener.close()


@pytest.mark.slow
def test_requests_and_answers(folder: Path, started: Callable[..., TlsService]) -> None:
    """As without TLS, also those that are longer than a record of TLS; the certificates of both sides are checked."""
    own = ClientTls(*(str(folder / name) for name in ("ca.pem", "own.pem", "own.key")))
    service = started(own, asks_for_client=True)
    with service.attached() as connection:
        text = "x" * 60_000
        answers = [service.link.send("report", {"allocations": [text]}) for _ in range(2)]
        for answer in answers:
            request = json.loads(line_of(connection))
            assert request["allocations"] == [text]
            connection.sendall(json.dumps({"id": request["id"], "ok": True, "text": text}).encode() + b"\n")
            assert answer.result(service.listener.gettimeout()) == {"text": text}
    assert isinstance(service.next(LinkDown), LinkDown)
    with service.attached():
        pass


def test_a_stranger(folder: Path, started: Callable[..., TlsService]) -> None:
    """A service whose certificate is not signed as it should be gets nothing, and the reason is told."""
    service = started(ClientTls(str(folder / "other.pem")))
    with pytest.raises(ssl.SSLError):
        service.accept()
    text = "the server's certificate is refused: unable to get local issuer certificate"
    assert service.next(LinkDown) == LinkDown(text)


def test_without_our_certificate(folder: Path, started: Callable[..., TlsService]) -> None:
    service = started(ClientTls(str(folder / "ca.pem")), asks_for_client=True)
    with pytest.raises(ssl.SSLError):
        service.accept()
    assert "TLS failed: " in str(service.next(LinkDown))


def test_files_that_change(folder: Path, started: Callable[..., TlsService]) -> None:
    """They are read for each connection: a new certificate needs no restart."""
    path = folder / "later.pem"
    service = started(ClientTls(str(path)))
    assert service.next(LinkDown) == LinkDown(f"ca-file: {path}: no such file or folder")
    path.write_text((folder / "ca.pem").read_text())
    with service.listener.accept()[0]:
        pass  # of the attempt before
    with service.attached():
        pass


def test_a_service_without_tls(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_link, "_CONNECT_SECONDS", 0.2)
    service = Service(tls=ClientTls(str(folder / "ca.pem")))
    with service.accept() as connection:
        connection.recv(65536)
        connection.sendall(ATTACHED)
        assert "TLS failed: " in str(service.next(LinkDown))
    with service.accept():
        assert service.next(LinkDown) == LinkDown("TLS was not agreed on in time")
    service.link.stop()
    service.listener.close()
