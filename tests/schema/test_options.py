"""How a subcommand is made of its options and a function: its help, wrong usage, failures and exit codes."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fakedev.base.errors import CannotWrite
from fakedev.base.units import parse_duration
from fakedev.schema.options import (
    Failed,
    OnlyOne,
    Operand,
    Option,
    Parser,
    WrongUsage,
    command,
    percentage,
    write_file,
)

OPTIONS = (
    Operand("file", "FILE", "the file"),
    Operand("words", "WORD", "the words", count="*"),
    OnlyOne((Option("one-way", "DURATION", "one", 1.5, parse_duration), Option("other", "", "another")), True),
    Option("min", "PERCENT", "the least", parse=percentage, value="least"),
    Option("rule", "R", "a rule", is_repeated=True),
    Option("seed", "N", "the seed", assigns=lambda text: f"fleet.seed={int(text)}"),
    Option("output", "FILE", "the output", "a.txt", short="o"),
)


def values_of(words: Sequence[str]) -> dict[str, object]:
    return vars(Parser("fakedev x", *OPTIONS, description=None).parse_args(words))


def test_values() -> None:
    """Of operands, of options with values and without, repeated ones, and assignments."""
    read = values_of(["f", "a", "b", "--one-way", "90s", "--min", "5", "--rule", "r", "--rule", "s", "--seed", "7"])
    assert read == {
        "file": "f", "words": ["a", "b"], "one_way": 90.0, "other": False, "least": 5.0, "rule": ["r", "s"],
        "set": ["fleet.seed=7"], "output": "a.txt",
    }  # fmt: skip
    read = values_of(["f", "--other", "-o", "b.txt"])
    assert (read["one_way"], read["other"], read["rule"], read["set"], read["output"]) == (1.5, True, [], [], "b.txt")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("f", "one of the arguments --one-way --other is required"),
        ("f --other --one-way 1s", "--one-way: not allowed with argument --other"),
        *((f"f --other --min={text}", f"--min: '{text}' is no percentage from 0 to 100")
          for text in ("100.1", "-1", "most", "nan")),
        ("f --other --seed x", "--seed: invalid literal for int() with base 10: 'x'"),
        ("f --other --ouput=b", "there is no option --ouput; did you mean --output?"),
        ("", "the following arguments are required: FILE"),
    ],
)  # fmt: skip
def test_wrong_words(words: str, reason: str, misuse: Callable[..., str]) -> None:
    assert misuse(values_of, *words.split()) == f"fakedev x: {reason}; --help lists the options\n"


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (None, 0, ""),
        (Failed("it cannot"), 1, "fakedev x: it cannot\n"),
        (Failed("it must not", 3), 3, "fakedev x: it must not\n"),
        (CannotWrite("a.txt", "it is full"), 1, "fakedev x: a.txt: it is full\n"),
        (UnicodeError("no text"), 4, "fakedev x: no text\n"),
        (ValueError("no number"), 2, "fakedev x: no number\n"),
    ],
)
def test_ends(error: Exception | None, code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The first of the failures that an error is has the exit code."""

    @command("fakedev x", None, failures={UnicodeError: 4, ValueError: 2})
    def run(_: Namespace) -> None:
        if error is not None:
            raise error

    assert run([]) == code
    assert capsys.readouterr().err == said


def test_other_ends(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The function's own exit code; wrong usage, as of a parser; errors that are no failures."""

    @command("fakedev x", None, Operand("end", "END", "how it ends"), shown="fakedev")
    def run(options: Namespace) -> int:
        if options.end == "usage":
            raise WrongUsage("--a and --b exclude each other")
        if options.end == "file":
            write_file(tmp_path / "none" / "a.txt", "")
        return int(options.end)

    assert run(["5"]) == 5
    with pytest.raises(ValueError, match="invalid literal"):
        run(["x"])
    assert run(["file"]) == 1
    with pytest.raises(SystemExit) as ended:
        run(["usage"])
    assert ended.value.code == 2
    failed, usage = capsys.readouterr().err.splitlines()
    assert failed == f"fakedev: {tmp_path}/none/a.txt: no such file or folder"
    assert usage == "fakedev x: --a and --b exclude each other; --help lists the options"
