"""Durable queues on their ports, while the disk hangs: answers wait, memory is bounded, and others are served."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from twisted.internet.defer import Deferred, maybeDeferred

from fakedev.lines.framing import MAX_BYTES as MAX_MESSAGE_BYTES
from fakedev.lines.outbox import MAX_HELD_BYTES, MAX_HELD_EVENTS_BYTES
from tests.support.queues.queue_transcripts import QueueConnection, QueuePorts

PUT = b"put sleep 0.1\n"
#: A message with a long id, which its answer repeats.
LONG_PUT = json.dumps({"op": "put", "id": "x" * 256, "queue": "sleep", "answer": "accepted"}).encode() + b"\n"


class DurablePorts(QueuePorts):
    """The ports of a durable queue whose disk writes when the test says so; the queue ``other`` is in memory."""

    def __init__(self, folder: Path) -> None:
        super().__init__(durable=str(folder))
        self._threads: list[tuple[Callable[[], None], Deferred[None]]] = []
        self.hub.logs.open(self.broker, self.clock, 1.7e9, self._in_thread, self.hub.turn_ended)

    def _in_thread(self, work: Callable[[], None]) -> Deferred[None]:
        self._threads.append((work, Deferred()))
        return self._threads[-1][1]

    def disk_writes(self) -> None:
        """The disk writes all that is pending, and what follows from it."""
        while self._threads:
            work, done = self._threads.pop(0)
            maybeDeferred(work).addBoth(done.callback)
            self.clock.advance(0)

    def send(self, connection: QueueConnection, data: bytes) -> None:
        connection.send(data)
        for _ in range(100):
            self.clock.advance(0)


@pytest.fixture
def ports(tmp_path: Path) -> Iterator[DurablePorts]:
    durable = DurablePorts(tmp_path)
    yield durable
    durable.hub.logs.close()


def held_bytes(connection: QueueConnection) -> int:
    return sum(len(chunk) for hold in connection.peer._backlog or () for chunk in hold.chunks)


def test_client_that_puts_on_is_not_read_while_the_disk_hangs(ports: DurablePorts) -> None:
    """Its held answers stay near their limit; when the disk writes it gets all of them, in order."""
    client = ports.client()
    for _ in range(40):
        ports.send(client, LONG_PUT * 50)
        if client.transport.producerState == "paused":
            break
    assert client.transport.producerState == "paused"
    accepted = ports.broker.snapshot("sleep", 0.0).waiting
    assert MAX_HELD_BYTES < held_bytes(client) <= MAX_HELD_BYTES + MAX_MESSAGE_BYTES
    assert client.told() == b""
    ports.disk_writes()
    answers = [json.loads(line)["job"] for line in client.told().splitlines()]
    assert answers[:accepted] == list(range(1, accepted + 1))
    assert client.transport.producerState == "producing"


def test_quit_and_the_end_of_input_while_the_disk_hangs(ports: DurablePorts) -> None:
    """As `printf 'put ...\nquit\n' | nc -N`: the answers come when the disk has written."""
    client = ports.client()
    ports.send(client, PUT + b"quit\n")
    client.end()
    assert (client.told(), client.is_closed) == (b"", False)
    ports.disk_writes()
    assert (client.told(), client.is_closed) == (b"ok 1\nok\n", True)


def test_others_are_served_while_the_disk_hangs(ports: DurablePorts) -> None:
    waiting, other, backend = ports.client(), ports.client(), ports.backend()
    ports.send(waiting, PUT * 1000)
    assert waiting.told() == b""
    assert other.say("put other 7") == ["ok 1001"]
    assert backend.say("take other")[0].startswith("ok 1001 ")
    assert backend.say("done 1001 0") == ["ok success"]
    assert other.told().startswith(b"ended 1001 success ")
    assert other.say("stats sleep")[-1].startswith("sleep state=open waiting=1000 ")
    ports.disk_writes()
    assert waiting.told().splitlines() == [b"ok %d" % job for job in range(1, 1001)]


@pytest.mark.slow
def test_events_for_a_client_are_bounded_while_the_disk_hangs(ports: DurablePorts) -> None:
    """Ends of its requests, whose texts are long: beyond the limit it is told so and closed."""
    client, backend = ports.client(), ports.backend()
    ports.send(client, PUT * 1000)
    ports.disk_writes()
    client.told()
    ports.send(backend, b'{"op":"take","id":1,"queue":"sleep","count":1000}\n')
    ports.disk_writes()
    most = 0
    for job in json.loads(backend.told())["jobs"]:
        report = {"op": "fail", "id": 1, "job": job["job"], "exit-code": 1, "reason": "x" * 6000}
        ports.send(backend, json.dumps(report).encode() + b"\n")
        if client.is_closed:
            break
        most = max(most, held_bytes(client))
    assert MAX_HELD_EVENTS_BYTES - MAX_MESSAGE_BYTES < most <= MAX_HELD_EVENTS_BYTES + MAX_MESSAGE_BYTES
    assert client.told() == b"error full over 4 MiB of answers and events wait for the disk\n"
    assert not backend.is_closed
    ports.disk_writes()
    assert client.told() == b""
    assert set(backend.told().splitlines()) == {b'{"id":1,"ok":true,"outcome":"failure"}'}
