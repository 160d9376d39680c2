"""What tests of programs of the tester share."""

from __future__ import annotations

from pathlib import Path

import pytest_twisted

from tests.support.programs.load import Stand
from tests.support.programs.processes import StartAsync


@pytest_twisted.async_fixture
async def stand(start_async: StartAsync, tmp_path: Path) -> Stand:
    """A frontend that runs, on free ports."""
    stand = Stand(start_async, tmp_path)
    await stand.start_frontend()
    return stand
