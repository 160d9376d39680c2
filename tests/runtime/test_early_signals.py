"""Early signals: what ends the program, what is remembered, and who gets it later."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from fakedev.runtime.early import EarlySignals
from tests.support.application import application

NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """Handlers as they were."""
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_what_is_remembered_is_delivered_once() -> None:
    """To the handlers of that time, in order; without another handler it is dropped."""
    assert EarlySignals.installed() is None
    early = EarlySignals(())
    early.install()
    assert EarlySignals.installed() is early
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.raise_signal(number)
    received: list[int] = []
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda number, _: received.append(number))
    early.deliver()
    early.deliver()
    assert received == [signal.SIGHUP, signal.SIGTERM]


@pytest.mark.slow
def test_an_application_that_listens_stops_in_order() -> None:
    """Between listening and the reactor's start nothing is ended at once: sockets and record would stay."""
    early = EarlySignals((signal.SIGTERM, signal.SIGINT))
    early.install()
    with application() as app:
        signal.raise_signal(signal.SIGTERM)  # would end this process, had the application not started
        received: list[int] = []
        signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
        app.reactor.run()
        assert received == [signal.SIGTERM]
