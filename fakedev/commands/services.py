"""Entry points of the drop-ins that run until a signal: they handle signals before they import anything else."""

from __future__ import annotations

import signal
from importlib import import_module

from fakedev.app.early_signals import EarlySignals


def exporter() -> int:
    """fakedev-exporter."""
    return _run("exporter", signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def dcgm_exporter() -> int:
    """fakedev-dcgm-exporter."""
    return _run("dcgm_exporter", signal.SIGTERM, signal.SIGINT)


def frontend() -> int:
    """fakedev-frontend."""
    return _run("frontend", signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def backend() -> int:
    """fakedev-backend."""
    return _run("backend", signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def client() -> int:
    """fakedev-client: it judges its run, also one that ends before it began."""
    return _run("client")


def _run(module: str, *ends: int) -> int:
    EarlySignals(ends).install()
    code: int = import_module(f"fakedev.commands.dropins.{module}").main()
    return code
