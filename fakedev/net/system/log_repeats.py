"""Limits how often the same entry is logged, so that a noisy peer cannot fill the disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from twisted.internet.interfaces import IReactorTime
from twisted.logger import ILogObserver, LogEvent, LogLevel
from zope.interface import implementer

#: An entry is logged this often in one span; after that it is only counted.
MAX_REPEATS = 10
SPAN_SECONDS = 10.0
#: Beyond this number old kinds are dropped: there are few, unless texts from outside are used as formats.
MAX_KINDS = 1000

_Kind = tuple[Any, ...]


@dataclass
class _Span:
    """How often one kind of entry was logged in the current span.

    :param left_out: the first that was not logged.
    """

    began: float
    count: int = 0
    left_out: LogEvent | None = None


@implementer(ILogObserver)
@dataclass(eq=False)
class RepeatLimit:
    """Passes entries on, but of one kind at most ``most`` in ``seconds``; then one with the number of those left out.

    That one has the text of the first that was left out. Entries are of one kind when their format, logger and level
    are the same. Entries of level debug, and those with the field ``log_unlimited``, all pass.
    """

    observer: ILogObserver
    clock: IReactorTime
    most: int = MAX_REPEATS
    seconds: float = SPAN_SECONDS
    _spans: dict[_Kind, _Span] = field(default_factory=dict)

    def __call__(self, event: LogEvent) -> None:
        """Pass an event on, or count it (called by Twisted)."""
        if event.get("log_level") is LogLevel.debug or event.get("log_unlimited"):
            self.observer(event)
            return
        now = self.clock.seconds()
        kind = _kind_of(event)
        span = self._spans.get(kind)
        if span is None or now >= span.began + self.seconds:
            self._close(kind)
            self._forget_old(now)
            span = self._spans[kind] = _Span(now)
        span.count += 1
        if span.count <= self.most:
            self.observer(event)
            return
        if span.left_out is None:
            # The count must be logged even when no entry of this kind follows.
            self.clock.callLater(span.began + self.seconds - now, self._close_span, kind, span)
            span.left_out = event

    def flush(self) -> None:
        """Log now what was left out (at the end of the program)."""
        for kind in list(self._spans):
            self._close(kind)

    def _close_span(self, kind: _Kind, span: _Span) -> None:
        if self._spans.get(kind) is span:
            self._close(kind)

    def _close(self, kind: _Kind) -> None:
        span = self._spans.pop(kind, None)
        if span is None or span.left_out is None:
            return
        # The entry has fields of its own, {seconds} among them.
        summary = {name: value for name, value in span.left_out.items() if name not in ("log_failure", "failure")}
        summary["log_format"] = "... repeated {repeated} times in {repeated_seconds} s: " + (
            span.left_out.get("log_format") or "an entry without a text"
        )
        summary["log_time"] = self.clock.seconds()
        summary["repeated"] = span.count - self.most
        summary["repeated_seconds"] = round(self.clock.seconds() - span.began, 1)
        self.observer(summary)

    def _forget_old(self, now: float) -> None:
        if len(self._spans) < MAX_KINDS:
            return
        for kind, span in list(self._spans.items()):
            if now >= span.began + self.seconds or len(self._spans) >= MAX_KINDS:
                self._close(kind)


def _kind_of(event: LogEvent) -> _Kind:
    text = event.get("log_format")
    if event.get("log_namespace") == "log_legacy" or text == "{log_io}":
        # Twisted's older logging and print have one format for everything.
        text = event.get("log_text") or event.get("log_io")
    failure = event.get("log_failure")
    return (event.get("log_namespace"), event.get("log_level"), text, failure and getattr(failure, "type", None))
