"""The drop-ins start fast: what is imported before -help is shown, and before a program listens."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import DATA, ROOT

PROGRAMS = {
    "exporter": "fakedev.commands.dropins.exporter",
    "dcgm_exporter": "fakedev.commands.dropins.dcgm_exporter",
    "frontend": "fakedev.commands.dropins.frontend",
    "backend": "fakedev.commands.dropins.backend",
    "client": "fakedev.commands.dropins.client",
    "workload": "fakedev.commands.workload.main",
}
#: Packages of which each takes longer to import than all that a drop-in needs for -help.
HEAVY = ("numpy", "twisted", "yaml", "prometheus_client", "asyncio", "http", "argparse", "ssl")

#: Prints the modules that are there when the program has listened on so many sockets, or has ended.
REPORTER = """
import socket, sys, os

def report():
    os.write(1, "\\n".join(sys.modules).encode())
    os._exit(0)

if SOCKETS:
    listen, left = socket.socket.listen, [SOCKETS]

    def counted(self, *backlog):
        listen(self, *backlog)
        left[0] -= 1
        if not left[0]:
            report()

    socket.socket.listen = counted
else:
    sys.stdout = open(os.devnull, "w")
from importlib import import_module
try:
    import_module(MODULE).main()
finally:
    report()
"""


def modules_of(program: str, *arguments: str, sockets: int = 0) -> set[str]:
    """The modules that a program has imported when it listens on so many sockets; 0: when it ends."""
    text = REPORTER.replace("SOCKETS", str(sockets)).replace("MODULE", repr(PROGRAMS[program]))
    command = [sys.executable, "-c", text, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    found = set(done.stdout.split())
    assert PROGRAMS[program] in found, done.stderr
    return found


def imported(modules: set[str], *packages: str) -> list[str]:
    """Those of the modules that are these packages, or in them."""
    return sorted(name for name in modules if any(f"{name}.".startswith(f"{package}.") for package in packages))


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_imports_nothing_heavy(program: str) -> None:
    """-help needs the options, and no configuration, simulation or network."""
    rooms = ("fakedev.app", "fakedev.net", "fakedev.sim", "fakedev.exposition", "fakedev.config.schema")
    assert imported(modules_of(program, "-help"), *HEAVY, *rooms) == []


@pytest.mark.real
def test_what_the_exporter_imports_before_it_listens(tmp_path: Path) -> None:
    """The simulation, and nothing of queues, testers, the API and our own metrics."""
    files = {"devtype": "device", "devlist": "devices", "identity": "identity"}
    arguments = [part for flag, name in files.items() for part in (f"-{flag}", str(DATA / f"original-{name}.json"))]
    arguments += ["-address", "127.0.0.1:0", "-socket", str(tmp_path / "workloads")]
    modules = modules_of("exporter", *arguments, sockets=2)
    assert imported(modules, "fakedev.sim.fleet", "numpy.linalg") != []
    without = [
        *("prometheus_client", "argparse", "twisted.internet.endpoints", "twisted.web", "twisted.python.usage"),
        *("numpy.ma", "fakedev.net.queues", "fakedev.net.backend", "fakedev.net.tester", "fakedev.net.api"),
        *("fakedev.app.service", "fakedev.app.reload", "fakedev.net.web.tree", "fakedev.net.web.live"),
        *("fakedev.tester.report", "fakedev.tester.statistics", "fakedev.workqueue.broker"),
        *("fakedev.exposition.conformity", "fakedev.exposition.workload_pages", "fakedev.sim.record"),
        *("fakedev.sim.explanation", "fakedev.config.rates", "fakedev.config.export"),
    ]
    assert imported(modules, *without) == []


@pytest.mark.real
def test_what_the_frontend_imports_before_it_listens() -> None:
    """The queues, and nothing of the simulation and of configuration files."""
    arguments = [part for flag in ("-caddr", "-waddr", "-maddr") for part in (flag, "127.0.0.1:0")]
    modules = modules_of("frontend", *arguments, "sleep", sockets=3)
    assert imported(modules, "fakedev.workqueue.broker") != []
    without = [
        *("numpy", "yaml", "prometheus_client", "argparse", "twisted.internet.endpoints", "twisted.web"),
        *("fakedev.sim", "fakedev.exposition", "fakedev.net.fleet", "fakedev.net.api", "fakedev.config.load"),
        *("fakedev.config.schema", "fakedev.tester", "fakedev.app.service"),
    ]
    assert imported(modules, *without) == []


def test_first_word_of_a_workload(tmp_path: Path) -> None:
    """fakedev-workload says that it cannot connect, with neither Twisted nor NumPy."""
    modules = modules_of("workload", "-devnames", "card0", "-socket", str(tmp_path / "none"))
    assert imported(modules, *HEAVY) == []
