"""What the command says of itself: its options, its subcommands, the fields of its queries."""

from __future__ import annotations

from collections.abc import Iterable

from fakedev.nvml.smi.columns_of_errors import COLUMNS
from fakedev.nvml.smi.csv_queries import APP_COLUMNS
from fakedev.nvml.smi.listing import SIMULATED
from fakedev.nvml.smi.options import COMMON, LISTS, MAYBE, QUERIES, VALUE, Option
from fakedev.nvml.smi.settings import SETTINGS
from fakedev.nvml.smi.subcommands import SUBCOMMANDS


def help_text() -> str:
    """What ``-h`` prints."""
    lines = [SIMULATED, "", "nvidia-smi [OPTION1 [ARG1]] [OPTION2 [ARG2]] ...", ""]
    groups = (
        ("", LISTS), ("Queries; without one, a table of all boards:", QUERIES), ("With a query:", COMMON),
        ("Settings, for users whom the service allows it:", SETTINGS),
    )  # fmt: skip
    for title, options in groups:
        lines += [f"  {title}", ""] if title else []
        lines += [f"    {_spelling(option):<38} {option.doc}" for option in options] + [""]
    lines += ["  Subcommands:", "", *(f"    {name:<38} {each.doc}" for name, each in SUBCOMMANDS.items()), ""]
    end = "nvidia-smi SUBCOMMAND -h lists its options. All else that the real command has ends with exit code 3."
    return "\n".join([*lines, end])


def subcommand_help(name: str) -> str:
    """What ``-h`` of a subcommand prints."""
    each = SUBCOMMANDS[name]
    options = [f"    {_spelling(option):<38} {option.doc}" for option in each.options]
    return "\n".join([SIMULATED, "", f"nvidia-smi {name} [OPTION1 [ARG1]] ...", "", f"  {each.doc}", "", *options])


def _spelling(option: Option) -> str:
    long = f"--{option.name}{'=' if option.takes in (VALUE, MAYBE) else ''}"
    return f"{option.short + ',':<5} {long}" if option.short else f"      {long}"


def _fields(switch: str, columns: Iterable[tuple[str, tuple[str, ...], str]]) -> str:
    """The list of all fields of a switch.

    :param columns: name, other names and meaning of each.
    """
    lines = [f'List of valid properties to query for the switch "{switch}" (all values are simulated by fakedev):', ""]
    for name, aliases, doc in columns:
        lines += [" or ".join(f'"{each}"' for each in (name, *aliases)), doc, ""]
    return "\n".join(lines)


def fields_text(option: str) -> str:
    """What ``--help-query-gpu`` or ``--help-query-compute-apps`` prints."""
    switch = option.replace("help-", "--", 1)
    columns = COLUMNS if option == "help-query-gpu" else APP_COLUMNS
    return _fields(switch, ((each.name, each.aliases, each.doc) for each in columns))
