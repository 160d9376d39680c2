"""Peers of the queue ports that send nothing, stop in the middle, or do not read: no other peer is affected."""

from __future__ import annotations

import json

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from fakedev.lines.port_limits import PATIENCE_SECONDS
from tests.queues.test_bare_queue import ANSWER, ASK, REQUEST, RESULT, WORK
from tests.support.deferreds import assert_no_result, success_result_of
from tests.support.queues.queue_transcripts import QueueConnection, QueuePorts
from tests.support.wire.line_peers import Descriptor


def deaf(ports: QueuePorts, is_backend: bool = False) -> Descriptor:
    peer = (ports.backends if is_backend else ports.clients).buildProtocol(None)
    transport = Descriptor(ports.clock, peer, room=0)
    peer.makeConnection(transport)
    return transport


class TestSilentPeers:
    """One silent client, or one silent backend, stopped the original's frontend."""

    def setup_method(self) -> None:
        self.ports = QueuePorts()

    def assert_served(self) -> None:
        """A client and a backend of the original are served at once."""
        client, backend = self.ports.client(), self.ports.backend()
        client.send(REQUEST)
        backend.send(ASK)
        assert backend.told() == WORK
        backend.send(RESULT)
        assert client.told() == ANSWER.replace(b"0.201675995", b"0")
        client.lose()
        backend.lose()

    def test_silent_from_the_start(self):
        silent = [self.ports.client() for _ in range(100)] + [self.ports.backend() for _ in range(100)]
        self.assert_served()
        assert self.ports.clock.getDelayedCalls() == []
        self.ports.clock.advance(3600)
        assert not any(each.is_closed for each in silent)

    def test_half_a_message(self):
        """The others are served; after its time it gets an error, and is disconnected."""
        for connection, message in ((self.ports.client(), REQUEST), (self.ports.backend(), ASK)):
            connection.send(message[:-1])
            self.assert_served()
            self.ports.clock.advance(9.9)
            assert not connection.is_closed
            self.ports.clock.advance(0.1)
            error = json.loads(connection.told())["Error"]
            assert (error, connection.is_closed) == ("a message must be complete within 10 s", True)

    def test_half_a_result(self):
        client, backend = self.ports.client(), self.ports.backend()
        client.send(REQUEST.replace(b"2.5", b"0"))
        backend.send(ASK)
        backend.send(RESULT[:-1])
        self.ports.clock.advance(10)
        assert backend.is_closed
        assert b"the backend disconnected before the run ended" in client.told()
        self.assert_served()

    def test_a_backend_that_hangs(self):
        """When its limit and the grace period have passed, its client gets a result without it."""
        client, backend = self.ports.client(), self.ports.backend()
        client.send(REQUEST)
        backend.send(ASK)
        self.ports.clock.advance(7.4)
        assert client.told() == b""
        self.ports.clock.advance(0.1)
        told = json.loads(client.told())
        assert (told["Timeout"], told["Retcode"]) == (2.5, 1)
        self.assert_served()
        backend.send(RESULT)
        assert (backend.told(), backend.is_closed) == (WORK, True)
        assert self.ports.counted() == {"timeout": 1, "success": 1}


class TestDeafPeers:
    """Peers that do not read, over Twisted's own buffers."""

    def setup_method(self) -> None:
        self.ports = QueuePorts()

    def test_a_client_that_asks_and_does_not_read(self):
        transport = deaf(self.ports)
        for _ in range(300):
            transport.protocol.dataReceived(b'{"op":"put","queue":"sleep","answer":"accepted"}\n')
        while not transport.protocol._is_full:
            transport.protocol.dataReceived(b'{"op":"help","id":1}\n' * 100)
            transport.turn()
        self.ports.clock.advance(PATIENCE_SECONDS)
        assert transport.aborted
        assert self.ports.counted() == {"cancelled": 300}
        assert self.ports.clock.getDelayedCalls() == []

    def test_a_client_that_does_not_read_its_results(self):
        """Results that it does not read are bounded; the backend continues."""
        transport, backend = deaf(self.ports), self.ports.backend()
        transport.protocol.dataReceived(b'{"op":"put","queue":"sleep","answer":"accepted"}\n' * 1000)
        while self.ports.broker.snapshot("sleep", 0).waiting < 1000:
            transport.turn()
        (answer,) = backend.say('{"op":"take","id":1,"queue":"sleep","count":1000}')
        finished = 0
        for job in json.loads(answer)["jobs"]:
            line = json.dumps({"op": "fail", "id": 1, "job": job["job"], "exit-code": 1, "reason": "x" * 900})
            backend.send(line.encode() + b"\n")
            self.ports.clock.advance(0)
            if transport.aborted:
                break
            assert json.loads(backend.told())["ok"]
            finished += 1
        assert transport.aborted
        assert finished < 400
        assert self.ports.counted() == {"failure": finished + 1, "cancelled": 999 - finished}

    def test_a_backend_that_takes_and_does_not_read(self):
        """The jobs that it holds are lost to it when it is cut, and offered again where a retry is left."""
        self.ports = QueuePorts(retries=1)
        client, transport = self.ports.client(), deaf(self.ports, is_backend=True)
        for number in range(200):
            client.say(json.dumps({"op": "put", "id": number, "queue": "sleep", "args": ["x" * 2000]}))
        while not transport.protocol._is_full:
            transport.protocol.dataReceived(b'{"op":"take","id":1,"queue":"sleep","count":50}\n')
            transport.turn()
        self.ports.clock.advance(PATIENCE_SECONDS)
        assert transport.aborted
        backend = self.ports.backend()
        jobs = json.loads(backend.say('{"op":"take","id":1,"queue":"sleep","count":1000}')[0])["jobs"]
        assert [job["job"] for job in jobs] == list(range(1, 201))


class TestDrain:
    """The end of the program."""

    def setup_method(self) -> None:
        self.ports = QueuePorts()
        self.client, self.backend, self.idle = self.ports.client(), self.ports.backend(), self.ports.backend()
        self.client.say("put sleep a")
        self.client.say("put sleep b")
        self.backend.say("take sleep")
        self.drained: Deferred[None] = self.ports.hub.drain(20)

    def test_what_waits_is_ended_and_nothing_taken_in(self):
        assert b'ended 2 cancelled exit-code=1 error="the frontend goes down"' in self.client.told()
        assert self.client.say("put sleep c") == ["error busy the frontend goes down"]
        assert self.idle.say("take sleep") == ["ok empty"]
        assert self.backend.say("resume") == ["error busy the frontend goes down"]
        bare = self.ports.client()
        bare.send(REQUEST)
        assert json.loads(bare.told())["Error"] == "the frontend goes down"
        assert_no_result(self.drained)

    def test_the_client_leaves_meanwhile(self):
        QueueConnection.lose(self.client)
        success_result_of(self.drained)


class TestTime:
    """The reactor's calls for the rules."""

    def test_no_timer_outlives_its_reason(self):
        ports = QueuePorts()
        client, backend = ports.client(), ports.backend()
        client.say("put sleep limit=1m")
        backend.say("take sleep")
        backend.say("pause other 1m")
        backend.say("done 1 0")
        backend.say("resume")
        backend.say("take sleep wait=1m")
        backend.lose()
        assert ports.clock.getDelayedCalls() == []

    def test_an_earlier_deadline_comes_first(self):
        ports = QueuePorts()
        first, second = ports.backend(), ports.backend()
        first.say("take sleep wait=1m")
        second.say("take sleep wait=1s")
        ports.clock.advance(1)
        assert (first.told(), second.told()) == (b"", b"ok empty\n")
        ports.clock.advance(59)
        assert first.told() == b"ok empty\n"

    def test_the_time_of_the_system_goes_back(self):
        ports = QueuePorts()
        client, backend = ports.client(), ports.backend()
        ports.clock.advance(100)
        client.say("put sleep answer=ended")
        ports.clock.rightNow -= 50
        backend.say("take sleep")
        backend.say("done 1 0")
        assert b"run-seconds=0 wait-seconds=0" in client.told()


class TestPause:
    """What has arrived when a deadline is due is served first, also after the process stood still."""

    def setup_method(self) -> None:
        self.ports = QueuePorts()
        self.client, self.backend = self.ports.client(), self.ports.backend()
        assert self.client.say("put sleep 1 limit=2s") == ["ok 1"]
        assert self.backend.say("take sleep") == ["ok 1 limit-seconds=2 attempt=1 1"]

    def test_a_report_after_a_pause(self) -> None:
        self.ports.clock.advance(30)
        assert self.backend.say("done 1 0") == ["ok success"]
        self.ports.clock.advance(60)
        assert self.ports.counted() == {"success": 1}

    def test_no_report_after_a_pause(self) -> None:
        self.ports.clock.advance(30)
        assert self.ports.counted() == {}
        self.ports.clock.advance(1)
        assert self.ports.counted() == {"timeout": 1}

    def test_a_take_that_waits(self) -> None:
        """A request that waits at the socket is handed out before the wait is over."""
        waiting = self.ports.backend()
        assert waiting.say("take other wait=3s") == []
        self.ports.clock.advance(30)
        assert self.client.say("put other x") == ["ok 2"]
        assert waiting.told() == b"ok 2 limit-seconds=0 attempt=1 x\n"

    def test_a_report_in_the_turn_of_the_deadline(self) -> None:
        clock = self.ports.clock
        clock.rightNow = 7.0
        turn(clock)
        assert self.backend.say("done 1 0") == ["ok success"]
        turn(clock)
        assert self.ports.counted() == {"success": 1}

    def test_a_report_that_waits_for_its_turn(self) -> None:
        """Others have used up the time of this turn: the report has arrived and is served later."""
        clock = self.ports.clock
        clock.rightNow = 7.0
        turn(clock)
        self.ports.clients.fair_share._spent = 1.0
        self.backend.send(b"done 1 0\n")
        assert self.backend.told() == b""
        for _ in range(4):
            turn(clock)
        assert self.backend.told() == b"ok success\n"
        assert self.ports.counted() == {"success": 1}


def turn(clock: Clock) -> None:
    """Run the calls that are due now; those that they make are for the next turn."""
    for call in [call for call in clock.calls if call.getTime() <= clock.seconds()]:
        if call.active():
            clock.calls.remove(call)
            call.called = 1
            call.func(*call.args, **call.kw)
