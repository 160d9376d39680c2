"""TLS of line ports: what a peer gets, and the limits of handshakes."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock

from fakedev.lines import server
from fakedev.lines.server import LineAddress
from fakedev.runtime.tls import tls_context
from fakedev.runtime.tls_settings import ClientAuth, TlsServer
from tests.support.wire.http_wire import SocketLike
from tests.support.wire.line_peers import RecordingFactory, make_factory
from tests.support.wire.tls_clients import AUTHORITY, CERTIFICATE, KEY, Client


def secured(clock: Clock, **settings: object) -> RecordingFactory:
    made = make_factory(clock)
    made.use_tls(tls_context(TlsServer(CERTIFICATE, KEY, **settings)))  # type: ignore[arg-type]
    return made


def connect(port: RecordingFactory | LineAddress, host: str = "127.0.0.1") -> tuple[SocketLike, object]:
    """A connection before its handshake: the socket, and the protocol."""
    wire, protocol = SocketLike(), port.buildProtocol(None)
    wire.peerAddr = IPv4Address("TCP", host, 54321)
    protocol.makeConnection(wire)
    return wire, protocol


@pytest.mark.parametrize("chop", [False, True])
def test_requests(chop: bool) -> None:
    """They are answered, however their bytes come; quit ends the connection in order, as TLS has it."""
    clock = Clock()
    client = Client(secured(clock), clock, chop=chop)
    assert client.ask(b"list\nquit\n").startswith(b"ok")
    assert client.tls.read() == b""


def test_an_address_of_several() -> None:
    clock = Clock()
    port = make_factory(clock)
    open_one, secured_one = LineAddress(port), LineAddress(port, ["open-sesame"])
    secured_one.use_tls(tls_context(TlsServer(CERTIFICATE, KEY)))
    assert b"error denied" in Client(secured_one, clock).ask(b"list\n")
    assert Client(secured_one, clock).ask(b"auth open-sesame\nlist\n").count(b"ok") == 2
    wire, protocol = connect(open_one)
    protocol.dataReceived(b"list\n")  # type: ignore[attr-defined]
    clock.advance(0)
    wire.flush()
    assert wire.value().startswith(b"ok")


@pytest.mark.parametrize("sent", [b"l", b"list\n", b'{"verb": "list"}\n', b"GET / HTTP/1.1\r\n\r\n", b"\0\0"])
def test_plain_text(sent: bytes) -> None:
    """It is refused in words, closed and counted; what follows is not served."""
    clock = Clock()
    port = secured(clock)
    wire, protocol = connect(port)
    protocol.dataReceived(sent)  # type: ignore[attr-defined]
    protocol.dataReceived(b"list\n")  # type: ignore[attr-defined]
    wire.flush()
    assert wire.value() == b"error denied this address speaks TLS, and no plain text: connect with TLS\n"
    assert wire.disconnecting
    assert port.closed == {"plain": 1}
    assert port.last_peer.asked == []


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01"])
def test_a_handshake_that_does_not_end(sent: bytes) -> None:
    clock = Clock()
    port = secured(clock)
    wire, protocol = connect(port)
    if sent:
        protocol.dataReceived(sent)  # type: ignore[attr-defined]
    clock.advance(server.HANDSHAKE_SECONDS - 1)
    assert not wire.disconnected
    clock.pump([1, 0, 0])
    assert wire.disconnected
    assert port.closed == {"handshake": 1}


def test_a_handshake_in_time() -> None:
    clock = Clock()
    port = secured(clock)
    client = Client(port, clock)
    client.ask(b"list\n")
    clock.pump([server.HANDSHAKE_SECONDS, 0, 0])
    assert client.ask(b"list\n").startswith(b"ok")
    assert not port.closed


def test_many_handshakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """For one too many the oldest is ended; peers that are through do not count."""
    monkeypatch.setattr(server, "MAX_HANDSHAKES", 2)
    clock = Clock()
    port = secured(clock)
    served = Client(port, clock)
    served.ask(b"list\n")
    wires = [connect(port)[0] for _ in range(4)]
    assert [wire.disconnected for wire in wires] == [True, True, False, False]
    assert port.closed == {"handshake": 2}
    assert served.ask(b"list\n").startswith(b"ok")


def test_handshakes_of_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that begins many ends its own, not the one of another host that was there before."""
    monkeypatch.setattr(server, "MAX_HANDSHAKES", 2)
    port = secured(Clock())
    wires = [connect(port, host)[0] for host in ("192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.2")]
    assert [wire.disconnected for wire in wires] == [False, True, True, False]


def test_client_certificates(tmp_path: Path) -> None:
    """A peer without one is closed before it can say anything, and counted."""
    clock = Clock()
    port = secured(clock, client_ca_pem=AUTHORITY.pem, client_auth=ClientAuth.REQUIRE_AND_VERIFY)
    client = Client(port, clock)
    with pytest.raises(ssl.SSLError):
        client.ask(b"list\n")
    client.close()
    assert port.last_peer.asked == []
    assert port.closed == {"handshake": 1}
    own = tmp_path / "cert.pem", tmp_path / "key.pem"
    for path, text in zip(own, AUTHORITY.sign("client", "a.example"), strict=True):
        path.write_text(text)
    assert Client(port, clock, own=tuple(map(str, own))).ask(b"list\n").startswith(b"ok")


def test_another_certificate() -> None:
    """New peers get it; those that are connected stay; without TLS new ones speak plain text."""
    clock = Clock()
    port = secured(clock)
    before = Client(port, clock)
    assert before.ask(b"list\n").startswith(b"ok")
    port.use_tls(tls_context(TlsServer(*AUTHORITY.sign("other", "localhost"))))
    after = Client(port, clock)
    assert after.ask(b"list\n").startswith(b"ok")
    shown = [dict(each[0] for each in peer.tls.getpeercert()["subject"]) for peer in (before, after)]  # type: ignore[index,misc]
    assert [each["commonName"] for each in shown] == ["server", "other"]
    port.use_tls(None)
    assert before.ask(b"list\n").startswith(b"ok")
    wire, protocol = connect(port)
    protocol.dataReceived(b"list\n")  # type: ignore[attr-defined]
    clock.advance(0)
    wire.flush()
    assert wire.value().startswith(b"ok")
