"""What a test may ask for, and the words for what it may not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fakedev.testing.order import DEFAULT, Order, clean_environment, journal_lines, run_again, with_scenario
from fakedev.testing.simulation import Simulation
from tests.support.configurations import loaded
from tests.support.paths import ROOT


def test_files_are_beside_the_test_or_in_the_root(tmp_path: Path) -> None:
    """The first folder that has it; a text with lines is a configuration itself."""
    near, root = tmp_path / "near", tmp_path
    near.mkdir()
    for path in (near / "a.yaml", root / "a.yaml", root / "b.yaml"):
        path.write_text("version: 1\n")
    folders = [near, root]
    assert Order.of({"config": "a.yaml"}, folders).config == str(near / "a.yaml")
    assert Order.of({"config": Path("b.yaml")}, folders) == Order(str(root / "b.yaml"))
    assert Order.of({"config": "version: 1\n"}, folders).with_file(near) == Order(str(near / "fakedev.yaml"))
    assert Order.of({"scenario": "b.yaml"}, folders) == Order(scenario=str(root / "b.yaml"))
    assert Order.of({"set": ["fleet.seed=7"], "identity": "dcgm"}, []) == Order("", DEFAULT, "dcgm", ("fleet.seed=7",))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"confg": "a"}, "confg: is nothing that a fleet takes; did you mean config?"),
        ({"config": "a.yaml"}, "config: there is no a.yaml in /x or /y"),
        ({"scenario": "a.yaml"}, "scenario: there is no a.yaml in /x or /y"),
        ({"config": 7}, "config: must be a text, not 7"),
        ({"set": "fleet.seed=7"}, "set: must be a list of texts"),
        ({"replay": "jobs trace"}, "replay: must be a list of texts"),
        ({"replay": ["jobs"]}, "replay: needs a format and a folder"),
        ({"replay": ["jobs", "trace"]}, "replay: there is no trace in /x or /y"),
        ({"replay": ["jobs", "trace"], "scenario": "a.yaml"}, "replay: a trace has its own configuration"),
    ],
)
def test_wrong_orders(given: dict[str, Any], text: str) -> None:
    """The name at fault, and what would be right."""
    with pytest.raises(ValueError, match=text.replace("?", r"\?")):
        Order.of(given, [Path("/x"), Path("/y")])


def test_the_default() -> None:
    """One node of eight boards, with a clock that stands."""
    configuration = loaded(DEFAULT)
    (pool,) = configuration.fleet.pools
    assert ([node.name for node in pool.nodes], pool.devices_per_node, configuration.speed) == (["dgx-0"], 8, 0.0)


def test_words_of_a_report(tmp_path: Path) -> None:
    """The options and the text; the journal from its oldest entry on; a command for a shell."""
    order = Order(overrides=("a=b c",), text="version: 1\n").with_file(tmp_path)
    assert str(order) == f"# {tmp_path}/fakedev.yaml\n--set 'a=b c'\nversion: 1"
    (tmp_path / "fakedev.yaml").unlink()
    assert "no such file" in str(order).lower()
    entries = [{"tick": 2, "kind": "began", "scope": "a/0", "text": "fan began"},
               {"tick": 0, "kind": "clock", "scope": "", "text": "start"}]  # fmt: skip
    assert journal_lines(entries) == "tick 0  clock  start\ntick 2  began  a/0  fan began"
    assert run_again("/a b/r", 600.0) == "fakedev render --events '/a b/r' --for 10m --every 10m"
    assert run_again("r", 0.0) == "fakedev render --events r --for 0 --every 1s"


def test_the_environment_of_a_service() -> None:
    """Nothing that would change its configuration, or where it writes."""
    environ = {"PATH": "/bin", "FAKEDEV__FLEET__SEED": "7", "FAKEDEV_URL": "x", "NOTIFY_SOCKET": "/run/n", "TOKEN": "t"}
    assert clean_environment(environ) == {"PATH": "/bin", "TOKEN": "t", "RUNTIME_DIRECTORY": "/tmp"}


TRACE = str(ROOT / "etc" / "traces" / "small")


@pytest.mark.slow
def test_a_trace(tmp_path: Path) -> None:
    """It becomes a scenario, whose jobs run in the fleet."""
    order = with_scenario(Order.of({"replay": ["jobs", TRACE, "--usage", "60:0"]}, [Path("/")]), tmp_path)
    sim = Simulation(order, tmp_path)
    sim.advance("5m")
    assert {"train", "chat", "notebook-1", "notebook-2", "batch"} == {workload["name"] for workload in sim.workloads()}
    assert sim.device("n0/0")["quantities"]["usage_ratio"] > 0
    assert f"fakedev replay jobs {TRACE} --usage 60:0" in str(order)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ([], "replay: the trace has no usage of 4 of 5 jobs"),
        (["--usage", "60:20", "--check"], "replay: leave out options that show something else"),
        (["--usag", "60:20"], "replay: there is no option --usag; did you mean --usage?"),
    ],
)
def test_traces_that_are_none(tmp_path: Path, more: list[str], text: str) -> None:
    """The words of the command, once; nothing is printed."""
    with pytest.raises(ValueError, match=f"^{re.escape(text)}"):
        with_scenario(Order(replay=("jobs", TRACE, *more)), tmp_path)
