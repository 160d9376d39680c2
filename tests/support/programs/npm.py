"""Programs of npm in tests: installed from its registry into the folder of a test, each of a fixed version."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.programs.processes import StartAsync


async def install(start_async: StartAsync, folder: Path, *packages: str) -> Path:
    """Install packages; the folder of their programs.

    Without npm or its registry the test is skipped, also in continuous integration, which does not install them.

    :param packages: each as ``NAME@VERSION``.
    """
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("there is no npm, or no node")
    options = ["--prefix", str(folder), "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"]
    npm = start_async(["npm", "install", *options, *packages], folder=folder)
    if await npm.wait() != 0:
        pytest.skip(f"npm cannot install {' '.join(packages)}: {npm.stderr[-500:]}")
    return folder / "node_modules" / ".bin"
