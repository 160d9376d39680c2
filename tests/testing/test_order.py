"""What a test may ask for, and the words for what it may not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fakedev.config.load import load
from fakedev.config.schema.files import Files
from fakedev.testing.order import DEFAULT, Order, clean_environment, journal_lines, run_again


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
    ],
)
def test_wrong_orders(given: dict[str, Any], text: str) -> None:
    """The name at fault, and what would be right."""
    with pytest.raises(ValueError, match=text.replace("?", r"\?")):
        Order.of(given, [Path("/x"), Path("/y")])


def test_the_default() -> None:
    """One node of eight boards, with a clock that stands."""
    configuration = load(None, Files(environ={}), text=DEFAULT)
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
