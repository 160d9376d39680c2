"""A run with real sockets, recorded, and run again without any: the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_twisted

from fakedev.fleet.events import DropWorkloads
from fakedev.fleet.record import read_record
from tests.support.programs.asynchronous import FLEET, AsyncService, assert_run_again, at_once, eventually, serve
from tests.support.programs.processes import StartAsync

pytestmark = pytest.mark.real

FAST = FLEET.replace("seed: 7", "seed: 7\n  tick: 100ms\n  speed: 2")


async def watched(service: AsyncService, seen: dict[int, bytes], until: int, more: int = 3) -> None:
    """Fetch pages until a tick is reached, and of some ticks more; pages of one tick must be one."""
    tick, enough = -1, len(seen) + more
    while tick < until or len(seen) < enough:
        for page in await at_once([service.fetch("/metrics"), service.fetch("/metrics", place=1)]):
            tick = int(page.headers["x-fakedev-tick"])
            assert seen.setdefault(tick, page.body) == page.body


@pytest.mark.parametrize("device", ["h100 dcgm", "flex-170 collectd"])
@pytest_twisted.ensureDeferred
async def test_a_session_with_real_sockets(start_async: StartAsync, tmp_path: Path, device: str) -> None:
    """Words, JSON, bare, API, advances, drops: every page that was fetched comes out of the record again."""
    record, pages = tmp_path / "run.jsonl", tmp_path / "pages"
    name, identity = device.split()
    fleet = FAST.replace("h100", name).replace("dcgm", identity)
    base = ", base: [{name: background, devices: 'a/*', profile: '20:15:0.7,40:5:1.1'}]"
    service = await serve(start_async, tmp_path, "--record", str(record), fleet=fleet, base=base)
    seen: dict[int, bytes] = {}
    await watched(service, seen, 3)
    words, json_peer, bare, over_tcp = [await service.connect(place) for place in (0, 0, 0, 1)]
    await words.say("run x devices=a/0 profile=60:30:0.3,20:10:0.5 repeat=0 pod=my-pod")
    await json_peer.send(b'{"op":"run","id":1,"name":"y","devices":["b/*"],"profile":[[50,40,0]],"ttl":1}\n')
    await bare.send(
        b'{"Name":"z","Profile":[{"Load":30,"Fluctuation":30,', b'"Seconds":0.6}],"Devices":["b/1"],"Repeat":2}'
    )
    await over_tcp.say("run v devices=b/0 profile=35:20 detach")
    await watched(service, seen, 12)
    await json_peer.send(b'{"op":"advance","duration":"1m","id":2}\n')
    await watched(service, seen, 615)
    assert await bare.rest() == b"0"
    await words.leave()
    await over_tcp.leave()
    posted = await service.fetch("/api/v1/workloads", {"name": "api", "devices": ["a/*"], "profile": "30:20"})
    assert posted.status == 201

    async def there_are_three() -> bool:
        return len((await service.get_json("/api/v1/workloads"))["workloads"]) == 3

    await eventually(there_are_three, "x is gone")
    tick = (await service.get_json("/api/v1/clock"))["tick"]
    await watched(service, seen, tick + 5)
    assert (await service.fetch("/api/v1/clock", {"advance": "30s"})).status == 200
    await service.fetch("/api/v1/workloads/v", method="DELETE")
    await watched(service, seen, tick + 310)
    last = await service.connect()
    await last.say("run last devices=a/1 profile=90:10")
    await watched(service, seen, tick + 315)
    assert await service.program.stop() == 0
    _, events = read_record(record.read_bytes())
    assert isinstance(events[-1].event, DropWorkloads)
    (tmp_path / "fakedev.yaml").unlink()
    assert len(set(seen.values())) > 15
    await assert_run_again(start_async, record, seen, pages)
