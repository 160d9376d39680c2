"""What tests of the pytest plugin have in common."""

from __future__ import annotations

import pytest

from tests.support.paths import ROOT


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty project that finds this fakedev."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
