"""Limits how often the same entry is logged, so that a noisy peer fills nobody's disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twisted.internet.interfaces import IReactorTime
from twisted.logger import ILogObserver, LogEvent, LogLevel
from zope.interface import implementer

#: An entry may be logged this often in one span; then it is only counted.
MAX_REPEATS = 10
SPAN_SECONDS = 10.0
#: Old entries are forgotten beyond this number: kinds of entries are few, unless somebody's texts are formats.
MAX_KINDS = 1000

_Kind = tuple[Any, ...]


@dataclass
class _Span:
    """How often one kind of entry came in the span that runs."""

    began: float
    count: int = 0
    last: LogEvent | None = None


@implementer(ILogObserver)
class RepeatLimit:
    """Hands entries on, but of one kind at most so many in ten seconds; then one that says how many were left out.

    Entries are of one kind when their format, logger and level are the same. Those of level debug, and those with the
    field ``log_unlimited``, are all handed on: whoever asks for them wants them.
    """

    def __init__(
        self, observer: ILogObserver, clock: IReactorTime, most: int = MAX_REPEATS, seconds: float = SPAN_SECONDS
    ) -> None:
        self._observer = observer
        self._clock = clock
        self._most = most
        self._seconds = seconds
        self._spans: dict[_Kind, _Span] = {}

    def __call__(self, event: LogEvent) -> None:
        """Take one event (called by Twisted)."""
        if event.get("log_level") is LogLevel.debug or event.get("log_unlimited"):
            self._observer(event)
            return
        now = self._clock.seconds()
        kind = _kind_of(event)
        span = self._spans.get(kind)
        if span is None or now >= span.began + self._seconds:
            self._close(kind)
            self._forget_old(now)
            span = self._spans[kind] = _Span(now)
        span.count += 1
        if span.count <= self._most:
            self._observer(event)
            return
        if span.last is None:
            # The count must come out even when no such entry ever comes again.
            self._clock.callLater(span.began + self._seconds - now, self._close_span, kind, span)
        span.last = event

    def flush(self) -> None:
        """Say now what was left out (at the end of the program)."""
        for kind in list(self._spans):
            self._close(kind)

    def _close_span(self, kind: _Kind, span: _Span) -> None:
        if self._spans.get(kind) is span:
            self._close(kind)

    def _close(self, kind: _Kind) -> None:
        span = self._spans.pop(kind, None)
        if span is None or span.last is None:
            return
        summary = {name: value for name, value in span.last.items() if name not in ("log_failure", "failure")}
        summary["log_format"] = "... repeated {repeated} times in {seconds} s: " + (
            span.last.get("log_format") or "an entry without a text"
        )
        summary["repeated"] = span.count - self._most
        summary["seconds"] = round(self._clock.seconds() - span.began, 1)
        self._observer(summary)

    def _forget_old(self, now: float) -> None:
        if len(self._spans) < MAX_KINDS:
            return
        for kind, span in list(self._spans.items()):
            if now >= span.began + self._seconds or len(self._spans) >= MAX_KINDS:
                self._close(kind)


def _kind_of(event: LogEvent) -> _Kind:
    text = event.get("log_format")
    if event.get("log_namespace") == "log_legacy" or text == "{log_io}":
        # Twisted's older logging and print have one format for everything.
        text = event.get("log_text") or event.get("log_io")
    failure = event.get("log_failure")
    return (event.get("log_namespace"), event.get("log_level"), text, failure and getattr(failure, "type", None))
