"""fakedev-frontend as a program: the original's bytes by raw sockets, the page, the log, and its end."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.support.programs.ports import free_port
from tests.support.programs.processes import PATIENCE_SECONDS, console, require_program
from tests.support.programs.service import Peer, StartProgram, connected, eventually, fetch

pytestmark = pytest.mark.real

FRONTEND = console("fakedev-frontend")


def go_json(**fields: object) -> bytes:
    """An object as the original's programs send it: indented with tabs, without a newline at the end."""
    return json.dumps(fields, indent="\t").encode()


class Frontend:
    """A fakedev-frontend that runs, with free ports."""

    def __init__(self, start_program: StartProgram, *options: str) -> None:
        clients, workers, metrics = ports = [f"127.0.0.1:{free_port()}" for _ in range(3)]
        self.clients, self.workers, self.metrics = ports
        addresses = ["-caddr", clients, "--waddr", workers, f"-maddr={metrics}"]
        self.program = start_program([*FRONTEND, *addresses, *options])
        self.program.wait_for_text("backends of the queues: ")

    def request(self, queue: str, *arguments: str) -> Peer:
        """A client of the original that has sent a request."""
        client = Peer(self.clients)
        client.send(go_json(Queue=queue, Args=list(arguments), Limit=2.5))
        return client

    def ask(self, queue: str) -> tuple[Peer, dict[str, object]]:
        """A backend of the original that has asked for work, and what it was answered."""
        backend = Peer(self.workers)
        backend.send(go_json(Queue=queue))
        return backend, json.loads(backend.socket.recv(1024))

    def value(self, series: str) -> float | None:
        """The value of a series on the page; None when it is not there."""
        lines = fetch(self.metrics, "/metrics").body.decode().splitlines()
        values = [line.rpartition(" ")[2] for line in lines if line.rpartition(" ")[0] == series]
        return float(values[0]) if values else None


Start = Callable[..., Frontend]


@pytest.fixture
def start(start_program: StartProgram) -> Start:
    """Starts the frontend with these options and queues."""
    return lambda *options: Frontend(start_program, *options)


def test_a_request_of_the_original(start: Start) -> None:
    """Its client asks, its backend works, the result comes back, and the page counts it."""
    frontend = start("-interval", "1", "sleep")
    with frontend.request("sleep", "0.5") as client:
        eventually(lambda: frontend.value('hpa_queue_waiting{name="sleep"}') == 1, "the request waits")
        backend, work = frontend.ask("sleep")
        assert work == {"Error": "", "Args": ["0.5"], "Limit": 2.5, "Empty": False}
        assert frontend.value('hpa_queue_running{name="sleep"}') == 1
        backend.send(go_json(Pod="p", Node="n", Device="card0", Error="", Timeout=0, Runtime=0.5, Retcode=0))
        assert backend.rest() == b""
        answer = json.loads(client.rest())
    assert answer.pop("Waittime") > 0
    assert answer == {
        "Pod": "p", "Node": "n", "Device": "card0", "Error": "", "Timeout": 0, "Runtime": 0.5, "Retcode": 0,
    }  # fmt: skip
    frontend.program.wait_for_text("run 0.500 s")
    frontend.program.wait_for_text("(longest run on node n, pod p)")
    assert frontend.value('hpa_queue_success_total{name="sleep"}') == 1
    assert frontend.value('hpa_queue_maxrun_seconds{name="sleep",interval="1s"}') is not None
    assert frontend.value("hpa_client_connections_total") == 1
    assert frontend.value("hpa_worker_connections_total") == 1


def test_promtool(start: Start) -> None:
    """It has nothing to say about the page."""
    promtool = require_program("promtool")
    frontend = start("-interval", "5", "sleep", "media")
    page = fetch(frontend.metrics, "/metrics").body
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=page, capture_output=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_what_the_original_is_refused(start: Start) -> None:
    """An unknown queue, a full one and an empty one, in the original's words."""
    frontend = start("-qmax", "1", "sleep")
    with frontend.request("nope") as client:
        answer = json.loads(client.rest())
        assert (answer["Error"], answer["Retcode"]) == ("Unknown 'nope' queue", 1)
    backend, nothing = frontend.ask("sleep")
    assert nothing == {"Error": "Queue 'sleep' is empty", "Args": None, "Limit": 0, "Empty": True}
    assert backend.rest() == b""
    with frontend.request("sleep", "1"):
        eventually(lambda: frontend.value('hpa_queue_waiting{name="sleep"}') == 1, "the request waits")
        with frontend.request("sleep", "2") as refused:
            assert json.loads(refused.rest())["Retcode"] == 1
    eventually(lambda: frontend.value('hpa_queue_disconnect_total{name="sleep"}') == 1, "the client is missed")
    assert frontend.value('hpa_queue_waiting{name="sleep"}') == 0


def test_silent_peers_stop_nobody(start: Start) -> None:
    """The original stands still for the first of them."""
    frontend = start("sleep")
    with connected(frontend.clients) as silent, connected(frontend.workers), connected(frontend.metrics):
        silent.sendall(b'{\n\t"Queue": "sl')
        with frontend.request("sleep", "1") as client:
            backend, work = frontend.ask("sleep")
            assert work["Args"] == ["1"]
            backend.send(go_json(Error="broken", Retcode=3))
            assert json.loads(client.rest())["Retcode"] == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_its_end(start: Start, number: signal.Signals) -> None:
    """The running job is finished first, the waiting one is answered at once; then 0."""
    frontend = start("sleep")
    with frontend.request("sleep", "1") as runs:
        backend, _ = eventually(lambda: (got := frontend.ask("sleep")) and not got[1]["Empty"] and got, "work is there")
        with frontend.request("sleep", "2") as waits:
            eventually(lambda: frontend.value('hpa_queue_waiting{name="sleep"}') == 1, "the second waits")
            frontend.program.process.send_signal(number)
            assert "frontend goes down" in json.loads(waits.rest())["Error"]
        backend.send(go_json(Retcode=0))
        assert json.loads(runs.rest())["Retcode"] == 0
    assert frontend.program.wait() == 0
    assert "Traceback" not in frontend.program.stderr


def test_a_second_signal(start: Start) -> None:
    """Ends the running jobs at once."""
    frontend = start("sleep")
    with frontend.request("sleep", "1") as runs:
        backend, _ = eventually(lambda: (got := frontend.ask("sleep")) and not got[1]["Empty"] and got, "work is there")
        frontend.program.process.send_signal(signal.SIGINT)
        frontend.program.wait_for_text("they have 25 s to finish")
        frontend.program.process.send_signal(signal.SIGINT)
        assert "frontend goes down" in json.loads(runs.rest())["Error"]
        backend.leave()
    assert frontend.program.wait() == 0
    assert "Traceback" not in frontend.program.stderr


def test_signals_to_the_very_end(start: Start) -> None:
    """Whoever is impatient gets no other end: 0, and no word of a fault."""
    frontend = start("sleep")
    assert frontend.value('hpa_queue_all{name="sleep"}') == 0  # its reactor runs
    assert frontend.program.stop_impatiently() == 0
    assert "Traceback" not in frontend.program.stderr
