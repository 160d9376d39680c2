"""A service in a process of its own, for a test: on free ports, with a record, gone when the test is over.

The process that starts the services of tests has all modules already, and each service is a copy of it. So a service
is there in a tenth of a second, where a program that begins from nothing needs seconds for its imports.

On free ports services of tests run side by side, whatever addresses the files have.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread
from typing import IO, Any, Final, NoReturn

from fakedev.client import Fleet, FleetError, NoAnswer
from fakedev.config.configuration import Configuration, WebEndpoint
from fakedev.config.load import load
from fakedev.fleet.fleet import Fleet as SimulatedFleet
from fakedev.fleet.spec.limits import RecordHead
from fakedev.runtime.early import EarlySignals
from fakedev.scenario.settings import LoadedScenario
from fakedev.schema.addresses import parse_listen
from fakedev.schema.files import Files
from fakedev.service.options import requested
from fakedev.service.service import run_program
from fakedev.testing.order import DEFAULT, Order, ShowsBoards, clean_environment, journal_lines, nvml_file, run_again


def on_free_ports(configuration: Configuration, folder: Path) -> Configuration:
    """A configuration with free ports of this machine in place of its addresses, and an HTTP address for the test.

    The last HTTP address is that of the test. Addresses of nodes (``per-node``) stay. Files of the journal, the state
    and reports are not written: two tests could not write them at the same time. That for NVML is in the folder.
    """
    free = parse_listen("127.0.0.1:0")
    web = [endpoint if endpoint.per_node else replace(endpoint, listen=free) for endpoint in configuration.web]
    workloads, queues, cluster = configuration.workloads, configuration.queues, configuration.kubernetes
    return replace(
        configuration,
        web=(*web, WebEndpoint(free)),
        workloads=replace(workloads, listen=tuple(replace(each, listen=free) for each in workloads.listen)),
        queues=queues and replace(
            queues,
            clients=tuple(replace(client, listen=free) for client in queues.clients),
            backends=tuple(replace(backend, listen=free) for backend in queues.backends),
        ),
        kubernetes=cluster and replace(cluster, listen=tuple(replace(each, listen=free) for each in cluster.listen)),
        nvml=configuration.nvml and replace(configuration.nvml, file=str(nvml_file(folder))),
        journal=None,
        state=None,
        reports=(),
    )  # fmt: skip


def scenario_on_free_ports(scenario: LoadedScenario, folder: Path) -> LoadedScenario:
    """The same of all configurations of a scenario."""
    reads = [each._replace(configuration=on_free_ports(each.configuration, folder)) for each in scenario.configurations]
    return replace(scenario, configurations=tuple(reads))


#: How often a process looks whether the test's process is still there: a copy of that may have the other end.
_LOOK_SECONDS: Final = 1.0
#: How long a service may take to stop after the test's process has gone.
_GRACE_SECONDS: Final = 10.0


def main() -> None:
    """Start services until standard input, a socket, ends.

    Each byte that comes with a socket starts one, with that socket as its standard input: the service reads a line of
    JSON from it (see :func:`_serve`), writes its process number and, before it ends, its exit code; it stops when the
    socket ends.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # this process does not wait for the services
    parent = os.getppid()
    # What a service imports only when it needs it is imported now, and what it reads is read.
    SimulatedFleet(load(None, Files(environ={}), text=DEFAULT).fleet)
    gc.freeze()
    requests = socket.socket(fileno=0)
    while os.getppid() == parent:
        if not select.select([requests], [], [], _LOOK_SECONDS)[0]:
            continue
        data, descriptors, _, _ = socket.recv_fds(requests, 1, 1)
        if not data:
            return
        if os.fork() == 0:
            _become_service(requests, descriptors[0])
        os.close(descriptors[0])


def _become_service(requests: socket.socket, control: int) -> NoReturn:
    """Be a service in a process of its own.

    :param control: its standard input.
    """
    code = 1
    try:
        starter = os.getppid()
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        requests.detach()
        os.dup2(control, 0)
        os.close(control)
        asked = json.loads(_line())
        os.environ.clear()
        os.environ.update(asked["environment"])
        log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        os.write(0, f"{os.getpid()}\n".encode())
        Thread(target=_end_with, args=[starter], daemon=True).start()
        EarlySignals((signal.SIGTERM, signal.SIGINT)).install()
        _serve(asked)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        with suppress(OSError):
            os.write(0, f"{code}\n".encode())
        os._exit(code)


def _line() -> bytes:
    """The line that standard input begins with; nothing follows it."""
    data = b""
    while not data.endswith(b"\n"):
        more = os.read(0, 65536)
        if not more:
            raise SystemExit(0)  # the test has gone
        data += more
    return data


def _serve(asked: Mapping[str, Any]) -> None:
    """Serve until a signal.

    :param asked: ``fleet``, the parameters of an Order; ``files``, the paths of ``record`` and ``ready-file``.
    """
    fleet = Order(**asked["fleet"])
    given: dict[str, Any] = dict.fromkeys(("print-config", "check"))
    given |= {"config": fleet.config or None, "scenario": fleet.scenario or None, **asked["files"]}
    configuration, run = requested(given | {"set": fleet.overrides_of(0)})
    if fleet.identity:
        configuration, run = requested(given | {"set": fleet.overrides_of(len(configuration.fleet.pools))})
    folder, again = Path(asked["log"]).parent, run.read_again
    if again is not None:
        read = again
        run = replace(run, read_again=lambda: _moved(folder, *read()))
    if run.scenario is not None:
        run = replace(run, scenario=scenario_on_free_ports(run.scenario, folder))
    run_program(on_free_ports(configuration, folder), run)


def _moved(folder: Path, configuration: Configuration, head: RecordHead) -> tuple[Configuration, RecordHead]:
    return on_free_ports(configuration, folder), head


def _end_with(starter: int) -> None:
    """End this process when standard input ends, or when the process that started it has ended."""
    while os.getppid() == starter:
        if select.select([0], [], [], _LOOK_SECONDS)[0] and not os.read(0, 4096):
            break
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE_SECONDS)
    os._exit(1)


_LOOK_AGAIN_SECONDS: Final = 0.01
#: How long a service may take to stop before it is killed.
_STOP_SECONDS: Final = 10.0
#: How long a service may be silent while the report of a failed test is made.
_REPORT_SECONDS: Final = 5.0
_JOURNAL_ENTRIES: Final = 50
#: Characters of the log's end that are shown.
_LOG_CHARACTERS: Final = 4000


class CannotStart(Exception):
    """A service did not come up; the text has its own words."""


class ServedFleet(Fleet, ShowsBoards):
    """A client of a service that it has started; close it at the end.

    :param order: has no text: see Order.with_file.
    :param folder: for its record and its log; it exists.
    :param timeout_seconds: within which the service must be ready, and how long it may be silent later.
    :param starter: starts it.
    :ivar url: its HTTP address.
    :ivar addresses: all addresses, by the keys of the ready file: ``web``, ``workloads``, ``queue-clients``,
        ``queue-backends``. The last of ``web`` is that of ``url``.
    :ivar record: the path of its record.
    :raises CannotStart: when it does not come up.
    """

    def __init__(self, order: Order, folder: Path, timeout_seconds: float, starter: Starter) -> None:
        self.order = order
        self.folder = folder
        self.record = str(folder / "record.jsonl")
        self._log = folder / "fakedev.log"
        self._log.touch()
        ready = folder / "ready.json"
        self._process = starter.start({
            "fleet": asdict(order),
            "files": {"record": self.record, "ready-file": str(ready)},
            "log": str(self._log),
            "environment": clean_environment(os.environ),
        })  # fmt: skip
        try:
            self.addresses = self._wait_until_ready(ready, timeout_seconds, starter)
        except BaseException:
            self.close()
            raise
        super().__init__(f"http://{self.addresses['web'][-1]}", timeout_seconds=timeout_seconds)
        self._first_speed: float | None = None

    @property
    def pid(self) -> int:
        """The number of its process."""
        return int(self.addresses["pid"])

    def log(self) -> str:
        """The end of its log."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-_LOG_CHARACTERS:]

    def begin_again(self) -> bool:
        """Make the fleet as new for the next test, with the speed that it had at first.

        :returns: False when the service does not answer.
        """
        try:
            clock = self.clock()
            if self._first_speed is None:
                self._first_speed = clock.speed
            elif clock.speed != self._first_speed:
                self.speed(self._first_speed)
            self.reset()
            self.advance(clock.tick_seconds)
        except NoAnswer:
            return False
        return True

    def close(self) -> None:
        """Stop the service, and wait until it has ended."""
        self._process.stop(_STOP_SECONDS)

    def report(self) -> list[tuple[str, str]]:
        """What helps after a test has failed: the journal, the configuration, the record, with their titles."""
        sections = [("configuration", str(self.order))]
        client = Fleet(self.url, timeout_seconds=_REPORT_SECONDS)
        try:
            entries = client.journal(limit=_JOURNAL_ENTRIES)
            # What was before a reset is of other tests.
            since = next((place for place, entry in enumerate(entries) if entry["kind"] == "reset"), len(entries))
            sections.append(("journal", journal_lines(entries[:since])))
            seconds = client.clock().seconds
        except FleetError as error:
            ended = f" It has ended{self._process.with_code}." if self._process.has_ended(0.0) else ""
            sections.append(("log", f"The service does not answer: {error}{ended} The end of its log:\n{self.log()}"))
        else:
            sections.append(("record", f"{self.record}\nRun it again: {run_again(self.record, seconds)}"))
        return sections

    def _wait_until_ready(self, ready: Path, timeout_seconds: float, starter: Starter) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_seconds
        while not ready.exists():
            if time.monotonic() > deadline:
                text = f"it was not ready within {timeout_seconds:g} s (--fakedev-timeout). Its log:\n{self.log()}"
                raise CannotStart(text)
            if self._process.has_ended(_LOOK_AGAIN_SECONDS):
                raise CannotStart(f"it did not start{self._process.with_code}:\n{self.log() or starter.log()}")
        addresses: dict[str, Any] = json.loads(ready.read_text(encoding="utf-8"))
        return addresses


class Starter:
    """A process that starts services, each in a process of its own. It ends with this process, and its services too."""

    def __init__(self) -> None:
        path = [os.path.abspath(folder) for folder in sys.path]
        start = f"import sys; sys.path[:] = {path!r}; from fakedev.testing.served_fleet import main; main()"
        self._requests, theirs = socket.socketpair()
        self._log: IO[bytes] = TemporaryFile()  # noqa: SIM115 - it is open as long as the process runs
        # In a session of its own: ^C on the terminal is for the test, which stops its services when it ends.
        self._process = subprocess.Popen(
            [sys.executable, "-c", start], stdin=theirs.fileno(), stdout=self._log, stderr=self._log,
            start_new_session=True, env=clean_environment(os.environ),
        )  # fmt: skip
        theirs.close()

    @property
    def is_running(self) -> bool:
        """Whether it can start services."""
        return self._process.poll() is None

    def start(self, asked: Mapping[str, object]) -> ServiceProcess:
        """Start a service; it is not ready yet.

        :param asked: see fakedev.testing.served_fleet.
        """
        ours, theirs = socket.socketpair()
        with theirs, suppress(OSError):  # one that has ended is seen by the end of the socket
            socket.send_fds(self._requests, [b"+"], [theirs.fileno()])
        ours.settimeout(_STOP_SECONDS)
        with suppress(OSError):
            ours.sendall(json.dumps(asked).encode() + b"\n")
        return ServiceProcess(ours)

    def log(self) -> str:
        """What it has written."""
        self._log.seek(0)
        return self._log.read().decode("utf-8", "replace")[-_LOG_CHARACTERS:]

    def close(self) -> None:
        """End it."""
        self._requests.close()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


class ServiceProcess:
    """A process that a starter has started, seen by its socket, which ends with it."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._said = b""
        self._is_over = False

    @property
    def with_code(self) -> str:
        """Its exit code in words; empty when it did not tell it, as one that was killed."""
        codes = self._said.split()[1:]
        return f" (exit code {codes[0].decode()})" if codes else ""

    def has_ended(self, seconds: float) -> bool:
        """Whether it ends within some time."""
        deadline = time.monotonic() + seconds
        while not self._is_over and select.select([self._control], [], [], max(0.0, deadline - time.monotonic()))[0]:
            try:
                data = self._control.recv(4096)
            except OSError:
                data = b""
            self._said += data
            self._is_over = not data
        return self._is_over

    def stop(self, seconds: float) -> None:
        """Let it stop; kill it when it has not after some time."""
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
        if not self.has_ended(seconds) and self._said:
            with suppress(ProcessLookupError):
                os.kill(int(self._said.split()[0]), signal.SIGKILL)
        self._control.close()
