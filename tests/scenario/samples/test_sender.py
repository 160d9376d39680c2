"""Remote write to a server that takes, refuses, delays and breaks off."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

from fakedev.scenario.samples.sender import (
    HistorySender,
    RemoteWriteError,
    RemoteWriter,
    SendProgress,
    without_credentials,
)
from fakedev.scenario.samples.series import Stored, TargetSamples

#: What the server does with a request: an answer with a code, a text and headers, or a connection that it closes.
Plan = tuple[int, str, dict[str, str]]
OK: Plan = (204, "", {})
BROKEN: Plan = (0, "", {})


class Receiver(Resource):  # type: ignore[misc]
    """A server that does what is planned, then takes everything."""

    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self.plans: list[Plan] = []
        self.bodies: list[bytes] = []
        self.headers: dict[str, str] = {}
        self.on_request: Callable[[], None] = lambda: None

    def render_POST(self, request: Any) -> Any:
        """Note the message, and do what is planned (called by Twisted)."""
        self.bodies.append(request.content.read())
        self.headers = {name.decode(): value[0].decode() for name, value in request.requestHeaders.getAllRawHeaders()}
        self.on_request()
        code, text, headers = self.plans.pop(0) if self.plans else OK
        if not code:
            request.transport.abortConnection()
            return NOT_DONE_YET
        request.setResponseCode(code)
        for name, value in headers.items():
            request.setHeader(name, value)
        return text.encode()


class Waits(Clock):
    """Twisted's reactor whose waits of the writer are over at once; they are noted."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def noted(self, problem: str, seconds: float) -> None:
        self.waits.append(seconds)
        real: Any = reactor
        real.callLater(0, self.advance, seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(reactor, name)


class Server:
    """A server, and a writer to it."""

    def __init__(self) -> None:
        self.receiver = Receiver()
        site = Site(self.receiver)
        site.noisy = False
        real: Any = reactor
        self.port = real.listenTCP(0, site, interface="127.0.0.1")
        self.url = f"http://127.0.0.1:{self.port.getHost().port}/api/v1/write"
        self.clock = Waits()
        self.writer = self.make_writer(self.url)

    def make_writer(self, url: str, **more: Any) -> RemoteWriter:
        return RemoteWriter(url, self.clock, random=lambda: 1.0, on_wait=self.clock.noted, **more)

    async def close(self) -> None:
        await self.writer.close()
        await self.port.stopListening()


@pytest_twisted.async_yield_fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    yield made
    await made.close()


@pytest_twisted.ensureDeferred
async def test_a_message(server: Server) -> None:
    await server.writer.send(b"message")
    assert server.receiver.bodies == [b"message"]
    expected = {
        "Content-Encoding": "snappy",
        "Content-Type": "application/x-protobuf",
        "X-Prometheus-Remote-Write-Version": "0.1.0",
        "Content-Length": "7",
    }
    assert server.receiver.headers.items() >= expected.items()
    assert "Authorization" not in server.receiver.headers


@pytest_twisted.ensureDeferred
async def test_again(server: Server) -> None:
    """5xx, connections that break off, and 429 are tried again, later and later or when the server says."""
    server.receiver.plans = [
        (500, "a", {}), (503, "b", {}), BROKEN, (429, "c", {"Retry-After": "7"}), (429, "d", {"Retry-After": "99999"}),
        (502, "e", {"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}),
    ]  # fmt: skip
    await server.make_writer(server.url, give_up_seconds=1000).send(b"message")
    assert server.receiver.bodies == [b"message"] * 7
    assert server.clock.waits == [0.2, 0.4, 0.8, 7, 300, 1.6]


@pytest.mark.parametrize("code", [400, 401, 404, 413, 301])
@pytest_twisted.ensureDeferred
async def test_refused(server: Server, code: int) -> None:
    """The server's words; nothing is tried again."""
    server.receiver.plans = [(code, "out of order sample\nfor x", {})]
    with pytest.raises(RemoteWriteError, match=rf"answers {code}: out of order sample\\nfor x$"):
        await server.writer.send(b"message")
    assert len(server.receiver.bodies) == 1


@pytest.mark.parametrize("first", [BROKEN, (500, "x", {})])
@pytest_twisted.ensureDeferred
async def test_stored_although_the_answer_was_lost(server: Server, first: Plan) -> None:
    """It is out of order then; other words, and those after 429, are those of a server that refuses."""
    server.receiver.plans = [first, (400, "out of order sample", {})]
    await server.writer.send(b"message")
    server.receiver.plans = [first, (400, "invalid labels", {})]
    with pytest.raises(RemoteWriteError, match="invalid labels"):
        await server.writer.send(b"message")
    server.receiver.plans = [(429, "x", {}), (400, "out of order sample", {})]
    with pytest.raises(RemoteWriteError, match="out of order"):
        await server.writer.send(b"message")
    server.receiver.plans = [(400, "duplicate sample for timestamp", {})]
    await server.writer.send(b"message", may_be_stored=True)


@pytest_twisted.ensureDeferred
async def test_given_up(server: Server) -> None:
    """After some minutes, with the last reason; a server that is away is the same."""
    server.receiver.plans = [(503, "busy", {})] * 100
    with pytest.raises(RemoteWriteError, match=r"no samples were taken for 10m: .* answers 503: busy"):
        await server.writer.send(b"message")
    assert 570 <= sum(server.clock.waits) <= 600
    writer = server.make_writer("http://127.0.0.1:1/")
    with pytest.raises(RemoteWriteError, match=r"no samples were taken for 10m: cannot connect to http://127\.0\.0\.1:1/"):
        await writer.send(b"message")


@pytest_twisted.ensureDeferred
async def test_authorization(server: Server) -> None:
    """Of the URL, or a token; errors have the URL without it."""
    writer = server.make_writer(server.url.replace("//", "//me:se%20cret@"))
    assert writer.url == server.url
    await writer.send(b"m")
    assert server.receiver.headers["Authorization"] == "Basic bWU6c2UgY3JldA=="
    await writer.close()
    writer = server.make_writer(server.url, token="abc")
    await writer.send(b"m")
    assert server.receiver.headers["Authorization"] == "Bearer abc"
    await writer.close()


@pytest.mark.parametrize("url", ["", "x", "ftp://a/", "http://", "http://a:b:c/", "http://a /", "http://[::1/", "http://a:99999/"])
def test_urls(url: str) -> None:
    with pytest.raises(RemoteWriteError, match="is no URL such as"):
        without_credentials(url)


def instants(count: int) -> list[Stored]:
    """A target whose messages of ten minutes differ."""
    target = TargetSamples({})
    return [Stored(600_000 * each, [target.scrape(b"a %d\n" % each)], {}) for each in range(count)]


def sender(server: Server, history: list[Stored], progress: SendProgress) -> tuple[HistorySender, Deferred[None]]:
    """A sender that is started, and what fires at its end."""
    over: Deferred[None] = Deferred()
    made = HistorySender(history, server.writer, bytes, progress, reactor, lambda: over.callback(None))
    made.startService()
    return made, over


def progress_of(server: Server, path: Path) -> SendProgress:
    """The progress of a history that begins at 5."""
    return SendProgress(str(path), "h", server.url, 5.0).of_file()


@pytest_twisted.ensureDeferred
async def test_a_history(server: Server, tmp_path: Path) -> None:
    """All messages in order, and no progress is left."""
    made, over = sender(server, instants(4), progress_of(server, tmp_path / "p"))
    await over
    assert (made.problem, made.samples, len(server.receiver.bodies)) == ("", 24, 4)
    assert not (tmp_path / "p").exists()


@pytest_twisted.ensureDeferred
async def test_it_goes_on(server: Server, tmp_path: Path) -> None:
    """After an error a second run sends the rest, with the first one's beginning, also when the last one was stored."""
    path = tmp_path / "p"
    server.receiver.plans = [OK, OK, (400, "no", {})]
    made, over = sender(server, instants(5), progress_of(server, path))
    await over
    assert made.problem.endswith("answers 400: no") and made.samples == 12
    kept = SendProgress(str(path), "h", server.url, 99.0).of_file()
    assert (kept.begin_seconds, kept.sent_milliseconds) == (5.0, 600_000)
    first, server.receiver.bodies = server.receiver.bodies, []
    server.receiver.plans = [(400, "out of order sample", {})]
    made, over = sender(server, instants(5), kept)
    await over
    assert made.problem == "" and server.receiver.bodies[0] == first[2] and len(server.receiver.bodies) == 3


@pytest_twisted.ensureDeferred
async def test_stopped(server: Server, tmp_path: Path) -> None:
    """A stop in the middle of a message leaves the progress of those before."""
    path = tmp_path / "p"
    stopped: Deferred[None] = Deferred()
    made, _ = sender(server, instants(5), progress_of(server, path))

    def stop() -> None:
        if len(server.receiver.bodies) == 3:
            made.stop_all().chainDeferred(stopped)

    server.receiver.on_request = stop
    await stopped
    assert made.problem == "it was stopped"
    assert progress_of(server, path).sent_milliseconds == 600_000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x", "has no progress of a history"),
        ("{}", "has no progress of a history"),
        ('{"history": "g", "url": "u", "begin_seconds": 1, "sent_milliseconds": 1}', "the progress of another history"),
        ('{"history": "h", "url": "v", "begin_seconds": 1, "sent_milliseconds": 1}', "is the progress of v, not of u"),
    ],
)
def test_progress_files(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        SendProgress(str(path), "h", "u", 5.0).of_file()


def test_no_progress_file(tmp_path: Path) -> None:
    """Without one nothing is kept; a folder is none."""
    progress = SendProgress("", "h", "u", 5.0)
    progress.save()
    progress.remove()
    assert progress.of_file() is progress
    with pytest.raises(ValueError, match="a folder"):
        SendProgress(str(tmp_path), "h", "u", 5.0).of_file()
