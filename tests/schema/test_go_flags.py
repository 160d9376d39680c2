"""Command-line options follow the rules of Go's flag package."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.schema.go_flags import (
    FlagError,
    FlagSet,
    HelpAsked,
    Values,
    parse_boolean,
    parse_integer,
    parse_number,
    parse_unsigned,
)


class Program:
    """A program with an option of each kind."""

    def __init__(self, operands: str = "") -> None:
        self.flags = FlagSet("prog", "does things", operands)
        self.name = self.flags.text("name", "none", "a name")
        self.count = self.flags.integer("count", 1, "a count")
        self.size = self.flags.unsigned("size", 0, "a size")
        self.share = self.flags.number("share", 0.5, "a share")
        self.verbose = self.flags.boolean("verbose", "say more")
        self.pairs = self.flags.each("pair", "a pair", "A=B", _pair)


def parsed(*arguments: str, operands: str = "") -> tuple[Program, Values]:
    program = Program(operands)
    return program, program.flags.parse(arguments)


def _pair(text: str) -> tuple[str, ...]:
    if "=" not in text:
        raise ValueError(f"{text!r} is no pair")
    return tuple(text.split("=", 1))


def test_without_arguments_all_have_their_defaults() -> None:
    program, values = parsed()
    assert (values[program.name], values[program.count], values[program.share]) == ("none", 1, 0.5)
    assert (values[program.verbose], values[program.pairs], values.operands) == (False, (), ())
    assert not values.given(program.name)


@pytest.mark.parametrize("arguments", ["-count 7", "--count 7", "-count=7", "--count=7", "-count 1 --count=7"])
def test_one_dash_or_two_and_both_forms_of_value(arguments: str) -> None:
    """The last of two values counts."""
    program, values = parsed(*arguments.split())
    assert values[program.count] == 7
    assert values.given(program.count)


@given(st.text(), st.sampled_from(["-", "--"]), st.booleans())
def test_any_text_is_a_value(value: str, dashes: str, joined: bool) -> None:
    """A value may begin with dashes, hold equal signs, or be empty: it is taken as it is."""
    program, values = parsed(*([f"{dashes}name={value}"] if joined else [f"{dashes}name", value]))
    assert values[program.name] == value


def test_repeated_options_gather() -> None:
    """An option declared with each() has all values, in order; a value is split at its own sign only."""
    program, values = parsed("-pair", "a=1", "-pair=b=2=3")
    assert values[program.pairs] == (("a", "1"), ("b", "2=3"))


@pytest.mark.parametrize(
    ("arguments", "verbose", "operands"),
    [
        (["-verbose"], True, ()),
        (["-verbose=false"], False, ()),
        (["--verbose=T"], True, ()),
        (["-verbose", "false"], True, ("false",)),
        (["run", "-count", "2"], False, ("run", "-count", "2")),
        (["--", "-count", "2"], False, ("-count", "2")),
        (["-verbose", "--", "--"], True, ("--",)),
        (["-", "-count"], False, ("-", "-count")),
        (["", "-count"], False, ("", "-count")),
    ],
)
def test_operands(arguments: list[str], verbose: bool, operands: tuple[str, ...]) -> None:
    """They follow the first one, or two dashes; a boolean option takes =value, but no next argument."""
    program, values = parsed(*arguments, operands="WORDS")
    assert (values[program.verbose], values.operands, values[program.count]) == (verbose, operands, 1)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["-nope"], "no option -nope"),
        (["-Name", "x"], "no option -Name"),
        (["-count"], "-count needs a value"),
        (["-count="], "-count: '' is no whole number"),
        (["-count", "1.5"], "-count: '1.5'"),
        (["-verbose=maybe"], "-verbose: 'maybe'"),
        (["-pair", "x"], "-pair: 'x' is no pair"),
        (["---name", "x"], "'---name' is no option"),
        (["-=x"], "'-=x' is no option"),
        (["--=x"], "'--=x' is no option"),
        (["word"], "unexpected argument 'word'"),
        (["--", "word"], "unexpected argument 'word'"),
    ],
)
def test_what_cannot_be_used_is_named(arguments: list[str], part: str) -> None:
    with pytest.raises(FlagError) as caught:
        Program().flags.parse(arguments)
    assert part in str(caught.value)


@pytest.mark.parametrize("argument", ["-h", "-help", "--help", "--h"])
def test_help_is_asked_for(argument: str) -> None:
    """All spellings of help, after other options as well."""
    with pytest.raises(HelpAsked):
        Program().flags.parse(["-count", "3", argument])


def test_a_program_may_have_its_own_h() -> None:
    flags = FlagSet("prog", "does things")
    height = flags.integer("h", 1, "height")
    assert flags.parse(["-h", "3"])[height] == 3


def test_help_names_every_option_with_its_default() -> None:
    """The help shows the program, the options in order of name, kinds of value and defaults."""
    lines = Program("WORDS").flags.help().splitlines()
    assert lines[0] == "prog [OPTIONS] WORDS: does things"
    assert [line.strip() for line in lines if line.startswith("  -")] == [
        "-count N", "-name TEXT", "-pair A=B", "-share NUMBER", "-size N", "-verbose",
    ]  # fmt: skip
    assert "        a name (default none)" in lines
    assert "        a pair (may be repeated)" in lines
    assert "        a size" in lines


def test_ends_of_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """Help is printed, with 0; a usage error is reported on standard error, with the way to the help, and exits 2."""
    flags = Program().flags
    wrong = "prog: there is no option -nope\nprog -help lists the options\n"
    for argument, ended in (("-help", (0, flags.help(), "")), ("-nope", (2, "", wrong))):
        with pytest.raises(SystemExit) as caught, flags.usage_errors_exit():
            flags.parse([argument])
        assert (caught.value.code, *capsys.readouterr()) == ended


def test_a_name_is_declared_once() -> None:
    program = Program()
    with pytest.raises(ValueError, match="-name is declared twice"):
        program.flags.boolean("name", "again")


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("-12", -12), ("+3", 3), ("0x1f", 31), ("0b11", 3), ("0o17", 15), ("017", 15), ("1_000", 1000),
     (str(2**63 - 1), 2**63 - 1), (str(-(2**63)), -(2**63))],
)  # fmt: skip
def test_whole_numbers_as_go_reads_them(text: str, value: int) -> None:
    """Bases by prefix, octal by a leading 0, underscores between digits."""
    assert parse_integer(text) == value


@pytest.mark.parametrize("text", ["", " 1", "1 ", "1.0", "1e3", "08", "x", "_1", "1__0", "٣", str(2**63), "--1"])
def test_what_is_no_whole_number(text: str) -> None:
    """No white space, fractions, digits of other scripts, or numbers past 64 bits."""
    with pytest.raises(ValueError, match="is no whole number"):
        parse_integer(text)


def test_unsigned_numbers_have_no_sign() -> None:
    """From 0 to the largest of 64 bits, without plus or minus, as in Go."""
    assert parse_unsigned(str(2**64 - 1)) == 2**64 - 1
    for text in ("-1", "+1", "-0", str(2**64), ""):
        with pytest.raises(ValueError, match="from 0 up"):
            parse_unsigned(text)


@pytest.mark.parametrize("text", ["nan", "inf", "-Infinity", "1e999", "1_0", " 1", "", ".", "0x1p3"])
def test_numbers_are_finite_decimals(text: str) -> None:
    assert parse_number("-2.5e1") == -25.0
    with pytest.raises(ValueError, match="is no finite number"):
        parse_number(text)


def test_booleans_in_go_spelling_only() -> None:
    assert all(parse_boolean(text) for text in ("1", "t", "T", "true", "TRUE", "True"))
    assert not any(parse_boolean(text) for text in ("0", "f", "F", "false", "FALSE", "False"))
    for text in ("yes", "on", "tRUE", ""):
        with pytest.raises(ValueError, match="neither true nor false"):
            parse_boolean(text)
