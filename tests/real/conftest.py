"""What tests of real programs have beside the others."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def tmp_path(short_folder: Path) -> Path:
    """A folder of this test alone, in which sockets can be whatever the temporary folder of the tests is."""
    folder = short_folder / "t"
    folder.mkdir()
    return folder
