"""What tests of real programs have beside the others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred

from tests.support.programs.browser import Browser, Chromium
from tests.support.programs.processes import require_program


@pytest.fixture
def tmp_path(short_folder: Path) -> Path:
    """A folder of this test alone, in which sockets can be whatever the temporary folder of the tests is."""
    folder = short_folder / "t"
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
