"""README's minute and the first ten of doc/start.md, as they are written there; only addresses and folders differ."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import pytest_twisted

from tests.support.documents.snippets import commands
from tests.support.paths import ROOT
from tests.support.programs.asynchronous import AsyncService, eventually, ready
from tests.support.programs.processes import AsyncProgram, StartAsync, clean_environment, console, require_program, run

pytestmark = pytest.mark.real

README = ROOT / "README.md"
START = (ROOT / "doc" / "start.md").read_text(encoding="utf-8")
TOUR = {command.text: command.shown for page in (README, ROOT / "doc" / "start.md") for command in commands(page)}
Shell = Callable[..., Awaitable[str]]


def command_with(text: str) -> tuple[str, list[str]]:
    """The command of the tour that holds a text, and what is shown below it."""
    (command,) = (command for command in TOUR if text in command)
    return command, TOUR[command]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that looks like the checkout after `make run`: with the programs in .venv/bin."""
    with TemporaryDirectory(prefix="fakedev-", dir="/tmp") as folder:
        programs = Path(folder, ".venv", "bin")
        programs.mkdir(parents=True)
        python, _, code = console("fakedev")
        (programs / "fakedev").write_text(f'#!/bin/sh\nexec \'{python}\' -c "{code}" "$@"\n')
        (programs / "fakedev").chmod(0o755)
        yield Path(folder)


@pytest_twisted.async_yield_fixture(scope="module")
async def service(folder: Path) -> AsyncIterator[AsyncService]:
    """The built-in demo, as `make run` starts it, on a free port: one for the whole tour, as readers have it."""
    file = folder / "demo.json"
    options = ["--ready-file", str(file), "--set", "web.0=127.0.0.1:0"]
    environment = clean_environment(RUNTIME_DIRECTORY=str(folder / "run"))
    program = AsyncProgram([*console("fakedev"), "serve", *options], environment=environment, folder=folder)
    yield await ready(program, file)
    await program.kill()


@pytest.fixture
def shell(start_async: StartAsync, folder: Path) -> Shell:
    """Runs a command of the tour in the folder; what it prints."""

    async def run_command(command: str, service: AsyncService | None = None, code: int = 0) -> str:
        environment = None
        if service is not None:
            command = command.partition("  #")[0].replace("localhost:9400", service.web[0])
            environment = clean_environment(FAKEDEV_URL=f"http://{service.web[0]}")
        ended = await run(start_async, "sh", "-c", command, folder=folder, environment=environment)
        assert ended.exit_code == code, ended.stderr
        return ended.stdout if code == 0 else ended.stderr

    return run_command


async def shows(service: AsyncService, path: str, text: bytes) -> bool:
    """Whether a page of the service has a text."""
    return text in (await service.fetch(path)).body


@pytest_twisted.ensureDeferred
async def test_the_first_lines(service: AsyncService) -> None:
    """`make run` says what doc/start.md shows, except times and addresses."""
    shown = TOUR["make run"]
    await service.program.wait_for_text("workloads: ")

    def plain(line: str) -> str:
        text = line.split("Z", 1)[1].strip().replace(service.web[0], "127.0.0.1:9400")
        text = text.replace(str(Path(service.web[1]).parent), "/tmp/fakedev-1000")
        return re.sub(r" \((\.\.\.|curl [^)]*)\)", "", text)

    # The page leaves out what cannot be foreseen (the time it took and the like).
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
async def test_put_work_on_a_device(service: AsyncService, folder: Path, start_async: StartAsync) -> None:
    """The session with netcat, line by line."""
    command, session = command_with("nc -U")
    require_program("nc")
    said = [line for line in session if line.startswith(("run ", "devices "))]
    answers = [line for line in session if line not in said]
    command = command.replace("/tmp/fakedev-$(id -u)", str(folder / "run"))
    # The job takes 15 seconds: on a busy machine it would end before the next line is typed.
    await service.fetch("/api/v1/clock", {"speed": 0}, "PATCH")
    person = start_async(["sh", "-c", f"exec {command}"], descriptors={0: "w"})
    person.write(f"{said[0]}\n")
    await person.wait_for_lines(1)
    await service.fetch("/api/v1/clock", {"advance": "2s"})
    await eventually(lambda: shows(service, "/metrics", b"my-pod-0"), "the pod is seen")
    person.write(f"{said[1]}\n")
    await person.wait_for_lines(3)
    await service.fetch("/api/v1/clock", {"advance": "15s"})
    heard = await person.wait_for_lines(4)
    await service.fetch("/api/v1/clock", {"speed": 1}, "PATCH")

    def without_numbers(line: str) -> str:
        return re.sub(r"(=|^ok w)[0-9.]+", r"\1N", line.strip())

    assert [without_numbers(line) for line in heard] == [without_numbers(line) for line in answers]


@pytest_twisted.ensureDeferred
async def test_break_something(service: AsyncService, shell: Shell) -> None:
    """A fan fault and what it changes: the lines are those of the page, except numbers."""
    fault, advance = command_with("fault fan"), command_with("advance 10m")
    why, clear = command_with("fakedev why"), command_with("clear all")
    for command, shown in (fault, advance, why, clear):
        printed = await shell(command, service)
        assert [re.sub(r"\d+", "N", line) for line in printed.splitlines()] == [
            re.sub(r"\d+", "N", line) for line in shown
        ]


@pytest.mark.requires_program("curl")
@pytest_twisted.ensureDeferred
async def test_one_minute(service: AsyncService, shell: Shell) -> None:
    """README: a page, work, a fault, and what they change."""
    command, shown = command_with("grep -c")
    assert (await shell(command, service)).splitlines() == shown
    command, shown = command_with("api/v1/workloads -d")
    started = re.sub(r'"w\d+"', '"wN"', await shell(command, service))
    assert started.startswith(re.sub(r"w\d+", "wN", shown[0].removesuffix("...")))
    command, (fault,) = command_with("fault lost")
    assert re.fullmatch(re.sub(r"\d+", r"\\d+", fault), (await shell(command, service)).strip())
    await service.fetch("/api/v1/clock", {"advance": "1s"})
    command, (_, *shown) = command_with("fakedev status")
    assert set(shown) <= set((await shell(command, service)).splitlines())


@pytest_twisted.ensureDeferred
async def test_make_it_yours(shell: Shell, folder: Path, start_async: StartAsync) -> None:
    """The file that doc/start.md shows is good and serves; its two mistakes are reported with their lines."""
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
async def test_discovery_of_the_tour(service: AsyncService) -> None:
    """The path that the Prometheus configuration names."""
    (url,) = re.findall(r'url: "http://127.0.0.1:9400(/\S+)"', START)
    assert [target["labels"]["node"] for target in await service.get_json(url)] == ["dgx-0"]
