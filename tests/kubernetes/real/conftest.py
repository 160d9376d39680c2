"""What tests of clusters have beside the other real ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_twisted

from tests.support.kube.node_program import NodeProgram
from tests.support.programs.processes import (
    StartAsync,
)


@pytest_twisted.async_yield_fixture
async def node(short_folder: Path, start_async: StartAsync) -> AsyncIterator[NodeProgram]:
    """A node whose kubelet does not run yet."""
    made = NodeProgram(short_folder, start_async)
    yield made
    await made.close()
