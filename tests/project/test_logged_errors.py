"""The guard of all tests: an error that is logged and not taken fails the test that logged it."""

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


@pytest.mark.slow
def test_errors_that_are_not_taken_fail_their_test(tmp_path: Path) -> None:
    """Failures, critical events, and errors of Deferreds that no errback handled; each test answers for its own."""
    path = tmp_path / "test_some.py"
    path.write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "tests.support.logged_errors", "-p", "no:cacheprovider"]
    run = subprocess.run([*command, str(path)], cwd=ROOT, capture_output=True, text=True, check=False)
    failed = {line.split("::", 1)[1].split(" - ")[0] for line in run.stdout.splitlines() if line.startswith("ERROR ")}
    lost = {"test_lost", "TestLost::test_attribute", "test_lost_in_the_reactor"}
    assert failed == {"test_critical_event", "test_failure", *lost}, run.stdout
    assert "7 passed, 5 errors" in run.stdout


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
