"""The fuzzer: the same small number of hostile inputs for each target, and that it finds, shortens and repeats."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from twisted.logger import Logger

from tests.fuzz import __main__ as program
from tests.fuzz import engine
from tests.fuzz.engine import Session, Target, fault_of, read_find
from tests.fuzz.targets import TARGETS
from tests.support.logged_errors import LoggedErrors

#: Inputs for each target: its first ones for this seed, after some of its good ones.
_INPUTS = 60
_SEED = "make test"


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_hostile_inputs(target: Target) -> None:
    """Each gets a declared error or an answer of the protocol's form; nothing else is disturbed."""
    some = Target(target.name, target.make, lambda: target.seeds()[:30], target.words, target.rounds)
    report = Session(some, _SEED, lambda done: done < _INPUTS).run()
    assert not report.finds, report.finds[0].text()
    assert report.inputs == _INPUTS


class Fragile:
    """Breaks as a test says."""

    log = Logger()

    def __init__(self) -> None:
        self._seen = b""

    def run(self, data: bytes) -> str:
        """Break."""
        self._seen += data
        if b"{{" in data:
            raise KeyError(len(data))
        if b"!" in data:
            self.log.critical("an error in the log")
        if b"loop" in data:
            while True:
                pass
        if self._seen.count(b"#") > 1:
            raise RuntimeError("two")
        return "good"

    def stop(self) -> None:
        """Nothing is left."""


def fragile(*seeds: bytes) -> Target:
    """A target that breaks."""
    return Target("fragile", Fragile, lambda: list(seeds), lambda: [b"x"], rounds=50)


@pytest.mark.parametrize(
    ("seeds", "inputs", "fault"),
    [
        ([b"good", b"x" * 300 + b"{{" + b"y" * 300], [b"{{"], "KeyError: 2"),
        ([b"good", b"abc!def"], [b"!"], "an error in the log"),
        ([b"a#", b"good", b"b#b", b"good"], [b"#", b"#"], "RuntimeError: two"),
    ],
)
def test_finds_are_shortened(
    seeds: list[bytes], inputs: list[bytes], fault: str, logged_errors: LoggedErrors
) -> None:
    """To the inputs and the bytes that are needed; errors that are only logged count, and what several inputs do."""
    (find,) = Session(fragile(*seeds), "1", lambda done: done < len(seeds)).run().finds
    assert find.inputs == inputs
    assert fault in find.fault
    logged_errors.take_critical()


def test_input_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ended, and told with the place where it was."""
    monkeypatch.setattr(engine, "MAX_CPU_SECONDS", 0.05)
    fault = fault_of(fragile(), [b"loop"])
    assert "of CPU time" in fault
    assert "while True" in fault


def test_a_seed_gives_the_same_inputs() -> None:
    """Another one gives others."""
    made: dict[str, list[bytes]] = {}
    for name, seed in (("first", "1"), ("again", "1"), ("other", "2")):
        inputs = made.setdefault(name, [])

        class Listening(Fragile):
            def run(self, data: bytes) -> str:
                inputs.append(data)  # noqa: B023
                return "good"

        Session(Target("x", Listening, lambda: [b'{"a": 12}'], lambda: [b"b"]), seed, lambda done: done < 100).run()
    assert made["first"] == made["again"] != made["other"]


def test_a_find_is_written_and_repeated(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    logged_errors: LoggedErrors,
) -> None:
    """The file has target, seed and input; the program ends with 1 when it finds something, and again for the file."""
    monkeypatch.setattr(program, "TARGETS", (fragile(b"{{"),))
    monkeypatch.setattr(program, "ROOT", tmp_path)
    monkeypatch.setattr(program, "_FOLDER", tmp_path / ".fuzz")
    assert program.main({"FUZZ_SECONDS": "0.2", "FUZZ_SEED": "7"}) == 1
    shown = re.search(r"FUZZ_INPUT=(\S+)", capsys.readouterr().out)
    assert shown
    path = tmp_path / shown[1]
    assert read_find(path) == ("fragile", [b"{{"])
    assert "# seed: 7\n" in path.read_text()
    assert program.main({"FUZZ_INPUT": str(path)}) == 1
    monkeypatch.setattr(Fragile, "run", lambda self, data: "good")
    assert program.main({"FUZZ_INPUT": str(path)}) == 0
    assert program.main({"FUZZ_TARGET": "nothing"}) == 2
    logged_errors.take_critical()
