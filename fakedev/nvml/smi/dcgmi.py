"""The command dcgmi: ``discovery -l`` and ``dmon``, from the file that nvidia-smi reads; there is no host engine.

Its fields and texts are in ``catalog/nvidia-smi/dcgmi.txt``. Words and exit codes of errors are not verified with DCGM.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Final, NamedTuple, TextIO

from fakedev import __version__
from fakedev.nvml.smi.boards import INTERRUPTED, NO_DRIVER, Board, Failure, read_snapshot
from fakedev.nvml.smi.fields import Read, blocks, cells, reader
from fakedev.nvml.smi.main import chosen_boards
from fakedev.nvml.smi.options import number_of, parse
from fakedev.nvml.smi.tables import SIMULATED

#: DCGM's codes are negative: a shell sees them so.
BAD_ARGUMENT: Final = 255
NO_CONNECTION: Final = 235
_NO_CONNECTION_TEXT: Final = (
    "Error: unable to establish a connection to the specified host: localhost\n"
    "Error: Unable to connect to host engine. Host engine connection invalid/disconnected."
)
_TEXTS: Final = blocks("dcgmi.txt")
#: Columns of dmon: the entity, and each field.
_ENTITY_WIDTH, _FIELD_WIDTH = 10, 18
_MIN_DELAY: Final = 100
_ABSENT: Final = "N/A"
#: The titles of the columns of discovery, with their widths.
_INFORMATION: Final = ("Device Information", 70)
_GPUS, _SWITCHES, _CARDS, _CPUS = ("GPU ID", 8), ("Switch ID", 11), ("ConnectX", 10), ("CPU ID", 8)


class Field(NamedTuple):
    """A field of dmon.

    :ivar title: of its column.
    """

    number: str
    title: str
    unit: str
    name: str
    read: Read

    def cell(self, board: Board) -> str:
        found = None if board.is_lost else self.read(board)
        return _ABSENT if found is None else found


FIELDS: Final = {
    number: Field(number, title, unit, name, reader(value))
    for number, title, unit, name, value in map(cells, _TEXTS["fields"])
}


def main(arguments: Sequence[str]) -> int:
    """Run the command; its exit code."""
    try:
        return run(arguments, os.environ, sys.stdout)
    except Failure as failure:
        is_alone = failure.code == NO_DRIVER
        sys.stdout.write(f"{_NO_CONNECTION_TEXT if is_alone else failure.text.rstrip()}\n")
        if failure.reason:
            sys.stderr.write(f"fakedev: {failure.reason}\n")
        return NO_CONNECTION if is_alone else BAD_ARGUMENT
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Nobody reads any more: also the last flush of the interpreter must find another place.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def run(arguments: Sequence[str], environ: Mapping[str, str], output: TextIO) -> int:
    """Do what the arguments say; the exit code.

    :raises Failure: when that is not possible.
    """
    command, rest = (arguments[0], arguments[1:]) if arguments else ("-h", ())
    if command in ("-v", "--version"):
        output.write(f"dcgmi  version: fakedev {__version__}\n{SIMULATED}\n")
        return 0
    if command in ("-h", "--help"):
        return _print(output, [SIMULATED, "", *_TEXTS["help"]])
    if command not in ("discovery", "dmon"):
        raise _wrong(f"{command}: not supported by the simulation, which has discovery and dmon")
    given = parse(rest, command, _TEXTS, "dcgmi")
    if "help" in given:
        return _print(output, [SIMULATED, "", *_TEXTS[command]])
    if command == "dmon":
        return _monitor(given, environ, output)
    if "list" not in given:
        raise _wrong("discovery without -l: not supported by the simulation")
    return _print(output, discovered(read_snapshot(environ).boards))


def _print(output: TextIO, lines: Iterable[str]) -> int:
    output.writelines(f"{line}\n" for line in lines)
    return 0


def _wrong(text: str) -> Failure:
    return Failure(BAD_ARGUMENT, f"Error: {text}")


def discovered(boards: Sequence[Board]) -> Iterator[str]:
    """The lines of ``discovery -l``: GPUs, switches, network cards, CPUs."""
    ends = (link.number("switch_number") for board in boards for link in board.links)
    switches = sorted({number for number in ends if number is not None})
    yield f"{len(boards)} GPU{'s' * (len(boards) != 1)} found."
    yield from _table([_GPUS, _INFORMATION], map(_described, boards))
    yield f"{len(switches)} NvSwitch{'es' * (len(switches) != 1)} found."
    yield from _table([_SWITCHES], ([[str(number)]] for number in switches))
    yield "0 ConnectX found."
    yield from _table([_CARDS], [])
    yield "0 CPUs found."
    yield from _table([_CPUS, _INFORMATION], [])


def _described(board: Board) -> list[list[str]]:
    titles = {"Name": "name", "PCI Bus ID": "pci_bus_id", "Device UUID": "uuid"}
    numbers = (str(board.number), "", "")
    texts = (f"{title}: {board.view.text(name)}" for title, name in titles.items())
    return [list(row) for row in zip(numbers, texts, strict=True)]


def _table(columns: Sequence[tuple[str, int]], entries: Iterable[list[list[str]]]) -> Iterator[str]:
    """The lines of a table of entries, which have several lines each."""
    widths = [width for _, width in columns]
    rule = f"+{'+'.join('-' * width for width in widths)}+"
    yield rule
    titles = [title for title, _ in columns]
    for rows in [[titles], *(list(entries) or [[]])]:
        for row in rows:
            yield f"|{'|'.join(f' {text:<{width - 1}}' for text, width in zip(row, widths, strict=True))}|"
        yield rule


def _monitor(given: Mapping[str, str], environ: Mapping[str, str], output: TextIO) -> int:
    if "list" in given:
        rule = "_" * 80
        titles = [rule, f"{'Long Name':<50}{'Short Name':<20}{'Field ID':<10}", rule]
        return _print(output, titles + [f"{each.name:<50}{each.title:<20}{each.number}" for each in FIELDS.values()])
    if given.get("group-id", "0") != "0":
        raise _wrong(f"The Group is not found: {given['group-id']}; there is 0, of all GPUs")
    fields = _fields(given.get("field-id", ""))
    delay = number_of(given, "delay", 1000) or 0
    if delay < _MIN_DELAY:
        raise _wrong(f"--delay must be {_MIN_DELAY} milliseconds or more")
    times = None if given.get("count", "0") == "0" else number_of(given, "count")
    only = given["entity-id"].replace("gpu:", "") if "entity-id" in given else None
    for done in count():
        boards = chosen_boards(read_snapshot(environ).boards, only)
        if done == 0:
            head = _line("#Entity", *(field.title for field in fields))
            _print(output, [head, _line("ID", *(field.unit for field in fields))])
        _print(output, (_line(f"GPU {board.number}", *(field.cell(board) for field in fields)) for board in boards))
        output.flush()
        if done + 1 == times:
            return 0
        time.sleep(delay / 1000)
    return 0


def _fields(given: str) -> list[Field]:
    """The fields that ``-e`` names.

    :raises Failure: for one that is not simulated, and without any.
    """
    words = [word.strip() for word in given.split(",") if word.strip()]
    if not words:
        raise _wrong("a list of field IDs must be provided, as -e 150,155; dcgmi dmon -l lists them")
    for word in words:
        if word not in FIELDS:
            raise _wrong(f"Invalid field ID: {word[:20]}; dcgmi dmon -l lists those that are simulated")
    return [FIELDS[word] for word in words]


def _line(entity: str, *values: str) -> str:
    return f"{entity:<{_ENTITY_WIDTH}}{''.join(f'{value:<{_FIELD_WIDTH}}' for value in values)}"
