"""Files that are damaged, cut, old or written all the time: no reader crashes, waits or reads half a tick."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from fakedev.nvml.image import SlotImage
from fakedev.nvml.map_file import MapFile
from fakedev.nvml.records import BOARD, DEAD_SECONDS, HEAD, head_of
from tests.support.application import application
from tests.support.driver.nvml import SANITIZED, boards, driver

pytestmark = pytest.mark.slow

_HOSTILE = (0, -1, 1, -(2**63), 2**63 - 1, 2**31, 2**62 + 8, 4096, -4096)


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return driver(tmp_path_factory.mktemp("driver"))


@contextmanager
def good_file(folder: Path) -> Iterator[Path]:
    """A file that a service writes, with instances, processes and an event."""
    file = folder / "nvml.map"
    with application(boards(file, more="devices-per-node: 2, mig: [3g.40gb, 1g.10gb]")) as app:
        app.connect().say("fault xid code=31 devices=dgx-0/0")
        app.tick(3)
        yield file


def results(program: Path, *files: Path) -> list[int]:
    done = subprocess.run([program, *files], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [int(line) for line in done.stdout.split()]


def test_damaged_files(tmp_path: Path, sanitized: Path) -> None:
    """Each number of the head, and many of the rest, replaced by what hurts: an answer or 9, never a crash."""
    with good_file(tmp_path) as file:
        assert results(sanitized, file) == [0]
        content = file.read_bytes()
        numbers = [place for field, place in HEAD.offsets.items()
                   if not next(each for each in HEAD.fields if each.name == field).text_bytes]  # fmt: skip
        drawn = random.Random(1)
        damaged = []
        for place in numbers:
            damaged += [(place, number) for number in _HOSTILE]
        damaged += [(drawn.randrange(HEAD.size, len(content) - 8) & ~7, drawn.choice(_HOSTILE)) for _ in range(400)]
        board = content.index(b"NVIDIA H100")
        damaged += [(board + place, number) for place in BOARD.offsets.values() for number in _HOSTILE[:4]]
        files = []
        for count, (place, number) in enumerate(damaged):
            files.append(tmp_path / f"damaged-{count}")
            damage = number.to_bytes(8, sys.byteorder, signed=True)
            files[-1].write_bytes(content[:place] + damage + content[place + 8 :])
        for begin in range(0, len(files), 200):
            assert set(results(sanitized, *files[begin : begin + 200])) <= {0, 9}


def test_files_that_are_none(tmp_path: Path, sanitized: Path) -> None:
    """Nothing, a folder, an empty file, a part of a file, and one whose service has died: 9."""
    with good_file(tmp_path) as file:
        content = file.read_bytes()
        wrong = [tmp_path / name for name in ("absent", "folder", "empty", "head", "half", "short", "dead", "future")]
        wrong[1].mkdir()
        place = HEAD.offsets["heartbeat"]
        beat = int.from_bytes(content[place : place + 8], sys.byteorder)
        old = int(beat - DEAD_SECONDS * 1e9).to_bytes(8, sys.byteorder)
        late = int(beat + 60e9).to_bytes(8, sys.byteorder)
        contents = (b"", content[: HEAD.size], content[: len(content) // 2], content[:-1],
                    content[:place] + old + content[place + 8 :], content[:place] + late + content[place + 8 :])
        for path, text in zip(wrong[2:], contents, strict=True):
            path.write_bytes(text)
        assert results(sanitized, *wrong) == [9] * len(wrong)


def test_a_file_that_is_cut_while_it_is_read(tmp_path: Path, sanitized: Path) -> None:
    """The reader finds no service, and is not killed."""
    with good_file(tmp_path) as file:
        copy = tmp_path / "copy"
        copy.write_bytes(file.read_bytes())
        assert subprocess.run([sanitized, "cut", copy], timeout=300, check=False).returncode == 0


@pytest.mark.parametrize(
    ("options", "calls"),
    [
        (("-O1", "-Dmemcpy=slow_memcpy"), 1_000),
        (SANITIZED, 1_000),
        pytest.param(SANITIZED, 125_000, marks=pytest.mark.long),
        pytest.param(("-O2",), 125_000, marks=pytest.mark.long),
    ],
)
def test_no_torn_values(tmp_path: Path, options: tuple[str, ...], calls: int) -> None:
    """Eight threads read while slots are written as fast as can be: each call sees one tick.

    The first is compiled so that some copies last longer than two ticks.
    """
    program = driver(tmp_path, options)
    text = boards(tmp_path / "other.map")
    with application(text) as app:
        image = SlotImage(app.fleet, [app.fleet.roster.nodes[0]])
        first = BOARD.offsets[BOARD.quantities[0].name] // 8
        place = int(head_of(image.counts)["boards_in_slot"])
        rows = np.ndarray((image.counts.boards, BOARD.size // 8), "i8", image.content, place)
        table = rows[:, first : first + len(BOARD.quantities)]
        lost = [field.name for field in BOARD.quantities].index("lost")
        file = MapFile(str(tmp_path / "nvml.map"), 0o644, image.counts, time.monotonic_ns())
        table[:], table[:, lost] = 1, 0
        file.write_slot(image.content)
        file.show()
        reading = subprocess.Popen(
            [program, "threads", tmp_path / "nvml.map", str(calls)], stdout=subprocess.PIPE, text=True
        )
        number = 1
        while reading.poll() is None:
            number += 1
            table[:], table[:, lost] = number, 0
            file.write_slot(image.content)
            if number % 1000 == 0:
                file.beat(time.monotonic_ns())
        assert reading.stdout is not None
        assert (reading.stdout.read(), reading.returncode) == ("0\n", 0)
        assert number > 100
        file.end()
