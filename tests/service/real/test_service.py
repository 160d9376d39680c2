"""The real service: started, stopped, signalled, crowded; told apart from tests in memory by real sockets."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
import socket
import stat
import time
from functools import partial
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet.error import ConnectError

from tests.support.paths import ROOT
from tests.support.programs.asynchronous import (
    FLEET,
    AsyncService,
    Page,
    addresses,
    connected,
    eventually,
    fetch,
    ready,
    serve,
)
from tests.support.programs.ports import free_port
from tests.support.programs.processes import StartAsync, clean_environment, console, require_program, run, twistd

pytestmark = pytest.mark.real

SERVE = [*console("fakedev"), "serve"]


@pytest_twisted.async_fixture
async def service(start_async: StartAsync, tmp_path: Path) -> AsyncService:
    """A service that runs."""
    return await serve(start_async, tmp_path)


async def no_workloads_are_left(service: AsyncService) -> None:
    """Wait until the service has no workload."""

    async def is_so() -> bool:
        return (await service.get_json("/api/v1/workloads"))["total"] == 0

    await eventually(is_so, "no workload is left")


async def own_page_shows(service: AsyncService, sample: str) -> None:
    """Wait until the own metrics have a line: what another peer causes is counted a moment later."""

    async def is_so() -> bool:
        return sample in (await service.fetch("/-/metrics")).body.decode()

    await eventually(is_so, f"the own metrics have {sample}")


# -- start and stop -----------------------------------------------------------------------------------------------


@pytest_twisted.ensureDeferred
async def test_twistd_with_the_example(start_async: StartAsync, tmp_path: Path) -> None:
    """`twistd -n --pidfile= fakedev --config etc/fakedev.yaml` serves from the checkout and ends by SIGTERM."""
    file = tmp_path / "ready.json"
    command = [*twistd(), "-n", "--pidfile=", "fakedev", "--config", "etc/fakedev.yaml", "--ready-file", str(file)]
    free = ["--set", "web.0=127.0.0.1:0"]
    environment = clean_environment(RUNTIME_DIRECTORY=str(tmp_path / "run"))
    program = start_async([*command, *free], environment=environment, folder=ROOT)
    service = await ready(program, file)
    page = await service.fetch("/metrics")
    assert (page.status, page.body.count(b"\nDCGM_FI_DEV_GPU_UTIL{")) == (200, 16)
    assert service.web[1] == f"{tmp_path}/run/control.sock"
    assert (await service.fetch("/metrics", place=1)).status == 200
    assert await program.stop(signal.SIGTERM) == 128 + signal.SIGTERM
    assert "fakedev 0." in program.stderr
    assert "16 devices on 2 nodes" in program.stderr
    assert list((tmp_path / "run").iterdir()) == []
    assert not file.exists()


@pytest_twisted.ensureDeferred
async def test_the_example_is_good(start_async: StartAsync) -> None:
    checked = await run(start_async, *SERVE, "--config", str(ROOT / "etc" / "fakedev.yaml"), "--check")
    assert (checked.exit_code, checked.stderr) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest_twisted.ensureDeferred
async def test_serve_ends_with_0(service: AsyncService, tmp_path: Path, number: signal.Signals) -> None:
    """SIGTERM and SIGINT: a clean end, with peers connected, and no socket left."""
    peer = await service.connect()
    await peer.say("run x devices=a/0 profile=10")
    scraper = await connected(service.web[0])
    await scraper.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await scraper.some()).startswith(b"HTTP/1.1 200 OK")
    assert await service.program.stop(number) == 0
    assert await peer.rest() == b""
    assert await scraper.rest() == b""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fakedev.yaml"]
    assert "Traceback" not in service.program.stderr


@pytest_twisted.ensureDeferred
async def test_sighup(start_async: StartAsync, tmp_path: Path) -> None:
    """SIGHUP takes a changed configuration, with all connections; one that is wrong changes nothing."""
    service = await serve(start_async, tmp_path)
    config = tmp_path / "fakedev.yaml"
    good = config.read_text()
    assert "nodes: [a, b]" in good
    peer = await service.connect()
    assert await peer.say("run one devices=a/0 profile=50") == "ok w2"
    config.write_text(good.replace("nodes: [a, b]", "nodes: [c, a]"))
    service.program.send_signal(signal.SIGHUP)
    await service.program.wait_for_text("the configuration was reloaded")
    assert [target["labels"]["node"] for target in await service.get_json("/sd")] == ["c", "a"]
    assert (await peer.say("list")).startswith("ok 1 lines")
    config.write_text(good.replace("nodes:", "node:"))
    service.program.send_signal(signal.SIGHUP)
    await service.program.wait_for_text("did you mean 'nodes'?")
    await own_page_shows(service, "fakedev_config_last_reload_successful 0.0")
    assert (await service.fetch("/nodes/c/metrics")).status == 200
    await peer.leave()
    assert await service.program.stop() == 0


@pytest_twisted.ensureDeferred
async def test_the_first_lines(service: AsyncService) -> None:
    """Say what runs, where, and who can connect."""
    said = await service.program.wait_for_text("[open to this machine]")
    lines = service.program.stderr.splitlines()
    assert re.search(r"fakedev \S+: 4 devices on 2 nodes, simulated, shown as dcgm@4\.8\.2", service.program.stderr)
    for address in service.web + service.workloads:
        assert sum(address in line for line in lines) == 1, address
    assert "metrics, API and control: http://127.0.0.1:" in said + service.program.stderr
    assert service.program.stdout == ""


@pytest_twisted.ensureDeferred
async def test_start_to_first_page(start_async: StartAsync, tmp_path: Path, record_property: object) -> None:
    """From the start of the program to its first page; the time is reported, whatever it is."""
    config, path = tmp_path / "fakedev.yaml", tmp_path / "web.sock"
    config.write_text(FLEET + addresses(tmp_path))
    started = time.monotonic()
    start_async([*SERVE, "--config", str(config)])

    async def first_page() -> Page | None:
        # The socket has its name a moment before it takes connections.
        try:
            return await fetch(str(path), "/metrics")
        except ConnectError:
            return None

    page = await eventually(first_page, "the first page")
    seconds = time.monotonic() - started
    record_property("start_to_first_page_seconds", round(seconds, 3))  # type: ignore[operator]
    assert page.status == 200


@pytest_twisted.ensureDeferred
async def test_a_second_instance(service: AsyncService, start_async: StartAsync, tmp_path: Path) -> None:
    """On the same port or socket: one clear line, exit 1, and the first is not disturbed."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "second.yaml").write_text(FLEET + addresses(other))
    web, workloads = "web.0", "workloads.listen.0.listen"
    taken = ((web, service.web[0]), (web, f"{tmp_path}/web.sock"), (workloads, f"{tmp_path}/workload.sock"))
    for item, where in taken:
        second = start_async([*SERVE, "--config", str(other / "second.yaml"), "--set", f"{item}={where}"])
        assert await second.wait() == 1
        (line,) = second.stderr.splitlines()
        assert f"cannot listen on {where}: " in line
        assert "in use" in line
        assert list(other.iterdir()) == [other / "second.yaml"]
    assert (await service.fetch("/metrics")).status == 200
    assert (await service.fetch("/metrics", place=1)).status == 200
    async with await service.connect() as peer:
        assert await peer.say("list") == "ok 0 lines"


@pytest_twisted.ensureDeferred
async def test_what_an_earlier_run_left(start_async: StartAsync, tmp_path: Path) -> None:
    """Sockets of a killed service are no obstacle; other files are, and are not touched."""
    first = await serve(start_async, tmp_path)
    await first.program.kill()
    assert (tmp_path / "web.sock").is_socket()
    (tmp_path / "ready.json").unlink()
    second = await serve(start_async, tmp_path)
    assert (await second.fetch("/metrics", place=1)).status == 200
    assert await second.program.stop() == 0
    (tmp_path / "web.sock").write_text("somebody's file")
    third = start_async([*SERVE, "--config", str(tmp_path / "fakedev.yaml")])
    assert await third.wait() == 1
    assert len(third.stderr.splitlines()) == 1
    assert (tmp_path / "web.sock").read_text() == "somebody's file"


@pytest_twisted.ensureDeferred
async def test_rights_of_the_sockets(service: AsyncService, tmp_path: Path) -> None:
    """For their owner."""
    for name in ("web.sock", "workload.sock"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


@pytest.mark.parametrize("start", ["serve", "twistd"])
@pytest_twisted.ensureDeferred
async def test_a_broken_file(start_async: StartAsync, tmp_path: Path, start: str) -> None:
    """All problems at once and 2, before any socket opens, however it is started."""
    config = tmp_path / "fakedev.yaml"
    config.write_text((FLEET + addresses(tmp_path)).replace("h100", "h1000").replace("seed: 7", "sead: 7"))
    command = SERVE if start == "serve" else [*twistd(), "-n", "--pidfile=", "fakedev"]
    ended = await run(start_async, *command, "--config", str(config))
    assert ended.exit_code == 2
    assert [line.split(": ")[0] for line in ended.stderr.splitlines()] == [f"{config}:4", f"{config}:5"]
    assert list(tmp_path.iterdir()) == [config]


@pytest_twisted.ensureDeferred
async def test_a_record_that_cannot_be_written(start_async: StartAsync, tmp_path: Path) -> None:
    """One line and 1."""
    config = tmp_path / "fakedev.yaml"
    config.write_text(FLEET + addresses(tmp_path))
    ended = await run(start_async, *SERVE, "--config", str(config), "--record", str(tmp_path / "no" / "x"))
    assert ended.exit_code == 1
    assert f"the record cannot be written: {tmp_path}/no/x: no such file or folder\n" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == [config]


# -- clients of the system -------------------------------------------------------------------------------------------


@pytest.mark.requires_program("curl")
@pytest_twisted.ensureDeferred
async def test_curl(service: AsyncService, start_async: StartAsync) -> None:
    """Over TCP, over a UNIX socket, by gzip, HEAD, and changes without any header."""
    url = f"http://{service.web[0]}"
    plain = await run(start_async, "curl", "-sSf", f"{url}/metrics")
    assert plain.exit_code == 0
    assert plain.stdout.startswith("# HELP DCGM_FI_DEV_SM_CLOCK")
    by_socket = await run(start_async, "curl", "-sSf", "--unix-socket", service.web[1], "http://localhost/metrics")
    assert by_socket.stdout.count("\n") == plain.stdout.count("\n")
    compressed = await run(start_async, "curl", "-sSf", "--compressed", "-D", "-", f"{url}/metrics")
    assert "content-encoding: gzip" in compressed.stdout.lower()
    assert compressed.stdout.count("DCGM_FI_DEV_GPU_TEMP{") == 4
    head = await run(start_async, "curl", "-sSI", f"{url}/metrics")
    assert head.stdout.startswith("HTTP/1.1 200 OK")
    assert "(simulated)" in head.stdout
    workload = '{"name": "x", "devices": "a/0", "profile": "60"}'
    posted = await run(start_async, "curl", "-sS", f"{url}/api/v1/workloads", "-d", workload)
    assert json.loads(posted.stdout)["name"] == "x"
    stopped = await run(start_async, "curl", "-sS", "-X", "DELETE", f"{url}/api/v1/workloads/x")
    assert len(json.loads(stopped.stdout)["stopped"]) == 1
    advanced = await run(start_async, "curl", "-sS", f"{url}/api/v1/clock", "-d", '{"advance": "15m"}')
    assert json.loads(advanced.stdout)["tick"] >= 900
    refused = await run(
        start_async, "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-X", "PUT", f"{url}/metrics"
    )
    assert refused.stdout == "405"


@pytest_twisted.ensureDeferred
async def test_one_tick_on_all_endpoints(start_async: StartAsync, tmp_path: Path) -> None:
    """With a clock that stands TCP, UNIX socket and gzip give the same bytes."""
    service = await serve(start_async, tmp_path, "--set", "fleet.speed=0")
    await service.fetch("/api/v1/clock", {"advance": "1m"})
    pages = [(await service.fetch("/metrics", place=place)).body for place in (0, 1)]
    compressed = await service.fetch("/metrics", headers={"Accept-Encoding": "gzip"})
    assert {*pages, gzip.decompress(compressed.body)} == {pages[0]}
    assert compressed.headers["x-fakedev-tick"] == "60"


@pytest.fixture
def nc() -> str:
    """The netcat that knows -N and -U."""
    return require_program("nc")


@pytest_twisted.ensureDeferred
async def test_nc_half_closed(service: AsyncService, nc: str, start_async: StartAsync) -> None:
    """`nc -N`: its input ends, all is answered, the connection ends; over TCP and UNIX sockets."""
    host, _, port = service.workloads[1].rpartition(":")
    text = "help\nrun x devices=a/0 profile=10\nlist\nrum\nstop x"
    for where in (["-U", service.workloads[0]], [host, port]):
        ended = await run(start_async, nc, "-N", *where, text=text)
        assert ended.exit_code == 0
        lines = ended.stdout.splitlines()
        assert lines[0].startswith("ok ")
        assert any(line.startswith("ok w") for line in lines)
        assert "error unknown-verb no verb 'rum'; did you mean run?" in lines
        assert lines[-1] == "ok stopped 1"
    await no_workloads_are_left(service)


@pytest_twisted.ensureDeferred
async def test_nc_that_stays(service: AsyncService, nc: str, start_async: StartAsync) -> None:
    """`nc` without -N keeps its connection: it is told the end of its workload; when it is killed its load goes."""
    person = start_async([nc, "-U", service.workloads[0]], descriptors={0: "w"})
    person.write("run short devices=a/0 profile=80:5:1\nrun long devices=a/1 profile=80:5:0\n")
    lines = await person.wait_for_lines(3)
    assert [line[:4] for line in lines[:2]] == ["ok w", "ok w"]
    assert lines[2] == "ended short 0 OK"
    assert [each["name"] for each in (await service.get_json("/api/v1/workloads"))["workloads"]] == ["long"]
    await person.kill()
    await no_workloads_are_left(service)


# -- crowds --------------------------------------------------------------------------------------------------------


@pytest_twisted.ensureDeferred
async def test_a_thousand_silent_connections(service: AsyncService) -> None:
    """They are taken and left alone, on the workload port and the HTTP port; others are answered as ever."""
    crowd = [await connected(address) for address in [service.workloads[0], service.web[0]] * 500]
    # The system connects a client before the service takes the connection. Who has begun a message has ten seconds.
    await own_page_shows(service, "fakedev_workload_connections 500.0")
    for place in range(0, len(crowd), 10):
        await crowd[place].send(b"{")
        await crowd[place + 1].send(b"GET /met")
    async with await service.connect() as peer:
        assert (await peer.say("run x devices=a/0 profile=10:0:1")).startswith("ok w")
        first = await service.fetch("/metrics")
        assert first.status == 200
        assert await peer.line() == "ended x 0 OK"
    ticks = {int((await service.fetch("/metrics")).headers["x-fakedev-tick"]) for _ in range(50)}
    assert max(ticks) > int(first.headers["x-fakedev-tick"])

    async def is_healthy() -> bool:
        return bool(await service.get_json("/health") == {"status": "healthy"})

    await eventually(is_healthy, "ticks are in time")
    for silent in crowd:
        await silent.leave()


@pytest_twisted.ensureDeferred
async def test_a_scraper_that_never_reads(start_async: StartAsync, tmp_path: Path) -> None:
    """It is dropped, and others are served meanwhile and afterwards."""
    fleet = FLEET.replace("nodes: [a, b]", "nodes: 50").replace("devices-per-node: 2", "devices-per-node: 8")
    service = await serve(start_async, tmp_path, fleet=fleet)
    deaf = await connected(service.web[0])
    deaf.transport.pauseProducing()
    deaf.transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await deaf.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 20)

    async def dropped() -> bool:
        assert (await service.fetch("/nodes/p-0/metrics")).status == 200
        own = (await service.fetch("/-/metrics")).body.decode()
        return 'fakedev_scrapes_total{code="499",page="/metrics"}' in own

    await eventually(dropped, "the deaf scraper is dropped")
    page = await service.fetch("/metrics")
    assert (page.status, len(page.body) > 1_000_000) == (200, True)
    await own_page_shows(service, 'fakedev_scrapes_in_flight{page="/metrics"} 0.0')


@pytest_twisted.ensureDeferred
async def test_watch(start_async: StartAsync, tmp_path: Path) -> None:
    """A configuration that is a mounted ConfigMap: the swap of its link is a reload, time after time."""
    mount, config = tmp_path / "mount", tmp_path / "mount" / "fakedev.yaml"
    mount.mkdir()

    def put(version: str, text: str) -> None:
        folder = mount / version
        folder.mkdir()
        (folder / "fakedev.yaml").write_text("watch: true\n" + text + addresses(tmp_path))
        (mount / "..new").symlink_to(version)
        os.replace(mount / "..new", mount / "..data")

    put("v1", FLEET)
    config.symlink_to("..data/fakedev.yaml")
    file = tmp_path / "ready.json"
    service = await ready(start_async([*SERVE, "--config", str(config), "--ready-file", str(file)]), file)

    async def shows(wanted: list[str]) -> bool:
        return [each["labels"]["node"] for each in await service.get_json("/sd")] == wanted

    for number, nodes in ((2, "[a, c]"), (3, "[c]"), (4, "[c, d]")):
        put(f"v{number}", FLEET.replace("[a, b]", nodes))
        shutil.rmtree(mount / f"v{number - 1}")
        wanted = nodes.strip("[]").split(", ")
        await eventually(partial(shows, wanted), f"the nodes are {nodes}")
    put("v5", "fleet: {}")
    await service.program.wait_for_text("the configuration stays as it is")
    assert await service.program.stop() == 0


@pytest_twisted.ensureDeferred
async def test_nodes_with_addresses(start_async: StartAsync, tmp_path: Path) -> None:
    """One socket, and each node answers at its own address."""
    port = free_port()
    config, file = tmp_path / "fakedev.yaml", tmp_path / "ready.json"
    config.write_text(f"{FLEET}web: ['127.0.0.1:0', {{per-node: '127.64.0.0/16:{port}'}}]\nworkloads: {{listen: []}}\n")
    service = await ready(start_async([*SERVE, "--config", str(config), "--ready-file", str(file)]), file)
    assert service.web[1] == f"127.64.0.1:{port}"
    for place, node in ((1, "a"), (2, "b")):
        page = (await fetch(f"127.64.0.{place}:{port}", "/metrics")).body
        assert page.count(f'Hostname="{node}"'.encode()) == page.count(b"Hostname=") > 0
    assert (await fetch(f"127.64.0.3:{port}", "/metrics")).status == 404
    assert (await fetch(f"127.0.0.1:{port}", "/metrics")).status == 404
    assert await service.program.stop() == 0


@pytest_twisted.ensureDeferred
async def test_a_service_writes_no_bytecode(start_async: StartAsync, tmp_path: Path) -> None:
    """Of what it imports while it serves: on a full disk that would be half a file, which no later start can read."""
    compiled = tmp_path / "compiled"
    environment = {**clean_environment(), "PYTHONPYCACHEPREFIX": str(compiled)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    file = tmp_path / "ready.json"
    command = [*console("fakedev"), "serve", "--port", "0", "--ready-file", str(file)]
    service = await ready(start_async(command, folder=tmp_path, environment=environment), file)
    written = set(compiled.rglob("*.pyc"))
    assert written
    assert (await fetch(service.web[0], "/-/metrics")).status == 200
    assert set(compiled.rglob("*.pyc")) == written
    assert await service.program.stop() == 0
