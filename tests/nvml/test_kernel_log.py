"""XIDs as messages of the kernel: their words, and where they go."""

from __future__ import annotations

import os
import re
import socket
import stat
import time
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from fakedev.fleet.fleet import Fleet
from fakedev.nvml.board_errors import BoardErrors
from fakedev.nvml.kernel_log import BoardXid, KernelLog, xids_of_tick
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


def test_what_parsers_look_for() -> None:
    """Each code is in the form that gpud, NVSentinel and the host engine of DCGM look for."""
    fleet = make_fleet(boards_of("h100"))
    log, node = KernelLog(fleet.spec.seed), fleet.roster.nodes[0]
    for code in range(1, 180):
        *_, text = (text for text in log.texts(BoardXid(node, 1, code, 1.0, 1.0, (), "")) if "Xid (" in text)
        pattern = r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): ([0-9]+)(?:, pid=[^,]*)?(?:, name=[^,]*)?, (?!pid|name).+$"
        match = re.match(pattern, text)
        assert match
        assert match[1] == "0000:43:00"
        assert int(match[2]) == code


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


def test_the_journal(tmp_path: Path) -> None:
    """Each message is an entry with the node; a journal that was started again gets those that follow."""
    path = tmp_path / "socket"

    def entry(journal: socket.socket) -> dict[str, str]:
        return dict(line.split("=", 1) for line in journal.recv(8192).decode().splitlines())

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(path))
        logged = Logged(path)
        logged.strike(code=79, devices="dgx-0/2")
        *_, last = (entry(journal) for _ in range(3))
        assert "Xid" in last.pop("MESSAGE")
        assert last == {
            "PRIORITY": "3", "SYSLOG_FACILITY": "0", "SYSLOG_IDENTIFIER": "kernel", "FAKEDEV_NODE": "dgx-0",
        }  # fmt: skip
    logged.strike(code=43, devices="dgx-0/3")
    assert "messages of the kernel log are lost" in logged.part.problems()["kernel-log"]
    path.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(path))
        logged.strike(code=45, devices="dgx-0/3")
        assert entry(journal)["FAKEDEV_NODE"] == "dgx-0"
        assert logged.part.problems() == {"kernel-log": ""}
        logged.part.stopService()


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


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"code": 149, "reason": 4, "link": 8}, "NETIR_LINK_DOWN Fatal    XC0 i0 Link 08 (0x00410011 0x00000000"),
        (
            {"code": 149, "subcode": 19, "status": 1, "link": 3},
            "NETIR_BER_EVENT Nonfatal XC0 i0 Link 03 (0x00006013 0x00000001",
        ),
        ({"code": 145}, "RLW_SRC_TRACK   Nonfatal XC0 i0 Link 00 (0x00000007 0x00000004"),
    ],
)  # fmt: skip
def test_errors_of_nvlink_5(values: dict[str, int], words: str) -> None:
    """Subcode, severity, link and two words to decode by NVIDIA's catalog: reason from bit 20, subcode from bit 0."""
    fleet = make_fleet(boards_of("b200"))
    inject(fleet, kind="xid", devices="dgx-0/1", **values)
    advance(fleet, 1)
    (text,) = told(fleet)
    assert text.startswith("NVRM: Xid (PCI:") and f"): {values['code']}, {words}" in text
    assert text.endswith(" 0x00000000 0x00000000 0x00000000 0x00000000)")


def test_boards_of_amd() -> None:
    """Errors by block with their totals, a lost board and its return, each in its tick; of the chosen nodes only."""
    fleet = make_fleet(boards_of("mi300x"))
    errors, words = BoardErrors(fleet), KernelLog(fleet.spec.seed)
    head = f"amdgpu {fleet.roster.facts(fleet.spec.seed, fleet.roster.nodes[0])[1]['pci_address']}: "

    def told_now(*nodes: str) -> list[str]:
        advance(fleet, 1)
        return [text for error in errors.of_tick(fleet, nodes) for text in words.texts(error)]

    for number, (count, total) in enumerate(((2, 2), (3, 5)), 1):
        inject(fleet, kind="ecc-single", count=count, devices="dgx-0/1")
        assert told_now() == [
            f"{head}{{{number}}}socket: 1, die: 0, {count} new correctable hardware errors detected in umc block",
            f"{head}{{{number}}}socket: 1, die: 0, {total} correctable hardware errors detected in total in umc block",
        ]
        assert told_now() == []
    inject(fleet, kind="hang", devices="dgx-0/1", duration=1)
    assert told_now() == [
        f"{head}qcm fence wait loop timeout expired",
        f"{head}The cp might be in an unrecoverable state due to an unsuccessful queues preemption",
    ]
    assert told_now() == []
    inject(fleet, kind="lost", devices="dgx-0/1", duration=2)
    assert told_now() == [f"{head}device lost from bus!"]
    assert [text for _ in range(3) for text in told_now()] == [
        f"{head}GPU reset begin!", f"{head}GPU reset(1) succeeded!",
    ]  # fmt: skip
    inject(fleet, kind="ecc-single", devices="dgx-0/1")
    assert told_now("another") == []
    assert xids_of_tick(fleet, ()) == []


@pytest.mark.parametrize(
    ("device", "kind", "lines"),
    [
        ("max-1550", "ecc-double", [
            "xe {}: [drm] *ERROR* [Hardware Error]: TILE0 reported soc-internal uncorrectable-errors, bit[16] is set",
            "xe {}: [drm] *ERROR* [Hardware Error]: HBM SS0: Channel0 SOC uncorrectable-errors detected",
        ]),
        ("max-1550", "ecc-single", [
            "xe {}: [drm] [Hardware Error]: TILE0 reported soc-internal correctable-errors, bit[16] is set",
        ]),
        ("arc-pro-b60", "ecc-single", []),
        ("arc-pro-b60", "hang", [
            "xe {}: [drm] Tile0: GT0: Engine reset: engine_class=ccs, logical_mask: 0x1, guc_id=2, state=0x3",
            "xe {}: [drm] *ERROR* Tile0: GT0: reset failed (-ETIMEDOUT)",
            "xe {}: [drm] *ERROR* CRITICAL: Xe has declared device {} as wedged.",
            "xe {}: [drm] device wedged, needs recovery",
        ]),
        ("arc-pro-b60", "lost", ["xe {}: Xe Pci error recovery: error detected state 3"]),
        ("arc-pro-b60", "reset", ["xe {}: [drm] Tile0: GT0: reset done"]),
        ("flex-170", "hang", [
            "i915 {}: [drm] GPU HANG: ecode 12:1:85dffffb",
            "i915 {}: [drm] *ERROR* GT0: GUC: Engine reset failed on 0:0 (rcs0) because 0x00000000",
        ]),
        ("flex-170", "reset", ["i915 {}: [drm] Resetting chip for GuC failed to reset engine mask=0x1"]),
        ("gaudi-3", "lost", []),
    ],
)  # fmt: skip
def test_boards_of_intel(device: str, kind: str, lines: list[str]) -> None:
    """In the words of the driver that the board has, in the tick of the fault; boards of Habana have none."""
    fleet = make_fleet(boards_of(device))
    errors, words = BoardErrors(fleet), KernelLog(fleet.spec.seed)
    address = fleet.roster.facts(fleet.spec.seed, fleet.roster.nodes[0])[1]["pci_address"]
    inject(fleet, kind=kind, devices="dgx-0/1")
    advance(fleet, 1)
    told_now = [text for error in errors.of_tick(fleet, ()) for text in words.texts(error)]
    assert told_now == [line.format(address, address) for line in lines]
    assert xids_of_tick(fleet, ()) == []
