"""Inference services: requests, what waits and runs, replicas, and the boards that follow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fakedev.fleet.fleet import Fleet
from fakedev.fleet.snapshot import fleet_from_bytes, fleet_to_bytes
from fakedev.fleet.spec.cluster_spec import ClusterSpec, ServiceKind
from tests.support.fleet.fleets import advance, make_fleet, pool_of, workload


def service(**more: Any) -> ServiceKind:
    """One that answers 10 requests a second of 100 tokens each at 10 ms a token: 10 of them run at once."""
    given: dict[str, Any] = {
        "requests": 10.0, "night": 1.0, "prompt_tokens": 100.0, "output_tokens": 100.0, "prefill_tokens": 1e5,
        "token_seconds": 0.01, "crowded_seconds": 0.0, "running": 64, "least": 1, "most": 1,
    }  # fmt: skip
    work = workload(profile="100", name="chat", repeat=0, namespace="serving", metrics={"memory": "80%"})
    return ServiceKind(work, **given | more)


def serving(*kinds: ServiceKind, nodes: int = 4, **more: Any) -> Fleet:
    return make_fleet(pool_of(nodes=nodes), cluster=ClusterSpec(services=kinds, failure_hours=1e9), **more)


def sums(fleet: Fleet, *names: str) -> list[float]:
    assert fleet.cluster is not None
    return [sum(getattr(replica, name) for replica in fleet.cluster.serving.replicas.values()) for name in names]


@pytest.mark.slow
def test_as_many_run_as_come_times_their_length() -> None:
    fleet = serving(service())
    assert fleet.cluster is not None
    seen, come = [], []
    for _ in range(600):
        fleet.advance()
        seen.append(sums(fleet, "running"))
        come.append(fleet.cluster.serving.demand(service(), 0.0, fleet.state.wall_seconds - 0.5))
    assert np.mean(come) == pytest.approx(10.0, rel=0.5)
    assert np.mean(seen[60:]) == pytest.approx(np.mean(come[60:]), rel=0.1)
    (replica,) = fleet.cluster.serving.replicas.values()
    assert replica.totals["finished"] == pytest.approx(sum(come), rel=0.1)
    assert replica.totals["generation_tokens"] == pytest.approx(100 * replica.totals["finished"])
    assert replica.buckets["e2e_request_latency"].sum() == pytest.approx(replica.totals["finished"])
    assert replica.sums["e2e_request_latency"] / replica.totals["finished"] == pytest.approx(1.0, rel=0.05)


@pytest.mark.slow
def test_what_has_no_room_waits() -> None:
    """Room is that among the running ones, and that in the cache; clients of too many give up."""
    for full in (service(running=6), service(cache_tokens=6 * 150.0)):
        fleet = serving(full)
        advance(fleet, 200)
        running, waiting, cache = sums(fleet, "running", "waiting", "cache")
        assert running == pytest.approx(6.0, rel=0.3)
        assert waiting == pytest.approx(60.0, rel=0.2)
        assert cache <= 1.0
        assert fleet.cluster is not None
        assert next(iter(fleet.cluster.serving.replicas.values())).totals["aborted"] > 30


def test_boards_follow_the_engine() -> None:
    """Few requests: a board that works now and then. Many: always, and with more of its engines. Nobody: not at all."""
    usage = {}
    for requests in (0.0, 0.3, 50.0):
        fleet = serving(service(requests=requests))
        advance(fleet, 30)
        assert fleet.cluster is not None
        (replica,) = fleet.cluster.serving.replicas.values()
        board = fleet.workloads.by_id[replica.workload_id].devices[0]
        usage[requests] = (float(fleet.usage_ratio[board]), replica.effort)
        assert fleet.usage_ratio[board] == pytest.approx(replica.busy, abs=1e-9)
        assert fleet.memory_used_bytes[board] > 0.7 * 800 * 2**20
    assert usage[0.0][0] == 0.0
    assert 0.05 < usage[0.3][0] < 0.7
    assert usage[50.0][0] > 0.99
    assert usage[50.0][1] > usage[0.3][1]


@pytest.mark.slow
def test_waiting_rises_before_replicas_come() -> None:
    """The autoscaler follows the queue; a new replica loads its model first; afterwards less waits."""
    fleet = serving(service(most=8, running=8, loading_seconds=60.0, requests=30.0), nodes=4)
    assert fleet.cluster is not None
    first = len(fleet.cluster.serving.replicas)
    advance(fleet, 600)
    replicas = fleet.cluster.serving.replicas.values()
    assert len(replicas) > first
    assert sums(fleet, "waiting")[0] < 5
    assert len({replica.running for replica in replicas}) == len(replicas)
    # Fewer requests: after five calm minutes replicas go, and the newest first.
    oldest = next(iter(fleet.cluster.serving.replicas))
    fewer = replace(service(most=8, running=8, loading_seconds=60.0), requests=3.0)
    fleet.cluster._services["chat"] = fewer
    before = len(replicas)
    advance(fleet, 600)
    assert next(iter(replicas)) is fleet.cluster.serving.replicas[oldest]
    assert len(replicas) < before


@pytest.mark.slow
def test_a_day() -> None:
    fleet = serving(service(night=0.2, most=8, running=16), tick_seconds=450.0, epoch_seconds=0.0)
    running = []
    for _ in range(192):
        fleet.advance()
        running.append(sums(fleet, "running")[0])
    hours = np.array(running).reshape(24, 8).mean(axis=1)
    assert hours.argmax() in range(11, 18)
    assert hours.min() < 0.4 * hours.max()


@pytest.mark.slow
def test_it_goes_on_from_its_bytes() -> None:
    fleet = serving(service(most=4, running=8))
    advance(fleet, 100)
    again = fleet_from_bytes(fleet_to_bytes(fleet))
    for _ in range(100):
        fleet.advance()
        again.advance()
        assert sums(again, "running", "waiting") == sums(fleet, "running", "waiting")
        assert again.power_watts.tolist() == fleet.power_watts.tolist()


@pytest.mark.slow
def test_one_after_the_other() -> None:
    """Whole requests: a board is in use for as long as they take, and else not at all."""
    images = service(running=1, requests=0.16, output_tokens=100.0, token_seconds=0.1, least=8, most=8)
    fleet = serving(images, tick_seconds=10.0)
    seen = []
    for _ in range(400):
        fleet.advance()
        seen.append([replica.busy for replica in fleet.cluster.serving.replicas.values()] if fleet.cluster else [])
    assert np.mean(seen[20:]) == pytest.approx(0.16 * 10.0 / 8, rel=0.2)
    assert 0.4 < np.mean(np.array(seen[20:]) == 0.0) < 0.8


@pytest.mark.slow
def test_a_load_balancer_prefers_idle_replicas() -> None:
    """Replicas are in use at more even intervals, and by fewer requests at once, than with arrivals at random."""
    images = service(running=1, requests=0.5, output_tokens=100.0, token_seconds=0.1, least=10, most=10)
    fleet = serving(images, tick_seconds=60.0)
    seen = []
    for _ in range(300):
        fleet.advance()
        seen.append([replica.busy for replica in fleet.cluster.serving.replicas.values()] if fleet.cluster else [])
    usage = np.array(seen[20:])
    per_minute = 0.5 * 60 / 10
    # The variance of a sum of as many lengths as a Poisson distribution has: 10 s, a fifth of them 3/7 more or less.
    at_random = per_minute * (10.0**2 + 0.2 * (10.0 * 3 / 7) ** 2) / 60.0**2
    within_minutes = (usage - usage.mean(axis=1, keepdims=True)).var()
    assert usage.mean() == pytest.approx(0.5, rel=0.15)
    assert within_minutes < 0.6 * at_random
    # Nobody waits long where half of the replicas are idle.
    assert fleet.cluster is not None
    assert max(replica.waiting for replica in fleet.cluster.serving.replicas.values()) < 3
    lengths = {round(replica.totals["finished"], -1) for replica in fleet.cluster.serving.replicas.values()}
    assert max(lengths) < 1.2 * min(lengths)


@pytest.mark.slow
def test_most_requests_are_alike() -> None:
    """Requests of 30 s at 40 % usage: half of them take within 8 % of that, some far less, over one minute or two."""
    images = service(running=1, requests=0.02, output_tokens=300.0, token_seconds=0.1, least=16, most=16)
    images = replace(images, workload=workload(profile="40", name="images", repeat=0, namespace="serving"))
    fleet = serving(images, tick_seconds=60.0)
    seen = []
    for _ in range(400):
        fleet.advance()
        seen.append(fleet.usage_ratio)
    usage = np.array(seen[20:])
    assert 0.3 < usage.max() <= 0.4 + 1e-9
    sums, minutes = [], []
    for board in usage.T:
        used = np.flatnonzero(board > 0.0)
        for run in np.split(used, np.flatnonzero(np.diff(used) > 1) + 1):
            if 0 < len(run) <= 2:
                sums.append(board[run].sum())
                minutes.append(len(run))
    # 40 % of 30 s is a fifth of a minute; reading adds next to nothing.
    sizes = np.array(sums) / 0.2
    assert np.quantile(sizes, [0.1, 0.25, 0.5, 0.75]) == pytest.approx([0.75, 0.92, 1.02, 1.12], abs=0.08)
    near = np.abs(sizes - 1.0) < 0.1
    # A request of 30 s crosses the end of a minute in half of the cases.
    assert np.mean(np.array(minutes)[near] == 2) == pytest.approx(0.5, abs=0.1)
