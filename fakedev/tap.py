"""The entry of ``twistd fakedev``: its options and its service."""

from __future__ import annotations

import os
import signal
import sys

from fakedev.runtime.early import EarlySignals

# twistd imports this module when it is asked for fakedev, and what follows takes long. The handler of SIGINT stays:
# the reactor replaces no other.
if os.path.basename(sys.argv[0]) == "twistd":
    EarlySignals((signal.SIGTERM,), by_signal=True).install(besides=signal.SIGINT)

from fakedev.service.options import Options
from fakedev.service.service import makeService

__all__ = ["Options", "makeService"]
