"""The values in the tables of nvidia-smi: how they are written, and that the tables name nothing that is not there."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from fakedev.base.binary_records import Record
from fakedev.nvml.records import ABSENT, BOARD, LINK, NODE, PART, PROCESS, SLOT
from fakedev.nvml.smi.boards import Board, View
from fakedev.nvml.smi.fields import COLUMNS, reader
from fakedev.nvml.smi.queries import query
from fakedev.nvml.smi.report import SECTIONS, text_report, xml_report
from fakedev.nvml.smi.tables import board_monitor, compute_instances, gpu_instances, listed, process_monitor, table


def _board(values: dict[str, int | str], otherwise: int, text: str) -> Board:
    """A board with one instance, process and link.

    :param values: some of the board; all other numbers are ``otherwise``, all other texts ``text``.
    """

    def view(record: Record, own: dict[str, int | str]) -> View:
        usual = {field.name: text if field.text_bytes else otherwise for field in record.fields}
        return View(record, record.pack({**usual, **own}))

    number: dict[str, int | str] = {"index": 0, "first_part": 0, "part_count": 1}
    one = view(BOARD, {**number, **values})
    slot = view(SLOT, {"wall_time": 0})
    return Board(one, 0, view(NODE, {}), slot, [view(PART, {})], [view(LINK, {})], [view(PROCESS, {"part": 0})], [])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("-", None), ('"as it is"', "as it is"), ("name", "H100"), ("serial", None), ('serial else ""', ""),
        ("power", "1499"), ("fan_speed", None), ("fan_speed else N/A", "N/A"), ("node.board_count", "1"),
        ("power / 1000", "1"), ("energy / 1000", "2"), ("power / 1000 as {:.2f} W", "1.50 W"),
        ("power as {}x", "1499x"),
        ("pci_bus as 0x{:02X}", "0x1B"), ("power + energy - pci_bus", "2972"), ("power + fan_speed", None),
        ("ecc_mode: Disabled, Enabled", "Enabled"), ("mig_mode: Disabled, Enabled", "Disabled"),
        ("power: No, Yes", None),
        ("pci_bus & 0x3: None, One, Two, Three", "Three"), ("pci_bus & 4: None, Some", "None"),
        ("fan_speed & 4: None, Some", None),
        ("power if mig_mode=0 ecc_mode=1", "1499"), ("power if mig_mode=0 ecc_mode=0", None),
        ("power unless mig_mode=1", "1499"), ("power unless mig_mode=0", None), ("power unless fan_speed=None", None),
        ("power unless fan_speed=None else -", "-"), ("process.pid", None), ('"0" unless process.board=None', None),
    ],
)  # fmt: skip
def test_forms_of_values(value: str, text: str | None) -> None:
    """Each form that fields.py names, with and without the number."""
    numbers: dict[str, int | str] = {
        "name": "H100", "serial": "", "power": 1499, "energy": 1500, "fan_speed": ABSENT, "pci_bus": 27, "ecc_mode": 1,
        "mig_mode": 0,
    }  # fmt: skip
    assert reader(value)(_board(numbers, 1, "x")) == text


def _lines(board: Board) -> Iterable[str]:
    boards = [board]
    for titles, rows in (board_monitor("pucmet"), process_monitor("um")):
        yield from (*titles, *rows(boards))
    fields = {"query-gpu": ",".join(column.name for column in COLUMNS), "query-compute-apps": "gpu_uuid,used_memory"}
    for name in fields:
        yield from query(name, {**fields, "format": "csv"})[1](boards)
    yield from (*listed(boards), *table(boards), *gpu_instances(boards), *compute_instances(boards))
    yield from (*text_report(boards, SECTIONS), *xml_report(boards))


@pytest.mark.parametrize("driver", ["550.163.01", "610.57.04", ""])
@pytest.mark.parametrize("number", [1, ABSENT])
def test_every_value_can_be_read(number: int, driver: str) -> None:
    """On a board that has all, and on one that has nothing; both kinds of temperature limits and of drivers."""
    board = _board({"mig_mode": 1, "clock_step": 1000}, number, driver)
    assert len(list(_lines(board))) > 450
