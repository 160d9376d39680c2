"""Starting, asking and measuring the programs of a benchmark, each a process of its own."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

HERE = Path(__file__).resolve().parent
#: A service, as the text of a Python program.
SERVE = "from fakedev.commands.main import main; raise SystemExit(main())"
#: The file of long steps.
STEPS = "steps"
#: For a start, on a machine that has much else to do.
_PATIENCE_SECONDS = 600.0
_WORKLOAD = "from fakedev.commands.workload.main import main; raise SystemExit(main())"


class Program:
    """A program that serves, and how to look at it.

    :ivar folder: of its own, for its files and sockets.
    :ivar start_seconds: from its start until it said that it was ready.
    """

    def __init__(self, arguments: Sequence[str], folder: Path) -> None:
        self.folder = folder
        ready = folder / "ready.json"
        began = perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=HERE.parent
        )
        while not ready.exists():
            if self._process.poll() is not None or perf_counter() - began > _PATIENCE_SECONDS:
                self._process.kill()
                raise RuntimeError(f"{arguments} did not start: {self._process.communicate()[1].decode()}")
            sleep(0.002)
        self.start_seconds = perf_counter() - began
        self.ready: Mapping[str, Any] = json.loads(ready.read_text())
        # What it logs from now on goes to a file, and never makes it wait.
        with open(folder / "log", "ab") as log:
            self._drain = subprocess.Popen(["cat"], stdin=self._process.stderr, stdout=log)

    @property
    def web(self) -> str:
        """HOST:PORT of its first web address."""
        return str(self.ready["web"][0])

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    def get(self, path: str = "/metrics") -> bytes:
        """What it answers at a path."""
        with self.open(path) as answer:
            return bytes(answer.read())

    def open(self, path: str) -> Any:
        """Its answer at a path, to be read and closed."""
        return urllib.request.urlopen(f"http://{self.web}{path}", timeout=60)

    def post(self, path: str, content: Mapping[str, object] | None = None) -> bytes:
        """What it answers to some JSON, or to nothing."""
        headers = {} if content is None else {"Content-Type": "application/json"}
        body = b"" if content is None else json.dumps(content).encode()
        request = urllib.request.Request(f"http://{self.web}{path}", body, headers)
        with urllib.request.urlopen(request) as answer:
            return bytes(answer.read())

    def cpu_seconds(self) -> float:
        """Processor time that all its threads have used so far."""
        return _cpu_seconds(self._process.pid)

    def resident_bytes(self) -> int:
        """Its memory that is really there."""
        return _resident_bytes(self._process.pid)

    def log(self) -> str:
        """What it has logged since it was ready."""
        return (self.folder / "log").read_text()

    def end(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()
        self._drain.wait()
        if self._process.stderr:
            self._process.stderr.close()


def _cpu_seconds(pid: int) -> float:
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def _resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


@contextmanager
def fakedev(
    configuration: str, count: int = 1, *, watched: bool = False, script: str = "", flags: Sequence[str] = ()
) -> Iterator[list[Program]]:
    """Some ``fakedev serve`` of one configuration; {folder} in it is a folder of each.

    :param watched: the file STEPS of its folder gets the long steps of its reactor (benchmarks/watched_serve.py).
    :param script: a program beside this one that starts the service instead, with its arguments.
    :param flags: further flags of the service; {folder} in them is its folder.
    """
    with ExitStack() as stack:
        programs = []
        for _ in range(count):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fakedev-bench-")))
            config = folder / "config.yaml"
            config.write_text(configuration.replace("{folder}", str(folder)))
            start = [str(HERE / "watched_serve.py"), str(folder / STEPS)] if watched else ["-c", SERVE]
            start = [str(HERE / script)] if script else start
            arguments = [*start, "serve", "--config", str(config), "--ready-file", str(folder / "ready.json")]
            arguments += [flag.replace("{folder}", str(folder)) for flag in flags]
            program = Program(arguments, folder)
            stack.callback(program.end)
            programs.append(program)
        yield programs


def long_steps(program: Program, shown_from: float = 0.020) -> list[float]:
    """Seconds of processor time of all steps of 5 ms or more so far, of a watched service.

    :param shown_from: steps of more seconds are printed to standard error, with what ran in them.
    """
    path = program.folder / STEPS
    lines = path.read_text().splitlines() if path.exists() else []
    steps = [float(line.split()[0]) for line in lines]
    for seconds, line in zip(steps, lines, strict=True):
        if seconds > shown_from:
            print(f"a long step: {line}", file=sys.stderr, flush=True)
    return steps


@contextmanager
def reference(body: bytes) -> Iterator[Program]:
    """A twisted.web server of a fixed body."""
    with tempfile.TemporaryDirectory(prefix="fakedev-bench-") as name:
        folder = Path(name)
        (folder / "body").write_bytes(body)
        script = str(HERE / "reference_server.py")
        program = Program([script, str(folder / "body"), str(folder / "ready.json")], folder)
        try:
            yield program
        finally:
            program.end()


@contextmanager
def workload_client(socket_path: Path, load_file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A ``fakedev-workload`` that is connected and waits for the end of its workload."""
    arguments = ["-socket", str(socket_path), "-json", str(load_file), "-devnames", "dgx-0/0"]
    process = subprocess.Popen(
        [sys.executable, "-c", _WORKLOAD, *arguments], cwd=HERE.parent, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def cpu_seconds_of(process: subprocess.Popen[bytes]) -> float:
    """Processor time that all threads of a process have used so far."""
    return _cpu_seconds(process.pid)


def resident_bytes(process: subprocess.Popen[bytes]) -> int:
    """The memory of a process that is really there."""
    return _resident_bytes(process.pid)


class _Other:
    """A program of others."""

    def __init__(self, *command: str | Path) -> None:
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def cpu_seconds(self) -> float:
        """Processor time that it has used so far."""
        return _cpu_seconds(self._process.pid)

    def end(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()


class Beanstalkd(_Other):
    """A beanstalkd without a log of its jobs.

    :ivar address: HOST:PORT, for clients and workers.
    """

    def __init__(self, program: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        super().__init__(program, "-l", "127.0.0.1", "-p", str(port))
        for _ in range(500):
            with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
                return
            sleep(0.01)
        raise RuntimeError(f"{program} did not start")


@contextmanager
def beanstalkd() -> Iterator[Beanstalkd | None]:
    """A beanstalkd, where there is one."""
    program = shutil.which("beanstalkd")
    if program is None:
        yield None
        return
    server = Beanstalkd(program)
    try:
        yield server
    finally:
        server.end()


class OtherQueue(_Other):
    """A queue of benchmarks/bare_reference.go or benchmarks/line_reference.py.

    :ivar ready: its addresses, as of a Program.
    """

    def __init__(self, folder: Path, *command: str | Path) -> None:
        ready = folder / "ready.json"
        super().__init__(*command, ready)
        while not ready.exists():
            sleep(0.01)
        self.ready: Mapping[str, Any] = json.loads(ready.read_text())


@contextmanager
def other_queue(kind: str) -> Iterator[OtherQueue | None]:
    """The queue in Go (kind ``go``; None where Go is not), or of bare LineReceivers."""
    if kind == "go" and shutil.which("go") is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="fakedev-bench-") as name:
        folder = Path(name)
        if kind == "go":
            command: tuple[str | Path, ...] = (folder / "bare_reference",)
            subprocess.run(["go", "build", "-o", *command, HERE / "bare_reference.go"], check=True)
        else:
            command = (sys.executable, HERE / "line_reference.py")
        server = OtherQueue(folder, *command)
        try:
            yield server
        finally:
            server.end()


def queue_load(server: Program | Beanstalkd | OtherQueue, kind: str, **options: float) -> dict[str, float]:
    """What the load of a queue measures; with ``cpu``: the server's processor seconds for each request."""
    if isinstance(server, Beanstalkd):
        addresses = [server.address, server.address]
    else:
        addresses = [server.ready["queue-clients"][0], server.ready["queue-backends"][0]]
    arguments = [kind, *addresses, *(f"--{name}={value}" for name, value in options.items())]
    before = server.cpu_seconds()
    run = subprocess.run(
        [sys.executable, "-S", str(HERE / "queue_load.py"), *arguments], check=True, stdout=subprocess.PIPE
    )
    measured: dict[str, float] = json.loads(run.stdout)
    measured["cpu"] = (server.cpu_seconds() - before) / measured["requests"]
    return measured


def load(
    program: Program,
    path: str = "/metrics",
    connections: int = 1,
    seconds: float = 1.0,
    interval: float = 0.0,
    numbers: int = 1,
) -> dict[str, float]:
    """What the load client measures; with ``cpu``: the program's processor seconds for each request.

    :param numbers: {} in the path is 0, 1, ... below this, in turn.
    """
    options = {"connections": connections, "seconds": seconds, "interval": interval, "numbers": numbers}
    arguments = [program.web, path, *(f"--{name}={value}" for name, value in options.items())]
    before = program.cpu_seconds()
    run = subprocess.run(
        [sys.executable, "-S", str(HERE / "load_client.py"), *arguments], check=True, stdout=subprocess.PIPE
    )
    measured: dict[str, float] = json.loads(run.stdout)
    measured["cpu"] = (program.cpu_seconds() - before) / measured["requests"]
    return measured
