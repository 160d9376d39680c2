"""The work queues as a part of the program: ports, log lines, and an end that loses no job; fakedev-frontend."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.logger import LogEvent, formatEvent, globalLogPublisher

from fakedev.commands.dropins.frontend import FrontendOptions
from fakedev.commands.dropins.frontend import main as frontend_main
from fakedev.queues.part import make_frontend
from fakedev.queues.settings import Queues
from fakedev.schema.addresses import ListenAddress
from tests.support.application import AppReactor, MemoryApplication, application
from tests.support.wire.http_wire import answers

QUEUES = """
version: 1
fleet: {speed: 0}
web: ["127.0.0.1:9400"]
workloads: {listen: []}
queues:
  names: [sleep]
  drain: 10s
"""


@pytest.fixture
def said() -> Iterator[list[str]]:
    lines: list[str] = []

    def observer(event: LogEvent) -> None:
        lines.append(formatEvent(event))

    globalLogPublisher.addObserver(observer)
    yield lines
    globalLogPublisher.removeObserver(observer)


# -- the service ---------------------------------------------------------------------------------------------


def test_ports_are_announced(said: list[str], tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    with application(QUEUES, ready_file=str(ready)):
        assert "clients of the queues: 127.0.0.1:9997 [open to this machine]" in said
        assert "backends of the queues: 127.0.0.1:9999 [open to this machine]" in said
        told = json.loads(ready.read_text())
    assert (told["queue-clients"], told["queue-backends"]) == (["127.0.0.1:9997"], ["127.0.0.1:9999"])


def test_two_addresses_of_a_port_are_one_port() -> None:
    """They have the same queues and count their connections together."""
    text = QUEUES + "  listen-clients: [9997, '127.0.0.1:9996']\n  max-connections: 1\n"
    with application(text) as app:
        clients = [port for port in app.reactor.ports if port.getHost().port in (9996, 9997)]
        assert clients[0].factory.port is clients[1].factory.port
        assert app.client().say("put sleep") == ["ok 1"]
        assert app.client().lines() == ["error busy 1 connections are open and busy, so this one is refused"]


class Stopping:
    """A service that is stopping."""

    def __init__(self, app: MemoryApplication) -> None:
        self._reactor = app.reactor
        self._ended: list[object] = []
        app.service.stopService().addBoth(self._ended.append)

    def is_over_after(self, seconds: float) -> bool:
        """Whether it has stopped when so much more time has passed, in small steps."""
        for _ in range(round(seconds * 10)):
            self._reactor.advance(0.1)
        return self._ended == [None]


def test_running_jobs_finish_before_the_end() -> None:
    """Waiting requests are cancelled, new ones refused, pages stay; when the last job is done all is closed."""
    with application(QUEUES) as app:
        runs, waits, works, idles = app.client(), app.client(), app.backend(), app.backend()
        runs.say("put sleep 1")
        waits.say("put sleep 2")
        works.say("take sleep")
        stopping = Stopping(app)
        assert waits.lines()[0].startswith("ended 2 cancelled ")
        assert waits.say("put sleep 3")[0].startswith("error busy ")
        assert idles.say("take sleep") == ["ok empty"]
        assert b'hpa_queue_running{name="sleep"} 1\n' in app.get("/queues/metrics").body
        assert [app.get(path).status for path in ("/readyz", "/-/ready", "/livez", "/health")] == [503, 503, 200, 200]
        assert not stopping.is_over_after(5)
        works.say("done 1 0")
        assert runs.lines()[0].startswith("ended 1 success ")
        assert stopping.is_over_after(4)
        assert app.reactor.ports == []


def test_jobs_that_run_too_long_end_with_the_program() -> None:
    with application(QUEUES) as app:
        asks, works = app.client(), app.backend()
        asks.say("put sleep 1")
        works.say("take sleep")
        stopping = Stopping(app)
        assert not stopping.is_over_after(9.5)
        assert asks.lines() == []
        assert stopping.is_over_after(4)
        assert asks.lines()[0].startswith("ended 1 cancelled ")
        assert works.lines()[0] == "withdrawn 1 cancelled"


def test_end_without_jobs_is_not_delayed() -> None:
    with application(QUEUES) as app:
        app.client()
        app.backend().send(b"take sleep wait=1h\n")
        assert Stopping(app).is_over_after(3)


def test_statistics_in_the_log(said: list[str]) -> None:
    """A line for each queue and interval, with where the longest run was; each interval counts separately."""
    with application(QUEUES + "  log-interval: 10s\n") as app:
        asks, works = app.client(), app.backend()
        asks.say("put sleep 1", "put sleep 2", "put sleep {x}")
        works.say("hello node=gpu-1 pod=media-7", "take sleep")
        app.reactor.advance(3)
        works.say("done 1 0 run=2500ms", "take sleep")
        app.reactor.advance(7)
        assert [line for line in said if line.startswith("queue ")] == [
            "queue sleep: 1 waiting, 1 running; since the last line 3 put, 1 success; longest wait 3.000 s, "
            "run 2.500 s, total 2.500 s (longest run on node gpu-1, pod media-7)"
        ]
        app.reactor.advance(10)
        assert said[-1] == (
            "queue sleep: 1 waiting, 1 running; since the last line 0 put, none over; longest wait 0.000 s, "
            "run 0.000 s, total 0.000 s"
        )
        works.leave()


# -- fakedev-frontend ----------------------------------------------------------------------------------------


def settings_of(*arguments: str) -> tuple[Queues, ListenAddress]:
    options = FrontendOptions()
    return options.settings(options.flags.parse(arguments))


def queues_of(*arguments: str) -> Queues:
    return settings_of(*arguments)[0]


def test_defaults_of_the_original() -> None:
    queues, metrics = settings_of("sleep", "media$HOME")
    assert metrics.display == "localhost:9998"
    assert [entry.listen.display for entry in queues.clients + queues.backends] == ["localhost:9997", "localhost:9999"]
    assert [(queue.name, queue.max_waiting) for queue in queues.broker.queues] == [("sleep", 0), ("media$HOME", 0)]
    assert (queues.broker.maxima, queues.log_interval_seconds) == ("window", 0)


def test_a_queue_with_a_slash() -> None:
    """As the original accepts it; in paths of the API it is %2F."""
    text = QUEUES.replace("[sleep]", "[team/media]")
    with application(text) as app:
        asks, works = app.client(), app.backend()
        assert asks.say("put team/media 1") == ["ok 1"]
        assert b'hpa_queue_waiting{name="team/media"} 1\n' in app.get("/queues/metrics").body
        assert app.json("/api/v1/queues/team%2Fmedia")["waiting"] == 1
        assert app.json("/api/v1/queues/team%2Fmedia/history")["queue"] == "team/media"
        assert works.say("take team/media")[0].startswith("ok 1 ")
        works.leave()
    assert [queue.name for queue in queues_of("team/media").broker.queues] == ["team/media"]


def test_options_of_the_original() -> None:
    """With one dash or two; an address without a host is every address."""
    queues = queues_of("-caddr", ":97", "--waddr=0.0.0.0:99", "-interval", "30", "-qmax=7", "sleep")
    assert [entry.listen.display for entry in queues.clients + queues.backends] == ["*:97", "0.0.0.0:99"]
    assert queues.broker.queues[0].max_waiting == 7
    assert (queues.broker.maxima, queues.broker.interval_seconds, queues.log_interval_seconds) == ("interval", 30, 30)
    assert queues_of("-since-scrape", "sleep").broker.maxima == "since-scrape"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "give the names of the queues, at least one"),
        (["-qmax", "x", "sleep"], "-qmax: "),
        (["-nope", "sleep"], "there is no option -nope"),
        (["a", "a"], "the queue 'a' is there twice"),
        (["a=b"], "fakedev-frontend: 'a=b' is no queue name"),
        (["-caddr", "x", "sleep"], "-caddr: 'x' is no address"),
        (["-waddr", ":99999", "sleep"], "-waddr: 99999 is no port"),
        (["-maddr", "x", "sleep"], "-maddr: 'x' is no address"),
        (["-caddr", ":1", "-waddr", ":1", "sleep"], "-waddr: *:1 is listened on twice (first at -caddr)"),
        (["-qmax", "100000001", "sleep"], "-qmax: 100000001 is more than 100000000"),
        (["-interval", "10000000001", "sleep"], "-interval: 10000000001 is more than 10000000000"),
        (["-interval", "-1", "sleep"], "-interval: "),
    ],
)
def test_usage_of_the_frontend(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistake is reported in a line, and the exit code is 2; nothing listens."""
    try:
        code: object = frontend_main(arguments)
    except SystemExit as ended:
        code = ended.code
    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert said.err.startswith("fakedev-frontend: ")
    assert expected in said.err.splitlines()[0]


def test_the_frontend_serves_queues_and_metrics_alone(said: list[str]) -> None:
    """Three ports; /metrics is the page of the queues, and there is nothing else."""
    before = signal.getsignal(signal.SIGHUP)
    reactor = AppReactor()
    service = make_frontend(*settings_of("sleep"), reactor)
    service.privilegedStartService()
    service.startService()
    try:
        assert [port.getHost().port for port in reactor.ports] == [9998, 9997, 9999]
        app = MemoryApplication.__new__(MemoryApplication)
        app.reactor = reactor
        assert app.client().say("put sleep 1") == ["ok 1"]
        assert b'hpa_queue_waiting{name="sleep"} 1\n' in app.get("/metrics").body
        head = app.ask("HEAD", "/metrics")
        assert (head.status, head.headers["allow"]) == (405, "GET")
        others = ("/", "//metrics", "/queues/metrics", "/health", "/api/v1/queues")
        assert [app.get(path).status for path in others] == [404] * 5
        assert answers(app.http().send(b"GET /metrics HTTP/1.1\r\nX: %b\r\n" % (b"x" * 4097)))[0].status == 431
        assert "clients of the queues: localhost:9997 [open to this machine]" in said
        ended: list[object] = []
        service.stopService().addBoth(ended.append)
        reactor.pump([0.1] * 30)
        assert (ended, reactor.ports) == ([None], [])
    finally:
        signal.signal(signal.SIGHUP, before)
