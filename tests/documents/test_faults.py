"""doc/faults.md says what the faults do."""

from __future__ import annotations

import pytest

from tests.support.documents.fault_table import PAGE, with_tables


@pytest.mark.slow
def test_the_tables() -> None:
    """They match the program; ``python -m tests.support.documents.fault_table`` brings them up to date."""
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page) == page, "run PYTHONPATH=. python -m tests.support.documents.fault_table"
