"""A scenario in virtual time and live: the same pages, the same truth; and what there is to know of it afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fakedev.fleet.record import Replay, event_line, head_line, read_record
from fakedev.scenario.rules.expected import read_word
from fakedev.scenario.run import Run
from fakedev.scenario.timeline import Played
from fakedev.scenario.truth import Cause
from tests.support.application import BEGIN, application
from tests.support.scenarios import finished, loaded, started, written
from tests.support.wire.http_wire import answers

STORM = """
  - {at: 0s, as: llm, run: {name: llm, devices: "dgx-0/[0-1]", profile: 95:2:0, pod: llm-0}}
  - {at: 1m, as: hot, fault: {kind: fan, devices: dgx-0/1, duration: 3m}}
  - {at: 2m, as: gone, fault: {kind: lost, devices: dgx-0/2, duration: 90s}}
  - {at: 130s, as: down, fault: {kind: node-down, node: dgx-0, duration: 40s}}
  - {after: gone, delay: 2m, as: error, fault: {kind: ecc-double, devices: dgx-0/3}}
  - {at: 5m, run: {name: short, devices: dgx-0/3, profile: 50:1:0}, for: 1m}
  - {at: 7m, fault: {kind: hang, devices: dgx-0/0}}
  - {at: 8m, clear: all}
"""


def pages_of(run: Run) -> dict[int, bytes | None]:
    """The page of the node at each scrape, by its tick."""
    found = [instant for instant in run.instants() if instant is not None]
    return {round(each.seconds): scrape.page for each in found for scrape in each.scrapes}


@pytest.mark.slow
def test_scrapes(tmp_path: Path) -> None:
    """Each node is a target, scraped so often; while it is down, scrapes fail; the end is exclusive."""
    run = started(loaded(tmp_path, STORM))
    pages = pages_of(run)
    assert list(pages) == list(range(0, 600, 15))
    assert [seconds for seconds, page in pages.items() if page is None] == [135, 150, 165]
    assert run.targets[0].labels == {"job": "fakedev", "instance": "dgx-0:9400"}
    assert run.share_done == 1.0


@pytest.mark.slow
def test_truth(tmp_path: Path) -> None:
    """Causes have their entries, devices and times to the second; effects their causes."""
    truth = finished(loaded(tmp_path, STORM)).truth
    causes = [(cause.name, cause.kind, cause.devices, cause.begin_seconds, cause.end_seconds) for cause in truth.causes]
    assert causes == [
        ("hot", "fan", ("dgx-0/1",), 60.0, 240.0),
        ("gone", "lost", ("dgx-0/2",), 120.0, 210.0),
        ("down", "node-down", ("dgx-0/0", "dgx-0/1", "dgx-0/2", "dgx-0/3"), 130.0, 170.0),
        ("error", "ecc-double", ("dgx-0/3",), 240.0, 241.0),
        ("", "hang", ("dgx-0/0",), 420.0, 480.0),
    ]
    ids = {cause.name: cause.fault_id for cause in truth.causes}
    lost = [effect for effect in truth.effects if effect.kind == "lost"]
    (gone,) = [each for each in lost if "dgx-0/2" in each.devices]
    assert (gone.devices, gone.begin_seconds, gone.end_seconds) == (("dgx-0/2",), 120.0, 210.0)
    assert gone.causes == (ids["gone"],)
    down = [each for each in lost if each is not gone]
    assert {(each.begin_seconds, each.end_seconds) for each in down} == {(130.0, 170.0)}
    assert sorted(device for each in down for device in each.devices) == ["dgx-0/0", "dgx-0/1", "dgx-0/3"]
    (hung,) = [effect for effect in truth.effects if effect.kind == "hung"]
    assert (hung.begin_seconds, hung.end_seconds) == (420.0, 480.0)
    (error,) = [effect for effect in truth.effects if effect.kind == "xid" and effect.code == 48]
    assert (error.devices, error.begin_seconds, error.causes) == (("dgx-0/3",), 240.0, (ids["error"],))
    lines = list(truth.lines())
    assert [line["from"] for line in lines] == sorted(line["from"] for line in lines)
    assert json.loads(json.dumps(lines)) == lines


@pytest.mark.slow
def test_effects_match_the_boards(tmp_path: Path) -> None:
    """At each tick the truth names as lost, hung and throttled just those boards that show it in the next one."""
    run = started(loaded(tmp_path, STORM))
    shown: dict[str, set[tuple[int, str]]] = {"lost": set(), "hung": set(), "throttled_thermal": set()}
    for _ in run.instants():
        for name, found in shown.items():
            now = run.fleet.state.levels["device"].arrays[name]
            found |= {(run.fleet.state.tick, f"dgx-0/{device}") for device in range(4) if now[device] > 0}
    for name, found in shown.items():
        told = {
            (tick, device)
            for effect in run.truth.effects
            if effect.kind == name
            for device in effect.devices
            for tick in range(round(effect.begin_seconds) + 1, round(effect.end_seconds or 599) + 1)
        }
        assert found == told, name
        assert found or name == "throttled_thermal"


@pytest.mark.slow
def test_faults_that_return_are_incidents_of_their_own(tmp_path: Path) -> None:
    """Of a link that flaps each time counts; so does each error that happens at once."""
    run = finished(
        loaded(
            tmp_path,
            """
  - {at: 10s, as: flap, every: 60s, until: 350s, fault: {kind: link-down, devices: dgx-0/0, duration: 5s}}
  - {at: 300s, as: storm, fault: {kind: xid, code: 31, devices: dgx-0/1, every: 20s}}
  - {at: 370s, clear: all}
""",
        )
    )
    by_name: dict[str, list[Cause]] = {}
    for cause in run.truth.causes:
        by_name.setdefault(cause.name, []).append(cause)
    flaps = [(each.begin_seconds, each.end_seconds) for each in by_name["flap"]]
    assert flaps == [(begin, begin + 5.0) for begin in (10.0, 70.0, 130.0, 190.0, 250.0, 310.0)]
    storm = [(each.begin_seconds, each.end_seconds, each.values) for each in by_name["storm"]]
    assert storm == [(begin, begin + 1.0, {"code": 31.0}) for begin in (300.0, 320.0, 340.0, 360.0)]


@pytest.mark.slow
def test_live_virtual_and_recorded_pages_are_the_same(tmp_path: Path) -> None:
    """The service that plays a scenario, the run in virtual time, and the replays of both records."""
    path = written(tmp_path, STORM)
    scenario = loaded(tmp_path, STORM)
    lines: list[bytes] = []
    virtual = pages_of(started(scenario, record=lambda stamped: lines.append(event_line(stamped))))
    live: dict[int, bytes | None] = {}
    record = tmp_path / "live.jsonl"
    with application(scenario=path, record=str(record)) as app:
        for second in range(600):
            if second % 15 == 0:
                found = answers(app.http().send(b"GET /nodes/dgx-0/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"))
                live[second] = found[0].body if found else None
            app.tick()
    assert live == virtual
    recorded = record.read_bytes()
    assert [json.loads(line)["event"] for line in recorded.splitlines()[1:]] == [
        json.loads(line)["event"] for line in lines
    ]
    at_the_end = finished(scenario).fleet
    for text in (recorded, b"".join([recorded.splitlines(keepends=True)[0], *lines])):
        replay, fleet = Replay(read_record(text)[1]), started(scenario).fleet
        while fleet.state.tick < at_the_end.state.tick:
            replay.advance(fleet)
        assert fleet.power_watts.tolist() == at_the_end.power_watts.tolist()
        assert fleet.temperature_celsius.tolist() == at_the_end.temperature_celsius.tolist()


@pytest.mark.slow
def test_what_is_refused_is_told(tmp_path: Path) -> None:
    """What is not possible at its time does not end the run: here the board is lost, and its workload refused."""
    told: list[Played] = []
    run = finished(
        loaded(
            tmp_path,
            """
  - {at: 1m, fault: {kind: lost, devices: dgx-0/0}}
  - {at: 2m, run: {name: late, devices: dgx-0/0, profile: 50:1:0}}
  - {at: 3m, fault: {kind: fan, devices: dgx-0/1, duration: 1m}}
""",
        ),
        on_played=told.append,
    )
    assert [bool(each.problem) for each in told] == [False, False, False]
    assert [cause.kind for cause in run.truth.causes] == ["lost", "fan"]
    ended = [effect for effect in run.truth.effects if effect.kind == "ended"]
    assert [(each.name, each.devices) for each in ended] == [("late", ("dgx-0/0",))]


@pytest.mark.slow
def test_work_that_crosses_a_limit(tmp_path: Path) -> None:
    """Memory that grows until the board has no more ends its workload: no fault did that, and rules can expect it."""
    leak = 'profile: "50:0", repeat: 0, use: {memory: "ramp(40GiB,90GiB):0:10m"}'
    killed = 'profile: "50:0", repeat: 0'
    run = finished(
        loaded(
            tmp_path,
            f"""
  - {{at: 1m, run: {{name: leak, devices: dgx-0/0, {leak}}}}}
  - {{at: 1m, run: {{name: killed, devices: dgx-0/1, {killed}}}}}
  - {{at: 5m, fault: {{kind: xid, code: 31, devices: dgx-0/1}}}}
""",
        )
    )
    ended = [effect for effect in run.truth.effects if effect.name]
    assert [(each.kind, each.name, each.code, len(each.causes)) for each in ended] == [
        ("ended", "killed", 1, 1), ("over_limit", "leak", 1, 0),
    ]  # fmt: skip
    assert read_word("over_limit code=1", ()).takes_effect(ended[1])
    assert not read_word("ended", ()).takes_effect(ended[1])


@pytest.mark.slow
def test_a_reload_in_virtual_time(tmp_path: Path) -> None:
    """A configuration of its own from then on: a node more is a target more."""
    wider = """  fleet:
    seed: 3
    pools: [{name: dgx, nodes: [dgx-0, dgx-1], device: h100, devices-per-node: 4}]
"""
    (tmp_path / "wider.yaml").write_text("".join(line[2:] for line in wider.splitlines(keepends=True)))
    entries = "  - {at: 5m, reload: wider.yaml}\n  - {at: 6m, fault: {kind: lost, node: dgx-1}}\n"
    run = started(loaded(tmp_path, entries))
    counts = {round(instant.seconds): len(instant.scrapes) for instant in run.instants() if instant is not None}
    assert [seconds for seconds, count in counts.items() if count == 2] == list(range(315, 600, 15))
    assert [target.node for target in run.targets] == ["dgx-0", "dgx-1"]
    assert [cause.devices[0] for cause in run.truth.causes] == ["dgx-1/0"]


@pytest.mark.slow
def test_its_record_as_a_record(tmp_path: Path) -> None:
    """The head of the record and its events are those of a service, which other programs read."""
    events: list[bytes] = []
    from fakedev.scenario.start import make_run  # noqa: PLC0415 - the tuple with the head is of interest here alone

    run, head = make_run(loaded(tmp_path, STORM), BEGIN, lambda stamped: events.append(event_line(stamped)))
    for _ in run.instants():
        pass
    found, stamped = read_record(head_line(head) + b"".join(events))
    assert (found, len(stamped)) == (head, len(events))


@pytest.mark.slow
def test_the_end_of_one_run(tmp_path: Path) -> None:
    """It ends what its own entry has started: not what others have that have no name either."""
    run = finished(loaded(tmp_path, """
  - {at: 0s, run: {name: a, devices: dgx-0/0, profile: 50:0:0}}
  - {at: 0s, run: {name: b, devices: dgx-0/1, profile: 50:0:0}, for: 1m}
  - {at: 0s, every: 4m, run: {name: c, devices: dgx-0/2, profile: 50:0:0}, for: 3m}
"""))  # fmt: skip
    assert sorted(each.spec.name for each in run.fleet.workloads.by_id.values()) == ["a", "c"]


@pytest.mark.slow
def test_what_follows_from_a_fan_is_its_effect(tmp_path: Path) -> None:
    """Also the loss of the board by heat, its error code and the end of the work on it: one incident, not four."""
    hot = """
  - {at: 0s, run: {name: job, devices: "dgx-0/0", profile: "100:0:0", kind: tensor}}
  - {at: 1m, as: hot, fault: {kind: fan, resistance: 30, devices: dgx-0/0}}
"""
    truth = finished(loaded(tmp_path, hot)).truth
    found = {effect.kind: effect.causes for effect in truth.effects if effect.kind in ("lost", "xid", "ended")}
    fan = (truth.causes[0].fault_id,)
    assert found == {"lost": fan, "xid": fan, "ended": fan}
