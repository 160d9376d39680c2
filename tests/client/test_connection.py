"""The sockets of a client: real ones, of a server that answers as the test says."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
import pytest_twisted
from twisted.internet.threads import deferToThread

from fakedev.client import Fleet, NoAnswer
from tests.support.programs.asynchronous import serve
from tests.support.programs.processes import StartAsync

CLOCK = {"tick": 7, "seconds": 7.0, "tick-seconds": 1.0, "speed": 0, "due-seconds": 1.0}


def answer(body: object) -> bytes:
    content = json.dumps(body).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content)


class Server:
    """Answers the connections that come, in their order. ``None`` is answered as soon as the last connection is there.

    :ivar heard: what the connections sent.
    """

    def __init__(self, listening: socket.socket, answers: list[bytes | None]) -> None:
        self._listening = listening
        self._answers = answers
        self.heard: list[bytes] = []
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        silent: list[socket.socket] = []
        for content in self._answers:
            connection, _ = self._listening.accept()
            self.heard.append(connection.recv(65536))
            if content is None:
                silent.append(connection)
                continue
            if len(self.heard) == len(self._answers):
                for waiting in silent:
                    _end(waiting, answer(CLOCK))
            _end(connection, content)

    def join(self) -> None:
        """Wait until all connections were answered."""
        self._thread.join(60)


def _end(connection: socket.socket, content: bytes) -> None:
    connection.sendall(content)
    connection.close()


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def url_of(listening: socket.socket) -> str:
    return f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_unix_sockets(short_folder: Path) -> None:
    """By their path, also with ``unix:`` before it."""
    path = f"{short_folder}/web.sock"
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(path)
        unix.listen()
        server = Server(unix, [answer(CLOCK), answer(CLOCK)])
        assert Fleet(path).clock().tick == Fleet(f"unix:{path}", "secret").clock().tick == 7
        server.join()
    assert server.heard[0].startswith(b"GET /api/v1/clock HTTP/1.1\r\nHost: localhost\r\n")
    assert b"\r\nAuthorization: Bearer secret\r\n" in server.heard[1]


def test_a_long_advance_is_waited_for(listening: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the answer does not come, the client asks the clock whether the service lives."""
    server = Server(listening, [None, answer(CLOCK), answer(CLOCK)])

    def without_waiting(sockets: list[socket.socket], *_: object) -> tuple[list[socket.socket]]:
        return (sockets if len(server.heard) == 3 else [],)

    monkeypatch.setattr("select.select", without_waiting)
    assert Fleet(url_of(listening)).advance("1h").tick == 7
    server.join()
    assert [each.split()[0] for each in server.heard] == [b"POST", b"GET", b"GET"]


def test_a_service_that_hangs_is_found(listening: socket.socket) -> None:
    """Also during an advance: the clock does not answer either."""
    with pytest.raises(NoAnswer, match=r"no answer to GET /api/v1/clock from 127.0.0.1:[0-9]+: no answer in time"):
        Fleet(url_of(listening), timeout_seconds=0.01).advance("1h")


def test_a_service_that_leaves(listening: socket.socket) -> None:
    """Before its answer, in the middle of it; or there is none."""
    url = url_of(listening)
    server = Server(listening, [b"", answer(CLOCK)[:-5]])
    for _ in range(2):
        with pytest.raises(NoAnswer, match="does fakedev still run there"):
            Fleet(url).clock()
    server.join()
    listening.close()
    with pytest.raises(NoAnswer, match="no program listens there"):
        Fleet(url).clock()


@pytest.mark.parametrize(
    "url", ["", "http://", "localhost:x", "http://::1:80", "a:99999", "https://a:1/x", "http://a:1/x", "ftp:///run/x"]
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(ValueError, match=r"is no (socket|address of fakedev)"):
        Fleet(url)


@pytest.mark.real
@pytest.mark.slow
@pytest_twisted.ensureDeferred
async def test_a_real_service(start_async: StartAsync, short_folder: Path) -> None:
    service = await serve(start_async, short_folder, "--set", "fleet.speed=0")

    def use() -> None:
        by_tcp, by_unix = Fleet(f"http://{service.web[0]}"), Fleet(service.web[1])
        by_tcp.run("train", devices="a/0", profile="95:0:0")
        by_unix.fault("xid", devices="a/1", code=79)
        assert by_tcp.advance("10m").tick == by_unix.clock().tick == 600
        assert by_unix.scrape("a").value("DCGM_FI_DEV_GPU_UTIL", gpu=0) == 95
        assert [each["kind"] for each in by_tcp.journal(kind="xid")] == ["xid"]

    await deferToThread(use)
