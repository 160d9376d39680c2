"""The commands that watch and control a running service find it by themselves: no option names an address."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest
import pytest_twisted

from fakedev.commands.completion import values_after
from fakedev.commands.main import main, subcommands
from tests.support.programs.asynchronous import AsyncService, eventually, ready
from tests.support.programs.processes import AsyncProgram, StartAsync, console, run

pytestmark = pytest.mark.real
#: Commands that are not of this group, and list what a service has with --active.
ACTIVE = ("devices", "faults")
QUEUE = ("--set", "queues={names: [sleep], listen-clients: [], listen-backends: []}")


async def demo(start_async: StartAsync, folder: Path, *options: str) -> AsyncService:
    """The built-in demo, with its sockets in the default folder."""
    file = folder / "ready.json"
    command = [*console("fakedev"), "serve", "--set", "web.0.listen=127.0.0.1:0", "--ready-file", str(file), *options]
    return await ready(start_async(command, folder=folder), file)


@pytest.mark.parametrize("options", [(), ("--set", "workloads.listen=[]")], ids=["workload port", "HTTP"])
@pytest_twisted.ensureDeferred
async def test_a_session(
    start_async: StartAsync, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    """Look, start, inject, explain, advance, clear, stop; what is wrong is one line and its exit code."""
    await demo(start_async, tmp_path, "--set", "fleet.speed=0", *options)

    def fakedev(*words: str, code: int = 0) -> str:
        assert main(list(words)) == code, capsys.readouterr()
        said = capsys.readouterr()
        return said.err if code else said.out

    assert "health     good" in fakedev("status")
    assert fakedev("run", "train", "devices=dgx-0/7", "profile=80:0:0").startswith("w")
    assert fakedev("advance", "2s") == "tick 2 seconds 2\n"
    assert "train state=running" in fakedev("workloads")
    fault = fakedev("fault", "lost", "devices=dgx-0/7").strip()
    fakedev("advance", "1s")
    assert "1 lost" in fakedev("status")
    assert f"{fault} lost state=active" in fakedev("faults", "--active")
    assert "not shown: lost since tick 3" in fakedev("explain", "dgx-0/7", "power")
    assert fakedev("clear", "all") == "cleared 1\n"
    assert "dgx-0/0 type=h100" in fakedev("devices", "--active")
    assert "lost dgx-0/7" in fakedev("journal", "kind=lost")
    assert fakedev("speed", "60") == "speed 60\n"

    async def shows_the_speed() -> bool:
        return "speed 60" in fakedev("status")

    await eventually(shows_the_speed, "a tick at the new speed")
    assert fakedev("stop", "nothing", code=2) == (
        "fakedev stop: no workload 'nothing'; there are training, inference, batch, notebook\n"
    )
    assert "did you mean" in fakedev("fault", "lots", "devices=dgx-0/7", code=2)
    assert "'soon' is no duration: give a number with ms" in fakedev("advance", "soon", code=2)
    assert fakedev("advance", "stop") == "nothing to stop\n"
    assert fakedev("reset").startswith("tick ")


@pytest_twisted.ensureDeferred
async def test_the_same_answers_over_http(
    start_async: StartAsync, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """To the byte; also what is refused, and what is in quotes."""
    service = await demo(start_async, tmp_path, "--set", "fleet.speed=0")
    for line in (
        "run job devices=dgx-0/[6-7] profile=80:5:60,20:0:60 repeat=2 pod=a namespace=b label=team:x limit=power:600",
        "fault fan devices=dgx-0/3 duration=5m", "fault slow-page seconds=1", "advance 2s",
        "workloads", "show job", "show none", "faults --active", "devices --active", "explain dgx-0/3",
        "explain dgx-0/3 power", "explain dgx-0/3/link/1", "explain dgx-0/3 nothing", "journal", "journal 3",
        "journal 9 kind=began devices=dgx-0/3", "journal 9 kind=nothing", "run", "clear none", "stop none",
    ):  # fmt: skip
        over_http, by_port = [
            (main([*line.split(), *options]), *capsys.readouterr())
            for options in (["--url", f"http://{service.web[0]}"], [])
        ]
        if line.split()[0] in ("run", "fault", "advance"):
            assert (over_http[0], over_http[2]) == (by_port[0], by_port[2])
        else:
            assert over_http == by_port, line


#: What each command that watches or controls is given, and how its JSON begins.
JSON = {
    "ps": "[{'name': 'demo'", "status": "{'version'", "top": "{'version'", "queues": "[{'queue'",
    "why dgx-0/0": "{'of': 'dgx-0/0', 'kind': 'device'", "explain dgx-0/0 power": "{'of': 'dgx-0/0', 'kind': 'device'",
    "run job devices=dgx-0/6 profile=9:0:0": "{'id': 'w", "fault fan devices=dgx-0/3 duration=5m": "{'id': 'f",
    "advance 2s": "{'tick': 2", "workloads": "[{'id': '", "show job": "{'id': 'w", "faults --active": "[{'id': 'f",
    "devices --active": "[{'device': 'dgx-0/0', 'type'", "stop job": "{'stopped': ['w", "clear all": "{'cleared': ['f",
    "advance 1s": "{'tick': 3", "ended": "[{'id': 'w", "past-faults": "[{'id': 'f", "journal 3": "[{'tick'",
    "speed 0": "{'tick': 3", "reset": "{'tick': 4",
}  # fmt: skip


@pytest.mark.parametrize("is_port", [True, False], ids=["workload port", "HTTP"])
@pytest_twisted.ensureDeferred
async def test_json_of_every_command(
    start_async: StartAsync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    is_port: bool,
) -> None:  # fmt: skip
    """Each prints a value of the same form over HTTP and by a workload port."""
    service = await demo(start_async, tmp_path, "--set", "fleet.speed=0", *QUEUE)
    assert {words.split()[0] for words in JSON} == {*subcommands()["Watch and control a running service"], *ACTIVE}
    monkeypatch.setenv("FAKEDEV_URL", f"http://{service.web[0]}")
    if is_port:
        monkeypatch.setenv("FAKEDEV_SOCKET", service.workloads[0])
    for words, begin in JSON.items():
        assert main([*words.split(), "--json"]) == 0, words
        assert str(json.loads(capsys.readouterr().out)).startswith(begin), words


@pytest_twisted.ensureDeferred
async def test_completion_of_values(
    start_async: StartAsync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The names in the service, also behind a key, and as bash has it: KEY, = and the value are three words."""
    service = await demo(start_async, tmp_path, *QUEUE)
    monkeypatch.setenv("FAKEDEV_URL", f"http://{service.web[0]}")
    assert main(["fault", "fan", "devices=dgx-0/1"]) == 0
    fault = capsys.readouterr().out.strip()
    for words, some in {
        "why": {"dgx-0/7", "dgx-0", "training", fault, "sleep", "DCGM_FI_DEV_GPU_TEMP"}, "clear": {fault},
        "why dgx-0/7": {"DCGM_FI_DEV_GPU_TEMP"}, "explain --service demo": {"dgx-0/7"}, "stop": {"training"},
        "fault": {"fan", "lost"}, "fault fan": {"devices=dgx-0/7", "node=dgx-0", "metric=DCGM_FI_DEV_GPU_TEMP"},
        "fault fan devices =": {"dgx-0/7"}, "status --service": {"demo"},
    }.items():  # fmt: skip
        assert some <= set(values_after(words.split())), words
    assert "fan" not in values_after(["fault", "fan"])
    for words in ("", "status", "why dgx-0/7 power", "why --url", "stop training", "why --url http://127.0.0.1:1"):
        assert values_after(words.split()) == [], words


@pytest_twisted.ensureDeferred
async def test_two_services(start_async: StartAsync, tmp_path: Path) -> None:
    """ps lists both, and an option chooses one; a killed one is stale, and one that ended is gone."""
    (tmp_path / "my.yaml").write_text("{web: ['127.0.0.1:0'], workloads: {listen: []}}")
    await demo(start_async, tmp_path)
    file = tmp_path / "mine.json"
    mine = start_async([*console("fakedev"), "serve", "-c", "my.yaml", "--ready-file", str(file)], folder=tmp_path)
    await ready(mine, file)
    several = await run(start_async, *console("fakedev"), "status")
    assert (several.exit_code, "choose one by --service demo (http://127.0.0.1:" in several.stderr) == (2, True)
    assert (await run(start_async, *console("fakedev"), "speed", "2", "--service", "my")).stdout == "speed 2\n"
    await mine.kill()
    listed = (await run(start_async, *console("fakedev"), "ps")).stdout
    assert [line.split()[0] for line in listed.splitlines()] == ["NAME", "demo", "my"]
    assert "stale: its process has ended" in listed.splitlines()[2]
    assert (await run(start_async, *console("fakedev"), "status")).exit_code == 0


@pytest_twisted.ensureDeferred
async def test_without_a_service(start_async: StartAsync) -> None:
    """None is listed, and none can be chosen."""
    program = await run(start_async, *console("fakedev"), "ps")
    assert (program.exit_code, program.stdout) == (0, "no service of this user runs\n")
    program = await run(start_async, *console("fakedev"), "workloads", "--service", "demo")
    assert program.exit_code == 2
    assert program.stderr == "fakedev workloads: no running service 'demo'; fakedev ps lists them\n"


@pytest.mark.parametrize("options", [(), ("--set", "workloads.listen=[]")], ids=["workload port", "HTTP"])
@pytest_twisted.ensureDeferred
async def test_an_advance_ends_with_ctrl_c(start_async: StartAsync, tmp_path: Path, options: tuple[str, ...]) -> None:
    """130, no traceback; the clock stays where it is, and takes the next order."""
    service = await demo(start_async, tmp_path, "--set", "fleet.speed=0", *options)
    advance: AsyncProgram = start_async([*console("fakedev"), "advance", "100d"])

    async def is_advancing() -> bool:
        return (await service.get_json("/api/v1/clock"))["advance"] is not None

    async def stands() -> bool:
        return not await is_advancing()

    await eventually(is_advancing, "the clock advances")
    assert await advance.stop(signal.SIGINT) == 130
    assert advance.stderr == ""
    await eventually(stands, "the advance has ended")
    assert (await run(start_async, *console("fakedev"), "advance", "1s")).exit_code == 0


@pytest_twisted.ensureDeferred
async def test_top(start_async: StartAsync, tmp_path: Path) -> None:
    """A line for each device on a terminal, live; q ends it and gives the terminal back. Elsewhere it says so."""
    service = await demo(start_async, tmp_path)
    in_terminal = [sys.executable, "-c", "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"]
    top: AsyncProgram = start_async([*in_terminal, *console("fakedev"), "top"], descriptors={0: "w"})
    await top.wait_for_text("dgx-0/7")
    await top.wait_for_text("training")
    assert "\x1b[?1049h" in top.stdout
    top.write("q")
    assert await top.wait() == 0
    assert top.stdout.endswith("\x1b[?25h\x1b[?1049l")
    assert (await service.fetch("/health")).status == 200
    program = await run(start_async, *console("fakedev"), "top")
    assert (program.exit_code, "fakedev status prints the same once" in program.stderr) == (2, True)


@pytest_twisted.ensureDeferred
async def test_top_ends_with_ctrl_c(start_async: StartAsync, tmp_path: Path) -> None:
    """130, and the terminal is as it was."""
    await demo(start_async, tmp_path)
    in_terminal = [sys.executable, "-c", "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"]
    top: AsyncProgram = start_async([*in_terminal, *console("fakedev"), "top"], descriptors={0: "w"})
    await top.wait_for_text("dgx-0/7")
    top.write("\x03")
    assert await top.wait() == 130
    assert top.stdout.endswith("\x1b[?25h\x1b[?1049l")
