"""The processor time that programs need until they listen, beside that of a Python with Twisted's reactor and NumPy."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import DATA
from tests.support.programs.processes import clean_environment, console

pytestmark = [pytest.mark.real, pytest.mark.long]

#: Ends the program when it has listened so many times: what it needs to stop does not count.
ENDS = """
import os, socket
listen, left = socket.socket.listen, [int(os.environ.get("LISTENS", "0"))]

def counted(self, *backlog):
    listen(self, *backlog)
    left[0] -= 1
    if not left[0]:
        os._exit(0)

socket.socket.listen = counted
"""
FILES = [part for option, name in (("devtype", "device"), ("devlist", "devices"), ("identity", "identity"))
         for part in (f"-{option}", str(DATA / f"original-{name}.json"))]  # fmt: skip
PROGRAMS = {
    # Its launcher listens on the UNIX socket, the program on both.
    "fakedev-exporter": (["-address", "127.0.0.1:0", "-socket", "unix.sock", *FILES], 3, 1.5),
    "fakedev": (["serve", "--port", "0"], 3, 2.0),
}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Where the programs run; it also has their bytecode, as an installed wheel does."""
    with tempfile.TemporaryDirectory() as name:
        Path(name, "sitecustomize.py").write_text(ENDS)
        yield Path(name)


def seconds_of(command: list[str], folder: Path, listens: int = 0) -> float:
    """The processor time of a program until it has listened so many times; 0: until its end."""
    environment = clean_environment(
        XDG_RUNTIME_DIR=str(folder), LISTENS=str(listens), PYTHONPYCACHEPREFIX=str(folder / "cache")
    )
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPATH"] = f"{folder}:{environment['PYTHONPATH']}"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, timeout=120)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("name", PROGRAMS)
def test_times_of_an_import(name: str, folder: Path) -> None:
    arguments, listens, most = PROGRAMS[name]
    command = [*console(name), *arguments]
    usual = [sys.executable, "-c", "import twisted.internet.reactor, numpy"]
    seconds_of(command, folder, listens)  # writes the bytecode
    seconds_of(usual, folder)
    ratios = [seconds_of(command, folder, listens) / seconds_of(usual, folder) for _ in range(5)]
    assert statistics.median(ratios) <= most, ratios
