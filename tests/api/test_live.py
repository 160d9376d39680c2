"""The live stream, and the history behind the charts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.api.live import MAX_VIEWERS
from fakedev.fleet.charts import ABSENT, MAX_TICKS, MIN_TICKS, History, TickValues, rounded, summary
from fakedev.fleet.entities.reindex import Reindex
from fakedev.fleet.entities.state import Level, State
from fakedev.fleet.levels import HEALTH, health, worst_of
from fakedev.fleet.ticker import Ticker
from fakedev.web.encoding import PIECE
from tests.support.application import SMALL, STANDING, MemoryApplication, application
from tests.support.wire.http_wire import Peer

GET = b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n"


@pytest.fixture
def app() -> Iterator[MemoryApplication]:
    """The application with two nodes of two devices."""
    with application() as running:
        yield running


def viewer(app: MemoryApplication) -> Peer:
    peer = app.http()
    peer.send(GET)
    return peer


def events(peer: Peer) -> list[tuple[str, Any]]:
    """The events that a viewer has been sent, by name and value."""
    peer.read()
    _, _, body = peer.transport.value().partition(b"\r\n\r\n")
    found = []
    for event in filter(None, body.decode().split("\n\n")):
        name, data = event.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def ticks(peer: Peer) -> list[int]:
    return [value["tick"] for name, value in events(peer) if name == "tick"]


def wait(app: MemoryApplication, peers: list[Peer], seconds: float) -> None:
    """Let time pass in which these read what comes."""
    for _ in range(round(seconds * 4)):
        app.reactor.advance(0.25)
        for peer in peers:
            peer.read()


def test_an_advance_is_in_the_frames(app: MemoryApplication) -> None:
    """Its first and its target tick while it runs, null before and after."""
    peer = viewer(app)
    wait(app, [peer], 1.5)
    assert app.ask("PATCH", "/api/v1/clock", {"speed": 0}).status == 200
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ticker, "_advance_slice", lambda _: None)  # an advance that takes long
        client = app.http()
        client.send(b'POST /api/v1/clock HTTP/1.1\r\nHost: localhost\r\nContent-Length: 15\r\n\r\n{"advance": 60}')
        wait(app, [peer], 1.5)
        advances = [value["advance"] for name, value in events(peer) if name == "tick"]
        client.leave()
    first = app.fleet.state.tick
    assert advances[0] is None and advances[-1] == [first, first + 60]


def test_outline_and_frames(app: MemoryApplication) -> None:
    """The list of devices comes first; then a frame for each tick, in the order of the devices."""
    app.ask("POST", "/api/v1/workloads", {"name": "x", "devices": ["b/1"], "profile": "60:0:0"})
    peer = viewer(app)
    wait(app, [peer], 3)
    head = peer.transport.value().partition(b"\r\n\r\n")[0].lower()
    assert b"content-type: text/event-stream" in head
    assert b"content-encoding" not in head
    assert b"content-length" not in head
    (name, outline), *frames = events(peer)
    assert name == "fleet"
    assert outline["nodes"] == [["a", 0], ["b", 0]]
    assert outline["pools"][0][:3] == ["p", "h100-sxm5-80gb", 2]
    assert "divided" not in outline
    assert [name for name, _ in frames] == ["tick"] * len(frames)
    assert ticks(peer) == [0, 1, 2, 3]
    last = frames[-1][1]
    assert last["usage"] == [0, 0, 0, 60]
    assert last["power"][3] > last["power"][0] > 0
    assert last["health"] == [0] * 4
    assert last["workloads"] == 1
    assert last["fleet"][0] == pytest.approx(0.15)
    assert last["clock"][3] > last["clock"][0] > 0
    assert last["memory"][3] > last["memory"][0]
    assert last["work"] == [[0], [0], [0], [1, "x"]]
    peer.leave()


def test_health_of_a_board_is_the_worst_of_its_instances() -> None:
    """An error of one instance is an error of its board, in the frame, in the list of devices, and of that instance."""
    pools = "{name: p, nodes: [a], device: a100, devices-per-node: 2, mig: [3g.20gb, 1g.5gb]}"
    text = SMALL[: SMALL.index("  pools:")] + f"  pools: [{pools}]" + SMALL[SMALL.index("\nweb:") :]
    with application(text) as app:
        app.ask("POST", "/api/v1/workloads", {"name": "w", "devices": ["a/1/0"], "profile": "60:0:0"})
        app.ask("POST", "/api/v1/faults", {"kind": "xid", "devices": ["a/1/1"], "code": 31})
        peer = viewer(app)
        wait(app, [peer], 2)
        last = events(peer)[-1][1]
        assert [HEALTH[each] for each in last["health"]] == ["well", "error"]
        assert [HEALTH[each] for each in last["instance-health"]] == ["well", "well", "well", "error"]
        assert last["instance-usage"] == [0, 0, 60, 0]
        assert last["work"] == [[0], [1, "w"]]
        assert json.loads(app.ask("GET", "/api/v1/devices/a/1").body)["health"] == "error"
        assert json.loads(app.ask("GET", "/api/v1/devices/a/0").body)["health"] == "well"
        peer.leave()


def test_outline_of_divided_devices() -> None:
    """Into how many instances each device is divided; tiles are no instances, but parts; limits that hold now."""
    pools = "{name: p, nodes: [a], device: a100, devices-per-node: 2, mig: [3g.20gb, 1g.5gb]"
    pools += ", devices: [{index: 0, mig: []}]}"
    of_tiles = "{name: q, nodes: [b], device: max-1550, devices-per-node: 1, identity: xpumanager}"
    text = SMALL[: SMALL.index("  pools:")] + f"  pools: [{pools}, {of_tiles}]" + SMALL[SMALL.index("\nweb:") :]
    with application(text) as app:
        peer = viewer(app)
        app.ask("POST", "/api/v1/faults", {"kind": "power-cap", "watts": 200, "devices": ["a/0"]})
        app.ask("POST", "/api/v1/workloads", {"name": "w", "devices": ["a/0"], "profile": "95:0:0"})
        app.ask("POST", "/api/v1/workloads", {"name": "x", "devices": ["a/1/1"], "profile": "60:0:0"})
        wait(app, [peer], 9)
        (_, outline), *_, (_, last) = events(peer)
        assert outline["divided"] == [0, 2, 0]
        assert [row[:2] for row in outline["parts"]] == [
            ["a/1/0", "3g.20gb"], ["a/1/1", "1g.5gb"], ["b/0/0", ""], ["b/0/1", ""],
        ]  # fmt: skip
        assert 1.9e10 < outline["parts"][0][2] < 2.2e10
        assert last["part-usage"] == [0, 60, 0, 0] and last["part-work"] == [[0], [1, "x"], [0], [0]]
        assert last["limit"] == [200, 400, 600] and last["held"] == [["power limit"], [], []]
        peer.leave()


def test_one_frame_for_all(app: MemoryApplication) -> None:
    """All viewers share a frame: how many look costs no rendering."""
    peers = [viewer(app) for _ in range(10)]
    wait(app, peers, 5)
    assert {tuple(ticks(peer)) for peer in peers} == {(0, 1, 2, 3, 4, 5)}
    live = app.service.getServiceNamed("web").getServiceNamed("live")
    assert live.frames == 6
    for peer in peers:
        peer.leave()
    wait(app, [], 5)
    assert live.frames == 6


def test_a_slow_viewer_skips_ticks(app: MemoryApplication) -> None:
    """It is sent nothing while it has not taken the last frame, then the newest; others are not held up."""
    slow, fast = viewer(app), viewer(app)
    wait(app, [slow, fast], 1)
    slow.transport.reading = False
    wait(app, [slow, fast], 4)
    assert slow.transport.largest_unsent < 4096
    slow.transport.reading = True
    wait(app, [slow, fast], 1)
    assert ticks(fast) == [0, 1, 2, 3, 4, 5, 6]
    seen = ticks(slow)
    assert seen[-1] == 6
    assert len(seen) < 6
    slow.leave()
    fast.leave()


@pytest.mark.slow
def test_large_frames() -> None:
    """Of 10,000 devices: sent in pieces, whole to each viewer; at most one piece waits for a slow viewer."""
    with application(SMALL.replace("nodes: [a, b]", "nodes: 5000")) as app:
        fast, slow = viewer(app), viewer(app)
        wait(app, [fast, slow], 1)
        slow.transport.reading = False
        wait(app, [fast, slow], 2)
        assert slow.transport.largest_unsent <= 2 * PIECE
        slow.transport.reading = True
        wait(app, [fast, slow], 1)
        assert ticks(fast) == [0, 1, 2, 3, 4]
        assert ticks(slow)[-1] == 4
        (_, frame) = events(fast)[-1]
        assert [len(frame[name]) for name in ("usage", "temperature", "power", "health")] == [10_000] * 4
        assert len(json.dumps(frame)) > PIECE
        for peer in (fast, slow):
            peer.leave()


def test_a_viewer_that_never_reads_is_dropped(app: MemoryApplication) -> None:
    """Ten seconds after the last that it took."""
    peer = viewer(app)
    wait(app, [peer], 1)
    peer.transport.reading = False
    wait(app, [peer], 15)
    assert peer.closed


def test_a_standing_clock() -> None:
    """Still once a second, with the same tick: queues continue."""
    with application(STANDING) as app:
        peer = viewer(app)
        wait(app, [peer], 3)
        assert ticks(peer) == [0, 0, 0, 0]
        peer.leave()


def test_the_first_frame_comes_without_delay(app: MemoryApplication) -> None:
    """To a second viewer as well, who gets that of the first; after the last one has left a new one is made."""
    peers = [viewer(app) for _ in range(2)]
    assert [[name for name, _ in events(peer)] for peer in peers] == [["fleet", "tick"]] * 2
    assert app.service.getServiceNamed("web").getServiceNamed("live").frames == 1
    app.fleet.advance()  # in the same quarter of a second
    late = viewer(app)
    assert ticks(late) == [1]
    for peer in (*peers, late):
        peer.leave()
    wait(app, [], 2)
    peer = viewer(app)
    assert ticks(peer) == [2]
    peer.leave()


def test_a_new_speed_is_shown_at_once(app: MemoryApplication) -> None:
    """Also to a second viewer in the same tick."""
    first = viewer(app)
    assert app.ask("PATCH", "/api/v1/clock", {"speed": 7}).status == 200
    second = viewer(app)
    assert [dict(events(peer))["tick"]["speed"] for peer in (first, second)] == [1, 7]
    first.leave()
    second.leave()


def test_bounded(app: MemoryApplication) -> None:
    """The number of viewers is limited; when one leaves the next may connect."""
    peers = [viewer(app) for _ in range(MAX_VIEWERS)]
    answer = app.get("/api/v1/stream")
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (503, "full")
    peers.pop().leave()
    assert b"200 OK" in viewer(app).transport.value()
    for peer in peers:
        peer.leave()


def test_head_and_other_methods(app: MemoryApplication) -> None:
    """HEAD ends; others are refused; nothing is below."""
    assert app.ask("HEAD", "/api/v1/stream").headers["content-type"] == "text/event-stream"
    assert app.ask("POST", "/api/v1/stream", {}).status == 405
    assert app.get("/api/v1/stream/x").status == 404


def test_the_end_of_the_port(app: MemoryApplication) -> None:
    """An answer without end is ended when the port is shut down."""
    peer = viewer(app)
    wait(app, [peer], 2)
    peer.channel.site.shut_down()
    assert peer.closed
    peer.leave()


def test_history(app: MemoryApplication) -> None:
    """The last ticks of a device and of the fleet, the oldest first, as its own page showed them."""
    app.ask("POST", "/api/v1/workloads", {"name": "x", "devices": ["a/1"], "profile": "50:0:0"})
    app.tick(4)
    device = app.json("/api/v1/devices/a/1/history")
    assert (device["device"], device["ticks"], device["seconds"]) == ("a/1", [0, 1, 2, 3, 4], [0, 1, 2, 3, 4])
    assert device["quantities"]["usage_ratio"] == [0, 0.5, 0.5, 0.5, 0.5]
    shown = app.json("/api/v1/devices/a/1")["quantities"]
    for name, values in device["quantities"].items():
        assert values[-1] == pytest.approx(shown[name], rel=1e-3, abs=1e-3), name
    fleet = app.json("/api/v1/history")
    assert fleet["ticks"] == [0, 1, 2, 3, 4]
    assert fleet["quantities"]["usage_ratio"][-1] == pytest.approx(0.125)
    assert app.get("/api/v1/devices/a/9/history").status == 404


def test_history_of_some_devices(app: MemoryApplication) -> None:
    """Devices and a quantity of the query; what names nothing, or too much, is refused in words."""
    app.ask("POST", "/api/v1/workloads", {"name": "x", "devices": ["a/1"], "profile": "50:0:0"})
    app.tick(2)
    found = app.json("/api/v1/history?devices=a/1,a/0&quantity=usage_ratio&seconds=1")
    assert (found["ticks"], found["quantities"]) == (
        [1, 2],
        {"a/0": {"usage_ratio": [0, 0]}, "a/1": {"usage_ratio": [0.5, 0.5]}},
    )
    whole = app.json("/api/v1/history?devices=a/1")["quantities"]["a/1"]
    assert whole == app.json("/api/v1/devices/a/1/history")["quantities"]
    for query, where in (
        ("devices=b/9", "devices"),
        ("quantity=colour", "quantity"),
        ("devices=a/1&seconds=x", "seconds"),
    ):
        answer = app.get(f"/api/v1/history?{query}")
        assert (answer.status, json.loads(answer.body)["error"]["where"]) == (400, where), query


def test_history_of_too_many_devices() -> None:
    """An answer has at most 64 rows."""
    with application(SMALL.replace("nodes: [a, b]", "nodes: 33, node-name: 'n-{}'")) as app:
        assert "at most 12, 64 with a quantity" in app.get("/api/v1/history?devices=all").body.decode()
        assert app.get("/api/v1/history?devices=all&quantity=power_watts").status == 400
        assert app.get("/api/v1/history?devices=n-0/*&quantity=power_watts").status == 200


def state(tick: int, **arrays: list[float]) -> State:
    level = Level(2, {name: np.array(values) for name, values in arrays.items()}, {})
    return State(tick, float(tick), 0.0, {"device": level}, 0)


def test_history_is_a_ring() -> None:
    """It forgets the oldest, skips ticks that it did not receive, and keeps its limit at any size."""
    history = History(state(0, usage_ratio=[0, 1]))
    assert history.size == MAX_TICKS
    for tick in range(1, MAX_TICKS + 10):
        history.note(state(tick, usage_ratio=[tick % 2, 1]))
    past = history.of_device(0)
    assert past["ticks"] == history.of_fleet()["ticks"] == list(range(10, MAX_TICKS + 10))
    assert past["quantities"]["usage_ratio"][-2:] == [0, 1]
    large = Level(1_000_000, {"usage_ratio": np.zeros(1_000_000)}, {})
    assert History(State(0, 0.0, 0.0, {"device": large}, 0)).size == MIN_TICKS


def test_history_of_an_hour() -> None:
    """Before the last ticks there is a point for every ten seconds, an hour back; the time span is exact."""
    history = History(state(0, usage_ratio=[0, 1]))
    for tick in range(1, 4000):
        history.note(state(tick, usage_ratio=[tick % 7, 1]))
    ticks = history.of_device(0, 3600.0)["ticks"]
    dense = list(range(4000 - MAX_TICKS, 4000))
    assert ticks == [*range(400, dense[0], 10), *dense]
    assert history.of_fleet(3600.0)["ticks"] == ticks
    assert history.of_fleet(60.0)["ticks"] == list(range(3939, 4000))
    assert history.of_device(0, 3600.0)["quantities"]["usage_ratio"][:3] == [400 % 7, 410 % 7, 420 % 7]


@pytest.mark.slow
def test_history_of_a_day() -> None:
    """Before the hour a point for each minute: lowest, mean and highest of its ticks, also of the minute under way."""
    history = History(state(0, usage_ratio=[0, 1]))
    random = np.random.default_rng(1)
    values = np.concatenate([[0.0], random.random(99_999)])
    for tick in range(1, len(values)):
        history.note(state(tick, usage_ratio=[values[tick], 1]))
    past = history.of_device(0, 86_400.0)
    points = len(past["lowest"]["usage_ratio"])
    assert past["point-seconds"] == 60
    fine = history.of_device(0, 3600.0)
    assert past["ticks"] == [*range(13_620, fine["ticks"][0], 60), *fine["ticks"]]
    minutes = values[13_620 : 13_620 + 60 * points].reshape(points, 60)
    for name, expected in (("lowest", minutes.min(1)), ("quantities", minutes.mean(1)), ("highest", minutes.max(1))):
        assert past[name]["usage_ratio"][:points] == pytest.approx(expected, abs=5e-4), name
    assert past["quantities"]["usage_ratio"][points:] == fine["quantities"]["usage_ratio"]
    fleet = history.of_fleet(86_400.0)
    assert fleet["ticks"] == past["ticks"]
    assert fleet["lowest"]["usage_ratio"] == pytest.approx((minutes.min(1) + 1) / 2, abs=5e-5)
    assert "lowest" not in fine and "lowest" not in history.of_device(0)


@pytest.mark.slow
def test_a_day_has_gaps_and_reloads() -> None:
    """Ticks that did not show a value do not count; a reload moves the minute under way, a new device has none."""
    history = History(state(0, usage_ratio=[0.25, 1]))
    for tick in range(1, 20):
        history.note(state(tick, usage_ratio=[np.nan if tick < 10 else 0.75, np.nan], lost=[0, 0]))
    history.move(Reindex(np.array([1, -1]), 2))
    for tick in range(20, 10_000):
        history.note(state(tick, usage_ratio=[0.5, 0.5 if tick > 50 else 1.0]))
    first, second = (history.of_device(place, 86_400.0) for place in (0, 1))
    moved = [(past["lowest"]["usage_ratio"][0], past["highest"]["usage_ratio"][0]) for past in (first, second)]
    assert moved == [(0.5, 0.5), (0.25, 1.0)]
    assert first["quantities"]["usage_ratio"][0] == 0.5
    # 1 + 10 ticks before the reload, 31 with 1.0 and 9 with 0.5 after it.
    assert second["quantities"]["usage_ratio"][0] == pytest.approx((0.25 + 10 * 0.75 + 31 + 9 * 0.5) / 51, abs=5e-4)


@pytest.mark.slow
def test_the_past_of_a_fleet_whose_nodes_left() -> None:
    """It is that of the fleet, whatever devices there are now."""
    history = History(state(0, usage_ratio=[0.5, 1]))
    for tick in range(1, 5000):
        history.note(state(tick, usage_ratio=[0.5, 1]))
    history.move(Reindex(np.array([-1, -1]), 0))
    history.note(State(5000, 5000.0, 0.0, {"device": Level(0, {}, {})}, 0))
    usage = history.of_fleet(86_400.0)["quantities"]["usage_ratio"]
    assert usage[:-1] == [0.75] * (len(usage) - 1) and np.isnan(usage[-1])
    assert history.of_devices(np.array([], np.int64), 86_400.0)["quantities"] == {}
    history.move(Reindex(np.array([], np.int64), 2))
    history.note(state(5001, usage_ratio=[0, 0.5]))
    assert history.of_device(1, 2.0)["quantities"]["usage_ratio"][-1] == 0.5


@pytest.mark.slow
def test_a_fleet_that_grows() -> None:
    """Nodes of a cluster join after the start: then less is kept, as of a fleet that begins with that size."""
    history = History(state(0, usage_ratio=[0, 1]))
    for tick in range(1, 2000):
        history.note(state(tick, usage_ratio=[0.5, 1]))
    devices = 10_000
    history.move(Reindex(np.array([0, 1]), devices))
    level = Level(devices, {"usage_ratio": np.full(devices, 0.25)}, {})
    fresh = History(State(2000, 2000.0, 0.0, {"device": level}, 0))
    for tick in range(2000, 2300):
        history.note(State(tick, float(tick), 0.0, {"device": level}, 0))
    assert history.size == fresh.size < MAX_TICKS
    past = history.of_device(0, 86_400.0)
    assert past["point-seconds"] == fresh.of_device(0, 86_400.0)["point-seconds"] > 60
    assert len(history.of_device(0)["ticks"]) == fresh.size
    assert len(past["ticks"]) < MAX_TICKS
    history.move(Reindex(np.concatenate([[0, 1], np.full(devices - 2, -1)]), 2))
    assert history.size == MAX_TICKS


@pytest.mark.parametrize(("devices", "seconds"), [(388, 60), (389, 120), (10_000, 1800), (100_000, None)])
def test_the_day_of_large_fleets(devices: int, seconds: int | None) -> None:
    """They have longer points, within 16 MiB; the largest have none."""
    level = Level(devices, {"usage_ratio": np.zeros(devices)}, {})
    assert History(State(0, 0.0, 0.0, {"device": level}, 0)).of_device(0)["point-seconds"] == seconds


@given(st.lists(st.floats(-65504, 65504, width=32).filter(lambda value: abs(value) > 1e-4 or value == 0), min_size=1))
def test_halves(numbers: list[float]) -> None:
    """Numbers in 16 bits are the nearest, or as near as it; NaN stays NaN, and nothing becomes infinite."""
    many = TickValues(1, 5000)
    many.values[0] = np.resize(np.array([*numbers, np.nan, 1e9, -1e9], np.float32), 5000)
    found = many.halves()[0]
    expected = np.clip(many.values[0], -65504, 65504)
    error = np.abs(found.astype(np.float64) - expected)
    assert (
        error[~np.isnan(expected)]
        <= np.abs(expected.astype(np.float16).astype(np.float64) - expected)[~np.isnan(expected)]
    ).all()
    assert (np.isnan(found) == np.isnan(expected)).all()


def test_overview() -> None:
    """The worst that is the matter with a device; nothing of a lost one; nothing where a value is missing."""
    arrays = {
        "throttled_thermal": np.array([0.0, 1, 1, 0]),
        "xid": np.array([0.0, 0, 48, 79]),
        "lost": np.array([0.0, 0, 0, 1]),
        "power_watts": np.array([100.4, 200.6, np.nan, 300]),
        "temperature_celsius": np.array([40.0, 50, 60, 99]),
    }
    present = {"temperature_celsius": np.array([True, True, False, True])}
    level = Level(4, arrays, present)
    assert [HEALTH[number] for number in health(level)] == ["well", "heat", "error", "lost"]
    assert [worst_of(level, [place]) for place in range(4)] == ["well", "heat", "error", "lost"]
    assert rounded(level, "power_watts").tolist() == [100, 201, ABSENT, ABSENT]
    assert rounded(level, "usage_ratio", 100).tolist() == [ABSENT] * 4
    usage, power, hottest = summary(level)
    assert np.isnan(usage)
    assert (power, hottest) == (pytest.approx(301), 50)
