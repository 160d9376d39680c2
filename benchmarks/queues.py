"""The work queue: how fast it hands jobs on, beside beanstalkd; how late; how deep; and what it holds."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from statistics import median
from time import perf_counter, sleep

from machine_stalls import stalls
from programs import OtherQueue, Program, beanstalkd, fakedev, other_queue, queue_load
from results import Section, Target, middle, ms

_CONFIGURATION = """
version: 1
fleet: {pools: [{name: dgx, nodes: 1, device: h100, devices-per-node: 8, identity: dcgm}]}
web: ["127.0.0.1:0"]
workloads: {listen: ["{folder}/workload.sock"]}
queues:
  names: {sleep: {}, deep: {}}
  listen-clients: ["127.0.0.1:0"]
  listen-backends: ["127.0.0.1:0"]
  max-connections: 20000
"""
_ROUNDS = 5
_SECONDS = 1.5
_DEEP = 100_000
#: Requests that one connection may have open are 4096.
_FILL = 4000
_IDLE = 10_000
_MILLION = 1_000_000


def speed() -> Section:
    """As many jobs as it can."""
    section = Section(
        "Jobs of a work queue",
        f"""
Jobs without any work, at the maximum rate. One load client (one process, the same for both servers) plays all
clients and all backends. fakedev and Debian's beanstalkd run alternately, medians of {_ROUNDS} rounds of
{_SECONDS} s. CPU is the server's processor time per job, *load* that of the load client. On a busy machine
neither server has a core of its own and the ratio of jobs/s says little, so the target applies to the worse ratio
of jobs/s and CPU. *Kept* is JSON lines on 64 connections of clients and 64 of backends with 16 jobs in flight
each. A client puts a request in when the result of another has arrived. A backend sends `done` for each job and
requests jobs with `take ... count=16`, or (*singly*) with one `take` per job. For beanstalkd it is put, reserve
and delete: a client learns when its request was accepted, but receives no result. *Bare* is the original's JSON
with a new connection for each request and for each job of a backend (64 clients, 16 backends), that is two
connections per job, and the same number for beanstalkd. The Go program did 740 of these on a machine of this
kind. *Go* is benchmarks/bare_reference.go, a short program for the same connections with one queue and no rules, in
place of beanstalkd: it is not the original, but shows what Go takes for them. *Bare lines* is
benchmarks/line_reference.py, bare LineReceivers of Twisted that read and write the same lines and have no rules: the
limit of what a queue in Twisted can reach. Its target is a ratio of CPU of 1.6.
""",
        ["jobs/s", "CPU", "load", "beanstalkd: jobs/s", "CPU", "load", "ratio", "ratio of CPU"],
    )
    kept = {"producers": 64, "workers": 64, "flight": 16}
    bare = {"producers": 64, "workers": 16}
    half = Target(0.5, most=False)
    with fakedev(_CONFIGURATION) as (ours,), other_queue("go") as go, other_queue("lines") as lines:
        for name, kind, their_kind, options, target in (
            ("kept", "lines", "beanstalkd", kept, half),
            ("kept, and bare lines", "lines", "lines", kept, Target(1 / 1.6, most=False)),
            ("kept, singly", "lines-singly", "beanstalkd", kept, None),
            ("bare", "bare", "bare-beanstalkd", bare, Target(2000, most=False, unit=" jobs/s")),
            ("bare, and Go", "bare", "go", bare, Target(1, most=False)),
        ):
            mine, other = _in_turn(ours, kind, {"go": go, "lines": lines}.get(their_kind, their_kind), options)
            rate = middle(mine, "per_second")
            figures, worse = _figures(mine), None
            if other:
                ratio = median(a["per_second"] / b["per_second"] for a, b in zip(mine, other, strict=True))
                cpu = median(b["cpu"] / a["cpu"] for a, b in zip(mine, other, strict=True))
                figures += [*_figures(other), f"{ratio:.2f}", f"{cpu:.2f}"]
                worse = min(ratio, cpu)
            figures += [""] * (len(section.columns) - len(figures))
            section.add(name, *figures, judged=rate if name == "bare" else worse, target=target)
    return section


def _in_turn(
    ours: Program, kind: str, theirs_or_kind: str | OtherQueue | None, options: dict[str, float]
) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    mine, other = [], []
    for _ in range(_ROUNDS):
        mine.append(queue_load(ours, kind, seconds=_SECONDS, **options))
        if isinstance(theirs_or_kind, OtherQueue):
            other.append(queue_load(theirs_or_kind, kind, seconds=_SECONDS, **options))
        elif theirs_or_kind is not None:
            with beanstalkd() as theirs:  # a new one: the last jobs of a load that ends come back to it
                if theirs is not None:
                    other.append(queue_load(theirs, theirs_or_kind, seconds=_SECONDS, **options))
    return mine, other


def _figures(rounds: list[dict[str, float]]) -> list[str]:
    return [
        f"{middle(rounds, 'per_second'):,.0f}",
        f"{middle(rounds, 'cpu') * 1e6:.0f} µs",
        f"{middle(rounds, 'load_cpu') * 1e6:.0f} µs",
    ]


def latency() -> Section:
    """How much later a result is there because of the queue."""
    section = Section(
        "Latency of a work queue",
        f"""
Latency is the time from the moment at which a request is due to be sent until its result arrives, without work in
between. 64 clients and 64 backends use kept connections with JSON lines, at half of the rate that they reached
immediately before, each with the given number of outstanding requests or jobs. {_ROUNDS} rounds of 3 s, after one
request of each client that is not counted; the median of the rounds' p50 and p99. beanstalkd runs alternately at
the same rate. It sends no result to the client, so its latency ends when the backend has the job. *Added*, to
which the target applies, is the median over the rounds of the additional time of fakedev: the time of the load
client and of the machine is in both. Each of the two processes needs its own core, and the load client never lets
its core sleep. *Machine* is the longest time, and the share of the time, for which a loop that only reads the
clock lost its core, on the worse of the cores: nothing that needs both cores can be on time more often than that.
With 16 outstanding the maximum is high because one read and one write carry many messages. At half of that rate
the messages arrive and leave singly and cost about three times as much, so neither process is half idle. The
target applies to 1 outstanding.
""",
        ["maximum", "rate", "latency", "beanstalkd", "added"],
    )
    with fakedev(_CONFIGURATION) as (ours,):
        for flight in (1, 16):
            kept = {"producers": 64, "workers": 64, "flight": flight}
            most, mine, other = [], [], []
            for _ in range(_ROUNDS):
                most.append(queue_load(ours, "lines", seconds=1.0, **kept)["per_second"])
                mine.append(queue_load(ours, "lines", seconds=3.0, rate=most[-1] / 2, **kept))
                with beanstalkd() as theirs:
                    if theirs is not None:
                        other.append(queue_load(theirs, "beanstalkd", seconds=3.0, rate=most[-1] / 2, **kept))
            maximum, rate = f"{median(most):,.0f} /s", f"{median(most) / 2:,.0f} /s"
            for which, limit in (("p50", 1), ("p99", 5)):
                pairs = zip(mine, other or [{which: 0.0}] * _ROUNDS, strict=True)
                added = median(ours_took[which] - theirs_took[which] for ours_took, theirs_took in pairs)
                target, judged = (_at_most(limit), added * 1000) if flight == 1 else (None, None)
                section.add(
                    f"{flight} under way, {which}", maximum, rate, ms(middle(mine, which)),
                    ms(middle(other, which)) if other else "", ms(added), judged=judged, target=target,
                )  # fmt: skip
    machine = stalls()
    section.add("machine", "", "", f"{ms(machine['longest'])}, {machine['share']:.1%}", "", "")
    return section


def _at_most(milliseconds: float) -> Target:
    return Target(milliseconds, unit=" ms")


class _Lines:
    """A connection that speaks JSON lines."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._file = self._socket.makefile("rb")

    def ask(self, *lines: bytes) -> list[bytes]:
        """The answers; news is thrown away."""
        self._socket.sendall(b"".join(lines))
        answers: list[bytes] = []
        while len(answers) < len(lines):
            answers += [line for line in [self._file.readline()] if b'"event"' not in line]
        return answers

    def close(self) -> None:
        """Close it."""
        self._file.close()
        self._socket.close()


def depth() -> Section:
    """Put and take while many wait."""
    count = 2000
    section = Section(
        "A deep work queue",
        f"""
One connection puts {count:,} requests in; another takes as many singly and sends `done`. This is measured
alternately with an empty queue and with a queue in which {_DEEP:,} wait: medians of {_ROUNDS} rounds. Then the
queries of the deep queue are measured once.
""",
        ["put", "take", "done", "slower by"],
    )
    with fakedev(_CONFIGURATION) as (ours,):
        clients, backends = ours.ready["queue-clients"][0], ours.ready["queue-backends"][0]
        fillers = [_Lines(clients) for _ in range(_DEEP // _FILL)]
        for filler in fillers:
            filler.ask(*[_put("deep", "accepted")] * _FILL)
        backend = _Lines(backends)
        rounds: dict[str, list[list[float]]] = {"sleep": [], "deep": []}
        for _ in range(_ROUNDS):
            for queue, measured in rounds.items():
                client = _Lines(clients)
                measured.append(_there_and_back(client, backend, queue, count))
                client.close()
        empty, deep = ([median(column) for column in zip(*measured, strict=True)] for measured in rounds.values())
        section.add("nothing waits", *map(_microseconds, empty), "1.00x")
        factor = sum(deep) / sum(empty)
        section.add(
            f"{_DEEP:,} wait", *map(_microseconds, deep), f"{factor:.2f}x", judged=factor, target=Target(1.2, unit="x")
        )
        for verb in ("stats", "list"):
            began = perf_counter()
            backend.ask(json.dumps({"op": verb, "id": 1, "queue": "deep"}).encode() + b"\n")
            seconds = perf_counter() - began
            section.add(f"`{verb} deep`", ms(seconds), "", "", "", judged=seconds * 1000, target=_at_most(20))
        for connection in (*fillers, backend):
            connection.close()
    return section


def _there_and_back(client: _Lines, backend: _Lines, queue: str, count: int) -> list[float]:
    """Seconds for one put, one take, and one done."""
    took = []
    began = perf_counter()
    client.ask(*[_put(queue, "accepted")] * count)
    took.append(perf_counter() - began)
    began = perf_counter()
    given = backend.ask(*[b'{"op":"take","id":1,"queue":"%b"}\n' % queue.encode()] * count)
    took.append(perf_counter() - began)
    jobs = [json.loads(line)["jobs"][0]["job"] for line in given]
    began = perf_counter()
    backend.ask(*(b'{"op":"done","id":1,"job":%d,"exit-code":0}\n' % job for job in jobs))
    took.append(perf_counter() - began)
    return [seconds / count for seconds in took]


def _put(queue: str, answer: str) -> bytes:
    return b'{"op":"put","queue":"%b","args":["0"],"answer":"%b"}\n' % (queue.encode(), answer.encode())


def _microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} µs"


def connections() -> Section:
    """Memory of connections that do nothing."""
    section = Section(
        "Idle connections of a work queue",
        "Resident memory (VmRSS) of the whole service, half of the connections on each port.",
        ["resident", "for each"],
    )
    with fakedev(_CONFIGURATION) as (ours,):
        ours.get("/health")
        base = ours.resident_bytes()
        section.add("none", f"{base / 1e6:.0f} MB", "")
        ports = [ours.ready["queue-clients"][0], ours.ready["queue-backends"][0]]
        for title, idle in (("silent", lambda each: None), ("that have spoken (`list`)", _spoken)):
            made = _idle_connections(ports, idle)
            size = ours.resident_bytes()
            section.add(
                f"{_IDLE:,} {title}", f"{size / 1e6:.0f} MB", f"{(size - base) / _IDLE / 1000:.1f} kB",
                judged=size / 1e6, target=Target(300, unit=" MB"),
            )  # fmt: skip
            for each in made:
                each.close()
    return section


def _idle_connections(ports: list[str], idle: Callable[[socket.socket], None]) -> list[socket.socket]:
    made = []
    for number in range(_IDLE):
        host, _, port = ports[number % 2].rpartition(":")
        made.append(socket.create_connection((host, int(port))))
        idle(made[-1])
    sleep(1)
    return made


def _spoken(each: socket.socket) -> None:
    each.sendall(b'{"op":"list","id":1}\n')
    each.recv(4096)


def memory() -> Section:
    """Memory over many jobs."""
    section = Section(
        "A million jobs",
        "JSON lines on kept connections, as above. Resident memory (VmRSS) after so many jobs were over.",
        ["resident", "grown by"],
    )
    with fakedev(_CONFIGURATION) as (ours,):
        done, first = 0.0, 0
        for goal in (_MILLION // 10, _MILLION // 2, _MILLION + _MILLION // 10):
            while done < goal:
                done += queue_load(ours, "lines", producers=64, workers=64, flight=16, seconds=5.0)["requests"]
            size = ours.resident_bytes()
            first = first or size
            grown = (size - first) / 1e6
            last = {"judged": grown, "target": Target(5, unit=" MB")} if done >= _MILLION else {}
            section.add(f"{done:,.0f} jobs", f"{size / 1e6:.1f} MB", f"{grown:.1f} MB", **last)
    return section
