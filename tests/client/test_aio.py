"""The client for asyncio: the same methods as the other, over its own sockets."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from fakedev.client import Clock, Fleet, NeverTrue, NoAnswer, RequestRefused, aio
from fakedev.client.http import Reply
from fakedev.testing.order import DEFAULT, Order
from fakedev.testing.served_fleet import ServedFleet, Starter
from tests.support.application import STANDING, application
from tests.support.wire.memory_requester import MemoryRequester

CLOCK = {"tick": 7, "seconds": 7.0, "tick-seconds": 1.0, "speed": 0, "due-seconds": 1.0}


def public_methods(of: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(method)
        for name, method in vars(of).items() if callable(method) and not name.startswith("_")
    }  # fmt: skip


def test_both_clients_have_the_same_methods() -> None:
    """With the same parameters and the same words; waits differ in their predicate."""
    ours, theirs = public_methods(aio.Fleet), public_methods(Fleet)
    assert len(ours) > 20
    assert ours.pop("wait_until") != theirs.pop("wait_until")
    assert ours == theirs
    assert all(inspect.iscoroutinefunction(getattr(aio.Fleet, name)) for name in ours)
    assert aio.Fleet.run.__doc__ == Fleet.run.__doc__
    assert str(inspect.signature(Fleet.explain)) == "(self, name: 'str', metric: 'str' = '') -> 'list[Description]'"


class AsyncMemoryRequester:
    """Sends the requests to an application in memory."""

    def __init__(self, requester: MemoryRequester) -> None:
        self._requester = requester

    async def ask(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str],
        still: Callable[[], Awaitable[object]] | None,
    ) -> Reply:
        await asyncio.sleep(0)
        return self._requester.ask(method, path, body, headers, None)


def test_work_and_waits() -> None:
    """Started, waited for with a function and with a coroutine function, refused."""

    async def use(fleet: aio.Fleet) -> None:
        started = await fleet.run("train", devices="a/0", profile="95:0:0", ttl="30s")
        assert (await fleet.workload("train"))["id"] == started["id"]

        async def is_over() -> bool:
            return not await fleet.workloads()

        assert await fleet.wait_until(is_over, advance="7s") is True
        assert (await fleet.clock()).tick == 35
        assert await fleet.wait_until(lambda: "at once") == "at once"
        with pytest.raises(NeverTrue, match=r"^the condition is still not true after 10s of simulated time: it gave 0"):
            await fleet.wait_until(lambda: 0, advance="4s", at_most=10)
        with pytest.raises(RequestRefused, match="no device '7'"):
            await fleet.fault("fan", devices="a/7")
        assert (await fleet.scrape("a")).value("DCGM_FI_DEV_GPU_UTIL", gpu=0) == 0

    with application(STANDING) as app:
        asyncio.run(use(aio.Fleet("http://localhost", requester=AsyncMemoryRequester(MemoryRequester(app)))))


def test_as_a_context() -> None:
    """Both clients are context managers, and can be used after the end, too."""

    async def use(fleet: aio.Fleet) -> None:
        async with fleet as entered:
            assert entered is fleet
            await entered.advance("5s")
        assert (await fleet.clock()).tick == 5
        with pytest.raises(RequestRefused):
            async with fleet:
                await fleet.stop("nothing")

    with application(STANDING) as app:
        requester = MemoryRequester(app)
        asyncio.run(use(aio.Fleet("http://localhost", requester=AsyncMemoryRequester(requester))))
        with Fleet("http://localhost", requester=requester) as fleet:
            assert fleet.clock().tick == 5


# -- sockets ---------------------------------------------------------------------------------------

#: Answers a connection, by its number from 0.
Answer = Callable[[int, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def content(body: object) -> bytes:
    text = json.dumps(body).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)


async def with_server(answer: Answer, use: Callable[[str], Awaitable[None]], path: str = "") -> None:
    """Use the address of a server; at the end there is no task but this one.

    :param path: of a UNIX socket; empty: TCP.
    """
    count = iter(range(1000))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer(next(count), reader, writer)
        writer.close()

    server = await (asyncio.start_unix_server(serve, path) if path else asyncio.start_server(serve, "127.0.0.1", 0))
    async with server:
        address = path or "http://127.0.0.1:{1}".format(*server.sockets[0].getsockname())
        await use(address)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=300)
        assert asyncio.all_tasks() == {asyncio.current_task()}


def test_unix_sockets_and_tokens(short_folder: Path) -> None:
    """By the path, with ``unix:`` before it; the token is a header."""
    path = f"{short_folder}/web.sock"
    heads = []

    async def answer(_: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(content(CLOCK))

    async def use(address: str) -> None:
        assert (await aio.Fleet(address).clock()).tick == 7
        assert await aio.Fleet(f"unix:{address}", "secret").clock() == Clock(7, 7.0, 1.0, 0, 1.0)

    asyncio.run(with_server(answer, use, path))
    assert heads[0].startswith(b"GET /api/v1/clock HTTP/1.1\r\nHost: localhost\r\n")
    assert b"\r\nAuthorization: Bearer secret\r\n" in heads[1]


@pytest.mark.slow
def test_a_long_advance_is_waited_for() -> None:
    """While the answer does not come, the client asks the clock whether the service lives."""
    asked = []

    async def answer(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split()[0])
        while number == 0 and len(asked) < 2:
            await asyncio.sleep(0.001)
        writer.write(content(CLOCK))

    async def use(address: str) -> None:
        assert (await aio.Fleet(address, timeout_seconds=2).advance("1h")).tick == 7

    asyncio.run(with_server(answer, use))
    assert asked == [b"POST", b"GET"]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"", "it closed the connection"),
        (content(CLOCK)[:-5], "it closed the connection"),
        (b"SSH-2.0-x\r\n", "it closed the connection"),
        (None, "no answer in time"),
    ],
)
def test_a_service_that_leaves_or_hangs(sent: bytes | None, reason: str) -> None:
    """Before its answer, in the middle of it, without one at all; the error names the request and the reason."""

    async def answer(_: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(sent or b"")
        if sent is None:
            await reader.read()  # until the client has left

    async def use(address: str) -> None:
        wanted = rf"^no answer to GET /api/v1/clock from 127.0.0.1:[0-9]+: {reason}: does fakedev still run there\?$"
        with pytest.raises(NoAnswer, match=wanted):
            await aio.Fleet(address, timeout_seconds=0.05 if sent is None else 30).clock()

    asyncio.run(with_server(answer, use))


def test_nobody_listens(short_folder: Path) -> None:
    with pytest.raises(NoAnswer, match=r"no answer to GET /api/v1/clock from .*: does fakedev still run there"):
        asyncio.run(aio.Fleet(f"{short_folder}/none.sock").clock())
    with pytest.raises(ValueError, match="is no address of fakedev"):
        aio.Fleet("ftp://a:1")


def test_a_cancelled_call_leaves_nothing() -> None:
    """Its connection closes at once, and the service sees that; no task and no descriptor stay."""
    is_asked, is_left = asyncio.Event(), asyncio.Event()

    async def answer(_: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b'{"advance": "1h"}')
        is_asked.set()
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        is_left.set()

    async def use(address: str) -> None:
        before = len(os.listdir("/proc/self/fd"))
        advance = asyncio.create_task(aio.Fleet(address).advance("1h"))
        async with asyncio.timeout(60):
            await is_asked.wait()
            advance.cancel()
            await is_left.wait()
            while len(os.listdir("/proc/self/fd")) > before:
                await asyncio.sleep(0.001)
        assert advance.cancelled()

    asyncio.run(with_server(answer, use))


@pytest.mark.real
@pytest.mark.slow
def test_a_real_service(tmp_path: Path) -> None:
    """Many calls at once in one thread; a cancelled advance stops the clock of the service."""
    starter = Starter()
    served = ServedFleet(Order(text=DEFAULT).with_file(tmp_path), tmp_path, 60.0, starter)

    def is_advancing() -> bool:
        with urlopen(f"{served.url}/api/v1/clock") as answer:
            return json.load(answer)["advance"] is not None

    async def use(fleet: aio.Fleet) -> None:
        threads = threading.active_count()
        names = [f"w{number}" for number in range(20)]
        started = await asyncio.gather(*(fleet.run(name, devices="dgx-0/0", profile="4:0:0") for name in names))
        assert {each["name"] for each in started} == set(names)
        assert (await fleet.advance("10m")).tick == 600
        assert (await fleet.scrape("dgx-0")).value("DCGM_FI_DEV_GPU_UTIL", gpu=0) == 80
        assert len(await fleet.devices()) == 8
        assert threading.active_count() == threads
        advance = asyncio.create_task(fleet.advance("1000h"))
        while (await fleet.clock()).tick == 600:
            pass
        advance.cancel()
        await asyncio.wait([advance])
        assert advance.cancelled()
        while await asyncio.to_thread(is_advancing):
            pass
        stopped = await fleet.clock()
        assert (await fleet.advance("1s")).tick == stopped.tick + 1

    try:
        asyncio.run(use(aio.Fleet(served.url)))
    finally:
        served.close()
        starter.close()
