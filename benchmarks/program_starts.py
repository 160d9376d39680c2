"""How much processor time programs need until they listen, compared with importing Twisted's reactor and NumPy."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

from results import Section, Target, ms

_ROUNDS: Final = 11
_FILES: Final = Path(__file__).parent.parent / "tests" / "data"
#: Ends the program when it has listened so many times: what it needs to stop does not count.
_ENDS: Final = """
import os, socket
listen, left = socket.socket.listen, [int(os.environ.get("LISTENS", "0"))]

def counted(self, *backlog):
    listen(self, *backlog)
    left[0] -= 1
    if not left[0]:
        os._exit(0)

socket.socket.listen = counted
"""
_ORIGINAL: Final = [
    part
    for option, name in (("devtype", "device"), ("devlist", "devices"), ("identity", "identity"))
    for part in (f"-{option}", str(_FILES / f"original-{name}.json"))
]
#: The words of each program, how often it listens, and what it may cost. Launchers listen on UNIX sockets first.
_PROGRAMS: Final = {
    "fakedev-exporter": (["-address", "127.0.0.1:0", "-socket", "unix.sock", *_ORIGINAL], 3, 1.5),
    "fakedev": (["serve", "--port", "0"], 3, 2.0),
}
_USUAL: Final = [sys.executable, "-c", "import twisted.internet.reactor, numpy"]


def program_starts() -> Section:
    """From nothing to the last address that listens."""
    section = Section(
        "Processor time until a program listens",
        f"""
*Beside*: the processor time of a Python that imports Twisted's reactor and NumPy, measured in turn with the program.
With bytecode, as an installed wheel has it. Medians of {_ROUNDS} starts.
""",
        ["until it listens", "beside"],
    )
    with tempfile.TemporaryDirectory(prefix="fakedev-bench-") as name:
        folder = Path(name)
        (folder / "sitecustomize.py").write_text(_ENDS)
        for program, (words, listens, limit) in _PROGRAMS.items():
            command = [str(Path(sys.executable).with_name(program)), *words]
            # The first round writes the bytecode.
            rounds = [(_seconds(command, folder, listens), _seconds(_USUAL, folder, 0)) for _ in range(_ROUNDS + 1)]
            ours, beside = zip(*rounds[1:], strict=True)
            ratio = median(mine / usual for mine, usual in rounds[1:])
            title = f"`{' '.join([program, *words[:1]])}`"
            figures = (ms(median(ours)), f"{ratio:.2f} of {ms(median(beside))}")
            section.add(title, *figures, judged=ratio, target=Target(limit))
    return section


def _seconds(command: list[str], folder: Path, listens: int) -> float:
    """The processor time of a program until it has listened so many times; 0: until its end."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {
        "LISTENS": str(listens), "PYTHONPATH": str(folder), "PYTHONPYCACHEPREFIX": str(folder / "cache"),
        "XDG_RUNTIME_DIR": str(folder),
    }  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, timeout=120)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
