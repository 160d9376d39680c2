"""The way to a frontend that has several addresses, and its token."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.protocol import Protocol

from fakedev.queues.backend import FrontendLost
from fakedev.queues.frontend_client import FrontendConnector, JsonClient
from fakedev.schema.files import read_token
from tests.support.deferreds import failure_result_of, success_result_of
from tests.support.queues.backend_stubs import FrontendReactor


class TestFrontendConnector:
    """The way to a frontend that has several addresses."""

    def setup_method(self) -> None:
        self.reactor = FrontendReactor()
        self.lookups: list[str] = []
        self.found: list[str] | OSError = ["::1", "127.0.0.1", "127.0.0.2"]
        self.connector = FrontendConnector(self.reactor, host="frontend", port=1, look_up=self.look_up)

    def look_up(self, reactor: Any, host: str) -> Deferred[list[str]]:
        self.lookups.append(host)
        return fail(self.found) if isinstance(self.found, OSError) else succeed(self.found)

    def connect(self, *refusing: str, taking: str = "") -> Deferred[Protocol]:
        """Connect where these addresses refuse, one after the other, and that one accepts."""
        connecting = Deferred.fromCoroutine(self.connector.connect(Protocol))
        for address in refusing:
            assert self.reactor.tcpClients[0][:2] == (address, 1)
            self.reactor.refuse(ConnectionRefusedError(111))
        if taking:
            assert self.reactor.tcpClients[0][:2] == (taking, 1)
            self.reactor.accept()
        assert self.reactor.tcpClients == []
        return connecting

    def test_one_address_after_the_other(self) -> None:
        """Without a wait between; the one that worked is used until it fails, then the name is looked up again."""
        success_result_of(self.connect("::1", taking="127.0.0.1"))
        success_result_of(self.connect(taking="127.0.0.1"))
        assert self.lookups == ["frontend"]
        failure_result_of(self.connect("127.0.0.1"), FrontendLost)
        success_result_of(self.connect(taking="::1"))
        assert self.lookups == ["frontend"] * 2

    def test_nothing_listens(self) -> None:
        failure = failure_result_of(self.connect(*self.found), FrontendLost)
        assert str(failure.value) == "cannot connect to frontend:1: no program listens there"

    def test_a_name_without_an_address(self) -> None:
        self.found = OSError(-2, "there is no such host")
        failure = failure_result_of(self.connect(), FrontendLost)
        assert str(failure.value) == "frontend has no address: there is no such host"

    def test_an_address_needs_no_lookup(self) -> None:
        """IPv4 or IPv6."""
        for host in ("127.0.0.1", "::1"):
            self.connector = FrontendConnector(self.reactor, host=host, port=1, look_up=self.look_up)
            success_result_of(self.connect(taking=host))
        assert self.lookups == []


class TestToken:
    """A frontend that asks for a token."""

    def setup_method(self) -> None:
        self.reactor = FrontendReactor()
        self.read: Callable[[], str] = lambda: "correct-horse"
        self.received: list[bytes] = []
        self.logged: list[str] = []

    def connect(self) -> Deferred[JsonClient[bytes]]:
        connector = FrontendConnector(self.reactor, host="127.0.0.1", port=1, read_token=self.read)
        return Deferred.fromCoroutine(
            connector.connect(lambda: JsonClient(bytes, self.received.append, self.received.append, log=self.note))
        )

    def note(self, text: str, **fields: object) -> None:
        self.logged.append(text.format(**fields))

    def test_it_is_sent_first(self) -> None:
        """The answer to it is not passed on, and no entry of the log has it."""
        connecting = self.connect()
        wire = self.reactor.accept()
        success_result_of(connecting).send(b'{"op":"list"}\n')
        assert b"".join(wire.writes) == b'{"op":"auth","token":"correct-horse"}\n{"op":"list"}\n'
        wire.say(b'{"ok":true}\n{"ok":true,"queues":[]}\n')
        assert self.received == [b'{"ok":true,"queues":[]}']
        assert len(self.logged) == 3
        assert not any("horse" in text for text in self.logged)

    def test_an_error_is_passed_on(self) -> None:
        for error in (b'{"ok":false,"error":{"code":"denied","message":"the token is wrong"}}', b"error busy full"):
            self.connect()
            self.reactor.accept().say(error + b"\n")
            assert self.received.pop() == error

    def test_a_token_that_cannot_be_read(self, tmp_path: Path) -> None:
        """It may be there later: the reason has the file's name, and nothing of its text."""
        path = tmp_path / "token"
        self.read = partial(read_token, str(path))
        reasons = []
        for text in (None, "short", "one two three", "\xff\xfe"):
            if text is not None:
                path.write_text(text, encoding="latin-1")
            reasons.append(str(failure_result_of(self.connect(), FrontendLost).value))
        assert reasons[0] == f"no token for 127.0.0.1:1: {path}: no such file"
        assert reasons[1] == reasons[2]
        assert reasons[2].endswith("token: a token is 8 to 1024 printable ASCII characters without blanks")
        assert reasons[3].endswith("is not UTF-8 text (byte 0xff)")
        path.write_text("  correct-horse\n")
        assert read_token(str(path)) == "correct-horse"
