"""Work beside the reactor: in a thread that gives way soon."""

from __future__ import annotations

import sys

from twisted.trial.unittest import SynchronousTestCase

from fakedev.net.system.threads import call_in_thread
from tests.support.application import AppReactor


class AsideTests(SynchronousTestCase):
    """What is done beside the reactor."""

    def test_threads_give_way_sooner_meanwhile(self) -> None:
        """As long as the work lasts, and no longer."""
        usual = sys.getswitchinterval()
        meanwhile = self.successResultOf(call_in_thread(AppReactor(), sys.getswitchinterval))
        self.assertLess(meanwhile, usual / 10)
        self.assertEqual(sys.getswitchinterval(), usual)

    def test_work_that_fails(self) -> None:
        """The failure is handed on, and threads are as before."""
        usual = sys.getswitchinterval()
        self.failureResultOf(call_in_thread(AppReactor(), lambda: 1 // 0), ZeroDivisionError)
        self.assertEqual(sys.getswitchinterval(), usual)
