"""Composition of remote write: a history that is sent to a server, until it is there, is refused, or a signal comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import random
from typing import Any, NamedTuple

from fakedev.app.runner import run_task
from fakedev.net.scenario.history_sender import HistorySender, SendProgress
from fakedev.net.scenario.remote_write import RemoteWriteError, RemoteWriter, without_credentials
from fakedev.scenario.remote_write import SnappyMissing, snappy
from fakedev.scenario.samples import Stored


class SendEnd(NamedTuple):
    """How it ended.

    :ivar samples: how many samples and markers the server has taken.
    :ivar problem: why it ended early; empty when all is sent.
    :ivar signal_name: the signal that stopped it; empty for none.
    """

    samples: int
    problem: str
    signal_name: str


def send_progress(path: str, history: str, url: str, begin_seconds: float) -> SendProgress:
    """How far a history has been sent; the parameters are those of SendProgress.

    :raises ValueError: when the URL, or the file, cannot be used.
    """
    try:
        plain, _ = without_credentials(url)
    except RemoteWriteError as error:
        raise ValueError(str(error)) from None
    return SendProgress(path, history, plain, begin_seconds).of_file()


def send_history(
    history: Iterable[Stored | None],
    progress: SendProgress,
    url: str,
    *,
    token: str = "",
    on_wait: Callable[[str, float], None] = lambda problem, seconds: None,
    done: Callable[[], None] = lambda: None,
) -> SendEnd:
    """Send a history by remote write, from where its progress is.

    :param history: made from the beginning, which is the one of the progress; None for a tick without an instant.
    :param url: with user and password if the server wants them; that of the progress is without them.
    :param token: of a Bearer authorization; empty for none.
    :param on_wait: called with what is wrong, and the seconds until a message is sent again.
    :param done: called after each tick.
    """
    try:
        compress = snappy()
    except SnappyMissing as error:
        return SendEnd(0, str(error), "")

    def make(reactor: Any, over: Callable[[], None]) -> HistorySender:
        writer = RemoteWriter(url, reactor, random=random, token=token, on_wait=on_wait)
        return HistorySender(history, writer, compress, progress, reactor, over, done)

    try:
        sender, signal_name = run_task(make)
    except RemoteWriteError as error:
        return SendEnd(0, str(error), "")
    return SendEnd(sender.samples, sender.problem, signal_name)
