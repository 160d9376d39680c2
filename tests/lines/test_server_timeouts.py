"""How long peers of a line port may take for a message."""

from __future__ import annotations

import json

from twisted.internet.task import Clock

from fakedev.lines.json_lines import Reply
from tests.support.wire.line_peers import BARE, connect, make_factory


class TestTime:
    """A message that was begun must become complete; silence may last."""

    def setup_method(self):
        self.clock = Clock()
        self.factory = make_factory(self.clock)
        self.peer, self.transport = connect(self.factory)

    def test_silence_may_last(self):
        self.clock.advance(3600)
        self.peer.dataReceived(b"\n \n")
        self.clock.advance(3600)
        assert not self.transport.disconnecting
        assert self.clock.getDelayedCalls() == []

    def trickle(self, data, seconds):
        for byte in data:
            self.peer.dataReceived(bytes([byte]))
            self.clock.advance(seconds)

    def test_the_time_counts_from_the_first_byte(self):
        self.trickle(b"list ", 1.9)
        assert not self.transport.disconnecting
        self.trickle(b" ", 1)
        assert self.transport.value() == b"error too-long a message must be complete within 10 s\n"
        assert self.transport.disconnecting

    def test_each_message_has_its_own_time(self):
        for _ in range(5):
            self.peer.dataReceived(b"st\nli")
            self.clock.advance(9)
        assert not self.transport.disconnecting
        self.clock.advance(1)
        assert self.transport.disconnecting

    def test_a_pause_of_the_process(self):
        """What arrived meanwhile is read before the time is judged; what did not has a moment more."""
        self.peer.dataReceived(b"li")
        other, other_transport = connect(self.factory)
        other.dataReceived(b"li")
        self.clock.advance(40)
        self.peer.dataReceived(b"st\n")
        self.clock.advance(1)
        assert self.transport.value().startswith(b"ok")
        assert other_transport.value() == b"error too-long a message must be complete within 10 s\n"

    def test_input_that_waits_for_its_turn(self):
        """Others have used up the time of this turn: what has arrived is served before the time is judged."""
        self.peer.dataReceived(b"li")
        self.clock.rightNow = 9.99
        self.factory.fair_share._spent = 1.0
        busy = self.factory.fair_share._call = self.clock.callLater(0.02, self.factory.fair_share._next_turn)
        self.peer.dataReceived(b"st\n")
        self.clock.rightNow = 10.0
        self.clock.advance(0)
        assert busy.active()
        assert self.transport.value() == b""
        self.clock.advance(0.5)
        assert self.transport.value().startswith(b"ok")
        assert not self.transport.disconnecting

    def test_white_space_after_an_object_is_no_message(self):
        """A JSON peer whose workload runs may have sent a space, or no newline."""
        self.peer.dataReceived(b'{"op":"list"} ')
        self.clock.advance(3600)
        self.peer.dataReceived(b"\n \n ")
        self.clock.advance(3600)
        assert not self.transport.disconnecting

    def test_half_an_object_then_silence(self):
        """A bare peer receives 1, a JSON peer an object."""
        self.peer.dataReceived(BARE[:10])
        self.clock.advance(10)
        assert (self.transport.value(), self.transport.disconnecting) == (b"1", True)
        peer, transport = connect(self.factory)
        peer.dataReceived(b'{"op":"list",')
        self.clock.advance(10)
        assert json.loads(transport.value())["error"]["code"] == "too-long"

    def test_the_time_of_a_message_does_not_run_while_another_waits(self):
        self.peer.dataReceived(b"advance 1s\nli")
        self.clock.advance(60)
        self.peer.reply(self.peer.waiting[0], Reply())
        self.clock.advance(9)
        self.peer.dataReceived(b"st\n")
        assert not self.transport.disconnecting

    def test_seconds_can_be_set(self):
        peer, transport = connect(make_factory(self.clock, message_seconds=0.5))
        peer.dataReceived(b"li")
        self.clock.advance(0.5)
        assert b"within 0.5 s" in transport.value()

    def test_a_reload_changes_them(self):
        self.peer.dataReceived(b"li")
        self.factory.message.seconds = 2
        self.clock.advance(9)
        assert self.transport.value() == b""
        self.peer.dataReceived(b"st\nli")
        self.clock.advance(2)
        assert b"within 2 s" in self.transport.value()


class TestIdleAnswer:
    """The original's rule: a peer that stops inside its first message receives 1 after 150 ms."""

    def setup_method(self):
        self.clock = Clock()
        self.peer, self.transport = connect(make_factory(self.clock, idle_answer_seconds=0.150))

    def test_half_an_object(self):
        """It receives 1, and is disconnected."""
        self.peer.dataReceived(BARE[:-1])
        self.clock.advance(0.149)
        assert self.transport.value() == b""
        self.clock.advance(0.001)
        assert (self.transport.value(), self.transport.disconnecting, self.peer.left) == (b"1", True, 1)

    def test_something_else(self):
        """Also what is no object: the original knew no words."""
        self.peer.dataReceived(b"garbage")
        self.clock.advance(0.150)
        assert self.transport.value() == b"1"

    def test_each_byte_gives_time(self):
        """A message in many segments is waited for, up to the seconds of a message."""
        for byte in BARE:
            self.peer.dataReceived(bytes([byte]))
            self.clock.advance(0.140)
        assert (len(self.peer.bare), self.transport.value()) == (1, b"")
        self.clock.advance(3600)
        assert not self.transport.disconnecting

    def test_silence_and_words(self):
        """A peer that sent nothing may stay, and so may one that sent a line."""
        self.clock.advance(3600)
        self.peer.dataReceived(b"list\nli")
        self.clock.advance(9)
        assert not self.transport.disconnecting
