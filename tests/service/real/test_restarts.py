"""A service with a state that is killed at random instants, and started again: nothing that was promised is lost."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted

from tests.support.programs.asynchronous import FLEET, AsyncService, assert_run_again, serve
from tests.support.programs.processes import StartAsync

pytestmark = pytest.mark.real

#: A snapshot is due after 2,000 ticks: every second or third of these services writes some.
FAST = FLEET.replace("seed: 7", "seed: 7\n  tick: 100ms\n  speed: 100") + "\nstate: state\n"
#: Ticks that are run again: their pages take space.
MOST_TICKS = 6000
_PROFILES = ("90:5:3", "20:10:0.5", "random(5,60,0.5):5:2")


async def energies(service: AsyncService) -> list[float]:
    """The energy of each device."""
    devices = (await service.get_json("/api/v1/devices"))["devices"]
    return [device["quantities"]["energy_joules"] for device in devices]


async def names(service: AsyncService) -> list[str]:
    """The names of the workloads."""
    return [each["name"] for each in (await service.get_json("/api/v1/workloads"))["workloads"]]


@pytest.mark.parametrize("kills", [pytest.param(2, marks=pytest.mark.slow), pytest.param(25, marks=pytest.mark.long)])
@pytest_twisted.ensureDeferred
async def test_killed_at_random(start_async: StartAsync, tmp_path: Path, kills: int) -> None:
    """Ticks and counters never fall; workloads that were accepted run, those that were stopped do not.

    The record is that of the whole run: run again, it has the last pages of the first services.
    """
    dice = random.Random(kills)
    promised: set[str] = set()
    tick, before = 0, [0.0]
    record, seen = tmp_path / "run.jsonl", dict[int, bytes]()
    for number in range(kills):
        (tmp_path / "ready.json").unlink(missing_ok=True)
        service = await serve(start_async, tmp_path, "--record", str(record), fleet=FAST)
        clock: dict[str, Any] = await service.get_json("/api/v1/clock")
        assert clock["tick"] >= tick
        now = await energies(service)
        assert all(new >= old for new, old in zip(now, before, strict=False))
        assert set(await names(service)) - {"connected"} == promised
        peer, leaver = await service.connect(), await service.connect()
        assert (await leaver.say("run connected devices=b/1 profile=30:0:0")).startswith("ok")
        for turn in range(dice.randrange(1, 12)):
            name = f"w{number}-{turn}"
            answer = await peer.say(f"run {name} devices=a/* profile={dice.choice(_PROFILES)} repeat=0 detach")
            assert answer.startswith("ok"), answer
            promised.add(name)
            if dice.random() < 0.4:
                gone = dice.choice(sorted(promised))
                assert (await peer.say(f"stop {gone}")).startswith("ok")
                promised.remove(gone)
        if dice.random() < 0.3:
            assert (await service.fetch("/api/v1/clock", {"advance": "4m"})).status == 200
        assert (await names(service)).count("connected") == 1  # that of the service before has ended
        before = await energies(service)
        tick = (await service.get_json("/api/v1/clock"))["tick"]
        page = await service.fetch("/metrics")
        seen[int(page.headers["x-fakedev-tick"])] = page.body
        await service.program.kill()
    assert len(list((tmp_path / "state").glob("snapshot-*"))) == 1
    first = {tick: page for tick, page in seen.items() if tick <= max(MOST_TICKS, min(seen))}
    await assert_run_again(start_async, record, first, tmp_path / "pages")
