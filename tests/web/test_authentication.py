"""Passwords and the limit of requests, before any resource sees a request."""

from __future__ import annotations

from base64 import b64encode

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from fakedev.runtime.tls_settings import WebConfig
from fakedev.web.guard import AccessGuard, Authentication, has_hash
from tests.support.logged_errors import LoggedErrors
from tests.support.wire.http_channels import GET, POST, site
from tests.support.wire.http_wire import Peer

#: The cost is the least of bcrypt: made by ``bcrypt.hashpw(b"secret", bcrypt.gensalt(4))``.
SECRET = "$2b$04$fD3dVsk0GOwhDWFYkqe0fuHXwtiE3PtwAxQPTac32p01bA8VjYlO6"


class Checks:
    """Checks of passwords that end when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes]] = []
        self.waiting: list[Deferred[bool]] = []

    def __call__(self, hashed: str, password: bytes) -> Deferred[bool]:
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


def answered(peer: Peer) -> bytes:
    peer.read()
    return peer.transport.value()


class TestPasswords:
    """A site with one user, alice."""

    def setup_method(self) -> None:
        self.checks, self.clock = Checks(), Clock()
        self.site = site(self.clock)
        config = WebConfig(users={"alice": SECRET})
        guard = AccessGuard(token="long-token", has_passwords=True)
        self.site.guard = guard
        self.site.authentication = Authentication(config, guard, self.clock.seconds, self.checks)

    def teardown_method(self) -> None:
        while self.checks.waiting:
            self.checks.end()

    @pytest.mark.parametrize("header", [b"", b"Authorization: Basic\r\n", b"Authorization: Basic ?\r\n",
                                        b"Authorization: Bearer x\r\n", basic(b"alice"), basic(b"\xff:x")])  # fmt: skip
    def test_without(self, header: bytes) -> None:
        """The answer is that of the original, also to a path that is not there and to a change; nothing is checked."""
        for request in (GET, GET.replace(b"/page", b"/no"), POST):
            answer = Peer(self.site).ask(asking(header, request))
            assert (answer.status, answer.body, answer.headers["www-authenticate"]) == (401, b"Unauthorized\n", "Basic")
        assert self.checks.asked == []

    def test_a_right_one_is_checked_once(self) -> None:
        """Requests with it, however many, wait for the one check; later ones wait for nothing."""
        peers = [self.peer(host) for host in ("192.0.2.1", "192.0.2.2") for _ in range(50)]
        request = asking(basic(b"alice:secret"))
        assert not any(peer.send(request) for peer in peers)
        self.checks.end()
        assert all(b"content" in answered(peer) for peer in peers)
        assert Peer(self.site).ask(request).status == 200
        assert len(self.checks.asked) == 1

    @pytest.mark.parametrize("text", [b"alice:wrong", b"bob:secret", b"alice:", b"alice:secre\0"])
    def test_a_wrong_one(self, text: bytes) -> None:
        """Takes a check each time, also with a name that there is not."""
        for number in (1, 2):
            peer = Peer(self.site)
            peer.send(asking(basic(text)))
            self.checks.end()
            assert b"401 Unauthorized" in answered(peer)
            assert len(self.checks.asked) == number

    def test_a_change(self) -> None:
        """A user may change things without the token; a client with the token needs no password."""
        peer = Peer(self.site)
        peer.send(asking(basic(b"alice:secret"), POST))
        self.checks.end()
        assert b" 201 " in answered(peer)
        assert Peer(self.site).ask(asking(b"Authorization: Bearer long-token\r\n", POST)).status == 201

    def test_a_peer_that_leaves(self) -> None:
        """What it asked for is not done when the check ends."""
        peer = Peer(self.site)
        peer.send(asking(basic(b"alice:secret"), POST))
        peer.leave()
        self.checks.end()
        assert Peer(self.site).ask(asking(basic(b"alice:secret"), GET.replace(b"page", b"echo"))).body == b"0"

    @pytest.mark.parametrize("only_ends_input", [False, True])
    def test_peers_that_leave_before_their_check(self, only_ends_input: bool) -> None:
        """Their checks do not begin, and one that has begun is waited for: checks run one after the other.

        The end of input is that of a socket that was closed: the peer has left.
        """
        for number in range(60):
            left = Peer(self.site)
            left.send(asking(basic(b"alice:%d" % number)))
            if only_ends_input:
                left.end_input()
                assert left.transport.disconnected
            left.leave(aborted=only_ends_input)
        right = Peer(self.site)
        right.send(asking(basic(b"alice:secret")))
        assert [password for _, password in self.checks.asked] == [b"0"]
        self.checks.end()
        self.checks.end()
        assert b"content" in answered(right)
        assert [password for _, password in self.checks.asked] == [b"0", b"secret"]

    def test_hosts_take_turns(self) -> None:
        """A host that guesses does not keep another one waiting for more than one check."""
        for number in range(20):
            self.peer("192.0.2.1").send(asking(basic(b"alice:%d" % number)))
        scraper = self.peer("192.0.2.2")
        scraper.send(asking(basic(b"alice:secret")))
        for _ in range(3):
            assert b"content" not in answered(scraper)
            self.checks.end()
        assert b"content" in answered(scraper)

    def peer(self, host: str) -> Peer:
        """A peer of some host."""
        return Peer(self.site, host=host)

    def test_guesses_of_its_own_host(self) -> None:
        """A right password waits for the check that runs; refusals wait until no request of the host does."""
        guessing = [Peer(self.site) for _ in range(50)]
        for number, peer in enumerate(guessing):
            peer.send(asking(basic(b"alice:%d" % number)))
        right = Peer(self.site)
        right.send(asking(basic(b"alice:secret")))
        self.checks.end()
        self.checks.end()
        assert b"content" in answered(right)
        assert [password for _, password in self.checks.asked[:2]] == [b"0", b"secret"]
        assert not any(map(answered, guessing))
        for _ in range(48):
            self.checks.end()
        assert [b"401" in answered(peer) for peer in guessing] == [True, False, *[True] * 48]
        self.checks.end()
        assert b"401" in answered(guessing[1])
        assert Peer(self.site).ask(asking(basic(b"alice:secret"))).status == 200

    def test_a_refusal_of_a_host_waits_for_no_other(self) -> None:
        """Also not where the last request of its own host leaves."""
        guessing = [self.peer(host) for host in ("192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.1", "192.0.2.1")]
        for number, peer in enumerate(guessing):
            peer.send(asking(basic(b"alice:%d" % number)))
        self.checks.end()
        assert not answered(guessing[0])
        guessing[4].leave()
        guessing[3].leave()
        assert b"401" in answered(guessing[0])
        assert not answered(guessing[2])

    @pytest.mark.slow
    def test_too_many(self) -> None:
        """A bounded number of requests of a host, and of all, waits for checks; the oldest of the fullest host go."""
        peers = [self.peer(host) for host in ("192.0.2.1", "192.0.2.2", "192.0.2.3") for _ in range(53)]
        for number, peer in enumerate(peers):
            peer.send(asking(basic(b"alice:%d" % number)))
        assert len(self.checks.asked) == 1
        left = [place for place, peer in enumerate(peers) if b"503" not in answered(peer)]
        assert left == [0, *range(20, 53), *range(73, 106), *range(125, 159)]
        while self.checks.waiting:
            self.checks.end()
        assert len(self.checks.asked) == 101

    def test_too_many_refusals(self) -> None:
        """Kept refusals of a host count, too: the oldest is answered first."""
        peers = [Peer(self.site) for _ in range(52)]
        for number, peer in enumerate(peers[:51]):
            peer.send(asking(basic(b"alice:%d" % number)))
        self.checks.end()
        assert not any(map(answered, peers))
        peers[51].send(asking(basic(b"alice:51")))
        assert [b"401" in answered(peer) for peer in peers] == [True, *[False] * 51]

    def test_a_check_that_fails(self, logged_errors: LoggedErrors) -> None:
        """It is 500, and the next one begins."""
        broken, left, right = (Peer(self.site) for _ in range(3))
        for peer, text in ((broken, b"alice:1"), (right, b"alice:secret"), (left, b"alice:2")):
            peer.send(asking(basic(text)))
        self.checks.waiting.pop(0).errback(OSError())
        left.leave()
        self.checks.waiting.pop(0).errback(OSError())
        self.checks.end()
        assert b" 500 " in answered(broken) and b"content" in answered(right)
        assert len(logged_errors.take(OSError)) == 1

    def test_good_credentials_are_bounded(self) -> None:
        users = {f"user-{number}": SECRET for number in range(101)}
        config = WebConfig(users=users)
        self.site.authentication = Authentication(config, self.site.guard, self.clock.seconds, self.checks)
        for number in (*range(101), 100, 0):
            Peer(self.site).send(asking(basic(b"user-%d:secret" % number)))
            for check in self.checks.waiting:
                check.callback(True)
            self.checks.waiting.clear()
        assert len(self.checks.asked) == 102  # the first one was forgotten

    def test_an_unknown_name_costs_as_much_as_a_user(self) -> None:
        """The hash that it is checked against has the cost of some user's, always the same for a name."""
        users = {name: SECRET.replace("$04$", f"${cost}$") for name, cost in (("a", "05"), ("b", "11"))}
        config = WebConfig(users=users)
        self.site.authentication = Authentication(config, self.site.guard, self.clock.seconds, self.checks)
        for _ in range(2):
            for number in range(8):
                Peer(self.site).send(asking(basic(b"nobody-%d:x" % number)))
                self.checks.waiting.pop().callback(False)
        costs = [hashed[:7] for hashed, _ in self.checks.asked]
        assert set(costs) == {"$2b$05$", "$2b$11$"} and costs[:8] == costs[8:]
        assert all(len(hashed) == len(SECRET) for hashed, _ in self.checks.asked)


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
