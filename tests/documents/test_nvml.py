"""What doc/nvml.md says of numbers."""

from __future__ import annotations

from fakedev.nvml.library import defined_functions, sources
from tests.support.paths import DOCUMENTS


def test_how_many_functions_answer() -> None:
    """The page has the number."""
    stubs = sources().pop("stubs.c")
    count = len(defined_functions(text for name, text in sources().items() if name != "stubs.c"))
    assert stubs.count("\nSTUB(") + count == 405
    assert f"{count} of 405 functions answer from the state" in (DOCUMENTS / "nvml.md").read_text(encoding="utf-8")
