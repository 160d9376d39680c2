"""The command: what its arguments ask for, once or again and again."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TextIO

from fakedev.nvml.smi import subcommands
from fakedev.nvml.smi.csv_queries import app_query, format_of, gpu_query
from fakedev.nvml.smi.failures import INTERRUPTED, LOST, NOT_FOUND, Failure, bad_argument
from fakedev.nvml.smi.help_texts import fields_text, help_text, subcommand_help
from fakedev.nvml.smi.listing import listed, versions
from fakedev.nvml.smi.options import COMMON, LISTS, QUERIES, delay_seconds, number_of, parse
from fakedev.nvml.smi.report import sections_of, text_report, xml_report
from fakedev.nvml.smi.settings import SETTINGS, changed
from fakedev.nvml.smi.snapshot import Board, Snapshot, read_snapshot
from fakedev.nvml.smi.subcommands import Lines
from fakedev.nvml.smi.table import table
from fakedev.spec.os_errors import plain_reason

#: What the command does; one of these at a time.
_ACTIONS: Final = (
    *("query", "query-gpu", "query-compute-apps", "list-gpus"),
    *(option.name for option in SETTINGS),
)


class _Task(NamedTuple):
    """What to print.

    :ivar delay: seconds from one tick that is printed to the next; None: one tick alone.
    :ivar times: so often; None: until Ctrl+C.
    """

    lines: Lines
    delay: float | None = None
    times: int | None = None


def main(arguments: Sequence[str]) -> int:
    """Run the command; its exit code."""
    try:
        return run(arguments, os.environ, sys.stdout, sys.stderr)
    except Failure as failure:
        sys.stdout.write(f"{failure.text}\n")
        if failure.reason:
            sys.stderr.write(f"fakedev: {failure.reason}\n")
        return failure.code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Nobody reads any more, so that also the last flush of the interpreter must find another place.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def run(arguments: Sequence[str], environ: Mapping[str, str], output: TextIO, errors: TextIO) -> int:
    """Do what the arguments say; the exit code.

    :raises Failure: when that is not possible.
    """
    subcommand = subcommands.found(arguments)
    if subcommand is None:
        given = parse(arguments, (*LISTS, *QUERIES, *COMMON, *SETTINGS))
        about_itself = _about_itself(given, environ)
    else:
        given = parse(arguments[1:], subcommand.options)
        about_itself = subcommand_help(arguments[0]) if "help" in given else ""
    if about_itself:
        output.write(f"{about_itself}\n")
        return 0
    if subcommand is None:
        task = _Task(_lines_of(given), delay_seconds(given))
    else:
        delay = number_of(given, "delay", 1) if subcommand.repeats else None
        task = _Task(subcommand.lines(given), delay, number_of(given, "count"))
    if "filename" not in given:
        return _repeat(task, given, environ, output, errors)
    try:
        with open(given["filename"], "w", encoding="utf-8") as file:
            return _repeat(task, given, environ, file, errors)
    except OSError as reason:
        raise bad_argument(f"ERROR: {given['filename']}: {plain_reason(reason)}\n") from None


def _about_itself(given: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """What needs no boards, if that is asked for."""
    if "help" in given:
        return help_text()
    if "version" in given:
        return "\n".join(versions(read_snapshot(environ)))
    return next((fields_text(name) for name in ("help-query-gpu", "help-query-compute-apps") if name in given), "")


def _lines_of(given: Mapping[str, str]) -> Lines:
    """What prints a tick.

    :raises Failure: for options that exclude each other, and for what they name.
    """
    actions = [name for name in _ACTIONS if name in given]
    of_query = [name for name in ("xml-format", "display") if name in given]
    if len(actions) > 1 or len(of_query) > ("query" in given):  # only one of both, and only with -q
        raise bad_argument("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n")
    action = actions[0] if actions else ""
    if action in ("query-gpu", "query-compute-apps"):
        query = (gpu_query if action == "query-gpu" else app_query)(given[action], format_of(given))
        return lambda snapshot, boards, is_first: query(boards, is_first)
    if action == "query":
        if "xml-format" in given:
            return lambda snapshot, boards, is_first: xml_report(snapshot, boards)
        sections = sections_of(given["display"]) if "display" in given else None
        return lambda snapshot, boards, is_first: text_report(snapshot, boards, sections)
    if any(action == option.name for option in SETTINGS):
        return lambda snapshot, boards, is_first: changed(given, snapshot, boards)
    if action == "list-gpus":
        return lambda snapshot, boards, is_first: listed(boards)
    return lambda snapshot, boards, is_first: table(snapshot, boards)


def _repeat(
    task: _Task, given: Mapping[str, str], environ: Mapping[str, str], output: TextIO, errors: TextIO
) -> int:
    done = 0
    while True:
        snapshot = read_snapshot(environ)
        chosen = chosen_boards(snapshot, given.get("id"))
        lost = [board for board in chosen if board.is_lost]
        for board in lost:
            errors.write(
                f"Unable to determine the device handle for GPU{board.number}: {board.view.text('pci_bus_id')}: "
                "GPU is lost.  Reboot the system to recover this GPU\n"
            )
        rest = [board for board in chosen if not board.is_lost]
        if rest:
            output.writelines(f"{line}\n" for line in task.lines(snapshot, rest, done == 0))
        output.flush()
        done += 1
        if task.delay is None or done == task.times:
            return LOST if lost else 0
        time.sleep(task.delay)


def chosen_boards(snapshot: Snapshot, given: str | None) -> list[Board]:
    """The boards that ``-i`` names, in their order; all without it.

    :raises Failure: for a name that no board has, and when the node has no boards.
    """
    if given is None:
        if not snapshot.boards:
            raise Failure(NOT_FOUND, "No devices were found")
        return snapshot.boards
    found = set()
    for word in given.split(","):
        own = [board.number for board in snapshot.boards if _is_named(board, word.strip().casefold())]
        if not own:
            raise Failure(NOT_FOUND, "No devices were found")
        found.update(own)
    return [board for board in snapshot.boards if board.number in found]


def _is_named(board: Board, word: str) -> bool:
    address = board.view.text("pci_bus_id").casefold()
    names = (str(board.number), board.view.text("uuid").casefold(), board.view.text("serial").casefold(), address)
    return bool(word) and (word in names or word == address.removeprefix("0000"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
