"""The methods of a client, against the whole application in memory."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from fakedev.client import Clock, Fleet, NeverTrue, NoAnswer, RequestRefused
from fakedev.client.http import Reply
from tests.support.application import STANDING, MemoryApplication, application
from tests.support.wire.memory_requester import MemoryRequester

USAGE = "DCGM_FI_DEV_GPU_UTIL"
IDLE = "0:0:0"


@pytest.fixture
def app() -> Iterator[MemoryApplication]:
    """Four devices whose clock stands."""
    with application(STANDING) as running:
        yield running


@pytest.fixture
def fleet(app: MemoryApplication) -> Fleet:
    return Fleet("http://localhost:9400/", requester=MemoryRequester(app))


def test_work(fleet: Fleet) -> None:
    """Started, shown and stopped, by what started it, by its id, or by its name."""
    started = fleet.run("train", devices="a/0", profile="95:0:0", run_time_limit="1h")
    assert (started["name"], started["run-time-limit"]) == ("train", 3600.0)
    fleet.advance("10s")
    assert fleet.scrape("a").value(USAGE, gpu=0) == 95
    assert [workload["id"] for workload in fleet.workloads()] == [started["id"]]
    assert fleet.workload("train")["state"] == fleet.workload(started)["state"] == "running"
    assert fleet.stop(started) == [started["id"]]
    other = fleet.run("other/one", devices=["a/0", "a/1"], profile="5:0:0")
    assert fleet.stop("other/one") == [other["id"]]
    fleet.advance(1)
    assert fleet.workloads() == []


def test_faults(fleet: Fleet) -> None:
    """Injected, seen in the page, explained, in the journal, and cleared: one, and all."""
    fault = fleet.fault("xid", devices="a/0", code=79)
    fleet.fault("power-cap", devices="b/*", watts=200, duration="5m")
    fleet.advance("1s")
    assert [fault["kind"] for fault in fleet.faults(sort="-kind")] == ["xid", "power-cap"]
    assert fleet.device("a/0")["device"] == "a/0"
    assert {each["metric"] for each in fleet.explain("b/0")} >= {"power_watts"}
    assert [each["metric"] for each in fleet.explain("b/0", "power")] == ["power_watts"]
    assert fleet.stop_advance() is False
    assert [each["kind"] for each in fleet.journal(kind="xid", devices="a/0")] == ["xid"]
    assert fleet.journal(kind="xid", node="b") == []
    assert fleet.clear(fault) == [fault["id"]]
    assert len(fleet.clear()) == 1


def test_clock(app: MemoryApplication, fleet: Fleet) -> None:
    """Where it is; its speed; an advance returns where it arrived."""
    assert fleet.clock() == Clock(0, 0.0, 1.0, 0.0, 1800000000.0)
    assert fleet.advance("1m").tick == 60
    assert fleet.advance(0.5).tick == 61
    assert fleet.speed(2).speed == 2.0
    app.tick(3)
    assert fleet.clock().tick == 67


@pytest.mark.slow
def test_reset(fleet: Fleet) -> None:
    """No workloads and no faults are left; the clock goes on."""
    fleet.run("train", devices="a/0", profile="95:0:0")
    fleet.fault("fan", devices="a/0")
    fleet.advance("10m")
    warm = fleet.device("a/0")["quantities"]["temperature_celsius"]
    assert fleet.reset() == 601
    assert fleet.advance("1s").tick == 601
    assert fleet.device("a/0")["quantities"]["temperature_celsius"] < warm - 20
    assert (fleet.workloads(), fleet.faults()) == ([], [])


def test_wait_until(fleet: Fleet) -> None:
    """Steps until the condition is true, none when it is true already; the error says what it gave last."""
    fleet.run("train", devices="a/0", profile="95:0:0", ttl="30s")

    def is_over() -> bool:
        return not fleet.workloads()

    assert fleet.wait_until(is_over, advance="7s") is True
    assert fleet.clock().tick == 35
    assert fleet.wait_until(lambda: "at once") == "at once"
    assert fleet.clock().tick == 35
    with pytest.raises(NeverTrue, match=r"^power is still not true after 10s of simulated time: it gave 0$"):
        fleet.wait_until(power, advance="4s", at_most=10)
    assert fleet.clock().tick == 45  # the last step is shorter
    with pytest.raises(ValueError, match="more than 0"):
        fleet.wait_until(power, advance=0)


def power() -> int:
    return 0


def test_refusals(fleet: Fleet) -> None:
    """The API's words, its code and the name at fault."""
    with pytest.raises(RequestRefused, match="no device '7'") as refused:
        fleet.run("train", devices="a/7", profile=IDLE)
    assert (refused.value.status, refused.value.code, refused.value.where) == (400, "unknown-name", "devices")
    with pytest.raises(RequestRefused, match="did you mean profile") as refused:
        fleet.run("train", devices="a/0", profil=IDLE)
    assert (refused.value.status, refused.value.code) == (400, "bad-argument")
    with pytest.raises(RequestRefused, match="no duration"):
        fleet.advance("soon")
    with pytest.raises(RequestRefused) as refused:
        fleet.page(path="/queues/metrics")
    assert (refused.value.status, refused.value.code) == (404, "")
    with pytest.raises(RequestRefused, match="--scenario"):
        fleet.scenario()


def test_other_words_of_the_api(app: MemoryApplication, fleet: Fleet) -> None:
    """Devices, nodes, queues, and the configuration that is read again."""
    assert [device["device"] for device in fleet.devices(node="b", sort="-device")] == ["b/1", "b/0"]
    assert [node["node"] for node in fleet.nodes()] == ["a", "b"]
    assert fleet.queues() == []
    assert "dgx" not in fleet.page()
    app.text = app.text.replace("[a, b]", "[a, b, c]")
    fleet.reload()
    fleet.advance(1)
    assert len(fleet.nodes()) == 3
    app.text = "version: 1\nflet: {}\n"
    with pytest.raises(RequestRefused, match="flet"):
        fleet.reload()


@pytest.mark.slow
def test_collections_are_read_page_by_page(app: MemoryApplication) -> None:
    """Longer ones than the API gives at once; and not more than what is asked for."""
    requester = MemoryRequester(app)
    fleet = Fleet("http://localhost", requester=requester)
    for number in range(502):
        fleet.run(f"w{number}", devices="a/0", profile=IDLE)
    requester.asked.clear()
    assert [workload["name"] for workload in fleet.workloads()] == [f"w{number}" for number in range(502)]
    assert [each.partition("?")[2] for each in requester.asked] == ["limit=500&offset=0", "limit=500&offset=500"]
    assert len(fleet.journal(limit=3)) == 3
    assert requester.asked[-1] == "GET /api/v1/journal?limit=3&offset=0"


def test_token() -> None:
    with application(STANDING.replace('"127.0.0.1:9400"', '{listen: "127.0.0.1:9400", token: secret-word}')) as app:
        with pytest.raises(RequestRefused) as refused:
            Fleet("http://localhost", requester=MemoryRequester(app)).clear()
        assert refused.value.status == 401
        assert Fleet("http://localhost", "secret-word", requester=MemoryRequester(app)).clear() == []


def test_another_service() -> None:
    requester = SimpleNamespace(ask=lambda *_: Reply(200, {}, b"<html>"))
    with pytest.raises(NoAnswer, match="is this the API of fakedev"):
        Fleet("http://localhost", requester=requester).clock()
