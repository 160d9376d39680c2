"""Long advances of the clock, as the peers of a service see them: progress, stops, and what happens meanwhile."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakedev.base.steps import Steps
from fakedev.fleet.events import ChangeClock, StartWorkload
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.port import WorkloadPortFactory
from fakedev.fleet.record import Replay, read_record
from fakedev.fleet.ticker import Ticker
from fakedev.fleet.workloads.workload import Verdict
from tests.support.application import STANDING, LineClient, MemoryApplication, application
from tests.support.logged_errors import LoggedErrors
from tests.support.reloads import came

#: STANDING, with all rights on the port.
PORT = STANDING.replace("[workloads, clock]", "[workloads, clock, faults]")
#: Wall seconds of a tick: three are a slice, and 250 pass in a second.
TICK_SECONDS = 0.004


@pytest.fixture
def app() -> Iterator[MemoryApplication]:
    with application(PORT) as running:
        running.slow_down(TICK_SECONDS)
        yield running


def heard(peer: LineClient) -> list[str]:
    """All lines that a peer got, without letting time pass."""
    lines: list[str] = peer.transport.value().decode().splitlines()
    return lines


def turn(app: MemoryApplication, count: int = 1) -> None:
    for _ in range(count):
        app.reactor.turn()


def ticker(app: MemoryApplication) -> Ticker:
    found: Ticker = app.factories(WorkloadPortFactory)[0].ticker
    return found


def finish(app: MemoryApplication) -> None:
    """Turns until no advance is in progress, and what waited for its end is served."""
    while ticker(app).advancing:
        app.reactor.turn()
    turn(app, 2)


def tick_of(app: MemoryApplication) -> int:
    return app.fleet.state.tick


class TestProgress:
    @pytest.mark.slow
    def test_in_words(self, app: MemoryApplication) -> None:
        """All other requests of the peer wait for the answer; other peers get nothing; a short advance has none."""
        peer, other = app.connect(), app.connect()
        peer.send(b"advance 1000s\nlist\n")
        finish(app)
        assert heard(peer) == [
            "advancing 25.3 tick 253 target 1000",
            "advancing 50.5 tick 505 target 1000",
            "advancing 75.7 tick 757 target 1000",
            "ok tick 1000 seconds 1000",
            "ok 0 lines",
        ]
        peer.send(b"advance 240s\n")
        finish(app)
        assert heard(peer)[5:] == ["ok tick 1240 seconds 1240"]
        assert heard(other) == []

    @pytest.mark.slow
    def test_in_json_lines(self, app: MemoryApplication) -> None:
        """The same as objects without an id."""
        peer = app.connect()
        peer.send(b'{"op":"advance","duration":"300s","id":1}\n')
        finish(app)
        event, answer = map(json.loads, heard(peer))
        assert event == {"event": "advancing", "percent": 84.3, "tick": 253, "target-tick": 300}
        assert (answer["id"], answer["tick"], answer["advance"]) == (1, 300, None)
        assert "stopped-before-tick" not in answer

    def test_the_wall_clock_is_set_back(self, app: MemoryApplication) -> None:
        """No slice gets longer, and the progress continues."""
        peer = app.connect()
        peer.send(b"advance 1000s\n")
        app.reactor.rightNow -= 3600
        before = tick_of(app)
        # The reactor of this test keeps its calls in wall time, too.
        for call in app.reactor.getDelayedCalls():
            if call.func.__name__ == "_advance_or_yield":
                call.reset(0)
        turn(app)
        assert tick_of(app) - before <= 3
        assert heard(peer)[0].startswith("advancing ")

    def test_a_slice_during_which_the_wall_clock_is_set_back_ends(self, app: MemoryApplication) -> None:
        tick = app.fleet.tick

        def set_back() -> Steps[list[Verdict]]:
            app.reactor.rightNow -= 3600
            return tick()

        app.fleet.tick = set_back  # type: ignore[method-assign]
        app.connect().send(b"advance 1000s\n")
        assert tick_of(app) == 1

    def test_the_api_shows_it(self, app: MemoryApplication) -> None:
        app.connect().send(b"advance 1000s\n")
        turn(app, 41)
        clock = app.json("/api/v1/clock")
        assert (clock["tick"], clock["advance"]) == (126, {"first-tick": 0, "target-tick": 1000, "percent": 12.6})
        assert app.get("/metrics").headers["x-fakedev-tick"] == "126"
        assert b"fakedev_ticks_total 126.0" in app.get("/-/metrics").body

    def test_never_100_before_the_end(self, app: MemoryApplication) -> None:
        app.connect().send(b"advance 100000s\n")
        advancing = ticker(app).advancing
        assert advancing is not None
        assert (advancing.percent_at(99_999), advancing.percent_at(100_000)) == (99.9, 100.0)


class TestStop:
    def test_by_its_own_peer_in_words(self, app: MemoryApplication) -> None:
        peer = app.connect()
        peer.send(b"advance 3h\n")
        turn(app, 9)
        for segment in (b"adv", b"ance", b" st", b"op\r", b"\nlist\n"):
            assert heard(peer) == []
            peer.send(segment)
        finish(app)
        reached = f"ok tick {tick_of(app)} seconds {tick_of(app)}"
        assert heard(peer) == [f"{reached} stopped before tick 10800", "ok stopped", "ok 0 lines"]
        assert 30 <= tick_of(app) <= 42
        peer.send(b"advance stop\n")
        assert heard(peer)[3:] == ["ok nothing to stop"]

    def test_only_the_next_line(self, app: MemoryApplication) -> None:
        """Other requests wait for the answer, and so does a stop after them, or one in a long line."""
        for before in (b"list\n", b"nonsense\n", b"advance 1s\n", b"list " + b" " * 5000):
            peer = app.connect()
            peer.send(b"advance 20s\n" + before + b"advance stop\n")
            turn(app)
            assert heard(peer) == []
            finish(app)
            assert heard(peer)[0].endswith(str(tick_of(app) - (before == b"advance 1s\n")))

    def test_in_json_lines(self, app: MemoryApplication) -> None:
        for given in ("", ',"id":7'):
            peer = app.connect()
            first = tick_of(app)
            peer.send(f'{{"op":"advance","duration":"1h"{given}}}\n'.encode())
            peer.send(f'{{"op":"advance","duration":"stop"{given}}}\n'.encode())
            finish(app)
            advanced, stopped = map(json.loads, heard(peer))
            assert (advanced["ok"], advanced["tick"]) == (True, tick_of(app))
            assert tick_of(app) - first in (3, 6)
            assert advanced["stopped-before-tick"] == first + 3600
            assert (stopped["ok"], stopped["advance"]) == (True, None)

    def test_by_another_peer(self, app: MemoryApplication) -> None:
        peer, other = app.connect(), app.connect()
        peer.send(b"advance 1h\n")
        other.send(b"advance stop\n")
        finish(app)
        tick = tick_of(app)
        assert heard(other) == ["ok stopped"]
        assert heard(peer) == [f"ok tick {tick} seconds {tick} stopped before tick 3600"]
        peer.send(b"advance 1h\n")
        client = app.http()
        client.send(b'PATCH /api/v1/clock HTTP/1.1\r\nHost: localhost\r\nContent-Length: 17\r\n\r\n{"advance": null}')
        finish(app)
        (answer,) = came(client)
        assert json.loads(answer.body)["advance"] is None
        assert heard(peer)[1].endswith(f"stopped before tick {tick + 3600}")

    def test_while_many_ends_are_not_told_yet(self, app: MemoryApplication) -> None:
        """The answers follow all events of its ticks, in the order of the requests."""
        peer = app.connect()
        peer.say(*["run x devices=a/0 profile=1:0:1"] * 250)
        begun = len(heard(peer))
        peer.send(b"advance 1h\n")
        assert ticker(app).advancing
        peer.send(b"advance stop\nlist\n")
        finish(app)
        *ended, advanced, stopped, listed = heard(peer)[begun:]
        assert ended == ["ended x 0 OK"] * 250
        assert (advanced, stopped) == ("ok tick 1 seconds 1 stopped before tick 3600", "ok stopped")
        assert listed == "ok 0 lines"

    def test_by_the_end_of_the_service(self) -> None:
        with application(PORT) as app:
            app.slow_down(TICK_SECONDS)
            peer = app.connect()
            peer.send(b"advance 1h\n")
            app.stop()
            assert heard(peer) == ["ok tick 3 seconds 3 stopped before tick 3600"]

    def test_by_the_end_of_the_connection(self, app: MemoryApplication) -> None:
        """The network may end it at any time: the clock stays, and is free for others."""
        peer = app.connect()
        peer.send(b"advance 1h\n")
        turn(app)
        peer.transport.lost()
        assert tick_of(app) == 6
        turn(app)
        assert tick_of(app) == 6
        assert app.connect().say("advance 1s") == ["ok tick 7 seconds 7"]
        assert heard(peer) == []


class TestMeanwhile:
    def test_another_advance(self, app: MemoryApplication) -> None:
        peer, other = app.connect(), app.connect()
        peer.send(b'{"op":"advance","duration":"100s","id":1}\n{"op":"advance","duration":"1s","id":2}\n')
        other.send(b"advance 1s\n")
        turn(app, 2)
        pattern = (
            r"the clock is being advanced already, to tick 100 \([36] % done\): wait until it is there, "
            r"or stop it with advance stop"
        )
        assert re.fullmatch(f"error busy {pattern}", *heard(other))
        error = json.loads(heard(peer)[0])["error"]
        assert error["code"] == "busy"
        assert re.fullmatch(pattern, error["message"])
        peer.send(b'{"op":"advance","duration":"stop","id":3}\n')
        finish(app)
        assert [json.loads(line)["id"] for line in heard(peer)] == [2, 1, 3]

    def test_with_a_clock_that_runs(self) -> None:
        with application(PORT.replace("  speed: 0\n", "")) as app:
            app.tick(2)
            app.slow_down(TICK_SECONDS)
            peer = app.connect()
            peer.send(b"advance 1h\n")
            assert tick_of(app) == 5
            peer.send(b"advance stop\n")
            finish(app)
            stopped_at = tick_of(app)
            assert heard(peer)[0] == f"ok tick {stopped_at} seconds {stopped_at} stopped before tick 3602"
            app.tick(3)
            assert tick_of(app) == stopped_at + 3

    @pytest.mark.slow
    def test_a_reload(self, app: MemoryApplication) -> None:
        peer = app.connect()
        peer.send(b"advance 20m\n")
        app.text = PORT.replace("devices-per-node: 2", "devices-per-node: 4")
        client = app.http()
        client.send(b"POST /-/reload HTTP/1.1\r\nHost: localhost\r\n\r\n")
        turn(app, 3)
        assert [answer.status for answer in came(client)] == [200]
        assert (app.fleet.roster.device_count, ticker(app).advancing) == (8, (0, 1200))
        finish(app)
        assert heard(peer)[-1] == "ok tick 1200 seconds 1200"

    @pytest.mark.slow
    def test_workloads_and_faults_of_others(self, app: MemoryApplication) -> None:
        peer, other = app.connect(), app.connect()
        peer.send(b"advance 100s\n")
        other.send(b"run x devices=all profile=50\nfault lost devices=all\n")
        finish(app)
        assert heard(other)[:2] == ["ok w2", "ok f3"]
        assert heard(other)[2].startswith("ended x 1 ")
        assert heard(peer) == ["ok tick 100 seconds 100"]
        assert (app.fleet.state.levels["unit"].arrays["lost"] == 1).all()

    def test_a_tick_that_fails(self, app: MemoryApplication, logged_errors: LoggedErrors) -> None:
        tick = app.fleet.tick

        def failing() -> Steps[list[Verdict]]:
            if tick_of(app) == 4:
                raise RuntimeError("an internal error")
            return tick()

        app.fleet.tick = failing  # type: ignore[method-assign]
        peer = app.connect()
        peer.send(b"advance 1h\n")
        turn(app)
        text = "tick 5 failed: the clock stays at tick 4; the log of fakedev says why"
        assert heard(peer) == [f"error internal {text}"]
        answer = app.ask("POST", "/api/v1/clock", {"advance": "1h"})
        assert (answer.status, json.loads(answer.body)["error"]["message"]) == (500, text)
        assert len(logged_errors.take(RuntimeError)) == 2
        app.fleet.tick = tick  # type: ignore[method-assign]
        assert app.connect().say("advance 1s") == ["ok tick 5 seconds 5"]

    @pytest.mark.slow
    def test_the_record(self, tmp_path: Path) -> None:
        """It has the beginning of an advance and what others did, no progress and no stop; a replay is the same."""
        with application(PORT, record=str(tmp_path / "record")) as app:
            app.slow_down(TICK_SECONDS)
            peer = app.connect()
            peer.send(b"advance 1h\n")
            turn(app, 200)
            app.connect().send(b"run x devices=all profile=60:20:0 detach\n")
            turn(app, 20)
            peer.send(b"advance stop\n")
            finish(app)
            fleet, tick = app.fleet, tick_of(app)
        _, events = read_record((tmp_path / "record").read_bytes())
        assert [type(stamped.event) for stamped in events] == [ChangeClock, StartWorkload]
        replay, again = Replay(events), Fleet(fleet.spec)
        for _ in range(tick):
            replay.advance(again)
        assert len(heard(peer)) == 4  # two events, two answers
        first, second = (
            {name: values.tobytes() for name, values in each.state.levels["device"].arrays.items()}
            for each in (fleet, again)
        )
        assert first == second
