"""Requests to a running fakedev from an event loop of asyncio, over TCP or a UNIX socket."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from fakedev.client.connection import Exchange, Reply, http_address, no_answer
from fakedev.client.tls import client_context
from fakedev.config.peer_address import with_tls
from fakedev.spec.client_tls import NO_FILES, ClientTls

_AT_ONCE: Final = 1 << 16


class AsyncRequester(Protocol):
    """Sends requests; the client of a real service has an :class:`AsyncServiceAddress`."""

    async def ask(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str],
        still: Callable[[], Awaitable[object]] | None,
    ) -> Reply:
        """The answer to a request.

        :param still: awaited whenever the service has been silent for the timeout; it raises if the service is dead.
            None: the service must answer within the timeout.
        :raises NoAnswer: when there is none.
        """  # fmt: skip
        ...


class AsyncServiceAddress:
    """An HTTP address of fakedev; each request has a connection of its own, so tasks may share it.

    A request that is cancelled closes its connection at once.

    :param url: see :class:`fakedev.client.connection.ServiceAddress`, also for the others.
    :raises ValueError: for a text that is no address.
    """

    def __init__(self, url: str, timeout_seconds: float, tls: ClientTls = NO_FILES) -> None:
        self._address = with_tls(http_address(url), tls)
        self._timeout_seconds = timeout_seconds

    async def ask(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str],
        still: Callable[[], Awaitable[object]] | None,
    ) -> Reply:
        """See :class:`AsyncRequester`."""  # fmt: skip
        exchange = Exchange(self._address, method, path, body, headers)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                reader, writer = await self._connect()
            try:
                writer.write(exchange.sent)
                async with asyncio.timeout(self._timeout_seconds):
                    await writer.drain()
                return exchange.reply(await self._read(reader, still))
            finally:
                writer.transport.abort()
        except (OSError, http.client.HTTPException) as error:
            raise no_answer(method, path, self._address, error) from None

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        address = self._address
        if not address.path:
            context = None if address.tls is None else client_context(address.tls)
            return await asyncio.open_connection(address.host, address.port, ssl=context)
        path = "\0" + address.path[1:] if address.path.startswith("@") else address.path
        return await asyncio.open_unix_connection(path)

    async def _read(self, reader: asyncio.StreamReader, still: Callable[[], Awaitable[object]] | None) -> bytes:
        """All that comes until the service closes the connection.

        :raises TimeoutError: when it is silent for too long.
        """
        parts: list[bytes] = []
        while True:
            try:
                async with asyncio.timeout(self._timeout_seconds):
                    part = await reader.read(_AT_ONCE)
            except TimeoutError:
                if still is None or parts:
                    raise
                await still()
                continue
            if not part:
                return b"".join(parts)
            parts.append(part)
