"""The limit of connections: for one more, the longest silent peer without work is closed, if there is one."""

from __future__ import annotations

import json
import socket

import pytest
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

from fakedev.lines.json_lines import Reply
from fakedev.lines.outbox import State
from fakedev.lines.port_limits import first_to_leave
from tests.support.application import application
from tests.support.wire.line_peers import BARE, RecordingProtocol, connect, make_factory

SILENT = b"error busy 2 connections are open, and this one was silent for the longest time\n"
FULL = b"error busy 2 connections are open and busy, so this one is refused\n"


def leave(peer: RecordingProtocol) -> None:
    peer.connectionLost(Failure(ConnectionDone()))


def test_the_longest_silent_one_is_closed():
    """Whatever is received from a peer, or sent to it, ends its silence."""
    factory = make_factory(max_connections=2)
    (first, first_transport), (_, second_transport) = connect(factory), connect(factory)
    first.dataReceived(b"list\n")
    _, third_transport = connect(factory)
    assert second_transport.value() == SILENT
    assert second_transport.disconnecting
    assert not first_transport.disconnecting
    assert not third_transport.disconnecting
    assert dict(factory.closed) == {"silent": 1}


def test_an_event_ends_the_silence():
    factory = make_factory(max_connections=2)
    first, _ = connect(factory)
    _, second_transport = connect(factory)
    first.send(b"news\n")
    connect(factory)
    assert second_transport.disconnecting


@pytest.mark.parametrize("work", ["a workload", "a waiting request", "a blocking request"])
def test_those_at_work_stay(work: str):
    """If all are at work, the new one is refused; when one has no work any more, it may be closed."""
    factory = make_factory(max_connections=2)
    peers = [connect(factory)[0] for _ in range(2)]
    for peer in peers:
        if work == "a workload":
            peer.working = True
            peer.dataReceived(b"list\n")
        else:
            peer.dataReceived(b'{"op":"advance","id":1,"duration":1}\n' if "waiting" in work else b"advance 1s\n")
    _, refused = connect(factory)
    assert refused.value() == FULL
    assert refused.disconnecting
    assert dict(factory.closed) == {"full": 1}
    peers[1].working = False
    if work == "a workload":
        peers[1].send(b"ended\n")
    else:
        peers[1].reply(peers[1].waiting[0], Reply("done"))
    connect(factory)
    assert peers[1].state >= State.CLOSING
    assert peers[0].state is State.OPEN


def test_one_that_has_left_is_not_looked_for():
    factory = make_factory(max_connections=2)
    first, _ = connect(factory)
    _, second_transport = connect(factory)
    leave(first)
    connect(factory)
    assert not second_transport.disconnecting
    assert not factory.closed


@pytest.mark.parametrize("begun", [b"", b"li", b"list\n", b'{"op":"list"}\n', b'{"op":', BARE[:20]])
def test_the_answer_is_in_the_peers_format(begun: bytes):
    """A peer that has sent nothing gets words; a bare one what its program expects."""
    factory = make_factory(max_connections=1)
    peer, transport = connect(factory)
    peer.dataReceived(begun)
    transport.clear()
    connect(factory)
    answer = transport.value()
    assert transport.disconnecting
    if begun.startswith(b'{"'):
        assert json.loads(answer)["error"]["code"] == "busy"
    else:
        assert answer == b"1" if begun.startswith(b"{") else answer.startswith(b"error busy")


def test_many_are_not_searched(monkeypatch: pytest.MonkeyPatch):
    """With thousands of peers at work, one silent one is found without looking at the others."""
    factory = make_factory(max_connections=3000)
    peers = [connect(factory)[0] for _ in range(3000)]
    for peer in peers:
        peer.working = peer is not peers[1500]
        peer.dataReceived(b"list\n")
    asked = []
    monkeypatch.setattr(RecordingProtocol, "is_working", lambda self: asked.append(self) or self.working)
    connect(factory)
    assert peers[1500].state >= State.CLOSING
    assert len(asked) <= 3


def test_input_at_the_socket_is_a_request():
    """A peer whose request has arrived, but was not read yet, is not silent."""
    factory = make_factory(max_connections=2)
    (first, first_transport), (second, _) = connect(factory), connect(factory)
    own, far = socket.socketpair()
    with own, far:
        far.sendall(b"list\n")
        first_transport.getHandle = lambda: own
        connect(factory)
        assert first.state is State.OPEN
        assert second.state >= State.CLOSING


QUEUES = """
version: 1
fleet: {seed: 7, pools: [{name: p, nodes: [a], device: h100, devices-per-node: 2, identity: dcgm}]}
web: ["127.0.0.1:9400"]
workloads: {listen: ["127.0.0.1:9500"], max-connections: 2}
queues: {names: [sleep], max-connections: 2}
"""


def test_work_on_each_port():
    """A workload, a request, a job and a wait for one keep their peers; metrics count what was closed."""
    with application(QUEUES) as app:
        worker, silent = app.connect(), app.connect()
        assert worker.say("run x devices=a/0 profile=10:0:0")[0].startswith("ok w")
        client, silent_client = app.client(), app.client()
        assert client.say("put sleep 1") == ["ok 1"]
        backend, waiting = app.backend(), app.backend()
        assert backend.say("take sleep") == ["ok 1 limit-seconds=0 attempt=1 1"]
        assert waiting.say("take sleep wait=1h") == []
        assert app.connect().lines() == []
        assert app.client().lines() == []
        (refused,) = app.backend().lines()
        assert refused == FULL.decode().strip()
        assert [peer.lines() for peer in (silent, silent_client)] == [[SILENT.decode().strip()]] * 2
        assert backend.say("done 1 0") == ["ok success"]
        assert app.backend().lines() == []
        assert backend.lines() == [SILENT.decode().strip()]
        assert not waiting.closed
        assert not worker.closed
        page = app.get("/-/metrics").body.decode()
        for port, reason in (("workloads", "silent"), ("clients", "silent"), ("backends", "full")):
            assert f'fakedev_line_connections_closed_total{{port="{port}",reason="{reason}"}} 1.0' in page


class TestHosts:
    def test_the_host_with_most_connections_makes_room(self):
        """A host with one silent connection keeps it, however long it was silent, while another host has several."""
        factory = make_factory(max_connections=4)
        (_, alone), (busy, _), (_, first), (_, second) = (connect(factory, host) for host in "abbb")
        busy.dataReceived(b"list\n")
        connect(factory, "c")
        assert [peer.disconnecting for peer in (alone, first, second)] == [False, True, False]

    def test_half_a_message_makes_room(self):
        """A host that begins messages and does not end them keeps no place that another host needs."""
        factory = make_factory(max_connections=3)
        (first, _), (_, alone) = connect(factory, "a"), connect(factory, "b")
        second, _ = connect(factory, "a")
        for peer in (first, second):
            peer.dataReceived(b"li")
        connect(factory, "c")
        assert [peer.state >= State.CLOSING for peer in (first, second)] == [True, False]
        assert not alone.disconnecting

    def test_no_host_loses_one_for_a_host_with_more(self):
        factory = make_factory(max_connections=3)
        _, alone = connect(factory, "b")
        for _ in range(2):
            working, _ = connect(factory, "a")
            working.working = True
            working.dataReceived(b"list\n")
        _, refused = connect(factory, "a")
        assert refused.disconnecting and not alone.disconnecting

    def test_hosts_lose_in_turn(self):
        """Several that leave at once are those that would leave one after the other."""
        silent = dict(zip(range(6), "aabbab", strict=True))
        assert first_to_leave(silent, {"a": 3, "b": 5}, 4) == [2, 3, 0, 5]

    def test_connections_that_are_gone_do_not_count(self):
        factory = make_factory(max_connections=3)
        gone = [connect(factory, "a")[0] for _ in range(2)]
        _, other = connect(factory, "b")
        for peer in gone:
            leave(peer)
        _, first = connect(factory, "a")
        connect(factory, "b")
        connect(factory, "c")
        assert [peer.disconnecting for peer in (other, first)] == [True, False]
        assert factory.origins == {"a": 1, "b": 2, "c": 1}

    def test_many_are_searched_once(self):
        """On a large port the peers that make room are looked for together; one that speaks is not one of them."""
        factory = make_factory(max_connections=1600)
        peers = [connect(factory, "a")[0] for _ in range(1600)]
        connect(factory, "b")
        peers[1].dataReceived(b"list\n")
        connect(factory, "b")
        assert [peer.state >= State.CLOSING for peer in peers[:4]] == [True, False, True, False]
