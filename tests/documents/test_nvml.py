"""The tables of doc/nvml.md, and what it says of numbers."""

from __future__ import annotations

from fakedev.nvml.library import defined_functions, sources
from tests.support.documents.nvml_layout import PAGE, with_tables


def test_tables_of_records() -> None:
    """They match the layout; ``python -m tests.support.documents.nvml_layout`` brings them up to date."""
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page) == page, "run PYTHONPATH=. python -m tests.support.documents.nvml_layout"


def test_how_many_functions_answer() -> None:
    """The page has the number."""
    stubs = sources().pop("stubs.c")
    count = len(defined_functions(text for name, text in sources().items() if name != "stubs.c"))
    assert stubs.count("\nSTUB(") + count == 405
    assert f"{count} of its 405 functions answer from the state" in PAGE.read_text(encoding="utf-8")
