"""What tests ask of Deferreds: the result that is there now, and one that comes within some time."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.python.failure import Failure

T = TypeVar("T")
#: No test waits longer for the reactor or a program, however slow the machine is.
PATIENCE_SECONDS = 300.0


def success_result_of(awaitable: Deferred[T] | Coroutine[Deferred[Any], Any, T]) -> T:
    """The result that a Deferred or coroutine has now; the test fails without one, or with a failure."""
    result = _current_result(awaitable)
    if isinstance(result, Failure):
        pytest.fail(f"expected a result of {awaitable!r}, found a failure:\n{result.getTraceback()}")
    return result


def failure_result_of(
    awaitable: Deferred[Any] | Coroutine[Deferred[Any], Any, Any], *kinds: type[BaseException]
) -> Failure:
    """The failure that a Deferred or coroutine has now; the test fails without one, or with one of another kind."""
    result = _current_result(awaitable)
    if not isinstance(result, Failure):
        pytest.fail(f"expected a failure of {awaitable!r}, found the result {result!r}")
    if kinds and not result.check(*kinds):
        names = ", ".join(kind.__name__ for kind in kinds)
        pytest.fail(f"expected a failure of kind {names}, found:\n{result.getTraceback()}")
    return result


def within(deferred: Deferred[T], seconds: float = PATIENCE_SECONDS) -> Deferred[T]:
    """The Deferred, which fails with TimeoutError if the real reactor does not call it back in time."""
    from twisted.internet import reactor  # noqa: PLC0415 - importing it installs it

    return deferred.addTimeout(seconds, reactor)


def assert_no_result(deferred: Deferred[Any]) -> None:
    """The Deferred has neither result nor failure yet. A later result passes through unchanged."""
    results: list[Any] = []

    def keep(result: Any) -> Any:
        results.append(result)
        return result

    deferred.addBoth(keep)
    if results:
        # The test reports this failure: the Deferred does not log it as well.
        deferred.addErrback(lambda _: None)
        pytest.fail(f"expected no result of {deferred!r} yet, found {results[0]!r}")


def _current_result(awaitable: Deferred[T] | Coroutine[Deferred[Any], Any, T]) -> T | Failure:
    results: list[T | Failure] = []
    ensureDeferred(awaitable).addBoth(results.append)
    if not results:
        pytest.fail(f"expected a result of {awaitable!r}, found none")
    return results[0]
