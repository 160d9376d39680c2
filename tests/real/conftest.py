"""What tests of real programs have beside the others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_twisted

from tests.support.programs.browser import Browser, Chromium
from tests.support.programs.processes import require_program


@pytest.fixture
def tmp_path(short_folder: Path) -> Path:
    """A folder of this test alone, in which sockets can be whatever the temporary folder of the tests is."""
    folder = short_folder / "t"
    folder.mkdir()
    return folder


@pytest_twisted.async_yield_fixture(scope="module")
async def chromium(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Chromium]:
    """A browser for all tests of a file: it takes longer to start than a service."""
    running = Chromium(require_program("chromium"), tmp_path_factory.mktemp("browser"))
    yield running
    await running.kill()


@pytest_twisted.async_yield_fixture
async def browser(chromium: Chromium) -> AsyncIterator[Browser]:
    """A tab with an empty profile."""
    tab = await chromium.tab(width=1400)
    yield tab
    await tab.close()
