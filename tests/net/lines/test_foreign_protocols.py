"""A web page can make a browser send a form to a line port: its lines must not be served. TLS is refused."""

from __future__ import annotations

import pytest

from fakedev.wire.errors import ProtocolError
from fakedev.wire.fleet_verbs import WORKLOAD_GRAMMAR
from fakedev.wire.framing import Opening
from fakedev.wire.grammar import Grammar
from fakedev.wire.queue_verbs import QUEUE_BACKEND_GRAMMAR, QUEUE_CLIENT_GRAMMAR
from fakedev.wire.words import parse_words
from tests.support.workload_ports import WorkloadPortCase

#: As a browser sends a form of text/plain with a line of the workload port in it.
FORM = (
    b"POST / HTTP/1.1\r\nHost: 127.0.0.1:9500\r\nOrigin: http://evil.example\r\nContent-Type: text/plain\r\n"
    b"Content-Length: 45\r\n\r\nx=\r\nrun owned devices=a/0 profile=100 detach\r\n"
)


class TestWorkloadPort(WorkloadPortCase):
    """The whole application, with a peer that sends something else than lines."""

    @pytest.mark.parametrize("cut", range(1, len(FORM), 7))
    def test_the_body_of_a_form_is_not_served(self, cut: int) -> None:
        """One answer says where HTTP is, and the connection closes, wherever the bytes are cut."""
        for piece in (FORM[:cut], FORM[cut:]):
            self.peer.send(piece)
        (answer,) = self.peer.lines()
        assert answer.startswith("error unknown-verb this port takes lines, not HTTP")
        assert self.peer.transport.disconnecting
        self.app.tick(1)
        assert self.workloads == []

    def test_tls(self) -> None:
        """The first byte of a handshake is enough: no line end comes."""
        self.peer.send(b"\x16\x03\x01\x02\x00\x01\x00")
        assert self.peer.lines() == ["error bad-argument this port takes plain lines, not TLS"]
        assert self.peer.transport.disconnecting


@pytest.mark.parametrize("grammar", [WORKLOAD_GRAMMAR, QUEUE_CLIENT_GRAMMAR, QUEUE_BACKEND_GRAMMAR])
@pytest.mark.parametrize(
    "line", [b"GET / HTTP/1.1", b"POST /x?y=z HTTP/1.0", b"OPTIONS * HTTP/1.1\r", b"PRI * HTTP/2.0"]
)
def test_request_lines_end_the_connection(grammar: Grammar, line: bytes) -> None:
    """On every line port."""
    with pytest.raises(ProtocolError, match="not HTTP") as caught:
        parse_words(line, grammar)
    assert caught.value.fatal


def test_an_unknown_verb_is_no_reason_to_close() -> None:
    """A mistake of a person costs no connection."""
    with pytest.raises(ProtocolError) as caught:
        parse_words(b"GET things please", WORKLOAD_GRAMMAR)
    assert not caught.value.fatal


def test_tls_is_seen_before_a_whole_message() -> None:
    """Blank bytes before it change nothing."""
    with pytest.raises(ProtocolError, match="not TLS"):
        Opening().feed(b"\n\x16")
