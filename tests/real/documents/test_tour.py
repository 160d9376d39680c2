"""README's five minutes, command by command as they are written there; only addresses and folders differ."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import pytest_twisted

from tests.support.paths import ROOT
from tests.support.programs.asynchronous import AsyncService, connected, eventually, ready
from tests.support.programs.processes import StartAsync, clean_environment, console, require_program, run

pytestmark = pytest.mark.real

README = (ROOT / "README.md").read_text(encoding="utf-8")
Shell = Callable[..., Awaitable[str]]


def commands() -> dict[str, list[str]]:
    """The commands of the tour and what README shows below each, in order."""
    tour = README[README.index("## Five minutes") : README.index("## What there is")]
    found: dict[str, list[str]] = {}
    shown: list[str] = []
    for line in tour.splitlines():
        if line.startswith("    $ "):
            shown = found.setdefault(line.removeprefix("    $ "), [])
        elif line.startswith("    ") and found:
            shown.append(line.removeprefix("    "))
        else:
            shown = []
    return found


TOUR = commands()


def command_with(text: str) -> tuple[str, list[str]]:
    """The command of the tour that holds a text, and what is shown below it."""
    (command,) = (command for command in TOUR if text in command)
    return command, TOUR[command]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that looks like the checkout after `make run`: with the programs in .venv/bin."""
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("fakedev", "fakedev-workload", "fakedev-frontend", "fakedev-backend", "fakedev-client"):
        python, _, code = console(name)
        (programs / name).write_text(f"#!/bin/sh\nexec '{python}' -c \"{code}\" \"$@\"\n")
        (programs / name).chmod(0o755)
    return tmp_path


@pytest_twisted.async_fixture
async def service(start_async: StartAsync, folder: Path) -> AsyncService:
    """The built-in demo, as `make run` starts it, on a free port."""
    file = folder / "ready.json"
    options = ["--ready-file", str(file), "--set", "web.0=127.0.0.1:0"]
    environment = clean_environment(RUNTIME_DIRECTORY=str(folder / "run"))
    program = start_async([*console("fakedev"), "serve", *options], environment=environment, folder=folder)
    return await ready(program, file)


@pytest.fixture
def shell(start_async: StartAsync, folder: Path) -> Shell:
    """Runs a command of the tour in the folder; what it prints."""

    async def run_command(command: str, service: AsyncService | None = None, code: int = 0) -> str:
        if service is not None:
            command = command.replace("localhost:9400", service.web[0])
            command = command.replace("/tmp/fakedev-$(id -u)", str(folder / "run"))
        ended = await run(start_async, "sh", "-c", command, folder=folder)
        assert ended.exit_code == code, ended.stderr
        return ended.stdout if code == 0 else ended.stderr

    return run_command


async def shows(service: AsyncService, path: str, text: bytes) -> bool:
    """Whether a page of the service has a text."""
    return text in (await service.fetch(path)).body


@pytest_twisted.ensureDeferred
async def test_the_first_lines(service: AsyncService) -> None:
    """`make run` says what README shows, except times and addresses."""
    _, shown = command_with("make run")
    await service.program.wait_for_text("workloads: ")

    def plain(line: str) -> str:
        text = line.split("Z", 1)[1].strip().replace(service.web[0], "127.0.0.1:9400")
        text = text.replace(str(Path(service.web[1]).parent), "/tmp/fakedev-1000")
        return re.sub(r" \((\.\.\.|curl [^)]*)\)", "", text)

    # README leaves out what cannot be foreseen (the time it took and the like).
    said = [plain(line) for line in service.program.stderr.splitlines()]
    assert [plain(line) for line in shown if line != "..."] == said[: len(shown) - 1]


@pytest.mark.requires_program("curl")
@pytest_twisted.ensureDeferred
async def test_look(service: AsyncService, shell: Shell) -> None:
    """The page: the same lines except the numbers."""
    command, shown = command_with("grep -m 3 GPU_UTIL")
    seen = (await shell(command, service)).splitlines()
    assert [line.rpartition(" ")[0] for line in seen] == [line.rpartition(" ")[0] for line in shown]
    assert (await service.fetch("/")).status == 200


@pytest_twisted.ensureDeferred
async def test_own_files(folder: Path, shell: Shell) -> None:
    """A counters file, an identity and a device: the lines are those that README shows."""
    (folder / "etc").symlink_to(ROOT / "etc")
    command, shown = command_with("etc/own")
    assert (await shell(command)).splitlines() == shown


@pytest_twisted.ensureDeferred
async def test_put_work_on_a_device(service: AsyncService, folder: Path, start_async: StartAsync) -> None:
    """The session with netcat, line by line."""
    command, session = command_with("nc -U")
    require_program("nc")
    said = [line for line in session if line.startswith(("run ", "devices "))]
    answers = [line for line in session if line not in said]
    command = command.replace("/tmp/fakedev-$(id -u)", str(folder / "run"))
    person = start_async(["sh", "-c", f"exec {command}"], descriptors={0: "w"})
    person.write(f"{said[0]}\n")
    await eventually(lambda: shows(service, "/metrics", b"my-pod-0"), "the pod is seen")
    person.write(f"{said[1]}\n")
    await person.wait_for_lines(3)
    await service.fetch("/api/v1/clock", {"advance": "15s"})
    heard = await person.wait_for_lines(4)

    def without_numbers(line: str) -> str:
        return re.sub(r"=[0-9.]+", "=N", line.strip())

    assert [without_numbers(line) for line in heard] == [without_numbers(line) for line in answers]


@pytest.mark.requires_program("curl")
@pytest_twisted.ensureDeferred
async def test_from_a_script_and_over_http(service: AsyncService, shell: Shell) -> None:
    """fakedev-workload and its exit code; a workload by POST and DELETE; the clock."""
    command, _ = command_with("fakedev-workload -socket /tmp/fakedev-$(id -u)/workload.sock -devnames")
    status, shown = command_with("echo $?")
    assert (await shell(f"{command} 2> /dev/null; {status}", service)).splitlines() == shown == ["0"]
    command, shown = command_with("api/v1/workloads -d")
    started = await shell(command, service)
    described = json.loads(started)
    beginning = re.sub(r"w\d+", "wN", shown[0].removesuffix("..."))
    assert re.sub(r'"w\d+"', '"wN"', started).startswith(beginning)
    command, shown = command_with("-X DELETE")
    stopped = await shell(command, service)
    assert json.loads(stopped) == {"stopped": [described["id"]]}
    assert re.sub(r"\d+", "N", stopped.strip()) == re.sub(r"\d+", "N", shown[0])
    command, _ = command_with("api/v1/clock")
    before = (await service.get_json("/api/v1/clock"))["tick"]
    assert json.loads(await shell(command, service))["tick"] >= before + 900


@pytest_twisted.ensureDeferred
async def test_work_from_a_queue(service: AsyncService, folder: Path, start_async: StartAsync) -> None:
    """A frontend, a backend that runs fakedev-workload, and the session of a client, line by line."""
    frontend, _ = command_with("fakedev-frontend gpu")
    backend, _ = command_with("fakedev-backend")
    _, (said, *answers) = command_with("nc localhost 9997")
    clients, backends = folder / "clients.sock", folder / "backends.sock"
    frontend = frontend.replace("gpu &", f"-caddr {clients} -waddr {backends} -maddr localhost:0 gpu")
    backend = backend.replace("-name", f"-faddr {backends} -name").replace("/tmp/fakedev-$(id -u)", str(folder / "run"))
    await start_async(["sh", "-c", f"exec {frontend}"], folder=folder).wait_for_text("backends of the queues")
    start_async(["sh", "-c", f"exec {backend.removesuffix(' &')}"], folder=folder)
    async with await connected(str(clients)) as client:
        heard = [await client.say(said)]
        await eventually(lambda: shows(service, "/api/v1/workloads", b'"Workload"'), "the workload runs")
        await service.fetch("/api/v1/clock", {"advance": "1m"})
        heard.append(await client.line())

    def without_values(line: str) -> str:
        return re.sub(r"(seconds|pod|node)=\S+", r"\1=", line)

    assert [without_values(line) for line in heard] == [without_values(line) for line in answers]


@pytest_twisted.ensureDeferred
async def test_load_on_the_queue(service: AsyncService, folder: Path, start_async: StartAsync, shell: Shell) -> None:
    """The client's run on the same queue, with its last lines and its report."""
    frontend, _ = command_with("fakedev-frontend gpu")
    backend, _ = command_with("fakedev-backend")
    client, shown = command_with("fakedev-client")
    clients, backends = folder / "clients.sock", folder / "backends.sock"
    frontend = frontend.replace("gpu &", f"-caddr {clients} -waddr {backends} -maddr localhost:0 gpu")
    backend = backend.replace("-name", f"-faddr {backends} -name").replace("/tmp/fakedev-$(id -u)", str(folder / "run"))
    await start_async(["sh", "-c", f"exec {frontend}"], folder=folder).wait_for_text("backends of the queues")
    start_async(["sh", "-c", f"exec {backend.removesuffix(' &')}"], folder=folder)
    printed = (await shell(client.replace("-name", f"-faddr {clients} -name"))).splitlines()

    def without_value(line: str) -> str:
        return re.sub(r"\(.*\)", "", line)

    assert [without_value(line) for line in printed[-2:]] == [without_value(line) for line in shown[-2:]]
    assert (folder / "load.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest_twisted.ensureDeferred
async def test_move_time(shell: Shell, folder: Path) -> None:
    """Pages of an hour without a service."""
    command, _ = command_with("render --for 1h")
    await shell(command)
    assert (folder / "hour.txt").read_text().count("# page tick=") == 241


@pytest_twisted.ensureDeferred
async def test_make_it_yours(shell: Shell, folder: Path, start_async: StartAsync) -> None:
    """The file that README shows is good and serves; its two mistakes are reported with their lines."""
    _, text = command_with("cat my.yaml")
    (folder / "my.yaml").write_text("\n".join(text) + "\n")
    checks = [command for command in TOUR if "--check" in command]
    assert (await shell(checks[0])).splitlines() == TOUR[checks[0]]
    (command,) = (command for command in TOUR if command.endswith("serve --config my.yaml"))
    start = ["sh", "-c", f"exec {command} --set web.0=127.0.0.1:0 --ready-file ready.json"]
    service = await ready(start_async(start, folder=folder), folder / "ready.json")
    assert (await service.fetch("/metrics")).body.count(b"\nDCGM_FI_DEV_GPU_TEMP{") == 32
    assert (folder / "workload.sock").is_socket()
    assert await service.program.stop() == 0
    problems = (await shell(checks[1], code=2)).splitlines()
    assert [problem.split(" ")[0] for problem in problems] == ["my.yaml:4:"] * 2
    assert TOUR[checks[1]][0].startswith("my.yaml:4: ")


@pytest_twisted.ensureDeferred
async def test_record_and_run_again(shell: Shell, folder: Path, start_async: StartAsync) -> None:
    """A record is made, stopped by ^C, and run again."""
    command, _ = command_with("serve --record")
    environment = clean_environment(RUNTIME_DIRECTORY=str(folder / "run"))
    command = command.partition("#")[0]
    start = ["sh", "-c", f"exec {command} --set web.0=127.0.0.1:0 --ready-file ready.json"]
    service = await ready(start_async(start, folder=folder, environment=environment), folder / "ready.json")
    async with await service.connect() as peer:
        await peer.say("run x devices=dgx-0/7 profile=80:5:0")
        await service.fetch("/api/v1/clock", {"advance": "1m"})
        page = await service.fetch("/metrics")
    assert await service.program.stop(2) == 0
    command, _ = command_with("render --events")
    printed = await shell(command)
    assert printed.count("# page tick=") == 6
    tick = page.headers["x-fakedev-tick"]
    again = await shell(f".venv/bin/fakedev render --events run.jsonl --for {tick}s --every {tick}s")
    assert again.encode().endswith(page.body)


@pytest_twisted.ensureDeferred
async def test_discovery_of_the_tour(service: AsyncService) -> None:
    """The path that the Prometheus configuration names."""
    (url,) = re.findall(r'url: "http://127.0.0.1:9400(/\S+)"', README)
    assert [target["labels"]["node"] for target in await service.get_json(url)] == ["dgx-0"]


def test_links() -> None:
    """Every file that README links to is there."""
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in link]
    assert [link for link in links if not (ROOT / link).exists()] == []
