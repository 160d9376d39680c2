"""The programs start fast: what they have not imported when they show -help, and when they listen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import DATA, ROOT
from tests.support.programs.processes import clean_environment

PROGRAMS = {
    "exporter": "fakedev.commands.dropins.exporter",
    "dcgm_exporter": "fakedev.commands.dropins.dcgm_exporter",
    "frontend": "fakedev.commands.dropins.frontend",
    "backend": "fakedev.commands.dropins.backend",
    "client": "fakedev.commands.dropins.client",
    "workload": "fakedev.commands.workload.main",
    "fakedev": "fakedev.commands.main",
}
#: Packages of which each takes longer to import than all that a drop-in needs for -help.
HEAVY = ("numpy", "twisted", "yaml", "prometheus_client", "asyncio", "http", "argparse", "ssl")

#: Where nothing has TLS. Twisted itself imports pyOpenSSL.
OF_TLS = ("fakedev.runtime.tls_transport", "fakedev.runtime.client_tls")
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


def modules_of(program: str, *arguments: str, sockets: int = 0, **environment: str) -> set[str]:
    """The modules that a program has imported when it listens on so many sockets; 0: when it ends."""
    text = REPORTER.replace("SOCKETS", str(sockets)).replace("MODULE", repr(PROGRAMS[program]))
    command = [sys.executable, "-c", text, *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=clean_environment(**environment), capture_output=True, text=True, check=False,
        timeout=300,
    )
    found = set(done.stdout.split())
    assert PROGRAMS[program] in found, done.stderr
    return found


def imported(modules: set[str], *packages: str) -> list[str]:
    """Those of the modules that are these packages, or in them."""
    return sorted(name for name in modules if any(f"{name}.".startswith(f"{package}.") for package in packages))


@pytest.mark.parametrize("program", [program for program in PROGRAMS if program != "fakedev"])
def test_help_imports_nothing_heavy(program: str) -> None:
    """-help needs the options, and no configuration, simulation or network."""
    rooms = ("fakedev.service", "fakedev.web", "fakedev.fleet.fleet", "fakedev.exporters", "fakedev.schema.reader")
    assert imported(modules_of(program, "-help"), *HEAVY, *rooms) == []


@pytest.mark.real
def test_what_the_exporter_imports_before_it_listens(tmp_path: Path) -> None:
    """The simulation, and nothing of queues, testers, the API and our own metrics."""
    files = {"devtype": "device", "devlist": "devices", "identity": "identity"}
    arguments = [part for flag, name in files.items() for part in (f"-{flag}", str(DATA / f"original-{name}.json"))]
    arguments += ["-address", "127.0.0.1:0", "-socket", str(tmp_path / "workloads")]
    modules = modules_of("exporter", *arguments, sockets=2)
    assert imported(modules, "fakedev.fleet.fleet", "numpy.linalg") != []
    without = [
        *("prometheus_client", "argparse", "twisted.python.usage", "yaml"),
        *("numpy.ma", "fakedev.queues.port", "fakedev.tester.driver", "fakedev.api"),
        *("fakedev.service.service", "fakedev.service.reload"),
        *("fakedev.tester.report", "fakedev.tester.statistics"),
        *("fakedev.exporters.conform", "fakedev.exporters.workload_page", "fakedev.fleet.record"),
        *("fakedev.fleet.explanation", "fakedev.tester.rates", "fakedev.config.export"),
        *OF_TLS,
    ]
    assert imported(modules, *without) == []


@pytest.mark.real
def test_what_the_frontend_imports_before_it_listens() -> None:
    """The queues, and nothing of the simulation and of configuration files."""
    arguments = [part for flag in ("-caddr", "-waddr", "-maddr") for part in (flag, "127.0.0.1:0")]
    modules = modules_of("frontend", *arguments, "sleep", sockets=3)
    assert imported(modules, "fakedev.queues.broker") != []
    without = [
        *("numpy", "yaml", "prometheus_client", "argparse"),
        *("fakedev.fleet.fleet", "fakedev.exporters", "fakedev.fleet.hub", "fakedev.api", "fakedev.config.load"),
        *("fakedev.config.schema", "fakedev.tester", "fakedev.service.service", *OF_TLS),
    ]
    assert imported(modules, *without) == []


@pytest.mark.real
def test_what_the_service_imports_before_it_listens(tmp_path: Path) -> None:
    """With the demo: no part that the demo does not have, no other subcommand, and none of the tools."""
    modules = modules_of("fakedev", "serve", "--port", "0", sockets=3, XDG_RUNTIME_DIR=str(tmp_path))
    assert imported(modules, "fakedev.service.service", "numpy.linalg", "fakedev.api.live") != []
    without = [
        *("numpy.ma", "fakedev.commands.control", "fakedev.client", "fakedev.config.export", "fakedev.config.schema"),
        *("fakedev.api.openapi", "fakedev.api.why", "fakedev.api.tester", "fakedev.tester.load_run"),
        *("fakedev.tester.pages", "fakedev.scenario", "fakedev.queues.broker", "fakedev.queues.port"),
        *("fakedev.kubernetes.part", "fakedev.kubernetes.controller", "fakedev.nvml.part", "fakedev.node"),
        *("fakedev.replay", "fakedev.clone", "fakedev.calibrate", "fakedev.testing", "fakedev.fleet.state_folder"),
        *("twisted.web.client", "fakedev.kubernetes.client.api_client"),
        *OF_TLS,
    ]
    assert imported(modules, *without) == []


def test_status_needs_none_of_the_service() -> None:
    modules = modules_of("fakedev", "status", "--url", "http://127.0.0.1:1")
    assert imported(modules, "fakedev.commands.status") != []
    heavy = [package for package in HEAVY if package not in ("http", "ssl", "argparse")]  # of its client of HTTP
    rooms = ("fakedev.fleet", "fakedev.service", "fakedev.config", "fakedev.exporters", "fakedev.client.calls")
    assert imported(modules, *heavy, *rooms) == []


def test_first_word_of_a_workload(tmp_path: Path) -> None:
    """fakedev-workload says that it cannot connect, with neither Twisted nor NumPy."""
    modules = modules_of("workload", "-devnames", "card0", "-socket", str(tmp_path / "none"))
    of_machines = ("fakedev.fleet.spec.fleet_spec", "fakedev.fleet.spec.device_types", "pathlib", "urllib")
    assert imported(modules, *HEAVY, *of_machines) == []
