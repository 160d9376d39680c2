"""fakedev-backend with fakedev's own frontend, in both protocols, and running simulated work."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from tests.support.programs.original_tester import answer_of, request
from tests.support.programs.processes import Program, console
from tests.support.programs.service import FLEET, Peer, Service, StartProgram, connected, eventually, ready

pytestmark = pytest.mark.real

SH = "/bin/sh"
BOTH = pytest.mark.parametrize("protocol", ["bare", "json"])


class Queues:
    """A service with the queue q on UNIX sockets."""

    def __init__(self, start_program: StartProgram, folder: Path) -> None:
        self.clients, self.backends = str(folder / "clients.sock"), str(folder / "backends.sock")
        self.workloads = str(folder / "workloads.sock")
        config, file = folder / "fakedev.yaml", folder / "ready.json"
        config.write_text(
            f'{FLEET}\nweb: ["127.0.0.1:0"]\nworkloads: {{listen: ["{self.workloads}"]}}\n'
            f'queues: {{names: [q], listen-clients: ["{self.clients}"], listen-backends: ["{self.backends}"]}}\n'
        )
        self._start_program = start_program
        program = start_program([*console("fakedev"), "serve", "--config", str(config), "--ready-file", str(file)])
        self.service: Service = ready(program, file)

    def backend(self, protocol: str, *arguments: str) -> Program:
        """Start a backend."""
        started = [*console("fakedev-backend"), "-faddr", self.backends, "-name", "q", "-protocol", protocol]
        return self._start_program([*started, *arguments])

    def client(self) -> Peer:
        """A client that speaks words."""
        return Peer(self.clients)

    def figures(self) -> dict[str, object]:
        """What the service knows of the queue."""
        return dict(self.service.get_json("/api/v1/queues/q"))


@pytest.fixture
def queues(start_program: StartProgram, tmp_path: Path) -> Queues:
    """A service with a queue."""
    return Queues(start_program, tmp_path)


@BOTH
def test_results_of_all_kinds(queues: Queues, protocol: str) -> None:
    """Success, failure, signal, time-out; each has its one name."""
    scripts = [("exit 0", "0"), ("exit 3", "0"), ("kill -9 $$", "0"), ("sleep 60", "200ms")]
    with queues.client() as client:
        for script, limit in scripts:
            assert client.say(f"put q -c '{script}' limit={limit}").startswith("ok ")
        program = queues.backend(protocol, SH)
        ended = [client.line().split() for _ in scripts]
    assert [words[2] for words in ended] == ["success", "failure", "failure", "timeout"]
    assert [words[3] for words in ended] == [f"exit-code={code}" for code in (0, 3, 137, 124)]
    assert program.wait() == 0


@BOTH
def test_an_original_client(queues: Queues, protocol: str) -> None:
    """Its request and its one read."""
    client = connected(queues.clients)
    client.sendall(request("q", ["-c", "exit 4"]))
    queues.backend(protocol, "-backoff", "0.1", SH)
    answer = answer_of(client)
    assert (answer["Retcode"], answer["Error"]) == (4, "/bin/sh ended with exit code 4")


def test_a_client_that_leaves_ends_its_command(queues: Queues) -> None:
    """The frontend says so to a backend that can hear it."""
    with queues.client() as client:
        client.say("put q -c 'echo begun; sleep 3600'")
        program = queues.backend("json", "-backoff", "5", SH)
        program.wait_for_text("begun")
    program.wait_for_text("withdrew")
    assert program.stop() == 0


def test_a_job_that_is_released_is_done_by_another(queues: Queues) -> None:
    """Its client knows nothing of it."""
    with queues.client() as client:
        client.say("put q -c 'echo begun; exec sleep 0.5'")
        first = queues.backend("json", "-grace", "0", SH)
        first.wait_for_text("begun")
        assert first.stop() == 0
        queues.backend("json", SH)
        assert client.line().startswith("ended 1 success ")


def test_waiting_for_work_is_no_polling(queues: Queues) -> None:
    """The backend waits at the frontend, and ends from there, when the frontend is stopped, too."""
    program = queues.backend("json", "-backoff", "60", "-backoff-max", "60", SH)
    eventually(lambda: queues.figures()["workers-idle"] == 1, "the backend waits")
    with queues.client() as client:
        client.say("put q -c 'exit 0'")
        assert client.line().startswith("ended 1 success ")
    eventually(lambda: queues.figures()["workers-idle"] == 1, "the backend waits again")
    queues.service.program.process.send_signal(signal.SIGSTOP)
    assert program.stop(signal.SIGINT, seconds=10) == 0
    queues.service.program.process.send_signal(signal.SIGCONT)


@BOTH
def test_a_killed_backend_loses_its_job(queues: Queues, protocol: str) -> None:
    """The client is told at once."""
    with queues.client() as client:
        client.say("put q 60")
        program = queues.backend(protocol, "sleep")
        eventually(lambda: queues.figures()["running"] == 1, "the job runs")
        program.kill()
        assert client.line().startswith("ended 1 lost ")


def test_queue_work_loads_simulated_devices(queues: Queues, tmp_path: Path) -> None:
    """The command is fakedev-workload: its exit code is the job's, its device is busy meanwhile."""
    workload = tmp_path / "fakedev-workload"
    python, _, code = console("fakedev-workload")
    workload.write_text(f'#!/bin/sh\nexec "{python}" -c "{code}" "$@"\n')
    workload.chmod(0o755)
    queues.backend("json", "-backoff", "5", str(workload), "-socket", queues.workloads, "-node", "a")
    with queues.client() as client:
        client.say("put q -devnames card1 -activity 70:0:0 limit=1m")

        def load() -> float:
            page = queues.service.fetch("/nodes/a/metrics").body.decode()
            (value,) = re.findall(r'^DCGM_FI_DEV_GPU_UTIL\{gpu="1".*\} (\S+)$', page, re.MULTILINE)
            return float(value)

        eventually(lambda: load() == 70, "the device is busy")
    eventually(lambda: load() == 0, "the device is idle when the client has left")
    with queues.client() as client:
        client.say("put q -devnames nonsense -activity 70:0:1")
        assert client.line().startswith("ended 2 failure exit-code=1 ")


@BOTH
def test_many_jobs_on_few_workers(queues: Queues, protocol: str) -> None:
    """Each is answered once."""
    with queues.client() as client:
        for _ in range(200):
            client.send(json.dumps({"op": "put", "id": 1, "queue": "q", "args": ["0"]}).encode() + b"\n")
        program = queues.backend(protocol, "-workers", "4", "sleep")
        answers = [json.loads(client.line()) for _ in range(200)]
    assert {answer["outcome"] for answer in answers} == {"success"}
    assert len({answer["job"] for answer in answers}) == 200
    assert program.wait() == 0
