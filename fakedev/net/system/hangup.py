"""What SIGHUP does: never end the program by default, as the signal otherwise would."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

from twisted.application.service import Service


class HangupService(Service):
    """Calls ``action`` in the reactor whenever SIGHUP comes, from start to stop."""

    def __init__(self, reactor: Any, action: Callable[[], None]) -> None:
        self.setName("hangup")
        self._reactor = reactor
        self._action = action

    def startService(self) -> None:
        """Catch the signal."""
        super().startService()
        signal.signal(signal.SIGHUP, lambda *_: self._reactor.callFromThread(self._action))

    def stopService(self) -> None:
        """Ignore it while the program ends: a terminal that closes sends both."""
        super().stopService()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
