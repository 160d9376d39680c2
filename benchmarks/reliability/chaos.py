"""All at once for a long time: load, hostile peers, kills, full disks, a clock that is set, pauses, lost packets."""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from statistics import mean
from time import perf_counter, sleep

from fleets import dcgm
from programs import HERE, SERVE, STEPS, Program, long_steps
from results import Section, Target

from reliability.hostile import hostile_peers

#: Hostile connections.
_PEERS = 450
#: Seconds between two things that a client does.
_PACE_SECONDS = 0.05
#: Of a request; a pause and lost packets are shorter.
_PATIENCE_SECONDS = 120.0
#: The share of packets that are lost, from one connection of the machine to another one of it.
_LOST_PACKETS = 0.05
#: Rest before each disturbance, at least and at most.
_REST_SECONDS = (2.0, 8.0)
_CLONE_NEWNET = 0x40000000
_STEP_SECONDS = 0.020
_QUEUE = """
queues:
  names: {{media: {{durable: "{disk}/media", retries: 1000}}}}
  listen-clients: ["127.0.0.1:{clients}"]
  listen-backends: ["127.0.0.1:{backends}"]
"""


def chaos(is_short: bool) -> Section:
    """A small fleet for a minute, or a larger one for twenty minutes."""
    return measure(10, 60.0) if is_short else measure()


def measure(nodes: int = 25, seconds: float = 1200.0) -> Section:
    """Let everything happen for some time; services are killed in its first third, and memory is compared after it."""
    section = Section(
        "Chaos",
        f"""
{nodes * 8:,} H100s for {seconds:.0f} s under load while all around them fails: hostile peers, kills, a full disk, a
clock that is set, pauses, lost packets, reloads. A client starts workloads of a second,
another one puts requests into a durable queue, a backend takes them, a scraper asks for nodes' pages, each every
{_PACE_SECONDS * 1000:.0f} ms; {_PEERS:,} hostile connections of all sorts (benchmarks/reliability/hostile_peers.py).
After a rest of {_REST_SECONDS[0]:.0f} to {_REST_SECONDS[1]:.0f} s one of these follows, at random: `kill -9` and a new
start (in the first third), a disk that is full for 3 s, a clock that is set by an hour or a day
(benchmarks/reliability/shifted_serve.py: the clock is the process's; the kernel's is not set), SIGSTOP for up to 3 s,
{_LOST_PACKETS:.0%} of all packets lost for 5 s (iptables, in a network of its own: this kernel may have no netem), a
reload with one node more or less. State, record, journal and the queue's log are on a file system of their own.
*Promised*: the client was told that it is accepted. *Step*: one call of the reactor, in processor time.
Memory: the mean of the first quarter of the time after the last kill, and of the last one.
""",
        ["measured"],
    )
    if not _may_mount():
        section.add("not measured: this user may mount no file system", "")
        return section
    loss = _own_network()
    with ExitStack() as stack:
        run = _Run(stack, nodes, loss)
        began = perf_counter()
        clients = [
            threading.Thread(target=each)
            for each in (run.start_workloads, run.put_requests, run.take_requests, run.scrape, run.look_at_memory)
        ]
        kinds = {"web": run.addresses["web"], "lines": run.addresses["workloads"],
                 "password": run.addresses["password"], "tls": run.addresses["tls"]}  # fmt: skip
        with hostile_peers(_PEERS, kinds) as peers:
            for client in clients:
                client.start()
            try:
                run.disturb(began + seconds / 3, [run.kill, *run.disturbances])
                calm = perf_counter()
                run.disturb(began + seconds, run.disturbances)
                quarter = (perf_counter() - calm) / 4
            finally:
                run.is_over = True
                for client in clients:
                    client.join()
        first = [size for at, size in run.memory if calm <= at < calm + quarter]
        last = [size for at, size in run.memory if calm + 3 * quarter <= at < calm + 4 * quarter]
        run.end()
        none = Target(0)
        done = ", ".join(f"{count} {what}" for what, count in sorted(run.done.items()))
        section.add("what happened", done if not loss else f"{done}; no packets lost: {loss}")
        section.add("hostile connections", f"{peers['connected']:,.0f} of {peers['sorts']:.0f} sorts")
        lost = len(run.started - run.recorded)
        section.add("promised workloads that the record lacks", f"{lost} of {len(run.started):,}",
                    judged=lost, target=none)  # fmt: skip
        lost = len(run.put - run.taken)
        section.add("promised requests that no backend got", f"{lost} of {len(run.put):,}", judged=lost, target=none)
        section.add("pages that a living service did not serve", f"{run.lost_pages} of {run.pages:,}",
                    judged=run.lost_pages, target=none)  # fmt: skip
        section.add("ticks that fell back", str(run.fallen_ticks), judged=run.fallen_ticks, target=none)
        section.add("files that are not whole", str(len(run.damaged)), judged=len(run.damaged), target=none)
        section.add("tracebacks", str(run.tracebacks), judged=run.tracebacks, target=none)
        held = [step for step in run.steps if step > _STEP_SECONDS]
        section.add("steps over 20 ms", str(len(held)), judged=None if seconds < 300 else len(held), target=none)
        section.add("the longest step", f"{max(run.steps, default=0.0) * 1000:.0f} ms")
        section.add("memory", f"{mean(first or [0]) / 1e6:,.0f} MB, then {mean(last or [0]) / 1e6:,.0f} MB")
    return section


def _may_mount() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        if subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=False).returncode:
            return False
        subprocess.run(["umount", folder], check=True)
    return True


def _own_network() -> str:
    """Let this process and its children have a network of their own, in which packets can be lost; why not, else."""
    missing = [name for name in ("ip", "iptables") if shutil.which(name) is None]
    if missing:
        return f"no {' and no '.join(missing)}"
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
        return os.strerror(ctypes.get_errno())
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    try:
        with _lost_packets():
            return ""
    except subprocess.CalledProcessError:
        return "this kernel's iptables lose none"


@contextmanager
def _lost_packets() -> Iterator[None]:
    which = ["-m", "statistic", "--mode", "random", "--probability", str(_LOST_PACKETS)]
    rule = ["INPUT", "-i", "lo", *which, "-j", "DROP"]
    subprocess.run(["iptables", "-A", *rule], check=True)
    try:
        yield
    finally:
        subprocess.run(["iptables", "-D", *rule], check=True)


class _Run:
    """A service, what was asked of it, and what it has promised.

    :ivar done: how often which disturbance happened.
    """

    def __init__(self, stack: ExitStack, nodes: int, loss: str) -> None:
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fakedev-bench-")))
        self.disk = self.folder / "disk"
        self.disk.mkdir(0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128m,mode=700", "none", self.disk], check=True)
        stack.callback(lambda: subprocess.run(["umount", self.disk], check=True))
        self.nodes = nodes
        self.addresses = _free_addresses("web", "password", "tls", "workloads", "clients", "backends")
        self._write_configuration()
        self.disturbances = [self.fill_disk, self.set_clock, self.stop_for_a_while, self.reload]
        if not loss:
            self.disturbances.append(self.lose_packets)
        self.done: Counter[str] = Counter()
        self.is_over = False
        self.lives = 0
        self._is_dying = False
        self.started: set[str] = set()
        self.put: set[str] = set()
        self.taken: set[str] = set()
        self.recorded: set[str] = set()
        self.damaged: list[str] = []
        self.pages = self.lost_pages = self.fallen_ticks = self.tracebacks = 0
        self.memory: list[tuple[float, int]] = []
        self.steps: list[float] = []
        self._draw = random.Random(44)
        self.program = self._start()
        stack.callback(self.program_end)

    # The service

    def _write_configuration(self) -> None:
        text = dcgm(self.nodes * 8, f'"{self.addresses["web"]}"').replace(
            '"{folder}/workload.sock"', f'"{self.addresses["workloads"]}"'
        )
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost"]
        names = ["-keyout", f"{self.folder}/key.pem", "-out", f"{self.folder}/cert.pem"]
        subprocess.run(["openssl", "req", "-x509", *key, *names], check=True, capture_output=True)
        tls = f'tls_server_config: {{cert_file: "{self.folder}/cert.pem", key_file: "{self.folder}/key.pem"}}'
        users = 'basic_auth_users: {alice: "$2b$10$abcdefghijklmnopqrstuu5Lo0g67CiD3M4RpN1BmBb4Crp5w7dbK"}'
        for kind, keys in (("password", users), ("tls", tls)):
            more = f'{{listen: "{self.addresses[kind]}", web-config: {{{keys}}}}}'
            text = text.replace(f'"{self.addresses["web"]}"', f'"{self.addresses["web"]}", {more}', 1)
        ports = {kind: address.rpartition(":")[2] for kind, address in self.addresses.items()}
        text += _QUEUE.format(disk=self.disk, **ports)
        text += f"journal: {{file: '{self.disk}/journal.jsonl', max-size: 2MB}}\nstate: '{self.disk}/state'\n"
        (self.folder / "config.yaml").write_text(text)

    def _start(self) -> Program:
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        (self.folder / STEPS).unlink(missing_ok=True)
        command = [str(HERE / "reliability" / "chaos_serve.py"), str(self.folder / STEPS), "serve"]
        options = ["--config", str(self.folder / "config.yaml"), "--ready-file", str(ready)]
        program = Program([*command, *options, "--record", str(self.disk / "run.jsonl")], self.folder)
        self._steps_before = len(long_steps(program, shown_from=9.0))
        self.lives += 1
        return program

    def program_end(self) -> None:
        """End the service, and keep how long its steps took."""
        self.steps += long_steps(self.program)[self._steps_before :]
        self.program.end()

    # What its clients do

    def _again(self, kind: str, talk: Callable[[socket.socket], None]) -> None:
        """Be a client until it is over, once at least: connect again whenever the connection is gone."""
        host, _, port = self.addresses[kind].rpartition(":")
        while True:
            with suppress(OSError), socket.create_connection((host, int(port)), _PATIENCE_SECONDS) as connection:
                talk(connection)
            if self.is_over:
                return
            sleep(_PACE_SECONDS)

    def _say(self, kind: str, request: Callable[[int], str], promised: Callable[[int], None]) -> None:
        """Send a line again and again; note which were answered with ``ok``."""
        number = 0

        def talk(connection: socket.socket) -> None:
            nonlocal number
            lines = connection.makefile("rb")
            while not self.is_over:
                number += 1
                connection.sendall(request(number).encode())
                while (line := lines.readline()).startswith(b"ended "):
                    pass
                if not line:
                    return
                if line.startswith(b"ok"):
                    promised(number)
                sleep(_PACE_SECONDS)

        self._again(kind, talk)

    def start_workloads(self) -> None:
        """Start short workloads."""
        self._say(
            "workloads", lambda number: f"run own-{number} devices=dgx-0/{number % 8} profile=50:0:1 repeat=1 detach\n",
            lambda number: self.started.add(f"own-{number}"),
        )  # fmt: skip

    def put_requests(self) -> None:
        """Put requests into the queue."""
        self._say("clients", lambda number: f"put media {number}\n", lambda number: self.put.add(str(number)))

    def take_requests(self) -> None:
        """Be a backend; at the end until the queue is empty."""

        def talk(connection: socket.socket) -> None:
            lines = connection.makefile("rb")
            while True:
                connection.sendall(b"take media\n")
                line = lines.readline().decode()
                if line == "ok empty\n":
                    if self.is_over:
                        return
                    sleep(_PACE_SECONDS)
                    continue
                if not line.startswith("ok "):
                    return
                self.taken.add(line.split()[-1])
                connection.sendall(f"done {line.split()[1]} 0\n".encode())
                lines.readline()

        self._again("backends", talk)

    def scrape(self) -> None:
        """Ask for nodes' pages, and for the tick."""
        tick = 0.0
        number = 0
        while not self.is_over:
            life, was_dying = self.lives, self._is_dying
            number += 1
            self.pages += 1
            try:
                self._get(f"/nodes/dgx-{number % self.nodes}/metrics")
                page = self._get("/-/metrics").decode().splitlines()
                now = next(float(line.split()[1]) for line in page if line.startswith("fakedev_tick "))
                self.fallen_ticks += now < tick
                tick = now
            except (OSError, HTTPException) as error:
                if not was_dying and not self._is_dying and life == self.lives:
                    self.lost_pages += 1
                    print(f"a page is lost: {error!r}", file=sys.stderr, flush=True)
            sleep(_PACE_SECONDS)

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"http://{self.addresses['web']}{path}", timeout=_PATIENCE_SECONDS) as answer:
            return bytes(answer.read())

    def look_at_memory(self) -> None:
        """Note the memory of the process each second."""
        while not self.is_over:
            with suppress(OSError, IndexError):
                self.memory.append((perf_counter(), self.program.resident_bytes()))
            sleep(1)

    # What its surroundings do

    def disturb(self, until: float, disturbances: list[Callable[[], None]]) -> None:
        """Do one after the other, in a random order that has each as often."""
        waiting: list[Callable[[], None]] = []
        while perf_counter() < until:
            if not waiting:
                waiting = self._draw.sample(disturbances, len(disturbances))
            sleep(self._draw.uniform(*_REST_SECONDS))
            disturbance = waiting.pop()
            disturbance()
            self.done[disturbance.__name__.replace("_", " ")] += 1

    def kill(self) -> None:
        """Kill the service, and start the next one in its place."""
        self._is_dying = True
        os.kill(self.program.pid, signal.SIGKILL)
        self.program_end()
        self.program = self._start()
        self._is_dying = False

    def fill_disk(self) -> None:
        """Let no file grow for some seconds; then wait until all that waited is written."""
        filler = self.disk / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1 << 8):
                with suppress(OSError):
                    while file.write(bytes(size)):
                        pass
        sleep(3)
        filler.unlink()
        deadline = perf_counter() + _PATIENCE_SECONDS
        while perf_counter() < deadline:
            with suppress(OSError):
                if b'"healthy"' in self._get("/health"):
                    return
            sleep(0.2)
        print("it is not healthy after a full disk", file=sys.stderr, flush=True)

    def set_clock(self) -> None:
        """Set it back by an hour, or forward by a day."""
        os.kill(self.program.pid, self._draw.choice([signal.SIGUSR1, signal.SIGUSR2]))

    def stop_for_a_while(self) -> None:
        """As a debugger, or a machine that is moved."""
        os.kill(self.program.pid, signal.SIGSTOP)
        sleep(self._draw.uniform(0, 3))
        os.kill(self.program.pid, signal.SIGCONT)

    def lose_packets(self) -> None:
        """Some of all connections."""
        with _lost_packets():
            sleep(5)

    def reload(self) -> None:
        """With one node more, or with one less."""
        config = self.folder / "config.yaml"
        text, odd = config.read_text(), f"nodes: {self.nodes + 1},"
        even = f"nodes: {self.nodes},"
        config.write_text(text.replace(odd, even) if odd in text else text.replace(even, odd))
        try:
            self.program.post("/-/reload")
        except OSError as error:
            self.done["reloads refused"] += 1
            print(f"a reload is refused: {error!r}", file=sys.stderr, flush=True)

    def end(self) -> None:
        """End the service, and read its files."""
        self.take_requests()
        self.program_end()
        self.tracebacks = self.program.log().count("Traceback")
        for name in ("state", "media", "run.jsonl", "journal.jsonl"):
            command = [sys.executable, "-c", SERVE, "check", str(self.disk / name)]
            said = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=False)
            print(said.stdout, file=sys.stderr, flush=True)
            if said.returncode:
                self.damaged.append(name)
        with (self.disk / "run.jsonl").open(encoding="utf-8") as record:
            for line in record:
                _, found, rest = line.partition('"workload":{"name":"')
                if found:
                    self.recorded.add(rest.partition('"')[0])


def _free_addresses(*kinds: str) -> dict[str, str]:
    """A free address of 127.0.0.1 for each."""
    with ExitStack() as stack:
        sockets = {kind: stack.enter_context(socket.create_server(("127.0.0.1", 0))) for kind in kinds}
        return {kind: f"127.0.0.1:{each.getsockname()[1]}" for kind, each in sockets.items()}
