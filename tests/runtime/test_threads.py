"""Work beside the reactor: in a thread that gives way soon."""

from __future__ import annotations

import sys

import pytest

from fakedev.runtime.threads import call_in_thread
from tests.support.application import AppReactor
from tests.support.deferreds import failure_result_of, success_result_of


class TestAside:
    """What is done beside the reactor."""

    def test_threads_give_way_sooner_meanwhile(self) -> None:
        """As long as the work lasts, and no longer."""
        usual = sys.getswitchinterval()
        meanwhile = success_result_of(call_in_thread(AppReactor(), sys.getswitchinterval))
        assert meanwhile < usual / 10
        assert sys.getswitchinterval() == usual

    @pytest.mark.slow
    def test_work_that_fails(self) -> None:
        usual = sys.getswitchinterval()
        failure_result_of(call_in_thread(AppReactor(), lambda: 1 // 0), ZeroDivisionError)
        assert sys.getswitchinterval() == usual
