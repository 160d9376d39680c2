"""A history in a real Prometheus: as blocks made by the real promtool, and as what is sent to it."""

from __future__ import annotations

import json
import subprocess
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import pytest
import pytest_twisted
from twisted.internet import reactor

from fakedev.commands.main import main
from fakedev.scenario.samples.history import HistoryFiles
from fakedev.scenario.samples.openmetrics import window_of
from fakedev.scenario.samples.remote_write import Messages, snappy
from fakedev.scenario.samples.sender import RemoteWriteError, RemoteWriter
from tests.exporters.real.test_prometheus import prometheus
from tests.support.identities import TITLES
from tests.support.programs.asynchronous import eventually, fetch
from tests.support.programs.processes import StartAsync, console, run
from tests.support.scrape_histories import BEGIN_SECONDS, history

LOST: dict[str, object] = {"kind": "lost", "devices": ["dgx-0/1"], "duration": "10m"}
#: The history may be years old when this runs.
KEEP = "--storage.tsdb.retention.time=100y"
SCENARIO = """
scenario: {for: 12h, scrape: 15s}
config: {fleet: {tick: 5s, pools: [{name: a, nodes: [n], device: h100, devices-per-node: 1, identity: dcgm}]}}
timeline: []
"""
_TEMPERATURE = 'DCGM_FI_DEV_GPU_TEMP{instance="dgx-0:9400",gpu="1"}'


async def seen(server: str, expression: str) -> list[int]:
    """At which seconds of the history a server shows an expression, every 15 s for half an hour."""
    begin, end = BEGIN_SECONDS, BEGIN_SECONDS + 1800
    path = f"/api/v1/query_range?query={quote(expression)}&start={begin}&end={end}&step=15"
    (found,) = json.loads((await fetch(server, path)).body)["data"]["result"]
    return [int(at) - begin for at, _ in found["values"]]


def gap(times: list[int]) -> tuple[int, int]:
    """The first time that is missing, and the first that is there again."""
    (found,) = [(one + 15, other) for one, other in pairwise(times) if other > one + 15]
    return found


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.requires_program("promtool")
@pytest_twisted.ensureDeferred
async def test_blocks(start_async: StartAsync, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Blocks have what the pages had; a board that is lost is seen for five minutes more."""
    with HistoryFiles(tmp_path / "history") as files:
        for stored in history(1800, (600, LOST)):
            files.write(stored)
    assert len(files.files) == 2
    assert main(["scenario", "blocks", str(tmp_path / "history"), str(tmp_path / "data")]) == 0
    assert f"--storage.tsdb.path={tmp_path}/data" in capfd.readouterr().out
    blocks = [json.loads(path.read_text()) for path in (tmp_path / "data").glob("*/meta.json")]
    edge = window_of(1000 * (BEGIN_SECONDS + 1800))
    assert sorted(block["minTime"] for block in blocks) == [BEGIN_SECONDS * 1000, edge]
    server = await prometheus(start_async, tmp_path, "", "15s", KEEP)
    assert await seen(server, 'up{instance="dgx-0:9400"}') == [*range(0, 2100, 15)][: 1800 // 15 + 1]
    assert gap(await seen(server, _TEMPERATURE)) == (915, 1215)


@pytest_twisted.async_fixture
async def server(start_async: StartAsync, tmp_path: Path) -> str:
    """A Prometheus that takes remote write."""
    pytest.importorskip("cramjam")
    folder = tmp_path / "server"
    folder.mkdir()
    return await prometheus(start_async, folder, "", "15s", KEEP, "--web.enable-remote-write-receiver")


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.requires_program("promtool")
def test_all_identities(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """promtool takes the text of each identity as it is."""
    pools = ", ".join(f"{{name: p{number}, identity: {title}}}" for number, title in enumerate(TITLES))
    file = tmp_path / "all.yaml"
    fleet = f"{{epoch: '{BEGIN_SECONDS}', tick: 15s, pools: [{pools}]}}"
    file.write_text(f"fleet: {fleet}\nweb: []\nworkloads: {{listen: []}}\n")
    assert main(["render", "--config", str(file), "--openmetrics", "--for", "5m", "--output", str(tmp_path / "h")]) == 0
    (text,) = (tmp_path / "h").iterdir()
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (meta,) = [json.loads(path.read_text()) for path in (tmp_path / "data").glob("*/meta.json")]
    rows = [line for line in text.read_text().splitlines() if not line.startswith("#")]
    assert meta["stats"]["numSamples"] == len(rows) == len(set(rows))


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.requires_program("prometheus")
@pytest_twisted.ensureDeferred
async def test_remote_write(server: str) -> None:
    """A server has the same samples, and sees a board that is lost at once; it takes all messages twice."""
    writer = RemoteWriter(f"http://{server}/api/v1/write", reactor, random=lambda: 1.0)
    messages = Messages(snappy(), 2_000)
    instants = list(history(1800, (600, LOST)))
    sent = [message for stored in instants for message in messages.add(stored)] + [*messages.end()]
    assert len(sent) > 5
    for message in sent:
        await writer.send(message.body)
        await writer.send(message.body, may_be_stored=True)
    await writer.close()
    assert gap(await seen(server, _TEMPERATURE)) == (615, 1215)
    assert await seen(server, 'up{instance="dgx-0:9400"}') == [*range(0, 1801, 15)]
    every = quote('{job=~".+"}[31m]')
    path = f"/api/v1/query?query={every}&time={BEGIN_SECONDS + 1800}"
    result = json.loads((await fetch(server, path)).body)["data"]["result"]
    stored = sum(len(scraped.series) for instant in instants for scraped in instant.scraped)
    assert sum(len(each["values"]) for each in result) == stored


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.requires_program("prometheus")
@pytest_twisted.ensureDeferred
async def test_a_server_that_has_newer_samples(server: str) -> None:
    writer = RemoteWriter(f"http://{server}/api/v1/write", reactor, random=lambda: 1.0)
    messages = Messages(snappy())
    instants = list(history(45))
    for stored in reversed(instants[::2]):
        bodies = [*messages.add(stored), *messages.end()]
        if stored is instants[0]:
            with pytest.raises(RemoteWriteError, match="answers 400: out of order sample"):
                await writer.send(bodies[0].body)
        else:
            await writer.send(bodies[0].body)
    await writer.close()


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.requires_program("prometheus")
@pytest_twisted.ensureDeferred
async def test_a_run_that_is_interrupted(server: str, start_async: StartAsync, tmp_path: Path) -> None:
    """The same command goes on: the server has each scrape once, and the history begins when it began at first."""
    (tmp_path / "s.yaml").write_text(SCENARIO)
    progress = tmp_path / "progress"
    command = [
        *console("fakedev"), "scenario", "run", str(tmp_path / "s.yaml"), "--remote-write",
        f"http://{server}/api/v1/write", "--resume", str(progress),
    ]  # fmt: skip
    first = start_async([*command, "--end", "2026-11-22T06:00:00Z"])

    async def has_sent() -> bool:
        assert first.exit_code is None, first.stderr
        return progress.exists() and '"sent_milliseconds":1' in progress.read_text()

    await eventually(has_sent, "some messages are sent")
    assert await first.stop() == 130
    assert f"goes on from {progress}" in first.stderr
    begin = json.loads(progress.read_text())["begin_seconds"]
    second = await run(start_async, *command)
    assert second.exit_code == 0, second.stderr
    assert not progress.exists()
    path = f"/api/v1/query?query={quote('up[1d]')}&time={begin + 12 * 3600}"
    (found,) = json.loads((await fetch(server, path)).body)["data"]["result"]
    assert [at for at, _ in found["values"]] == [begin + 15 * each for each in range(12 * 240)]
