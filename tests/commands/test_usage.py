"""What every subcommand answers to words that it cannot use: one line on standard error, and exit code 2."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fakedev.commands.main import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["shwo", "w1"], "fakedev: no subcommand 'shwo'; did you mean show?"),
        (["scenario", "scor"], "fakedev scenario: no subcommand 'scor'; did you mean score?"),
        (["scenario", "?"], "fakedev scenario: no subcommand '?'; there are run, score, tests, blocks, from"),
        (["kube", "pla"], "fakedev kube: no subcommand 'pla'; did you mean plan?"),
        (["stop", "\udcff"], r"fakedev stop: WORD: '\udcff' is not UTF-8; --help lists the options"),
        (["schema", "--version=1"], "fakedev schema: --version: takes no value, and not '1'; --help lists the options"),
        (
            ["render", "--for", "-5m"],
            "fakedev render: --for: '-5m' is negative: give at least 0; --help lists the options",
        ),
        (["diff", "dcgm", "--ful"], "fakedev diff: there is no option --ful; --help lists the options"),
        (
            ["serve", "--port=65536"],
            "fakedev serve: --port: '65536' is no port: from 0 (any free one) to 65535; --help lists the options",
        ),
        (["kube"], "fakedev kube: give a subcommand: plan or token or proof or clean; --help lists the options"),
        (["prometheus", "--interval=0"], "fakedev prometheus: --interval: must be above 0; --help lists the options"),
        (
            ["prometheus", "--interval=-1s"],
            "fakedev prometheus: --interval: '-1s' is negative: give at least 0; --help lists the options",
        ),
        (
            ["sd", "--target", "http://h:9400"],
            "fakedev sd: --target: 'http://h:9400' is no HOST:PORT: without http:// and without a path; --help lists "
            "the options",
        ),
        *(
            (["sd", f"--target=h:{port}"],
             f"fakedev sd: --target: 'h:{port}': '{port}' is no port: from 1 to 65535; --help lists the options")
            for port in ("94000", "", "x", "0")
        ),
        (["clone"], "fakedev clone: give pages, or --prometheus URL; --help lists the options"),
        (["clone", "/no/page"], "fakedev clone: /no/page: no such file or folder"),
        (
            ["clone", "--prometheus", "localhost:9090"],
            "fakedev clone: --prometheus: 'localhost:9090' is no address, as http://localhost:9090",
        ),
        (
            ["clone", "--prometheus", "http://x"],
            "fakedev clone: --match: say which series, as '{job=\"dcgm\"}': all of a Prometheus are no fleet",
        ),
        (
            ["clone", "--prometheus", "http://x", "--match", "{a='b'}", "--to", "now"],
            "fakedev clone: --to: 'now' is no time, as 2026-05-01T12:00:00Z",
        ),
    ],
)  # fmt: skip
def test_wrong_words(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The words are named, with what was probably meant."""
    assert ended(words) == 2
    assert capsys.readouterr().err.splitlines() == [said]


@pytest.mark.parametrize("words", [[], ["scenario"], ["kube"], ["schema"], ["nvml", "--version"]], ids=" ".join)
def test_long_words(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The line has their beginning and its own end, not all that was given."""
    *before, last = words or [""]
    assert ended([*before, f"{last}={'a' * 100_000}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert len(line) < 1100


@pytest.mark.slow
@pytest.mark.parametrize("words", [["sd"], ["nvml", "build"]], ids=" ".join)
def test_an_output_that_is_no_file(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It stays: a program of root would otherwise take /dev/null from all others."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert ended([*words, "--output", str(pipe)]) == 1
    assert capsys.readouterr().err == f"fakedev {words[0]}: {pipe}: it is not a regular file\n"
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def ended(words: list[str]) -> object:
    try:
        return main(words)
    except SystemExit as end:
        return end.code
