"""Scenario files: what they hold, where their configuration is, and every mistake with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakedev.config.load import load
from fakedev.scenario.entries import Inject, Reconfigure, Scraping, Span
from fakedev.scenario.settings import load_scenario
from fakedev.schema.files import Files
from fakedev.schema.places import ConfigurationError
from tests.support.scenarios import FLEET, loaded, written

FAULT = "fault: {kind: fan, devices: dgx-0/1, duration: 1m}"


def problems(folder: Path, timeline: str, **others: str) -> list[str]:
    """The problems of a scenario, each with its line."""
    path = written(folder, timeline, **others)
    with pytest.raises(ConfigurationError) as told:
        load_scenario(path, {})
    return [f"{problem.line}: {problem.text}" for problem in told.value.problems]


def problem(folder: Path, entry: str, **others: str) -> str:
    """The only problem of a scenario with one entry."""
    (found,) = problems(folder, f"  - {entry}\n", **others)
    line, _, text = found.partition(": ")
    assert int(line) == 11, found
    return text


def test_all_of_a_scenario(tmp_path: Path) -> None:
    """Times, names, how it is watched, rules; relative paths begin at its folder."""
    found = loaded(
        tmp_path,
        f"""
  - {{at: 1h..2h, as: hot, every: 30m, times: 2, until: 20h, {FAULT}}}
  - {{after: hot, delay: 5s, clear: hot}}
rules:
  - {{file: gpu.rules.yml, expects: {{GpuHot: [fan, throttled_thermal], GpuXid: "xid code=79, hot", Never: none}}}}
  - other.yml
""",
        head="{for: 24h, scrape: 30s, timeout: 5s, evaluation: 1m, seed: 9, job: gpus, labels: {cluster: c}}",
    )
    scenario = found.scenario
    assert (scenario.name, scenario.span_seconds, scenario.seed) == ("scenario", 86400.0, 9)
    assert scenario.scraping == Scraping(30.0, 5.0, 60.0, "gpus", "{node}:9400", {"cluster": "c"})
    assert scenario.entries[0].when.at == Span(3600.0, 7200.0)
    assert [occurrence.entry.kind for occurrence in scenario.occurrences] == ["fault", "clear", "fault", "clear"]
    rules, other = scenario.rules
    assert rules.file == str(tmp_path / "gpu.rules.yml")
    assert rules.expects == {
        "GpuHot": ("fan", "throttled_thermal"), "GpuXid": ("xid code=79", "hot"), "Never": ("none",),
    }  # fmt: skip
    assert (other.file, other.expects) == (str(tmp_path / "other.yml"), {})


def test_where_the_configuration_is(tmp_path: Path) -> None:
    """In the scenario, in a file beside it, in that of an option, or the demo; with values of its own."""
    inside = loaded(tmp_path, f"  - {{at: 1s, {FAULT}}}\n")
    assert inside.configurations[0].configuration.fleet.pools[0].devices_per_node == 4
    (tmp_path / "fleet.yaml").write_text("".join(line[2:] for line in FLEET.splitlines(keepends=True)[2:]))
    beside = loaded(tmp_path, f"  - {{at: 1s, {FAULT}}}\n", fleet="config: fleet.yaml\nset: [fleet.tick=500ms]")
    assert beside.configurations[0].configuration.fleet.pools[0].devices_per_node == 4
    assert beside.configurations[0].configuration.fleet.tick_seconds == 0.5
    path = written(tmp_path, f"  - {{at: 1s, {FAULT}}}\n", fleet="set: [fleet.tick=500ms]")
    of_option = load_scenario(path, {}, str(tmp_path / "fleet.yaml"), ["fleet.seed=12"])
    assert of_option.configurations[0].configuration.fleet.seed == 12
    assert of_option.configurations[0].configuration.fleet.tick_seconds == 0.5
    demo = loaded(tmp_path, "  - {at: 1s, fault: {kind: fan, devices: any}}\n", fleet="")
    assert len(demo.configurations[0].configuration.fleet.pools) > 0


def test_the_configuration_of_a_scenario_for_other_programs(tmp_path: Path) -> None:
    """What reads configurations takes that of a scenario, and says that its timeline is not played."""
    path = written(tmp_path, f"  - {{at: 1s, {FAULT}}}\n")
    configuration = load(path, Files(environ={}))
    assert configuration.fleet.pools[0].name == "dgx"
    assert configuration.notes == (
        f"{path}:1: is a scenario: its configuration is used, and its timeline is not played",
    )


def test_reloads_have_configurations_of_their_own(tmp_path: Path) -> None:
    """By a file, or by values; they are read with the scenario, so that mistakes are told at once."""
    found = loaded(
        tmp_path,
        """
  - {at: 1m, reload: {set: [fleet.pools.0.inlet=40]}}
  - {at: 2m, reload: {config: scenario.yaml}}
""",
    )
    assert [entry.action for entry in found.scenario.entries] == [
        Reconfigure(1, "scenario.yaml fleet.pools.0.inlet=40"), Reconfigure(2, "scenario.yaml"),
    ]  # fmt: skip
    warm, again = (each.configuration.fleet.pools[0].inlet_celsius for each in found.configurations[1:])
    assert (warm, again) == (40.0, None)
    assert "no such file" in problem(tmp_path, "{at: 1m, reload: missing.yaml}")


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (f"{{{FAULT}}}", "give at or after: when does it occur?"),
        (f"{{at: 1m, as: x, after: x, {FAULT}}}", "give at or after, not both"),
        (f"{{at: -5m, {FAULT}}}", "timeline.0.at: -5m is before the start, which is at 0s"),
        (f"{{at: 10m, {FAULT}}}", "at: 10m is not before the end, 10m"),
        (f"{{at: 5m..20m, {FAULT}}}", "at: 20m is not before the end, 10m"),
        (f"{{at: 2h..1h, {FAULT}}}", "write the earlier one first"),
        (f"{{at: 1m, delay: 5s, {FAULT}}}", "delay: is for after; at is the time itself"),
        (f"{{at: 1m, times: 5, {FAULT}}}", "times and until: are for every"),
        (f"{{at: 1m, every: 0, {FAULT}}}", "every: must be above 0"),
        (f"{{at: 1m, for: 5m, {FAULT}}}", "for: is for run; a fault has its duration"),
        ("{at: 1m}", "an entry has one of run, fault, clear, stop, reload, speed; this one has none of them"),
        (f"{{at: 1m, clear: all, {FAULT}}}", "this one has fault and clear: make two entries"),
        ("{at: 1m, clear: hot}", "clear: no entry 'hot' that it could be; there is all"),
        ("{at: 1m, stop: training}", "stop: no entry 'training' that it could be; there is all"),
        (f"{{after: hot, {FAULT}}}", "after: no entry 'hot' that it could be; there is none"),
        (f"{{at: 1m, as: fan, {FAULT}}}", "as: 'fan' has a meaning of its own: give another name"),
        ("{at: 1m, fault: {kind: fan, devices: dgx-7/0}}", "devices: no node 'dgx-7'"),
        ("{at: 1m, fault: {kind: fan, devices: dgx-7/any}}", "devices: no node 'dgx-7'"),
        ("{at: 1m, fault: {kind: fann, devices: any}}", "did you mean fan?"),
        ("{at: 1m, fault: {kind: xid, devices: any}}", "code: missing"),
        ("{at: 1m, run: {name: a, devices: dgx-0/9, profile: 10:0:1}}", "devices: no device '9'"),
        ("{at: 1m, run: {devices: all, profile: 10:0:1}}", "name"),
        ("{at: 1m, every: 30s, fault: {kind: fan, devices: all, duration: 1m}}", "itself, it is repeated too soon"),
        ("{at: 1m, atlas: 3, clear: all}", "unknown key 'atlas'"),
    ],
)  # fmt: skip
def test_mistakes(entry: str, text: str, tmp_path: Path) -> None:
    """Each is told with its line, and with what to do."""
    assert text in problem(tmp_path, entry)


def test_mistakes_of_several(tmp_path: Path) -> None:
    """All of them at once: names that are given twice, faults that overlap."""
    entries = f"  - {{at: 1m, as: a, {FAULT}}}\n  - {{at: 3m, as: a, {FAULT}}}\n  - {{at: 5m, clear: b}}\n"
    path = tmp_path / "scenario.yaml"
    assert problems(tmp_path, entries) == [
        f"12: as: 'a' is the name of {path}:11 already",
        "13: clear: no entry 'b' that it could be; there is a, all",
    ]
    entries = f"  - {{at: 1m, {FAULT}}}\n  - {{at: 90s, {FAULT}}}\n"
    (text,) = problems(tmp_path, entries)
    assert text == f"12: fan at 90s on the same devices as that of {path}:11, which is not over by then"


@pytest.mark.parametrize(
    ("head", "text"),
    [
        ("{scrape: 15s}", "'for' is missing"),
        ("{for: 1h, scrape: 1500ms}", "scrape: 1500ms is no whole number of ticks of 1s"),
        ("{for: 1h, timeout: 20s}", "timeout: is longer than the time between two scrapes"),
        ("{for: 1h, labels: {job: x}}", "labels: job has its own key"),
        ("{for: 1h, interval: 15s}", "unknown key 'interval'"),
    ],
)
def test_mistakes_of_the_head(head: str, text: str, tmp_path: Path) -> None:
    (found,) = problems(tmp_path, f"  - {{at: 1m, {FAULT}}}\n", head=head)
    assert text in found


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("fann", "'fann' is neither a kind of fault, nor an effect, nor the name of an entry"),
        ("xid codes=79", "'xid codes=79': xid takes no 'codes'; did you mean code?"),
        ("xid code=x", "'xid code=x': 'x' is no number"),
    ],
)
def test_mistakes_of_expectations(word: str, text: str, tmp_path: Path) -> None:
    rules = f"  - {{at: 1m, {FAULT}}}\nrules: [{{file: r.yml, expects: {{A: [{word}]}}}}]\n"
    (found,) = problems(tmp_path, rules)
    assert text in found


def test_devices_that_are_drawn(tmp_path: Path) -> None:
    """A device of the fleet, or of a node; a node in the place of one."""
    found = loaded(
        tmp_path,
        """
  - {at: 1m, fault: {kind: fan, devices: any, duration: 1s}}
  - {at: 2m, fault: {kind: node-down, node: any, duration: 1s}}
  - {at: 3m, fault: {kind: fan, devices: [dgx-0/any, dgx-0/any], duration: 1s}}
""",
    ).scenario
    one, node, two = (occurrence.action for occurrence in found.occurrences)
    assert isinstance(one, Inject)
    assert isinstance(node, Inject)
    assert isinstance(two, Inject)
    assert one.fault.devices[0].startswith("dgx-0/")
    assert (node.fault.node, node.fault.devices) == ("dgx-0", ("all",))
    assert len(two.fault.devices) == 2
