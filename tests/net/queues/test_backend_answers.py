"""The backend port in memory: what is easily answered wrong."""

from __future__ import annotations

import json

from twisted.internet.task import Clock

from fakedev.net.lines.fair_share import FairShare
from fakedev.net.queues.backend_port import QueueBackendFactory
from fakedev.net.queues.client_port import QueueClientFactory
from fakedev.net.queues.hub import QueueHub
from fakedev.workqueue.admission import MAX_PER_OWNER
from fakedev.workqueue.broker import Broker
from fakedev.workqueue.spec import BrokerSpec, QueueSpec
from tests.support.line_peers import connect


class TestBackendAnswer:
    """A client that speaks in JSON lines, and a backend that speaks in words."""

    def setup_method(self) -> None:
        """Both ports of one broker."""
        clock = Clock()
        hub = QueueHub(Broker(BrokerSpec((QueueSpec("sleep"),)), clock.seconds()), clock, FairShare(clock))
        self.client, self.client_transport = connect(QueueClientFactory(hub, clock))
        self.backend, self.backend_transport = connect(QueueBackendFactory(hub, clock))

    def ask(self, line: str) -> str:
        """What the backend is answered."""
        self.backend_transport.clear()
        self.backend.dataReceived(line.encode() + b"\n")
        return self.backend_transport.value().decode()

    def put(self, count: int) -> None:
        """Put some requests; the client is notified when they end."""
        for number in range(count):
            message = {"op": "put", "id": number, "queue": "sleep", "answer": "accepted"}
            self.client.dataReceived(json.dumps(message).encode() + b"\n")
        self.client_transport.clear()

    def told(self) -> tuple[str, int, str, float]:
        """Outcome, exit code, error and time limit of the one request in the client's notification."""
        (line,) = self.client_transport.value().splitlines()
        news = json.loads(line)
        return news["outcome"], news["exit-code"], news["error"], news["timeout-seconds"]

    def test_what_a_failure_is(self):
        """The report decides; no report by fail is a success."""
        for said, outcome, told in (
            ("1 no such file", "failure", ("failure", 1, "no such file", 0)),
            ("3", "failure", ("failure", 3, "exit code 3", 0)),
            ("0", "failure", ("failure", 1, "failed", 0)),
            ("143 timeout=2500ms", "timeout", ("timeout", 143, "the time limit of 2.5 s is over", 2.5)),
            ("0 timeout=1s too slow", "timeout", ("timeout", 1, "too slow", 1)),
        ):
            self.put(1)
            job_id = self.ask("take sleep").split()[1]
            assert self.ask(f"fail {job_id} {said}") == f"ok {outcome}\n"
            assert self.told() == told

    def test_large_jobs_are_given_and_shown_in_parts(self):
        """One answer takes neither long nor much memory: a take has enough with 1 MiB, a list shows beginnings."""
        said = b"put sleep a " + b"x" * 65000 + b"\n"
        for _ in range(20):
            self.client.dataReceived(said)
        listed = self.ask("list sleep").splitlines()
        assert (len(listed), listed[1].partition(" -- ")[2]) == (21, "a " + "x" * 99 + "...")
        assert self.ask("take sleep count=1000").partition("\n")[0] == "ok 16 lines"

    def test_a_reason_that_is_kept_is_short(self):
        """Buried jobs keep theirs for as long as they are buried."""
        self.put(1)
        self.ask("take sleep")
        assert self.ask("bury 1 " + "x" * 1025) == "error bad-argument reason: is longer than 1024 characters\n"
        assert self.ask("bury 1 " + "x" * 1024) == "ok\n"
        assert " reason=" + "x" * 100 + "... --" in self.ask("list sleep")

    def test_hands_that_are_full_in_the_middle_of_an_answer(self):
        """The jobs taken until then are answered; the next one is refused."""
        self.put(MAX_PER_OWNER)
        self.client, self.client_transport = connect(self.client.factory)
        self.put(10)
        answers = [self.ask("take sleep count=1000").partition("\n")[0] for _ in range(6)]
        assert answers[:5] == ["ok 1000 lines"] * 4 + ["ok 96 lines"]
        assert answers[5] == "error full This connection holds 4096 jobs"
