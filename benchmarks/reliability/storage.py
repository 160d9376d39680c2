"""kill -9 at a thousand random instants: state, record, journal and a durable queue have all that was promised."""

from __future__ import annotations

import os
import random
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from importlib import import_module
from io import StringIO
from pathlib import Path
from time import perf_counter, sleep

from fleets import dcgm
from results import Section, Target

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fakedev.commands.main import main as run_fakedev
from fakedev.fleet.state_folder import CannotGoOn, code_version, read_saved
from fakedev.queues.log import DamagedLog, replay

#: A service is killed in its start, or after this many answers at most and a moment more.
_MOST_ANSWERS = 30
_MOMENT_SECONDS = 0.02
_START_SHARE = 0.2
#: Sends a request; returns the words of the answer, or raises ConnectionError if that is not ``ok``.
Say = Callable[[str], list[str]]
_MORE = """
queues:
  names: {{media: {{durable: "{folder}/media", retries: 1000}}}}
  listen-clients: ["{folder}/clients.sock"]
  listen-backends: ["{folder}/backends.sock"]
journal: {{file: "{folder}/journal.jsonl"}}
state: "{folder}/state"
"""


def storage(is_short: bool) -> Section:
    """Kill it 20 times, or a thousand."""
    return measure(20 if is_short else 1000)


def measure(kills: int, seed: int = 1000) -> Section:
    """Kill a service so often, each started where the one before was killed; the seed decides when."""
    section = Section(
        "Storage and kill -9",
        f"""
A service of 16 H100s with state, record, journal and a durable queue is killed {kills:,} times, and started again with
the same files: {_START_SHARE:.0%} of the kills are in its start, the others at a random moment after up to
{_MOST_ANSWERS} answers to a client of the workload port, one of the queue, and a backend. Each life is a copy (fork) of
a process that has loaded all modules. After each kill the state and the queue's log are read, at the end all files.
*Promised*: the client was told that it is accepted.
""",
        ["measured"],
    )
    with tempfile.TemporaryDirectory(prefix="fakedev-bench-") as name:
        service = _Service(Path(name))
        # All that lives need but a reactor, once.
        import_module("fakedev.service.service")
        code_version()
        draw = random.Random(seed)
        for number in range(1, kills + 1):
            service.live(draw)
            if number % 20 == 0:
                print(f"{number} kills: {service.lost()}", file=sys.stderr, flush=True)
        service.live(None)
        damaged = service.damaged_files()
        recorded = service.recorded()
    none = Target(0)
    for what, lost, promised in (
        ("promised workloads that the state lacks", service.lost_events, service.started),
        ("promised workloads that the record lacks", len(service.started - recorded), service.started),
        ("promised requests that the queue lacks", service.lost_requests, service.put),
        ("finished requests that are there again", service.finished_again, service.finished),
    ):
        section.add(what, f"{lost} of {len(promised):,}", judged=lost, target=none)
    section.add("ticks that fell back", str(service.fallen_ticks), judged=service.fallen_ticks, target=none)
    section.add("files that are damaged", str(service.torn + damaged), judged=service.torn + damaged, target=none)
    section.add("starts that failed", str(service.failed_starts), judged=service.failed_starts, target=none)
    section.add("kills", f"{kills:,}, {service.kills_in_start:,} of them in the start")
    return section


class _Service:
    """A service that is killed and started again, and what it has promised."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        text = dcgm(16, '"{folder}/web.sock"', speed=20.0) + _MORE.format(folder=folder)
        (folder / "config.yaml").write_text(text.replace("{folder}", str(folder)))
        self.started: set[str] = set()
        self.put: set[str] = set()
        self.taken: set[str] = set()
        self.finished: set[str] = set()
        self.lost_events = self.lost_requests = self.finished_again = self.fallen_ticks = 0
        self.torn = self.failed_starts = self.kills_in_start = 0
        self._last_event = self._tick = self._number = self._answers = 0
        self._start_seconds = 1.0

    def live(self, draw: random.Random | None) -> None:
        """Start the service, use it, kill it (without a draw: by SIGTERM), and read what it leaves."""
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        options = ["--config", str(self.folder / "config.yaml"), "--ready-file", str(ready)]
        began = perf_counter()
        pid = _fork(["serve", *options, "--record", str(self.folder / "run.jsonl")], self.folder / "log")
        if draw is not None and draw.random() < _START_SHARE:
            sleep(draw.uniform(0, self._start_seconds))
            self.kills_in_start += 1
        elif self._is_ready(pid, ready):
            self._start_seconds = perf_counter() - began
            self._use(draw)
        os.kill(pid, signal.SIGTERM if draw is None else signal.SIGKILL)
        os.waitpid(pid, 0)
        for client in threading.enumerate():
            if client is not threading.main_thread():
                client.join()
        self._read()

    def _is_ready(self, pid: int, ready: Path) -> bool:
        while not ready.exists():
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                self.failed_starts += 1
                print((self.folder / "log").read_text()[-2000:], file=sys.stderr, flush=True)
                return False
            sleep(0.002)
        return True

    def _use(self, draw: random.Random | None) -> None:
        """Let three clients talk until there were enough answers."""
        most = self._answers + (draw.randint(1, _MOST_ANSWERS) if draw is not None else _MOST_ANSWERS)
        for talk, name in ((self._start, "workload"), (self._put, "clients"), (self._take, "backends")):
            threading.Thread(target=self._talk, args=(talk, name)).start()
        while self._answers < most:
            sleep(0.001)
        sleep(draw.uniform(0, _MOMENT_SECONDS) if draw is not None else 0)

    def _talk(self, talk: Callable[[Say, str], None], name: str) -> None:
        with suppress(OSError, ValueError), socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.folder / f"{name}.sock"))
            lines = connection.makefile("rb")

            def say(text: str) -> list[str]:
                connection.sendall(text.encode() + b"\n")
                while (line := lines.readline()).startswith(b"ended "):
                    pass
                if not line.startswith(b"ok"):
                    raise ConnectionError
                self._answers += 1
                return line.decode().split()

            while True:
                self._number += 1
                talk(say, str(self._number))

    def _start(self, say: Say, number: str) -> None:
        name = f"own-{number}"
        _, work = say(f"run {name} devices=dgx-0/* profile=50:0:1 repeat=1 detach")
        self.started.add(name)
        self._last_event = max(self._last_event, int(work.removeprefix("w")))

    def _put(self, say: Say, number: str) -> None:
        say(f"put media {number}")
        self.put.add(number)

    def _take(self, say: Say, _: str) -> None:
        _, job, *rest = say("take media wait=1m")
        self.taken.add(rest[-1])
        say(f"done {job} 0")
        self.finished.add(rest[-1])

    def _read(self) -> None:
        """Compare the files of the dead service with what it has promised."""
        try:
            saved, _ = read_saved(str(self.folder / "state")) if (self.folder / "state").exists() else (None, 0)
            if saved is not None:
                self.torn += len(saved.damages)
                self.lost_events += max(0, self._last_event - saved.last_event.followed_by(saved.lines).sequence)
                self.fallen_ticks += saved.tick < self._tick
                self._tick = saved.tick
        except CannotGoOn as reason:
            self._note_torn(reason)
        try:
            with (self.folder / "media" / "requests.log").open("rb") as log:
                there = {job.arguments[-1] for job in replay(log).jobs}
        except FileNotFoundError:
            return
        except DamagedLog as reason:
            self._note_torn(reason)
            return
        self.lost_requests += len(self.put - self.taken - there)
        self.finished_again += len(self.finished & there)

    def _note_torn(self, reason: Exception) -> None:
        self.torn += 1
        print(f"damaged: {reason}", file=sys.stderr, flush=True)

    def lost(self) -> str:
        """What was lost so far, of what."""
        lost = f"{self.lost_events} of {len(self.started)} workloads, {self.lost_requests} of {len(self.put)} requests"
        return f"{lost} lost, {self.finished_again} finished again, {self.torn} damages, {self.failed_starts} no starts"

    def damaged_files(self) -> int:
        """How many files are not whole at the end."""
        names = ("state", "media", "run.jsonl", "journal.jsonl")
        with redirect_stdout(StringIO()) as said, redirect_stderr(StringIO()):
            damaged = sum(run_fakedev(["check", str(self.folder / name)]) for name in names)
        print(said.getvalue(), file=sys.stderr, flush=True)
        return damaged

    def recorded(self) -> set[str]:
        """The names of workloads in the record."""
        with (self.folder / "run.jsonl").open(encoding="utf-8") as record:
            parts = (line.partition('"workload":{"name":"') for line in record)
            return {rest.partition('"')[0] for _, found, rest in parts if found}


def _fork(arguments: list[str], log: Path) -> int:
    """Run a command in a copy of this process, which has one thread; returns the number of the copy."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        code = run_fakedev(arguments)
    finally:
        os._exit(code)
