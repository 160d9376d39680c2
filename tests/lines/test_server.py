"""A peer of a line port speaks in words, JSON lines or bare objects, and is answered in the way it spoke."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.interfaces import IHalfCloseableProtocol, IPushProducer
from twisted.internet.task import Clock
from zope.interface.verify import verifyObject

from fakedev.fleet.verbs import WORKLOAD_VERBS
from fakedev.lines.framing import MAX_BYTES, Dialect
from fakedev.lines.grammar import ProtocolError
from fakedev.lines.json_lines import Notification, Reply
from fakedev.lines.outbox import State
from fakedev.lines.port_limits import LINGER_SECONDS
from fakedev.runtime.turns import ITurnObserver, ITurnTaker
from tests.support.examples import examples
from tests.support.queues.queue_transcripts import QueuePorts
from tests.support.wire.line_peers import BARE, connect, connect_descriptor, make_factory

STREAMS = [
    b"list\nstop w1\r\n\n lst\nhelp run\nrun x devices=a profile=1 limit=a:1\nquit\nlist\n",
    b'{"op":"list","id":1}\n{"op":"stop","workload":"x","id":"b"}\n\n{"op":NaN}\n{"op":"quit"}\n',
    b'{\n"op": "list"\n}{"op":"devices"}\nlist\n',
    b'list\n{"op":"list"}\n',
    BARE + b"\n\n",
    BARE + b" " + BARE,
    BARE + b"x",
    b'{"Name": 1}',
    b"list\n\xff\xfe\x00\nlist\nlist",
    b"\n \n",
    b'{"op":"list"',
    b"{",
]


def outcome(pieces):
    """What a peer gets and does for pieces and the end of its input."""
    peer, transport = connect(make_factory())
    for piece in pieces:
        peer.dataReceived(piece)
    peer.readConnectionLost()
    peer.factory.clock.advance(0)
    return transport.value(), peer.asked, peer.bare, transport.disconnecting, peer.left


@pytest.mark.parametrize("stream", STREAMS)
def test_every_cut_has_the_same_outcome(stream):
    """Answers, requests and the close do not depend on how the bytes are cut."""
    whole = outcome([stream])
    assert whole[3:] == (True, 1)
    for cut in range(len(stream) + 1):
        assert outcome([stream[:cut], stream[cut:]]) == whole
    assert outcome([bytes([byte]) for byte in stream]) == whole


@settings(max_examples=examples(200))
@given(st.binary(max_size=60) | st.text('{}"op:list\n \\', max_size=40).map(str.encode), st.sets(st.integers(0, 60)))
def test_any_bytes_have_the_same_outcome_in_any_pieces(stream, cuts):
    """Also for random bytes, and none of them causes an internal error."""
    places = [0, *sorted(cut for cut in cuts if 0 < cut < len(stream)), len(stream)]
    whole = outcome([stream])
    assert outcome([stream[a:b] for a, b in itertools.pairwise(places)]) == whole
    assert b"internal" not in whole[0]


def test_interfaces():
    """What the transport, the reactor and the fair share call is there."""
    peer, _ = connect(make_factory())
    for interface in (IHalfCloseableProtocol, IPushProducer, ITurnTaker, ITurnObserver):
        assert verifyObject(interface, peer)
    hub = QueuePorts().hub
    assert verifyObject(ITurnTaker, hub) and verifyObject(ITurnObserver, hub)


def test_states_only_move_on():
    clock = Clock()
    peer, transport = connect_descriptor(make_factory(clock), room=10**6)
    states = [peer.state]
    peer.hold()
    peer.dataReceived(b"x" * 70_000)
    states.append(peer.state)
    peer._backlog[0].release()
    states.append(peer.state)
    clock.advance(LINGER_SECONDS)
    assert [*states, peer.state] == [State.OPEN, State.FLUSHING, State.LINGERING, State.OVER]
    transport.turn(3)
    assert transport.taken == b"error too-long a line is at most 65536 bytes\n" and transport.disconnected


class TestWords:
    """Words, as people and netcat say them."""

    def setup_method(self):
        self.peer, self.transport = connect(make_factory())

    def told(self):
        value = self.transport.value().decode()
        self.transport.clear()
        return value

    def test_answers(self):
        self.peer.dataReceived(b"run x devices=card0 profile=98:1:0\nlist\n")
        assert self.told() == "ok run\nok 2 lines\none\ntwo\n"
        assert self.peer.dialect is Dialect.WORDS

    def test_a_bad_line_does_not_cost_the_connection(self):
        self.peer.dataReceived(b"lst\nrun\nstop x\n\xff\nlist\n")
        assert [line.split()[:2] for line in self.told().splitlines()][:4] == [
            ["error", "unknown-verb"],
            ["error", "bad-argument"],
            ["error", "unknown-name"],
            ["error", "bad-argument"],
        ]
        assert not self.transport.disconnecting

    def test_several_answers_leave_in_one_write(self):
        self.peer.dataReceived(b"list\nlist\nlst\n" * 50)
        assert len(self.transport.writes) == 1

    def test_help(self):
        self.peer.dataReceived(b"help\n")
        assert self.told().startswith(f"ok {len(WORKLOAD_VERBS)} lines\nrun NAME")
        self.peer.dataReceived(b"help stop\n")
        assert "stop ID|NAME" in self.told()
        self.peer.dataReceived(b"help stp\n")
        assert "error unknown-verb" in self.told()
        assert self.peer.asked == []

    def test_quit(self):
        self.peer.dataReceived(b"quit\nlist\n")
        assert self.told() == "ok\n"
        assert self.transport.disconnecting
        self.peer.dataReceived(b"list\n")
        assert (self.peer.asked, self.peer.left) == ([], 1)

    def test_the_longest_line(self):
        """65536 bytes are a line; one more is answered with too-long, and the connection is closed."""
        self.peer.dataReceived(b"stop " + b"x" * (MAX_BYTES - 5) + b"\n")
        assert self.told().startswith("error unknown-name")
        self.peer.dataReceived(b"list\nstop " + b"x" * (MAX_BYTES - 4))
        assert self.told() == "ok 2 lines\none\ntwo\nerror too-long a line is at most 65536 bytes\n"
        assert self.transport.disconnecting

    def test_too_long_a_line_with_its_end(self):
        self.peer.dataReceived(b"stop " + b"x" * (MAX_BYTES - 4) + b"\nlist\n")
        assert self.told().startswith("error too-long")
        assert self.peer.asked == []

    def test_news(self):
        self.peer.dataReceived(b"list\n")
        self.told()
        self.peer.notify(Notification("ended x 0 OK\n", {"event": "ended"}))
        assert self.told() == "ended x 0 OK\\n\n"

    def test_our_fault(self, logged_errors):
        """The peer receives internal and is disconnected, and the log has the error."""
        self.peer.dataReceived(b"show crash\nlist\n")
        assert self.told().startswith("error internal ")
        assert self.transport.disconnecting
        assert len(logged_errors.take(RuntimeError)) == 1
        assert self.peer.left == 1

    def test_a_fault_in_freeing(self, logged_errors):
        self.peer.peer_left = lambda: 1 / 0
        self.peer.dataReceived(b"quit\n")
        assert self.transport.disconnecting
        assert len(logged_errors.take(ZeroDivisionError)) == 1

    def test_a_later_answer_holds_up_the_next(self):
        self.peer.dataReceived(b"advance 1s\nlist\n")
        self.peer.dataReceived(b"stop x\n")
        assert self.told() == ""
        self.peer.reply(self.peer.waiting[0], Reply("1 s"))
        assert self.told() == "ok 1 s\nok 2 lines\none\ntwo\nerror unknown-name workload: no 'x'\n"

    def test_a_later_error(self):
        self.peer.dataReceived(b"advance 1s\n")
        self.peer.reply(self.peer.waiting[0], ProtocolError("limit", "no"))
        self.peer.reply(self.peer.waiting[0], Reply("again"))
        assert self.told() == "error limit no\n"

    def test_while_an_answer_waits_input_is_bounded(self):
        """Some more is read, so that the end of input is noticed; then the peer is not read any more."""
        self.peer.dataReceived(b"advance 1s\n")
        assert self.transport.producerState == "producing"
        self.peer.dataReceived(b"list\n" * 14000)
        assert self.transport.producerState == "paused"
        self.peer.reply(self.peer.waiting[0], Reply())
        while self.peer.factory.clock.getDelayedCalls():
            self.peer.factory.clock.advance(0)
        assert self.transport.producerState == "producing"
        assert len(self.peer.asked) == 14001


class TestJsonLines:
    """JSON lines, as programs say them."""

    def setup_method(self):
        self.peer, self.transport = connect(make_factory())

    def told(self):
        lines = self.transport.value().splitlines()
        self.transport.clear()
        return [json.loads(line) for line in lines]

    def test_answers_carry_the_id(self):
        self.peer.dataReceived(b'{"op":"list","id":1}\n{"op":"stop","workload":"x","id":"b"}\n{"op":"list"}\nlist\n')
        told = self.told()
        assert [answer.get("id") for answer in told] == [1, "b", None, None]
        assert [answer["ok"] for answer in told] == [True, False, True, False]
        assert told[1]["error"] == {"code": "unknown-name", "message": "workload: no 'x'"}

    def test_the_first_is_answered_at_its_brace(self):
        self.peer.dataReceived(b'{\n\t"op": "list",\n\t"id": 1\n}')
        assert self.told() == [{"id": 1, "ok": True, "lines": ["one", "two"]}]

    def test_requests_with_ids_may_overtake(self):
        """While one waits the next is served; without an id it holds up."""
        self.peer.dataReceived(b'{"op":"advance","duration":1,"id":1}\n{"op":"list","id":2}\n')
        assert [answer["id"] for answer in self.told()] == [2]
        self.peer.reply(self.peer.waiting[0], Reply())
        assert self.told() == [{"id": 1, "ok": True}]
        self.peer.dataReceived(b'{"op":"advance","duration":1}\n{"op":"list","id":2}\n')
        assert self.told() == []

    def test_requests_that_wait_are_bounded(self):
        line = b'{"op":"advance","duration":1,"id":1}\n'
        self.peer.dataReceived(line * 255)
        self.peer.factory.clock.advance(0)
        self.peer.dataReceived(line * 2)
        assert [answer["error"]["code"] for answer in self.told()] == ["full"]

    def test_news(self):
        self.peer.dataReceived(b'{"op":"list","id":1}\n')
        self.told()
        self.peer.notify(Notification("x", {"event": "ended", "code": 0}))
        assert self.told() == [{"event": "ended", "code": 0}]

    def test_too_long_is_told_in_json(self):
        self.peer.dataReceived(b'{"op":"run","name":"' + b"x" * MAX_BYTES)
        assert [answer["error"]["code"] for answer in self.told()] == ["too-long"]
        assert self.transport.disconnecting


class TestBare:
    """Bare JSON, as the original's programs send it."""

    def setup_method(self):
        self.peer, self.transport = connect(make_factory())

    def test_one_digit_in_one_write(self):
        """It comes when the port gives it, and then the connection is closed."""
        self.peer.dataReceived(BARE)
        assert (self.transport.writes, len(self.peer.bare)) == ([], 1)
        self.peer.notify(Notification("x", {}))
        self.peer.answer_bare(b"0")
        assert (self.transport.writes, self.transport.disconnecting) == ([b"0"], True)

    def test_white_space_after_it(self):
        self.peer.dataReceived(BARE + b"\r\n")
        self.peer.dataReceived(b"\n\t")
        assert not self.transport.disconnecting

    def test_what_cannot_be_used_is_told_1(self):
        for message in (b'{"Name":1}', b"{x}", BARE + b"x", BARE + BARE, b"{" + b" " * MAX_BYTES):
            peer, transport = connect(make_factory())
            peer.dataReceived(message)
            assert (transport.writes, transport.disconnecting, peer.left) == ([b"1"], True, 1)

    def test_a_connection_may_carry_several(self):
        peer, transport = connect(make_factory())
        peer.object_received = lambda message: peer.answer_bare(message[:1] + b"}", last=False)
        peer.dataReceived(b'{"a":1}\n{"b":2}')
        assert (transport.writes, transport.disconnecting) == ([b"{}{}"], False)
