"""Entry points of the programs: they handle signals before they import anything else."""

from __future__ import annotations

import gc
import os
import signal
import sys
from functools import partial
from importlib import import_module

from fakedev.commands.dropins.addresses import addresses_of
from fakedev.runtime.early import EarlySignals, EarlySockets

#: With these options ``fakedev serve`` has a result, and a signal must not look like success.
_ONLY_CHECKS = {"--check", "--print-config"}


def fakedev() -> int:
    """fakedev, of whose subcommands ``serve`` runs until a signal; Ctrl-C ends the others at once."""
    if sys.argv[1:2] == ["serve"] and not _ONLY_CHECKS.intersection(sys.argv):
        EarlySignals((signal.SIGTERM, signal.SIGINT)).install()
        gc.disable()  # as below
        # NumPy asks for huge pages otherwise. A new one takes some milliseconds of a tick.
        os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")
    else:
        # Not an exception: an import could catch it.
        signal.signal(signal.SIGINT, lambda *_: os._exit(128 + signal.SIGINT))
    code: int = import_module("fakedev.commands.main").main()
    return code


def workload() -> int:
    early = EarlySignals((signal.SIGTERM, signal.SIGINT))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, early)
    code: int = import_module("fakedev.commands.workload.main").main()
    return code


def _run(module: str, *ends: int) -> int:
    """Run a drop-in, which listens on its addresses from the first moment.

    :param ends: the signals that end it while it starts.
    """
    early = EarlySignals(ends)
    early.install()
    early.sockets = sockets = EarlySockets(os.environ)
    for address, mode in addresses_of(module, sys.argv[1:], os.environ):
        sockets.listen(address, mode)
    # What is made until the reactor runs stays: CollectorSettings freezes it, and starts the collector.
    gc.disable()
    try:
        code: int = import_module(f"fakedev.commands.dropins.{module}").main()
    finally:
        sockets.remove_files()
    return code


#: The drop-ins, as setup.cfg names them. fakedev-client checks its run, also one that ends before it began.
exporter = partial(_run, "exporter", signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
dcgm_exporter = partial(_run, "dcgm_exporter", signal.SIGTERM, signal.SIGINT)
frontend = partial(_run, "frontend", signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
backend = partial(_run, "backend", signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
client = partial(_run, "client")
