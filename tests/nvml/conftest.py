"""What tests of NVML share: the service in memory with a file, and what reads that file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.application import MemoryApplication, application
from tests.support.driver.nvidia_smi import Command
from tests.support.driver.nvml import bindings, boards


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the file is, or will be."""
    return tmp_path / "nvml.map"


@pytest.fixture
def app(file: Path) -> Iterator[MemoryApplication]:
    """The service, which writes the file."""
    with application(boards(file)) as running:
        yield running


@pytest.fixture
def smi(app: MemoryApplication, file: Path) -> Command:
    """The simulated nvidia-smi beside the service."""
    return Command(file)


@pytest.fixture
def pynvml(app: MemoryApplication, file: Path) -> Iterator[Any]:
    """NVIDIA's bindings beside the service, initialised."""
    with bindings(file) as module:
        module.nvmlInit()
        yield module
