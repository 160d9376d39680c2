"""TLS in memory: Python's own ssl is the client, and Twisted's TLS the server."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from fakedev.runtime.tls import CannotUseTls, tls_context
from fakedev.runtime.tls_settings import ClientAuth, TlsServer, WebConfig
from fakedev.web.guard import AccessGuard
from fakedev.web.site import Site
from tests.support.wire.certificates import Authority
from tests.support.wire.http_channels import GET, site
from tests.support.wire.http_wire import SocketLike, answers
from tests.support.wire.tls_clients import AUTHORITY, CERTIFICATE, KEY, Client


def secured(clock: Clock, **settings: object) -> Site:
    """A site with a certificate for localhost."""
    made = site(clock)
    made.use(WebConfig(TlsServer(CERTIFICATE, KEY, **settings)), AccessGuard())  # type: ignore[arg-type]
    return made


def connected(served: Site, *parts: bytes) -> SocketLike:
    """The transport of a peer that sends some bytes until the site closes."""
    wire = SocketLike()
    protocol = served.buildProtocol(None)
    assert protocol is not None
    protocol.makeConnection(wire)
    for part in parts:
        if not wire.disconnecting:
            protocol.dataReceived(part)
    wire.flush()
    return wire


@pytest.mark.parametrize("chop", [False, True])
def test_a_request(chop: bool) -> None:
    """It is answered, however its bytes come; HTTP/1.1 is agreed on."""
    clock = Clock()
    client = Client(secured(clock), clock, chop=chop)
    (answer,) = answers(client.ask(GET))
    assert (answer.status, answer.body, client.tls.selected_alpn_protocol()) == (200, b"content", "http/1.1")


@pytest.mark.parametrize("request_line", [b"GET / HTTP/1.1\r\n", b"POST /echo HTTP/1.1\r\n", b"DELETE / HTTP/1.0"])
def test_plain_http(request_line: bytes) -> None:
    """It gets the words that servers in Go have for it, also when it comes byte by byte."""
    for parts in ([request_line], [request_line[at : at + 1] for at in range(len(request_line))]):
        wire = connected(secured(Clock()), *parts)
        assert wire.value().endswith(b"\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
        assert wire.disconnecting


def test_neither() -> None:
    """Other bytes end the connection."""
    assert connected(secured(Clock()), b"\0" * 100).disconnecting


@pytest.mark.parametrize("sent", [(), (b"\x16\x03\x01",)])
def test_a_handshake_that_does_not_end(sent: tuple[bytes, ...]) -> None:
    """It has as long as the head of a request, and is counted; one that is done is not."""
    clock = Clock()
    served = secured(clock)
    Client(served, clock).ask(GET)
    wire = connected(served, *sent)
    clock.pump([served.limits.head_seconds - 1, 0, 0])
    assert not wire.disconnected
    clock.pump([1, 0, 0])
    assert wire.disconnected
    assert served.dropped["handshake"] == 1


def test_versions() -> None:
    """A client that knows only lower versions is refused."""
    clock = Clock()
    with pytest.raises(ssl.SSLError):
        Client(secured(clock, least_version="TLS13"), clock, most=ssl.TLSVersion.TLSv1_2).ask(GET)
    found = Client(secured(clock, most_version="TLS12", ciphers=("ECDHE-ECDSA-AES128-GCM-SHA256",)), clock)
    assert answers(found.ask(GET))[0].status == 200
    assert (found.tls.version(), found.tls.cipher()) == ("TLSv1.2", ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLSv1.2", 128))


@pytest.mark.parametrize(
    ("auth", "names", "client", "is_served"),
    [
        (ClientAuth.REQUIRE_AND_VERIFY, (), "", False),
        (ClientAuth.REQUIRE_AND_VERIFY, (), "ours", True),
        (ClientAuth.REQUIRE_AND_VERIFY, (), "other", False),
        (ClientAuth.REQUIRE_AND_VERIFY, ("a.example",), "ours", True),
        (ClientAuth.REQUIRE_AND_VERIFY, ("b.example",), "ours", False),
        (ClientAuth.VERIFY_IF_GIVEN, (), "", True),
        (ClientAuth.VERIFY_IF_GIVEN, (), "other", False),
        (ClientAuth.REQUIRE_ANY, (), "", False),
        (ClientAuth.REQUIRE_ANY, (), "other", True),
        (ClientAuth.REQUIRE_ANY, ("b.example",), "other", False),
        (ClientAuth.REQUEST, (), "", True),
        (ClientAuth.REQUEST, (), "other", True),
    ],
)
def test_clients(auth: ClientAuth, names: tuple[str, ...], client: str, is_served: bool, tmp_path: Path) -> None:
    """Who is asked for a certificate, whose is accepted, and of which name."""
    own: tuple[str, ...] = ()
    if client:
        authority = AUTHORITY if client == "ours" else Authority("somebody else")
        own = (f"{tmp_path}/c", f"{tmp_path}/k")
        for path, text in zip(own, authority.sign("me", "a.example"), strict=True):
            Path(path).write_text(text)
    clock = Clock()
    checks = auth in (ClientAuth.REQUIRE_AND_VERIFY, ClientAuth.VERIFY_IF_GIVEN)
    served = secured(clock, client_ca_pem=AUTHORITY.pem if checks else "", client_auth=auth, allowed_names=names)
    try:
        found = Client(served, clock, own).ask(GET)
    except ssl.SSLError:
        found = b""
    assert (b"200 OK" in found) is is_served


def test_a_new_certificate() -> None:
    """It is used from the next connection on; those that are open stay."""
    clock = Clock()
    served = secured(clock)
    old = Client(served, clock)
    assert answers(old.ask(GET))[0].status == 200
    certificate, key = AUTHORITY.sign("next", "localhost")
    served.use(WebConfig(TlsServer(certificate, key)), AccessGuard())
    assert answers(old.ask(GET))[0].status == 200
    new = Client(served, clock)
    assert answers(new.ask(GET))[0].status == 200
    assert old.tls.getpeercert() != new.tls.getpeercert()


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        (TlsServer("x", KEY), "the certificate is not in PEM"),
        (TlsServer(CERTIFICATE, "x"), "the key is not in PEM"),
        (TlsServer(CERTIFICATE, AUTHORITY.sign("other")[1]), "or does not belong to the certificate"),
        (TlsServer(CERTIFICATE, KEY, "x", ClientAuth.REQUIRE_AND_VERIFY), "client_ca is not in PEM"),
    ],
)
def test_what_cannot_be_used(server: TlsServer, problem: str) -> None:
    """A site stays as it is."""
    with pytest.raises(CannotUseTls, match=problem):
        tls_context(server)
    served = site()
    with pytest.raises(CannotUseTls):
        served.use(WebConfig(server), AccessGuard())
    assert not served.is_tls
