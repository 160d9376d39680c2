"""What all tests share: markers for real programs, and a fixture that starts them and always ends them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred

from tests.support.examples import load_profile
from tests.support.programs.browser import Browser, Chromium
from tests.support.programs.processes import AsyncProgram, StartAsync, require_program

pytest_plugins = ["tests.support.logged_errors"]


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known, and give property tests the time they need."""
    load_profile()
    # gRPC's threads run in this process while tests start programs. Its handlers for forks would start threads in the
    # new process before it becomes the program, and abort it. gRPC reads this when it is used first.
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    config.addinivalue_line(
        "markers",
        "requires_program(name, ...): needs programs of the system; skipped without them, "
        "or failed when FAKEDEV_REQUIRE_REAL is set",
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip or fail what needs a program that is not there."""
    for marker in item.iter_markers("requires_program"):
        for name in marker.args:
            require_program(name)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run synchronous tests without the reactor; pytest-twisted runs those that its decorators mark.

    pytest-twisted 1.14.3 would run all of them inside its reactor, and fails for property tests with parameters.
    """
    if hasattr(pyfuncitem.obj, "_pytest_twisted_mark"):
        return None
    pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames})
    return True


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Note that a fixture failed, as pytest does.

    pytest-twisted 1.14.3 does not; then each later test with this fixture fails with an AssertionError of pytest.
    """
    try:
        return (yield)
    except BaseException as error:
        if fixturedef.cached_result is None:
            fixturedef.cached_result = None, fixturedef.cache_key(request), (error, error.__traceback__)
        raise


@pytest.fixture
def misuse(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Calls the main function of a program with arguments that it ends for, with 2; what it says of that."""

    def said(main: Callable[[list[str]], object], *arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        assert ended.value.code == 2
        return capsys.readouterr().err

    return said


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder for UNIX sockets: its path is short and without a space, wherever the tests keep their other files."""
    with TemporaryDirectory(prefix="fakedev-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture(autouse=True, scope="session")
def default_socket_folder() -> Iterator[None]:
    """A default socket folder of the tests of this process: another fakedev of the same user may run meanwhile."""
    with TemporaryDirectory(prefix="fakedev-", dir="/tmp") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", folder)
        patch.delenv("RUNTIME_DIRECTORY", raising=False)
        yield


@pytest.fixture(autouse=True)
def socket_folder_of_real_programs(request: pytest.FixtureRequest) -> None:
    """A separate default socket folder for each test of real programs."""
    if request.node.get_closest_marker("real"):
        folder = str(request.getfixturevalue("short_folder"))
        request.getfixturevalue("monkeypatch").setenv("XDG_RUNTIME_DIR", folder)


@pytest_twisted.async_yield_fixture
async def start_async() -> AsyncIterator[StartAsync]:
    """Starts real programs as ``processes.AsyncProgram(command, ...)`` does, and ends all of them with the test."""
    started: list[AsyncProgram] = []

    def start(command: list[str], **options: Any) -> AsyncProgram:
        started.append(AsyncProgram(command, **options))
        return started[-1]

    yield start
    for program in started:
        await program.kill()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder of this test alone; for a test of real programs one in which a socket's path is short."""
    if request.node.get_closest_marker("real") is None:
        return tmp_path
    folder = Path(request.getfixturevalue("short_folder")) / "t"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """A browser for all tests of a process: it takes longer to start than a service, and each tab has its profile.

    It is no coroutine: pytest-twisted 1.14.3 has none for a session.
    """
    running = Chromium(require_program("chromium"), tmp_path_factory.mktemp("browser"))
    yield running
    pytest_twisted.blockon(Deferred.fromCoroutine(running.kill()))


@pytest_twisted.async_yield_fixture
async def browser(chromium: Chromium) -> AsyncIterator[Browser]:
    """A tab with an empty profile."""
    tab = await chromium.tab(width=1400)
    yield tab
    await tab.close()
