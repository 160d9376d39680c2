"""fakedev-workload as a program: its exit codes, signals, servers that hang, its size."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import DeferredQueue, maybeDeferred
from twisted.internet.interfaces import IAddress, IListeningPort
from twisted.internet.protocol import Factory

from tests.support.deferreds import within
from tests.support.paths import ROOT
from tests.support.programs.asynchronous import AsyncPeer
from tests.support.programs.processes import AsyncProgram, StartAsync

OK = b'{"id":1,"ok":true,"workload":"w1"}\n'
ENDED = b'{"event":"ended","workload":"w1","code":1,"text":"Limit <memory> reached, terminated"}\n'
#: Nothing of our environment that it looks at.
ENVIRONMENT = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
PROGRAM = [sys.executable, "-m", "fakedev.commands.workload.main"]


class Server(Factory):  # type: ignore[misc]
    """A listening UNIX socket; until ``accept`` is called it is one of a server that hangs."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.setblocking(False)
        self._socket.bind(path)
        self._socket.listen(1)
        self._peers: DeferredQueue[AsyncPeer] = DeferredQueue()
        self._port: IListeningPort | None = None

    def buildProtocol(self, addr: IAddress) -> AsyncPeer:
        peer = AsyncPeer()
        self._peers.put(peer)
        return peer

    async def accept(self) -> AsyncPeer:
        if self._port is None:
            self._port = reactor.adoptStreamPort(self._socket.fileno(), socket.AF_UNIX, self)
        return await within(self._peers.get())

    async def close(self) -> None:
        if self._port is not None:
            await maybeDeferred(self._port.stopListening)
        self._socket.close()

    @contextlib.contextmanager
    def full_queue(self) -> Iterator[None]:
        """While entered, connections wait until the socket takes no more."""
        with contextlib.ExitStack() as crowd:
            try:
                while True:
                    one = crowd.enter_context(socket.socket(socket.AF_UNIX))
                    one.setblocking(False)
                    one.connect(self.path)
            except BlockingIOError:
                yield


@pytest_twisted.async_yield_fixture
async def server(short_folder: Path) -> AsyncIterator[Server]:
    listening = Server(str(short_folder / "s"))
    yield listening
    await listening.close()


Start = Callable[..., AsyncProgram]


@pytest.fixture
def start(start_async: StartAsync, server: Server) -> Start:
    """Starts the program with further arguments; its devices are card0 and card1."""

    def program(*arguments: str) -> AsyncProgram:
        command = [*PROGRAM, "-socket", server.path, "-devnames", "card0,card1", *arguments]
        return start_async(command, environment=ENVIRONMENT)

    return program


@pytest.mark.parametrize(
    ("answer", "code", "line"),
    [
        (OK + ENDED, 1, "Exiting with code 1: Limit <memory> reached, terminated"),
        (b"0", 0, "Exiting with code 0, all that an original server says; it ignores limits"),
        (b"1", 1, "Exiting with code 1, all that an original server says: its log has the reason"),
        (b"", 1, "Exiting with code 1: the server closed the connection before it had answered"),
    ],
)
@pytest_twisted.ensureDeferred
async def test_exit_code_of_the_answer(server: Server, start: Start, answer: bytes, code: int, line: str) -> None:
    """With a fakedev and with an original server: exit code and last log line."""
    program = start("-limit", "memory=1GiB")
    peer = await server.accept()
    request = json.loads(await peer.some())
    peer.transport.write(answer)
    peer.transport.loseConnection()
    assert (request["op"], request["devices"]) == ("run", ["card0", "card1"])
    await program.wait_for_text(line)
    assert await program.wait() == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest_twisted.ensureDeferred
async def test_a_signal_ends_it_and_its_load(server: Server, start: Start, number: signal.Signals) -> None:
    """The connection is closed, which ends the workload, and the exit code is 0."""
    program = start()
    async with await server.accept() as peer:
        await peer.some()
        await peer.send(OK)
        await program.wait_for_text("Accepted as w1")
        program.send_signal(number)
        assert await peer.rest() == b""
    await program.wait_for_text(f"Stopped by {number.name}")
    assert await program.wait() == 0


@pytest_twisted.ensureDeferred
async def test_a_server_that_hangs(start: Start) -> None:
    """Its connection is not accepted, as when the server is stopped: a signal ends the program all the same."""
    program = start()
    await program.wait_for_text("Sent, waiting")
    assert await program.stop() == 0


@pytest_twisted.ensureDeferred
async def test_a_full_queue(server: Server, start: Start) -> None:
    """A program that cannot connect yet, because many others wait for a server that hangs, can be stopped."""
    with server.full_queue():
        program = start()
        await program.wait_for_text("Connecting to")
        assert await program.stop() == 0


@pytest_twisted.ensureDeferred
async def test_a_full_queue_that_gets_shorter(server: Server, start: Start) -> None:
    """Once the server accepts connections again, the program that waited is served."""
    with server.full_queue():
        program = start()
        await program.wait_for_text("Connecting to")
    request = b""
    while not request:  # the others close their connections without a request
        peer = await server.accept()
        request = await peer.some()
    await peer.send(b"0")
    assert await program.wait() == 0


@pytest_twisted.ensureDeferred
async def test_it_is_small(start: Start) -> None:
    """At most 20 MB resident at its peak while it waits."""
    program = start()
    await program.wait_for_text("Sent, waiting")
    status = Path(f"/proc/{program.pid}/status")
    if not status.exists():
        pytest.skip("this system has no /proc to read the memory from")
    peak = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
    assert peak is not None
    assert int(peak[1]) * 1024 < 20_000_000


@pytest_twisted.ensureDeferred
async def test_it_imports_no_large_package(start_async: StartAsync) -> None:
    """Neither Twisted nor NumPy, nor anything else that is not of Python itself or ours."""
    code = (
        "import sys; b = set(sys.modules); import fakedev.commands.workload.main; "
        "print(*{m.split('.')[0] for m in sys.modules if m not in b})"
    )
    listing = start_async([sys.executable, "-c", code], environment=ENVIRONMENT)
    assert await listing.wait() == 0, listing.stderr
    assert set(listing.stdout.split()) - sys.stdlib_module_names == {"fakedev"}


@pytest.mark.parametrize("how", ["-help >&-", "-help | true", "-help >/dev/full", "-x 2>&-", "-x 2>&1 | true"])
@pytest_twisted.ensureDeferred
async def test_output_that_is_not_read(start_async: StartAsync, how: str) -> None:
    """A closed or full stream changes neither the exit code nor, by a traceback, the other stream."""
    command = f"{' '.join(PROGRAM)} {how}; exit ${{PIPESTATUS[0]}}"
    program = start_async(["bash", "-c", command], environment=ENVIRONMENT)
    assert await program.wait() == (2 if how.startswith("-x") else 0)
    assert (program.stdout, program.stderr) == ("", "")
