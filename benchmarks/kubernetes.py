"""Clusters of simulated nodes: memory, processor time, requests and delays of what follows them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from statistics import median, quantiles
from time import monotonic, sleep

from clusters import ClusterServer, Stalls, cluster_server, following
from programs import Program, fakedev
from results import Section, Target, ms

_NODES = 1000
_PODS = 4000
#: Pods that are bound one after the other; the others are there before.
_BOUND = 1000
_PODS_PER_SECOND = 50.0
_FAULTS = 20
_QUIET_SECONDS = 30.0
_BEATS_PER_SECOND = 40.0
_SHARDS = 4
_SHARDED_NODES = 5000
_MEGABYTES = Target(350, unit=" MB")


def followed() -> Section:
    """A cluster of 1,000 nodes, from its beginning."""
    section = Section(
        f"Kubernetes: {_NODES:,} simulated nodes and {_PODS:,} pods",
        f"""
Nodes of 8 H100s without kubelets (as KWOK has them), followed by one process at 50 requests a second. Made by
`python benchmarks/run.py --write kubernetes kubernetes-shards kubernetes-node without-cluster`. The API server
is the one of the tests (tests/support/kube), in memory, in a process of its own, on loopback, without TLS; a real one:
`kubernetes-real`. Its nodes have 9 kB and its pods 5 kB, as those of real clusters with their managed fields.
*Nodes with GPUs*: fakedev runs, and {_NODES:,} nodes are created at once; the time until the last has its capacity.
*Pods bound*: {_BOUND:,} pods with 2 GPUs each, {_PODS_PER_SECOND:.0f} a second, beside {_PODS - _BOUND:,} that are
there. The pages of the nodes with pods that are not seen yet are scraped after each tick, one after the other over one
connection; the delay is from the pod's creation to the end of the first page with its name. *Fault*: {_FAULTS} lost
GPUs, each on another node; the delay until the node's allocatable GPUs have changed in the API server, from the request
for the fault, and from the tick in which it begins (one a second). *Nothing changes*: {_QUIET_SECONDS:.0f} s.
*Heartbeats*: as many seconds, with {_BEATS_PER_SECOND:.0f} changes of nodes a second that concern only the time, as by
KWOK. *Started again*: a second process, which finds all this. *Held* is the longest time that a step of the reactor
took, by the processor time of its thread (benchmarks/watched_serve.py), and how often it was over 20 ms:
`fakedev_reactor_delay_max_seconds` also has the time in which other programs used the core. Other programs did so while
this was measured: the load average was {os.getloadavg()[1]:.1f} when it began.
""",
        ["measured", "held"],
    )
    with cluster_server() as server:
        with fakedev(following(server), watched=True) as (program,):
            stalls = Stalls(program)
            _first_nodes(section, server, program, stalls)
            _pods_bound(section, server, program, stalls)
            _faults(section, server, program, stalls)
            _steady(section, server, program, stalls)
        _started_again(section, server)
    return section


def _row(
    section: Section,
    name: str,
    measured: str,
    stalls: Stalls,
    judged: float | None = None,
    target: Target | None = None,
) -> None:
    section.add(name, measured, stalls.since(), judged=judged, target=target)


def _first_nodes(section: Section, server: ClusterServer, program: Program, stalls: Stalls) -> None:
    sleep(2.0)
    before = server.requests()
    server.do("nodes", count=_NODES)
    seconds = server.wait_until_ready(_NODES)
    sleep(2.0)
    _row(section, "nodes with GPUs, after", f"{seconds:.1f} s", stalls, seconds, Target(60, unit=" s"))
    grown = _grown(before, server.requests())
    _row(section, "requests for each node", f"{grown / _NODES:.3f}", stalls, grown / _NODES, Target(1))


def _pods_bound(section: Section, server: ClusterServer, program: Program, stalls: Stalls) -> None:
    server.do("pods", count=_PODS - _BOUND, nodes=_NODES)
    sleep(5.0)
    _row(section, f"{_PODS - _BOUND:,} pods created at once", "", stalls)
    used, began = program.cpu_seconds(), monotonic()
    server.do("bind", count=_BOUND, nodes=_NODES, rate=_PODS_PER_SECOND)
    delays = _delays(server, program, _BOUND)
    share = (program.cpu_seconds() - used) / (monotonic() - began)
    worst = quantiles(delays, n=100)[98]
    figures = f"p50 {median(delays):.2f} s, p99 {worst:.2f} s, longest {max(delays):.2f} s"
    _row(section, "pod bound to its name on pages", figures, stalls, worst, Target(2, unit=" s"))
    section.add("CPU meanwhile, the scrapes among it", f"{share:.1%}", "")


def _delays(server: ClusterServer, program: Program, count: int) -> list[float]:
    """How long it took until pages had the names of pods that are being bound."""
    pages = _Pages(program)
    waiting: dict[str, tuple[str, float]] = {}
    delays: list[float] = []
    known = 0
    for _ in pages.ticks():
        for name, node, seconds in server.do("bound", since=known):
            waiting[name] = node, seconds
            known += 1
        for name, (node, seconds) in list(waiting.items()):
            if f'pod="{name}"'.encode() in pages.get(f"/nodes/{node}/metrics"):
                delays.append(monotonic() - seconds)
                del waiting[name]
        if len(delays) == count:
            return delays
    raise RuntimeError("the pages do not have the names of all pods")


class _Pages:
    """The pages of a program, over one connection."""

    def __init__(self, program: Program) -> None:
        host, _, port = program.web.rpartition(":")
        self._connection = HTTPConnection(host, int(port))

    def get(self, path: str) -> bytes:
        self._connection.request("GET", path)
        return self._connection.getresponse().read()

    def tick(self) -> int:
        return int(json.loads(self.get("/api/v1/clock"))["tick"])

    def ticks(self, most: int = 120) -> Iterator[int]:
        """Each tick, when it has ended."""
        before = self.tick()
        for _ in range(most):
            while (now := self.tick()) == before:
                sleep(0.01)
            yield now
            before = now


def _faults(section: Section, server: ClusterServer, program: Program, stalls: Stalls) -> None:
    pages = _Pages(program)
    of_requests, of_ticks = [], []
    for number in range(_FAULTS):
        sleep(0.5 + number * 0.618 % 1)  # at every phase of a tick
        node, asked_at = f"node-{number}", monotonic()
        program.post("/api/v1/faults", {"kind": "lost", "devices": f"{node}/7"})
        before = pages.tick()
        while pages.tick() == before:
            sleep(0.002)
        begun_at = monotonic()
        while (found := server.do("allocatable", name=node))[0] != "7":
            sleep(0.005)
        of_requests.append(found[1] - asked_at)
        of_ticks.append(max(0.0, found[1] - begun_at))
    figures = f"median {median(of_requests):.2f} s, longest {max(of_requests):.2f} s"
    _row(section, "fault, from its request, to allocatable", figures, stalls)
    figures = f"median {ms(median(of_ticks))}, longest {ms(max(of_ticks))}"
    section.add(
        "fault, from its tick, to allocatable", figures, "", judged=max(of_ticks), target=Target(1, unit=" s")
    )


def _steady(section: Section, server: ClusterServer, program: Program, stalls: Stalls) -> None:
    sleep(3.0)
    before, used = server.requests(), program.cpu_seconds()
    sleep(_QUIET_SECONDS)
    share = (program.cpu_seconds() - used) / _QUIET_SECONDS
    grown = _grown(before, server.requests())
    _row(section, "nothing changes: CPU", f"{share:.1%} of a core", stalls, share, Target(0.10))
    section.add("nothing changes: requests but the lease's", f"{grown}", "", judged=grown, target=Target(0))
    server.do("beat", rate=_BEATS_PER_SECOND)
    used = program.cpu_seconds()
    sleep(_QUIET_SECONDS)
    share = (program.cpu_seconds() - used) / _QUIET_SECONDS
    server.do("beat", rate=0)
    grown = _grown(before, server.requests())
    _row(section, "heartbeats: CPU", f"{share:.1%} of a core", stalls, share, Target(0.10))
    section.add("heartbeats: requests but the lease's", f"{grown}", "", judged=grown, target=Target(0))
    resident = program.resident_bytes() / 1e6
    _row(section, "resident memory, all nodes' pages scraped", f"{resident:.0f} MB", stalls, resident, _MEGABYTES)
    program.get("/metrics")
    resident = program.resident_bytes() / 1e6
    name = "resident memory, and /metrics, of 50 MB"
    _row(section, name, f"{resident:.0f} MB", stalls, resident, _MEGABYTES)


def _started_again(section: Section, server: ClusterServer) -> None:
    before = server.requests()
    with fakedev(following(server), watched=True) as (program,):
        stalls, began = Stalls(program), monotonic()
        # It waits for the lease of the first process, if that did not give it back.
        while _own(program, "fakedev_workloads", 'state="running"') < _PODS and monotonic() < began + 60:
            sleep(0.1)
        seconds = program.start_seconds + monotonic() - began
        sleep(2.0)
        after = server.requests()
        patches = sum(after[key] - before.get(key, 0) for key in after if key.startswith("patch"))
        _row(section, "started again: all pods run, after", f"{seconds:.1f} s", stalls)
        # The faults ended with the first process: their nodes have all GPUs again.
        name = f"started again: patches, without those of the {_FAULTS} faults"
        section.add(name, f"{patches - _FAULTS}", "", judged=patches - _FAULTS, target=Target(0))
        resident = program.resident_bytes() / 1e6
        section.add("started again: resident memory", f"{resident:.0f} MB", "", judged=resident, target=_MEGABYTES)


def _own(program: Program, metric: str, labels: str) -> float:
    page = program.get("/-/metrics").decode()
    found = re.search(rf"^{metric}\{{{labels}\}} (\S+)$", page, re.MULTILINE)
    return float(found[1]) if found else 0.0


def _grown(before: dict[str, int], after: dict[str, int]) -> int:
    return sum(after.values()) - sum(before.values())


def shards() -> Section:
    """A cluster of 5,000 nodes in four processes."""
    section = Section(
        f"Kubernetes: {_SHARDED_NODES:,} nodes in {_SHARDS} shards",
        f"""
As above, {_SHARDED_NODES:,} nodes of 8 H100s, followed by {_SHARDS} processes (`fleet: shard: K/{_SHARDS}`) at 50
requests a second each, with 4 pods on each node. All of them and the API server share the two cores of this machine:
the time is that of a machine that is busy. *Nodes with GPUs* is the time since the nodes were created until all have
their capacity; *quiet* the share of a core of a shard while nothing changes, over {_QUIET_SECONDS:.0f} s; *held* as
above, from the start to the end.
""",
        ["nodes", "resident", "quiet", "held"],
    )
    with cluster_server() as server, ExitStack() as stack:
        programs = []
        for number in range(_SHARDS):
            configuration = following(server, fleet=f", shard: {number}/{_SHARDS}")
            programs += stack.enter_context(fakedev(configuration, watched=True))
        stalls = [Stalls(program) for program in programs]
        sleep(2.0)
        server.do("nodes", count=_SHARDED_NODES)
        seconds = server.wait_until_ready(_SHARDED_NODES)
        server.do("pods", count=4 * _SHARDED_NODES, nodes=_SHARDED_NODES)
        sleep(30.0)
        used = [program.cpu_seconds() for program in programs]
        sleep(_QUIET_SECONDS)
        for number, program in enumerate(programs):
            share = (program.cpu_seconds() - used[number]) / _QUIET_SECONDS
            resident = program.resident_bytes() / 1e6
            nodes = _own_total(program, "fakedev_kubernetes_nodes")
            section.add(
                f"shard {number}", f"{nodes:.0f}", f"{resident:.0f} MB", f"{share:.1%}", stalls[number].since(),
                judged=resident, target=_MEGABYTES,
            )  # fmt: skip
        section.add(
            "nodes with GPUs, after", f"{seconds:.1f} s", "", "", "", judged=seconds, target=Target(60, unit=" s")
        )
    return section


def _own_total(program: Program, metric: str) -> float:
    found = re.search(rf"^{metric} (\S+)$", program.get("/-/metrics").decode(), re.MULTILINE)
    return float(found[1]) if found else 0.0
