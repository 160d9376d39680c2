"""A web page can make a browser send a form to a line port: its lines must not be served. TLS is refused."""

from __future__ import annotations

import os

import pytest
from twisted.internet.address import UNIXAddress

from fakedev.fleet.verbs import WORKLOAD_GRAMMAR
from fakedev.lines.framing import Opening, refuse_http
from fakedev.lines.grammar import Grammar, ProtocolError
from fakedev.queues.verbs import QUEUE_BACKEND_GRAMMAR, QUEUE_CLIENT_GRAMMAR
from tests.support.application import LineClient, MemoryApplication, application

PORTS = """
version: 1
fleet: {seed: 7, pools: [{name: p, nodes: [a], device: h100, devices-per-node: 2, identity: dcgm}]}
web: ["127.0.0.1:9400"]
workloads: {listen: ["127.0.0.1:9500", {listen: /run/w.sock}]}
queues:
  names: [sleep]
  listen-clients: ["127.0.0.1:9997", {listen: /run/c.sock}]
  listen-backends: ["127.0.0.1:9999", {listen: /run/b.sock}]
"""
#: What the lines of a body would do on each port, and on two of them at a second address, a UNIX socket.
CHANGES = {
    "127.0.0.1:9500": "run owned devices=a/0 profile=100 detach",
    "/run/w.sock": "run owned devices=a/0 profile=100 detach",
    "127.0.0.1:9997": "put sleep 1",
    "/run/c.sock": "put sleep 1",
    "127.0.0.1:9999": "drain sleep",
    "/run/b.sock": "drain sleep",
}
REQUEST_LINES = (
    b"GET / HTTP/1.1",
    b"POST /x?y=z HTTP/1.0",
    b"OPTIONS * HTTP/1.1",
    b"PRI * HTTP/2.0",
    b"CONNECT evil.example:443 HTTP/1.1",
    b"post / HTTP/1.1",
    b"patch /x HTTP/1.1",
    b"POST /' HTTP/1.1",  # an apostrophe stays as it is in a path, and opens a quote in words
    b'POST /"\\ HTTP/1.1',
    b"POST /\xff HTTP/1.1",
    b"POST\t/\tHTTP/1.1",
    b"POST /a b c HTTP/1.1",
    b"list / HTTP/1.1",  # a page whose name leads to this machine chooses the method
    b"run http://127.0.0.1:9500/ HTTP/1.1",
)


def at(app: MemoryApplication, address: str) -> LineClient:
    places = [port.getHost() for port in app.reactor.ports]
    names = [
        os.fsdecode(where.name) if isinstance(where, UNIXAddress) else f"{where.host}:{where.port}" for where in places
    ]
    factory = app.reactor.ports[names.index(address)].factory
    return LineClient(factory, app.reactor)


def changed(app: MemoryApplication) -> list[object]:
    app.tick()
    return [
        app.json("/api/v1/workloads")["workloads"],
        [(queue["waiting"], queue["state"]) for queue in app.json("/api/v1/queues")["queues"]],
    ]


@pytest.mark.parametrize("address", CHANGES)
@pytest.mark.parametrize("before", ["", "\r\n\r\n", "x=\r\nhello=1\r\n", "help quit\n"])
def test_a_form_is_not_served(address: str, before: str) -> None:
    """On every port, wherever the request line stands and whatever it looks like."""
    with application(PORTS) as app:
        untouched = changed(app)
        for line in REQUEST_LINES:
            peer = at(app, address)
            peer.send(before.encode() + line + f"\r\nHost: x\r\n\r\nx=\r\n{CHANGES[address]}\r\n".encode())
            assert peer.lines()[-1].startswith("error unknown-verb this port takes lines, not HTTP; web:"), line
            assert peer.transport.disconnecting
            peer.send(f"{CHANGES[address]}\r\n".encode())
        assert changed(app) == untouched
        peer = at(app, address)
        assert peer.say(CHANGES[address])[0].startswith("ok")
        assert changed(app) != untouched


@pytest.mark.parametrize("address", CHANGES)
def test_a_request_line_among_json_lines(address: str) -> None:
    """It ends the connection there too; after bare JSON, anything but an object does."""
    with application(PORTS) as app:
        peer = at(app, address)
        peer.send(b'{"op":"list"}\nPOST / HTTP/1.1\r\n{"op":"list"}\n')
        assert [line[:12] for line in peer.lines()] == ['{"ok":true,"', '{"ok":false,']
        assert peer.transport.disconnecting


FORM = (
    b"POST / HTTP/1.1\r\nHost: 127.0.0.1:9500\r\nOrigin: http://evil.example\r\nContent-Type: text/plain\r\n"
    b"Content-Length: 45\r\n\r\nx=\r\nrun owned devices=a/0 profile=100 detach\r\n"
)


@pytest.mark.parametrize("cut", range(1, len(FORM), 7))
def test_a_form_in_pieces(cut: int) -> None:
    with application(PORTS) as app:
        peer = app.connect()
        for piece in (FORM[:cut], FORM[cut:]):
            peer.send(piece)
        (answer,) = peer.lines()
        assert answer.startswith("error unknown-verb this port takes lines, not HTTP")
        assert app.json("/api/v1/workloads")["workloads"] == []


@pytest.mark.parametrize("address", CHANGES)
def test_tls(address: str) -> None:
    with application(PORTS) as app:
        peer = at(app, address)
        peer.send(b"\x16\x03\x01\x02\x00\x01\x00")
        (answer,) = peer.lines()
        assert answer.startswith("error bad-argument this port takes plain lines, not TLS; web:")
        assert peer.transport.disconnecting


@pytest.mark.parametrize("grammar", [WORKLOAD_GRAMMAR, QUEUE_CLIENT_GRAMMAR, QUEUE_BACKEND_GRAMMAR])
@pytest.mark.parametrize(
    "line",
    [
        *(b"put sleep HTTP/1.1", b"GET things please", b"put sleep -- curl / HTTP/1.1"),
        *(b"list sleep", b"HTTP/1.1", b"a HTTP/1.1"),
    ],
)
def test_what_is_no_request_line(grammar: Grammar, line: bytes) -> None:
    """A mistake of a person, or an argument like the end of one, costs no connection."""
    if line.split()[0].decode() in grammar or len(line.split()) < 3 or b"HTTP/" not in line:
        refuse_http(line, grammar)
    else:
        with pytest.raises(ProtocolError, match="not HTTP"):
            refuse_http(line, grammar)


def test_tls_is_seen_before_a_whole_message() -> None:
    with pytest.raises(ProtocolError, match="not TLS"):
        Opening().open(b"\n\x16")
