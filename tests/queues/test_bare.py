"""The original's programs on the ports of the work queue: the bytes that were captured of them, in any pieces."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from fakedev.lines.framing import MAX_BYTES
from tests.queues.test_bare_queue import ANSWER, ASK, EMPTY, REFUSED, REQUEST, RESULT, UNKNOWN, WORK
from tests.support.queues.queue_transcripts import QueueConnection, QueuePorts

Cut = Callable[[bytes], list[bytes]]


def cuts(message: bytes) -> list[list[bytes]]:
    """A message whole, in two at each byte, in odd segments, and byte by byte."""
    return [
        [message],
        *([message[:place], message[place:]] for place in range(1, len(message))),
        *([message[start : start + size] for start in range(0, len(message), size)] for size in (1, 7, 13)),
    ]


@pytest.mark.parametrize("which", ["request", "ask", "result"])
def test_captured_bytes_in_segments(which: str) -> None:
    """However a message is cut: the answers are those of the original's frontend, each in one write."""
    messages = {"request": REQUEST, "ask": ASK, "result": RESULT}
    for pieces in cuts(messages[which]):
        said = {name: [message] for name, message in messages.items()} | {which: pieces}
        ports = QueuePorts()
        client, backend = ports.client(), ports.backend()
        for piece in said["request"]:
            client.send(piece)
        ports.clock.advance(0.201675995)
        for piece in said["ask"]:
            backend.send(piece)
        assert (backend.transport.writes, backend.is_closed) == ([WORK], False)
        for piece in said["result"]:
            backend.send(piece)
        assert (client.transport.writes, client.is_closed) == ([ANSWER], True)
        assert (backend.transport.writes, backend.is_closed) == ([WORK], True)


class TestBareClient:
    """What an original client may do."""

    def setup_method(self) -> None:
        self.ports = QueuePorts(max_waiting=2)
        self.client = self.ports.client()

    def refused(self, message: bytes, error: str) -> None:
        """A new client that sends this gets the error in one answer, and is disconnected."""
        client = self.ports.client()
        client.send(message)
        (written,) = client.transport.writes
        told = json.loads(written)
        assert (told["Error"][: len(error)], told["Retcode"], client.is_closed) == (error, 1, True)

    def test_an_unknown_queue(self):
        """To the byte as the original."""
        self.client.send(REQUEST.replace(b"sleep", b"nope"))
        assert (self.client.transport.writes, self.client.is_closed) == ([REFUSED], True)

    def test_what_cannot_be_taken_in(self):
        for message, error in (
            (b'{"Queue": "sleep", "Limit": "x"}', "Limit: must be a number, not a text"),
            (b'{"Queue": "sleep"', ""),
            (b'{"Queue": x}', "not JSON"),
            (b'{"Queue": "' + b"x" * MAX_BYTES + b'"}', f"an object is at most {MAX_BYTES} bytes"),
        ):
            if error:
                self.refused(message, error)
        for _ in range(2):
            self.ports.client().send(REQUEST)
        self.refused(REQUEST, "Queue 'sleep' is full: 2 requests wait")
        assert self.ports.counted() == {"refused": 1}

    def test_white_space_may_follow_and_nothing_else(self):
        self.client.send(REQUEST + b"\n\t ")
        assert (self.client.transport.writes, self.client.is_closed) == ([], False)
        self.client.send(REQUEST)
        (written,) = self.client.transport.writes
        assert json.loads(written)["Error"] == "a connection of the original carries one request"
        assert self.client.is_closed
        assert self.ports.counted() == {"cancelled": 1}

    def test_it_leaves_while_it_waits(self):
        """The end of input, or a lost connection, takes the request away at once."""
        for leave in (QueueConnection.end, QueueConnection.lose):
            client = self.ports.client()
            client.send(REQUEST)
            leave(client)
            assert client.transport.writes == []
            backend = self.ports.backend()
            backend.send(ASK)
            assert backend.transport.writes == [EMPTY]
        assert self.ports.counted() == {"cancelled": 2}
        assert self.ports.broker.statistics("sleep").disconnects == 2

    def test_it_leaves_while_its_job_runs(self):
        """The bare backend is not notified; its result is dropped, and counted nowhere."""
        backend = self.ports.backend()
        self.client.send(REQUEST)
        backend.send(ASK)
        self.client.lose()
        assert not backend.is_closed
        backend.send(RESULT)
        assert (backend.transport.writes, backend.is_closed) == ([WORK], True)
        assert self.ports.counted() == {"cancelled": 1}


class TestBareBackend:
    """What an original backend may do."""

    def setup_method(self) -> None:
        self.ports = QueuePorts()
        self.backend = self.ports.backend()

    def client_told(self, client: QueueConnection) -> dict[str, object]:
        (written,) = client.transport.writes
        told: dict[str, object] = json.loads(written)
        return told

    def test_nothing_to_do(self):
        """The original's words for an empty queue and an unknown one, then the end."""
        for ask, answer in ((ASK, EMPTY), (ASK.replace(b"sleep", b"nope"), UNKNOWN)):
            backend = self.ports.backend()
            backend.send(ask)
            assert (backend.transport.writes, backend.is_closed) == ([answer], True)

    def test_a_paused_queue_is_empty(self):
        self.ports.client().send(REQUEST)
        self.ports.backend().say("pause sleep")
        self.backend.send(ASK)
        assert self.backend.transport.writes == [EMPTY]

    def test_it_leaves_with_a_job(self):
        """The client has its error at once, as from the original."""
        for leave in (QueueConnection.end, QueueConnection.lose):
            client, backend = self.ports.client(), self.ports.backend()
            client.send(REQUEST)
            backend.send(ASK)
            leave(backend)
            told = self.client_told(client)
            assert (told["Error"], told["Retcode"]) == ("the backend disconnected before the run ended", 1)
        assert self.ports.counted() == {"lost": 2}

    def test_a_result_that_cannot_be_read(self):
        for result in (b'{"Runtime": "x"}', b"x", b'{"Retcode": 1e99}'):
            client, backend = self.ports.client(), self.ports.backend()
            client.send(REQUEST)
            backend.send(ASK)
            backend.send(result)
            assert (backend.transport.writes, backend.is_closed) == ([WORK], True)
            assert self.client_told(client)["Error"] == "the backend disconnected before the run ended"

    def test_results(self):
        """What the original's backend may report about a run, and what the client receives."""
        for fields, outcome, told in (
            ({"Retcode": 3}, "failure", {"Retcode": 3, "Error": "exit code 3", "Timeout": 0}),
            ({"Error": "no FILENAME match"}, "failure", {"Retcode": 1, "Error": "no FILENAME match", "Timeout": 0}),
            ({"Timeout": 2.5, "Runtime": 2.5}, "timeout", {"Retcode": 1, "Timeout": 2.5, "Runtime": 2.5}),
        ):
            ports = QueuePorts()
            client, backend = ports.client(), ports.backend()
            client.send(REQUEST)
            backend.send(ASK)
            backend.send(json.dumps(fields).encode())
            answer = self.client_told(client)
            assert {name: answer[name] for name in told} == told
            assert ports.counted() == {outcome: 1}

    def test_a_job_that_it_could_not_read_is_for_others(self):
        """A shorter one behind it overtakes it; a backend with another protocol gets it."""
        large, small = self.ports.client(), self.ports.client()
        large.send(json.dumps({"Queue": "sleep", "Args": ["x" * 1000]}).encode())
        small.send(REQUEST)
        self.backend.send(ASK)
        assert self.backend.transport.writes == [WORK]
        other = self.ports.backend()
        other.send(ASK)
        assert other.transport.writes == [EMPTY]
        assert "x" * 1000 in self.ports.backend().say("take sleep")[0]

    def test_the_limit_that_a_request_has_counts_for_what_can_be_read(self):
        """Also where it is the queue's: what is handed out is never too long."""
        for length in range(900, 960):
            ports = QueuePorts(run_time_limit_seconds=0.123456789012)
            ports.client().send(json.dumps({"Queue": "sleep", "Args": ["x" * length]}).encode())
            backend = ports.backend()
            backend.send(ASK)
            assert len(backend.told()) <= 1024
