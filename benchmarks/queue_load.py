"""Clients and workers of a work queue in one process of their own; jobs are no work at all.

``python benchmarks/queue_load.py lines HOST:PORT HOST:PORT --producers 64 --workers 64`` prints one line of JSON: how
many requests were over in a second, how long each took, and the processor time that this took here. The first address
is for clients, the second for workers; beanstalkd has one for both. Each client has ``--flight`` requests under way,
each worker asks for as many jobs; or, with ``--rate``, so many requests a second are put in, and a late one counts from
when it was due. The kinds with ``bare`` make a connection for each request, and for each job of a worker; they know no
rate, for such workers ask again and again while there is nothing to do.

What is sent is ready made, and of what comes only what must be known is looked for: with two cores this process has
the one that the server does not need.
"""

from __future__ import annotations

import argparse
import json
import re
import select
import socket
from collections import defaultdict
from dataclasses import dataclass, replace
from time import perf_counter, process_time

_READ_BYTES = 1 << 18


@dataclass(frozen=True)
class Speech:
    """What is said on kept connections.

    :param put: a request; %d is its number.
    :param take: a worker has room for one more job; for %d more when there is one in it.
    :param job: finds a job in what a worker is told, and perhaps the number of its request.
    :param done: the end of a job; %b is the job.
    :param over: finds the number of a request in what its client is told of its end; None: it is not told, and the
        end is when a worker says so.
    """

    put: bytes
    take: bytes
    job: re.Pattern[bytes]
    done: bytes
    over: re.Pattern[bytes] | None

    def asking(self, room: int) -> bytes:
        """A worker has room for some jobs."""
        return self.take % room if b"%d" in self.take else self.take * room


LINES = Speech(
    put=b'{"op":"put","id":%d,"queue":"sleep","args":["0"]}\n',
    take=b'{"op":"take","id":1,"queue":"sleep","wait":600,"count":%d}\n',
    job=re.compile(rb'"job":(\d+),"queue"()'),
    done=b'{"op":"done","id":2,"job":%b,"exit-code":0}\n',
    over=re.compile(rb'"id":(\d+),"ok":true,"job":\d+,"outcome":"success"'),
)
SPEECHES = {
    "lines": LINES,
    "lines-singly": replace(LINES, take=b'{"op":"take","id":1,"queue":"sleep","wait":600}\n'),
    # The end is only told as an event, which has no number of the client: the end is when the worker has the job.
    "lines-accepted": replace(
        LINES,
        put=b'{"op":"put","id":1,"queue":"sleep","args":["%d"],"answer":"accepted"}\n',
        job=re.compile(rb'"job":(\d+),"queue":"sleep","args":\["(\d+)"\]'),
        over=None,
    ),
    "beanstalkd": Speech(
        put=b"put 0 0 600 9\r\n%09d\r\n",
        take=b"reserve\r\n",
        job=re.compile(rb"RESERVED (\d+) 9\r\n(\d+)\r\n"),
        done=b"delete %b\r\n",
        over=None,
    ),
}


class Connection:
    """A kept connection."""

    def __init__(self, address: str) -> None:
        self.socket = connected(address)
        self._rest = b""

    def read(self, wanted: re.Pattern[bytes] | None) -> list[tuple[bytes, ...]]:
        """The groups of all that is wanted in what came; what came in two pieces is put together."""
        data = self.socket.recv(_READ_BYTES)
        if not data:
            raise ConnectionError("the server closed the connection")
        if wanted is None:
            return []
        data = self._rest + data
        found = list(wanted.finditer(data))
        self._rest = data[found[-1].end() if found else 0 :][-4096:]
        return [match.groups() for match in found]


class Load:
    """Clients and workers on kept connections."""

    def __init__(self, speech: Speech, clients: str, workers: str, producers: int, takers: int, flight: int) -> None:
        self.speech = speech
        self.producers = [Connection(clients) for _ in range(producers)]
        self.takers = {made.socket.fileno(): made for made in (Connection(workers) for _ in range(takers))}
        self.by_number = {made.socket.fileno(): made for made in self.producers}
        self.poll = select.epoll()
        for number in (*self.takers, *self.by_number):
            self.poll.register(number, select.EPOLLIN)
        for taker in self.takers.values():
            taker.socket.sendall(speech.asking(flight))
        self.flight = flight
        self.begun: dict[int, float] = {}
        self.latencies: list[float] = []
        self._next = list(range(producers))

    def put(self, place: int, count: int, due: float | None = None) -> None:
        """Let a client put requests in."""
        first, step = self._next[place], len(self.producers)
        self._next[place] += count * step
        numbers = range(first, first + count * step, step)
        self.begun.update(dict.fromkeys(numbers, due or perf_counter()))
        self.producers[place].socket.sendall(b"".join([self.speech.put % number for number in numbers]))

    def serve(self, seconds: float) -> list[int]:
        """Do what there is to do, or wait so long for it.

        :returns: the clients of the requests that are over, one for each.
        """
        over: list[int] = []
        for number, _ in _ready(self.poll, seconds):
            taker = self.takers.get(number)
            if taker is None:
                over += [int(groups[0]) for groups in self.by_number[number].read(self.speech.over)]
                continue
            jobs = taker.read(self.speech.job)
            if jobs:
                said = [self.speech.done % job for job, _ in jobs]
                room = self.flight if b"%d" in self.speech.take else len(jobs)
                taker.socket.sendall(b"".join(said) + self.speech.asking(room))
                over += [int(request) for _, request in jobs if request]
        now = perf_counter()
        self.latencies += [now - self.begun.pop(number) for number in over]
        return [number % len(self.producers) for number in over]

    def as_fast_as_it_goes(self, flight: int, seconds: float) -> None:
        """Put a request in for each that is over."""
        until = perf_counter() + seconds
        for place in range(len(self.producers)):
            self.put(place, flight)
        while perf_counter() < until:
            counts: dict[int, int] = defaultdict(int)
            for place in self.serve(1.0):
                counts[place] += 1
            for place, count in counts.items():
                self.put(place, count)
        self.finish()

    def finish(self) -> None:
        """Serve until all is over, so that nothing is left behind."""
        while self.begun:
            self.serve(1.0)

    def warm_up(self) -> None:
        """Let each client put a request in: from then on all connections are taken in, and that they were is past."""
        for place in range(len(self.producers)):
            self.put(place, 1)
        self.finish()
        self.latencies.clear()

    def at_a_rate(self, rate: float, seconds: float, sleeps: bool) -> None:
        """Put a request in at each time that one is due; in between look for what comes, usually without ever sleeping.

        Waking a core that sleeps takes a virtual machine so long that it would be the most of what is measured, here
        and in the server, whose every answer would wake this one.
        """
        self.warm_up()
        began = perf_counter()
        for count in range(int(rate * seconds)):
            due = began + count / rate
            while (early := due - perf_counter()) > 0:
                self.serve(early if sleeps else 0.0)
            self.put(count % len(self.producers), 1, due)
        self.finish()


@dataclass(frozen=True)
class BareSpeech:
    """What is said on connections that are made for one message or two.

    :param request: of a client.
    :param ask: of a worker.
    :param good: is in what a client is told when all is well.
    :param job: finds a job in what a worker is told.
    :param result: of a worker; %b is the job. It closes after it.
    """

    request: bytes
    ask: bytes
    good: bytes
    job: re.Pattern[bytes]
    result: bytes


BARE_SPEECHES = {
    "bare": BareSpeech(
        request=b'{\n\t"Queue": "sleep",\n\t"Args": [\n\t\t"0"\n\t],\n\t"Limit": 0\n}',
        ask=b'{\n\t"Queue": "sleep"\n}',
        good=b'"Retcode": 0',
        job=re.compile(rb'"Empty": false()'),
        result=b'{\n\t"Pod": "vm",\n\t"Node": "vm",\n\t"Device": ".",\n\t"Error": "",\n\t"Timeout": 0,\n\t"Runtime": 0,'
        b'\n\t"Retcode": 0%b\n}',
    ),
    "bare-beanstalkd": BareSpeech(
        request=b"put 0 0 600 1\r\n0\r\n",
        ask=b"reserve\r\n",
        good=b"INSERTED",
        job=re.compile(rb"RESERVED (\d+) "),
        result=b"delete %b\r\n",
    ),
}


class BareLoad:
    """Clients and workers with a connection for each request, on both sides."""

    def __init__(self, speech: BareSpeech, clients: str, workers: str) -> None:
        self.speech = speech
        self._clients = clients
        self._workers = workers
        self._poll = select.epoll()
        self._open: dict[int, tuple[socket.socket, float | None]] = {}
        self.latencies: list[float] = []

    def put(self) -> None:
        """A client with a request."""
        self._say(self._clients, self.speech.request, perf_counter())

    def ask(self) -> None:
        """A worker that asks for a job."""
        self._say(self._workers, self.speech.ask, None)

    def _say(self, address: str, message: bytes, begun: float | None) -> None:
        made = connected(address)
        made.send(message)
        self._open[made.fileno()] = (made, begun)
        self._poll.register(made, select.EPOLLIN)

    def serve(self, seconds: float) -> int:
        """Do what there is to do, or wait so long for it; the number of requests that are over."""
        over = 0
        for number, _ in _ready(self._poll, seconds):
            made, begun = self._open.pop(number)
            told = made.recv(1024)
            if begun is not None:
                if self.speech.good not in told:
                    raise ConnectionError(f"unexpected answer {told!r}")
                self.latencies.append(perf_counter() - begun)
                over += 1
            elif job := self.speech.job.search(told):
                made.send(self.speech.result % job[1])
            made.close()
            if begun is None:
                self.ask()
        return over

    def as_fast_as_it_goes(self, clients: int, workers: int, seconds: float) -> None:
        """Put a request in for each that is over."""
        until = perf_counter() + seconds
        for _ in range(clients):
            self.put()
        for _ in range(workers):
            self.ask()
        while perf_counter() < until:
            for _ in range(self.serve(1.0)):
                self.put()


def _ready(poll: select.epoll, seconds: float) -> list[tuple[int, int]]:
    """What is ready, within so many seconds; epoll itself counts in whole milliseconds."""
    if seconds:
        select.select([poll], [], [], seconds)
    return poll.poll(0)


def connected(address: str) -> socket.socket:
    """A connection to HOST:PORT."""
    host, _, port = address.rpartition(":")
    made = socket.create_connection((host, int(port)))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def measure(options: argparse.Namespace) -> list[float]:
    """Put requests in for some time; how long each took."""
    if options.kind in BARE_SPEECHES:
        bare = BareLoad(BARE_SPEECHES[options.kind], options.clients, options.workers_at)
        bare.as_fast_as_it_goes(options.producers, options.workers, options.seconds)
        return bare.latencies
    speech = SPEECHES[options.kind]
    load = Load(speech, options.clients, options.workers_at, options.producers, options.workers, options.flight)
    if options.rate:
        load.at_a_rate(options.rate, options.seconds, bool(options.sleeps))
    else:
        load.as_fast_as_it_goes(options.flight, options.seconds)
    return load.latencies


def main() -> None:
    """Measure, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=[*SPEECHES, *BARE_SPEECHES])
    parser.add_argument("clients", metavar="CLIENTS")
    parser.add_argument("workers_at", metavar="WORKERS")
    parser.add_argument("--producers", type=int, default=64)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--flight", type=int, default=16)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--sleeps", type=float, default=0.0, help="1: leave the core to others while none is due")
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    began, used = perf_counter(), process_time()
    latencies = sorted(measure(options))
    elapsed = perf_counter() - began
    count = len(latencies)
    print(
        json.dumps({
            "requests": count,
            "load_cpu": (process_time() - used) / count,
            "per_second": count / elapsed,
            "p50": latencies[count // 2],
            "p99": latencies[count * 99 // 100],
            "worst": latencies[-1],
        })
    )  # fmt: skip


if __name__ == "__main__":
    main()
