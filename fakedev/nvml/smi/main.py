"""The command nvidia-smi: runs what its arguments ask for, once or again and again."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import chain, count
from typing import Final, NamedTuple, TextIO

from fakedev.base.errors import plain_reason
from fakedev.nvml.smi.boards import (
    INTERRUPTED,
    LOST,
    NOT_FOUND,
    Board,
    Failure,
    Lines,
    Rows,
    bad_argument,
    not_supported,
    read_snapshot,
)
from fakedev.nvml.smi.mig_changes import CHANGES, changes, compute_profiles, placements, switched
from fakedev.nvml.smi.options import HELP, NOT_SIMULATED, SETTINGS, changed, delay_seconds, number_of, parse
from fakedev.nvml.smi.queries import fields_text, query
from fakedev.nvml.smi.report import sections_of, text_report, xml_report
from fakedev.nvml.smi.tables import (
    SIMULATED,
    board_monitor,
    chip_links,
    compute_instances,
    gpu_instance_profiles,
    gpu_instances,
    link_states,
    listed,
    matrix,
    process_monitor,
    table,
    versions,
)

#: Subcommands that print again and again by themselves, with their usual groups of columns.
_MONITORS: Final = {"dmon": (board_monitor, "puc"), "pmon": (process_monitor, "u")}
#: Options of the other subcommands, of which one is needed; and what is not supported without it.
_LISTS: Final[Mapping[str, tuple[Mapping[str, Rows], str]]] = {
    "topo": ({"matrix": matrix}, "topo without -m"),
    "nvlink": ({"status": link_states}, "nvlink without -s"),
    "c2c": ({"status": chip_links}, "c2c without -s"),
    "mig": ({
        "list-gpu-instance-profiles": gpu_instance_profiles, "list-gpu-instances": gpu_instances,
        "list-compute-instances": compute_instances, "list-gpu-instance-possible-placements": placements,
    }, "mig without one of -lgip, -lgipp, -lgi, -lcip, -lci, -cgi, -cci, -dgi and -dci"),
}  # fmt: skip
SUBCOMMANDS: Final = (*_MONITORS, *_LISTS)
#: What the command itself does; one of these at a time.
_SETTINGS: Final = {**SETTINGS, "multi-instance-gpu": switched}
_ACTIONS: Final = ("query", "query-gpu", "query-compute-apps", "list-gpus", *_SETTINGS)


class _Task(NamedTuple):
    """What to print.

    :ivar delay: seconds from one tick that is printed to the next; None: one tick alone.
    :ivar times: number of ticks; None: until Ctrl+C.
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
    first = arguments[0] if arguments else ""
    if first in NOT_SIMULATED:
        raise not_supported(first)
    command, rest = (first, arguments[1:]) if first in SUBCOMMANDS else ("nvidia-smi", arguments)
    given = parse(rest, command)
    about_itself = _about_itself(command, given, environ)
    if about_itself:
        output.write(f"{about_itself}\n")
        return 0
    task = _subcommand(command, given) if command in SUBCOMMANDS else _Task(_lines_of(given), delay_seconds(given))
    if "filename" not in given:
        return _repeat(task, given, environ, output, errors)
    try:
        with open(given["filename"], "w", encoding="utf-8") as file:
            return _repeat(task, given, environ, file, errors)
    except OSError as reason:
        raise bad_argument(f"ERROR: {given['filename']}: {plain_reason(reason)}\n") from None


def _about_itself(command: str, given: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """What needs no boards, if the options ask for that."""
    if "help" in given:
        return "\n".join([SIMULATED, "", *HELP[command]])
    if "version" in given:
        return "\n".join(versions(read_snapshot(environ)))
    return next((fields_text(name) for name in ("query-gpu", "query-compute-apps") if f"help-{name}" in given), "")


def _subcommand(name: str, given: Mapping[str, str]) -> _Task:
    if name in _MONITORS:
        monitor, groups = _MONITORS[name]
        delay = number_of(given, "delay", 1)
        return _Task(monitor(given.get("select", groups)), delay, number_of(given, "count"))
    lists, missing = _LISTS[name]
    chosen = [rows for option, rows in lists.items() if option in given]
    if name == "mig":
        chosen += [changes(option, given) for option in CHANGES if option in given]
        chosen += [compute_profiles(given)] if "list-compute-instance-profiles" in given else []
    if len(chosen) != 1:
        raise not_supported(missing)
    return _Task(((), chosen[0]))


def _lines_of(given: Mapping[str, str]) -> Lines:
    """What the command itself prints of a tick.

    :raises Failure: for options that exclude each other, and for what they name.
    """
    actions = [name for name in _ACTIONS if name in given]
    of_query = [name for name in ("xml-format", "display") if name in given]
    if len(actions) > 1 or len(of_query) > ("query" in given):  # only one of both, and only with -q
        raise bad_argument("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n")
    action = actions[0] if actions else ""
    if action.startswith("query-"):
        return query(action, given)
    if action in _SETTINGS:
        return (), lambda boards: changed(_SETTINGS[action], given[action], boards)
    if action == "list-gpus":
        return (), listed
    if not action:
        return (), table
    sections = sections_of(given["display"]) if "display" in given else None
    return (), xml_report if "xml-format" in given else lambda boards: text_report(boards, sections)


def _repeat(
    task: _Task, given: Mapping[str, str], environ: Mapping[str, str], output: TextIO, errors: TextIO
) -> int:
    titles, rows = task.lines
    for done in count():
        chosen = chosen_boards(read_snapshot(environ).boards, given.get("id"))
        lost = [board for board in chosen if board.is_lost]
        for board in lost:
            errors.write(
                f"Unable to determine the device handle for GPU{board.number}: {board.view.text('pci_bus_id')}: "
                "GPU is lost.  Reboot the system to recover this GPU\n"
            )
        rest = [board for board in chosen if not board.is_lost]
        if rest:
            output.writelines(f"{line}\n" for line in chain(titles if done == 0 else (), rows(rest)))
        output.flush()
        if task.delay is None or done + 1 == task.times:
            break
        time.sleep(task.delay)
    return LOST if lost else 0


def chosen_boards(boards: list[Board], given: str | None) -> list[Board]:
    """The boards of a node that ``-i`` names, in their order; all without it.

    :raises Failure: for a name that no board has, and when the node has no boards.
    """
    words = [] if given is None else [word.strip().casefold() for word in given.split(",")]
    if not boards or not all(any(_is_named(board, word) for board in boards) for word in words):
        raise Failure(NOT_FOUND, "No devices were found")
    return boards if given is None else [board for board in boards if any(_is_named(board, word) for word in words)]


def _is_named(board: Board, word: str) -> bool:
    address = board.view.text("pci_bus_id").casefold()
    names = (str(board.number), board.view.text("uuid").casefold(), board.view.text("serial").casefold(), address)
    return bool(word) and (word in names or word == address.removeprefix("0000"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
