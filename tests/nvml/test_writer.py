"""The service that writes the file: slots, heartbeats, its end, and paths that it cannot use."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from fakedev.base.errors import CannotWrite
from fakedev.fleet.fleet import Fleet
from fakedev.nvml.part import NvmlMap
from fakedev.nvml.records import BOARD, CLOSED, EVENT, HEAD, OPEN, PROCESS, REPLACED, SLOT
from tests.support.fleet.faulty_fleets import inject
from tests.support.fleet.fleets import advance, make_fleet, pool_of, start


class Written:
    """A fleet whose boards are written to a file, and what is in it."""

    def __init__(self, folder: Path, fleet: Fleet | None = None) -> None:
        self.path = folder / "nvml.map"
        self.fleet = fleet or make_fleet(pool_of(facts={"vendor": "NVIDIA"}))
        self.now_ns = 10**12
        self.clock = Clock()
        self.pids: dict[str, int] = {}
        self.map = NvmlMap(
            self.fleet, str(self.path), 0o640, (), self.pids.get, self.clock, lambda: self.now_ns
        )  # fmt: skip
        self.map.startService()

    def tick(self) -> None:
        self.fleet.advance()
        self.map.ticked()

    def head(self, name: str, path: Path | None = None) -> int:
        return int(HEAD.unpack((path or self.path).read_bytes())[name])

    def slot(self) -> int:
        return self.head("first_slot") + self.head("published") % 2 * self.head("slot_bytes")

    def board(self, number: int) -> dict[str, int | str]:
        return BOARD.unpack(self.path.read_bytes(), self.slot() + self.head("boards_in_slot") + number * BOARD.size)


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    """Four boards, whose file is there until the test is over."""
    made = Written(tmp_path)
    yield made
    made.map.stopService()


def test_a_slot_for_each_tick(written: Written) -> None:
    """Slots take turns; both sequence numbers are those of the last one."""
    assert os.stat(written.path).st_mode & 0o777 == 0o640
    for tick in range(1, 5):
        start(written.fleet, "card0", "100:0:0", name=f"w{tick}")
        written.tick()
        assert written.head("published") == written.head("begun") == tick + 1
        assert SLOT.unpack(written.path.read_bytes(), written.slot())["tick"] == tick
    assert written.board(0)["power"] == 250_000
    assert written.board(0)["memory_used"] == 800 * 2**20
    assert [written.board(0)["process_count"], written.board(1)["process_count"]] == [4, 0]
    assert written.board(1)["power"] == 50_000


def test_heartbeat_beside_the_ticks(tmp_path: Path) -> None:
    """It is written each second, however long the simulated clock stands."""
    written = Written(tmp_path)
    for second in range(1, 4):
        written.now_ns += 10**9
        written.clock.advance(1)
        assert written.head("heartbeat") == 10**12 + second * 10**9
    written.map.stopService()
    assert not written.clock.getDelayedCalls()


def test_the_end(tmp_path: Path) -> None:
    """Readers that still have the file see its end; the path is free."""
    written = Written(tmp_path)
    link = tmp_path / "link"
    os.link(written.path, link)
    written.map.stopService()
    assert not written.path.exists()
    assert written.head("state", link) == CLOSED
    written.tick()  # after the end nothing is written
    assert list(tmp_path.iterdir()) == [link]


def test_more_processes_need_another_file(written: Written, tmp_path: Path) -> None:
    """The old file says that it was replaced, and the new one has all of them."""
    link = tmp_path / "link"
    os.link(written.path, link)
    for number in range(100):
        start(written.fleet, f"card{number % 4}", "1:0:0", name=f"w{number}")
    written.tick()
    assert (written.head("state", link), written.head("state")) == (REPLACED, OPEN)
    assert written.head("process_capacity") == 128
    content, first = written.path.read_bytes(), written.slot() + written.head("processes_in_slot")
    processes = [PROCESS.unpack(content, first + number * PROCESS.size) for number in range(100)]
    assert [process["board"] for process in processes] == [number // 25 for number in range(100)]
    assert len({process["pid"] for process in processes}) == 100


def test_pids_of_clients(written: Written) -> None:
    """A workload with a client shows its pid; others have one that cannot be."""
    written.pids[start(written.fleet, "card0", "1:0:0")] = 4711
    start(written.fleet, "card1", "1:0:0", name="other")
    written.tick()
    content, first = written.path.read_bytes(), written.slot() + written.head("processes_in_slot")
    pids = [int(PROCESS.unpack(content, first + number * PROCESS.size)["pid"]) for number in range(2)]
    assert pids[0] == 4711
    assert pids[1] > 4_194_303


@pytest.mark.slow
def test_events_in_a_ring(written: Written) -> None:
    """Each XID is an event with its number; old ones are overwritten."""
    for number in range(1, 300):
        inject(written.fleet, kind="xid", devices=f"dgx-0/{number % 4}", code=31)
        written.tick()
    assert written.head("event_sequence") == 299
    content, ring = written.path.read_bytes(), written.head("events")
    events = [EVENT.unpack(content, ring + place * EVENT.size) for place in range(written.head("event_capacity"))]
    assert {event["sequence"] for event in events} == set(range(300 - 256, 300))
    assert all(event["board"] == int(event["sequence"]) % 4 and event["xid"] == 31 for event in events)


def test_boards_of_other_vendors_are_left_out(tmp_path: Path) -> None:
    """Boards of NVIDIA and AMD are in the file, in order of their nodes, and no others."""
    vendors = ("Intel", "AMD", "NVIDIA")
    written = Written(tmp_path, make_fleet(*(pool_of(vendor.lower(), facts={"vendor": vendor}) for vendor in vendors)))
    assert (written.head("node_count"), written.head("board_count")) == (3, 8)
    written.map.stopService()


@pytest.mark.parametrize("content", [b"", b"text", b"FAKE"])
def test_files_of_others_stay(tmp_path: Path, content: bytes) -> None:
    """A path with another file is refused, with the remedy."""
    (tmp_path / "nvml.map").write_bytes(content)
    with pytest.raises(CannotWrite, match="there is a file of another kind: remove it, or give another name"):
        Written(tmp_path)
    assert (tmp_path / "nvml.map").read_bytes() == content
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_in_use_stays(tmp_path: Path) -> None:
    """Two services cannot write one file; that of a service that died is replaced."""
    written = Written(tmp_path)
    with pytest.raises(CannotWrite, match="another fakedev writes it"):
        Written(tmp_path)
    content = written.path.read_bytes()
    written.map.stopService()
    written.path.write_bytes(content)
    again = Written(tmp_path)
    again.map.stopService()


@pytest.mark.skipif(sys.platform != "linux", reason="links to folders")
def test_paths_that_cannot_be(tmp_path: Path) -> None:
    """A folder that cannot be made, a link, a folder in its place."""
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWrite, match="cannot be made"):
        Written(tmp_path / "file")
    (tmp_path / "nvml.map").symlink_to(tmp_path / "file")
    with pytest.raises(CannotWrite, match="symbolic link"):
        Written(tmp_path)
    (tmp_path / "nvml.map").unlink()
    (tmp_path / "nvml.map").mkdir()
    with pytest.raises(CannotWrite, match="another kind"):
        Written(tmp_path)


def test_a_write_that_fails(written: Written) -> None:
    """It is logged once, and the ticks continue; later ones are written again."""
    file = written.map._file
    write, failures = file.write_slot, 3

    def failing(content: bytes | bytearray) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise OSError(28, "No space left on device")
        write(content)

    file.write_slot = failing  # type: ignore[method-assign]
    for _ in range(3):
        written.tick()
        assert written.map.problem.endswith("nvml.map: the disk is full")
    written.tick()
    assert written.map.problem == ""
    assert SLOT.unpack(written.path.read_bytes(), written.slot())["tick"] == 4


def test_the_clock_of_a_fleet_that_stands(tmp_path: Path) -> None:
    """The first tick is in the file before any other."""
    fleet = make_fleet(pool_of(facts={"vendor": "NVIDIA"}))
    advance(fleet, 7)
    written = Written(tmp_path, fleet)
    assert SLOT.unpack(written.path.read_bytes(), written.slot())["tick"] == 7
    written.map.stopService()
