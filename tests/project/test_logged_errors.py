"""What guards all tests: a logged error fails the test that logged it; a failed fixture fails no other test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from twisted.internet.defer import Deferred, fail, succeed

from tests.support.deferreds import assert_no_result, failure_result_of, success_result_of
from tests.support.paths import ROOT

TESTS = """
import pytest_twisted
from twisted.internet.defer import fail
from twisted.logger import Logger

log = Logger()

def test_error_event(): log.error("an event without a failure")
def test_critical_event(): log.critical("critical")
def test_failure():
    try: raise ValueError
    except ValueError: log.failure("failed")
def test_lost(): fail(ValueError("lost"))
class TestLost:
    def test_attribute(self): self.lost = fail(ValueError("lost"))
@pytest_twisted.ensureDeferred
async def test_lost_in_the_reactor(): fail(ValueError("lost"))
def test_taken(logged_errors):
    log.critical("critical")
    assert logged_errors.take() == []
    assert logged_errors.take_critical() == ["critical"]
    test_failure()
    assert logged_errors.take(KeyError) == []
    assert len(logged_errors.take(ValueError, KeyError)) == 1
"""

FIXTURES = """
import pytest, pytest_twisted

broken = [True, False]

@pytest_twisted.async_yield_fixture(scope="module")
async def shared(): yield 1

@pytest_twisted.async_yield_fixture
async def service(shared):
    assert not broken.pop(0), "cannot start"
    yield 2

def test_without(service): pass
def test_with(service): assert service == 2
"""


def run_tests(path: Path, text: str, plugin: str) -> str:
    """What pytest prints about a file of tests, with one of our plugins."""
    path.write_text(text)
    command = [sys.executable, "-m", "pytest", "-rA", "-p", plugin, "-p", "no:cacheprovider", str(path)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
def test_a_fixture_that_fails_once(tmp_path: Path) -> None:
    """Its own test has an error with the reason; the next test with this fixture passes."""
    printed = run_tests(tmp_path / "test_some.py", FIXTURES, "tests.conftest")
    assert "AssertionError: cannot start" in printed
    assert "1 passed, 1 error" in printed


@pytest.mark.slow
def test_errors_that_are_not_taken_fail_their_test(tmp_path: Path) -> None:
    """Failures, critical events, and errors of Deferreds that no errback handled; each test answers for its own."""
    printed = run_tests(tmp_path / "test_some.py", TESTS, "tests.support.logged_errors")
    failed = {line.split("::", 1)[1].split(" - ")[0] for line in printed.splitlines() if line.startswith("ERROR ")}
    lost = {"test_lost", "TestLost::test_attribute", "test_lost_in_the_reactor"}
    assert failed == {"test_critical_event", "test_failure", *lost}, printed
    assert "7 passed, 5 errors" in printed


def test_what_a_deferred_has_now() -> None:
    """The helpers for Deferreds fail the test when the result is another one, or not there."""
    waiting: Deferred[int] = Deferred()
    assert_no_result(waiting)
    with pytest.raises(pytest.fail.Exception, match="found none"):
        success_result_of(waiting)
    waiting = Deferred()
    assert_no_result(waiting)
    waiting.callback(3)
    assert success_result_of(waiting) == 3
    with pytest.raises(pytest.fail.Exception, match="found 4"):
        assert_no_result(succeed(4))
    with pytest.raises(pytest.fail.Exception, match="found the result 4"):
        failure_result_of(succeed(4))
    with pytest.raises(pytest.fail.Exception, match="found a failure"):
        success_result_of(fail(ValueError()))
    with pytest.raises(pytest.fail.Exception, match="of kind KeyError"):
        failure_result_of(fail(ValueError()), KeyError)
    assert failure_result_of(fail(ValueError()), KeyError, ValueError).type is ValueError
