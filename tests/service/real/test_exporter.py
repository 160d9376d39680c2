"""fakedev-exporter as its users have it: the original's files, its client's bytes, their shell scripts."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_twisted

from tests.support.paths import DATA, ORIGINALS
from tests.support.programs.asynchronous import AsyncProgram, StartAsync, at_once, connected, eventually, fetch
from tests.support.programs.ports import free_port
from tests.support.programs.processes import console, require_program
from tests.support.wire.original_bytes import go_workload

pytestmark = pytest.mark.real

EXPORTER = console("fakedev-exporter")
WORKLOAD = console("fakedev-workload")


def message_to(device: str, seconds: float = 1) -> bytes:
    """What the original's client sends for a short job on a device."""
    return go_workload([(10, 1, seconds), (0, 0, 0.5)], devices=(device,))


@dataclass
class Exporter:
    """A fakedev-exporter that runs, its HTTP address and the path of its socket."""

    program: AsyncProgram
    address: str
    path: str

    async def page(self) -> str:
        """Its page."""
        page = await fetch(self.address, "/metrics")
        assert page.status == 200
        return page.body.decode()


Start = Callable[..., Awaitable[Exporter]]


@pytest.fixture
def start(start_async: StartAsync, tmp_path: Path) -> Start:
    """Starts the exporter on a free port; further arguments are its options."""

    async def exporter(*options: str) -> Exporter:
        address, path = f"127.0.0.1:{free_port()}", str(tmp_path / "exporter")
        program = start_async([*EXPORTER, "-address", address, "-socket", path, *options], folder=tmp_path)
        await program.wait_for_file(path)
        await program.wait_for_text("workloads: ")
        return Exporter(program, address, path)

    return exporter


def files(kind: str) -> list[str]:
    """Options that name a set of files: our own, or the original's."""
    if kind == "own":
        folder, names = DATA, ("original-device", "original-devices", "original-identity")
    elif ORIGINALS.is_dir():
        folder, names = ORIGINALS, ("dg1-4905", "devlist", "xpu-manager")
    else:
        pytest.skip("the original's files are not at hand")
    named = zip(("-devtype", "--devlist", "-identity"), names, strict=True)
    return [part for option, name in named for part in (option, str(folder / f"{name}.json"))]


@pytest_twisted.ensureDeferred
async def test_families_and_labels_of_the_original(start: Start) -> None:
    """Two DG1 as xpu-manager shows them, at ten percent: the original's lines, each family once and typed."""
    exporter = await start(*files("original"), "-count=2", "-wl-all", str(ORIGINALS / "load-10-exact.json"))
    page = await exporter.page()
    devices = [f'dev_file="card{number}",pci_bdf="0000:03:0{number}.0",pci_dev="0x4905"' for number in range(2)]
    families = {
        "xpum_frequency_mhz": (',location="gpu",type="actual"', "435"),
        "xpum_memory_used_bytes": ("", "4.01709466e+08"),
        "xpum_power_watts": ("", "6.2"),
        "xpum_temperature_celsius": (',location="gpu"', "27"),
    }
    assert [line for line in page.splitlines() if not line.startswith("#")] == [
        f"{family}{{{device}{more}}} {value}" for family, (more, value) in families.items() for device in devices
    ]
    for family in families:
        assert page.count(f"# TYPE {family} gauge\n") == page.count(f"# HELP {family} ") == 1


@pytest.mark.parametrize("kind", ["own", "original"])
@pytest_twisted.ensureDeferred
async def test_the_original_client(start: Start, kind: str) -> None:
    """The original's bytes in odd segments: told 0 in one byte when the profile is over, or 1 for what cannot be."""
    exporter = await start(*files(kind), "-count", "2")
    device = "card4" if kind == "own" else "card0"
    message = message_to(device)

    async def told(*segments: bytes) -> bytes:
        async with await connected(exporter.path) as peer:
            await peer.send(*segments)
            return await peer.rest()

    whole = told(message)
    halves = told(message[:1], message[1:100], message[100:])
    bytewise = told(*(message[place : place + 1] for place in range(len(message))))
    # Larger than the 1024 bytes of the original.
    long = message.replace(b"load-10-5min", b"n" * 1000).replace(b"\n", b"\n" + b" " * 100)
    assert len(long) > 3000
    good = [whole, halves, bytewise, told(long)]
    too_much = [told(message_to(device, seconds=-1)), told(message_to("card99"))]
    not_json = [told(b"{]}"), told(b'{"Name": "x"}')]
    assert await at_once([*good, *too_much, *not_json]) == [b"0"] * 4 + [b"1"] * 4


@pytest_twisted.ensureDeferred
async def test_silent_peers(start: Start) -> None:
    """Told 1 without the connection being closed by them: after a part of a message, and after nothing."""
    exporter = await start(*files("own"), "-count", "1")
    async with await connected(exporter.path) as silent, await connected(exporter.path) as partial:
        await partial.send(b'{\n\t"Name": "x",')
        assert await partial.rest() == b"1"
        assert await silent.rest() == b"1"


@pytest_twisted.ensureDeferred
async def test_what_it_serves(start: Start) -> None:
    """GET /metrics and nothing else."""
    exporter = await start(*files("own"), "-count", "2")
    address = exporter.address
    page = await fetch(address, "/metrics")
    assert page.headers["server"].endswith("(simulated)")
    assert page.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    for path in ("/", "/metrics/", "/metrics/x", "/health"):
        assert (await fetch(address, path)).status == 404, path
    for method in ("HEAD", "PUT", "POST", "DELETE"):
        assert (await fetch(address, "/metrics", method=method)).status == 405, method
    assert (await fetch(address, "/metrics", "a body")).status == 400


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest_twisted.ensureDeferred
async def test_its_end(start: Start, number: signal.Signals) -> None:
    """0 on all three signals; its socket is gone, its peers are not told 0 or 1."""
    exporter = await start(*files("own"), "-count", "1")
    async with await connected(exporter.path) as peer:
        await peer.send(b'{"Name":"x","Profile":[{"Load":10}],"Devices":["card4"]}')
        assert await exporter.page()
        assert await exporter.program.stop(number) == 0
        assert await peer.rest() == b""
    assert not Path(exporter.path).exists()


@pytest_twisted.ensureDeferred
async def test_a_second_instance(start: Start, start_async: StartAsync) -> None:
    """On the same socket: an error; the first goes on."""
    exporter = await start(*files("own"))
    options = ["-address", f"127.0.0.1:{free_port()}", "-socket", exporter.path, *files("own")]
    second = start_async([*EXPORTER, *options])
    assert await second.wait() == 1
    assert "in use" in second.stderr
    assert len(second.stderr.splitlines()) == 1
    async with await connected(exporter.path) as peer:
        await peer.send(b"{}")
        assert await peer.rest() == b"1"


@pytest.mark.parametrize("kind", ["own", "original"])
@pytest_twisted.ensureDeferred
async def test_pages_while_workloads_join(start: Start, start_async: StartAsync, kind: str) -> None:
    """A typical script of users: workloads of 0 % join in the background, pages are fetched in parallel, all alike."""
    exporter = await start(*files(kind), "-count", "2")
    curl = require_program("curl")
    device = "card4" if kind == "own" else "card0"
    script = f"""
        set -e
        for i in 1 2 3 4; do
          "$@" -socket {exporter.path} -name idle-$i -devnames {device} -activity 0:0:0 2> $i.log &
          idle="$idle $!"
        done
        for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
          {curl} -sSf http://{exporter.address}/metrics > page-$i &
          fetching="$fetching $!"
        done
        for pid in $fetching; do wait $pid; done
        for i in 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do cmp page-1 page-$i; done
        kill $idle
        for pid in $idle; do wait $pid || true; done
        echo identical
    """
    shell = start_async(["sh", "-c", script, "sh", *WORKLOAD], folder=Path(exporter.path).parent)
    assert (await shell.wait(), shell.stdout) == (0, "identical\n"), shell.stderr


@pytest_twisted.ensureDeferred
async def test_fakedev_workload_against_it(start: Start, start_async: StartAsync) -> None:
    """Our client's exit code is the simulated job's; SIGTERM ends it and its load."""
    exporter = await start(*files("own"), "-count", "2")
    idle = await exporter.page()
    base = [*WORKLOAD, "-socket", exporter.path, "-devnames", "card4"]
    runs = [
        start_async([*base, *options])
        for options in (["-activity", "60:5:1"], ["-activity", "101:0:1"], ["-devnames", "card9"])
    ]
    good, bad, unknown = await at_once([run.wait() for run in runs])
    assert (good, bad > 0, unknown > 0) == (0, True, True)

    async def is_idle() -> bool:
        return await exporter.page() == idle

    async def busy_page() -> str | None:
        page = await exporter.page()
        return page if page != idle else None

    await eventually(is_idle, "the load of the first run is gone")
    running = start_async([*base, "-activity", "60:0:0"])
    busy = await eventually(busy_page, "load is seen")
    assert busy.count("\n") == idle.count("\n")
    assert await running.stop(signal.SIGTERM) == 0
    await eventually(is_idle, "load is gone")


@pytest_twisted.ensureDeferred
async def test_no_answer_to_a_stranger(start: Start) -> None:
    """A client that sends HTTP to the workload socket gets an error, and the page is served as before."""
    exporter = await start(*files("own"), "-count", "1")
    async with await connected(exporter.path) as stranger:
        await stranger.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        stranger.transport.loseWriteConnection()
        assert (await stranger.rest()).startswith(b"error unknown-verb this port takes lines, not HTTP")
    assert await exporter.page()
