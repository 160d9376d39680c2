"""A test fails when an error was logged while it ran and the test did not take it.

That includes errors in Deferreds that no errback handled: Twisted logs them when the Deferred is freed.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.internet import defer
from twisted.logger import LogEvent, LogLevel, formatEvent, globalLogBeginner, globalLogPublisher
from twisted.python.failure import Failure


class LoggedErrors:
    """The failures, and the critical events, that were logged since the test began."""

    def __init__(self) -> None:
        self._events: list[LogEvent] = []

    def __call__(self, event: LogEvent) -> None:
        """Keep an event if it is an error (called by Twisted's log publisher)."""
        if event.get("log_failure") is not None or event.get("log_level") is LogLevel.critical:
            self._events.append(event)

    def take(self, *kinds: type[BaseException]) -> list[Failure]:
        """The logged failures of these kinds, oldest first, or all of them; they no longer fail the test."""
        taken = [event for event in self._events if _is_failure_of(event, kinds)]
        self._events = [event for event in self._events if event not in taken]
        return [event["log_failure"] for event in taken]

    def take_critical(self) -> list[str]:
        """The texts of critical events without a failure, oldest first; they no longer fail the test."""
        taken = [event for event in self._events if event.get("log_failure") is None]
        self._events = [event for event in self._events if event not in taken]
        return [formatEvent(event) for event in taken]

    def __str__(self) -> str:
        """What was not taken; empty if nothing is left."""
        return "\n".join(_text_of(event) for event in self._events)


_KEY = pytest.StashKey[LoggedErrors]()


@pytest.fixture
def logged_errors(request: pytest.FixtureRequest) -> LoggedErrors:
    """The errors logged during the test; a test that expects some takes them."""
    return request.node.stash[_KEY]  # type: ignore[no-any-return]


@pytest.fixture
def log_events() -> Iterator[list[LogEvent]]:
    """All events that are logged from here to the end of the test, oldest first."""
    events: list[LogEvent] = []
    globalLogPublisher.addObserver(events.append)
    yield events
    globalLogPublisher.removeObserver(events.append)


class FailedDeferred(defer.DebugInfo):
    """Twisted makes one for each Deferred that fails, and logs when it is freed and no errback handled the failure."""

    made = 0

    def __init__(self) -> None:
        FailedDeferred.made += 1


class Garbage:
    """Collects garbage after each test in which a Deferred failed, and leaves out what will stay.

    A collection takes some milliseconds, and several hundred without leaving things out: too much after every test.
    """

    #: A collection that takes longer looks at too much that stays.
    MAX_SECONDS = 0.02

    def __init__(self) -> None:
        self._is_slow = True
        self._path: Path | None = None
        self._seen = 0
        defer.DebugInfo = FailedDeferred  # type: ignore[misc]

    def collect(self) -> None:
        """Free the failed Deferreds that the last test left."""
        if self._seen == FailedDeferred.made:
            return
        self._seen = FailedDeferred.made
        began = time.process_time()
        gc.collect()
        self._is_slow = time.process_time() - began > self.MAX_SECONDS

    def leave_out(self, path: Path) -> None:
        """Before the first test of a file: look no more at what is there now, if that is much."""
        # Not before each test: frozen objects are never freed, and some of them belong to tests that have ended.
        if self._is_slow and path != self._path:
            gc.collect()
            gc.freeze()
        self._path = path


_garbage = Garbage()


def pytest_configure() -> None:
    """Let Twisted keep no events.

    Until a program says where its log goes, the last 65,536 events are kept, and with them the service of each test
    that logged one.
    """
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Collect no garbage while tests are collected: nearly all that this makes stays, and is looked at many times."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Begin to observe the log, before any fixture is set up."""
    _garbage.leave_out(item.path)
    item.stash[_KEY] = LoggedErrors()
    globalLogPublisher.addObserver(item.stash[_KEY])
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """After all fixtures are gone: fail the test for errors that it did not take."""
    try:
        return (yield)
    finally:
        # pytest would keep the attributes of the test's object, and the Deferreds in them, to the end of the session.
        if (instance := getattr(item, "instance", None)) is not None:
            vars(instance).clear()
        getattr(item, "funcargs", {}).clear()
        _garbage.collect()
        errors = item.stash[_KEY]
        globalLogPublisher.removeObserver(errors)
        if text := str(errors):
            pytest.fail(f"errors were logged that the test did not take:\n{text}", pytrace=False)


def _is_failure_of(event: LogEvent, kinds: tuple[type[BaseException], ...]) -> bool:
    failure = event.get("log_failure")
    return failure is not None and (not kinds or bool(failure.check(*kinds)))


def _text_of(event: LogEvent) -> str:
    failure = event.get("log_failure")
    return f"{formatEvent(event)}\n{failure.getTraceback() if failure is not None else ''}".rstrip()
