"""The way to a frontend that has several addresses."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.protocol import Protocol

from fakedev.net.backend.sources import FrontendLost
from fakedev.net.lines.client import FrontendConnector
from tests.support.backend_stubs import FrontendReactor
from tests.support.deferreds import failure_result_of, success_result_of


class TestFrontendConnector:
    """The way to a frontend that has several addresses."""

    def setup_method(self) -> None:
        """A name with three addresses."""
        self.reactor = FrontendReactor()
        self.lookups: list[str] = []
        self.found: list[str] | OSError = ["::1", "127.0.0.1", "127.0.0.2"]
        self.connector = FrontendConnector(self.reactor, host="frontend", port=1, look_up=self.look_up)

    def look_up(self, reactor: Any, host: str) -> Deferred[list[str]]:
        """The addresses of the name."""
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
        """The error has the last address's reason."""
        failure = failure_result_of(self.connect(*self.found), FrontendLost)
        assert str(failure.value) == "cannot connect to frontend:1: Connection refused"

    def test_a_name_without_an_address(self) -> None:
        """It may have one later."""
        self.found = OSError(-2, "Name or service not known")
        failure = failure_result_of(self.connect(), FrontendLost)
        assert str(failure.value) == "frontend has no address: Name or service not known"

    def test_an_address_needs_no_lookup(self) -> None:
        """IPv4 or IPv6."""
        for host in ("127.0.0.1", "::1"):
            self.connector = FrontendConnector(self.reactor, host=host, port=1, look_up=self.look_up)
            success_result_of(self.connect(taking=host))
        assert self.lookups == []
