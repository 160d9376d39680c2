"""Projects of others that use the pytest plugin."""

from __future__ import annotations

import pytest

#: Without plugins of this environment that others may not have: hypothesis and anyio double the time that pytest
#: takes to start, schemathesis doubles it again. Ours is no:fakedev where it is installed.
PLUGINS = tuple(
    word
    for plugin in ("no:schemathesis", "no:hypothesispytest", "no:anyio", "no:fakedev", "fakedev.pytest_plugin")
    for word in ("-p", plugin)
)
ARGUMENTS = ("-p", "no:twisted", *PLUGINS)


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run the tests of the project in a process of its own."""
    return pytester.runpytest_subprocess(*ARGUMENTS, *arguments)
