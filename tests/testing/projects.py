"""Projects of others that use the pytest plugin."""

from __future__ import annotations

import pytest

#: Without plugins of this environment that others may not have; ours is no:fakedev where it is installed.
ARGUMENTS = ("-p", "no:twisted", "-p", "no:schemathesis", "-p", "no:fakedev", "-p", "fakedev.pytest_plugin")


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run the tests of the project in a process of its own."""
    return pytester.runpytest_subprocess(*ARGUMENTS, *arguments)
