"""Paths of files that tests read: the checkout, its documents, and the facts that may be beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = next(folder for folder in Path(__file__).resolve().parents if (folder / "setup.cfg").is_file())
DATA: Final = ROOT / "tests" / "data"
DOCUMENTS: Final = ROOT / "doc"
#: Facts about real exporters and the original programs. Not part of the project: tests that need them say so without.
FACTS: Final = ROOT.parent / "shared" / "facts"
GOLDEN: Final = FACTS / "golden"
ORIGINALS: Final = FACTS / "originals"
