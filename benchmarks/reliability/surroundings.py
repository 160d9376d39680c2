"""Faults of the surroundings: full disks, no descriptors, a clock that is set, a pause, no name server, IPv6 only."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from time import perf_counter, sleep

from fleets import dcgm
from programs import Program, fakedev
from results import Section, Target

_DEVICES = 64
#: Connections that are opened while a service has no descriptors for them.
_CROWD = 300
#: Requests for a full disk.
_PUTS = 200
_NEEDS_ROOT = "not measured: needs root"
_WORDS = "fakedev_tick ", "fakedev_ticks_missed_total "


def surroundings(is_short: bool) -> Section:
    """Each fault once, in a service of its own."""
    pause_seconds = 5 if is_short else 60
    section = Section(
        "Faults of the surroundings",
        f"""
Each row is a service of {_DEVICES} H100s with a workload on the connection of a client. *Failures* counts what did not
hold of: the page is served during the fault (but for the pause) and after it, ticks go on, the client's connection
answers, /health is healthy, the log has no traceback, and what the row says beside it. Files are full by a limit of
the process for their size (RLIMIT_FSIZE), as the journal and the record reach it. The disk is a file system of its own
(tmpfs) with the journal, the state and the log of a durable queue: it is filled to the last byte, a `put` is
promised or refused, what is promised is in the log; it is emptied, and requests are accepted again. The name server
takes each question for that of a cluster's API server, and never answers; *stopped* is the time after SIGTERM. Both
need root. Descriptors run out by a limit
of 128 (RLIMIT_NOFILE) and {_CROWD} connections. The clock is a fake in the process
(benchmarks/reliability/shifted_serve.py): the kernel's is not set. The pause is SIGSTOP. IPv6 only: all addresses of
the configuration are ::1; the machine has IPv4, too.
""",
        ["measured", "failures"],
    )
    tried: dict[str, Callable[[], tuple[str, list[str]]]] = {
        "files that may not grow": _full_files,
        "a full disk": _full_disk,
        "a name server that is silent": _silent_names,
        "no file descriptors": _no_descriptors,
        "a clock set back by an hour": lambda: _set_clock(signal.SIGUSR1),
        "a clock set forward by a day": lambda: _set_clock(signal.SIGUSR2),
        f"a pause of {pause_seconds} s": lambda: _pause(pause_seconds),
        "IPv6 only": _ipv6_only,
    }
    for name, try_it in tried.items():
        measured, failures = try_it()
        text = f"{len(failures)}: {', '.join(failures)}" if failures else "0"
        section.add(name, measured, text, judged=len(failures), target=Target(0))
    return section


class _Client:
    """A client with a workload, and what it sees of its service."""

    def __init__(self, service: Program, address: str) -> None:
        self.service = service
        if address.startswith("["):
            host, _, port = address[1:].partition("]:")
            self._connection = socket.create_connection((host, int(port)), timeout=10)
        else:
            self._connection = socket.socket(socket.AF_UNIX)
            self._connection.settimeout(10)
            self._connection.connect(address)
        self._lines = self._connection.makefile("rb")
        self.answers("run own devices=dgx-0/0 profile=40")
        self.failures: list[str] = []

    def answers(self, request: str) -> bool:
        """Whether a request is accepted."""
        with suppress(OSError):
            self._connection.sendall(f"{request}\n".encode())
            return self._lines.readline().startswith(b"ok")
        return False

    def check(self, is_good: bool, text: str) -> None:
        """Note what does not hold."""
        if not is_good:
            self.failures.append(text)

    def figures(self) -> tuple[float, float]:
        """The tick, and how many ticks were dropped."""
        page = self.service.get("/-/metrics").decode().splitlines()
        tick, missed = (float(line.split()[1]) for word in _WORDS for line in page if line.startswith(word))
        return tick, missed

    def check_all(self) -> None:
        """Look at all that a service must have after a fault."""
        before, _ = self.figures()
        deadline = perf_counter() + 5
        while self.figures()[0] < before + 2 and perf_counter() < deadline:
            sleep(0.1)
        self.check(self.figures()[0] >= before + 2, "the ticks stand still")
        self.check(b"DCGM_FI_DEV_GPU_TEMP" in self.service.get(), "no page")
        self.check(self.answers("run after devices=dgx-0/1 profile=20"), "the connection is gone")
        self.check(json.loads(self.service.get("/health"))["status"] == "healthy", "unhealthy")
        self.check("Traceback" not in self.service.log(), "a traceback")


def _full_files() -> tuple[str, list[str]]:
    configuration = dcgm(_DEVICES) + "journal: {file: '{folder}/journal.jsonl'}\n"
    with fakedev(configuration, flags=["--record", "{folder}/record.jsonl"]) as (service,):
        client = _Client(service, service.ready["workloads"][0])
        files = [service.folder / name for name in ("record.jsonl", "journal.jsonl")]
        most = min(file.stat().st_size for file in files) + 20
        resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (most, most))
        for number in range(200):
            is_accepted = client.answers(f"run w{number} devices=dgx-0/{number % 8} profile=50")
            client.check(is_accepted, "a workload is refused")
        client.check_all()
        problems = json.loads(service.get("/health")).get("problems", [])
        client.check(len(problems) == 2, "/health does not name the journal and the record")
        client.check(all(_is_whole(file) for file in files), "a damaged line")
        return f"/health names {len(problems)} files", client.failures


def _is_whole(path: Path) -> bool:
    lines = path.read_bytes().splitlines(keepends=True)
    return all(line.endswith(b"\n") and json.loads(line) for line in lines)


def _full_disk() -> tuple[str, list[str]]:
    if os.geteuid():
        return _NEEDS_ROOT, []
    with tempfile.TemporaryDirectory(prefix="fakedev-bench-") as disk, ExitStack() as stack:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], check=True)
        stack.callback(subprocess.run, ["umount", disk], check=True)
        configuration = (
            dcgm(_DEVICES) + f"journal: {{file: '{disk}/journal.jsonl'}}\nstate: '{disk}/state'\n"
            f"queues: {{names: {{media: {{durable: '{disk}/media'}}}}, listen-clients: ['{{folder}}/queue.sock'], "
            "listen-backends: ['{folder}/backends.sock']}\n"
        )
        with fakedev(configuration) as (service,):
            client = _Client(service, service.ready["workloads"][0])
            filler = Path(disk) / "filler"
            with suppress(OSError), filler.open("wb", buffering=0) as file:
                while file.write(bytes(1024)):
                    pass
            for number in range(50):
                is_accepted = client.answers(f"run w{number} devices=dgx-0/{number % 8} profile=50")
                client.check(is_accepted, "a workload is refused")
            # The last page of the log has room for some more.
            promised = sum(_put(service.ready["queue-clients"][0]) for _ in range(_PUTS))
            log = (Path(disk) / "media" / "requests.log").read_bytes().splitlines()
            client.check(promised < _PUTS, "no request is refused")
            client.check(len(log) == promised + 1, f"{len(log) - 1} of {promised} promised requests are in the log")
            client.check_all()
            filler.unlink()
            deadline = perf_counter() + 10
            while not (accepted := _put(service.ready["queue-clients"][0])) and perf_counter() < deadline:
                sleep(0.1)
            client.check(accepted, "no request is accepted after it")
            return f"{promised} of {_PUTS} `put` promised, the others refused", client.failures


def _put(address: str) -> bool:
    """Whether a durable queue promises a request."""
    with socket.socket(socket.AF_UNIX) as peer, suppress(OSError):
        peer.settimeout(10)
        peer.connect(address)
        peer.sendall(b"put media 1\n")
        return peer.recv(100).startswith(b"ok")
    return False


def _silent_names() -> tuple[str, list[str]]:
    if os.geteuid():
        return _NEEDS_ROOT, []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server, ExitStack() as stack:
        server.bind(("127.0.0.1", 53))
        server.settimeout(10)
        configuration = dcgm(_DEVICES) + "kubernetes: {kubeconfig: '{folder}/kubeconfig'}\n"
        cluster = "{name: h100, nodes: cluster, device: h100, devices-per-node: 8, identity: dcgm}"
        configuration = configuration.replace("identity: dcgm}]", f"identity: dcgm}}, {cluster}]")
        (service,) = stack.enter_context(fakedev(configuration, script="reliability/silent_names_serve.py"))
        client = _Client(service, service.ready["workloads"][0])
        question, _ = server.recvfrom(1000)
        client.check(b"api" in question, "no name was asked for")
        client.check_all()
        began = perf_counter()
        service.end()
        seconds = perf_counter() - began
        client.check(seconds < 5, "it waited for the name server to stop")
        return f"stopped after {seconds * 1000:.0f} ms", client.failures


def _no_descriptors() -> tuple[str, list[str]]:
    with fakedev(dcgm(_DEVICES)) as (service,), ExitStack() as stack:
        client = _Client(service, service.ready["workloads"][0])
        resource.prlimit(service.pid, resource.RLIMIT_NOFILE, (128, 128))
        for _ in range(_CROWD):
            peer = stack.enter_context(socket.socket(socket.AF_UNIX))
            peer.connect(service.ready["workloads"][0])
            peer.sendall(b"run crowd devices=dgx-0/0 profile=10\n")
        sleep(1)
        client.check_all()
        said = service.log().count("no file descriptors are left")
        client.check(said == 1, f"the log says it {said} times")
        stack.close()
        client.check(_Client(service, service.ready["workloads"][0]).answers("list"), "no new connection after it")
        return f"{_CROWD} connections, 128 descriptors", client.failures


def _set_clock(number: signal.Signals) -> tuple[str, list[str]]:
    with fakedev(dcgm(_DEVICES), script="reliability/shifted_serve.py") as (service,):
        client = _Client(service, service.ready["workloads"][0])
        os.kill(service.pid, number)
        client.check_all()
        _, missed = client.figures()
        client.check(missed == 0, "ticks were dropped")
        return f"{missed:.0f} ticks dropped", client.failures


def _pause(seconds: float) -> tuple[str, list[str]]:
    with fakedev(dcgm(_DEVICES)) as (service,):
        client = _Client(service, service.ready["workloads"][0])
        os.kill(service.pid, signal.SIGSTOP)
        sleep(seconds)
        os.kill(service.pid, signal.SIGCONT)
        began = perf_counter()
        service.get("/nodes/dgx-1/metrics")
        first_seconds = perf_counter() - began
        client.check_all()
        client.check(first_seconds < 1, "the first page took over 1 s")
        _, missed = client.figures()
        return f"the first page after {first_seconds * 1000:.0f} ms, {missed:.0f} ticks dropped", client.failures


def _ipv6_only() -> tuple[str, list[str]]:
    with fakedev(dcgm(_DEVICES, '"[::1]:0"').replace('"{folder}/workload.sock"', '"[::1]:0"')) as (service,):
        client = _Client(service, service.ready["workloads"][0])
        client.check_all()
        found = service.get("/sd").decode()
        client.check("[::1]:" in found, "/sd does not name the address")
        return service.web, client.failures
