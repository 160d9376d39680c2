"""A scenario that a service plays, as the API and the live view show it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakedev.scenario.live import MOST_SHOWN
from tests.api.test_live import events, viewer, wait
from tests.support.application import MemoryApplication, application
from tests.support.scenarios import FLEET, written

STORY = """
  - {as: hot, at: 5s, fault: {kind: fan, devices: dgx-0/1}}
  - {as: train, at: 2s, for: 6s, run: {name: job, devices: "dgx-0/[0-1]", profile: "80:0:0"}}
  - {at: 4s, fault: {kind: fan, devices: dgx-0/any, duration: 20s}}
  - {as: late, at: 5m, fault: {kind: hang, node: dgx-0, devices: all, duration: 1m}}
  - {at: 7s, clear: hot}
  - {at: 6s, as: full, fault: {kind: fan, devices: dgx-0/3}}
"""
#: The same fleet with room for two faults; it has no resets of its own.
TIGHT = FLEET.replace("  web:", "  limits: {faults: 2}\n  web:")
PATH = "/api/v1/scenario"


@pytest.fixture
def app(tmp_path: Path) -> Iterator[MemoryApplication]:
    """An application that plays STORY, before its first tick."""
    with application(scenario=written(tmp_path, STORY, fleet=TIGHT)) as running:
        yield running


def states(app: MemoryApplication) -> dict[str, str]:
    return {each["words"]: each["state"] for each in app.json(PATH)["occurrences"]}


def test_none_is_played() -> None:
    """Without a scenario: 404 with the remedy, also below; and nothing in the frames."""
    with application() as app:
        for path in (PATH, f"{PATH}/occurrences"):
            answer = app.get(path)
            error = {"code": "unknown-name", "message": "no scenario is played: start with --scenario FILE"}
            assert (answer.status, json.loads(answer.body)["error"]) == (404, {**error, "where": "scenario"})
        peer = viewer(app)
        wait(app, [peer], 1)
        assert "scenario" not in events(peer)[-1][1]
        peer.leave()


def test_states(app: MemoryApplication) -> None:
    """Waiting, active while it lasts, done, refused with the problem; clears and ends of runs are done at once."""
    assert set(states(app).values()) == {"waiting"}
    app.tick(5)  # what is due at 4 s has been applied
    found = states(app)
    assert (found["run job on dgx-0/[0-1]"], found["fault fan on dgx-0/any"]) == ("active", "active")
    assert (found["fault fan on dgx-0/1"], found["stop train"]) == ("waiting", "waiting")
    app.tick(2)
    found = states(app)
    assert (found["fault fan on dgx-0/1"], found["fault fan on dgx-0/3"]) == ("active", "refused")
    app.tick(3)
    found = states(app)
    assert (found["fault fan on dgx-0/1"], found["clear hot"]) == ("done", "done")
    assert (found["run job on dgx-0/[0-1]"], found["stop train"]) == ("done", "done")
    app.tick(15)
    assert states(app)["fault fan on dgx-0/any"] == "done"
    assert states(app)["fault hang on dgx-0"] == "waiting"


def test_values(app: MemoryApplication) -> None:
    """Times, entries, devices with those that were drawn, ends as planned and then as they came, and problems."""
    app.tick(10)
    found = app.json(PATH)
    assert {key: found[key] for key in ("name", "span-seconds", "seconds", "is-over", "played", "total")} == {
        "name": "scenario", "span-seconds": 600.0, "seconds": 10.0, "is-over": False, "played": 6, "total": 7,
    }  # fmt: skip
    by_number = {each["number"]: each for each in found["occurrences"]}
    assert list(by_number) == list(range(7))
    run, drawn, hot, full, clear, end, late = by_number.values()
    assert run == {
        "number": 0, "seconds": 2.0, "entry": 1, "name": "train", "kind": "run", "is-end": False,
        "words": "run job on dgx-0/[0-1]", "devices": ["dgx-0/[0-1]"], "node": "", "lasts-seconds": 6.0,
        "ends-seconds": 9.0, "state": "done", "ids": run["ids"],
    }  # fmt: skip
    assert (drawn["entry"], drawn["ends-seconds"]) == (2, 24.0)
    assert drawn["devices"][0] in {f"dgx-0/{index}" for index in range(4)}
    assert (hot["ends-seconds"], clear["ends-seconds"]) == (8.0, None)
    assert (full["state"], full["ends-seconds"]) == ("refused", None)
    assert "limits.faults" in full["problem"] and "ids" not in full
    assert (end["words"], end["is-end"], end["entry"], end["seconds"]) == ("stop train", True, 1, 8.0)
    assert (late["node"], late["devices"], late["ends-seconds"]) == ("dgx-0", ["all"], 360.0)
    assert "ids" not in late


def test_it_ends_otherwise(app: MemoryApplication) -> None:
    """What a user stops or clears is over, although the timeline plans another end."""
    app.tick(6)
    found = {each["name"]: each for each in app.json(PATH)["occurrences"] if not each["is-end"]}
    assert (found["hot"]["state"], found["hot"]["ends-seconds"]) == ("active", 7.0)  # by the clear that is to come
    before = app.json(PATH)["changes"]
    assert app.ask("DELETE", f"/api/v1/workloads/{found['train']['ids'][0]}").status == 200
    app.tick(1)
    (train,) = [each for each in app.json(PATH)["occurrences"] if each["kind"] == "run"]
    assert (train["state"], train["ends-seconds"]) == ("done", 7.0)
    # Played at 6 s, ended: the run.
    assert app.json(PATH)["changes"] == before + 2


@pytest.mark.slow
def test_frames(app: MemoryApplication) -> None:
    """The live view says how far it is and what is next, until it is over."""
    peer = viewer(app)
    wait(app, [peer], 3)
    (seen,) = [value for name, value in events(peer) if name == "tick" and value["tick"] == 3]
    assert seen["scenario"] == {
        "name": "scenario", "span-seconds": 600.0, "is-over": False, "played": 1, "total": 7, "changes": 1,
        "next": [4.0, "fault fan on dgx-0/any"],
    }  # fmt: skip
    peer.leave()
    app.tick(600)
    peer = viewer(app)
    wait(app, [peer], 1)
    last = events(peer)[-1][1]["scenario"]
    assert (last["is-over"], last["played"], last["next"]) == (True, 7, None)
    assert last["changes"] == 7 + 4  # all but the refused one, the clear and the stop have ended as well
    assert app.json(PATH)["is-over"]
    peer.leave()


@pytest.mark.slow
def test_many(tmp_path: Path) -> None:
    """At most a thousand before now and a thousand to come, with what still goes on; the list has all of them."""
    timeline = """
  - {as: base, at: 0s, run: {name: base, devices: dgx-0/0, profile: "50:0:0"}}
  - {as: many, at: 0s, every: 100ms, fault: {kind: reset, devices: dgx-0/3}}
"""
    with application(scenario=written(tmp_path, timeline)) as app:
        app.tick(150)  # 1,501 are played
        found = app.json(PATH)
        assert (found["played"], found["total"]) == (1501, 6001)
        shown = [each["number"] for each in found["occurrences"]]
        assert shown == [0, *range(1501 - MOST_SHOWN + 1, 1501 + MOST_SHOWN)]
        assert found["occurrences"][0]["state"] == "active"
        answer = app.json(f"{PATH}/occurrences?limit=4")
        assert answer["total"] == 6001
        # The run, the faults of this tick, then those to come.
        numbers = numbers_of(app, "limit=500")
        assert numbers[0] == 0 and 1501 in numbers and numbers == sorted(numbers)
        assert numbers_of(app, "limit=3&sort=-seconds") == [6000, 5999, 5998]
        assert numbers_of(app, "limit=3&search=active")[0] == 0
        last = numbers_of(app, "limit=3&offset=5998")
        assert last == [3, 2, 1]  # what has happened: the newest first
        assert app.json(f"{PATH}/occurrences?search=base")["total"] == 1


def numbers_of(app: MemoryApplication, query: str) -> list[int]:
    return [each["number"] for each in app.json(f"{PATH}/occurrences?{query}")["occurrences"]]


def test_long_words(tmp_path: Path) -> None:
    """Of an entry with many devices and a name with control characters the beginning is shown, on one line."""
    devices = ", ".join(f"dgx-0/{number % 4}" for number in range(300))
    timeline = f'\n  - {{at: 0s, run: {{name: "a\\tb", devices: [{devices}], profile: "50:0:0"}}}}\n'
    with application(scenario=written(tmp_path, timeline)) as app:
        app.tick(1)
        (only,) = app.json(PATH)["occurrences"]
        assert only["words"].startswith(r"run a\tb on dgx-0/0,") and len(only["words"]) == 160
        shown: Any = only["devices"]
        assert (len(shown), only["more-devices"]) == (10, 290)
