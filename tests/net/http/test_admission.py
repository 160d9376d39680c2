"""Passwords and the limit of requests, before any resource sees a request."""

from __future__ import annotations

from base64 import b64encode

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from fakedev.net.http.access_guard import AccessGuard
from fakedev.net.http.admission import Admission, has_hash
from fakedev.spec.web_config import WebConfig
from tests.support.http_channels import GET, POST, site
from tests.support.http_wire import Peer

#: The cost is the least of bcrypt: made by ``bcrypt.hashpw(b"secret", bcrypt.gensalt(4))``.
SECRET = "$2b$04$fD3dVsk0GOwhDWFYkqe0fuHXwtiE3PtwAxQPTac32p01bA8VjYlO6"


class Checks:
    """Checks of passwords that end when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes]] = []
        self.waiting: list[Deferred[bool]] = []

    def __call__(self, hashed: str, password: bytes) -> Deferred[bool]:
        """Begin one."""
        self.asked.append((hashed, password))
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def end(self) -> None:
        """End the first that has begun."""
        hashed, password = self.asked[-len(self.waiting)]
        self.waiting.pop(0).callback(has_hash(hashed, password))


def basic(text: bytes) -> bytes:
    """The header of a name and a password."""
    return b"Authorization: Basic " + b64encode(text) + b"\r\n"


def asking(header: bytes, request: bytes = GET) -> bytes:
    """A request with a header."""
    return request.replace(b"\r\n\r\n", b"\r\n" + header + b"\r\n", 1)


class TestPasswords:
    """A site with one user, alice."""

    def setup_method(self) -> None:
        self.checks, self.clock = Checks(), Clock()
        self.site = site(self.clock)
        config = WebConfig(users={"alice": SECRET})
        guard = AccessGuard(token="long-token", has_passwords=True)
        self.site.guard = guard
        self.site.admission = Admission(config, guard, self.clock.seconds, self.checks)

    @pytest.mark.parametrize("header", [b"", b"Authorization: Basic\r\n", b"Authorization: Basic ?\r\n",
                                        b"Authorization: Bearer x\r\n", basic(b"alice"), basic(b"\xff:x")])  # fmt: skip
    def test_without(self, header: bytes) -> None:
        """The answer is that of the original, also to a path that is not there and to a change; nothing is checked."""
        for request in (GET, GET.replace(b"/page", b"/no"), POST):
            answer = Peer(self.site).ask(asking(header, request))
            assert (answer.status, answer.body, answer.headers["www-authenticate"]) == (401, b"Unauthorized\n", "Basic")
        assert self.checks.asked == []

    def test_a_right_one_is_checked_once(self) -> None:
        """Requests with it wait for the one check; later ones wait for nothing."""
        one, two = Peer(self.site), Peer(self.site)
        request = asking(basic(b"alice:secret"))
        assert one.send(request) == two.send(request) == b""
        self.checks.end()
        one.read()
        two.read()
        assert b"content" in one.transport.value()
        assert b"content" in two.transport.value()
        assert Peer(self.site).ask(request).status == 200
        assert len(self.checks.asked) == 1

    @pytest.mark.parametrize("text", [b"alice:wrong", b"bob:secret", b"alice:", b"alice:secre\0"])
    def test_a_wrong_one(self, text: bytes) -> None:
        """Takes a check each time, also with a name that there is not."""
        for number in (1, 2):
            peer = Peer(self.site)
            peer.send(asking(basic(text)))
            self.checks.end()
            peer.read()
            assert b"401 Unauthorized" in peer.transport.value()
            assert len(self.checks.asked) == number

    def test_a_change(self) -> None:
        """A user may change things without the token; a client with the token needs no password."""
        peer = Peer(self.site)
        peer.send(asking(basic(b"alice:secret"), POST))
        self.checks.end()
        peer.read()
        assert b" 201 " in peer.transport.value()
        assert Peer(self.site).ask(asking(b"Authorization: Bearer long-token\r\n", POST)).status == 201

    def test_a_peer_that_leaves(self) -> None:
        """What it asked for is not done when the check ends."""
        peer = Peer(self.site)
        peer.send(asking(basic(b"alice:secret"), POST))
        peer.leave()
        self.checks.end()
        assert Peer(self.site).ask(asking(basic(b"alice:secret"), GET.replace(b"page", b"echo"))).body == b"0"

    def test_too_many(self) -> None:
        """A bounded number of requests waits for checks, which run one after the other."""
        peers = [Peer(self.site) for _ in range(103)]
        for number, peer in enumerate(peers):
            peer.send(asking(basic(b"alice:%d" % number)))
        assert len(self.checks.asked) == 1
        busy = [peer for peer in peers if b"503" in peer.transport.value()]
        assert len(busy) == 2
        while self.checks.waiting:
            self.checks.end()
        assert len(self.checks.asked) == 101


def test_a_rate() -> None:
    """So many at once, then one each interval; refused ones do not count."""
    clock = Clock()
    limited = site(clock)
    limited.use(WebConfig(interval_seconds=2.0, burst=2), AccessGuard())
    peer = Peer(limited)
    assert [peer.ask(GET).status for _ in range(4)] == [200, 200, 429, 429]
    clock.advance(2)
    assert [peer.ask(GET).status for _ in range(2)] == [200, 429]
    clock.advance(100)
    assert [peer.ask(GET).status for _ in range(3)] == [200, 200, 429]


def test_headers() -> None:
    """Each answer has them, also an error; without a web configuration none has."""
    with_headers = site()
    with_headers.use(WebConfig(headers=(("X-Frame-Options", "deny"),)), AccessGuard())
    for request in (GET, GET.replace(b"/page", b"/no"), b"bad\r\n\r\n"):
        assert Peer(with_headers).ask(request).headers["x-frame-options"] == "deny"
    with_headers.use(WebConfig(), AccessGuard())
    assert "x-frame-options" not in Peer(with_headers).ask(GET).headers
