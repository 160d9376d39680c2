"""Addresses with tokens: `auth TOKEN` comes first, and no token is ever shown."""

from __future__ import annotations

import hmac
import json

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher

from fakedev.config.export import effective_text
from fakedev.lines.grammar import ProtocolError
from fakedev.lines.outbox import State
from fakedev.lines.tokens import MAX_WRONG, SPAN_SECONDS, TOKEN_SECONDS, TokenGate
from tests.support.application import LineClient, application
from tests.support.wire.line_peers import BARE, connect, make_factory

TOKEN = "correct=horse-battery"
MISSING = b"error denied this port requires a token first: auth TOKEN\n"
TOKENS = f"tokens: [other-token, {TOKEN}]"
PORTS = f"""
version: 1
fleet: {{seed: 7, pools: [{{name: p, nodes: [a], device: h100, devices-per-node: 2, identity: dcgm}}]}}
web: ["127.0.0.1:9400"]
workloads: {{listen: [{{listen: "127.0.0.1:9500", {TOKENS}}}]}}
queues:
  names: [sleep]
  listen-clients: [{{listen: "127.0.0.1:9997", {TOKENS}}}, 9998]
  listen-backends: [{{listen: "*:9999", {TOKENS}}}]
"""


def guarded(clock: Clock | None = None, **options):
    return make_factory(clock, tokens=["other-token", TOKEN], **options)


@pytest.mark.parametrize(
    ("first", "answer"),
    [
        (f"auth {TOKEN}\n".encode(), b"ok\n"),
        (f"\r\n  auth '{TOKEN}' \r\n".encode(), b"ok\n"),
        (b"auth other-token\n", b"ok\n"),
        (json.dumps({"op": "auth", "id": 7, "token": TOKEN}).encode() + b"\n", b'{"id":7,"ok":true}\n'),
    ],
)
def test_the_right_token(first: bytes, answer: bytes):
    """In both formats, in the same bytes as what follows, or cut anywhere."""
    for cut in range(len(first) + 1):
        peer, transport = connect(guarded())
        follows = b'{"op":"list","id":8}\n' if first.startswith(b"{") else b"list\n"
        for piece in (first[:cut], first[cut:] + follows):
            peer.dataReceived(piece)
        assert transport.value().startswith(answer)
        assert [verb for verb, _, _ in peer.asked] == ["list"]
        assert not transport.disconnecting


@pytest.mark.parametrize(
    "first",
    [
        b"list\n", b"help\n", b"quit\n", b"auth\n", b"auth a b\n", b"auth token=x y=z\n", b"auth 'x\n",
        b"correct=horse-battery\n", b"\xff\n", b"auth correct=horse-batter\n", b"auth correct=horse-battery2\n",
        b'{"op":"list","id":1}\n', b'{"op":"auth","id":1}\n', b'{"op":"auth","id":1,"token":5}\n',
        b'{"op":"auth","id":1,"correct=horse-battery":1}\n',
    ],
)  # fmt: skip
def test_anything_else(first: bytes):
    """It is denied, nothing after it is served, and the answer quotes nothing."""
    factory = guarded()
    peer, transport = connect(factory)
    peer.dataReceived(first + b"list\n")
    answer = transport.value()
    assert b"denied" in answer
    assert b"horse" not in answer
    assert len(answer) < 200
    in_json = b'{"id":1,"ok":false,"error":{"code":"denied"'
    assert answer.startswith(in_json if first.startswith(b"{") else b"error denied")
    assert peer.asked == []
    assert peer.state >= State.CLOSING
    assert dict(factory.closed) == {"denied": 1}


def test_bare_json():
    """It cannot give a token: it is refused in its own way, and the log says why."""
    entries: list[str] = []

    def note(event):
        entries.append(str(event.get("text")))

    globalLogPublisher.addObserver(note)
    peer, transport = connect(guarded())
    peer.dataReceived(BARE)
    globalLogPublisher.removeObserver(note)
    assert transport.value() == b"1"
    assert peer.bare == []
    assert "this port requires a token, which bare JSON cannot send: use words or JSON lines" in entries


def test_limits_before_the_token():
    """Short messages, a short time; after the token the usual limits."""
    clock = Clock()
    peer, transport = connect(guarded(clock))
    peer.dataReceived(b"a" * 4096)
    assert transport.value() == b""
    peer.dataReceived(b"a")
    assert transport.value() == b"error too-long a line is at most 4096 bytes\n"

    bare, transport = connect(guarded(clock))
    bare.dataReceived(b'{"' + b"a" * 4096)
    assert b"at most 4096 bytes" in transport.value() or transport.value() == b"1"
    assert transport.disconnecting

    admitted, transport = connect(guarded(clock))
    admitted.dataReceived(f"auth {TOKEN}\n".encode() + b"list " + b"a" * 60_000 + b"\n")
    assert transport.value().startswith(b"ok\nerror bad-argument")
    assert not transport.disconnecting


def test_time_before_the_token():
    """Five seconds from the connection, whatever is sent; one timer serves all."""
    clock = Clock()
    factory = guarded(clock)
    slow, slow_transport = connect(factory)
    admitted, admitted_transport = connect(factory)
    admitted.dataReceived(b"auth other-token\n")
    clock.advance(TOKEN_SECONDS - 1)
    calls = len(clock.getDelayedCalls())
    later = [connect(factory) for _ in range(100)]
    assert len(clock.getDelayedCalls()) == calls
    slow.dataReceived(b"au")
    clock.advance(0.9)
    assert not slow_transport.disconnecting
    clock.advance(0.2)
    assert slow_transport.value() == MISSING
    assert not any(transport.disconnecting for _, transport in later)
    clock.advance(TOKEN_SECONDS - 1)
    assert all(transport.value() == MISSING for _, transport in later)
    assert not admitted_transport.disconnecting
    assert not factory.without_token


def test_those_without_a_token_make_room_first():
    factory = guarded(max_connections=3)
    admitted, admitted_transport = connect(factory)
    admitted.dataReceived(b"auth other-token\n")
    strangers = [connect(factory)[1] for _ in range(50)]
    assert not admitted_transport.disconnecting
    assert sum(not transport.disconnecting for transport in strangers) <= 3


def test_wrong_tokens_are_limited():
    """After some from one host none is looked at for a while; other hosts are not concerned."""
    clock = Clock()
    gate = TokenGate(clock, [TOKEN])
    for _ in range(MAX_WRONG):
        with pytest.raises(ProtocolError, match="the token is wrong"):
            gate.check("wrong-token", "10.0.0.1")
    with pytest.raises(ProtocolError, match="too many wrong tokens; try again in 10 s") as busy:
        gate.check(TOKEN, "10.0.0.1")
    assert (busy.value.code, busy.value.fatal) == ("busy", True)
    assert gate.check(TOKEN, "10.0.0.2") == ""
    clock.advance(SPAN_SECONDS)
    assert gate.check(TOKEN, "10.0.0.1") == ""
    for number in range(5000):
        with pytest.raises(ProtocolError):
            gate.check("wrong-token", str(number))
    assert len(gate._wrong) <= 1000


def test_the_host_of_a_peer_is_counted():
    factory = guarded()
    answers = []
    for port in range(MAX_WRONG + 1):
        peer, transport = connect(factory)
        transport.peerAddr = IPv4Address("TCP", "10.1.1.1", port)
        peer.dataReceived(b"auth wrong-token\n")
        answers.append(transport.value().split()[1])
    assert answers == [b"denied"] * MAX_WRONG + [b"busy"]


def test_a_port_without_tokens():
    """Every token is right, so that a program can always send one; wrong arguments are not quoted."""
    peer, transport = connect(make_factory())
    peer.dataReceived(b"auth x\nauth secret-one secret-two\nlist\n")
    assert transport.value().startswith(b"ok no token is needed here\nerror bad-argument usage: auth TOKEN\nok 2")


def test_verbose_and_the_log():
    """Neither the messages of -verbose nor other entries have a token."""
    entries: list[str] = []

    def note(event):
        entries.append(repr({key: value for key, value in event.items() if key not in ("log_logger", "log_source")}))

    globalLogPublisher.addObserver(note)
    try:
        lines = [
            *(f"auth {TOKEN}", f"auth {TOKEN}2", f"auth {TOKEN} x", f"AUTH {TOKEN}", f"auth '{TOKEN}"),
            *(f'{{"op":"auth","token":"{TOKEN}"}}', f'{{"op":"auth","token":"{TOKEN}"', f'{{"op":"run"}} auth {TOKEN}'),
        ]
        for line in lines:
            for factory in (guarded(verbose=True), make_factory(verbose=True)):
                connect(factory)[0].dataReceived(line.encode() + b"\n")
        connect(guarded(verbose=True))[0].dataReceived(f"{TOKEN}\n".encode())
    finally:
        globalLogPublisher.removeObserver(note)
    assert len(entries) > 20
    assert not [entry for entry in entries if TOKEN in entry]


class TestApplication:
    """The whole application."""

    @pytest.fixture(autouse=True)
    def _started(self):
        with application(PORTS) as self.app:
            yield

    def test_each_port(self):
        for port, line in ((self.app.connect, "list"), (self.app.client, "stats"), (self.app.backend, "take sleep")):
            assert port().say(line) == [MISSING.decode().strip()]
            peer = port()
            assert peer.say(f"auth {TOKEN}") == ["ok"]
            assert peer.say(line)[0].startswith("ok")
        without = next(port.factory for port in self.app.reactor.ports if port.getHost().port == 9998)
        assert LineClient(without, self.app.reactor).say("list")[0].startswith("ok")

    def test_nothing_shows_it(self):
        shown = effective_text(self.app.configuration)
        assert shown.count('tokens: ["********", "********"]') == 3
        assert "horse" not in shown
        for path in ("/-/metrics", "/api/v1/queues", "/api/v1/workloads"):
            assert b"horse" not in self.app.get(path).body


def test_all_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with the given one by hmac, also after one that is right, so that time shows nothing."""
    compared: list[tuple[bytes, bytes]] = []
    original = hmac.compare_digest

    def compare(given: bytes, own: bytes) -> bool:
        compared.append((given, own))
        return original(given, own)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    gate = TokenGate(Clock(), ["first-token", "second-token"])
    gate.check("first-token", "")
    with pytest.raises(ProtocolError):
        gate.check("other", "")
    own = (b"first-token", b"second-token")
    assert compared == [(given, each) for given in (b"first-token", b"other") for each in own]
