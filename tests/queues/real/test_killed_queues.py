"""A service with durable queues, killed at random under load: what was promised is kept, and nothing runs twice."""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from itertools import count
from pathlib import Path

import pytest
import pytest_twisted

from tests.support.programs.asynchronous import (
    FLEET,
    AsyncService,
    StartAsync,
    at_once,
    connected,
    ready,
)
from tests.support.programs.processes import PATIENCE_SECONDS, console

pytestmark = pytest.mark.real

#: Puts that a client sends before it waits for their answers.
PUTS_AT_ONCE = 16
#: The queue with retries offers a job again after each crash.
RETRIES = {"once": 0, "again": 1000}


class Load:
    """Clients and backends of the queues, and what they were told.

    A request is known by its argument, as its job id means nothing to a client that did not get it.

    :ivar promised: the requests that were answered with ``ok``, by queue.
    :ivar runs: how often a backend got which request.
    :ivar finished: the requests whose ``done`` was answered with ``ok``.
    :ivar again_after_end: requests that a backend got after they were finished.
    :ivar is_ending: whether backends end when their queue is empty.
    """

    def __init__(self) -> None:
        self.promised: dict[str, set[str]] = {queue: set() for queue in RETRIES}
        self.runs: Counter[str] = Counter()
        self.finished: set[str] = set()
        self.again_after_end: list[str] = []
        self.is_ending = False
        self._names = count()
        self._until_kill = 0
        self._service: AsyncService | None = None

    async def until_killed(self, service: AsyncService, folder: Path, answers: int) -> None:
        """Put, take and finish; kill the service after so many answers."""
        self._service, self._until_kill = service, answers
        parts = [self._client(queue, folder) for queue in RETRIES for _ in range(2)]
        await at_once([*parts, *self._backends(folder)], seconds=PATIENCE_SECONDS)
        await service.program.wait()

    async def until_empty(self, folder: Path) -> None:
        self.is_ending = True
        self._service = None
        await at_once(list(self._backends(folder)), seconds=2 * PATIENCE_SECONDS)

    def _backends(self, folder: Path):  # type: ignore[no-untyped-def]  # coroutines of two methods
        return (self._backend(queue, folder) for queue in RETRIES for _ in range(2))

    def _answered(self) -> None:
        self._until_kill -= 1
        if self._service is not None and not self._until_kill:
            self._service.program.send_signal(signal.SIGKILL)

    async def _client(self, queue: str, folder: Path) -> None:
        async with await connected(str(folder / "clients.sock")) as peer:
            while True:
                names = [f"{queue}-{next(self._names)}" for _ in range(PUTS_AT_ONCE)]
                peer.transport.write("".join(f"put {queue} {name}\n" for name in names).encode())
                for name in names:
                    while (answer := await peer.line()).startswith("ended "):
                        pass
                    if not answer:
                        return
                    assert answer.startswith("ok "), answer
                    self.promised[queue].add(name)
                    self._answered()

    async def _backend(self, queue: str, folder: Path) -> None:
        async with await connected(str(folder / "backends.sock")) as peer:
            while answer := await peer.say(f"take {queue}" + ("" if self.is_ending else " wait=1m")):
                if answer == "ok empty":
                    return
                job, name = answer.split()[1], answer.split()[-1]
                self.runs[name] += 1
                if name in self.finished:
                    self.again_after_end.append(name)
                self._answered()
                if await peer.say(f"done {job} 0") == "ok success":
                    self.finished.add(name)
                    self._answered()


async def serve(start_async: StartAsync, folder: Path) -> AsyncService:
    """A service with both queues, whose folders and sockets are those of the one before."""
    names = {queue: {"retries": retries, "durable": f"log-{queue}"} for queue, retries in RETRIES.items()}
    config, file = folder / "fakedev.yaml", folder / "ready.json"
    file.unlink(missing_ok=True)
    config.write_text(
        f'{FLEET}\nweb: ["127.0.0.1:0"]\nworkloads: {{listen: ["{folder}/workloads.sock"]}}\n'
        f'queues: {{names: {json.dumps(names)}, listen-clients: ["{folder}/clients.sock"], '
        f'listen-backends: ["{folder}/backends.sock"]}}\n'
    )
    program = start_async([*console("fakedev"), "serve", "--config", str(config), "--ready-file", str(file)])
    return await ready(program, file)


@pytest.mark.parametrize("kills", [pytest.param(4, marks=pytest.mark.slow), pytest.param(40, marks=pytest.mark.long)])
@pytest_twisted.ensureDeferred
async def test_service_killed_at_random(start_async: StartAsync, tmp_path: Path, kills: int) -> None:
    """Nothing promised is lost; a queue without retries gives no request out twice; what was finished stays so.

    The sockets that each killed service leaves behind are taken over by the next one.
    """
    dice, load = random.Random(25), Load()
    lost = Counter[str]()
    for _ in range(kills):
        service = await serve(start_async, tmp_path)
        for queue in RETRIES:
            lost[queue] += (await service.get_json(f"/api/v1/queues/{queue}"))["lost"]
        await load.until_killed(service, tmp_path, dice.randint(1, 400))
    service = await serve(start_async, tmp_path)
    for queue in RETRIES:
        lost[queue] += (await service.get_json(f"/api/v1/queues/{queue}"))["lost"]
    await load.until_empty(tmp_path)
    assert await service.program.stop() == 0

    assert load.again_after_end == []
    assert load.promised["again"] <= set(load.runs)
    # Recorded as finished, while the crash came before the backend heard of it.
    assert len(load.promised["again"] - load.finished) <= 2 * kills
    assert lost["again"] == 0
    assert max(load.runs[name] for name in load.promised["once"]) == 1
    # Recorded as taken, while the crash came before the backend got it.
    never_run = [name for name in load.promised["once"] if not load.runs[name]]
    assert len(never_run) <= lost["once"] <= 2 * kills
    assert load.promised["once"] and load.promised["again"]
