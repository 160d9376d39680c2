"""XIDs as messages of the kernel: their words, and where they go."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from fakedev.fleet.fleet import Fleet
from fakedev.nvml.kernel_log import KernelLog, xids_of_tick
from fakedev.nvml.kernel_log_file import MAX_AT_ONCE, KernelLogPart
from fakedev.nvml.settings import KernelLogFile
from fakedev.runtime.listening import CannotStart
from tests.support.configurations import loaded, pool, problems
from tests.support.fleet.faulty_fleets import boards_of, inject
from tests.support.fleet.fleets import advance, make_fleet, pool_of

_BUS = "NVRM: Xid (PCI:0000:43:00): {}, pid='<unknown>', name=<unknown>, {}"


def told(fleet: Fleet, *nodes: str) -> list[str]:
    """What the kernels say about the present tick, without introductions."""
    log = KernelLog(fleet.spec.seed)
    texts = [text for xid in xids_of_tick(fleet, nodes) for text in log.texts(xid)]
    return [text for text in texts if not text.startswith("NVRM: GPU ")]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (43, "Ch 00000008"),
        (63, "Row Remapper: New row marked for remapping, reset gpu to activate."),
        (79, "GPU has fallen off the bus."),
        (
            119,
            "Timeout after 6s of waiting for RPC response from GPU1 GSP! Expected function 103 (GSP_RM_ALLOC) "
            "(0x2081 0x4).",
        ),
        (33, "Unknown Error"),
    ],
)
def test_codes(code: int, text: str) -> None:
    """A message for each XID, with the address of its board; a code without a known text has that of DCGM."""
    fleet = make_fleet(boards_of("h100"))
    inject(fleet, kind="xid", code=code, devices="dgx-0/1")
    advance(fleet, 1)
    assert told(fleet) == [_BUS.format(code, text)]
    advance(fleet, 1)
    assert told(fleet) == []


def test_the_first_xid_introduces_its_board() -> None:
    """UUID and serial number are told once; a lost board is told a second time, by its whole address."""
    fleet = make_fleet(boards_of("h100"))
    facts = fleet.roster.facts(fleet.spec.seed, fleet.roster.nodes[0])[1]
    log = KernelLog(fleet.spec.seed)
    inject(fleet, kind="xid", code=43, devices="dgx-0/1")
    advance(fleet, 1)
    (xid,) = xids_of_tick(fleet, ())
    assert list(log.texts(xid)) == [
        f"NVRM: GPU at PCI:0000:43:00: GPU-{facts['uuid']}",
        f"NVRM: GPU Board Serial Number: {facts['serial']}",
        _BUS.format(43, "Ch 00000008"),
    ]
    inject(fleet, kind="lost", devices="dgx-0/1")
    advance(fleet, 1)
    (xid,) = xids_of_tick(fleet, ())
    assert list(log.texts(xid)) == [
        _BUS.format(79, "GPU has fallen off the bus."),
        "NVRM: GPU 0000:43:00.0: GPU has fallen off the bus.",
    ]


def test_links() -> None:
    """XID 74 has a message for each link of the board."""
    fleet = make_fleet(boards_of("h100", devices=8))
    inject(fleet, kind="xid", code=74, devices="dgx-0/1")
    advance(fleet, 1)
    registers = "(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
    texts = told(fleet)
    assert texts[5] == _BUS.format(74, f"NVLink: fatal error detected on link 5{registers}")
    assert len(texts) == 18


def test_which_boards() -> None:
    """Only boards of NVIDIA's driver, and of the given nodes."""
    others = pool_of("amd", facts={"vendor": "AMD"})
    fleet = make_fleet(boards_of("h100", nodes=2), others)
    inject(fleet, kind="xid", code=43, devices="dgx-0/0,dgx-1/0,amd-0/0")
    advance(fleet, 1)
    assert [xid.node.name for xid in xids_of_tick(fleet, ())] == ["dgx-0", "dgx-1"]
    assert [xid.node.name for xid in xids_of_tick(fleet, ["dgx-1"])] == ["dgx-1"]


class Logged:
    """A fleet of 60 boards whose XIDs are written to a path."""

    def __init__(self, path: Path) -> None:
        self.clock = Clock()
        self.fleet = make_fleet(pool_of(devices_per_node=60, facts={"vendor": "NVIDIA"}), epoch_seconds=1764183600.0)
        self.part = KernelLogPart(KernelLogFile(str(path)), self.fleet, self.clock)

    def strike(self, **fields: object) -> None:
        inject(self.fleet, kind="xid", **fields)
        advance(self.fleet, 1)
        self.part.ticked()


@pytest.fixture
def at_greenwich(monkeypatch: pytest.MonkeyPatch) -> None:
    """Local time is that of Greenwich."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.mark.usefixtures("at_greenwich")
def test_a_file(tmp_path: Path) -> None:
    """Lines as a system log has them in kern.log, which the group may read; those of a reload are not told again."""
    logged = Logged(tmp_path / "kern.log")
    logged.strike(code=43, devices="dgx-0/2")
    logged.part.ticked()
    lines = (tmp_path / "kern.log").read_text().splitlines()
    assert len(lines) == 3
    assert lines[2].startswith("Nov 26 19:00:01 dgx-0 kernel: [    1.000000] NVRM: Xid (PCI:0000:")
    assert stat.S_IMODE((tmp_path / "kern.log").stat().st_mode) == 0o640


def count(path: Path) -> int:
    """The XIDs in a file."""
    return path.read_text().count("Xid")


def test_many_at_once_are_written_in_turns(tmp_path: Path) -> None:
    """No turn of the reactor words more than some; what waits at the end is written, too."""
    logged = Logged(tmp_path / "kern.log")
    path = tmp_path / "kern.log"
    logged.strike(code=43, devices="all")
    assert count(path) == MAX_AT_ONCE
    logged.clock.advance(0)
    assert count(path) == 60
    logged.strike(code=45, devices="all")
    logged.part.stopService()
    assert count(path) == 120
    assert logged.clock.getDelayedCalls() == []


def test_a_pipe(tmp_path: Path) -> None:
    """Each read gives one record, as of /dev/kmsg; what finds no room is lost, and nothing waits for it."""
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    logged = Logged(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    logged.strike(code=43, devices="dgx-0/2")
    records = [os.read(reader, 8192).decode() for _ in range(3)]
    heads, texts = zip(*(record.split(";", 1) for record in records), strict=True)
    assert [head.split(",")[:2] for head in heads] == [["3", "0"], ["3", "1"], ["3", "2"]]
    assert all(text.startswith("NVRM: ") and text.count("\n") == 1 for text in texts)
    for _ in range(10):
        logged.strike(code=43, devices="all")
        logged.clock.advance(0)
    logged.part.stopService()
    read = 0
    while os.read(reader, 8192):
        read += 1
    os.close(reader)
    assert 0 < read < 600
    assert logged.part.problems() == {"kernel-log": ""}


def test_a_path_that_cannot_be_used(tmp_path: Path) -> None:
    """The program does not start, and says which path and why."""
    with pytest.raises(CannotStart, match=r"the kernel log cannot be written: .*: it is a folder|cannot write"):
        Logged(tmp_path)


def test_settings() -> None:
    """A path alone is enough; unknown nodes are named."""
    fleet = pool(nodes="2", device="h100", identity="dcgm")
    assert loaded("kernel-log: a/kern.log\n" + fleet).kernel_log == KernelLogFile("/conf/a/kern.log")
    assert loaded(fleet).kernel_log is None
    assert problems("kernel-log: {file: a, nodes: [a-1, b-0]}\n" + fleet) == [
        "f.yaml:1: kernel-log.nodes: no node 'b-0'; did you mean 'a-0'?"
    ]
