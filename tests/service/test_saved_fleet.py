"""A service that keeps its state: the next one goes on from its last tick."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.application import BEGIN, SMALL, STANDING, AppReactor, application

pytestmark = pytest.mark.usefixtures("tmp_path")
WORK = {"name": "train", "devices": "a/0", "profile": "90:5:0", "run-time-limit": "1m"}


def with_state(folder: Path, text: str = SMALL) -> str:
    """A configuration with the state in a folder."""
    return f"{text}state: {folder}/state\n"


def later(seconds: float) -> AppReactor:
    """A reactor that begins so long after the first one."""
    reactor = AppReactor()
    reactor.rightNow = BEGIN + seconds
    return reactor


def values(app: Any) -> list[dict[str, float]]:
    """The quantities of all devices."""
    return [each["quantities"] for each in app.json("/api/v1/devices")["devices"]]


@pytest.mark.slow
def test_it_goes_on(tmp_path: Path) -> None:
    """Ticks, workloads, faults and counters go on after the gap, as if there had been none; the epoch stays."""
    text = with_state(tmp_path)
    with application(text) as first, application() as whole:
        for app in (first, whole):
            app.ask("POST", "/api/v1/workloads", WORK)
            app.ask("POST", "/api/v1/faults", {"kind": "power-cap", "devices": "a/0", "watts": 200})
            app.tick(20)
        epoch = first.json("/api/v1/clock")["epoch-seconds"]
        first.stop()
        with application(text, reactor=later(500)) as second:
            assert values(second) == values(whole)
            assert second.json("/api/v1/clock")["epoch-seconds"] == epoch
            second.tick(20)
            assert second.json("/api/v1/clock")["due-seconds"] == BEGIN + 520
            whole.tick(20)
            assert values(second) == values(whole)
            assert second.json("/api/v1/workloads")["workloads"][0]["run-seconds"] == 40
            second.tick(21)
            assert second.json("/api/v1/workloads")["workloads"] == []


@pytest.mark.slow
def test_often(tmp_path: Path) -> None:
    """One restart after the other, without a tick in between, changes nothing."""
    text = with_state(tmp_path, STANDING)
    with application(text) as app:
        app.ask("POST", "/api/v1/workloads", WORK)
        app.ask("POST", "/api/v1/clock", {"advance": "30s"})
        before = values(app), app.get("/metrics").body
    for _ in range(3):
        with application(text, reactor=later(60)) as app:
            assert (values(app), app.get("/metrics").body) == before


def test_connections(tmp_path: Path) -> None:
    """The workload of a connection ends when its service was killed; a detached one goes on."""
    text = with_state(tmp_path, STANDING)
    with application(text) as app:
        client = app.connect()
        client.say("run mine devices=a/0 profile=50:0:0")
        client.say("run other devices=a/1 profile=50:0:0 detach")
        app.ask("POST", "/api/v1/clock", {"advance": "3s"})
        kept = {each.name: each.read_bytes() for each in (tmp_path / "state").iterdir()}
    for name, content in kept.items():
        (tmp_path / "state" / name).write_bytes(content)  # as it was, had it been killed
    with application(text) as app:
        app.ask("POST", "/api/v1/clock", {"advance": "1s"})
        assert [each["name"] for each in app.json("/api/v1/workloads")["workloads"]] == ["other"]
        texts = [each["text"] for each in app.json("/api/v1/journal")["journal"] if each["kind"] == "ended"]
        assert texts == ["mine: 0 the service was restarted"]


@pytest.mark.slow
def test_another_configuration(tmp_path: Path) -> None:
    """What a reload may change may change between two services, too: with a tick, in which the fleet is reloaded."""
    with application(with_state(tmp_path)) as app:
        app.ask("POST", "/api/v1/workloads", WORK)
        app.tick(10)
        energy = values(app)[0]["energy_joules"]
    changed = SMALL.replace("nodes: [a, b]", "nodes: [a, c, d]")
    with application(with_state(tmp_path, changed)) as app:
        assert app.json("/api/v1/clock")["tick"] == 11
        assert [each["node"] for each in app.json("/api/v1/nodes")["nodes"]] == ["a", "c", "d"]
        assert app.json("/api/v1/workloads")["workloads"][0]["run-seconds"] == 11
        assert values(app)[0]["energy_joules"] > energy
        assert b'Hostname="d"' in app.get("/metrics").body
    with application(with_state(tmp_path, changed)) as app:
        assert app.json("/api/v1/clock")["tick"] == 11


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (("seed: 7", "seed: 8"), "fleet.seed cannot be changed by a reload"),
        (("seed: 7", "seed: 7\n  tick: 2s"), "fleet.tick cannot be changed by a reload"),
        (("seed: 7", "seed: 7\n  epoch: 2027-01-15T08:00:01Z"), "fleet.epoch cannot be changed by a reload"),
    ],
)
def test_a_history_that_cannot_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: tuple[str, str], text: str
) -> None:
    """The service does not start, says why, and leaves the folder as it was."""
    with application(with_state(tmp_path)) as app:
        app.tick(3)
    changed = with_state(tmp_path, SMALL.replace(*change))
    with pytest.raises(SystemExit, match="state cannot be used"), application(changed):
        pass
    said = capsys.readouterr().err
    assert text in said
    assert "or move the folder away to begin anew" in said
    with application(with_state(tmp_path)) as app:
        assert app.json("/api/v1/clock")["tick"] == 3


def test_two_services(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second with the same folder does not start."""
    text = with_state(tmp_path)
    with application(text), pytest.raises(SystemExit, match="state cannot be used"), application(text):
        pass
    assert "another service keeps its state there" in capsys.readouterr().err
